"""Spans: from a model's scores over windows to answers, as characters of the original text.

A window keeps its best spans and a score for "no answer" (`WindowScores`); the windows of a question together give a
`Prediction`, with probabilities and with the odds that there is no answer, which can be averaged over an ensemble.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from litebert.errors import RequestError
from litebert.tasks.kinds.options import Outputs, WindowConfig
from litebert.tasks.kinds.questions.windows import Window
from litebert.tasks.task import QuestionExample

__all__ = [
    "NO_SPAN",
    "Candidate",
    "Prediction",
    "WindowScores",
    "average_predictions",
    "combine",
    "combine_all",
    "decode_beam",
    "decode_plain",
]

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]

NO_SPAN = 1e9
"""`null_odds` where nothing speaks for an answer, as in an empty context: surer than any model, and still a number."""

_WINDOWS_AT_ONCE = 512  # bounds the memory of the search


@dataclass(frozen=True, slots=True, eq=False)
class WindowScores:
    """What is kept of a window: its best spans, best first, and how much speaks for no answer. Some 35 bytes a span."""

    scores: NDArray[np.float32]
    begins: NDArray[np.int32]
    ends: NDArray[np.int32]
    """Characters of the original context: `context[begin:end]`."""
    null: float
    """Score of "no answer in this window"; infinite if the model gave no number."""
    null_competes: bool
    """Whether `null` is on the scale of the spans' scores (plain head), or says by itself how things stand."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible answer: `context[begin:end] == text`."""

    text: str
    begin: int
    end: int
    score: float
    probability: float
    """Among the candidates of the same question: these sum to 1."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model answers to a question: candidates, the likeliest first, and whether it should answer at all."""

    candidates: tuple[Candidate, ...]
    null_odds: float
    """The higher, the likelier there is no answer."""

    def answer(self, threshold: float | None = None) -> str:
        """The best answer, or nothing if `null_odds` is above the threshold; without one it always answers if it can.

        >>> prediction = Prediction((Candidate("Paris", 0, 5, 7.5, 1.0),), null_odds=2.0)
        >>> prediction.answer(), prediction.answer(threshold=3.0), prediction.answer(threshold=1.0)
        ('Paris', 'Paris', '')
        """
        if not self.candidates or (threshold is not None and self.null_odds > threshold):
            return ""
        return self.candidates[0].text

    def rescored(self, scores: Sequence[float]) -> "Prediction":
        """The same candidates with other scores, the best first; the odds stay as they are."""
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        total = math.fsum(weights)
        found = (
            replace(candidate, score=score, probability=weight / total)
            for candidate, score, weight in zip(self.candidates, scores, weights, strict=True)
        )
        ranked = sorted(found, key=lambda candidate: (-candidate.score, candidate.begin, candidate.end))
        return Prediction(tuple(ranked), self.null_odds)


def decode_plain(
    windows: Sequence[Window], start_logits: Floats, end_logits: Floats, config: WindowConfig
) -> list[WindowScores]:
    """Find the best spans of windows in the logits (windows, tokens) of the question-answering head.

    Of all spans of at most `max_answer` tokens that lie in the context, begin and end with characters and begin at a
    token which this window shows best, it keeps the `nbest` with the highest sum of start and end logit; of equal ones
    the earlier, then the shorter. The search leaves nothing out. The score of no answer is the sum at [CLS].
    """
    _check_rows(windows, len(start_logits), len(end_logits))
    longest = max((len(window.input_ids) for window in windows), default=0)
    if min(start_logits.shape[1], end_logits.shape[1]) < longest:
        raise RequestError(f"a window of {longest} tokens needs as many logits, not {start_logits.shape[1]}")
    found = []
    for at in range(0, len(windows), _WINDOWS_AT_ONCE):
        part = slice(at, at + _WINDOWS_AT_ONCE)
        start, end = start_logits[part], end_logits[part]
        tokens = _Tokens.read(windows[part], start.shape[1])
        starts, ends, scores = _search_spans(tokens, start, end, config)
        found += _keep_best(tokens, starts, ends, scores, start[:, 0] + end[:, 0], config.nbest, null_competes=True)
    return found


