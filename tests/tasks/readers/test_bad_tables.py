"""A user's own files: what is bad is named with its file and line, and can be left out and counted."""

import json
from pathlib import Path

import pytest

from litebert.errors import RequestError
from litebert.tasks.readers.tables import guess_kind, read_table
from litebert.tasks.task import Columns, DataError
from litebert.text import records
from litebert.text.formats import MAX_CELL_CHARS
from tests.tasks.readers.tables import CHOICE, PLAIN, SKIP, complain, read, write


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("b", "has 1 cell instead of 2: mend it"),
        ("b,x,y", "has 3 cells instead of 2: mend it"),
        (",x", "has no text in 'text': fill it in"),
        (" \u3000,x", "has no text in 'text': fill it in"),
        ("b,", "has no label in 'label': fill it in"),
        ("b, ", "has no label in 'label': fill it in"),
        ("b\0,x", "holds a NUL character, which no text has: mend it"),
        ('"b"c,x', "has a quoted cell that goes on after its quote: write a quote inside a quoted cell twice"),
        ('b,"x', "has a quoted cell that goes on after its quote"),  # the next quote closes it
        ("b" * (10 << 20) + ",x", f"has a cell of more than {MAX_CELL_CHARS:,} characters: split it"),
    ],
    ids=lambda value: value[:20],
)
def test_bad_rows_of_csv(tmp_path: Path, row: str, fault: str) -> None:
    file = write(tmp_path, "own.csv", f'text,label\n"a\n",x\n{row}\n"c",y\n')
    assert complain(file).startswith(f"line 4, {fault}")
    assert complain(file).endswith(SKIP)
    table = read_table(file, "classification", PLAIN, skip_bad=True)
    assert [(one.id, one.text) for one in table.examples] == [("0", "a\n"), ("2", "c")]
    assert table.num_skipped == 1


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (b"b", "has 1 cell instead of 2"),
        (b"b\tx\ty", "has 3 cells instead of 2"),
        (b"\tx", "has no text in 'text'"),
        (b"b\t", "has no label in 'label'"),
        (b"b\xff\tx", "is not UTF-8: convert the file"),
        (b"b\0\tx", "holds a NUL character"),
        (b"b" * (10 << 20) + b"\tx", f"has more than {MAX_CELL_CHARS:,} characters in 'text': split it"),
    ],
    ids=lambda value: str(value[:20]),
)
def test_bad_rows_of_tsv(tmp_path: Path, row: bytes, fault: str) -> None:
    file = write(tmp_path, "own.tsv", b"text\tlabel\na\tx\n" + row + b"\nc\ty\n")
    assert complain(file).startswith(f"line 3, {fault}")
    table = read_table(file, "classification", PLAIN, skip_bad=True)
    assert ([one.text for one in table.examples], table.num_skipped) == (["a", "c"], 1)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_lines_that_memory_should_not_hold(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_RECORD_BYTES", 1000)
    rows = [("a", "x"), ("b" * 1000, "x"), ("c", "y")]
    if suffix == ".jsonl":
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    else:
        lines = [("," if suffix == ".csv" else "\t").join(row) for row in (("text", "label"), *rows)]
    file = write(tmp_path, f"own{suffix}", "\n".join(lines))
    assert complain(file).startswith(f"line {len(lines) - 1}, is longer than ")
    table = read_table(file, "classification", PLAIN, skip_bad=True)
    assert ([one.text for one in table.examples], table.num_skipped) == (["a", "c"], 1)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[1]", "is a list, no JSON object"),
        ("12", "is 12, no JSON object"),
        ("{", "is not valid JSON"),
        ('{"text": "b"}', "has no key 'label' (there are: 'text'): add it"),
        ('{"text": 3, "label": "x"}', "holds 3 in 'text', where text should be"),
        ('{"text": null, "label": "x"}', "holds nothing in 'text'"),
        ('{"text": NaN, "label": "x"}', "holds nan in 'text'"),
        ('{"text": "b", "label": NaN}', "has nan in 'label', where a label should be"),
        ('{"text": "b", "label": null}', "has no label in 'label'"),
        ('{"text": "b", "label": {}}', "has an object in 'label', where a label should be"),
        ('{"text": "b\\u0000", "label": "x"}', "holds a NUL character in 'text'"),
        ('{"text": "", "label": "x"}', "has no text in 'text'"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, fault: str) -> None:
    good = '{"text": "a", "label": "x"}'
    file = write(tmp_path, "own.jsonl", f"{good}\n\n{line}\n{good}")
    assert complain(file).startswith(f"line 3, {fault}")
    table = read_table(file, "classification", PLAIN, skip_bad=True)
    assert (len(table.examples), table.num_skipped) == (2, 1)


@pytest.mark.parametrize("score", ["", "nan", "inf", "-Infinity", "high", "1_000", "1,5", "1e999"])
def test_bad_scores(tmp_path: Path, score: str) -> None:
    file = write(tmp_path, "own.tsv", f"text\tlabel\na\t1\nb\t{score}\n")
    fault = f"line 3, has {score!r} in 'label', which is no finite number: mend it"
    assert complain(file, "regression") == fault + SKIP
    assert read_table(file, "regression", PLAIN, skip_bad=True).num_skipped == 1


@pytest.mark.parametrize("score", ["NaN", "Infinity", "true", "null", "[1]", "1e999", "1" + "0" * 400])
def test_bad_scores_in_json(tmp_path: Path, score: str) -> None:
    file = write(tmp_path, "own.jsonl", f'{{"text": "a", "label": {score}}}')
    assert "in 'label', which is no finite number" in complain(file, "regression")


@pytest.mark.parametrize(
    ("lines", "where", "fault"),
    [
        (["b X O extra"], 4, "has 4 columns where earlier lines have 3"),
        (["b X O", "c O", "d"], 5, "has 2 columns where earlier lines have 3"),
        (["b X O", "c\0 X O"], 5, "holds a NUL"),
        (["b X O", "\udcff X O"], 5, "is not UTF-8"),
    ],
)
def test_a_bad_line_of_conll_spoils_its_sentence(tmp_path: Path, lines: list[str], where: int, fault: str) -> None:
    content = "\n".join(["a X O", "b X O", "", *lines, "", "e X O"]).encode("utf-8", "surrogateescape")
    file = write(tmp_path, "own.conll", content)
    assert complain(file, "tagging").startswith(f"line {where}, {fault}")
    table = read_table(file, "tagging", PLAIN, skip_bad=True)
    assert [(one.id, one.words) for one in table.examples] == [("0", ("a", "b")), ("2", ("e",))]
    assert table.num_skipped == 1


def test_conll_without_tags(tmp_path: Path) -> None:
    file = write(tmp_path, "own.conll", "a\nb\n")
    assert complain(file, "tagging").startswith("line 1, has one column where a word and its tag should be")


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("Once,x,,z,A", "has no text in 'b'"),
        ("Once,x,y,z,D", "has the answer 'D', which is no option: write A to C, 0 to 2, or its text"),
        ("Once,x,y,z,4", "has the answer '4', which is no option"),
        ("Once,x,y,z,", "has no label in 'label'"),
        ("Once,2,1,0,2", "has the answer '2', which may mean several options"),
        (",x,y,z,A", "has no text in 'story'"),
    ],
)
def test_bad_choices(tmp_path: Path, row: str, fault: str) -> None:
    file = write(tmp_path, "own.csv", f"story,a,b,c,label\nOnce,x,y,z,A\n{row}\n")
    assert complain(file, "choice", CHOICE).startswith(f"line 3, {fault}")
    assert read_table(file, "choice", CHOICE, skip_bad=True).num_skipped == 1


