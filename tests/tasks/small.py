"""Small tasks that a small encoder can learn in a second, and short runs on them."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from litebert.model.model import Model
from litebert.tasks.config import FinetuneConfig, configure
from litebert.tasks.features import Features
from litebert.tasks.finetune import finetune
from litebert.tasks.kinds import kind_of
from litebert.tasks.outputs import TorchRunner, run_model
from litebert.tasks.saved import read_saved_task
from litebert.tasks.task import (
    Answer,
    ChoiceExample,
    Dataset,
    Example,
    Predictions,
    QuestionExample,
    TaggedExample,
    Task,
    TextExample,
)
from litebert.text.tokenizer import Tokenizer
from litebert.training.job import RunResult
from tests.conftest import small_config

SAILORS = ("two sailors", "an old captain", "the river")
OTHERS = ("every student", "nobody", "my neighbour Anna")
VERBS = ("crossed", "painted", "remembered", "measured", "translated")
OBJECTS = ("the bridge", "three apples", "good advice", "the city of light")
YEARS = ("1984", "1990", "1999", "2000", "2004")
MAX_LENGTH = 40


def make_encoder(folder: Path, tokenizer: Tokenizer, seed: int = 0) -> Path:
    """A model folder with a small encoder that has learnt nothing."""
    import torch

    torch.manual_seed(seed)
    changes = {"max_positions": 64, "initializer_range": 0.1, "num_layers": 2, "classifier_dropout": 0.0}
    shape = small_config(vocab_size=tokenizer.vocab_size, **changes)
    return Model(shape, "masked-lm").save_pretrained(folder, tokenizer)


# --- tasks and their examples ---------------------------------------------------------------------------------------

TASKS: dict[str, Task] = {
    "classification": Task(
        name="who", kind="classification", labels=("ashore", "at sea"), metrics=("accuracy", "macro_f1")
    ),
    "pairs": Task(
        name="second",
        kind="classification",
        labels=("ashore", "at sea", "unknown"),
        metrics=("accuracy",),
        is_pair=True,
    ),
    "multi-label": Task(
        name="mentions", kind="multi-label", labels=("apples", "bridge", "year"), metrics=("accuracy",)
    ),
    "regression": Task(name="price", kind="regression", metrics=("pearson", "mse")),
    "similarity": Task(name="likeness", kind="similarity", metrics=("pearson", "spearman"), is_pair=True),
    "tagging": Task(name="names", kind="tagging", labels=("B-LOC", "B-PER", "I-PER", "O"), metrics=("entity_f1",)),
    "questions": Task(name="when", kind="questions", metrics=("f1", "exact"), is_pair=True),
    "unanswerable questions": Task(
        name="whether", kind="questions", metrics=("f1", "exact"), is_pair=True, has_unanswerable=True
    ),
    "choice": Task(name="which", kind="choice", metrics=("accuracy",)),
}
"""One task of each kind, and the two that have variants."""


def make_examples(name: str, count: int, seed: int) -> list[Example]:
    """Examples of a task of `TASKS`; the same ones for the same seed."""
    generator = random.Random(seed)
    return [_MAKERS[name](str(number), generator) for number in range(count)]


def make_data(name: str, train: int = 160, dev: int = 48) -> Dataset:
    """Examples for training and others for development."""
    splits: dict[str, Sequence[Example]] = {
        "train": make_examples(name, train, seed=1),
        "dev": make_examples(name, dev, seed=2),
    }
    return Dataset(TASKS[name], splits)


def _draw(generator: random.Random) -> tuple[str, str, str, bool]:
    """Who did what, and whether at sea."""
    at_sea = generator.random() < 0.5
    who = generator.choice(SAILORS if at_sea else OTHERS)
    return who, generator.choice(VERBS), generator.choice(OBJECTS), at_sea


def _text(id: str, generator: random.Random) -> TextExample:
    who, did, what, at_sea = _draw(generator)
    more = " and " + " ".join(_draw(generator)[1:3]) if generator.random() < 0.3 else ""
    return TextExample(id, f"{who} {did} {what}{more}.", label="at sea" if at_sea else "ashore")


def _pair(id: str, generator: random.Random) -> TextExample:
    """Only the second text tells the label."""
    first, (who, did, what, at_sea) = _draw(generator), _draw(generator)
    label = "at sea" if at_sea else "ashore"
    if generator.random() < 0.3:
        who, label = "a café", "unknown"
    return TextExample(id, " ".join(first[:3]), f"{who} {did} {what}.", label)


def _mentions(id: str, generator: random.Random) -> TextExample:
    who, did, what, _ = _draw(generator)
    year = generator.choice(YEARS) if generator.random() < 0.5 else None
    words = {"apples": "apples" in what, "bridge": "bridge" in what, "year": year is not None}
    text = f"{who} {did} {what}" + (f" in {year}." if year else ".")
    return TextExample(id, text, label=tuple(name for name, there in words.items() if there))


def _price(id: str, generator: random.Random) -> TextExample:
    who, did, what, at_sea = _draw(generator)
    score = OBJECTS.index(what) + (0.5 if at_sea else 0.0)
    return TextExample(id, f"{who} {did} {what}.", label=score)


def _likeness(id: str, generator: random.Random) -> TextExample:
    """From 1 to 5: the two texts share who did it, what was done, and what it was done to."""
    first, second = _draw(generator)[:3], _draw(generator)[:3]
    second = tuple(one if generator.random() < 0.4 else other for one, other in zip(first, second, strict=True))
    shared = sum(one == other for one, other in zip(first, second, strict=True))
    return TextExample(id, " ".join(first), " ".join(second), 1.0 + 4 * shared / 3)


_TAGS = {"Anna": "B-PER", "two": "B-PER", "sailors": "I-PER", "captain": "B-PER", "bridge": "B-LOC", "city": "B-LOC"}


def _tagged(id: str, generator: random.Random) -> TaggedExample:
    words = tuple(" ".join(_draw(generator)[:3]).split())
    return TaggedExample(id, words, tuple(_TAGS.get(word, "O") for word in words))


def _question(id: str, generator: random.Random, has_answer: bool = True) -> QuestionExample:
    """The year is the answer, wherever it stands."""
    first, second = (" ".join(_draw(generator)[:3]) for _ in range(2))
    year = f"in {generator.choice(YEARS)} " if has_answer else ""
    context = f"{first} {year}and {second}."
    answers = (Answer(year[3:-1], len(first) + 4),) if has_answer else ()
    return QuestionExample(id, "When was it?", context, answers)


def _uncertain_question(id: str, generator: random.Random) -> QuestionExample:
    return _question(id, generator, has_answer=generator.random() < 0.6)


def _choice(id: str, generator: random.Random) -> ChoiceExample:
    """The right option is the one at sea; there are two to four of them."""
    options = [generator.choice(OTHERS) for _ in range(generator.randint(2, 4))]
    answer = generator.randrange(len(options))
    options[answer] = generator.choice(SAILORS)
    passage = " ".join(_draw(generator)[1:3])
    return ChoiceExample(id, passage, "Then _ did it.", tuple(options), answer, generator.choice(("high", "middle")))


_MAKERS: dict[str, Any] = {
    "classification": _text,
    "pairs": _pair,
    "multi-label": _mentions,
    "regression": _price,
    "similarity": _likeness,
    "tagging": _tagged,
    "questions": _question,
    "unanswerable questions": _uncertain_question,
    "choice": _choice,
}


# --- runs -----------------------------------------------------------------------------------------------------------


def small_run(data: Dataset, encoder: Path | None, tokenizer: Tokenizer, **wishes: Any) -> FinetuneConfig:
    """A configuration for a run of a second; what `configure` does not take changes the training part."""
    shape = small_config(vocab_size=tokenizer.vocab_size, max_positions=64, num_layers=2)
    shape = shape if encoder is None else Model.from_pretrained(encoder).config
    names = ["steps", "seed", "frozen", "patience", "answerability", "batch_size", "lr", "max_length"]
    known: dict[str, Any] = {name: wishes.pop(name) for name in names if name in wishes}
    settings: dict[str, Any] = {"steps": 60, "batch_size": 16, "lr": 5e-3, "max_length": MAX_LENGTH, **known}
    begin_from = None if encoder is None else str(encoder)
    config = configure(data.task, len(data.splits["train"]), shape, begin_from, **settings)
    train: dict[str, Any] = {"precision": "fp32", "evaluations": 2, "log_steps": 1, "save_seconds": None, **wishes}
    return config.model_copy(update={"train": config.train.model_copy(update=train)})


def finetune_here(data: Dataset, out: Path, config: FinetuneConfig, tokenizer: Tokenizer, **settings: Any) -> RunResult:
    """Run in this process, without measuring the machine first."""
    with mock.patch("litebert.training.run.measure_rate", return_value=1e9):
        return finetune(data, out, config, tokenizer, **settings)


def ask(folder: Path, examples: Sequence[Example]) -> tuple[Task, Features, list[Any], Predictions]:
    """Open a fine-tuned folder with all that it remembers, and let it answer."""
    saved = read_saved_task(folder)
    kind = kind_of(saved.task)
    features = kind.encode(saved.task, examples, Tokenizer.from_pretrained(folder), saved.options)
    outputs = run_model(TorchRunner(Model.from_pretrained(folder)), saved.task, examples, features, saved.options)
    outputs = outputs if saved.scale is None else [saved.scale.stretch(output) for output in outputs]
    return saved.task, features, outputs, kind.decode(saved.task, outputs, saved.threshold)


def run_rank(job: dict[str, Any]) -> None:
    """Be one process of a run on a small task; `tests.faults.run_pretraining` calls this in each of them."""
    import torch

    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_pretrained(job["encoder"])
    data = make_data(job["task"])
    finetune_here(data, Path(job["out"]), small_run(data, Path(job["encoder"]), tokenizer, **job["wishes"]), tokenizer)
