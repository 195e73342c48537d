"""A user's own files: what is good comes out exactly, and makes the task that it looks like."""

import contextlib
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.errors import RequestError
from litebert.tasks.readers.tables import guess_kind, make_task, read_table
from litebert.tasks.task import (
    Answer,
    ChoiceExample,
    Columns,
    DataError,
    QuestionExample,
    TaggedExample,
    TextExample,
)
from tests.tasks.readers.tables import CHOICE, PLAIN, SKIP, complain, read, write

CELLS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=20)
TEXTS = CELLS.filter(str.strip)


@pytest.mark.parametrize("name", ["own.csv", "own.CSV", "own.csv.gz"])
def test_csv(tmp_path: Path, name: str) -> None:
    content = 'id,text,label\r\n7,"He said ""no"", twice",pos\r\n\r\n8,"two\nlines",neg \r\n9,l"apos,pos\r\n'
    file = write(tmp_path, name, b"\xef\xbb\xbf" + content.encode())
    assert read(file, columns=Columns(id="id")) == [
        TextExample("7", 'He said "no", twice', None, "pos", f"{file}, line 2"),
        TextExample("8", "two\nlines", None, "neg", f"{file}, line 4"),
        TextExample("9", 'l"apos', None, "pos", f"{file}, line 6"),
    ]


def test_tsv_takes_quotes_as_they_are(tmp_path: Path) -> None:
    file = write(tmp_path, "own.tsv", 'a\tb\tc\n"x\ty"\t1\nz\t""\t0\n')
    columns = Columns(text="a", pair="b", label="c")
    assert read(file, columns=columns) == [
        TextExample("0", '"x', 'y"', "1", f"{file}, line 2"),
        TextExample("1", "z", '""', "0", f"{file}, line 3"),
    ]


def test_json_lines_with_labels_of_any_type(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": label, "other": None} for label in ("x", 1, 2.5, True)]
    file = write(tmp_path, "own.jsonl.gz", "\n".join(map(json.dumps, rows)) + "\n\n")
    assert [one.label for one in read(file)] == ["x", "1", "2.5", "true"]
    assert read(file)[3].location == f"{file}, line 4"
    as_list = write(tmp_path, "own.json", json.dumps(rows, indent=1))
    assert [(one.label, one.location) for one in read(as_list)][1] == ("1", f"{as_list}, record 2")


def test_halves_of_characters_are_mended(tmp_path: Path) -> None:
    file = write(tmp_path, "own.jsonl", '{"text": "a\\ud83d b", "label": "\\udc00", "id": "\\ud800"}')
    assert read(file, columns=Columns(id="id"))[0] == TextExample(
        "\ufffd", "a\ufffd b", None, "\ufffd", f"{file}, line 1"
    )


def test_regression(tmp_path: Path) -> None:
    file = write(tmp_path, "own.csv", "text,label\na,1\nb,-2.5\nc, 1e3\n")
    assert [one.label for one in read(file, "regression")] == [1.0, -2.5, 1000.0]
    file = write(tmp_path, "own.jsonl", '{"text": "a", "label": 3}\n{"text": "a", "label": "0.5"}')
    assert [one.label for one in read(file, "regression")] == [3.0, 0.5]


def test_multi_label(tmp_path: Path) -> None:
    file = write(tmp_path, "own.tsv", "text\tlabel\na\tx; y\nb\t\nc\tz;x;z;\n")
    assert [one.label for one in read(file, "multi-label", Columns(separator=";"))] == [("x", "y"), (), ("z", "x")]
    file = write(tmp_path, "own.jsonl", '{"text": "a", "label": ["x", 1]}\n{"text": "b", "label": []}')
    assert [one.label for one in read(file, "multi-label")] == [("x", "1"), ()]


def test_conll(tmp_path: Path) -> None:
    lines = ["-DOCSTART- -X- O O", "", "Anna NNP I-NP B-PER", "sleeps\tVBZ  I-VP \tO", "  ", "", "\u3000 SP X O"]
    file = write(tmp_path, "own.conll", "\r\n".join(lines))
    assert read(file, "tagging") == [
        TaggedExample("0", ("Anna", "sleeps"), ("B-PER", "O"), f"{file}, line 3"),
        TaggedExample("1", ("\u3000",), ("O",), f"{file}, line 7"),
    ]
    assert [one.tags for one in read(file, "tagging", with_labels=False)] == [None, None]
    words = write(tmp_path, "words.txt", "Anna\nsleeps\n-DOCSTART-\nWell\n")
    assert [one.words for one in read(words, "tagging", with_labels=False)] == [("Anna", "sleeps"), ("Well",)]


def test_tags_in_a_table(tmp_path: Path) -> None:
    file = write(tmp_path, "own.jsonl", '{"text": ["New York", "!"], "label": ["B-LOC", "O"]}')
    assert read(file, "tagging") == [TaggedExample("0", ("New York", "!"), ("B-LOC", "O"), f"{file}, line 1")]
    file = write(tmp_path, "own.csv", "text,label\nAnna sleeps,B-PER O\n")
    assert read(file, "tagging") == [TaggedExample("0", ("Anna", "sleeps"), ("B-PER", "O"), f"{file}, line 2")]
    file = write(tmp_path, "bad.csv", "text,label\nAnna sleeps,B-PER\n")
    assert complain(file, "tagging").startswith("line 2, has 1 tags for 2 words")


@pytest.mark.parametrize(
    ("label", "answer"), [("A", 0), ("C", 2), ("c", 2), ("a", 0), ("0", 0), ("2", 2), ("a pear", 1)]
)
def test_choice(tmp_path: Path, label: str, answer: int) -> None:
    file = write(tmp_path, "own.csv", f"story,q,a,b,c,label\nOnce,Why?,an apple,a pear,a plum,{label}\n")
    columns = CHOICE.model_copy(update={"pair": "q"})
    options = ("an apple", "a pear", "a plum")
    assert read(file, "choice", columns) == [
        ChoiceExample("0", "Once", "Why?", options, answer, location=f"{file}, line 2")
    ]
    assert read(file, "choice", CHOICE, with_labels=False)[0].answer is None
    file = write(tmp_path, "own.jsonl", json.dumps({"story": "Once", "all": list(options), "label": label.upper()}))
    if label.upper() in "ABC":
        one = read(file, "choice", Columns(text="story", options=("all",)))[0]
        assert (one.options, one.answer, one.question) == (options, answer, "")


def test_questions(tmp_path: Path) -> None:
    asked = [{"id": "x", "question": "Who?", "answers": [{"text": "Anna", "answer_start": 0}]}]
    content = {"data": [{"paragraphs": [{"context": "Anna sleeps.", "qas": asked}]}]}
    file = write(tmp_path, "own.json.gz", json.dumps(content))
    expected = QuestionExample("x", "Who?", "Anna sleeps.", (Answer("Anna", 0),), f"{file}, question 'x'")
    assert read(file, "questions") == [expected]
    del asked[0]["answers"]
    file = write(tmp_path, "own.json", json.dumps(content))
    assert complain(file, "questions") == "question 'x', has no answers: add them" + SKIP
    assert len(read(file, "questions", with_labels=False)) == 1
    with pytest.raises(RequestError, match="write them as SQuAD's JSON"):
        read(write(tmp_path, "own.csv", "text\na"), "questions")


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS.map(str.strip)), min_size=1, max_size=8))
def test_any_csv_reads_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["text", "other", "label"])
    places = []
    for row in rows:
        written = buffer.getvalue()
        places.append(written.count("\n") + written.replace("\r\n", "").count("\r") + 1)
        writer.writerow(row)
    file = write(tmp_path_factory.getbasetemp(), "any.csv", buffer.getvalue())
    found = read(file, columns=Columns(pair="other"))
    assert [(one.text, one.pair, one.label) for one in found] == rows
    assert [one.location for one in found] == [f"{file}, line {line}" for line in places]