@pytest.mark.parametrize("skip_bad", [False, True])
def test_numbers_from_1_are_never_passed_over(tmp_path: Path, skip_bad: bool) -> None:
    rows = "".join(f"Once,x,y,z,{number}\n" for number in (1, 2, 3))
    file = write(tmp_path, "own.csv", f"story,a,b,c,label\n{rows}")
    fault = complain(file, "choice", CHOICE, skip_bad=skip_bad)
    assert fault.startswith("line 4, has the answer '3', but numbers count from 0: write 0 to 2 (one less in each")
    assert "skip" not in fault
    names = Columns(text="story", options=("1", "2", "3"))  # and here they are names
    file = write(tmp_path, "own.csv", f"story,1,2,3,label\n{rows}Once,x,y,z,0\n")
    fault = complain(file, "choice", names, skip_bad=skip_bad)
    assert (
        fault == "line 5, has the answer '0', but numbers are names of columns here: write '1', '2', '3', or its text"
    )


def test_one_option_is_no_choice(tmp_path: Path) -> None:
    file = write(tmp_path, "own.csv", "text,a,label\nOnce,x,A\n")
    assert complain(file, "choice", Columns(options=("a",))).startswith("line 2, has fewer than two options")
    with pytest.raises(RequestError, match="multiple choice needs options"):
        read(file, "choice")


