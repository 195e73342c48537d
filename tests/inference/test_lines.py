"""What is typed or piped, a line for each example, is read like the same lines in a file."""

import io
import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from litebert.inference.lines import read_lines
from litebert.tasks.readers.sources import OFFICIAL
from litebert.tasks.readers.tables import read_table
from litebert.tasks.task import (
    ChoiceExample,
    Columns,
    DataError,
    Example,
    QuestionExample,
    TaggedExample,
    Task,
    TextExample,
)
from litebert.text import records
from tests.tasks.readers.tables import write

LOCATION = "input, line 1"


def make_task(kind: str, columns: Columns | None, is_pair: bool = False) -> Task:
    labels = () if kind in ("questions", "choice", "regression") else ("a", "b")
    return Task(name="mine", kind=kind, labels=labels, metrics=("accuracy",), columns=columns, is_pair=is_pair)


def read(task: Task, *rows: str | dict[str, Any]) -> list[Example]:
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    return read_lines(task, io.BytesIO("".join(text + "\n" for text in texts).encode()), "input")


@pytest.mark.parametrize(
    ("kind", "columns", "record"),
    [
        ("classification", Columns(text="said"), {"said": "a", "text": "b"}),
        ("regression", Columns(text="one", pair="other", id="key"), {"key": 7, "one": "a", "other": "b", "id": 9}),
        ("multi-label", Columns(), {"text": "a", "id": "x"}),
        ("tagging", Columns(text="tokens"), {"tokens": ["New York", "is"], "words": ["b"]}),
        ("tagging", Columns(), {"text": "two words"}),
        ("choice", Columns(text="story", options=("one", "two")), {"story": "s", "one": "x", "two": "y"}),
        ("choice", Columns(text="s", pair="q", options=("ends",)), {"s": "s", "q": "q", "ends": ["x", "y", "z"]}),
    ],
)
def test_a_file_and_standard_input_are_read_alike(
    tmp_path: Path, kind: str, columns: Columns, record: dict[str, Any]
) -> None:
    task = make_task(kind, columns, is_pair=columns.pair is not None)
    file = write(tmp_path, "new.jsonl", json.dumps(record) + "\n")
    wanted = read_table(file, kind, columns, with_labels=False).examples
    with file.open("rb") as stream:
        assert read_lines(task, stream, str(file)) == wanted


@pytest.mark.parametrize(
    ("task", "record", "expected"),
    [
        (make_task("classification", Columns(text="said")), {"text": "a"}, TextExample("0", "a", location=LOCATION)),
        (OFFICIAL["sst-2"], {"sentence": "a", "id": "x"}, TextExample("x", "a", location=LOCATION)),
        (
            OFFICIAL["rte"],
            {"sentence1": "a", "sentence2": "b", "index": 3},
            TextExample("3", "a", "b", location=LOCATION),
        ),
        (OFFICIAL["rte"], {"text": "a", "pair": "b"}, TextExample("0", "a", "b", location=LOCATION)),
        (
            OFFICIAL["squad1"],
            {"question": "Q", "context": "C", "id": 5},
            QuestionExample("5", "Q", "C", location=LOCATION),
        ),
        (
            OFFICIAL["race"],
            {"passage": "P", "question": "Q", "options": ["x", "y"]},
            ChoiceExample("0", "P", "Q", ("x", "y"), location=LOCATION),
        ),
        (
            make_task("choice", Columns(text="story", options=("one", "two"))),
            {"passage": "P", "question": "Q", "options": ["x", "y"]},
            ChoiceExample("0", "P", "Q", ("x", "y"), location=LOCATION),
        ),
        (
            make_task("tagging", Columns(text="tokens")),
            {"words": ["a", "b"]},
            TaggedExample("0", ("a", "b"), location=LOCATION),
        ),
    ],
)
def test_names_that_everybody_would_choose(task: Task, record: dict[str, Any], expected: Example) -> None:
    assert read(task, record) == [expected]


def test_plain_lines() -> None:
    texts = read(make_task("classification", Columns()), "\ufeffone\ttwo", "", "three\r")
    assert [(one.id, one.text) for one in texts if isinstance(one, TextExample)] == [
        ("0", "one\ttwo"),
        ("2", "three"),
    ]
    assert read(OFFICIAL["rte"], "a\tb") == [TextExample("0", "a", "b", location=LOCATION)]
    assert read(OFFICIAL["squad1"], "C\tQ") == [QuestionExample("0", question="Q", context="C", location=LOCATION)]
    assert read(OFFICIAL["race"], "P\tQ\tx\ty") == [ChoiceExample("0", "P", "Q", ("x", "y"), location=LOCATION)]
    assert read(make_task("tagging", None), "two words") == [TaggedExample("0", ("two", "words"), location=LOCATION)]


@pytest.mark.parametrize(
    ("task", "rows", "fault"),
    [
        (OFFICIAL["sst-2"], [{"review": "a"}], r"input, line 1, has no key 'sentence' \(there are: 'review'\)"),
        (OFFICIAL["sst-2"], ["fine", {"sentence": 3}], "input, line 2, holds 3 in 'sentence'"),
        (OFFICIAL["sst-2"], [{"text": "a", "id": "x"}] * 2, "input, line 2, has the id 'x', as input, line 1 has"),
        (OFFICIAL["sst-2"], ["{no"], "input, line 1, begins with { and is not valid JSON"),
        (OFFICIAL["squad1"], [{"question": "Q"}], "input, line 1, holds nothing in 'context'"),
        (OFFICIAL["race"], [{"passage": "P", "question": "Q", "options": ["x"]}], "has fewer than two options"),
        (OFFICIAL["rte"], ["alone"], "input, line 1, has 1 parts: rte takes a text, a tab and the second text"),
        (OFFICIAL["squad1"], ["Q?"], "squad1 takes a context that may hold the answer, a tab and the question, or a"),
        (OFFICIAL["sst-2"], [], "input is empty"),
    ],
)
def test_what_cannot_be_read(task: Task, rows: list[Any], fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        read(task, *rows)


def test_a_line_without_an_end_is_not_taken_into_memory() -> None:
    class Endless(io.RawIOBase):
        num_bytes = 0

        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert 0 < size < 1_000_000
            self.num_bytes += size
            return b"a" * size

    stream: Any = Endless()
    with mock.patch.object(records, "MAX_RECORD_BYTES", 100), pytest.raises(DataError, match="longer than 100 bytes"):
        read_lines(OFFICIAL["sst-2"], stream, "input")
    assert stream.num_bytes < 1_000_000
