"""Documents come back as they were written, in order, in bounded memory; every fault is one sentence that names it."""

import csv
import gzip
import io
import json
import os
import sys
import threading
import tracemalloc
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litebert.errors import LitebertError, RequestError
from litebert.text.sources import Document, Reader, ReadOptions, find_sources
from tests.conftest import need

CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.lists(st.text(CHARACTERS).filter(str.strip), max_size=8)


def read(*names: Path | str, **options: Any) -> list[str]:
    return [document.text for document in Reader(find_sources([str(name) for name in names]), ReadOptions(**options))]


def write(path: Path, content: bytes) -> Path:
    if ".parquet" in path.suffixes:
        need("pyarrow")
    pack: Callable[[bytes], bytes] = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(content))
    return path


def fault(*names: Path | str, **options: Any) -> str:
    with pytest.raises(LitebertError) as caught:
        read(*names, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def as_table(texts: list[str]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([["id", "text"], *([str(i), text] for i, text in enumerate(texts))])
    return buffer.getvalue().encode()


def as_parquet(values: list[Any]) -> bytes:
    """A table in Parquet, or nothing if pyarrow is not installed; `write` then skips the test."""
    if find_spec("pyarrow") is None:
        return b""
    import pyarrow as pa
    from pyarrow import parquet

    buffer = io.BytesIO()
    table = pa.table({"id": pa.array(range(len(values)), pa.int64()), "text": pa.array(values)})
    parquet.write_table(table, buffer, row_group_size=3)
    return buffer.getvalue()


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@given(texts=TEXTS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_what_is_written_comes_back(tmp_path: Path, packing: str, texts: list[str]) -> None:
    lines = "".join(json.dumps({"n": 1, "text": text}, ensure_ascii=False) + "\n" for text in texts)
    rows = [{"text": text} for text in texts]
    flat = [" ".join(text.split()).replace("\0", "-") for text in texts]
    for name, content, expected in [
        ("a.jsonl", lines.encode(), texts),
        ("a.ndjson", "".join(json.dumps(text) + "\r\n" for text in texts).encode(), texts),
        ("lines.json", lines.encode(), texts),
        ("list.json", json.dumps(rows, indent=1).encode(), texts),
        ("flat.json", json.dumps(texts, ensure_ascii=False).encode(), texts),
        ("a.csv", as_table(texts), texts),
        ("a.tsv", "".join(f"{line}\n" for line in ["text\tn", *(f"{text}\t1" for text in flat)]).encode(), flat),
        ("a.txt", "\n \n".join(flat).encode(), flat),
        ("a.parquet", as_parquet(texts or [""]), texts),
    ]:
        assert read(write(tmp_path / (name + packing), content)) == expected, name


@given(text=st.text(st.sampled_from("ab \n\u0301é字"), max_size=300).filter(str.strip), limit=st.integers(1, 60))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_parts_make_up_the_document(tmp_path: Path, text: str, limit: int) -> None:
    options = ReadOptions(max_document_chars=limit)
    text = text.strip().replace("\n", "")
    for name, content in (("a.jsonl", json.dumps(text)), ("a.txt", text)):
        (tmp_path / name).write_text(content, encoding="utf-8")
        parts = list(Reader(find_sources([str(tmp_path / name)]), options))
        assert "".join(part.text for part in parts) == text
        assert [part.part for part in parts] == list(range(len(parts)))
        assert all(len(part.text) <= limit for part in parts)
        assert len({part.location for part in parts}) == 1


def test_parts_end_after_white_space(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", b"word " * 100 + b"\n\nnext")
    documents = list(Reader(find_sources([str(tmp_path)]), ReadOptions(max_document_chars=104)))
    assert [(len(document.text), document.part) for document in documents] == [(100, i) for i in range(5)] + [(4, 0)]
    write(tmp_path / "a.txt", ("字" * 99 + "e\u0301" * 50).encode())
    assert [len(text) for text in read(tmp_path, max_document_chars=100)] == [99, 100]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_byte_order_marks(tmp_path: Path, end: str) -> None:
    for name, lines, expected in [
        ("a.txt", ["one", "two", " \t", "", "three"], ["one\ntwo", "three"]),
        ("a.jsonl", ['{"text": "one"}', "", '"two"'], ["one", "two"]),
        ("a.csv", ["text,n", '"o,ne",1', "two,2"], ["o,ne", "two"]),
        ("a.tsv", ["text\tn", '"one\t1', "two\t2"], ['"one', "two"]),
    ]:
        content = b"\xef\xbb\xbf" + end.join(lines).encode()
        assert read(write(tmp_path / name, content)) == expected
        assert read(write(tmp_path / f"{name}.gz", content + end.encode())) == expected


def test_columns(tmp_path: Path) -> None:
    rows = [{"text": ["a", "b"]}, {"body": "c"}, {"text": ""}, {"text": [], "body": "e"}, {"text": "\0d\ud83d"}]
    rows += [{"text": "f", "body": "g"}, {"text": None, "body": "h"}]
    file = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)).encode())
    assert read(file, columns=("text", "body")) == ["a\n\nb", "c", "e", "\0d\ufffd", "f\n\ng", "h"]
    assert read(file, columns=("body", "text"))[-2:] == ["g\n\nf", "h"]
    table = write(tmp_path / "two.csv", b"Title,n,body\na,1,b\n,2,c\n")
    assert read(table, columns=("title", "subtitle", "body")) == ["a\n\nb", "c"]
    assert read(table, columns=("3",)) == ["b", "c"]
    assert read(write(tmp_path / "a.parquet", as_parquet([["a", "b"], ["c"]]))) == ["a\n\nb", "c"]
    assert read(write(tmp_path / "one.json", b'{\n "text": "a"\n}')) == ["a"]
    assert read(write(tmp_path / "nul.csv", b"text\na\0b\n")) == ["a\0b"]
    for name, content in [
        ("no.csv", b"a,b\n1,2"),
        ("no.tsv", b"a\tb\n1\t2"),
        ("no.jsonl", b'{"a": 1, "b": 2}'),
        ("no.json", b'[{"a": 1, "b": 2}]'),
    ]:
        for skip_bad in (False, True):
            said = fault(write(tmp_path / name, content), skip_bad=skip_bad)
            assert name in said
            assert "no column 'text' (there are: 'a', 'b')" in said
    assert "'id', 'text'" in fault(tmp_path / "a.parquet", columns=("body",))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'"x"\n{"text": \n"y"', "a.jsonl, line 2, is not valid JSON"),
        ("a.jsonl", b'"x"\n{"text": "\xff"}\n"y"', "a.jsonl, line 2, is not UTF-8: convert the file (iconv"),
        ("a.jsonl", b'"x"\n{"text": 3}\n"y"', "line 2, holds a value of type int where text should be"),
        ("a.jsonl", b'"x"\n{"text": null}\n"y"', "line 2, holds nothing"),
        ("a.jsonl", b'"x"\n{"text": {}}\n"y"', "line 2, holds an object"),
        ("a.jsonl", b'"x"\n' + b"[" * 100_000 + b'\n"y"', "line 2, is not valid JSON (nested too deeply"),
        ("a.jsonl", b'"x"\n"' + b"z" * 300_000 + b'"\n"y"', "line 2, is longer than 200,000 bytes: split it"),
        ("a.json", b'["x", {"text": "\xff"}, "y"]', "record 2, is not UTF-8"),
        ("a.json", b'["x", 12.5, "y"]', "record 2, holds a value of type float"),
        ("a.csv", b"n,text\n1,x\n2\n3,y", "line 3, has 1 cell instead of 2"),
        ("a.csv", b"n,text\n1,x\n2,\xff\n3,y", "line 3, is not UTF-8"),
        ("a.csv", b"text\nx\n" + b"z" * 300_000 + b"\ny", "line 3, is longer"),
        ("a.tsv", b"n\ttext\n1\tx\n2\n3\ty", "line 3, has 1 cell instead of 2"),
        ("a.txt", b"x\n\nbad\n\xe9t\xe9\nbad\n\ny", "line 4, is not UTF-8"),
        ("a.parquet", as_parquet(["x", None, "y"]), "record 2, holds nothing"),
    ],
)  # fmt: skip
def test_a_bad_record_is_named_or_left_out_and_counted(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    file = write(tmp_path / name, content)
    sentence = fault(file, max_record_bytes=200_000)
    assert said in sentence
    assert sentence.endswith("or pass --skip-bad to leave such records out and count them")
    reader = Reader(find_sources([str(file)]), ReadOptions(skip_bad=True, max_record_bytes=200_000))
    assert [document.text for document in reader] == ["x", "y"]
    assert reader.num_bad == 1


LINES = "".join(f'"{i} {os.urandom(40).hex()}"\n' for i in range(20_000)).encode()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("cut.jsonl.gz", gzip.compress(LINES)[:-9], "is truncated or damaged after"),
        ("cut.jsonl.zst", zstandard.compress(LINES)[:-9], "is truncated or damaged after"),
        ("bits.jsonl.gz", gzip.compress(LINES)[:-8] + bytes(8), "is truncated or damaged ("),
        ("no.jsonl.zst", LINES, "or no zstd file"),
        ("no.jsonl.gz", LINES, "is not a gzip file"),
        ("empty.jsonl.gz", b"", "is truncated or damaged: get the file again"),
        ("no.parquet", LINES, "or no Parquet file"),
        ("cut.parquet", as_parquet(["a"] * 9)[:-20], "is truncated or damaged"),
        ("cut.json", b'["a", "b', "is not valid JSON (Unterminated"),
        ("comma.json", b'["a" "b"]', "a comma is missing"),
    ],
)  # fmt: skip
def test_a_damaged_file_ends_early(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    if name.endswith(".parquet"):
        need("pyarrow")
    (tmp_path / name).write_bytes(content)
    write(tmp_path / "whole.txt", b"the rest")
    sentence = fault(tmp_path / name)
    assert str(tmp_path / name) in sentence
    assert said in sentence
    reader = Reader(find_sources([str(tmp_path / name), str(tmp_path / "whole.txt")]), ReadOptions(skip_bad=True))
    texts = [document.text for document in reader]
    assert texts[-1] == "the rest"
    assert reader.num_bad == 1
    assert reader.bytes_read == reader.bytes_total
    if name.startswith(("cut.jsonl", "bits")):
        assert len(texts) > 10_000  # what came before the damage was delivered


def test_gzip_members_and_padding(tmp_path: Path) -> None:
    packed = gzip.compress(b'"a"\n') + gzip.compress(b"") + gzip.compress(b'"b"\n')
    (tmp_path / "a.jsonl.gz").write_bytes(packed + b"\0" * 600_000)
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.compress(b'"a"\n') + zstandard.compress(b'"b"\n'))
    assert read(tmp_path) == ["a", "b", "a", "b"]


