"""A user's own files become a dataset; without a file for development, some of the examples are held out."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from litebert.errors import RequestError
from litebert.tasks.readers.sources import (
    OFFICIAL,
    OwnData,
    add_labels,
    has_plain_lines,
    hold_out,
    is_official,
    read_examples,
    read_labelled,
    read_official,
    read_own,
)
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
from tests.conftest import need
from tests.tasks.readers.tables import write


def task_of(kind: str) -> Task:
    return Task(name="mine", kind=kind, metrics=("accuracy",))


CLASSES = task_of("classification")


def make_classes(sizes: list[int]) -> list[Example]:
    labels = [f"class {number}" for number, size in enumerate(sizes) for _ in range(size)]
    return [TextExample(str(number), f"text {number}", label=label) for number, label in enumerate(labels)]


def count(examples: list[Example]) -> Counter[object]:
    return Counter(example.label for example in examples if isinstance(example, TextExample))


@pytest.mark.parametrize(
    "sizes", [[50, 50], [900, 90, 10], [4] * 100, [5] * 40, [1] * 30, [1, 1], [60_000, 20_000]], ids=str
)
def test_a_tenth_of_each_class_is_held_out(sizes: list[int]) -> None:
    examples = make_classes(sizes)
    rest, held = hold_out(CLASSES, examples)
    assert len(held) == min(5000, max(1, round(len(examples) / 10)))
    ids = [example.id for example in rest + held]
    assert sorted(ids) == sorted(example.id for example in examples)
    share = len(held) / len(examples)
    for label, size in count(examples).items():
        assert abs(count(held)[label] - share * size) <= 1
        assert count(rest)[label] >= (1 if size > 1 else 0)


def test_the_seed_decides_who_is_held_out() -> None:
    examples = make_classes([40, 60])
    assert hold_out(CLASSES, examples, 1) == hold_out(CLASSES, examples, 1) != hold_out(CLASSES, examples, 2)
    tagged: list[Example] = [TaggedExample(str(number), (f"a{number}",), ("O",)) for number in range(30)]
    assert [len(part) for part in hold_out(task_of("tagging"), tagged)] == [27, 3]


@pytest.mark.parametrize("kind", ["questions", "choice"])
def test_questions_about_one_text_stay_together(kind: str) -> None:
    def ask(number: int) -> Example:
        text = f"text {number // 5}"
        if kind == "choice":
            return ChoiceExample(str(number), text, "Q?", ("a", "b"), 0)
        return QuestionExample(str(number), "Q?", text, ())

    def texts(part: list[Example]) -> set[str]:
        return {one.passage if isinstance(one, ChoiceExample) else one.context for one in part}  # type: ignore[union-attr]

    examples = [ask(number) for number in range(200)]
    rest, held = hold_out(task_of(kind), examples)
    assert (len(rest), len(held)) == (180, 20)
    assert not texts(rest) & texts(held)
    assert [len(part) for part in hold_out(task_of(kind), examples[:15])] == [10, 5]
    with pytest.raises(RequestError, match="all examples have the same text"):
        hold_out(task_of(kind), examples[:5])


def test_equal_texts_stay_together_and_rare_classes_are_not_forgotten() -> None:
    twice: list[Example] = [TextExample(str(number), f"text {number // 2}", label="a") for number in range(200)]
    rest, held = hold_out(CLASSES, twice)
    assert len(held) == 20
    assert not {one.text for one in rest} & {one.text for one in held}  # type: ignore[union-attr]
    for sizes in ([96, 4], [500, 3, 2]):
        rest, held = hold_out(CLASSES, make_classes(sizes))
        assert len(count(held)) == len(count(rest)) == len(sizes)


def test_one_example_cannot_be_divided() -> None:
    with pytest.raises(RequestError, match="a single example cannot be divided"):
        hold_out(CLASSES, make_classes([1]))


def test_own_files(tmp_path: Path) -> None:
    train = write(
        tmp_path, "mood.csv", "said,mood\n" + "".join(f"text {n},{'sad' if n % 3 else 'glad'}\n" for n in range(30))
    )
    dev = write(tmp_path, "dev.csv", "said,mood\none,sad\ntwo,glad\n")
    columns = Columns(text="said", label="mood")
    data = read_own(OwnData(train, dev, kind="classification", columns=columns))
    assert (data.task.name, data.task.kind, data.task.labels) == ("mood", "classification", ("glad", "sad"))
    assert {split: len(examples) for split, examples in data.splits.items()} == {"train": 30, "dev": 2}
    alone = read_own(OwnData(train, kind="classification", columns=columns))
    assert {split: len(examples) for split, examples in alone.splits.items()} == {"train": 27, "dev": 3}
    assert alone.task == data.task
    again, num_skipped = read_examples(data.task, dev, with_labels=True)
    assert (again, num_skipped) == (data.splits["dev"], 0)
    assert [example.label for example in read_examples(data.task, dev, with_labels=False)[0]] == [None, None]  # type: ignore[union-attr]


def test_a_column_called_pair_is_the_second_text(tmp_path: Path) -> None:
    """Left out in silence, it would leave a task on pairs with half of what there is to learn from."""
    rows = [{"text": f"one {n}", "pair": f"two {n}", "label": "ab"[n % 2]} for n in range(20)]
    file = write(tmp_path, "pairs.jsonl", "\n".join(map(json.dumps, rows)))
    data = read_own(OwnData(file))
    assert data.task.is_pair
    assert data.task.columns == Columns(pair="pair")
    assert all(
        isinstance(one, TextExample) and one.pair == one.text.replace("one", "two") for one in data.splits["dev"]
    )
    assert read_labelled(file, None, Columns())[0].is_pair
    named = read_own(OwnData(file, columns=Columns(pair="text", text="pair")))
    assert isinstance(first := named.splits["dev"][0], TextExample)
    assert first.text.startswith("two")


def test_tables_in_memory() -> None:
    rows = [{"Text": f"text {n}", "mood": "sad" if n % 3 else "glad"} for n in range(30)]
    frame, dataset = need("pandas").DataFrame(rows), need("datasets").Dataset.from_list(rows)
    columns = Columns(label="mood")
    plain = read_own(OwnData(rows, columns=columns))
    assert (plain.task.name, plain.task.kind, plain.task.labels) == ("table", "classification", ("glad", "sad"))
    assert plain.splits["train"][0] == TextExample("0", "text 0", None, "glad", "the list, record 1")
    for table in (frame, dataset):
        data = read_own(OwnData(table, dev=table, test=rows[:3], columns=columns))
        assert data.task == plain.task
        assert [len(data.splits[split]) for split in ("train", "dev", "test")] == [30, 30, 3]
        assert [one.text for one in data.splits["train"][:2]] == ["text 0", "text 1"]  # type: ignore[union-attr]
    with pytest.raises(DataError, match="the DataFrame, its header, has no column 'stars'"):
        read_own(OwnData(frame, columns=Columns(label="stars")))
    with pytest.raises(DataError, match="the list, record 2, has no key 'label'"):
        read_own(OwnData([{"text": "a", "label": "x"}, {"text": "b"}]))


def test_files_without_a_header_or_a_suffix(tmp_path: Path) -> None:
    lines = "".join(f"{'sad' if n % 3 else 'glad'}\ttext {n}\n" for n in range(30))
    bare, named = write(tmp_path, "mood", lines), write(tmp_path, "mood.txt", lines)
    columns = Columns(text="2", label="1")
    data = read_own(OwnData(bare, columns=columns, header=False))
    assert (data.task.name, data.task.labels, data.task.columns) == ("mood", ("glad", "sad"), columns)
    assert sum(map(len, data.splits.values())) == 30
    again = read_own(OwnData(named, columns=columns, header=False, format="tsv"))
    assert again.task == data.task
    examples, _ = read_examples(data.task, named, with_labels=True, format="tsv", header=False)
    assert len(examples) == 30
    assert read_labelled(bare, None, columns, header=False)[0].labels == ("glad", "sad")
    with pytest.raises(DataError, match="has no column 'text': without a header, columns are named 1 to 2"):
        read_own(OwnData(bare, header=False))
    with pytest.raises(RequestError, match=r"mood\.txt has no suffix that tells its format: .*--format"):
        read_own(OwnData(named, columns=columns, header=False))


def test_a_table_of_parquet(tmp_path: Path) -> None:
    rows = [{"Text": f"text {n}", "label": n % 3} for n in range(30)]
    need("pyarrow.parquet").write_table(need("pyarrow").Table.from_pylist(rows), tmp_path / "own.parquet")
    data = read_own(OwnData(tmp_path / "own.parquet"))
    assert data.task.labels == ("0", "1", "2")
    assert len(read_examples(data.task, tmp_path / "own.parquet", with_labels=False)[0]) == 30


def test_a_missing_file_is_not_taken_for_a_task(tmp_path: Path) -> None:
    write(tmp_path, "reviews.csv", "text,label\na,b\n")
    for name, fault in [
        (f"{tmp_path}/review.csv", rf"review\.csv is not there: did you mean {tmp_path}/reviews\.csv\?"),
        (f"{tmp_path}/nothing", "nothing is not there: check its name"),
        ("nowhere.parquet", r"nowhere\.parquet is not there: check its name"),
        ("bola", "'bola' is neither a file nor a task: tasks are cola"),
    ]:
        with pytest.raises(RequestError, match=fault):
            read_labelled(Path(name), None, Columns())


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


# --- official tasks ---------------------------------------------------------------------------------------------------


def texts_of(name: str, file: Path, with_labels: bool = True) -> list[tuple[Any, ...]]:
    examples = read_examples(OFFICIAL[name], file, with_labels)[0]
    return [(one.text, one.pair, one.label) for one in examples if isinstance(one, TextExample)]


def test_what_is_official() -> None:
    assert all(map(is_official, OFFICIAL.values()))
    own = Task(name="mine", kind="questions", metrics=("f1",), is_pair=True)
    assert not is_official(own)
    assert not is_official(own.model_copy(update={"name": "cola"}))
    assert not is_official(OFFICIAL["cola"].model_copy(update={"labels": ("bad", "good")}))
    assert not is_official(OFFICIAL["cola"].model_copy(update={"columns": Columns()}))


def test_the_named_file_is_read_and_no_other(tmp_path: Path) -> None:
    write(tmp_path, "dev.tsv", "sentence\tlabel\nfrom tabs\t1\n")
    comma = write(tmp_path, "dev.csv", "sentence,label\nfrom commas,0\n")
    (tmp_path / "SST-2").mkdir()
    write(tmp_path / "SST-2", "dev.tsv", "sentence\tlabel\nfrom a folder\t1\n")
    packed = write(tmp_path, "dev.tsv.gz", "sentence\tlabel\npacked\t1\n")
    assert texts_of("sst-2", comma) == [("from commas", None, "0")]
    assert texts_of("sst-2", tmp_path / "dev.tsv") == [("from tabs", None, "1")]
    assert texts_of("sst-2", packed) == [("packed", None, "1")]


def test_a_file_of_one_group_of_race(tmp_path: Path) -> None:
    for group in ("middle", "high"):
        passage = {"article": group, "questions": ["Q?"], "options": [["a", "b"]], "answers": ["B"], "id": group}
        (tmp_path / f"train.{group}.jsonl.gz").write_bytes(gzip.compress(json.dumps(passage).encode()))
        (tmp_path / group).mkdir()
        write(tmp_path / group, "1.txt", json.dumps(passage))
    for file in (tmp_path / "train.high.jsonl.gz", tmp_path / "high" / "1.txt"):
        (one,) = read_examples(OFFICIAL["race"], file, True)[0]
        assert isinstance(one, ChoiceExample)
        assert (one.passage, one.group, one.answer) == ("high", "high", 1)


@pytest.mark.parametrize(
    ("name", "file", "content", "expected"),
    [
        ("sst-2", "my.tsv", 'sentence\tlabel\n"good\t1\n', ('"good', None, "1")),
        ("sst-2", "my.tsv", "text\tlabel\ngood\t1\n", ("good", None, "1")),
        ("sst-2", "my.csv", 'label,text\n1,"good, it is"\n', ("good, it is", None, "1")),
        ("sst-2", "my.csv.gz", "sentence,label\ngood,1\n", ("good", None, "1")),
        ("sst-2", "my.jsonl", '{"text": "good", "label": 1}\n', ("good", None, "1")),
        ("sst-2", "test.jsonl", '{"sentence": "good", "label": "1"}\n', ("good", None, "1")),
        ("mrpc", "my.tsv", "Quality\t#1 String\t#2 String\n1\ta\tb\n", ("a", "b", "1")),
        ("mrpc", "my.jsonl", '{"text": "a", "pair": "b", "label": 0}\n', ("a", "b", "0")),
        ("qnli", "my.csv", "question,sentence,label\nq,s,entailment\n", ("q", "s", "entailment")),
        ("sts-b", "my.jsonl", '{"sentence1": "a", "sentence2": "b", "score": 2.5}\n', ("a", "b", 2.5)),
        ("cola", "my.tsv", "gj04\t1\t\tIt is fine.\n", ("It is fine.", None, "1")),
        ("cola", "my.tsv", "label\tid\tsentence\n1\tx\tIt is fine.\n", ("It is fine.", None, "1")),
    ],
)
def test_own_files_for_official_tasks(
    tmp_path: Path, name: str, file: str, content: str, expected: tuple[object, ...]
) -> None:
    path = write(tmp_path, file, content)
    assert texts_of(name, path) == [expected]
    assert texts_of(name, path, with_labels=False) == [(*expected[:2], None)]


def test_own_files_for_official_tasks_need_their_columns_and_labels(tmp_path: Path) -> None:
    task = OFFICIAL["sst-2"]
    unlabelled = write(tmp_path, "my.tsv", "sentence\ngood\n")
    assert len(read_examples(task, unlabelled, with_labels=False)[0]) == 1
    with pytest.raises(DataError, match=r"my\.tsv, line 1, has no column 'label'"):
        read_examples(task, unlabelled, with_labels=True)
    with pytest.raises(DataError, match="'perhaps', which is none of '0', '1'"):
        read_examples(task, write(tmp_path, "bad.csv", "text,label\na,perhaps\n"), with_labels=True)
    with pytest.raises(DataError, match=r"has no column 'sentence' \(there are: 'review'\)"):
        read_examples(task, write(tmp_path, "other.tsv", "review\na\n"), with_labels=False)
    pairs = '{"sentence1": "a", "sentence2": "b", "gold_label": "-"}\n'
    pairs += '{"sentence1": "c", "sentence2": "d", "gold_label": "neutral"}\n'
    assert texts_of("mnli", write(tmp_path, "my.jsonl", pairs)) == [("c", "d", "neutral")]
    choices = write(tmp_path, "my.csv", "passage,question,A,B,answer\nP,Q,x,y,B\n")
    (one,) = read_examples(OFFICIAL["race"], choices, True)[0]
    assert one == ChoiceExample("0", "P", "Q", ("x", "y"), 1, location=f"{choices}, line 2")


# --- own tasks --------------------------------------------------------------------------------------------------------


def ask_about(answers: list[dict[str, Any]] | None, name: str) -> str:
    question = {"id": name, "question": "Who?"} | ({} if answers is None else {"answers": answers})
    return json.dumps({"data": [{"paragraphs": [{"context": f"Anna {name}", "qas": [question]}]}]})


def test_questions_without_an_answer_in_any_split(tmp_path: Path) -> None:
    found = [{"text": "Anna", "answer_start": 0}]
    train, answered = (write(tmp_path, f"{name}.json", ask_about(found, name)) for name in ("train", "dev"))
    without = write(tmp_path, "test.json", ask_about([], "test"))
    assert not read_own(OwnData(train, answered)).task.has_unanswerable
    assert read_own(OwnData(train, without)).task.has_unanswerable
    assert read_own(OwnData(train, answered, without)).task.has_unanswerable


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_a_text_file_is_conll_for_tagging(tmp_path: Path, kind: str) -> None:
    task = Task(name="mine", kind=kind, labels=("B-X", "O"), metrics=("accuracy",), columns=Columns())
    file = write(tmp_path, "new.txt", "Anna B-X\nran O\n\nShe O\n")
    assert has_plain_lines(task, file) == (kind != "tagging")
    if kind == "tagging":
        words = [one.words for one in read_examples(task, file, False)[0] if isinstance(one, TaggedExample)]
        assert words == [("Anna", "ran"), ("She",)]


def test_text_files_in_official_layouts_hold_no_plain_lines() -> None:
    assert has_plain_lines(OFFICIAL["mrpc"], Path("mine.txt"))
    assert not has_plain_lines(OFFICIAL["mrpc"], Path("msr_paraphrase_test.txt"))
    assert not has_plain_lines(OFFICIAL["race"], Path("high/12.txt"))
    assert has_plain_lines(OFFICIAL["squad1"], Path("questions.jsonl"))
    assert not has_plain_lines(OFFICIAL["sst-2"], Path("reviews.jsonl"))


def test_right_answers_of_one_class_make_a_task(tmp_path: Path) -> None:
    file = write(tmp_path, "gold.csv", "text,label\na,10\nb,10\n")
    task, examples, _ = read_labelled(file, None, Columns())
    assert (task.labels, len(examples)) == (("10",), 2)
    assert add_labels(task, ["9", "10"]).labels == ("9", "10")
    sets = task.model_copy(update={"kind": "multi-label", "labels": ("b",)})
    assert add_labels(sets, [("c", "a"), ()]).labels == ("a", "b", "c")
