"""SQuAD 1.1 and 2.0, and any file in their JSON: questions whose answers are pieces of a context.

An answer that does not stand where the file says is looked for nearby; one that stands nowhere in the context is a bad
record, because no span could be learnt from it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from litebert.errors import RequestError
from litebert.tasks.task import Answer, DataError, Dataset, Example, QuestionExample, Recipe, Task
from litebert.text.records import BadRecordError, RecordReader, quote, take_list, take_text

__all__ = ["SQUAD", "read_squad", "read_squad_folder"]

SQUAD: dict[str, Task] = {
    "squad1": Task(
        name="squad1",
        kind="questions",
        metrics=("f1", "exact"),
        is_pair=True,
        recipe=Recipe(lr=5e-5, batch_size=48, dropout=0.0, steps=3649, warmup_steps=365, max_length=384),
    ),
    "squad2": Task(
        name="squad2",
        kind="questions",
        metrics=("f1", "exact"),
        is_pair=True,
        has_unanswerable=True,
        recipe=Recipe(lr=3e-5, batch_size=48, dropout=0.0, steps=8144, warmup_steps=814, max_length=512),
    ),
}
"""Both versions, with the recipes of the ALBERT paper's Table 14."""

_VERSIONS = {"squad1": "v1.1", "squad2": "v2.0"}
_SPLITS = ("train", "dev", "test")

# A context, and one of the questions about it, as the file has them.
_Question = tuple[str, dict[str, Any]]


def read_squad_folder(
    name: str, folder: Path, *, splits: Sequence[str] | None = None, skip_bad: bool = False
) -> Dataset:
    """Read `squad1` or `squad2` from a folder with the official names, such as `train-v1.1.json`.

    Without `splits`, every split is read that is there. A question of SQuAD 1.1 has to have an answer.
    """
    if name not in SQUAD:
        raise RequestError(f"{name!r} is no version of SQuAD: choose one of {', '.join(SQUAD)}")
    task = SQUAD[name]
    read: dict[str, Sequence[Example]] = {}
    num_skipped = 0
    for split in _SPLITS if splits is None else splits:
        if split not in _SPLITS:
            raise RequestError(f"{name} has no split {split!r}: its splits are {', '.join(_SPLITS)}")
        file = folder / f"{split}-{_VERSIONS[name]}.json"
        if not file.is_file() and splits is None:
            continue
        read[split], num_bad = read_squad(file, skip_bad=skip_bad, has_unanswerable=task.has_unanswerable)
        num_skipped += num_bad
    if not read:
        raise DataError(f"{folder} holds no file such as train-{_VERSIONS[name]}.json: name the folder that does")
    return Dataset(task, read, num_skipped)


def read_squad(
    file: Path, *, skip_bad: bool = False, has_unanswerable: bool = True, with_answers: bool = True
) -> tuple[list[QuestionExample], int]:
    """Read the questions of a file, and the number of bad ones that were left out.

    A question without `answers` has None (nobody tells the answer); one with an empty list, or said to be impossible,
    has none in its context, which is refused unless `has_unanswerable`. Without `with_answers` they are not looked at.
    """
    reader = RecordReader(file, skip_bad=skip_bad)
    try:
        articles = take_list(reader.load_json(), "data")
    except BadRecordError as error:
        raise DataError(f"{file} {error}") from None
    seen: set[str] = set()

    def make(_: str, record: _Question, location: str) -> QuestionExample:
        context, question = record
        example = _make_example(context, question, location, with_answers)
        if example.answers == () and not has_unanswerable:
            raise BadRecordError("has no answer, as it may only in SQuAD 2.0: add one")
        if example.id in seen:
            raise BadRecordError("has the id of an earlier question: give each its own")
        seen.add(example.id)
        return example

    examples = reader.convert(_walk(articles, reader), make)
    if not examples:
        raise DataError(f"{file} has no question that can be used: it should hold data, paragraphs, qas as SQuAD does")
    return examples, reader.num_skipped


def _walk(articles: list[Any], reader: RecordReader) -> Iterator[tuple[str, _Question]]:
    """Give each question with its context; an article or a paragraph that has none is a bad record of its own."""
    for i, article in enumerate(articles, 1):
        try:
            paragraphs = take_list(article, "paragraphs")
        except BadRecordError as error:
            reader.refuse(f"article {i}", str(error))
            continue
        for j, paragraph in enumerate(paragraphs, 1):
            location = f"article {i}, paragraph {j}"
            try:
                questions = take_list(paragraph, "qas")
                context = take_text(paragraph.get("context"), "context")
            except BadRecordError as error:
                reader.refuse(location, str(error))
                continue
            for k, question in enumerate(questions, 1):
                name = question.get("id") if isinstance(question, dict) else None
                yield f"question {quote(name)}" if name else f"{location}, question {k}", (context, question)


def _make_example(context: str, question: Any, location: str, with_answers: bool) -> QuestionExample:
    if not isinstance(question, dict):
        raise BadRecordError(f"is {quote(question)}, no JSON object: write it as SQuAD does")
    name = take_text(question.get("id"), "id")
    text = take_text(question.get("question"), "question")
    answers: tuple[Answer, ...] | None = None
    if not with_answers:
        pass
    elif question.get("is_impossible") is True:
        answers = ()
    elif question.get("answers") is not None:
        answers = tuple(_locate(answer, context) for answer in take_list(question, "answers"))
    return QuestionExample(name, text, context, answers, location)


def _locate(answer: Any, context: str) -> Answer:
    """Find an answer where the file says that it begins, or else as near to it as it occurs."""
    if not isinstance(answer, dict):
        raise BadRecordError(f"has {quote(answer)} for an answer: write it as SQuAD does")
    text = take_text(answer.get("text"), "text")
    begin = answer.get("answer_start")
    if not isinstance(begin, int) or isinstance(begin, bool) or begin < 0:
        raise BadRecordError(f"has {quote(begin)} for an answer_start, which is no position in the context: mend it")
    if not context.startswith(text, begin):
        before, after = context.rfind(text, 0, begin + len(text)), context.find(text, begin)
        if before < 0 and after < 0:
            raise BadRecordError(f"has the answer {quote(text)}, which is not in its context: mend it")
        is_nearer = after >= 0 and (before < 0 or after - begin < begin - before)
        begin = after if is_nearer else before
    return Answer(text, begin)
