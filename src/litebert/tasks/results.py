"""What a run leaves about its model: `evaluation.json` with the figures, `predictions-SPLIT.jsonl` with the answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from litebert.folders import write_json
from litebert.tasks.metrics import gold_answer
from litebert.tasks.outputs import Answers
from litebert.tasks.predictions import write_predictions
from litebert.tasks.predictor import Predictor
from litebert.tasks.task import Dataset

__all__ = ["EVALUATION", "Result", "evaluate_splits", "write_results"]

EVALUATION = "evaluation.json"


@dataclass(frozen=True)
class Result:
    """Figures and answers on one split."""

    scores: dict[str, float]
    answers: Answers


def evaluate_splits(predictor: Predictor, data: Dataset) -> dict[str, Result]:
    """Score every split but the training one whose answers are known."""
    results = {}
    for split, examples in data.splits.items():
        if split != "train" and examples and all(gold_answer(example) is not None for example in examples):
            results[split] = Result(*predictor.score(examples))
    return results


def write_results(folder: Path, data: Dataset, results: Mapping[str, Result]) -> None:
    """Write figures and answers into a folder."""
    for split, result in results.items():
        file = folder / f"predictions-{split}.jsonl"
        write_predictions(file, data.task, data.splits[split], result.answers.answers, result.answers.details)
    content = {
        "task": data.task.name,
        "score": data.task.score,
        "num_skipped": data.num_skipped,
        "splits": {split: result.scores for split, result in results.items()},
    }
    write_json(folder / EVALUATION, content)
