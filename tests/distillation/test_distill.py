"""`litebert.distill` as a user calls it: any teacher, any text, rated pairs, and a folder that opens everywhere."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import litebert
from litebert.api import open_fuel, read_rated
from litebert.corpus.corpus import Corpus
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.inference.load import load
from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer
from litebert.training.job import RunResult
from litebert.training.run_folder import RunFolder
from tests.conftest import make_sentences, need
from tests.corpus.conftest import make_documents, write_documents
from tests.distillation.runs import BERT, make_teacher
from tests.parity.peers import open_in_transformers, quiet

SMALL: dict[str, Any] = {"steps": 4, "length": 32, "batch": 4, "precision": "fp32", "report": False}


@pytest.fixture(autouse=True, scope="module")
def hurry() -> Iterator[None]:
    """Do not measure the machine before each run."""
    with mock.patch("litebert.training.run.measure_rate", return_value=1e9):
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of text."""
    return write_documents(tmp_path_factory.mktemp("text") / "text.jsonl", make_documents(200))


@pytest.fixture(scope="module")
def teacher(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT whose layers can be cut into blocks."""
    return make_teacher(tmp_path_factory.mktemp("teacher") / "bert", small_tokenizer, num_layers=4, **BERT)


@pytest.fixture(scope="module")
def distilled(teacher: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run by the recipe, on a file of text."""
    return litebert.distill(teacher, text, tmp_path_factory.mktemp("distilled") / "run", **SMALL)


# --- the finished folder ----------------------------------------------------------------------------------------------


def test_transformers_gives_the_same_states(distilled: RunResult) -> None:
    peer = open_in_transformers(distilled.model)
    assert type(peer).__name__ == "AlbertModel"
    ids = torch.randint(5, 400, (4, 30), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        ours = Model.from_pretrained(distilled.folder)(ids).last_hidden_state
        assert (peer(ids).last_hidden_state - ours).abs().max() <= 1e-5


def test_sentence_transformers_gives_the_same_vectors(distilled: RunResult) -> None:
    library = need("sentence_transformers")
    texts = [sentence[:60] for sentence in make_sentences(30, seed=4)]
    with quiet():
        theirs = library.SentenceTransformer(str(distilled.model), device="cpu").encode(texts)
    ours = load(distilled.folder).embed(texts)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)


def test_the_folder_says_what_it_learnt_from_whom(distilled: RunResult, teacher: Path) -> None:
    assert (distilled.status, distilled.step) == ("finished", 4)
    assert "finished at step 4" in repr(distilled)
    assert "agreement" in repr(distilled)
    card = (distilled.model / "README.md").read_text(encoding="utf-8")
    for words in ("## Distillation", "| teacher | bert,", "tokens without labels", "## Depths", "| steps | 4,"):
        assert words in card, words
    about = RunFolder(distilled.folder).read_about()
    assert about["kind"] == "litebert distillation"
    assert about["teacher"]["folder"] == str(teacher.resolve())
    assert about["corpus"]["train_tokens"] > 0
    assert about["parameters"] < about["teacher"]["parameters"]


def test_the_student_can_be_a_teacher_and_be_fine_tuned(distilled: RunResult, text: Path, tmp_path: Path) -> None:
    again = litebert.distill(distilled.folder, text, tmp_path / "again", **SMALL)
    assert again.metrics["agreement"] > 0.9  # it begins as its teacher
    (tmp_path / "own.csv").write_text("text,label\n" + "a river,wet\na stone,dry\n" * 8)
    settings: dict[str, Any] = {"steps": 2, "report": False, "set": ["train.precision=fp32"]}
    tuned = litebert.finetune(tmp_path / "own.csv", model=distilled.folder, out=tmp_path / "tuned", **settings)
    assert tuned.status == "finished"


# --- teachers ---------------------------------------------------------------------------------------------------------


def edit_config(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, **changes}))
    (folder / "manifest.json").unlink()


