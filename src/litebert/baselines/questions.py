"""Answers from a context without any reading: the sentence that is most like the question, and in it the words that the
question does not have.

It is the oldest idea for extractive questions: what is asked stands beside what is known.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from litebert.baselines.overlap import Similarity
from litebert.baselines.words import WordPlace, find_words, split_words
from litebert.errors import RequestError

__all__ = ["FirstWords", "QuestionItem", "SimilarSentence", "cut_sentences", "pick_span"]

QuestionItem = tuple[str, str]
"""A question and its context."""
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+|[。！？…]+|\n+")
_LONGEST_ANSWER = 6
_NUM_FREQUENT = 50


class FirstWords:
    """The majority of extractive questions: no answer if most have none, otherwise the context's beginning."""

    def fit(self, items: Sequence[QuestionItem], answers: Sequence[Sequence[str]]) -> "FirstWords":
        """Count the questions that have answers."""
        self._has_answer = 2 * sum(1 for given in answers if given) >= len(answers)
        return self

    def predict(self, items: Sequence[QuestionItem]) -> list[str]:
        """For each question the first words of its context, or the empty string for no answer."""
        return [
            _take(context, find_words(context)[:_LONGEST_ANSWER]) if self._has_answer else "" for _, context in items
        ]

    @property
    def size_bytes(self) -> int:
        """One yes or no."""
        return 1


class SimilarSentence:
    """The sentence that is most like the question, and in it the span that `pick_span` finds.

    Where training questions have no answer, the similarity below which there is none is the one with the best F1 on
    them. The 50 most frequent words of the training contexts are not taken for the ends of an answer.
    """

    def __init__(self, similarity: Similarity) -> None:
        self._similarity = similarity

    def fit(self, items: Sequence[QuestionItem], answers: Sequence[Sequence[str]]) -> "SimilarSentence":
        """Learn what words are worth from sentences and questions, and a threshold; an empty list is `no answer`."""
        if not items or len(items) != len(answers):
            raise RequestError(
                f"there are {len(items)} questions and {len(answers)} lists of answers to learn from: "
                "give at least one question, and a list for each"
            )
        contexts = dict.fromkeys(context for _, context in items)
        sentences = [sentence for context in contexts for sentence in cut_sentences(context)]
        self._similarity.fit([*sentences, *(question for question, _ in items)])
        counts = Counter(word for context in contexts for word in split_words(context))
        self._frequent = {word for word, count in counts.most_common(_NUM_FREQUENT) if count > len(contexts)}
        self._threshold = -2.0  # below any cosine
        if any(not given for given in answers):
            guesses = [self._guess(item) for item in items]
            self._threshold = _find_threshold(guesses, answers)
        return self

    def predict(self, items: Sequence[QuestionItem]) -> list[str]:
        """For each question a piece of its context, or the empty string for no answer."""
        guesses = (self._guess(item) for item in items)
        return [answer if score >= self._threshold else "" for score, answer in guesses]

    def _guess(self, item: QuestionItem) -> tuple[float, str]:
        """The best sentence's similarity to the question, and the span in it."""
        question, context = item
        sentences = cut_sentences(context)
        if not sentences:
            return -1.0, ""
        scores = self._similarity.compare(question, sentences)
        best = scores.index(max(scores))
        return scores[best], pick_span(sentences[best], question, self._similarity, self._frequent)

    @property
    def size_bytes(self) -> int:
        """Bytes of what the similarity has learnt, of the frequent words, and of the threshold."""
        return self._similarity.size_bytes + sum(len(word.encode()) for word in self._frequent) + 8


def cut_sentences(text: str) -> list[str]:
    """Cut a text behind full stops and the like, and at line ends; sentences without words are left out.

    >>> cut_sentences("It rains. Why? 因为是春天。是的。")
    ['It rains.', 'Why?', '因为是春天。', '是的。']
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    pieces = (text[begin:end].strip() for begin, end in zip([0, *ends], [*ends, len(text)], strict=True))
    return [piece for piece in pieces if split_words(piece)]


def pick_span(sentence: str, question: str, similarity: Similarity, frequent: set[str] | frozenset[str]) -> str:
    """The heaviest run of words that the question does not have, as it stands in the sentence.

    Runs end at words of the question and at punctuation, have at most six words, and neither begin nor end with a
    frequent word. Where words are worth the same, the heaviest run is the longest; of equals the first is taken.

    >>> from litebert.baselines.overlap import BagSimilarity
    >>> pick_span("The tower was built by Gustave Eiffel.", "Who built the tower?", BagSimilarity(), {"by", "was"})
    'Gustave Eiffel'
    """
    asked = set(split_words(question))
    best, most = "", 0.0
    for run in _find_runs(sentence, asked):
        for begin, (word, _, _) in enumerate(run):
            if word in frequent:
                continue
            span = run[begin : begin + _LONGEST_ANSWER]
            while span[-1][0] in frequent:
                span = span[:-1]
            weight = sum(similarity.weigh(word) for word, _, _ in span)
            if weight > most:
                best, most = _take(sentence, span), weight
    # A sentence that says nothing new: all of it, as far as an answer goes.
    return best or _take(sentence, find_words(sentence)[:_LONGEST_ANSWER])


def _find_runs(sentence: str, asked: set[str]) -> Iterator[list[WordPlace]]:
    """Neighbouring words that were not asked for, with nothing but white space or a hyphen between them."""
    run: list[WordPlace] = []
    for word, begin, end in find_words(sentence):
        between = sentence[run[-1][2] : begin].strip() if run else ""
        if run and (word in asked or between not in ("", "-", "–")):
            yield run
            run = []
        if word not in asked:
            run.append((word, begin, end))
    if run:
        yield run


def _take(text: str, words: Sequence[WordPlace]) -> str:
    """The piece of a text from the first to the last of some words."""
    return text[words[0][1] : words[-1][2]] if words else ""


def _measure_f1(answer: str, gold: Sequence[str]) -> float:
    """The best F1 of words between an answer and those that are right; where there is none, 1 for the empty answer."""
    if not gold:
        return float(not answer)
    words, best = Counter(split_words(answer)), 0.0
    for one in gold:
        right = Counter(split_words(one))
        total = words.total() + right.total()
        best = max(best, 2 * (words & right).total() / total if total else 0.0)
    return best


def _find_threshold(guesses: Sequence[tuple[float, str]], answers: Sequence[Sequence[str]]) -> float:
    """The least similarity at which to answer, so that the F1 over these questions is best."""
    gains = [
        (score, _measure_f1(answer, given) - _measure_f1("", given))
        for (score, answer), given in zip(guesses, answers, strict=True)
    ]
    gains.sort(key=lambda pair: -pair[0])
    threshold, best, total = 2.0, 0.0, 0.0  # above any cosine: never answer
    for place, (score, gain) in enumerate(gains):
        total += gain
        is_last_of_equals = place + 1 == len(gains) or gains[place + 1][0] < score
        if is_last_of_equals and total > best:
            threshold, best = score, total
    return threshold
