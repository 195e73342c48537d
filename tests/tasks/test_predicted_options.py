"""Multiple choice: right answers in a table and predicted ones are read by one rule."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.tasks.kinds import kind_of
from litebert.tasks.predictions import read_predictions, write_predictions
from litebert.tasks.readers.tables import read_table
from litebert.tasks.task import ChoiceExample, Columns, DataError, Example, Predictions, Task
from tests.tasks.readers.tables import write

CHOICES: list[Example] = [ChoiceExample(id_, "p", "q", ("x", "y", "z")) for id_ in "abc"]
ANSWERS = st.sampled_from([*"abcABC0123", "red", "blue", "green"])


def make_task(columns: Columns) -> Task:
    return Task(name="mine", kind="choice", metrics=("accuracy",), columns=columns)


@given(
    names=st.sampled_from([("b", "a", "c"), ("1", "2", "3"), ("o1", "o2", "o3"), ("B", "C", "A"), ("0", "1", "2")]),
    texts=st.sampled_from([("red", "blue", "green"), ("b", "a", "x"), ("2", "0", "x")]),
    answer=ANSWERS,
)
def test_right_and_predicted_options_are_read_alike(
    tmp_path_factory: pytest.TempPathFactory, names: tuple[str, ...], texts: tuple[str, ...], answer: str
) -> None:
    """Right answers from a table against the same answers as predictions: both are read as one option, or refused."""
    columns, folder = Columns(options=names), tmp_path_factory.getbasetemp()
    table = write(folder, "gold.csv", f"text,{','.join(names)},label\nP,{','.join(texts)},{answer}\n")
    file = write(folder, "p.txt", f"{answer}\n")
    task = make_task(columns)
    unanswered = read_table(table, "choice", columns, with_labels=False).examples
    try:
        right = [kind_of(task).gold(example) for example in read_table(table, "choice", columns).examples]
    except DataError:
        with pytest.raises(DataError, match="predicts"):
            read_predictions(task, unanswered, file)
    else:
        assert list(read_predictions(task, unanswered, file).answers) == right


def test_options_by_the_names_of_their_columns(tmp_path: Path) -> None:
    numbered = make_task(Columns(options=("1", "2", "3")))
    assert read_predictions(numbered, CHOICES, write(tmp_path, "p.txt", "1\n3\ny\n")).answers == (0, 2, 1)
    mixed = make_task(Columns(options=("b", "a", "c")))
    assert read_predictions(mixed, CHOICES, write(tmp_path, "p.txt", "b\na\n2\n")).answers == (0, 1, 2)
    with pytest.raises(DataError, match=r"line 1, predicts 'B', which may mean several options"):
        read_predictions(mixed, CHOICES, write(tmp_path, "p.txt", "B\na\n2\n"))
    # What we write ourselves is an index, whatever the columns are called.
    for name in ("own.jsonl", "own.tsv"):
        said = Predictions((1, 0, 2), ({"probabilities": [0.2, 0.3, 0.5]},) * 3)
        write_predictions(tmp_path / name, numbered, CHOICES, said)
        assert read_predictions(numbered, CHOICES, tmp_path / name).answers == (1, 0, 2)
    with pytest.raises(DataError, match=r"line 1, predicts 3, which is no option: numbers count from 0 to 2"):
        read_predictions(numbered, CHOICES[:1], write(tmp_path, "p.jsonl", '{"id": "a", "prediction": 3}'))
    with pytest.raises(DataError, match=r"line 1, predicts 'True', where an option must stand"):
        read_predictions(numbered, CHOICES[:1], write(tmp_path, "p.jsonl", '{"id": "a", "prediction": true}'))