@given(st.lists(st.tuples(TEXTS, TEXTS.map(str.strip)), min_size=1, max_size=8), st.booleans())
def test_any_json_reads_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], is_ascii: bool
) -> None:
    lines = [json.dumps({"text": text, "label": label}, ensure_ascii=is_ascii) for text, label in rows]
    file = write(tmp_path_factory.getbasetemp(), "any.jsonl", "\n".join(lines))
    assert [(one.text, one.label) for one in read(file)] == rows


@given(st.binary(max_size=60), st.sampled_from([".csv", ".tsv", ".jsonl", ".json", ".conll", ".csv.zst"]))
def test_no_bytes_break_a_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str) -> None:
    start = b"text,label\n" if suffix == ".csv" else b"text\tlabel\n" if suffix == ".tsv" else b""
    file = tmp_path_factory.getbasetemp() / f"bytes{suffix}"
    file.write_bytes(start + content)
    kind: str = "tagging" if suffix == ".conll" else "classification"
    for skip_bad in (False, True):
        with contextlib.suppress(DataError):
            table = read_table(file, kind, PLAIN, skip_bad=skip_bad)
            assert table.examples
            assert skip_bad or not table.num_skipped


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.csv", "text,label\na,x\n", "classification"),
        ("a.csv", "text,label\na,1\nb,5\n", "classification"),
        ("a.csv", "text,label\na,1.0\nb,5\n", "classification"),
        ("a.csv", "text,label\na,1\nb,4.5\n", "regression"),
        ("a.tsv.gz", "text\tlabel\na\t1\nb\t4.5\nc\tx\n", "classification"),
        ("a.tsv", "text\tlabel\na\t1\nb\t4.5\nc\tnan\nd\t-inf\n", "regression"),
        ("a.tsv", "text\tlabel\na\t1\nb\tnan\nc\tinf\n", "classification"),
        ("a.tsv", "text\tlabel\n" + "a\t0.5\n" * 9 + "b\t3,5\n", "regression"),
        ("a.tsv", "text\tlabel\n" + "a\t0.5\n" * 8 + "b\t3,5\n", "classification"),
        ("a.tsv", "text\tlabel\na\t0.5\nb\t\nc\t \n", "regression"),  # of those that are there
        ("a.jsonl", '{"text": "a", "label": 0.25}', "regression"),
        ("a.jsonl", '{"text": "a", "label": ["x"]}', "multi-label"),
        ("a.jsonl", '{"text": ["a"], "label": ["x"]}', "tagging"),
        ("a.json", '{"version": "1", "data": []}', "questions"),
        ("a.json", '[{"text": "a", "label": "x"}]', "classification"),
        ("a.json", '{"text": "a", "label": "x"}\n{"text": "a", "label": "y"}', "classification"),
        ("a.conll", "a O", "tagging"),
        ("a.IOB.gz", "a O", "tagging"),
    ],
)
def test_guess_kind(tmp_path: Path, name: str, content: str, kind: str) -> None:
    file = write(tmp_path, name, content)
    assert guess_kind(file, PLAIN) == kind
    if kind not in ("tagging",):
        assert guess_kind(file, Columns(options=("a", "b"))) == "choice"


