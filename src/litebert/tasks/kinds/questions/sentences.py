"""Counted words beside a model that answers questions: an answer is likelier in a sentence that is like the question.

A small encoder learns from few questions what an answer looks like (a name, a year), and hardly ever where to look for
it; how many rare words a sentence shares with the question tells just that.
"""

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from litebert.tasks.kinds.questions.spans import Prediction
from litebert.tasks.kinds.questions.squad_metrics import score_answer
from litebert.tasks.task import QuestionExample
from litebert.tasks.tf_idf import TF_IDF_WEIGHT, TfIdf, list_weights
from litebert.text.words import split_words

__all__ = ["add_ratings", "locate_sentences", "rate_sentences", "weigh_ratings"]

_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+|[。！？…]+|\n+")
Ratings = NDArray[np.float32]
"""(sentences, 2): where each begins in the context, and what its words say for it."""


def locate_sentences(text: str) -> list[tuple[int, int]]:
    """Where sentences begin and end, those without words left out: behind full stops and the like, and at line ends.

    >>> [("It rains. Why? "[begin:end]) for begin, end in locate_sentences("It rains. Why? ")]
    ['It rains.', 'Why?']
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    found = []
    for begin, end in zip([0, *ends], [*ends, len(text)], strict=True):
        piece = text[begin:end]
        if split_words(piece):
            found.append((begin + len(piece) - len(piece.lstrip()), begin + len(piece.rstrip())))
    return found


def rate_sentences(tf_idf: TfIdf, question: str, context: str) -> Ratings:
    """What counted words say for each sentence of a context."""
    spans = locate_sentences(context)
    said = tf_idf.score([(question, context[begin:end]) for begin, end in spans])
    rows = [(begin, float(one[0])) for (begin, _), one in zip(spans, said, strict=True)]
    return np.array(rows, np.float32).reshape(-1, 2)


def add_ratings(prediction: Prediction, ratings: Ratings, weight: float) -> Prediction:
    """Each candidate with what is said for the sentence that it begins in; whether there is an answer stays open."""
    if not prediction.candidates or not len(ratings):
        return prediction
    scores = np.array([candidate.score for candidate in prediction.candidates])
    return prediction.rescored((scores + weight * _rate_candidates(prediction, ratings)).tolist())


def _rate_candidates(prediction: Prediction, ratings: Ratings) -> NDArray[np.float64]:
    begins = [candidate.begin for candidate in prediction.candidates]
    rows = np.maximum(np.searchsorted(ratings[:, 0], begins, side="right") - 1, 0)
    found: NDArray[np.float64] = ratings[rows, 1].astype(np.float64)
    return found


def weigh_ratings(
    examples: Sequence[QuestionExample], predictions: Sequence[Prediction], ratings: Sequence[Ratings]
) -> float:
    """The weight with the best F1 on questions that have an answer; of equals the one that is usual, or next to it."""
    weights = sorted(list_weights(), key=lambda weight: abs(math.log(weight / TF_IDF_WEIGHT)))
    sums = dict.fromkeys(weights, 0.0)
    for example, prediction, rated in zip(examples, predictions, ratings, strict=True):
        if not example.answers or not prediction.candidates or not len(rated):
            continue
        scores = np.array([candidate.score for candidate in prediction.candidates])
        said, known = _rate_candidates(prediction, rated), dict[int, float]()
        for weight in weights:
            best = int(np.argmax(scores + weight * said))
            if best not in known:
                known[best] = score_answer(example, prediction.candidates[best].text, False)[1]
            sums[weight] += known[best]
    return max(weights, key=lambda weight: round(sums[weight], 6))