def decode_beam(windows: Sequence[Window], outputs: Outputs, config: WindowConfig) -> list[WindowScores]:
    """Take the spans of windows from the beam among the outputs of the answerable-question-answering head.

    A span's score is its log-probability. Spans that leave the context, are too long, end before they begin or begin at
    a token which another window shows better are dropped: a beam may hold no other. A token that only marks a space may
    be an edge, since the beam has no span to spare, but it adds no characters. The score of no answer is minus the
    answerable logit.
    """
    # In double precision: a masked position has the lowest float as its score, and two of these are added.
    start_log_probs, end_log_probs = (outputs[name].astype(np.float64) for name in ("start_log_probs", "end_log_probs"))
    starts, ends = outputs["starts"], outputs["ends"]
    null = -outputs["answerable_logits"]
    _check_rows(windows, len(starts), len(null))
    if not windows:
        return []
    tokens = _Tokens.read(windows, 1 + int(max(starts.max(), ends.max())))
    starts = np.broadcast_to(starts[:, :, None], ends.shape).reshape(len(windows), -1)
    ends = ends.reshape(len(windows), -1)
    scores = (start_log_probs[:, :, None] + end_log_probs).reshape(len(windows), -1)
    is_valid = np.take_along_axis(tokens.is_best, starts, 1) & np.take_along_axis(tokens.is_context, ends, 1)
    is_valid &= (ends >= starts) & (ends - starts < config.max_answer) & (scores > np.finfo(np.float32).min / 2)
    scores = np.where(is_valid, scores, -np.inf)
    return _keep_best(tokens, starts, ends, scores, null, config.nbest, null_competes=False)


@dataclass(frozen=True, slots=True)
class _Tokens:
    """What is known of the tokens of some windows, in arrays (windows, tokens)."""

    is_context: NDArray[np.bool_]
    is_best: NDArray[np.bool_]
    """Part of the context, and seen best in this window."""
    has_characters: NDArray[np.bool_]
    char_begins: NDArray[np.int32]
    char_ends: NDArray[np.int32]
    """Where an answer that ends with this token ends; without characters of its own, that is where the last one did."""

    @classmethod
    def read(cls, windows: Sequence[Window], least_width: int) -> "_Tokens":
        """Line up windows."""
        shape = len(windows), max([least_width, *(len(window.input_ids) for window in windows)])
        tokens = cls(*(np.zeros(shape, kind) for kind in (bool, bool, bool, np.int32, np.int32)))
        for row, window in enumerate(windows):
            context = slice(window.context_begin, window.context_end)
            has_characters = window.char_ends > window.char_begins
            tokens.is_context[row, context] = True
            tokens.is_best[row, context] = window.is_max_context
            tokens.has_characters[row, context] = has_characters
            tokens.char_begins[row, context] = window.char_begins
            last_ends = np.maximum.accumulate(np.where(has_characters, window.char_ends, 0))
            tokens.char_ends[row, context] = np.where(has_characters, window.char_ends, last_ends)
        return tokens


def _search_spans(
    tokens: _Tokens, start_logits: Floats, end_logits: Floats, config: WindowConfig
) -> tuple[Integers, Integers, Floats]:
    """Starts, ends and scores (windows, spans) among which are the `nbest` best spans of each window.

    None of them can begin elsewhere than at one of the `nbest` starts that are best together with their best end.
    """
    num_tokens = start_logits.shape[1]
    start_scores = _only(start_logits, tokens.is_best & tokens.has_characters)
    end_scores = _only(end_logits, tokens.has_characters)
    best_end = end_scores.copy()
    for ahead in range(1, min(config.max_answer, num_tokens)):
        np.maximum(best_end[:, :-ahead], end_scores[:, ahead:], out=best_end[:, :-ahead])
    order = np.argsort(-(start_scores + best_end), axis=1, kind="stable")
    chosen = np.sort(order[:, : config.nbest], axis=1)  # of equal spans, the earlier one comes first
    starts = np.repeat(chosen, config.max_answer, axis=1)
    ends = starts + np.tile(np.arange(config.max_answer), chosen.shape[1])
    ends = np.minimum(ends, num_tokens - 1)  # no row has an answer there, but [SEP] or padding
    return starts, ends, np.take_along_axis(start_scores, starts, 1) + np.take_along_axis(end_scores, ends, 1)