def test_folders_and_patterns(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.jsonl", "a/b.MD", ".hidden.txt", ".git/x.txt", "image.png", "all.tar.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, b'"x"')
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.txt")
    sources = find_sources([str(tmp_path)])
    assert [os.path.relpath(source.name, tmp_path) for source in sources] == ["a/b.MD", "a/z.jsonl", "b.txt"]
    assert [source.kind for source in sources] == ["text", "jsonl", "text"]
    assert sum(source.size or 0 for source in sources) == 9
    assert [Path(source.name).name for source in find_sources([f"{tmp_path}/*/*.[jM]*"])] == ["b.MD", "z.jsonl"]
    assert read(write(tmp_path / "[odd] name", b"text")) == ["text"]


def test_names_that_cannot_be_read(tmp_path: Path) -> None:
    for folder in ("empty", "pictures"):
        (tmp_path / folder).mkdir()
    write(tmp_path / "pictures" / "a.png", b"x")
    write(tmp_path / "reviews.jsonl", b"x")
    for names, said in [
        ([f"{tmp_path}/empty"], r"holds no file that can be read: the suffixes are \.txt"),
        ([f"{tmp_path}/pictures"], "holds no file that can be read"),
        ([f"{tmp_path}/review.jsonl"], r"did you mean .*reviews\.jsonl\?"),
        ([f"{tmp_path}/nothing/x"], "check its name"),
        ([f"{tmp_path}/*.parquet"], "nothing matches"),
        ([], "nothing to read"),
        (["builtin:poems"], "builtin:documentation and builtin:python"),
        (["hf:"], "hf:NAME"),
        (["a\0b"], "cannot be read"),
    ]:
        with pytest.raises(RequestError, match=said):
            find_sources(names)
    for name in ("a.zip", "a.tar", "a.tar.gz", "a.tgz", "a.txt.bz2"):
        with pytest.raises(RequestError, match="unpack it"):
            find_sources([str(write(tmp_path / name, b"x"))])


