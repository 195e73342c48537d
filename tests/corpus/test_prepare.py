"""Preparation: the same bytes from any workers, after any kill; duplicates, held-out documents, and faults."""

import csv
import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from litebert.corpus import prepare as preparation
from litebert.corpus import runners
from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
from litebert.corpus.duplicates import DigestSet
from litebert.corpus.prepare import PrepareConfig, prepare
from litebert.errors import LitebertError, RequestError
from litebert.text.sources import Reader, ReadOptions, find_sources
from litebert.text.tokenizer import Tokenizer
from tests.conftest import need
from tests.corpus.conftest import make_documents, prepare_documents, write_documents
from tests.corpus.oracle import PlainPreparation

SETTINGS = PrepareConfig(shard_tokens=40_000, held_out=0.03)


def fingerprint(folder: Path) -> dict[str, str]:
    """Hashes of all files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 MB of documents, a fifth of them repeated: some chunks, some shards."""
    documents = make_documents(6000, seed=5)
    return write_documents(tmp_path_factory.mktemp("source") / "text.jsonl", documents + documents[::5])


@pytest.fixture(scope="module")
def tokenizer_folder(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    small_tokenizer.write_files(folder)
    return folder


def run(source: Path, tokenizer: Tokenizer, out: Path, **arguments: object) -> Path:
    prepare(Reader(find_sources([str(source)])), tokenizer, out, SETTINGS, **arguments)  # type: ignore[arg-type]
    return out


@pytest.fixture(scope="module")
def expected(source: Path, small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one uninterrupted process makes."""
    return fingerprint(run(source, small_tokenizer, tmp_path_factory.mktemp("expected") / "corpus"))


@pytest.mark.parametrize("num_workers", [2, 4])
def test_any_number_of_workers_gives_the_same_bytes(
    source: Path, small_tokenizer: Tokenizer, expected: dict[str, str], tmp_path: Path, num_workers: int
) -> None:
    assert len(expected) > 8
    assert fingerprint(run(source, small_tokenizer, tmp_path / "c", num_workers=num_workers)) == expected


def test_the_same_bytes_although_a_worker_dies(
    source: Path, small_tokenizer: Tokenizer, expected: dict[str, str], tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill(_: object) -> None:
        children = [child for child in need("psutil").Process().children() if child.pid not in killed]
        workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        if workers and len(killed) < 2:
            killed.append(workers[-1].pid)
            workers[-1].kill()

    assert fingerprint(run(source, small_tokenizer, tmp_path / "c", num_workers=2, on_progress=kill)) == expected
    assert len(killed) == 2


@pytest.fixture(scope="module")
def many_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files of many kinds, small and large; many documents stand in several of them."""
    folder = tmp_path_factory.mktemp("many")
    texts = make_documents(900, seed=9)
    texts[7] = "\u0301 \u0301. ☃ 雪"  # marks alone become nothing, and the snowman is unknown
    write_documents(folder / "a.jsonl", texts[:300] + texts[100:200])
    (folder / "b.jsonl.gz").write_bytes(gzip.compress((folder / "a.jsonl").read_bytes()))
    with (folder / "c.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([text.replace(". ", ".\n")] for text in texts[250:400])])
    (folder / "d").mkdir()
    for number, text in enumerate(texts[350:500]):
        (folder / "d" / f"{number:03d}.txt").write_text(text, encoding="utf-8")
    (folder / "e.txt").write_text("\n\n".join(texts[450:600] + texts[:50]), encoding="utf-8")
    (folder / "f.txt.gz").write_bytes(gzip.compress("\n \n".join(texts[550:700]).encode()))
    (folder / "g.json").write_text(json.dumps([{"text": text} for text in texts[650:800]]), encoding="utf-8")
    (folder / "h.tsv").write_text("\n".join(["text\tn", *(f"{text}\t1" for text in texts[750:])]), encoding="utf-8")
    (folder / "i.txt").write_text("\n".join(texts), encoding="utf-8")  # one long document, in parts
    return folder


@pytest.mark.parametrize(
    "settings",
    [{}, pytest.param({"deduplicate": False}, marks=pytest.mark.soak), {"held_out": 0.0, "shard_tokens": 3000}],
)
def test_sources_of_many_kinds_become_what_a_plain_version_makes_of_them(
    many_kinds: Path, small_tokenizer: Tokenizer, tmp_path: Path, settings: dict[str, object]
) -> None:
    config = PrepareConfig(**{"shard_tokens": 20_000, "held_out": 0.1, **settings})  # type: ignore[arg-type]
    options = ReadOptions(max_document_chars=3_000)
    sources = find_sources([str(many_kinds)])
    (tmp_path / "plain").mkdir()
    plain = PlainPreparation(small_tokenizer, config, tmp_path / "plain")
    plain.run(Reader(sources, options))
    assert len(plain.shards[TRAIN]) > 4
    assert plain.counts["unknown_tokens"] > 0
    manifests = []
    for num_workers in (1, 2, 3):
        out = tmp_path / str(num_workers)
        prepare(Reader(sources, options), small_tokenizer, out, config, num_workers)
        manifests.append((out / "manifest.json").read_text(encoding="utf-8"))
        Corpus.open(out)
    manifest = json.loads(manifests[0])
    assert manifest["splits"] == plain.shards
    assert manifest["counts"] == {
        "bad_records": 0,
        "duplicates": 0,
        **plain.counts,
        "scripts": dict(sorted(plain.scripts.items())),
    }
    assert manifests == manifests[:1] * 3


def test_an_interrupted_preparation_goes_on_with_any_number_of_workers(
    many_kinds: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    config = PrepareConfig(shard_tokens=5_000, held_out=0.1)
    sources = find_sources([str(many_kinds)])
    prepare(Reader(sources), small_tokenizer, tmp_path / "whole", config)
    out = tmp_path / "c"
    num_shards = 0

    def stop(_: object) -> None:
        nonlocal num_shards
        if len(list(out.glob("train-*.shard"))) >= num_shards + 4:
            num_shards += 4
            raise StoppedError

    for num_workers in (1, 2, 3, 1):
        with pytest.raises(StoppedError):
            prepare(Reader(sources), small_tokenizer, out, config, num_workers, on_progress=stop)
    prepare(Reader(sources), small_tokenizer, out, config, 2)
    assert num_shards == 16
    assert fingerprint(out) == fingerprint(tmp_path / "whole")


def test_documents_that_are_known_are_not_encoded_again(
    source: Path, small_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither are duplicates, where one process does all, nor what an earlier run has written."""
    encoded: list[str] = []
    encode = preparation._encode

    def count(tokenizer: Tokenizer, texts: list[str]) -> object:
        encoded.extend(filter(None, texts))
        return encode(tokenizer, texts)

    monkeypatch.setattr(preparation, "_encode", count)
    run(source, small_tokenizer, tmp_path / "whole")
    assert len(encoded) == len(set(encoded)) == 6000
    interrupt(source, small_tokenizer, tmp_path / "c")
    encoded.clear()
    run(source, small_tokenizer, tmp_path / "c")
    assert 4000 < len(encoded) == len(set(encoded)) < 5900
    assert fingerprint(tmp_path / "c") == fingerprint(tmp_path / "whole")


def test_a_unit_that_holds_more_than_it_seems_is_taken_in_pieces(
    source: Path, small_tokenizer: Tokenizer, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "text.json.gz"  # small on disk, so that a worker has to read it as a whole
    texts = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    packed.write_bytes(gzip.compress(json.dumps(texts).encode()))
    monkeypatch.setattr("litebert.text.units._TABLE_UNITS", 1000)
    sizes: list[int] = []
    encode = preparation._encode_documents

    def measure(job: object, documents: list[tuple[str, int]], *arguments: object, **more: object) -> object:
        sizes.append(sum(len(text) for text, _ in documents))
        return encode(job, documents, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(preparation, "_encode_documents", measure)
    prepare(
        Reader(find_sources([str(packed)]), ReadOptions(max_document_chars=50_000)),
        small_tokenizer,
        tmp_path / "c",
        SETTINGS,
    )
    assert fingerprint(tmp_path / "c") == expected
    assert len(sizes) > 50
    assert max(sizes) < 50_000


@pytest.mark.parametrize("workers_see_files", [True, False])
def test_a_cluster_gives_the_same_bytes_although_a_worker_dies(
    source: Path,
    small_tokenizer: Tokenizer,
    expected: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers_see_files: bool,
) -> None:
    if not workers_see_files:
        monkeypatch.setattr(runners._OnCluster, "can_read", lambda *_: False)
    local_cluster = need("distributed").LocalCluster
    with local_cluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster:
        killed: list[int] = []

        def kill(_: object) -> None:
            if not killed:
                killed.append(next(worker.pid for worker in cluster.workers.values()))
                os.kill(killed[0], signal.SIGKILL)

        address = cluster.scheduler_address
        assert (
            fingerprint(run(source, small_tokenizer, tmp_path / "c", scheduler=address, on_progress=kill)) == expected
        )
        assert killed


def command(source: Path, tokenizer: Path, out: Path, workers: int) -> list[str]:
    options = [
        "--tokenizer",
        tokenizer,
        "--out",
        out,
        "--workers",
        workers,
        "--shard-tokens",
        40_000,
        "--held-out",
        0.03,
    ]
    return [sys.executable, "-m", "litebert", "prepare", *map(str, [source, *options])]


def kill_and_go_on(source: Path, tokenizer: Path, out: Path, workers: int, num_shards: int) -> bool:
    """Kill preparation when it has so many shards, then run it to its end; whether the kill came in time."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command(source, tokenizer, out, workers), **quiet)  # type: ignore[call-overload]
    while process.poll() is None and not out.exists():
        time.sleep(0.001)
    while process.poll() is None and len(list(out.glob("train-*.shard"))) < num_shards:
        time.sleep(0.002)
    process.kill()
    was_killed = process.wait() == -signal.SIGKILL
    finished = subprocess.run(command(source, tokenizer, out, workers), capture_output=True, text=True)
    assert finished.returncode == (0 if was_killed else 1), finished.stderr
    return was_killed


def test_a_killed_preparation_goes_on(
    source: Path, tokenizer_folder: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    for num_shards in (0, 2):  # while the tokenizer is being written, and in the middle
        out = tmp_path / str(num_shards)
        assert kill_and_go_on(source, tokenizer_folder, out, 1, num_shards)
        assert fingerprint(out) == expected


@pytest.mark.soak
def test_preparations_killed_twenty_times(
    source: Path, tokenizer_folder: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    equal = num_killed = 0
    for number in range(20):
        out = tmp_path / str(number)
        num_killed += kill_and_go_on(source, tokenizer_folder, out, 1 + number % 2, number % 5)
        equal += fingerprint(out) == expected
    print(f"preparations killed with SIGKILL: {num_killed}; continued to the same bytes: {equal}/20")
    assert equal == 20
    assert num_killed >= 18


@pytest.mark.soak
def test_workers_killed_twenty_times(
    source: Path, tokenizer_folder: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    """Row 11 of the faults."""
    equal = num_killed = 0
    for number in range(20):
        out = tmp_path / str(number)
        process = need("psutil").Popen(
            command(source, tokenizer_folder, out, 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and len(list(out.glob("train-*.shard*"))) < 1 + number % 3:
            time.sleep(0.002)
        workers = [child for child in process.children() if "spawn_main" in " ".join(child.cmdline())]
        if workers:
            workers[number % len(workers)].kill()
            num_killed += 1
        assert process.wait() == 0
        equal += fingerprint(out) == expected
    print(f"workers killed: {num_killed}; preparations with the same bytes: {equal}/20")
    assert equal == 20
    assert num_killed >= 15


def test_duplicates_and_empty_documents_are_dropped(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    documents = make_documents(50)
    corpus = prepare_documents(
        tmp_path / "c", [*documents, "", *documents[:20], f"  {documents[3]}\n"], small_tokenizer, held_out=0.0
    )
    assert corpus.manifest["counts"]["duplicates"] == 21
    assert sum(shard.document_ends.size for shard in corpus.shards[TRAIN]) == 50
    kept = prepare_documents(tmp_path / "k", documents * 2, small_tokenizer, held_out=0.0, deduplicate=False)
    assert kept.num_tokens() == 2 * corpus.num_tokens()


def test_the_set_of_digests_is_a_set() -> None:
    generator = np.random.default_rng(1)
    values = generator.integers(0, 1 << 64, 150_000, dtype=np.uint64)
    digests, plain = DigestSet(), set[int]()
    stream = np.concatenate([values, values[::7], values[:50], values[:50]])
    at = 0
    while at < stream.size:
        batch = stream[at : at + int(generator.integers(0, 3000))]
        at += batch.size
        assert digests.find(batch).tolist() == [value in plain for value in batch.tolist()]
        is_new = []
        for value in batch.tolist():
            is_new.append(value not in plain)
            plain.add(value)
        assert digests.add_all(batch).tolist() == is_new
    assert len(digests) == len(plain) == 150_000


def test_documents_are_held_out_by_their_hash(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    documents = make_documents(2000)
    corpus = prepare_documents(tmp_path / "a", documents, small_tokenizer, held_out=0.1)
    counts = {split: sum(shard.document_ends.size for shard in corpus.shards[split]) for split in (TRAIN, HELD_OUT)}
    assert counts[TRAIN] + counts[HELD_OUT] == 2000
    assert 150 < counts[HELD_OUT] < 250

    def held_out(corpus: Corpus) -> set[bytes]:
        shards = corpus.shards[HELD_OUT]
        return {np.concatenate(s.document(i)).tobytes() for s in shards for i in range(s.document_ends.size)}

    # The side of a document depends on nothing but its text.
    backwards = prepare_documents(tmp_path / "b", documents[::-1][:1500], small_tokenizer, held_out=0.1)
    assert held_out(backwards) < held_out(corpus)


def test_parts_of_a_long_document_lie_on_one_side(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    texts = [" ".join(f"Number {number} was there, {i} times." for i in range(200)) for number in range(100, 160)]
    source = write_documents(tmp_path / "long.jsonl", texts)
    reader = Reader(find_sources([str(source)]), ReadOptions(max_document_chars=1000))
    prepare(reader, small_tokenizer, tmp_path / "c", PrepareConfig(held_out=0.4))
    corpus = Corpus.open(tmp_path / "c")
    sides: dict[str, set[str]] = {}
    for split in (TRAIN, HELD_OUT):
        for shard in corpus.shards[split]:
            text = " ".join(small_tokenizer.decode(shard.tokens.tolist()).split())
            sides[split] = set(re.findall(r"number (\d+) was", text))
    assert sum(map(len, sides.values())) == len(texts)
    assert not sides[TRAIN] & sides[HELD_OUT]
    assert min(map(len, sides.values())) > 10


def test_what_stands_in_the_way(source: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    out = run(source, small_tokenizer, tmp_path / "c")
    with pytest.raises(RequestError, match="already holds a corpus"):
        run(source, small_tokenizer, out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("do not touch")
    with pytest.raises(RequestError, match="is not empty"):
        run(source, small_tokenizer, tmp_path / "full")
    (tmp_path / "file").write_text("x")
    with pytest.raises(RequestError, match="is a file"):
        run(source, small_tokenizer, tmp_path / "file")
    empty = write_documents(tmp_path / "empty.jsonl", ["", " \n "])
    with pytest.raises(RequestError, match="every document is empty"):
        run(empty, small_tokenizer, tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_nothing_of_the_user_is_deleted(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    """A folder that is not empty is not ours, whatever the names in it; nor does a run without text take it away."""
    empty = write_documents(tmp_path / "empty.jsonl", ["", " "])
    for name, content in (("tokenizer/model.safetensors", "weights"), ("progress.json", '{"done": 3}')):
        out = tmp_path / name.partition("/")[0].replace(".", "_")
        (out / name).parent.mkdir(parents=True)
        (out / name).write_text(content)
        with pytest.raises(LitebertError, match="choose another --out"):
            run(empty, small_tokenizer, out)
        assert (out / name).read_text() == content
    (tmp_path / "mine").mkdir()
    with pytest.raises(RequestError, match="every document is empty"):
        run(empty, small_tokenizer, tmp_path / "mine")
    assert list((tmp_path / "mine").iterdir()) == []


def test_two_at_once_do_not_meet(source: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    met: list[str] = []

    def second(_: object) -> None:
        if not met:
            with pytest.raises(RequestError, match="another `litebert prepare` is writing") as caught:
                run(source, small_tokenizer, tmp_path / "c")
            met.append(str(caught.value))

    run(source, small_tokenizer, tmp_path / "c", on_progress=second)
    assert met
    Corpus.open(tmp_path / "c")


def test_the_folder_that_is_made_is_no_source(
    source: Path, tokenizer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`litebert prepare . --out corpus` goes on after a kill, though the folder lies in the sources by then."""
    (tmp_path / "text.jsonl").write_bytes(source.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert kill_and_go_on(Path("."), tokenizer_folder, Path("c"), 1, 2)
    assert Corpus.open("c").manifest["counts"]["documents_read"] == 7200


def test_a_shard_that_disappears_is_missed_at_once(source: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    interrupt(source, small_tokenizer, tmp_path / "c")
    (tmp_path / "c" / "train-00001.shard").unlink()
    with pytest.raises(LitebertError, match=r"train-00001\.shard is missing"):
        run(source, small_tokenizer, tmp_path / "c")


def test_a_wrong_scheduler_leaves_nothing_behind(source: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(LitebertError, match="no Dask scheduler answers"):
        run(source, small_tokenizer, tmp_path / "c", scheduler="tcp://127.0.0.1:9")
    assert not (tmp_path / "c").exists()


class StoppedError(Exception):
    """Stops a preparation from within."""


def interrupt(source: Path, tokenizer: Tokenizer, out: Path) -> None:
    """Stop after two shards, as an error would."""

    def stop(_: object) -> None:
        if len(list(out.glob("train-*.shard"))) >= 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        run(source, tokenizer, out, on_progress=stop)


def test_going_on_needs_the_same_sources_and_settings(
    source: Path, small_tokenizer: Tokenizer, tmp_path: Path, expected: dict[str, str]
) -> None:
    out = tmp_path / "c"
    interrupt(source, small_tokenizer, out)
    before = fingerprint(out)
    with pytest.raises(RequestError, match="other settings"):
        prepare(Reader(find_sources([str(source)])), small_tokenizer, out, PrepareConfig(held_out=0.5))
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    changed = tmp_path / "changed.jsonl"
    for text in (lines[1:], lines[:10]):
        changed.write_text("".join(text), encoding="utf-8")
        with pytest.raises(RequestError, match="sources have changed"):
            run(changed, small_tokenizer, out)
    assert fingerprint(out) == before
    assert fingerprint(run(source, small_tokenizer, out)) == expected


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_bad_record_stops_and_loses_nothing(
    source: Path, small_tokenizer: Tokenizer, tmp_path: Path, expected: dict[str, str], num_workers: int
) -> None:
    good = source.read_bytes()
    lines = good.splitlines(keepends=True)
    lines[5000] = b'{"text": "\xff"}\n'
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_bytes(b"".join(lines))
    with pytest.raises(LitebertError, match=r"mixed\.jsonl, line 5001, is not UTF-8"):
        run(mixed, small_tokenizer, tmp_path / "c", num_workers=num_workers)
    assert list((tmp_path / "c").glob("train-*.shard"))
    mixed.write_bytes(good)  # mended: the same command goes on
    assert fingerprint(run(mixed, small_tokenizer, tmp_path / "c")) == expected


def test_a_file_that_disappears(source: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    gone = tmp_path / "gone.jsonl"
    gone.write_bytes(source.read_bytes())
    reader = Reader(find_sources([str(source), str(gone)]))
    gone.unlink()
    with pytest.raises(LitebertError, match=r"gone\.jsonl cannot be read"):
        prepare(reader, small_tokenizer, tmp_path / "c", SETTINGS)
    gone.write_bytes(source.read_bytes())
    prepare(reader, small_tokenizer, tmp_path / "c", SETTINGS)
    assert Corpus.open(tmp_path / "c").manifest["counts"]["documents_read"] == 14_400


FULL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
sys.argv = {arguments!r}
from litebert.cli import main
from tests.conftest import need
main()
"""


@pytest.mark.parametrize("limit", [1_000, 100_000, 500_000])
def test_a_disk_that_is_full(
    source: Path, tokenizer_folder: Path, expected: dict[str, str], tmp_path: Path, limit: int
) -> None:
    """Files cannot grow beyond a limit, in the tokenizer or in a shard: one sentence, and with more room it goes on."""
    arguments = ["litebert", *command(source, tokenizer_folder, tmp_path / "c", 1)[3:]]
    if limit == 500_000:  # only large shards are larger than this
        arguments[arguments.index("--shard-tokens") + 1] = "400000"
    code = FULL_DISK.format(limit=limit, arguments=arguments)
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr.strip().splitlines()[-1].startswith("litebert: cannot ")
    assert "Traceback" not in failed.stderr
    assert not list(tmp_path.glob("c/*.shard*"))
    if limit == 500_000:
        assert "goes on from it" in failed.stderr
        return
    done = subprocess.run(command(source, tokenizer_folder, tmp_path / "c", 1), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert fingerprint(tmp_path / "c") == expected


def test_the_manifest_tells_how_it_was_made(small_corpus: Corpus) -> None:
    manifest = json.loads((small_corpus.folder / "manifest.json").read_text())
    assert manifest["config"] == {"deduplicate": True, "held_out": 0.05, "shard_tokens": 60_000}
    assert manifest["counts"]["documents_read"] == 1200
    assert set(manifest["counts"]["scripts"]) >= {"LATIN", "HANGUL", "CJK"}
    assert not (small_corpus.folder / "progress.json").exists()
