"""From outputs to figures; where questions may have no answer, with the threshold that is best on these examples."""

from collections.abc import Sequence

from litebert.tasks.metrics import score_answers
from litebert.tasks.outputs import Outputs, choose_answers
from litebert.tasks.predictions import Predictions
from litebert.tasks.squad_metrics import choose_threshold
from litebert.tasks.task import Example, QuestionExample, Task

__all__ = ["score_outputs", "score_predictions"]


def score_outputs(
    task: Task, examples: Sequence[Example], outputs: Outputs, threshold: float | None = None
) -> tuple[dict[str, float], float | None]:
    """Score what a model or an ensemble says, and give the threshold that was used: one that is given, or the best.

    A threshold tuned on the examples that it is scored on flatters; give the one of the development set for others.
    """
    if not task.has_unanswerable:
        return score_answers(task, examples, choose_answers(task, outputs).answers), None
    raw = choose_answers(task, outputs)
    assert raw.null_odds is not None
    questions = [example for example in examples if isinstance(example, QuestionExample)]
    if threshold is None:
        threshold = choose_threshold(questions, raw.answers, raw.null_odds, metric="f1")
    answers = ["" if odds > threshold else answer for answer, odds in zip(raw.answers, raw.null_odds, strict=True)]
    best = _find_best(task, examples, raw.answers, raw.null_odds)
    return score_answers(task, examples, answers) | best | {"threshold": threshold}, threshold


def score_predictions(task: Task, examples: Sequence[Example], predictions: Predictions) -> dict[str, float]:
    """Score what a file says; with odds that there is no answer, also by the threshold that would be best."""
    scores = score_answers(task, examples, predictions.answers)
    if predictions.null_odds is None or not task.has_unanswerable:
        return scores
    return scores | _find_best(task, examples, predictions.raw_answers, predictions.null_odds)


def _find_best(
    task: Task, examples: Sequence[Example], raw: Sequence[str], null_odds: Sequence[float]
) -> dict[str, float]:
    """The figures of the best threshold; answers that one has emptied before cannot come back."""
    scores = score_answers(task, examples, raw, null_odds)
    return {name: value for name, value in scores.items() if name.startswith("best_")}
