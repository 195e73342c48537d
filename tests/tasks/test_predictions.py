"""Files of predictions: others' formats, our own, and what sites ask for."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.errors import LitebertError, RequestError
from litebert.tasks.predictions import (
    read_predictions,
    write_glue_submission,
    write_predictions,
    write_squad_predictions,
)
from litebert.tasks.task import (
    Answer,
    ChoiceExample,
    Columns,
    DataError,
    Example,
    Predictions,
    QuestionExample,
    TaggedExample,
    Task,
    TextExample,
)


def make_task(kind: str, labels: Sequence[str] = (), name: str = "mine", **more: Any) -> Task:
    return Task(name=name, kind=kind, labels=tuple(labels), metrics=("accuracy",), **more)


SENTIMENT = make_task("classification", ("bad", "good"))
BINARY = make_task("classification", ("0", "1"))
TOPICS = make_task("multi-label", ("art", "sport", "war"), columns=Columns(separator="|"))
RATING = make_task("regression")
NER = make_task("tagging", ("O", "B-X", "I-X"))
SQUAD = make_task("questions", has_unanswerable=True)
RACE = make_task("choice")

TEXTS: list[Example] = [TextExample(id_, "text", location=f"dev.tsv, line {n}") for n, id_ in enumerate("abc", 2)]
TAGGED: list[Example] = [TaggedExample("a", ("w", "w")), TaggedExample("b", ("w",)), TaggedExample("c", ("w",) * 3)]
QUESTIONS: list[Example] = [QuestionExample(id_, "?", "context") for id_ in "abc"]
CHOICES: list[Example] = [ChoiceExample(id_, "p", "q", ("x", "y", "z")) for id_ in "abc"]


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_bytes(text.encode())
    return file


def save(
    file: Path,
    task: Task,
    examples: Sequence[Example],
    answers: Sequence[Any],
    details: Sequence[dict[str, Any]] | None,
) -> None:
    write_predictions(file, task, examples, Predictions(tuple(answers), tuple(details or ())))


def test_ids_are_found_under_their_own_name(tmp_path: Path) -> None:
    task = make_task("classification", ("bad", "good"), columns=Columns(id="Review"))
    for name, text in {
        "p.csv": "Review,prediction\nc,bad\na,good\nb,bad\n",
        "q.jsonl": "".join(
            json.dumps({"Review": id_, "pred": said, "label": "good"}) + "\n"
            for id_, said in (("c", "bad"), ("a", "good"), ("b", "bad"))
        ),
    }.items():
        assert read_predictions(task, TEXTS, write(tmp_path, name, text)).answers == ("good", "bad", "bad")


@pytest.mark.parametrize(
    ("name", "text"),
    [("p.jsonl", '{"id": "a", "label": "good", "guess": "bad"}\n'), ("p.csv", "id,label,guess\na,good,bad\n")],
)
def test_a_right_label_is_not_taken_for_the_prediction(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(DataError, match=r"labels under 'label' and under 'guess': call the one to score 'prediction'"):
        read_predictions(SENTIMENT, TEXTS[:1], write(tmp_path, name, text))


def test_three_classes_have_no_order(tmp_path: Path) -> None:
    three = make_task("classification", ("contradiction", "entailment", "neutral"))
    with pytest.raises(DataError, match="predicts '0', an index"):
        read_predictions(three, TEXTS, write(tmp_path, "p.txt", "0\n1\n2\n"))


def test_answers_before_their_threshold(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "prediction": "", "null_odds": 2.0, "nbest": [{"text": "one"}]},
        {"id": "b", "prediction": "two", "null_odds": -1.0, "nbest": [{"text": "two"}, {"text": "three"}]},
        {"id": "c", "prediction": "", "null_odds": 3.0, "nbest": []},
    ]
    read = read_predictions(SQUAD, QUESTIONS, write(tmp_path, "p.jsonl", "".join(json.dumps(r) + "\n" for r in rows)))
    assert (read.answers, read.raw_answers) == (("", "two", ""), ("one", "two", ""))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "p.jsonl",
            '{"id": "b", "prediction": "bad"}\n\n{"id": "a", "prediction": "good"}\n{"id": "c", "label": "good"}',
        ),
        ("p.jsonl", '{"prediction": "good", "label": "bad"}\n{"answer": "bad"}\n{"label": "good", "score": 0.9}\n'),
        ("p.tsv", "index\tprediction\nc\tgood\na\tgood\nb\tbad\n"),
        ("p.tsv", "\ufeffid\tlabel\tprediction\r\na\tbad\tgood\r\nb\tbad\tbad\r\nc\tbad\tgood\r\n"),
        ("p.tsv", "b\tbad\na\tgood\nc\tgood"),
        ("p.csv", 'c,good\r\n"a",good\r\n\r\nb,"bad"\r\n'),
        ("p.csv", "prediction,ID\ngood,a\nbad,b\ngood,c\n"),
        ("p.tsv", "prediction\ngood\nbad\ngood\n"),
        ("p.json", '{"b": "bad", "c": "good", "a": "good"}'),
        ("p.txt", "good\nbad \ngood\n"),
        ("p.txt", "1\n0\n1\n"),  # by index
        ("p.jsonl", '{"id": "a", "prediction": 1}\n{"id": "b", "prediction": 0}\n{"id": "c", "prediction": 1}\n'),
    ],
)
def test_labels_in_any_format(tmp_path: Path, name: str, text: str) -> None:
    assert read_predictions(SENTIMENT, TEXTS, write(tmp_path, name, text)).answers == ("good", "bad", "good")


def test_numbers_that_are_names_are_never_indices(tmp_path: Path) -> None:
    file = write(tmp_path, "p.txt", "1\n0\n1\n")
    assert read_predictions(BINARY, TEXTS, file).answers == ("1", "0", "1")
    turned = make_task("classification", ("1", "0"))
    assert read_predictions(turned, TEXTS, file).answers == ("1", "0", "1")
    with pytest.raises(
        DataError, match=r"p\.txt, line 2, predicts '2', which is no label of the task: it has bad, good"
    ):
        read_predictions(SENTIMENT, TEXTS, write(tmp_path, "p.txt", "1\n2\n1\n"))
    with pytest.raises(DataError, match=r"line 1, predicts '1'"):  # not every value is an index
        read_predictions(SENTIMENT, TEXTS, write(tmp_path, "p.txt", "1\nbad\n1\n"))


def test_answers_of_the_other_kinds(tmp_path: Path) -> None:
    topics = write(tmp_path, "m.tsv", "a\tsport|art\nb\t\nc\twar\n")
    assert read_predictions(TOPICS, TEXTS, topics).answers == (("art", "sport"), (), ("war",))
    topics = write(tmp_path, "m.jsonl", '{"prediction": ["war", "art"]}\n{"prediction": []}\n{"prediction": "art|war"}')
    assert read_predictions(TOPICS, TEXTS, topics).answers == (("art", "war"), (), ("art", "war"))
    ratings = write(tmp_path, "r.jsonl", '{"score": 1.5, "label": "LABEL_0"}\n{"prediction": "2"}\n{"label": -3e-1}\n')
    assert read_predictions(RATING, TEXTS, ratings).answers == (1.5, 2.0, -0.3)
    tags = write(tmp_path, "t.tsv", "a\tB-X I-X\nb\tO\nc\tO O B-X\n")
    assert read_predictions(NER, TAGGED, tags).answers == (("B-X", "I-X"), ("O",), ("O", "O", "B-X"))
    options = write(tmp_path, "c.txt", "2\nA\nb\n")
    assert read_predictions(RACE, CHOICES, options).answers == (2, 0, 1)
    texts = write(tmp_path, "q.jsonl", '{"answer": "x", "score": 0.4}\n{"prediction": ""}\n{"answer": " the "}\n')
    assert read_predictions(SQUAD, QUESTIONS, texts).answers == ("x", "", " the ")
    lines = write(tmp_path, "q.txt", 'x\n\n"the"\n')  # an empty line says that there is no answer
    assert read_predictions(SQUAD, QUESTIONS, lines).answers == ("x", "", '"the"')


def test_null_odds_from_rows_or_from_a_second_file(tmp_path: Path) -> None:
    texts = write(tmp_path, "p.json", '{"a": "x", "b": "", "c": "z"}')
    assert read_predictions(SQUAD, QUESTIONS, texts).null_odds is None
    odds = write(tmp_path, "odds.json", '{"c": 0.5, "a": -1, "b": 3.25}')
    assert read_predictions(SQUAD, QUESTIONS, texts, odds).null_odds == (-1.0, 3.25, 0.5)
    rows = [{"id": id_, "prediction": "x", "null_odds": n, "nbest": ["y"]} for n, id_ in enumerate("abc")]
    lines = write(tmp_path, "p.jsonl", "\n".join(map(json.dumps, rows)))
    found = read_predictions(SQUAD, QUESTIONS, lines)
    assert found.null_odds == (0.0, 1.0, 2.0)
    assert found.details[2] == {"null_odds": 2, "nbest": ["y"]}
    assert read_predictions(SQUAD, QUESTIONS, lines, odds).null_odds == (-1.0, 3.25, 0.5)
    with pytest.raises(DataError, match=r"odds\.json has no prediction for 1 of 3"):
        read_predictions(SQUAD, QUESTIONS, texts, write(tmp_path, "odds.json", '{"c": 0.5, "a": 1}'))
    del rows[1]["null_odds"]
    with pytest.raises(DataError, match=r"p\.jsonl, line 2, has no null_odds"):
        read_predictions(SQUAD, QUESTIONS, write(tmp_path, "p.jsonl", "\n".join(map(json.dumps, rows))))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "p.tsv",
            "a\tgood\nb\tbad\n",
            r"p\.tsv has no prediction for 1 of 3 .* first that of 'c' \(dev\.tsv, line 4\)",
        ),
        ("p.tsv", "a\tgood\nx\tbad\nc\tbad\n", r"p\.tsv, line 2, has the id 'x', which no example has"),
        ("p.tsv", "id\tprediction\na\tgood\nb\tbad\na\tbad\n", r"p\.tsv, line 4, gives the id 'a' a second time"),
        ("p.json", '{"a": "bad", "b": "bad", "c": "bad", "a": "good"}', r"p\.json, id 'a', gives the id 'a' a second"),
        ("p.tsv", "a\tgood\nb\tugly\nc\tbad\n", r"p\.tsv, line 2, predicts 'ugly', .* it has bad, good"),
        ("p.tsv", "a\tgood\nb\nc\tbad\n", r"p\.tsv, line 2, has 1 columns instead of 2"),
        ("p.tsv", "a\tgood\t1\nb\tgood\t2\n", r"p\.tsv, line 1, must name the columns"),
        ("p.csv", 'a,"go\nod"\nb,ugly,1\n', r"p\.csv, line 3, has 3 columns"),
        ("p.csv", 'a,good\nb,"bad\n', r"p\.csv, line 2, opens a quote that is never closed"),
        ("p.txt", "good\nbad\n", r"p\.txt holds 2 predictions without ids for 3 examples"),
        ("p.tsv", "", r"p\.tsv holds 0 predictions"),
        (
            "p.jsonl",
            '{"id": "a", "prediction": "bad"}\n{"id": "b", "prediction": \n',
            r"p\.jsonl, line 2, is not valid JSON",
        ),
        ("p.jsonl", '{"id": "a", "prediction": "bad"}\n["b", "bad"]\n', r"p\.jsonl, line 2, is a list, no JSON object"),
        ("p.jsonl", '{"id": "a", "guess": "bad"}\n', r"p\.jsonl, line 1, has no key 'prediction'"),
        (
            "p.jsonl",
            '{"id": "a", "prediction": "bad"}\n{"prediction": "bad"}\n',
            r"line 2, has no id, though others have",
        ),
        ("p.jsonl", '{"prediction": true}\n' * 3, r"line 1, predicts 'True', where the name of a label must stand"),
        ("p.json", "[1, 2]", r"p\.json must hold one JSON object"),
        ("p.json", '{"a": "bad"}\n{"b": "bad"}', r"p\.json is not valid JSON .*\.jsonl"),
        ("p.xml", "<a/>", r"p\.xml must end in \.jsonl"),
    ],
)
def test_bad_files_of_labels(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(LitebertError, match=message) as caught:
        read_predictions(SENTIMENT, TEXTS, write(tmp_path, name, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("task", "examples", "text", "message"),
    [
        (RATING, TEXTS, "1\nnan\n2\n", r"line 2, predicts 'nan', which is not a finite number"),
        (RATING, TEXTS, "1\n2\ngood\n", r"line 3, predicts 'good'"),
        (NER, TAGGED, "O O\nO O\nO O O\n", r"line 2, has 2 tags for 1 words"),
        (NER, TAGGED, "O O\nB-Y\nO O O\n", r"line 2, predicts 'B-Y', which is no label"),
        (RACE, CHOICES, "0\n3\n1\n", r"line 2, predicts '3', but numbers count from 0: write 0 to 2"),
        (RACE, CHOICES, "0\n4\n1\n", r"line 2, predicts '4', which is no option: write A to C, 0 to 2, or its text"),
        (RACE, CHOICES, "0\n\n1\n", r"line 2, predicts '', which is no option"),
        (RACE, CHOICES, "0\n-1\n1\n", r"line 2, predicts '-1'"),
        (RACE, CHOICES, "0\nD\n1\n", r"line 2, predicts 'D'"),
        (TOPICS, TEXTS, "art\nart|peace\n\n", r"line 2, predicts 'peace'"),
    ],
)
def test_bad_values(tmp_path: Path, task: Task, examples: list[Example], text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_predictions(task, examples, write(tmp_path, "p.txt", text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LitebertError, match="cannot be read"):
        read_predictions(SENTIMENT, TEXTS, tmp_path / "none.tsv")
    (tmp_path / "latin.tsv").write_bytes(b"a\tgut\xe9\n")
    with pytest.raises(LitebertError, match="UTF-8"):
        read_predictions(SENTIMENT, TEXTS, tmp_path / "latin.tsv")
    with pytest.raises(DataError, match="some examples have the same"):
        read_predictions(SENTIMENT, [*TEXTS, TEXTS[0]], write(tmp_path, "p.tsv", "a\tgood\n"))


CASES: list[tuple[Task, list[Example], list[Any]]] = [
    (SENTIMENT, TEXTS, ["good", "bad", "good"]),
    (BINARY, TEXTS, ["0", "1", "1"]),
    (TOPICS, TEXTS, [("art", "war"), (), ("sport",)]),
    (RATING, TEXTS, [0.1 + 0.2, -3.0, 1e-17]),
    (NER, TAGGED, [("B-X", "I-X"), ("O",), ("O", "O", "O")]),
    (SQUAD, QUESTIONS, ['"quoted", \\n', "", "日本 – é"]),
    (RACE, CHOICES, [2, 0, 1]),
]


@pytest.mark.parametrize("ending", ["jsonl", "tsv"])
@pytest.mark.parametrize(("task", "examples", "answers"), CASES, ids=[case[0].kind for case in CASES])
def test_what_is_written_is_read(
    tmp_path: Path, task: Task, examples: list[Example], answers: list[Any], ending: str
) -> None:
    file = tmp_path / "new" / f"p.{ending}"
    save(file, task, examples, answers, [{"probabilities": [0.5, n]} for n in range(3)])
    assert read_predictions(task, examples, file).answers == tuple(answers)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@given(texts=st.lists(st.text(), min_size=3, max_size=3))
def test_any_text_survives_json_lines(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    file = tmp_path_factory.getbasetemp() / "any.jsonl"
    save(file, SQUAD, QUESTIONS, texts, None)
    assert read_predictions(SQUAD, QUESTIONS, file).answers == tuple(texts)
    write_squad_predictions(file.with_suffix(".json"), QUESTIONS, texts)
    assert read_predictions(SQUAD, QUESTIONS, file.with_suffix(".json")).answers == tuple(texts)
    half = [text + "\ud800" for text in texts]  # JSON can hold half of a character
    save(file, SQUAD, QUESTIONS, half, None)
    assert read_predictions(SQUAD, QUESTIONS, file).answers == tuple(half)


def test_rows_hold_the_label_and_the_details(tmp_path: Path) -> None:
    examples = [TextExample("a", "t", label="bad"), TextExample("b", "t")]
    details = [
        {"probabilities": {"bad": np.float32(0.25)}, "logits": np.array([1.0, -np.inf])},
        {"probabilities": None},
    ]
    save(tmp_path / "p.jsonl", SENTIMENT, examples, ["good", "bad"], details)
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert rows == [
        {"id": "a", "prediction": "good", "label": "bad", "probabilities": {"bad": 0.25}, "logits": [1.0, None]},
        {"id": "b", "prediction": "bad", "probabilities": None},
    ]
    assert list(rows[0])[:3] == ["id", "prediction", "label"]
    question = QuestionExample("q", "?", "a b", (Answer("a", 0), Answer("b", 2)))
    save(tmp_path / "q.tsv", SQUAD, [question], ["one\ttwo\r\nthree\u2028"], [{"note": "x\ny", "p": 0.5}])
    assert (tmp_path / "q.tsv").read_bytes().decode() == (
        'id\tprediction\tlabel\tnote\tp\nq\tone two three \t["a", "b"]\tx y\t0.5\n'
    )


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"\.jsonl or \.tsv"):
        save(tmp_path / "p.parquet", SENTIMENT, TEXTS, ["bad"] * 3, None)
    with pytest.raises(RequestError, match="2 predictions for 3 examples"):
        save(tmp_path / "p.tsv", SENTIMENT, TEXTS, ["bad"] * 2, None)
    mixed = make_task("multi-label", ("a,b",))
    with pytest.raises(RequestError, match="cannot hold the label 'a,b'"):
        save(tmp_path / "p.tsv", mixed, TEXTS, [("a,b",)] * 3, None)
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(LitebertError, match="cannot write"):
        save(tmp_path / "folder.tsv", SENTIMENT, TEXTS, ["bad"] * 3, None)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.tsv"]


def test_a_table_of_answers_may_have_long_cells(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    rows = "".join(f'{example.id},bad,"{"x" * 200_000}"\n' for example in TEXTS)
    file.write_text("id,prediction,why\n" + rows, encoding="utf-8")
    before = csv.field_size_limit(131_072)  # as it is in a new process
    assert read_predictions(SENTIMENT, TEXTS, file).answers == ("bad",) * 3
    csv.field_size_limit(before)


NLI = ("entailment", "neutral", "contradiction")
PAIR = ("entailment", "not_entailment")


@pytest.mark.parametrize(
    ("name", "labels", "split", "file"),
    [
        ("cola", ("0", "1"), "test", "CoLA.tsv"),
        ("sst-2", ("0", "1"), "test", "SST-2.tsv"),
        ("mrpc", ("0", "1"), "test", "MRPC.tsv"),
        ("qqp", ("0", "1"), "test", "QQP.tsv"),
        ("mnli", NLI, "test", "MNLI-m.tsv"),
        ("mnli", NLI, "test_mismatched", "MNLI-mm.tsv"),
        ("mnli", NLI, "diagnostic", "AX.tsv"),
        ("qnli", PAIR, "test", "QNLI.tsv"),
        ("rte", PAIR, "test", "RTE.tsv"),
        ("wnli", ("0", "1"), "test", "WNLI.tsv"),
    ],
)
def test_glue_submissions(tmp_path: Path, name: str, labels: tuple[str, ...], split: str, file: str) -> None:
    task = make_task("classification", labels, name)
    examples = [TextExample(id_, "text") for id_ in ("10", "2", "0")]
    answers = [labels[-1], labels[0], labels[1]]
    path = write_glue_submission(tmp_path / "glue", task, split, examples, answers)
    assert path == tmp_path / "glue" / file
    assert path.read_bytes().decode() == f"index\tprediction\n10\t{answers[0]}\n2\t{answers[1]}\n0\t{answers[2]}\n"
    assert read_predictions(task, examples, path).answers == tuple(answers)


def test_scores_for_glue_are_within_its_scale(tmp_path: Path) -> None:
    task = make_task("regression", name="sts-b")
    examples = [TextExample(str(n), "text") for n in range(4)]
    path = write_glue_submission(tmp_path, task, "test", examples, [5.2, -0.1, np.float32(2.71828), 3])
    assert path.name == "STS-B.tsv"
    assert path.read_text() == "index\tprediction\n0\t5.000\n1\t0.000\n2\t2.718\n3\t3.000\n"
    with pytest.raises(RequestError, match="'0' is nan"):
        write_glue_submission(tmp_path, task, "test", examples[:1], [float("nan")])


def test_glue_takes_its_own_names_only(tmp_path: Path) -> None:
    rte = make_task("classification", ("0", "1"), "rte")
    with pytest.raises(RequestError, match="no label '1' of RTE: it takes entailment, not_entailment"):
        write_glue_submission(tmp_path, rte, "test", TEXTS, ["1"] * 3)
    with pytest.raises(RequestError, match="GLUE has no task 'mine'"):
        write_glue_submission(tmp_path, SENTIMENT, "test", TEXTS, ["bad"] * 3)
    assert not list(tmp_path.iterdir())


def test_squad_predictions(tmp_path: Path) -> None:
    file = tmp_path / "dev.json"
    assert write_squad_predictions(file, QUESTIONS, ["x", "", "é"]) is None
    assert json.loads(file.read_text()) == {"a": "x", "b": "", "c": "é"}
    second = write_squad_predictions(file, QUESTIONS, ["x", "", "é"], [0.1, np.float64(2), -3])
    assert second == tmp_path / "dev_null_odds.json"
    assert json.loads(second.read_text()) == {"a": 0.1, "b": 2.0, "c": -3.0}
    assert read_predictions(SQUAD, QUESTIONS, file, second).null_odds == (0.1, 2.0, -3.0)
    with pytest.raises(RequestError, match="same id"):
        write_squad_predictions(file, [*QUESTIONS, QUESTIONS[0]], ["x"] * 4)