def test_a_file_that_is_gone_by_the_time_it_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", b"x")
    reader = Reader(find_sources([str(file)]))
    file.unlink()
    with pytest.raises(LitebertError, match=r"a\.txt cannot be read \(No such file or directory\): check its name"):
        list(reader)


def test_datasets_come_with_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert fault("hf:x") == "hf:x needs the datasets library: pip install 'litebert[datasets]'"


def test_standard_input_and_pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("é\n\nb".encode())))
    reader = Reader(find_sources(["-"]))
    assert list(reader) == [Document("é", "-, line 1"), Document("b", "-, line 3")]
    assert reader.bytes_total is None
    os.mkfifo(tmp_path / "pipe.jsonl")
    writer = threading.Thread(target=(tmp_path / "pipe.jsonl").write_bytes, args=(b'"a"\n"b"',))
    writer.start()
    assert read(tmp_path / "pipe.jsonl") == ["a", "b"]
    writer.join()


def test_progress(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl.gz", LINES)
    write(tmp_path / "b.txt", b"end")
    reader = Reader(find_sources([str(tmp_path)]))
    for _ in range(2):
        seen = []
        for _ in reader:
            seen.append(reader.bytes_read)
        assert seen == sorted(seen)
        assert 0 < seen[0] < seen[10_000] < seen[-1] == reader.bytes_total == reader.bytes_read


def test_a_file_in_one_line_needs_little_memory(tmp_path: Path) -> None:
    megabytes = 200
    file = tmp_path / "long.txt.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        for _ in range(megabytes):
            packed.write(b"many words " * 95_325)
    tracemalloc.start()
    try:
        size = sum(len(document.text) for document in Reader(find_sources([str(file)])))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == megabytes * 11 * 95_325
    assert peak < 20_000_000


def test_hugging_face_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write(tmp_path / "train.jsonl", b'{"text": "a"}\n{"text": "b"}\n')
    write(tmp_path / "test.jsonl", b'{"text": "c"}\n')
    assert read(f"hf:{tmp_path}") == ["a", "b"]
    assert read(f"hf:{tmp_path}::test") == ["c"]
    assert "check its name" in fault(f"hf:{tmp_path}::dev")
    assert "'text'" in fault(f"hf:{tmp_path}", columns=("body",))


def test_a_zstd_file_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text.txt.zst"
    path.write_bytes(zstandard.compress(b"a text\n"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(LitebertError, match="pip install zstandard"):
        read(path)
