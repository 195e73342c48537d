"""A user's own files become a dataset; without a file for development, some of the examples are held out."""

from collections import Counter
from pathlib import Path

import pytest

from litebert.errors import RequestError
from litebert.tasks.sources import OwnData, hold_out, read_examples, read_official, read_own
from litebert.tasks.task import Columns, DataError, Example, TaggedExample, TextExample
from tests.tasks.tables import write


def make_classes(sizes: list[int]) -> list[Example]:
    labels = [f"class {number}" for number, size in enumerate(sizes) for _ in range(size)]
    return [TextExample(str(number), "text", label=label) for number, label in enumerate(labels)]


def count(examples: list[Example]) -> Counter[object]:
    return Counter(example.label for example in examples if isinstance(example, TextExample))


@pytest.mark.parametrize(
    "sizes", [[50, 50], [900, 90, 10], [4] * 100, [5] * 40, [1] * 30, [1, 1], [60_000, 20_000]], ids=str
)
def test_a_tenth_of_each_class_is_held_out(sizes: list[int]) -> None:
    examples = make_classes(sizes)
    rest, held = hold_out(examples)
    assert len(held) == min(5000, max(1, round(len(examples) / 10)))
    ids = [example.id for example in rest + held]
    assert sorted(ids) == sorted(example.id for example in examples)
    share = len(held) / len(examples)
    for label, size in count(examples).items():
        assert abs(count(held)[label] - share * size) <= 1
        assert count(rest)[label] >= (1 if size > 1 else 0)


def test_the_seed_decides_who_is_held_out() -> None:
    examples = make_classes([40, 60])
    assert hold_out(examples, 1) == hold_out(examples, 1) != hold_out(examples, 2)
    tagged: list[Example] = [TaggedExample(str(number), ("a",), ("O",)) for number in range(30)]
    assert [len(part) for part in hold_out(tagged)] == [27, 3]


def test_one_example_cannot_be_divided() -> None:
    with pytest.raises(RequestError, match="a single example cannot be divided"):
        hold_out(make_classes([1]))


def test_own_files(tmp_path: Path) -> None:
    train = write(
        tmp_path, "mood.csv", "said,mood\n" + "".join(f"text {n},{'sad' if n % 3 else 'glad'}\n" for n in range(30))
    )
    dev = write(tmp_path, "dev.csv", "said,mood\none,sad\ntwo,glad\n")
    columns = Columns(text="said", label="mood")
    data = read_own(OwnData(train, dev, kind="classification", columns=columns))
    assert (data.task.name, data.task.kind, data.task.labels) == ("mood", "classification", ("glad", "sad"))
    assert {split: len(examples) for split, examples in data.splits.items()} == {"train": 30, "dev": 2}
    alone = read_own(OwnData(train, kind="classification", columns=columns), seed=3)
    assert {split: len(examples) for split, examples in alone.splits.items()} == {"train": 27, "dev": 3}
    assert alone.task == data.task
    again, num_skipped = read_examples(data.task, dev, with_labels=True)
    assert (again, num_skipped) == (data.splits["dev"], 0)
    assert [example.label for example in read_examples(data.task, dev, with_labels=False)[0]] == [None, None]  # type: ignore[union-attr]


def test_a_label_that_training_never_saw(tmp_path: Path) -> None:
    train = write(tmp_path, "mood.csv", "text,label\na,sad\nb,glad\n")
    dev = write(tmp_path, "dev.csv", "text,label\na,sad\nb,angry\n")
    with pytest.raises(DataError, match=r"dev\.csv, line 3.*'angry'"):
        read_own(OwnData(train, dev, kind="classification"))


def test_official_folders_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is not there: name the folder of cola's official files with --data"):
        read_official("cola", tmp_path / "nowhere")
    with pytest.raises(RequestError, match="'bola' is neither a file nor a task: tasks are cola"):
        read_official("bola", tmp_path)
