"""Units: whatever sources are cut into, they give the documents, counts and faults of the sources read as a whole."""

import csv
import gzip
import io
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litebert.errors import LitebertError
from litebert.text import units as text_units
from litebert.text.sources import Reader, ReadOptions, find_sources
from litebert.text.units import Files, Given, Slice, Unit, UnitDocuments, Units, seen_from

PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}
LINES = [
    b'{"text": "one two"}\n',
    b'"three"\n',
    b'{"text": "\xe5\xad\x97 four"}\r\n',
    b'{"text": ""}\n',
    b"\n",
    b'"last"\r',
]
FAULTS = [b'{"text": 3}\n', b'{"other": "x"}\n', b'{"text": \n', b'"\xff"\n', b'"' + b"long " * 60 + b'"\n']
WORDS = [
    b"one ",
    b"two",
    b"\n",
    b"\n\n",
    b"\n \t\n",
    b"\r\n",
    b"\r",
    b"\xe3\x80\x80\n",
    b"\xe5\xad\x97",
    b"\xef\xbb\xbf",
]
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_whole(names: list[Path], options: ReadOptions) -> object:
    """Documents and bad records, or the fault."""
    reader = Reader(find_sources([str(name) for name in names]), options)
    try:
        return [(document.text, document.part) for document in reader], reader.num_bad
    except LitebertError as error:
        return str(error)


def read_units(names: list[Path], options: ReadOptions, size: int, workers_see_files: bool = True) -> object:
    """The same, each unit read for itself after a journey."""
    reader = Reader(find_sources([str(name) for name in names]), options)
    units = Units(reader, size, workers_see_files)
    documents = []
    try:
        for unit in units:
            reading = UnitDocuments(pickle.loads(pickle.dumps(unit)), options)
            documents += list(reading)
            units.settle(unit, reading.findings)
    except LitebertError as error:
        return str(error)
    assert reader.bytes_read == reader.bytes_total
    return documents, reader.num_bad


def cut(names: list[Path], size: int, workers_see_files: bool = True) -> list[Unit]:
    return list(Units(Reader(find_sources([str(name) for name in names])), size, workers_see_files))


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("skip_bad", [False, True])
@given(
    lines=st.lists(st.sampled_from(LINES * 3 + FAULTS), max_size=30),
    size=st.integers(1, 200),
    lost=st.sampled_from([0, 0, 1, 9, 20]),
    sees=st.booleans(),
)
@MANY
def test_json_lines(
    tmp_path: Path, packing: str, skip_bad: bool, lines: list[bytes], size: int, lost: int, sees: bool
) -> None:
    file = tmp_path / f"a.jsonl{packing}"
    packed = PACK[packing](b"".join(lines))
    file.write_bytes(packed[: len(packed) - lost] if packing else packed)
    options = ReadOptions(skip_bad=skip_bad, max_document_chars=20, max_record_bytes=250)
    assert read_units([file], options, size, sees) == read_whole([file], options)


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("skip_bad", [False, True])
@given(
    words=st.lists(st.sampled_from([*WORDS * 3, b"\xff"]), max_size=60),
    size=st.integers(1, 60),
    lost=st.sampled_from([0, 0, 1, 9, 20]),
    sees=st.booleans(),
)
@MANY
def test_text(
    tmp_path: Path, packing: str, skip_bad: bool, words: list[bytes], size: int, lost: int, sees: bool
) -> None:
    file = tmp_path / f"a.txt{packing}"
    packed = PACK[packing](b"".join(words))
    file.write_bytes(packed[: len(packed) - lost] if packing else packed)
    options = ReadOptions(skip_bad=skip_bad, max_document_chars=20)
    assert read_units([file], options, size, sees) == read_whole([file], options)


@pytest.mark.parametrize("sees", [True, False])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("packing", ["", ".gz"])
def test_ends_on_the_borders_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: str, end: bytes, sees: bool
) -> None:
    monkeypatch.setattr(text_units, "BLOCK", 16)  # slices of plain files are looked for 4 bytes at a time
    json_lines, text = tmp_path / f"a.jsonl{packing}", tmp_path / f"a.txt{packing}"
    json_lines.write_bytes(PACK[packing](b"".join(b'"%d%s"' % (i, b"x" * (i % 7)) + end for i in range(300))))
    text.write_bytes(PACK[packing](b"".join(b"%d%s" % (i, b"x" * (i % 7)) + 2 * end for i in range(300))))
    for file in (json_lines, text):
        assert read_units([file], ReadOptions(), 50, sees) == read_whole([file], ReadOptions()), file
    assert len(cut([json_lines], 50, sees)) > 30