def _keep_best(
    tokens: _Tokens,
    starts: Integers,
    ends: Integers,
    scores: Floats,
    null: Floats,
    nbest: int,
    null_competes: bool,
) -> list[WindowScores]:
    """Keep the best spans of each window, as characters."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :nbest]
    scores = np.take_along_axis(scores, order, 1).astype(np.float32)
    begins = np.take_along_axis(tokens.char_begins, np.take_along_axis(starts, order, 1), 1)
    char_ends = np.take_along_axis(tokens.char_ends, np.take_along_axis(ends, order, 1), 1)
    is_span = np.isfinite(scores) & (char_ends > begins)
    nulls = np.where(np.isnan(null), np.inf, null).tolist()
    return [
        WindowScores(scores[row, kept], begins[row, kept], char_ends[row, kept], nulls[row], null_competes)
        for row, kept in enumerate(is_span)
    ]


def combine(context: str, windows: Sequence[WindowScores], nbest: int = 20) -> Prediction:
    """Put the windows of one question together: its best spans, and the odds that there is no answer.

    A span that several tokens or windows gave counts once, with its best score. The odds are the lowest score of no
    answer of any window; for the plain head, less the best score of a span (`NO_SPAN` if there is none).
    """
    best: dict[tuple[int, int], float] = {}
    for window in windows:
        for score, *span in zip(window.scores.tolist(), window.begins.tolist(), window.ends.tolist(), strict=True):
            key = (span[0], span[1])
            best[key] = max(score, best.get(key, -math.inf))
    ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:nbest]
    top = ranked[0][1] if ranked else -math.inf
    odds = min((window.null - top if window.null_competes else window.null for window in windows), default=NO_SPAN)
    weights = [math.exp(score - top) for _, score in ranked]
    total = math.fsum(weights)
    candidates = tuple(
        Candidate(context[begin:end], begin, end, score, weight / total)
        for ((begin, end), score), weight in zip(ranked, weights, strict=True)
    )
    return Prediction(candidates, min(odds, NO_SPAN))


def combine_all(
    examples: Sequence[QuestionExample],
    windows: Sequence[Window],
    scores: Sequence[WindowScores],
    config: WindowConfig,
) -> list[Prediction]:
    """A prediction for each example, from the scores of all windows, which may come in any order."""
    _check_rows(windows, len(scores), len(scores))
    groups: list[list[WindowScores]] = [[] for _ in examples]
    for window, score in zip(windows, scores, strict=True):
        groups[window.example].append(score)
    return [combine(example.context, group, config.nbest) for example, group in zip(examples, groups, strict=True)]


def average_predictions(predictions: Sequence[Prediction]) -> Prediction:
    """Average what several models answer to one question: probabilities by position in the text, and `null_odds`.

    A span that a member did not name has probability 0 there: its probabilities already sum to 1 without it. (Its
    lowest one instead would be 1.0 for a member that named a single span.) Members that named none have no say in the
    candidates, and those whose odds are `NO_SPAN` none in the odds, unless all are. As many candidates are kept as the
    longest list had; their score is the logarithm of the probability.
    """
    if not predictions:
        raise RequestError("there are no predictions to average: an ensemble needs one model at least")
    odds = [prediction.null_odds for prediction in predictions if prediction.null_odds < NO_SPAN]
    sums: dict[tuple[int, int], float] = {}
    texts: dict[tuple[int, int], str] = {}
    for prediction in predictions:
        for candidate in prediction.candidates:
            span = (candidate.begin, candidate.end)
            sums[span] = sums.get(span, 0.0) + candidate.probability
            texts[span] = candidate.text
    length = max(len(prediction.candidates) for prediction in predictions)
    ranked = sorted(sums, key=lambda span: (-sums[span], span))[:length]
    total = math.fsum(sums[span] for span in ranked)
    shares = [(span, sums[span] / total) for span in ranked if sums[span] > 0]
    candidates = tuple(Candidate(texts[span], *span, math.log(share), share) for span, share in shares)
    return Prediction(candidates, math.fsum(odds) / len(odds) if odds else NO_SPAN)


def _only(scores: Floats, is_allowed: NDArray[np.bool_]) -> Floats:
    """Scores where they are allowed and numbers, minus infinity elsewhere."""
    return np.where(is_allowed & np.isfinite(scores), scores, -np.inf).astype(np.float32)


def _check_rows(windows: Sequence[Window], *counts: int) -> None:
    if any(count != len(windows) for count in counts):
        raise RequestError(f"{len(windows)} windows need as many rows of scores, not {' and '.join(map(str, counts))}")
