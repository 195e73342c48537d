"""RACE is read from its official folders and from JSON lines alike."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from litebert.errors import RequestError
from litebert.tasks.kinds import kind_of
from litebert.tasks.readers.race import RACE, read_race
from litebert.tasks.task import ChoiceExample, DataError, Recipe

PASSAGE: dict[str, Any] = {
    "article": "Anna went to the market.\nShe bought apples.",
    "questions": ["Anna bought  _  .", "Where was she?"],
    "options": [["pears", "apples", "plums", "bread"], ["at home", "at the market"]],
    "answers": ["B", "B"],
}


def write(folder: Path, name: str, passage: Any) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(passage))
    return file


def test_task() -> None:
    task = RACE["race"]
    assert (task.kind, task.metrics, kind_of(task).head(task)) == ("choice", ("accuracy",), "multiple-choice")
    assert task.recipe == Recipe(lr=2e-5, batch_size=32, dropout=0.1, steps=12000, warmup_steps=1000, max_length=512)


@pytest.mark.parametrize("inside", ["", "RACE"])
def test_official_folders(tmp_path: Path, inside: str) -> None:
    home = tmp_path / inside
    for group, number in (("high", 10), ("high", 9), ("middle", 100)):
        write(home, f"train/{group}/{number}.txt", {**PASSAGE, "id": f"{group}{number}.txt"})
    file = write(home, "dev/high/1.txt", PASSAGE)
    data = read_race(tmp_path)
    assert (data.task, list(data.splits), data.num_skipped) == (RACE["race"], ["train", "dev"], 0)
    train = data.splits["train"]
    assert [one.id for one in train] == [
        f"{name}.txt-{i}" for name in ("middle100", "high9", "high10") for i in range(2)
    ]
    assert [one.group for one in train] == ["middle"] * 2 + ["high"] * 4
    assert data.splits["dev"] == [
        ChoiceExample(
            id="high1-0",
            passage="Anna went to the market.\nShe bought apples.",
            question="Anna bought  _  .",
            options=("pears", "apples", "plums", "bread"),
            answer=1,
            group="high",
            location=f"{file}, question 1",
        ),
        ChoiceExample(
            id="high1-1",
            passage="Anna went to the market.\nShe bought apples.",
            question="Where was she?",
            options=("at home", "at the market"),
            answer=1,
            group="high",
            location=f"{file}, question 2",
        ),
    ]


def test_json_lines(tmp_path: Path) -> None:
    lines = [json.dumps({**PASSAGE, "id": f"x{i}"}) for i in range(2)]
    file = tmp_path / "train.high.jsonl.gz"
    file.write_bytes(gzip.compress("\n\n".join(lines).encode()))
    (tmp_path / "dev.middle.jsonl").write_text(lines[0])
    (tmp_path / "test.jsonl").write_text(json.dumps({**PASSAGE, "id": "high7", "answers": None}))
    data = read_race(tmp_path)
    assert [(one.id, one.group) for one in data.splits["train"]] == [
        ("x0-0", "high"),
        ("x0-1", "high"),
        ("x1-0", "high"),
        ("x1-1", "high"),
    ]
    assert data.splits["train"][3].location == f"{file}, line 3, question 2"
    assert {one.group for one in data.splits["dev"]} == {"middle"}
    assert [(one.group, one.answer) for one in data.splits["test"]] == [("high", None)] * 2


@pytest.mark.parametrize(
    ("changes", "where", "fault"),
    [
        ({"answers": ["B", "C"]}, ", question 2", "has the answer 'C', which is none of A, B"),
        ({"answers": ["b", "B"]}, ", question 1", "has the answer 'b', which is none of A, B, C, D"),
        ({"answers": ["AB", "B"]}, ", question 1", "has the answer 'AB', which is none of"),
        ({"answers": [1, "B"]}, ", question 1", "has the answer 1, which is none of"),
        ({"options": [["a", "b"], ["c"]]}, ", question 2", "has fewer than two options"),
        ({"options": [["a", "b"], ["c", 3]]}, ", question 2", "holds 3 in 'options'"),
        ({"questions": ["A", None]}, ", question 2", "holds nothing in 'questions'"),
        ({"answers": ["A"]}, "", "has not as many options and answers as questions"),
        ({"questions": "A"}, "", "has no list under 'questions'"),
        ({"article": " "}, "", "has no text in 'article'"),
        ({"article": None}, "", "holds nothing in 'article'"),
    ],
)
@pytest.mark.parametrize("in_lines", [True, False])
def test_bad_records(tmp_path: Path, changes: dict[str, Any], where: str, fault: str, in_lines: bool) -> None:
    passages = [PASSAGE, {**PASSAGE, **changes}, PASSAGE]
    if in_lines:
        file = tmp_path / "dev.high.jsonl"
        file.write_text("".join(json.dumps(passage) + "\n" for passage in passages))
        spot = f"{file}, line 2{where}"
    else:
        for number, passage in enumerate(passages):
            write(tmp_path, f"dev/high/{number}.txt", passage)
        spot = f"{tmp_path / 'dev' / 'high' / '1.txt'}{where or ', the passage'}"
    with pytest.raises(DataError) as caught:
        read_race(tmp_path)
    assert str(caught.value).startswith(f"{spot}, {fault}")
    data = read_race(tmp_path, skip_bad=True)
    assert (len(data.splits["dev"]), data.num_skipped) == (5 if where else 4, 1)


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"article": NaN}', b"\xff\xfe"])
def test_a_passage_that_is_no_json_object(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, "dev/high/1.txt", PASSAGE)
    file = tmp_path / "dev" / "high" / "2.txt"
    file.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_race(tmp_path)
    assert str(caught.value).startswith(f"{file}, the passage, ")
    data = read_race(tmp_path, skip_bad=True)
    assert (len(data.splits["dev"]), data.num_skipped) == (2, 1)


def test_ids_are_unique(tmp_path: Path) -> None:
    first = write(tmp_path, "dev/high/1.txt", {**PASSAGE, "id": "same"})
    second = write(tmp_path, "dev/high/2.txt", {**PASSAGE, "id": "same"})
    with pytest.raises(DataError) as caught:
        read_race(tmp_path)
    assert str(caught.value).startswith(f"{second}, question 1, has the id 'same-0', as {first}, question 1 has")
    assert read_race(tmp_path, skip_bad=True).num_skipped == 2


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no folders such as train/high"):
        read_race(tmp_path)
    with pytest.raises(RequestError, match="race has no split 'all': its splits are train, dev, test"):
        read_race(tmp_path, splits=["all"])
    write(tmp_path, "dev/high/1.txt", {**PASSAGE, "questions": [], "options": [], "answers": []})
    for splits in (["train"], None):
        with pytest.raises(DataError, match="has no questions for"):
            read_race(tmp_path, splits=splits)