def texts(*labels: Any) -> list[TextExample]:
    return [TextExample(str(i), "a", None, label, f"f, line {i + 2}") for i, label in enumerate(labels)]


@pytest.mark.parametrize(
    ("kind", "labels", "expected", "metrics"),
    [
        ("classification", ["b", "a", "b"], ("a", "b"), ("accuracy", "macro_f1", "matthews")),
        ("classification", ["10", "9", "-1"], ("-1", "9", "10"), ("accuracy", "macro_f1")),
        ("classification", ["10", "9", "x"], ("10", "9", "x"), ("accuracy", "macro_f1")),
        ("multi-label", [("b", "a"), (), ("c",)], ("a", "b", "c"), ("micro_f1", "macro_f1")),
        ("multi-label", [("b",), ()], ("b",), ("micro_f1", "macro_f1")),
        ("regression", [1.0, 2.5], (), ("pearson", "spearman")),
    ],
)
def test_make_task(kind: str, labels: list[Any], expected: tuple[str, ...], metrics: tuple[str, ...]) -> None:
    task = make_task("own", kind, Columns(pair="other"), texts(*labels))
    assert (task.name, task.kind, task.labels, task.metrics) == ("own", kind, expected, metrics)
    assert (task.is_pair, task.columns) == (True, Columns(pair="other"))
    assert not make_task("own", kind, PLAIN, texts(*labels)).is_pair


def test_make_task_of_other_kinds() -> None:
    tagged = [TaggedExample("0", ("a", "b"), ("O", "B-X"))]
    assert make_task("own", "tagging", PLAIN, tagged).labels == ("B-X", "O")
    assert make_task("own", "tagging", PLAIN, tagged).metrics == ("entity_f1", "accuracy")
    asked = [QuestionExample("0", "Q?", "C", (Answer("C", 0),))]
    task = make_task("own", "questions", PLAIN, asked)
    assert (task.metrics, task.has_unanswerable, task.columns) == (("f1", "exact"), False, None)
    assert make_task("own", "questions", PLAIN, [*asked, QuestionExample("1", "Q?", "C", ())]).has_unanswerable
    task = make_task("own", "choice", CHOICE, [ChoiceExample("0", "P", "Q", ("x", "y"), 0)])
    assert (task.metrics, task.labels, task.columns) == (("accuracy",), (), CHOICE)


@pytest.mark.parametrize(
    ("kind", "examples", "fault"),
    [
        ("classification", texts("x", "x"), "only the label 'x' occurs in the training examples of own"),
        ("multi-label", texts(("x",), ("x",)), "only the label 'x' occurs"),
        ("multi-label", texts((), ()), "the training examples of own have no labels"),
        ("regression", texts(2.5, 2.5), "only the score 2.5 occurs"),
        ("tagging", [TaggedExample("0", ("a", "b"), ("O", "O"))], "only the label 'O' occurs"),
        ("classification", texts(None), "the training examples of own have no labels"),
        ("classification", [], "own has no training examples"),
        ("classification", texts(*map(str, range(100_001))), "own has 100,001 labels, and 100,000 are possible"),
    ],
)
def test_tasks_that_cannot_be_learnt(kind: str, examples: list[Any], fault: str) -> None:
    with pytest.raises(DataError) as caught:
        make_task("own", kind, PLAIN, examples)
    assert str(caught.value).startswith(fault)


def test_a_task_that_is_not_to_be_learnt_may_have_one_label() -> None:
    assert make_task("own", "classification", PLAIN, texts("x", "x"), is_learnt=False).labels == ("x",)
    assert make_task("own", "multi-label", PLAIN, texts((), ()), is_learnt=False).labels == ()
    assert make_task("own", "regression", PLAIN, texts(2.5), is_learnt=False).labels == ()