@pytest.mark.parametrize("packing", ["", ".gz"])
def test_a_text_without_blank_lines_is_read_here_in_bounded_units(tmp_path: Path, packing: str) -> None:
    content = b"\n\n".join(b"a document %d" % i for i in range(2000)) + b"\n\n" + b"one of many words\n" * 20_000
    file = tmp_path / f"a.txt{packing}"
    file.write_bytes(PACK[packing](content))
    options = ReadOptions(max_document_chars=1000)
    units = list(Units(Reader(find_sources([str(file)]), options), 4000))
    assert isinstance(units[0], Slice)
    given_units = [unit for unit in units if isinstance(unit, Given)]
    assert len(given_units) > 50
    assert max(sum(len(text) for text, _ in unit.documents) for unit in given_units) <= 5000
    assert read_units([file], options, 4000) == read_whole([file], options)
    bad = content + b"\xff"
    file.write_bytes(PACK[packing](bad))
    said = read_units([file], options, 4000)
    assert said == read_whole([file], options)
    assert f"line {24_001:d}, is not UTF-8" in str(said)


def as_csv(texts: list[str]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([["id", "text"], *([str(i), text] for i, text in enumerate(texts))])
    return buffer.getvalue().encode()


def write_many(folder: Path) -> list[Path]:
    """A folder with files of many kinds and sizes, and two that are bad."""
    texts = [f"Text {i} has\n{'some ' * (i % 9)}words." for i in range(400)]
    flat = [" ".join(text.split()) for text in texts]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    contents: dict[str, bytes] = {
        **{f"small/{i:03d}.txt": text.encode() for i, text in enumerate(texts)},
        "large.jsonl": lines,
        "large.jsonl.gz": gzip.compress(lines),
        "large.csv": as_csv(texts),
        "large.tsv": "".join(f"{text}\n" for text in ["text", *flat]).encode(),
        "large.json": json.dumps([{"text": text} for text in texts]).encode(),
        "large.txt": "\n\n".join(flat).encode(),
        "small.csv": as_csv(texts[:20]),
        "small.json.gz": gzip.compress(json.dumps(texts[:20]).encode()),
        "utf16.txt": ("Text\n\n" * 3000).encode("utf-16"),
        "cut.txt.gz": gzip.compress(os.urandom(20_000).hex().encode())[:-9],
    }
    for name, content in contents.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(content)
    return [folder]


@pytest.mark.parametrize("size", [100, 2_000, 10_000])
@pytest.mark.parametrize("sees", [True, False])
def test_folders_of_many_kinds(tmp_path: Path, size: int, sees: bool) -> None:
    names = write_many(tmp_path)
    for skip_bad in (True, False):
        options = ReadOptions(skip_bad=skip_bad)
        assert read_units(names, options, size, sees) == read_whole(names, options)
    kinds = {type(unit) for unit in cut(names, size, sees)}
    assert kinds == ({Files, Slice, Given} if sees else {Slice, Given})


def test_plain_files_are_only_named_and_small_ones_put_together(tmp_path: Path) -> None:
    names = write_many(tmp_path)
    units = cut(names, 2_000)
    slices = [unit for unit in units if isinstance(unit, Slice)]
    assert {unit.content is None for unit in slices if unit.source.name.endswith("large.jsonl")} == {True}
    assert max((unit.stop or unit.start) - unit.start for unit in slices) < 2_200
    small = [unit for unit in units if isinstance(unit, Files)]
    assert sum(len(unit.sources) for unit in small) > 400
    assert len(small) < 40


@pytest.mark.parametrize("sees", [True, False])
@pytest.mark.parametrize("packing", ["", ".gz"])
def test_a_table_without_the_column_is_refused_although_bad_records_are_skipped(
    tmp_path: Path, packing: str, sees: bool
) -> None:
    file = tmp_path / f"a.jsonl{packing}"
    file.write_bytes(PACK[packing](b"\n" * 3000 + b'{"body": "x"}\n' * 300))
    options = ReadOptions(skip_bad=True)
    said = read_units([file], options, 500, sees)
    assert said == read_whole([file], options)
    assert "line 3001, has no column 'text'" in str(said)


def test_a_worker_in_another_folder_finds_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("a.jsonl").write_bytes(b'"a"\n' * 1000)
    Path("b.txt").write_bytes(b"b")
    found = cut([Path("a.jsonl"), Path("b.txt")], 500)
    monkeypatch.chdir(tmp_path)
    documents: list[Any] = []
    for unit in found:
        documents += UnitDocuments(seen_from(unit, str(tmp_path / "here")), ReadOptions())
    assert documents == [("a", 0)] * 1000 + [("b", 0)]
