"""The ladder: what the field used before BERT, an encoder without pretraining, and ours, on the same examples.

Every rung learns from the same training examples (an encoder sets some of them aside to choose its checkpoint by, where
it must) and is scored on the same others by the same metrics. A practitioner should know which rung is enough; a paper
should say how far above the others it stands.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litebert.baselines.ladder import list_rungs, make_rung
from litebert.errors import RequestError
from litebert.folders import write_json
from litebert.tasks.config import FinetuneConfig
from litebert.tasks.finetune import finetune
from litebert.tasks.metrics import gold_answer, score_answers
from litebert.tasks.predictor import open_predictor
from litebert.tasks.readers.sources import hold_out, is_official
from litebert.tasks.scoring import score_outputs
from litebert.tasks.seeds import summarize_seeds
from litebert.tasks.task import ChoiceExample, Dataset, Example, QuestionExample, TaggedExample
from litebert.text.tokenizer import Tokenizer
from litebert.training.job import News, Outcome

__all__ = ["PRETRAINED", "SCRATCH", "Contest", "choose_split", "compare", "run_encoder", "run_rung"]

SCRATCH, PRETRAINED = "encoder from scratch", "pretrained encoder"
_EXPLANATIONS = {
    SCRATCH: "the same encoder and recipe, begun with random weights",
    PRETRAINED: "fine-tuned from the model that was named",
}
Row = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Contest:
    """What the rungs compete on: a task's examples, and the encoder's part."""

    data: Dataset
    split: str
    config: FinetuneConfig
    tokenizer: Tokenizer
    out: Path
    seeds: int = 1

    @property
    def examples(self) -> Sequence[Example]:
        """Those that are scored."""
        return self.data.splits[self.split]


def compare(
    contest: Contest,
    rungs: Sequence[str] | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
    on_message: Say = lambda words: None,
    on_step: Callable[[News], None] | None = None,
    train: Callable[..., Outcome] = finetune,
) -> list[Row]:
    """Run the ladder from the bottom to the top, a row for each rung; a rung that cannot be run says why.

    `train` fine-tunes the encoder into a run folder; give another function with `finetune`'s parameters to leave more
    than that there.
    """
    names = [rung.name for rung in list_rungs(contest.data.task.kind)] + [SCRATCH, PRETRAINED]
    unknown = sorted(set(rungs or ()) - set(names))
    if unknown:
        raise RequestError(f"the ladder has no rung {unknown[0]!r}: choose from {', '.join(names)}")
    rows: list[Row] = []
    for name in names:
        if rungs is not None and name not in rungs:
            continue
        on_message(f"{name} …")
        if name in _EXPLANATIONS:
            row = run_encoder(contest, name == SCRATCH, on_step, train)
        else:
            try:
                row = run_rung(contest, name)
            except RequestError as error:  # a library that is not installed
                row = {"name": name, "score": None, "note": str(error)}
        rows.append(row)
        on_row(row)
        task = contest.data.task
        write_json(
            contest.out / "compare.json",
            {"task": task.name, "split": contest.split, "score": task.score, "rows": rows},
        )
    return rows


def run_rung(contest: Contest, name: str, seed: int = 0) -> Row:
    """Train and score one of the baselines."""
    task, examples = contest.data.task, contest.examples
    train = contest.data.splits["train"]
    rung = make_rung(name, task.kind, seed)
    explanation = next(it.explanation for it in list_rungs(task.kind) if it.name == name)
    begun = time.perf_counter()
    rung.fit([question_of(example) for example in train], [target_of(example) for example in train])
    trained = time.perf_counter()
    answers = rung.predict([question_of(example) for example in examples])
    done = time.perf_counter()
    answers = [tuple(answer) if task.kind in ("multi-label", "tagging") else answer for answer in answers]
    scores = score_answers(task, examples, answers)
    return {
        "name": name,
        "explanation": explanation,
        "score": scores[task.score],
        "scores": scores,
        "train_seconds": trained - begun,
        "size_bytes": rung.size_bytes,
        "texts_per_second": len(examples) / max(done - trained, 1e-9),
    }


def question_of(example: Example) -> Any:
    """An example as the baselines take it."""
    match example:
        case TaggedExample():
            return list(example.words)
        case QuestionExample():
            return example.question, example.context
        case ChoiceExample():
            return example.passage, example.question, example.options
        case _:
            return example.text if example.pair is None else (example.text, example.pair)


def target_of(example: Example) -> Any:
    """What is right, as the baselines take it."""
    match example:
        case TaggedExample():
            return list(example.tags or ())
        case QuestionExample():
            return [answer.text for answer in example.answers or ()]
        case ChoiceExample():
            return example.answer
        case _:
            return example.label


def run_encoder(
    contest: Contest,
    scratch: bool,
    on_step: Callable[[News], None] | None = None,
    train: Callable[..., Outcome] = finetune,
) -> Row:
    """Fine-tune with each seed, and score; the row has the median, and the spread beside it.

    Where development examples are what is scored, the encoder chooses its checkpoint (and threshold) on a tenth of its
    training examples instead, which it does not learn from. The other rungs choose nothing, and learn from all.
    """
    task, name = contest.data.task, SCRATCH if scratch else PRETRAINED
    data = contest.data
    if contest.split == "dev":
        learnt, dev = hold_out(data.splits["train"])
        data = Dataset(task, {"train": learnt, "dev": dev}, data.num_skipped)
    scores: dict[int, float] = {}
    seconds, rates, size = [], [], 0
    all_scores: list[dict[str, float]] = []
    for seed in range(contest.seeds):
        folder = contest.out / name.replace(" ", "-") / f"seed-{seed}"
        config = _with_seed(contest.config, seed, None if scratch else contest.config.begin_from)
        resume = (folder / "run.json").is_file()
        outcome = train(data, folder, config, contest.tokenizer, resume=resume, on_step=on_step)
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        predictor = open_predictor(str(folder))
        begun = time.perf_counter()
        outputs = predictor.ask(contest.examples)
        rates.append(len(contest.examples) / max(time.perf_counter() - begun, 1e-9))
        figures, _ = score_outputs(task, contest.examples, outputs, predictor.threshold)
        scores[seed] = figures[task.score]
        all_scores.append(figures)
        seconds.append(outcome.state.seconds)
        size = (folder / "model" / "model.safetensors").stat().st_size
    summary = summarize_seeds(scores, None)
    middle = min(scores, key=lambda seed: abs(scores[seed] - summary["median"]))
    return {
        "name": name,
        "explanation": _EXPLANATIONS[name],
        "score": summary["median"],
        "scores": all_scores[middle],
        "seeds": summary["seeds"],
        "score_low": summary["lowest"] if contest.seeds > 1 else None,
        "score_high": summary["highest"] if contest.seeds > 1 else None,
        "train_seconds": statistics.median(seconds),
        "size_bytes": size,
        "texts_per_second": statistics.median(rates),
    }


def _with_seed(config: FinetuneConfig, seed: int, begin_from: str | None) -> FinetuneConfig:
    train = config.train.model_copy(update={"seed": seed})
    return config.model_copy(update={"train": train, "begin_from": begin_from})


def choose_split(data: Dataset, wanted: str | None = None) -> str:
    """The split to score on: one that was named; of a user's own data the test file if there is one; else dev."""
    own_test = not is_official(data.task) and "test" in data.splits
    split = wanted or ("test" if own_test else "dev")
    examples = data.splits.get(split)
    if not examples:
        there = ", ".join(data.splits)
        raise RequestError(f"{data.task.name} has no split {split!r} here: there are {there}")
    if any(gold_answer(example) is None for example in examples):
        raise RequestError(f"the answers of {data.task.name}'s split {split!r} are not known: choose another --split")
    return split
