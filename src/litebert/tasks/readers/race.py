"""RACE: questions about a passage with options to choose from, in two groups, `middle` and `high` school.

Read are the official folders of one small JSON file per passage, and files with one such JSON object per line.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from litebert.errors import RequestError
from litebert.tasks.task import ChoiceExample, Columns, DataError, Dataset, Example, Recipe, Task
from litebert.text.records import BadRecordError, RecordReader, quote, take_list, take_text

__all__ = ["RACE", "RACE_COLUMNS", "read_race", "read_race_file"]

RACE: dict[str, Task] = {
    "race": Task(
        name="race",
        kind="choice",
        metrics=("accuracy",),
        is_pair=True,
        recipe=Recipe(lr=2e-5, batch_size=32, dropout=0.1, steps=12000, warmup_steps=1000, max_length=512),
    )
}
"""RACE, with the recipe of the ALBERT paper's Table 14."""

RACE_COLUMNS = Columns(text="passage", pair="question", label="answer", options=("options",), id="id")
"""What the columns of a user's own table are called whose rows are a question each."""

_SPLITS = ("train", "dev", "test")
_GROUPS = ("middle", "high")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


def read_race(folder: Path, *, splits: Sequence[str] | None = None, skip_bad: bool = False) -> Dataset:
    """Read RACE from its official folder, from the one that holds it, or from one with files `train.high.jsonl.gz`.

    Without `splits`, every split is read that is there. Passages come in the order of their numbers, first those of
    middle schools. A question's id is that of its passage, a hyphen, and its number there, from 0.
    """
    home = folder / "RACE" if (folder / "RACE").is_dir() else folder
    read: dict[str, Sequence[Example]] = {}
    num_skipped = 0
    for split in _SPLITS if splits is None else splits:
        if split not in _SPLITS:
            raise RequestError(f"race has no split {split!r}: its splits are {', '.join(_SPLITS)}")
        readers = {group: _find_files(home, split, group, skip_bad) for group in (*_GROUPS, "")}
        if not any(readers.values()) and splits is None:
            continue
        read[split] = _read_split(readers)
        if not read[split]:
            raise DataError(f"{home} has no questions for {split} in folders such as {split}/high: name RACE's folder")
        num_skipped += sum(reader.num_skipped for group in readers.values() for reader in group)
    if not read:
        raise DataError(f"{home} has no folders such as train/high, nor files such as train.high.jsonl: name RACE's")
    return Dataset(RACE["race"], read, num_skipped)


def read_race_file(file: Path, *, skip_bad: bool = False) -> tuple[list[ChoiceExample], int]:
    """Read one file, a passage or JSON lines of them, and say how many bad records were left out.

    Its name (`train.high.jsonl`) or folder (`high/1.txt`) tells the group, or else the ids of the passages do.
    """
    reader = RecordReader(file, skip_bad=skip_bad)
    told = {*file.name.split("."), file.parent.name if file.suffix == ".txt" else ""}
    examples = _read_file(reader, next((group for group in _GROUPS if group in told), ""), {})
    if not examples:
        raise DataError(f"{file} has no questions that can be used: write them as RACE does")
    return examples, reader.num_skipped


def _find_files(home: Path, split: str, group: str, skip_bad: bool) -> list[RecordReader]:
    """Find the passages of a group; files that do not tell one have the group ''."""
    name = f"{split}.{group}" if group else split
    files = [file for file in (home / f"{name}{suffix}" for suffix in _SUFFIXES) if file.is_file()][:1]
    if not files and group:
        files = sorted((home / split / group).glob("*.txt"), key=_number)
    return [RecordReader(file, skip_bad=skip_bad) for file in files]


def _number(file: Path) -> tuple[int, str]:
    digits = re.search(r"\d+", file.name)
    return int(digits[0]) if digits else -1, file.name


def _read_split(readers: dict[str, list[RecordReader]]) -> list[ChoiceExample]:
    seen: dict[str, str] = {}
    return [
        example for group, files in readers.items() for reader in files for example in _read_file(reader, group, seen)
    ]


def _read_file(reader: RecordReader, group: str, seen: dict[str, str]) -> list[ChoiceExample]:
    def make(_: str, record: ChoiceExample | BadRecordError, location: str) -> ChoiceExample:
        if isinstance(record, BadRecordError):
            raise record
        if record.id in seen:
            raise BadRecordError(f"has the id {quote(record.id)}, as {seen[record.id]} has: give each its own")
        seen[record.id] = location
        return record

    return reader.convert(_walk(reader, group), make)


def _walk(reader: RecordReader, group: str) -> Iterator[tuple[str, ChoiceExample | BadRecordError]]:
    """Give the questions of a file, and what is wrong with those, or with whole passages, that cannot be used."""
    file = Path(reader.name)
    is_passage = file.suffix == ".txt"
    try:
        passages = [("the passage", reader.load_json())] if is_passage else reader.records()
    except BadRecordError as error:
        yield "the passage", error
        return
    for location, passage in passages:
        try:
            article, questions = _check_passage(passage)
        except BadRecordError as error:
            yield location, error
            continue
        name = str(passage.get("id") or f"{group}{file.stem}{'' if is_passage else '-' + location.split()[-1]}")
        its_group = group or next((known for known in _GROUPS if name.startswith(known)), "")
        for number, parts in enumerate(questions):
            spot = f"question {number + 1}" if is_passage else f"{location}, question {number + 1}"
            try:
                question, options, answer = _check_question(*parts)
            except BadRecordError as error:
                yield spot, error
                continue
            example = ChoiceExample(
                f"{name}-{number}", article, question, options, answer, its_group, f"{reader.name}, {spot}"
            )
            yield spot, example


def _check_passage(passage: Any) -> tuple[str, list[tuple[Any, Any, Any]]]:
    """Take the article, and each question with its options and answer (None where the file has no answers)."""
    questions, options = take_list(passage, "questions"), take_list(passage, "options")
    answers = [None] * len(questions) if passage.get("answers") is None else take_list(passage, "answers")
    if not len(questions) == len(options) == len(answers):
        raise BadRecordError("has not as many options and answers as questions: mend it")
    return take_text(passage.get("article"), "article"), list(zip(questions, options, answers, strict=True))


def _check_question(question: Any, options: Any, answer: Any) -> tuple[str, tuple[str, ...], int | None]:
    question = take_text(question, "questions", may_be_empty=True)
    options = _check_options(options)
    return question, options, _find_answer(answer, len(options))


def _check_options(options: Any) -> tuple[str, ...]:
    if not isinstance(options, list) or len(options) < 2:
        raise BadRecordError("has fewer than two options: mend it")
    return tuple(take_text(option, "options", may_be_empty=True) for option in options)


def _find_answer(answer: Any, num_options: int) -> int | None:
    if answer is None:
        return None
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:num_options]
    if not isinstance(answer, str) or len(answer) != 1 or answer not in letters:
        raise BadRecordError(f"has the answer {quote(answer)}, which is none of {', '.join(letters)}: mend it")
    return letters.index(answer)
