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
from litebert.tasks.tf_idf import TfIdf, list_weights
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
    begins = [candidate.begin for candidate in prediction.candidates]
    rows = np.maximum(np.searchsorted(ratings[:, 0], begins, side="right") - 1, 0)
    scores = [
        candidate.score + weight * rating
        for candidate, rating in zip(prediction.candidates, ratings[rows, 1].tolist(), strict=True)
    ]
    return prediction.rescored(scores)


def weigh_ratings(
    examples: Sequence[QuestionExample], predictions: Sequence[Prediction], ratings: Sequence[Ratings]
) -> float:
    """The weight with the best F1 on questions that have an answer; of equals the smallest."""
    asked = [
        one for one in zip(examples, predictions, ratings, strict=True) if one[0].answers and len(one[1].candidates)
    ]

    def measure(weight: float) -> float:
        answers = [(example, add_ratings(output, rated, weight).answer()) for example, output, rated in asked]
        return math.fsum(score_answer(example, answer, False)[1] for example, answer in answers)

    return max(list_weights(), key=measure)
