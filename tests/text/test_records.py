"""Whatever table is written, in any format, compressed or not, with a header or not, is read as the same records."""

import contextlib
import csv
import gzip
import io
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litebert.errors import DataError, LitebertError, RequestError
from litebert.text.formats import sniff
from litebert.text.records import RecordReader, UnreadableFileError
from tests.conftest import need

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
PLAIN = st.text(CHARACTERS, min_size=1, max_size=20).map(lambda text: " ".join(text.split()) or "-")
PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}
FORMATS = ["csv", "tsv", "json", "jsonl", "conll", "text", *(["parquet"] if find_spec("pyarrow") else [])]
Rows = list[dict[str, str]]


@st.composite
def tables(draw: st.DrawFn, cells: st.SearchStrategy[str]) -> Rows:
    """Records that all have the same columns."""
    names = draw(st.lists(PLAIN, min_size=1, max_size=4, unique_by=str.casefold))
    rows = draw(st.lists(st.tuples(*(cells for _ in names)), min_size=1, max_size=6))
    return [dict(zip(names, row, strict=True)) for row in rows]


def write_csv(rows: Rows, header: bool) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerows([*([list(rows[0])] if header else []), *(list(row.values()) for row in rows)])
    return buffer.getvalue().encode()


def write_tsv(rows: Rows, header: bool) -> bytes:
    lines = [*([list(rows[0])] if header else []), *(list(row.values()) for row in rows)]
    return "".join("\t".join(cells) + "\n" for cells in lines).encode()


def write_parquet(rows: Rows) -> bytes:
    buffer = io.BytesIO()
    need("pyarrow.parquet").write_table(need("pyarrow").Table.from_pylist(rows), buffer, row_group_size=2)
    return buffer.getvalue()


def number_columns(rows: Rows) -> Rows:
    return [{str(i): value for i, value in enumerate(row.values(), 1)} for row in rows]


def read(source: Any, columns: list[str] | None = None, **options: Any) -> list[dict[str, Any]]:
    return [dict(fields) for _, fields in RecordReader(source, **options).records(columns)]