def test_headers(tmp_path: Path) -> None:
    file = write(tmp_path, "own.csv", "\ntext,sentiment\na,x\n")
    for skip_bad in (False, True):
        fault = "line 2, has no column 'label' (there are: 'text', 'sentiment'): name one that is there, or give"
        assert complain(file, skip_bad=skip_bad).startswith(fault)
    assert read(file, with_labels=False)[0].label is None
    file = write(tmp_path, "own.tsv", "text\tlabel\ttext\na\tx\tb\n")
    assert complain(file).startswith("line 1, has 2 columns named 'text': rename all but one")
    file = write(tmp_path, "own.csv", ",, text ,label\n1,2,a,x\n")  # twice the same, but not one that is wanted
    assert read(file)[0].text == "a"
    file = write(tmp_path, "own.csv", "text,labél\na,x\n".encode("latin-1"))
    for skip_bad in (False, True):
        assert complain(file, skip_bad=skip_bad).startswith("line 1, is not UTF-8")
        assert "skip" not in complain(file, skip_bad=skip_bad)


@pytest.mark.parametrize(
    ("name", "header", "fault"),
    [
        (
            "own.csv",
            "text;label",
            "has no column 'text' (there are: 'text;label'): it seems to be separated by ';', so",
        ),
        (
            "own.csv",
            '"text";"label"',
            "has no commas between its cells: it seems to be separated by ';', so write comma",
        ),
        (
            "own.csv",
            "text\tlabel",
            r"has no column 'text' (there are: 'text\tlabel'): it seems to be separated by tabs",
        ),
        (
            "own.tsv",
            "text;label",
            "has no column 'text' (there are: 'text;label'): it seems to be separated by ';', so",
        ),
        ("own.tsv", "text,label", "has no column 'text' (there are: 'text,label'): it seems to be separated by commas"),
        ("own.csv", "words", "has no column 'text' (there are: 'words'): name one that is there"),
    ],
)
def test_headers_with_other_separators(tmp_path: Path, name: str, header: str, fault: str) -> None:
    assert complain(write(tmp_path, name, f"{header}\n")).startswith(f"line 1, {fault}")


@pytest.mark.parametrize("name", ["own.csv", "own.tsv", "own.jsonl", "own.json", "own.conll", "own.csv.gz"])
@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-32"])
def test_other_encodings_are_named(tmp_path: Path, name: str, encoding: str) -> None:
    file = write(tmp_path, name, "text,label\na,x\n".encode(encoding))
    for skip_bad in (False, True):
        fault = complain(file, "tagging" if name == "own.conll" else "classification", skip_bad=skip_bad)
        assert fault == f"line 1, is not UTF-8 but {encoding}: convert the file (iconv -f {encoding} -t UTF-8)"
    if name == "own.json":
        assert complain(file, "questions").startswith(f"is not UTF-8 but {encoding}: ")


def test_an_open_quote_costs_one_record(tmp_path: Path) -> None:
    file = write(tmp_path, "own.csv", 'text,label\na,x\n"b,x\nc,y\nd,y\n')
    assert complain(file).startswith("line 3, opens a quote that is never closed")
    table = read_table(file, "classification", PLAIN, skip_bad=True)
    assert ([one.text for one in table.examples], table.num_skipped) == (["a", "c", "d"], 1)
    assert table.examples[2].location == f"{file}, line 5"


