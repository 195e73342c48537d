"""Metrics: how good predictions are. The kind of a task measures; here are the names, and what all kinds share.

Metrics are shares from 0 to 1 (correlations from -1 to 1), never percent.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litebert.errors import RequestError
from litebert.tasks.kinds import kind_of
from litebert.tasks.task import Example, Predictions, Task

__all__ = [
    "LOWER_IS_BETTER",
    "METRICS",
    "Evaluation",
    "compute_metrics",
    "evaluate_outputs",
    "explain_metric",
    "has_learnt",
    "measure_majority",
    "summarize_seeds",
]

METRICS = {
    "accuracy": "share of right answers",
    "f1": "harmonic mean of precision and recall of the last label",
    "macro_f1": "mean of the F1 of each label that occurs",
    "micro_f1": "F1 of all labels taken together",
    "matthews": "Matthews correlation of answers and labels, 0 for answers that are all the same",
    "pearson": "linear correlation with the scores, 0 for answers that are all the same",
    "spearman": "correlation of the ranks, 0 for answers that are all the same",
    "mse": "mean squared error, not a share: the lower the better",
    "mae": "mean absolute error, not a share: the lower the better",
    "entity_f1": "F1 of the names found in a text: right only with both ends and the type right (CoNLL)",
    "entity_precision": "share of the names found that are right",
    "entity_recall": "share of the names there are that were found",
    "exact": "share of answers that equal one of the people's, but for case, punctuation and articles (SQuAD)",
    "total": "number of questions",
    "HasAns_exact": "exact, of the questions that have an answer",
    "HasAns_f1": "f1, of the questions that have an answer",
    "HasAns_total": "number of questions that have an answer",
    "NoAns_exact": "exact, of the questions that have none",
    "NoAns_f1": "f1, of the questions that have none",
    "NoAns_total": "number of questions that have no answer",
    "best_exact": "exact, if the best threshold decided which questions have no answer",
    "best_exact_thresh": "the threshold of best_exact: greater null odds mean that there is no answer",
    "best_f1": "f1, if the best threshold decided which questions have no answer",
    "best_f1_thresh": "the threshold of best_f1: greater null odds mean that there is no answer",
    "threshold": "null odds above which the model says that there is no answer, tuned on the development set",
    "tf_idf_weight": "how much counted words weigh beside the encoder, chosen on the development set",
    "accuracy_middle": "accuracy of the group `middle` (RACE); every other group has its own likewise",
    "accuracy_high": "accuracy of the group `high` (RACE)",
}
"""Every metric and what it says, where the kind of task does not say it otherwise."""
LOWER_IS_BETTER = ("mse", "mae")
"""Metrics that can be reported, but cannot decide: of all that decides, more is better."""

_OF_PARTS = ("best_", "HasAns_", "NoAns_", "accuracy_")
_LEAST_GAIN = 0.01  # over the most frequent answer, if there is so much to gain


@dataclass(frozen=True)
class Evaluation:
    """Metrics and predictions on one split."""

    metrics: dict[str, float]
    predictions: Predictions


def explain_metric(name: str, task: Task) -> str:
    """What a metric says; nothing of one that nobody knows.

    >>> task = Task(name="names", kind="tagging", metrics=("entity_f1",))
    >>> explain_metric("accuracy", task), explain_metric("beauty", task)
    ('share of words with the right tag', '')
    """
    return kind_of(task).meanings.get(name) or METRICS.get(name, "")


def compute_metrics(task: Task, examples: Sequence[Example], predictions: Predictions) -> dict[str, float]:
    """All metrics of the task's kind; `task.metrics` must be among them.

    A metric of what is not there (odds, a group, questions without an answer) is left out, unless it decides.
    """
    if len(examples) != len(predictions.answers):
        raise RequestError(
            f"there are {len(predictions.answers):,} answers to {len(examples):,} examples: give one for each"
        )
    if not examples:
        raise RequestError("there is no example to score: name a file that holds some")
    kind = kind_of(task)
    metrics = kind.measure(task, examples, [kind.known_gold(example) for example in examples], predictions)
    for name in task.metrics:
        if name not in metrics and (name == task.metric or not name.startswith(_OF_PARTS)):
            known = ", ".join(metrics)
            raise RequestError(f"{name!r} is no metric of these {task.kind} examples: choose from {known}")
    return metrics


def evaluate_outputs(
    task: Task, examples: Sequence[Example], outputs: Sequence[Any], threshold: float | None = None
) -> tuple[dict[str, float], Predictions]:
    """Metrics and answers of what a model or an ensemble says.

    Questions that may have no answer: with the threshold that is given, or else with the best one for these examples,
    which flatters. It is among the metrics as `threshold`.
    """
    kind = kind_of(task)
    if threshold is None:
        threshold = kind.choose_threshold(task, examples, outputs)
    predictions = kind.decode(task, outputs, threshold)
    metrics = compute_metrics(task, examples, predictions)
    return metrics if threshold is None else metrics | {"threshold": threshold}, predictions


def measure_majority(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> dict[str, float]:
    """What the one answer that is most often right in training gets on other examples.

    That is the most frequent label, set of labels, tag or position, the mean score, or "there is no answer". A run that
    does no better has failed to train.
    """
    if not train:
        raise RequestError("there is no training example to take the most frequent answer from")
    answer = kind_of(task).majority(task, train)
    odds = (0.0,) * len(examples) if task.has_unanswerable else None
    return compute_metrics(task, examples, Predictions(tuple(map(answer, examples)), null_odds=odds))


def has_learnt(value: float, majority: float) -> bool:
    """Whether a metric is better than that of the most frequent answer, by a hundredth or a tenth of what is missing.

    >>> has_learnt(0.505, 0.5), has_learnt(0.52, 0.5), has_learnt(0.996, 0.991)
    (False, True, True)
    """
    return value > majority + min(_LEAST_GAIN, 0.1 * max(0.0, 1 - majority))


def summarize_seeds(values: Mapping[int, float], majority: float | None) -> dict[str, Any]:
    """Median and spread of a metric over seeds; a run that is no better than the most frequent answer has failed.

    >>> summary = summarize_seeds({0: 0.5, 1: 0.7, 2: 0.9}, majority=0.5)
    >>> summary["median"], summary["lowest"], summary["highest"], summary["failed"]
    (0.7, 0.5, 0.9, [0])
    """
    found = list(values.values())
    failed = [] if majority is None else [seed for seed, value in values.items() if not has_learnt(value, majority)]
    return {
        "seeds": {str(seed): value for seed, value in values.items()},
        "median": statistics.median(found),
        "mean": statistics.fmean(found),
        "deviation": statistics.stdev(found) if len(found) > 1 else 0.0,
        "lowest": min(found),
        "highest": max(found),
        "failed": failed,
    }
