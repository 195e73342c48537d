"""Both SQuADs are read from their official JSON, and every answer is where it is said to be."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.errors import RequestError
from litebert.tasks.kinds import kind_of
from litebert.tasks.readers.squad import SQUAD, read_squad, read_squad_folder
from litebert.tasks.task import Answer, DataError, Recipe

CONTEXT = "The café in Paris opened in 1990; Paris is large 😀. Anna lives in Paris."
QUESTION = {"id": "q1", "question": "Where?", "answers": [{"text": "Paris", "answer_start": 12}]}


def write(folder: Path, *questions: Any, name: str = "dev-v1.1.json", context: Any = CONTEXT) -> Path:
    file = folder / name
    paragraphs = [{"context": context, "qas": list(questions)}]
    file.write_text(json.dumps({"version": "1.1", "data": [{"title": "Cafés", "paragraphs": paragraphs}]}))
    return file


def ask(text: Any, begin: Any, name: str = "q1") -> dict[str, Any]:
    return {"id": name, "question": "Where?", "answers": [{"text": text, "answer_start": begin}]}


def test_tasks() -> None:
    one, two = SQUAD["squad1"], SQUAD["squad2"]
    assert (one.metrics, two.metrics) == (("f1", "exact"),) * 2
    assert (kind_of(one).head(one), kind_of(two).head(two)) == ("question-answering", "answerable-question-answering")
    assert one.recipe == Recipe(lr=5e-5, batch_size=48, dropout=0.0, steps=3649, warmup_steps=365, max_length=384)
    assert two.recipe == Recipe(lr=3e-5, batch_size=48, dropout=0.0, steps=8144, warmup_steps=814, max_length=512)


def test_squad_1(tmp_path: Path) -> None:
    answers = [{"text": "Paris", "answer_start": 12}, {"text": "in Paris", "answer_start": 9}]
    write(tmp_path, {"id": "a", "question": " Where?", "answers": answers}, name="train-v1.1.json")
    write(tmp_path, ask("Anna", 52), ask("1990", 28, "q2"))
    data = read_squad_folder("squad1", tmp_path)
    assert (data.task, data.num_skipped, list(data.splits)) == (SQUAD["squad1"], 0, ["train", "dev"])
    example = data.splits["train"][0]
    assert (example.id, example.question, example.context) == ("a", " Where?", CONTEXT)
    assert example.answers == (Answer("Paris", 12), Answer("in Paris", 9))
    assert [one.answers for one in data.splits["dev"]] == [(Answer("Anna", 52),), (Answer("1990", 28),)]
    assert data.splits["dev"][1].location == f"{tmp_path / 'dev-v1.1.json'}, question 'q2'"
    assert data.splits["dev"][0].context is data.splits["dev"][1].context  # it is kept once


def test_squad_2(tmp_path: Path) -> None:
    none = {"id": "n", "question": "Who?", "answers": [], "is_impossible": True}
    plausible = {**none, "id": "p", "plausible_answers": [{"text": "Anna", "answer_start": 52}]}
    write(tmp_path, {**QUESTION, "is_impossible": False}, none, plausible, name="dev-v2.0.json")
    data = read_squad_folder("squad2", tmp_path)
    assert [(one.id, one.answers) for one in data.splits["dev"]] == [
        ("q1", (Answer("Paris", 12),)),
        ("n", ()),
        ("p", ()),
    ]


def test_a_test_set_has_no_answers(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "t", "question": "Who?"})
    assert [one.answers for one in read_squad(file)[0]] == [None]


def test_answers_may_be_ignored(tmp_path: Path) -> None:
    file = write(tmp_path, ask("nowhere", 3))
    assert [one.answers for one in read_squad(file, with_answers=False)[0]] == [None]


@pytest.mark.parametrize(
    ("text", "given", "begin"),
    [
        ("Paris", 12, 12),
        ("Paris", 10, 12),
        ("Paris", 0, 12),
        ("Paris", 22, 12),
        ("Paris", 24, 34),
        ("Paris", 35, 34),
        ("Paris", 9999, 66),
        ("Anna", 53, 52),  # counted in UTF-16, as some tools do
        ("café", 5, 4),
    ],
)
def test_an_answer_elsewhere_is_found_where_it_is_nearest(tmp_path: Path, text: str, given: int, begin: int) -> None:
    examples, num_bad = read_squad(write(tmp_path, ask(text, given)))
    assert (examples[0].answers, num_bad) == ((Answer(text, begin),), 0)


@given(context=st.text("ab", min_size=1), text=st.text("ab", min_size=1, max_size=3), begin=st.integers(0, 20))
def test_no_occurrence_is_nearer(tmp_path_factory: pytest.TempPathFactory, context: str, text: str, begin: int) -> None:
    file = write(tmp_path_factory.getbasetemp(), ask(text, begin), context=context, name="nearest.json")
    places = [i for i in range(len(context)) if context.startswith(text, i)]
    if not places:
        with pytest.raises(DataError, match="not in its context"):
            read_squad(file)
        return
    answers = read_squad(file)[0][0].answers
    assert answers is not None
    assert answers[0].begin in places
    assert abs(answers[0].begin - begin) == min(abs(place - begin) for place in places)


@pytest.mark.parametrize(
    ("question", "where", "fault"),
    [
        (ask("London", 12, "bad"), "question 'bad'", "has the answer 'London', which is not in its context"),
        (ask("paris", 12, "bad"), "question 'bad'", "has the answer 'paris', which is not in its context"),
        (ask("", 12, "bad"), "question 'bad'", "has no text in 'text'"),
        (ask(None, 12, "bad"), "question 'bad'", "holds nothing in 'text'"),
        (ask("Paris", None, "bad"), "question 'bad'", "has nothing for an answer_start"),
        (ask("Paris", -1, "bad"), "question 'bad'", "has -1 for an answer_start"),
        (ask("Paris", "12", "bad"), "question 'bad'", "has '12' for an answer_start"),
        (ask("Paris", 12), "question 'q1'", "has the id of an earlier question"),
        ({"id": "bad", "question": " "}, "question 'bad'", "has no text in 'question'"),
        ({"id": "bad"}, "question 'bad'", "holds nothing in 'question'"),
        ({"id": 7, "question": "Who?"}, "question 7", "holds 7 in 'id', where text should be"),
        ({"question": "Who?"}, "article 1, paragraph 1, question 2", "holds nothing in 'id'"),
        ("Who?", "article 1, paragraph 1, question 2", "is 'Who?', no JSON object"),
        ({**QUESTION, "id": "bad", "answers": "Paris"}, "question 'bad'", "has no list under 'answers'"),
        ({**QUESTION, "id": "bad", "answers": ["Paris"]}, "question 'bad'", "has 'Paris' for an answer"),
        ({**QUESTION, "id": "bad", "answers": []}, "question 'bad'", "has no answer, as it may only in SQuAD 2.0"),
    ],
)
def test_bad_questions(tmp_path: Path, question: Any, where: str, fault: str) -> None:
    file = write(tmp_path, QUESTION, question, ask("Anna", 52, "q3"))
    with pytest.raises(DataError) as caught:
        read_squad_folder("squad1", tmp_path)
    assert str(caught.value).startswith(f"{file}, {where}, {fault}")
    data = read_squad_folder("squad1", tmp_path, skip_bad=True)
    assert ([one.id for one in data.splits["dev"]], data.num_skipped) == (["q1", "q3"], 1)


@pytest.mark.parametrize(
    ("article", "where", "fault"),
    [
        ({"title": "x"}, "article 1", "has no list under 'paragraphs'"),
        ("x", "article 1", "has no list under 'paragraphs'"),
        ({"paragraphs": [{"context": "c"}]}, "article 1, paragraph 1", "has no list under 'qas'"),
        ({"paragraphs": [{"qas": []}]}, "article 1, paragraph 1", "holds nothing in 'context'"),
        ({"paragraphs": [{"qas": [], "context": ""}]}, "article 1, paragraph 1", "has no text in 'context'"),
    ],
)
def test_bad_articles(tmp_path: Path, article: Any, where: str, fault: str) -> None:
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"data": [article, {"paragraphs": [{"context": CONTEXT, "qas": [QUESTION]}]}]}))
    with pytest.raises(DataError) as caught:
        read_squad(file)
    assert str(caught.value).startswith(f"{file}, {where}, {fault}")
    examples, num_bad = read_squad(file, skip_bad=True)
    assert ([one.id for one in examples], num_bad) == (["q1"], 1)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is not valid JSON (line 1: Expecting value)"),
        (b'{"data": [\n{"x": 1,}]}', "is not valid JSON (line 2:"),
        (b'{"data": [NaN]}', "holds NaN, which is no JSON"),
        (b'{"data": ["\xff"]}', "is not UTF-8"),
        (b"[1]", "has no list under 'data'"),
        (b'{"data": {}}', "has no list under 'data'"),
        (b"[" * 100_000, "is not valid JSON (nested too deeply or too large)"),
        (b'{"data": []}', "has no question that can be used"),
    ],
)
def test_bad_files(tmp_path: Path, content: bytes, fault: str) -> None:
    file = tmp_path / "own.json"
    file.write_bytes(content)
    for skip_bad in (False, True):
        with pytest.raises(DataError) as caught:
            read_squad(file, skip_bad=skip_bad)
        assert str(caught.value).startswith(f"{file} {fault}")


def test_bom_compression_and_halves_of_characters(tmp_path: Path) -> None:
    plain = write(tmp_path, ask("Paris\ud83d", 3), context="In Paris\ud83d.")
    file = tmp_path / "own.json.gz"
    file.write_bytes(gzip.compress(b"\xef\xbb\xbf" + plain.read_bytes()))
    example = read_squad(file)[0][0]
    assert example.context == "In Paris\ufffd."
    assert example.answers == (Answer("Paris\ufffd", 3),)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"own\.json\.gz is truncated or damaged"):
        read_squad(file)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no file such as train-v2\.0\.json"):
        read_squad_folder("squad2", tmp_path)
    write(tmp_path, QUESTION)
    with pytest.raises(DataError, match=r"train-v1\.1\.json cannot be read \(No such file"):
        read_squad_folder("squad1", tmp_path, splits=["train"])
    with pytest.raises(RequestError, match="its splits are train, dev, test"):
        read_squad_folder("squad1", tmp_path, splits=["held-out"])
    with pytest.raises(RequestError, match="'squad' is no version of SQuAD: choose one of squad1, squad2"):
        read_squad_folder("squad", tmp_path)