def cut_weights(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "of a foreign family": (lambda folder: edit_config(folder, model_type="roberta"), "roberta"),
    "with weights cut short": (cut_weights, "model.safetensors is damaged"),
    "without weights": (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
    "without configuration": (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
    "of impossible size": (lambda folder: edit_config(folder, num_hidden_layers=-1), "config.json"),
    "with code": (lambda folder: (folder / "model.py").write_text("boo"), "could hold code"),
    "not there": (shutil.rmtree, "there is no folder"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_teacher_is_refused_before_any_text_is_cut(name: str, bert: Path, text: Path, tmp_path: Path) -> None:
    (damage, words), teacher = BROKEN[name], shutil.copytree(bert, tmp_path / "teacher")
    damage(teacher)
    refuse(words, teacher, text, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("teacher", "words"), [("albert-base", "a preset that has learnt nothing"), ("./nobody", "there is no folder")]
)
def test_a_teacher_that_knows_nothing_is_refused(teacher: str, words: str, text: Path, tmp_path: Path) -> None:
    refuse(words, teacher, text, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_teacher_with_flipped_bits_or_no_tokenizer_is_refused(
    bert: Path, small_corpus: Corpus, text: Path, tmp_path: Path
) -> None:
    flipped = shutil.copytree(bert, tmp_path / "flipped")
    data = bytearray((flipped / "model.safetensors").read_bytes())
    data[-100] ^= 4
    (flipped / "model.safetensors").write_bytes(data)
    refuse("model.safetensors", flipped, small_corpus, tmp_path / "run")
    dumb = shutil.copytree(bert, tmp_path / "dumb")
    for file in ("tokenizer.json", "spiece.model"):
        (dumb / file).unlink()
    refuse("has no tokenizer", dumb, text, tmp_path / "other")


def refuse(words: str, teacher: object, text: object, out: Path, **options: Any) -> None:
    with pytest.raises(LitebertError) as caught:
        litebert.distill(teacher, text, out, **{**SMALL, **options})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert words in str(caught.value), caught.value


# --- text -------------------------------------------------------------------------------------------------------------


def test_text_is_prepared_once(distilled: RunResult, teacher: Path, tmp_path: Path) -> None:
    out = shutil.copytree(distilled.folder, tmp_path / "run")
    manifest = out / "corpus" / "manifest.json"
    before = (manifest.read_bytes(), manifest.stat().st_mtime_ns)
    messages: list[str] = []
    settings: dict[str, Any] = {"resume": True, "report": False, "on_message": messages.append}
    again = litebert.distill(teacher, tmp_path / "gone.jsonl", out, **settings)
    assert again.status == "finished"
    assert (manifest.read_bytes(), manifest.stat().st_mtime_ns) == before
    assert messages == ["went on from step 4 with 1 process"]


def test_a_corpus_is_read_where_it_lies(small_corpus: Corpus, bert: Path, tmp_path: Path) -> None:
    assert open_fuel(small_corpus, bert, tmp_path / "run") is small_corpus
    assert open_fuel(small_corpus.folder, bert, tmp_path / "run").folder == small_corpus.folder
    assert not (tmp_path / "run").exists()


def test_text_comes_from_several_files_and_any_column(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text("body,stars\n" + "\n".join(f"{text},3" for text in SIMPLE))
    (tmp_path / "more.txt").write_text("\n\n".join(make_documents(60, seed=8)), encoding="utf-8")
    messages: list[str] = []
    sources = [tmp_path / "some.csv", tmp_path / "more.txt"]
    corpus = open_fuel(sources, bert, tmp_path / "run", column="body", on_message=messages.append)
    assert corpus.folder == tmp_path / "run" / "corpus"
    assert messages == ["cutting the text into word pieces"]
    assert corpus.manifest["counts"]["documents_read"] > 60


SIMPLE = [f"number {number} crossed the river with two sailors" for number in range(40)]


def test_text_in_word_pieces_of_its_own(
    bert: Path, text: Path, other_tokenizer: Tokenizer, other_corpus: Corpus, tmp_path: Path
) -> None:
    other_tokenizer.save_pretrained(tmp_path / "pieces")
    run = litebert.distill(bert, text, tmp_path / "run", tokenizer=tmp_path / "pieces", **SMALL)
    assert load(run.folder).tokenizer.vocab_size == 300
    assert Model.read_config(run.folder).vocab_size == 300
    # A corpus brings its own; another one must not be named beside it.
    assert litebert.distill(bert, other_corpus, tmp_path / "with-corpus", **SMALL).status == "finished"
    refuse("prepared with another tokenizer", bert, other_corpus, tmp_path / "no", tokenizer=bert)
    # Text that a run has prepared is not taken for a teacher with other pieces.
    with pytest.raises(FolderError, match="prepared with another tokenizer"):
        litebert.distill(bert, text, tmp_path / "run", resume=True, report=False)
    options: dict[str, Any] = {"resume": True, "report": False}
    again = litebert.distill(bert, text, tmp_path / "run", tokenizer=tmp_path / "pieces", **options)
    assert again.status == "finished"


def test_a_folder_with_something_else_is_left_alone(bert: Path, text: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refuse("is not empty and holds no run", bert, text, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_many_processes_need_a_corpus(bert: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(RequestError, match="run `litebert prepare` first"):
        open_fuel(text, bert, tmp_path / "run")


def test_text_that_is_not_there_is_named(bert: Path, tmp_path: Path) -> None:
    refuse("nothing.txt cannot be read", bert, tmp_path / "nothing.txt", tmp_path / "run")


# --- rated pairs ------------------------------------------------------------------------------------------------------

PAIRS = [("a man sleeps", "someone is asleep", 4.5), ("two cats", "the price of oil", 0.0), ("rain", "it rains", 3.75)]
STS_B = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"


def write_rated(folder: Path, layout: str) -> Path:
    """The three pairs, in one of the layouts that are known."""
    if layout == "STS-B":
        (folder / "STS-B").mkdir()
        rows = [f"{i}\tnews\tx\t2012\t1\tnone\tnone\t{a}\t{b}\t{score}\n" for i, (a, b, score) in enumerate(PAIRS)]
        (folder / "STS-B" / "dev.tsv").write_text(STS_B + "".join(rows))
        return folder / "STS-B"
    if layout == "own":
        (folder / "own.csv").write_text("text,pair,label\n" + "".join(f"{a},{b},{score}\n" for a, b, score in PAIRS))
        return folder / "own.csv"
    lines = [{"sentence1": a, "sentence2": b, "score": score, "genre": "news"} for a, b, score in PAIRS]
    (folder / "stsb.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "stsb.jsonl"


@pytest.mark.parametrize("layout", ["STS-B", "own", "sentence1, sentence2, score"])
def test_rated_pairs_are_read_in_every_layout(layout: str, tmp_path: Path) -> None:
    rated = read_rated(write_rated(tmp_path, layout))
    assert [*zip(rated.first, rated.second, rated.scores, strict=True)] == PAIRS


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("alone.csv", "text,label\na,1.5\nb,2.5\n", "pair"),
        ("empty.csv", "text,pair,label\n", "no examples"),
        ("one.csv", "text,pair,label\na,b,1.5\n", "no pairs of texts with scores"),
        ("labels.csv", "text,pair,label\na,b,good\nc,d,bad\n", "labels.csv"),
        ("notes.txt", "a text\n", "suffix"),
        ("missing.csv", None, "missing.csv"),
        ("folder", "", "dev.tsv"),
    ],
)
def test_what_holds_no_rated_pairs_is_said_in_a_sentence(
    name: str, content: str | None, words: str, tmp_path: Path
) -> None:
    if name == "folder":
        (tmp_path / name).mkdir()
    elif content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(LitebertError) as caught:
        read_rated(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert words in str(caught.value), caught.value


def test_vectors_are_measured_by_rated_pairs(bert: Path, small_corpus: Corpus, tmp_path: Path) -> None:
    rated = write_rated(tmp_path, "own")
    result = litebert.distill(bert, small_corpus, tmp_path / "run", rated=rated, **SMALL)
    assert -1 <= result.metrics["sts"] <= 1
    assert "(Pearson)" in (result.model / "README.md").read_text(encoding="utf-8")


def test_a_student_of_another_width(small_tokenizer: Tokenizer, small_corpus: Corpus, tmp_path: Path) -> None:
    wide = make_teacher(tmp_path / "wide", small_tokenizer, hidden_size=36, intermediate_size=72)
    messages: list[str] = []
    settings = ["model.hidden_size=24", "model.num_heads=3"]
    litebert.distill(wide, small_corpus, tmp_path / "run", set=settings, on_message=messages.append, **SMALL)
    assert "the student has another width than its teacher: similarities alone are taught" in messages
    assert load(tmp_path / "run").embed("a text").shape == (24,)