def fault(source: Any, columns: list[str] | None = None, **options: Any) -> str:
    with pytest.raises(LitebertError) as caught:
        read(source, columns, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("packing", PACK)
@given(rows=tables(st.text(CHARACTERS, max_size=20)))
@SETTINGS
def test_any_table_comes_back(tmp_path: Path, packing: str, rows: Rows) -> None:
    pack = PACK[packing]
    for name, content in [
        ("t.csv", write_csv(rows, True)),
        ("t.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()),
        ("t.json", json.dumps(rows, indent=1).encode()),
        *([("t.parquet", write_parquet(rows))] if find_spec("pyarrow") else []),
    ]:
        file = tmp_path / f"{name}{packing}"
        file.write_bytes(pack(content))
        assert read(file) == rows, name
        names = list(rows[0])
        assert read(file, names[::-1]) == [{name: row[name] for name in names[::-1]} for row in rows] or "json" in name
        assert RecordReader(file).list_columns() == names
        bare = tmp_path / "no suffix"
        bare.write_bytes(content)
        assert read(bare, format=name.removeprefix("t.")) == rows
    file = tmp_path / f"bare.csv{packing}"
    file.write_bytes(pack(write_csv(rows, False)))
    assert read(file, header=False) == number_columns(rows)
    assert read(rows) == rows


@pytest.mark.parametrize("packing", PACK)
@given(rows=tables(PLAIN))
@SETTINGS
def test_any_tab_separated_table_comes_back(tmp_path: Path, packing: str, rows: Rows) -> None:
    for header in (True, False):
        file = tmp_path / f"t.tsv{packing}"
        file.write_bytes(PACK[packing](write_tsv(rows, header)))
        assert read(file, header=header) == (rows if header else number_columns(rows))
        bare = tmp_path / "no suffix"
        bare.write_bytes(write_tsv(rows, header))
        assert read(io.BytesIO(bare.read_bytes()), format="tsv", header=header) == read(
            bare, format="tsv", header=header
        )
        if len(rows[0]) > 1 and not bare.read_bytes().lstrip().startswith((b"{", b"[")):
            assert RecordReader(bare).sniff() == "tsv"


@given(content=st.binary(max_size=80), format=st.sampled_from(FORMATS))
@settings(max_examples=200, deadline=None)
def test_no_bytes_break_a_reader(content: bytes, format: str) -> None:
    for skip_bad in (False, True):
        reader = RecordReader(io.BytesIO(content), format=format, skip_bad=skip_bad)
        with contextlib.suppress(DataError):
            for location, fields in reader:
                assert location.startswith(("line ", "record "))
                assert isinstance(fields, dict)
        assert skip_bad or not reader.num_skipped


# --- columns ----------------------------------------------------------------------------------------------------------


def test_columns_by_number_and_regardless_of_case(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Text,LABEL,2,text\na,b,c,d\n")
    assert read(tmp_path / "t.csv", ["text", "label", "2", "1"]) == [{"text": "d", "label": "b", "2": "c", "1": "a"}]
    said = fault(tmp_path / "t.csv", ["TEXT"])
    assert said.endswith("line 1, has the columns 'Text' and 'text', and 'TEXT' may mean each: write it as it is there")
    for number in ("0", "5", "0000000001", "9" * 30):
        assert f"has no column '{number}' (there are: 'Text'" in fault(tmp_path / "t.csv", [number])
    (tmp_path / "t.jsonl").write_text('{"Text": "a"}\n{"TEXT": "b", "tExt": "c"}\n')
    assert read(tmp_path / "t.jsonl", ["text"], skip_bad=True) == [{"Text": "a", "text": "a"}]
    assert "line 2, has the keys 'TEXT' and 'tExt', and 'text' may mean each" in fault(tmp_path / "t.jsonl", ["text"])


def test_a_file_is_closed_although_its_error_is_kept(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label\na,b\n")
    reader = RecordReader(tmp_path / "t.csv")
    with pytest.raises(LitebertError) as kept:
        list(reader.records(["nothing"]))
    assert reader._reading is not None
    assert reader._reading.gi_frame is None, kept
    some = RecordReader(tmp_path / "t.csv")
    assert list(some)
    assert some._reading is not None
    assert some._reading.gi_frame is None


def test_columns_of_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(write_parquet([{"Text": "a", "n": "1"}]))
    assert read(tmp_path / "t.parquet", ["text", "2"]) == [{"text": "a", "2": "1"}]
    assert "its schema, has no column 'label' (there are: 'Text', 'n')" in fault(tmp_path / "t.parquet", ["label"])


def test_without_a_header_columns_have_numbers(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\t1\nb\t2\n")
    assert read(tmp_path / "t.tsv", ["2"], header=False) == [{"2": "1"}, {"2": "2"}]
    assert [location for location, _ in RecordReader(tmp_path / "t.tsv", header=False)] == ["line 1", "line 2"]
    said = fault(tmp_path / "t.tsv", ["text"], header=False)
    assert said.endswith(
        "line 1, has no column 'text': without a header, columns are named 1 to 2, so name one of these"
    )
    assert "say --no-header and number the columns" in fault(tmp_path / "t.tsv", ["text"])
    (tmp_path / "t.tsv").write_bytes(b"\xff\t1\nb\t2\n")  # without a header, the first line is a record like others
    assert read(tmp_path / "t.tsv", header=False, skip_bad=True) == [{"1": "b", "2": "2"}]


# --- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "format"),
    [
        (b"good\t1\nbad\t0\n", "tsv"),
        (b"one line\t1", "tsv"),
        (b'text,label\n"a, b",1\n"two\nlines",0\n', "csv"),
        (b'{"text": "a"}\n{"text": "b"}\n', "jsonl"),
        (b'[\n {"text": "a"}\n]', "json"),
        (b'{\n "data": []\n}', "json"),
        (b"a text, and\nanother one\n", None),
        (b"one line, no more\n", None),
        (b"just text\n", None),
        (b"a\tb\nc\n", None),
        (b"[1] a note\n", None),
        (b"{no} json\n", None),
        (b"\x89PNG\0\0", None),
        (b"", None),
        (b"PAR1", "parquet"),
    ],
)
def test_what_a_file_without_a_suffix_plainly_is(tmp_path: Path, content: bytes, format: str | None) -> None:
    assert sniff(content, is_whole=True) == format
    file = tmp_path / "data"
    file.write_bytes(content)
    if format is None:
        assert "has no suffix that tells its format: name it .csv" in fault(file)
        assert "--format" in fault(file)
    elif format != "parquet":
        assert read(file) == read(file, format=format)


def test_a_long_beginning_may_break_off_anywhere() -> None:
    lines = b"".join(b'%d,"a ""quoted""\ntext"\n' % number for number in range(20_000))
    assert len(list(RecordReader(io.BytesIO(lines), header=False))) == 20_000
    assert sniff(lines[:100], is_whole=False) == "csv"


def test_formats_that_do_not_exist() -> None:
    with pytest.raises(RequestError, match="there is no format 'xlsx': choose one of text, csv"):
        RecordReader("a.csv", format="xlsx")


def test_lines_and_sentences(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbfa\r\n\r\nb\tc")
    assert list(RecordReader(tmp_path / "t.txt").lines()) == [("line 1", "a"), ("line 2", ""), ("line 3", "b\tc")]
    assert list(RecordReader(tmp_path / "t.txt")) == [("line 1", {"text": "a"}), ("line 3", {"text": "b\tc"})]
    (tmp_path / "t.conll").write_text("Anna NNP B\nran VBD O\n\nShe PRP O\n")
    assert list(RecordReader(tmp_path / "t.conll")) == [
        ("line 1", {"1": ["Anna", "ran"], "2": ["NNP", "VBD"], "3": ["B", "O"]}),
        ("line 4", {"1": ["She"], "2": ["PRP"], "3": ["O"]}),
    ]


def test_parquet_comes_with_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert fault(tmp_path / "t.parquet").endswith("needs the pyarrow library: pip install 'litebert[parquet]'")


def test_nothing_of_a_damaged_file_is_another_fault_than_a_part(tmp_path: Path) -> None:
    content = gzip.compress(b"".join(b'{"n": %d}\n' % (number * 7919 % 10007) for number in range(20_000)))
    (tmp_path / "cut.jsonl.gz").write_bytes(content[:-500])
    (tmp_path / "not.jsonl.gz").write_bytes(b"{}")
    assert " records: get the file again, or pass --skip-bad to go on" in fault(tmp_path / "cut.jsonl.gz")
    assert len(read(tmp_path / "cut.jsonl.gz", skip_bad=True)) > 1000
    with pytest.raises(UnreadableFileError, match="is not a gzip file"):
        read(tmp_path / "not.jsonl.gz", skip_bad=True)


# --- tables in memory -------------------------------------------------------------------------------------------------


@given(rows=tables(st.text(CHARACTERS, max_size=20)))
@SETTINGS
def test_any_data_frame_comes_back(rows: Rows) -> None:
    assert read(need("pandas").DataFrame(rows)) == rows


def test_data_frames() -> None:
    pd = need("pandas")
    frame = pd.DataFrame(
        {"Text": ["a", None, "c"], "n": [1, 2, 3], "x": [0.5, float("nan"), 2.0], 7: [True, False, True]}
    )
    assert read(frame, ["text", "n", "x", "7"]) == [
        {"text": "a", "n": 1, "x": 0.5, "7": True},
        {"text": None, "n": 2, "x": None, "7": False},
        {"text": "c", "n": 3, "x": 2.0, "7": True},
    ]
    assert fault(frame, ["label"]).startswith(
        "the DataFrame, its header, has no column 'label' (there are: 'Text', 'n'"
    )
    kinds = pd.DataFrame({"c": pd.Categorical(["x", None]), "i": pd.array([1, None], dtype="Int64")})
    assert read(kinds) == [{"c": "x", "i": 1}, {"c": None, "i": None}]


def test_datasets() -> None:
    datasets = need("datasets")
    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["bad", "good"]),
            "tags": datasets.Sequence(datasets.ClassLabel(names=["O", "B"])),
        }
    )
    columns = {"text": ["a", "b"], "label": [1, -1], "tags": [[0, 1], []]}
    dataset = datasets.Dataset.from_dict(columns, features=features)
    expected = [{"text": "a", "label": "good", "tags": ["O", "B"]}, {"text": "b", "label": None, "tags": []}]
    assert read(dataset) == expected
    assert read(dataset.to_iterable_dataset(), ["label"]) == [{"label": "good"}, {"label": None}]
    said = fault(dataset, ["stars"])
    assert said.startswith("the Dataset, its header, has no column 'stars'")
    assert said.endswith(": name one that is there")


def test_lists_of_dictionaries() -> None:
    rows: list[Any] = [{"text": "a"}, "b", {"Text": "c"}]
    assert fault(rows, ["text"]).startswith("the list, record 2, is 'b', no dictionary: give one for each record")
    reader = RecordReader(rows, skip_bad=True, name="my rows")
    assert list(reader.records(["text"])) == [("record 1", {"text": "a"}), ("record 3", {"Text": "c", "text": "c"})]
    assert reader.num_skipped == 1
    with pytest.raises(RequestError, match="a int is no table"):
        RecordReader(3)
