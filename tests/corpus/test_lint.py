"""Lint finds what is wrong with what a model is fed: each fault is planted, and found."""

import dataclasses
import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from litebert.batch import NO_LABEL, Batch
from litebert.corpus.corpus import TRAIN, Corpus
from litebert.corpus.lint import (
    Finding,
    Measures,
    Report,
    examine,
    lint,
    make_findings,
    show_sequence,
    unpack_sequences,
)
from litebert.corpus.stream import BatchStream, StreamConfig
from litebert.text.tokenizer import Tokenizer
from tests.commands import run
from tests.corpus.conftest import make_documents, prepare_documents

CONFIG = StreamConfig(length=96)


def bad(report: Report) -> set[str]:
    """Names of the bad findings, which all say what to do."""
    assert all(finding.advice for finding in report.findings if finding.verdict != "good")
    return {finding.name for finding in report.findings if finding.verdict == "bad"}


@pytest.fixture(scope="module")
def large_corpus(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("large") / "corpus"
    return prepare_documents(folder, make_documents(5000, seed=8), small_tokenizer)


@pytest.mark.parametrize("pairs", ["sop", "nsp", "none"])
@pytest.mark.parametrize("packing", [True, False])
def test_our_own_stream_is_good(large_corpus: Corpus, pairs: str, packing: bool) -> None:
    report = lint(large_corpus, StreamConfig(length=96, pairs=pairs, packing=packing))  # type: ignore[arg-type]
    assert bad(report) == set()
    assert report.measures.mask_rate == pytest.approx(0.15, abs=0.003)
    assert report.measures.torn_words == 0
    assert len(report.examples) == 12
    if pairs == "sop":
        assert report.measures.mixed_documents == 0
        assert report.measures.border_accuracy == pytest.approx(0.5, abs=0.02)


def sentences_of(corpus: Corpus) -> Iterator[list[list[int]]]:
    for shard in corpus.shards[TRAIN]:
        for number in range(shard.document_ends.size):
            yield [sentence.tolist() for sentence in shard.document(number)]


def make_batch(rows: list[tuple[list[int], list[int], int]], tokenizer: Tokenizer, length: int) -> Batch:
    """A batch of pairs, made by hand, with 15 % of single tokens masked."""
    generator = np.random.default_rng(len(rows))
    shape = (len(rows), length)
    ids, mask = np.full(shape, tokenizer.pad_id), np.zeros(shape, np.int64)
    positions, labels = np.full((len(rows), length), -1), np.full((len(rows), length), NO_LABEL)
    for row, (first, second, _) in enumerate(rows):
        line = [tokenizer.cls_id, *first, tokenizer.sep_id, *second, tokenizer.sep_id]
        ids[row, : len(line)], mask[row, : len(line)] = line, 1
        places = [i for i in range(1, len(line) - 1) if i != len(first) + 1 and generator.random() < 0.15]
        positions[row, : len(places)], labels[row, : len(places)] = places, [line[i] for i in places]
        ids[row, places] = tokenizer.mask_id
    return Batch(
        input_ids=torch.from_numpy(ids),
        attention_mask=torch.from_numpy(mask),
        masked_positions=torch.from_numpy(positions),
        masked_labels=torch.from_numpy(labels),
        sentence_labels=torch.tensor([label for _, _, label in rows]),
    )


def truncated_pairs(corpus: Corpus, length: int) -> Iterator[Batch]:
    """What a careless script makes: sentences beyond the length, their end cut off, then half of the pairs swapped."""
    generator = random.Random(0)
    rows = []
    for sentences in sentences_of(corpus):
        room = length - 3
        while len(sentences) > 1:
            taken = 2
            while taken < len(sentences) and sum(map(len, sentences[:taken])) < room:
                taken += 1
            cut = generator.randint(1, taken - 1)
            first = [token for sentence in sentences[:cut] for token in sentence][: room - 1]
            second = [token for sentence in sentences[cut:taken] for token in sentence][: room - len(first)]
            swapped = generator.random() < 0.5
            rows.append((second, first, 1) if swapped else (first, second, 0))
            sentences = sentences[taken:]
    for begin in range(0, len(rows), 64):
        yield make_batch(rows[begin : begin + 64], corpus.tokenizer, length)


def test_labels_that_can_be_read_off_the_borders(large_corpus: Corpus) -> None:
    report = examine(truncated_pairs(large_corpus, 96), large_corpus, "sop")
    assert "borders" in bad(report)
    assert report.measures.border_accuracy is not None
    assert report.measures.border_accuracy > 0.6
    assert "n-grams" in bad(report)  # single tokens were masked, and words torn


def test_a_masking_rate_of_four_percent(large_corpus: Corpus) -> None:
    report = lint(large_corpus, StreamConfig(length=96, mask_rate=0.04))
    assert bad(report) == {"mask rate"}
    assert report.measures.mask_rate == pytest.approx(0.04, abs=0.002)


def test_nsp_that_leaks_into_sop(large_corpus: Corpus) -> None:
    """Google's way with single sentences: a segment of another document, labelled as swapped."""
    stream = BatchStream(large_corpus, StreamConfig(length=96, pairs="nsp"))
    report = examine(stream.epoch(64), large_corpus, "sop")
    assert bad(report) == {"documents"}
    assert report.measures.mixed_documents == pytest.approx(0.5, abs=0.05)


def test_a_stream_with_one_label(large_corpus: Corpus) -> None:
    def one_label() -> Iterator[Batch]:
        for batch in BatchStream(large_corpus, CONFIG).epoch(64):
            assert batch.sentence_labels is not None
            labels = torch.where(batch.sentence_labels == NO_LABEL, NO_LABEL, 0)
            yield dataclasses.replace(batch, sentence_labels=labels)

    assert bad(examine(one_label(), large_corpus, "sop")) == {"labels", "borders"}


def test_a_corpus_of_single_sentences_has_no_labels(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    documents = [f"Nobody remembered number {number}." for number in range(500)]
    report = lint(prepare_documents(tmp_path / "c", documents, small_tokenizer), CONFIG)
    assert bad(report) == {"labels"}
    assert report.measures.num_pairs == 0


def test_duplicated_documents(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    documents = make_documents(700, seed=3)
    repeated = documents + documents[:300]
    corpus = prepare_documents(tmp_path / "c", repeated, small_tokenizer, deduplicate=False)
    report = lint(corpus, CONFIG)
    assert bad(report) == {"duplicates"}
    assert report.measures.duplicates == pytest.approx(0.3, abs=0.02)
    mended = prepare_documents(tmp_path / "d", repeated, small_tokenizer)
    assert lint(mended, CONFIG).measures.duplicates == 0


def test_duplicates_are_found_beyond_the_shards_that_are_looked_at(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    documents = make_documents(700, seed=3)
    corpus = prepare_documents(
        tmp_path / "c", documents + documents[:300], small_tokenizer, deduplicate=False, shard_tokens=5000
    )
    assert len(corpus.shards[TRAIN]) > 12
    assert lint(corpus, CONFIG).measures.duplicates == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("documents", [["One."], ["A! B!"], make_documents(25, seed=6)], ids=["one", "short", "few"])
def test_little_text_is_no_fault(small_tokenizer: Tokenizer, tmp_path: Path, documents: list[str]) -> None:
    corpus = prepare_documents(tmp_path / "c", documents, small_tokenizer, held_out=0.0)
    report = lint(corpus, CONFIG, num_sequences=100)
    assert bad(report) <= {"labels"}
    assert report.examples


def test_text_that_the_tokenizer_does_not_know(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    documents = [f"Слово {number} было там. Потом другое." for number in range(300)]
    report = lint(prepare_documents(tmp_path / "c", documents, small_tokenizer), CONFIG)
    assert "unknown" in bad(report)


def test_replacements_that_are_not_80_10_10(large_corpus: Corpus) -> None:
    def all_masks() -> Iterator[Batch]:
        for batch in BatchStream(large_corpus, CONFIG).epoch(64):
            ids = torch.where(batch.token_labels() != NO_LABEL, large_corpus.tokenizer.mask_id, batch.input_ids)
            yield dataclasses.replace(batch, input_ids=ids)

    assert bad(examine(all_masks(), large_corpus, "sop")) == {"80/10/10"}


def test_examples_show_what_is_hidden(small_corpus: Corpus) -> None:
    tokenizer = small_corpus.tokenizer
    for sequence in list(unpack_sequences(BatchStream(small_corpus, CONFIG).epoch(8), tokenizer.sep_id))[:50]:
        text = show_sequence(sequence, tokenizer)
        assert text.startswith("[CLS]")
        assert text.endswith("[SEP]")
        assert text.count("⟦") == int(sequence.masked.sum())
        hidden = re.sub(r"⟦([^⟧]*?)(=|→[^⟧]*)?⟧", r"\1", text.replace("[CLS]", "").replace("[SEP]", ""))
        assert hidden.replace(" ", "").replace("▁", "") == tokenizer.decode(sequence.original.tolist()).replace(" ", "")


def test_the_command(small_corpus: Corpus, tmp_path: Path, small_tokenizer: Tokenizer) -> None:
    good = run("lint", small_corpus.folder, "--length", "96")
    assert good.returncode == 0, good.stdout + good.stderr
    assert "Nothing is wrong" in good.stdout
    failing = run("lint", small_corpus.folder, "--length", "96", "--mask-rate", "0.04")
    assert failing.returncode == 1
    assert "Bad: mask rate." in failing.stdout
    small_tokenizer.write_files(tmp_path)
    (tmp_path / "spiece.model").write_bytes(b"another")
    other = run("lint", small_corpus.folder, "--tokenizer", str(tmp_path))
    assert other.returncode == 1
    assert other.stderr.startswith("litebert: ")
    assert "another tokenizer" in other.stderr
    missing = run("lint", str(tmp_path / "nothing"))
    assert missing.returncode == 1
    assert missing.stderr.count("\n") == 1


GOOD = Measures(
    num_sequences=20_000,
    num_pairs=18_000,
    num_masked=100_000,
    mask_rate=0.15,
    run_lengths={1: 0.55, 2: 0.27, 3: 0.18},
    torn_words=0.0,
    shown={"mask": 0.8, "random": 0.1, "same": 0.1},
    swapped=0.5,
    mixed_documents=0.0,
    border_accuracy=0.5,
    lengths=[20, 60, 90, 96, 96],
    padding=0.01,
    unknown_rate=0.0,
    duplicates=0.0,
    scripts={"LATIN": 1.0},
)


def findings(**measures: object) -> dict[str, Finding]:
    changed = dataclasses.replace(GOOD, **measures)  # type: ignore[arg-type]
    return {finding.name: finding for finding in make_findings(changed, "sop")}


@pytest.mark.parametrize(
    ("name", "measures", "verdict"),
    [
        ("mask rate", {"mask_rate": 0.2}, "look"),
        ("mask rate", {"mask_rate": 0.5}, "bad"),
        ("mask rate", {"mask_rate": 0.0, "num_masked": 0, "num_sequences": 10}, "look"),
        ("n-grams", {"torn_words": 0.01}, "bad"),
        ("n-grams", {"run_lengths": {1: 1.0}}, "look"),
        ("80/10/10", {"shown": {"mask": 1.0, "random": 0.0, "same": 0.0}}, "bad"),
        ("80/10/10", {"num_masked": 20}, "look"),
        ("labels", {"swapped": 0.6}, "bad"),
        ("labels", {"num_pairs": 0, "border_accuracy": None}, "bad"),
        ("labels", {"num_pairs": 2_000}, "look"),
        ("documents", {"mixed_documents": 0.02}, "bad"),
        ("documents", {"mixed_documents": None}, "look"),
        ("borders", {"border_accuracy": 0.6}, "bad"),
        ("borders", {"border_accuracy": None}, "look"),
        ("lengths", {"padding": 0.5}, "look"),
        ("unknown", {"unknown_rate": 0.01}, "look"),
        ("unknown", {"unknown_rate": 0.2}, "bad"),
        ("duplicates", {"duplicates": 0.05}, "look"),
        ("duplicates", {"duplicates": 0.5}, "bad"),
    ],
)
def test_each_measure_has_its_limits(name: str, measures: dict[str, object], verdict: str) -> None:
    assert all(finding.verdict == "good" and finding.message and not finding.advice for finding in findings().values())
    found = findings(**measures)
    assert found[name].verdict == verdict
    assert found[name].advice
    report = Report(list(found.values()), GOOD, [])
    assert report.verdict == max((it.verdict for it in found.values()), key=["good", "look", "bad"].index)
    assert report.as_json()["verdict"] == report.verdict


def test_nothing_is_said_about_pairs_where_there_are_none() -> None:
    names = {finding.name for finding in make_findings(dataclasses.replace(GOOD, num_pairs=0), "none")}
    assert not names & {"labels", "documents", "borders"}
