"""From outputs to figures; where questions may have no answer, with the threshold that is best on these examples."""

from collections.abc import Sequence

from litebert.tasks.metrics import score_answers
from litebert.tasks.outputs import Outputs, choose_answers
from litebert.tasks.squad_metrics import choose_threshold
from litebert.tasks.task import Example, QuestionExample, Task

__all__ = ["score_outputs"]


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
    best = score_answers(task, examples, raw.answers, raw.null_odds)
    scores = score_answers(task, examples, answers)
    kept = {name: value for name, value in best.items() if name.startswith("best_")}
    return scores | kept | {"threshold": threshold}, threshold
