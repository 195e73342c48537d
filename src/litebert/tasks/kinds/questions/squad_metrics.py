"""SQuAD's own scores, version 1.1 and 2.0: how much of an answer's words people gave too.

The rules are those of the official evaluation, down to its oddities, so that figures can be compared with published
ones; only the scale differs: shares from 0 to 1 instead of percent.
"""

import itertools
import math
import re
import string
from collections import Counter
from collections.abc import Sequence

from litebert.errors import RequestError
from litebert.tasks.task import Answer, QuestionExample

__all__ = [
    "choose_threshold",
    "find_best_threshold",
    "normalize_answer",
    "score_answer",
    "score_questions",
]

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, English articles and extra white space: what two answers may differ in.

    >>> normalize_answer("  The  U.S.A.'s president ")
    'usas president'
    >>> normalize_answer("1914–1918, a war")
    '1914–1918 war'
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def score_answer(example: QuestionExample, answer: str, has_unanswerable: bool = True) -> tuple[float, float]:
    """Exact match and F1 of one answer, each by whichever of the people's answers is best for it.

    The two versions treat an answer of which nothing is left differently. 2.0 leaves such answers of people out and
    takes "" if none remains; to answer nothing is then right, exactly and by F1. 1.1 compares what there is, and
    where no words are left there are none in common: F1 0.
    """
    golds = [normalize_answer(gold.text) for gold in _known_answers(example)]
    if has_unanswerable:
        golds = [gold for gold in golds if gold] or [""]
    given = normalize_answer(answer)
    exact = max((float(gold == given) for gold in golds), default=0.0)
    f1 = max((_share_words(gold.split(), given.split(), has_unanswerable) for gold in golds), default=0.0)
    return exact, f1


def score_questions(
    examples: Sequence[QuestionExample],
    answers: Sequence[str],
    null_odds: Sequence[float] | None = None,
    threshold: float | None = None,
    has_unanswerable: bool = True,
) -> dict[str, float]:
    """The means `exact` and `f1` and the count `total`; for 2.0 also of the questions with (`HasAns_`) and without one.

    An answer counts as given. With `null_odds` and a `threshold`, a question whose odds are greater than the
    threshold counts as answered by "there is none", whatever its answer.
    """
    pairs = _score_each(examples, answers, has_unanswerable)
    if null_odds is not None and threshold is not None:
        _check_odds(null_odds, len(examples))
        for index, (example, odds) in enumerate(zip(examples, null_odds, strict=True)):
            if odds > threshold:
                pairs[index] = (float(not example.answers), float(not example.answers))
    scores = _average(pairs, "")
    if has_unanswerable:
        for prefix, wanted in (("HasAns_", True), ("NoAns_", False)):
            part = [pair for example, pair in zip(examples, pairs, strict=True) if bool(example.answers) is wanted]
            scores |= _average(part, prefix) if part else {}
    return scores


def find_best_threshold(
    examples: Sequence[QuestionExample], answers: Sequence[str], null_odds: Sequence[float]
) -> dict[str, float]:
    """The official `best_exact`, `best_f1` and the thresholds `best_exact_thresh`, `best_f1_thresh` they are found at.

    `answers` are the best pieces of text, before any threshold. Questions are answered one by one, from the lowest
    odds: one more of those with an answer adds its score, of those without takes away a point. Two oddities are
    kept: a threshold between equal odds counts although no threshold does that, and if it is best to answer nothing
    the threshold is called 0, right for probabilities only. To set a threshold, use `choose_threshold`.
    """
    _check_odds(null_odds, len(examples))
    pairs = _score_each(examples, answers, True)
    order = sorted(range(len(examples)), key=lambda index: null_odds[index])
    found: dict[str, float] = {}
    for column, name in enumerate(("exact", "f1")):
        current = best = float(sum(not example.answers for example in examples))
        threshold = 0.0
        for index in order:
            if examples[index].answers:
                current += pairs[index][column]
            elif answers[index]:
                current -= 1.0
            if current > best:
                best, threshold = current, float(null_odds[index])
        found |= {f"best_{name}": best / len(examples), f"best_{name}_thresh": threshold}
    return found


def choose_threshold(
    examples: Sequence[QuestionExample], answers: Sequence[str], null_odds: Sequence[float], metric: str = "f1"
) -> float:
    """The threshold for `score_questions` that scores best, also where odds are negative or equal.

    Of equally good ones, the lowest; it lies halfway to the next odds, where it has room on both sides.
    """
    _check_odds(null_odds, len(examples))
    column = ("exact", "f1").index(metric)
    pairs = _score_each(examples, answers, True)
    order = sorted(range(len(examples)), key=lambda index: null_odds[index])
    gains: list[tuple[float, float]] = []  # odds, and what answering all questions of these odds adds
    for odds, indices in itertools.groupby(order, key=lambda index: null_odds[index]):
        gains.append((odds, math.fsum(pairs[index][column] - (not examples[index].answers) for index in indices)))
    current = best = 0.0
    num_answered = 0
    for number, (_, gain) in enumerate(gains, 1):
        current += gain
        if current > best + 1e-9:
            best, num_answered = current, number
    if num_answered == 0:
        return min(float(gains[0][0]) - 1.0, math.nextafter(gains[0][0], -math.inf))
    last = float(gains[num_answered - 1][0])
    if num_answered == len(gains):
        return last + 1.0
    middle = last + (float(gains[num_answered][0]) - last) / 2
    return middle if middle < gains[num_answered][0] else last


def _known_answers(example: QuestionExample) -> Sequence[Answer]:
    if example.answers is None:
        raise RequestError(
            f"{example.location or 'question ' + repr(example.id)} has no answers to compare with: use a file that has"
        )
    return example.answers


def _share_words(gold: list[str], given: list[str], has_unanswerable: bool) -> float:
    """F1 of the words of two answers."""
    if not gold or not given:
        return float(gold == given and has_unanswerable)
    num_same = (Counter(gold) & Counter(given)).total()
    if not num_same:
        return 0.0
    precision, recall = num_same / len(given), num_same / len(gold)
    return 2 * precision * recall / (precision + recall)


def _score_each(
    examples: Sequence[QuestionExample], answers: Sequence[str], has_unanswerable: bool
) -> list[tuple[float, float]]:
    if not examples:
        raise RequestError("there is no question to score: name a file that holds some")
    if len(examples) != len(answers):
        raise RequestError(f"there are {len(answers):,} answers to {len(examples):,} questions: give one for each")
    return [score_answer(example, answer, has_unanswerable) for example, answer in zip(examples, answers, strict=True)]


def _check_odds(null_odds: Sequence[float], num_questions: int) -> None:
    if len(null_odds) != num_questions:
        raise RequestError(f"there are {len(null_odds):,} null odds for {num_questions:,} questions: give one for each")
    if not all(map(math.isfinite, null_odds)):
        raise RequestError("some null odds are not finite numbers: give each question one that is")


def _average(pairs: Sequence[tuple[float, float]], prefix: str) -> dict[str, float]:
    total = len(pairs)
    exact, f1 = (math.fsum(column) / total for column in zip(*pairs, strict=True))
    return {f"{prefix}exact": exact, f"{prefix}f1": f1, f"{prefix}total": float(total)}