def test_ids(tmp_path: Path) -> None:
    file = write(tmp_path, "own.tsv", "n\ttext\tlabel\n1\ta\tx\n1\tb\tx\n\tc\ty\n")
    columns = Columns(id="n")
    assert complain(file, columns=columns).startswith(f"line 3, has the id '1', as {file}, line 2 has")
    table = read_table(file, "classification", columns, skip_bad=True)
    assert ([one.id for one in table.examples], table.num_skipped) == (["1"], 2)


def test_labels_that_are_not_allowed(tmp_path: Path) -> None:
    file = write(tmp_path, "own.csv", "text,label\na,x\nb,z\n")
    assert complain(file, labels=("x", "y")) == "line 3, has the label 'z', which is none of 'x', 'y': mend it" + SKIP
    assert read_table(file, "classification", PLAIN, labels=("x", "y"), skip_bad=True).num_skipped == 1
    file = write(tmp_path, "own.tsv", "text\tlabel\na\tx,z\n")
    assert complain(file, "multi-label", labels=("x",)).startswith("line 2, has the label 'z'")
    file = write(tmp_path, "own.bio", "a O\nb B-X\n")
    assert complain(file, "tagging", labels=("O",)).startswith("line 2, has the tag 'B-X', which is none of 'O'")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert complain(tmp_path / "nowhere.csv").startswith("cannot be read (No such file")
    (tmp_path / "folder.csv").mkdir()
    assert complain(tmp_path / "folder.csv").startswith("cannot be read (Is a directory)")
    assert complain(write(tmp_path, "empty.csv", "")) == "is empty: its first line should name the columns"
    for name, content in (("a.csv", "text,label\n"), ("a.jsonl", "\n"), ("a.conll", "\n\n")):
        kind: str = "tagging" if name == "a.conll" else "classification"
        assert complain(write(tmp_path, name, content), kind) == "has no examples that can be used: add some"
    file = write(tmp_path, "b.csv", "text,label\n,x\n")
    assert complain(file, skip_bad=True) == "has no examples that can be used (1 bad one left out): add some"
    with pytest.raises(RequestError, match=r"own\.xlsx has no suffix that tells its format"):
        read(write(tmp_path, "own.xlsx", "text"))
    with pytest.raises(RequestError, match="need a separator"):
        read(file, "multi-label", Columns(separator=""))


@pytest.mark.parametrize("name", ["own.csv.gz", "own.jsonl.gz", "own.conll.gz", "own.json.gz", "own.csv.zst"])
def test_what_cannot_be_unpacked_is_not_called_empty(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"text,label\na,x\n")
    for skip_bad in (False, True):
        fault = complain(file, "tagging" if "conll" in name else "classification", skip_bad=skip_bad)
        assert "no zstd file" in fault if name.endswith(".zst") else fault.startswith("is not a gzip file")
        assert fault.endswith(": get the file again")
    if "conll" not in name:
        with pytest.raises(DataError, match=r"is not a gzip file|no zstd file"):
            guess_kind(file, PLAIN)


def test_a_truncated_file(tmp_path: Path) -> None:
    rows = "".join(f"{i * 7919 % 1000003} text\tx\n" for i in range(5_000))
    file = write(tmp_path, "own.tsv.gz", "text\tlabel\n" + rows)
    file.write_bytes(file.read_bytes()[:-2000])
    assert complain(file).startswith("is truncated or damaged")
    table = read_table(file, "classification", PLAIN, skip_bad=True)
    assert 1_000 < len(table.examples) < 5_000
    assert table.num_skipped in (1, 2)  # the line that breaks off is another
    file = write(tmp_path, "own.json", '[{"text": "a", "label": "x"}, {"text": ')
    assert complain(file).startswith("is not valid JSON")
    assert read_table(file, "classification", PLAIN, skip_bad=True).num_skipped == 1
