"""`Case`: one example with what is right and what was answered, and how sure the answer was.

The parts of a task's report are made of these. Examples without a label are no cases: nothing can be said of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from litebert.errors import RequestError
from litebert.reports.page import is_finite
from litebert.tasks.metrics import gold_answer
from litebert.tasks.squad_metrics import score_answer
from litebert.tasks.task import Example, QuestionExample, Task

if TYPE_CHECKING:
    from litebert.tasks.outputs import Answers

__all__ = [
    "Case",
    "choose_threshold_of",
    "find_probability",
    "list_cases",
    "list_wrong_words",
    "measure_error",
    "measure_sureness",
]


@dataclass(frozen=True)
class Case:
    """An example beside its answer."""

    example: Example
    gold: Any
    answer: Any
    details: dict[str, Any]
    null_odds: float | None = None


def list_cases(examples: Sequence[Example], answers: "Answers") -> list[Case]:
    """Put examples that have a label beside their answers."""
    if len(examples) != len(answers.answers):
        raise RequestError(
            f"there are {len(answers.answers):,} answers to {len(examples):,} examples: give one for each"
        )
    cases = []
    for place, example in enumerate(examples):
        details = answers.details[place] if place < len(answers.details) else {}
        odds = answers.null_odds[place] if answers.null_odds is not None else None
        gold = gold_answer(example)
        if gold is not None:
            known = details if isinstance(details, dict) else {}
            cases.append(Case(example, gold, answers.answers[place], known, _finite(odds)))
    return cases


def choose_threshold_of(scores: dict[str, float]) -> float | None:
    """The odds above which a question counted as having no answer, if the scores tell."""
    for name in ("threshold", "best_f1_thresh", "best_exact_thresh"):
        if _finite(scores.get(name)) is not None:
            return float(scores[name])
    return None


def find_probability(case: Case, key: Any) -> float | None:
    """What the model gave a label (by name) or an option or word (by number), if that is known and makes sense."""
    shares = case.details.get("probabilities")
    value: Any = None
    if isinstance(shares, dict):
        value = shares.get(key)
    elif isinstance(shares, list | tuple) and type(key) is int and 0 <= key < len(shares):
        value = shares[key]
    share = _finite(value)
    return share if share is not None and 0 <= share <= 1 else None


def measure_error(task: Task, case: Case) -> float:
    """How wrong an answer is: 0 if it is right; of numbers the distance, of other kinds at most 1."""
    match task.kind:
        case "regression":
            gold, answer = _finite(case.gold), _finite(case.answer)
            return abs(gold - answer) if gold is not None and answer is not None else math.inf
        case "multi-label":
            return float({*case.gold} != {*case.answer})
        case "tagging":
            return float(tuple(case.gold) != tuple(case.answer))
        case "questions":
            assert isinstance(case.example, QuestionExample)
            return 1.0 - score_answer(case.example, str(case.answer), task.has_unanswerable)[1]
        case _:
            return float(case.gold != case.answer)


def measure_sureness(task: Task, case: Case, threshold: float | None = None) -> float | None:
    """How sure the model was of what it got wrong, from 0 to 1; of numbers, how far it was off."""
    match task.kind:
        case "regression":
            return measure_error(task, case)
        case "multi-label":
            missed = [find_probability(case, name) for name in {*case.gold} - {*case.answer}]
            added = [find_probability(case, name) for name in {*case.answer} - {*case.gold}]
            known = [1 - share for share in missed if share is not None] + [share for share in added if share]
            return max(known, default=None)
        case "tagging":
            return max((share for share, _ in list_wrong_words(case) if share is not None), default=None)
        case "questions":
            if case.answer == "":
                odds = case.null_odds
                return None if odds is None else 0.5 * (1 + math.tanh((odds - (threshold or 0.0)) / 2))
            return _find_span_probability(case)
        case _:
            return find_probability(case, case.answer)


def list_wrong_words(case: Case) -> list[tuple[float | None, int]]:
    """The words that got a wrong tag, surest first, with the probability of that tag."""
    pairs = zip(case.gold, case.answer, strict=False)
    wrong = [place for place, (gold, answer) in enumerate(pairs) if gold != answer]
    rated = [(find_probability(case, place), place) for place in wrong]
    return sorted(rated, key=lambda entry: (-(entry[0] or 0.0), entry[1]))


def _find_span_probability(case: Case) -> float | None:
    candidates = case.details.get("nbest")
    for candidate in candidates if isinstance(candidates, list) else ():
        if isinstance(candidate, dict) and candidate.get("text") == case.answer:
            share = _finite(candidate.get("probability"))
            return share if share is not None and 0 <= share <= 1 else None
    return None


def _finite(value: object) -> float | None:
    return float(value) if is_finite(value) else None
