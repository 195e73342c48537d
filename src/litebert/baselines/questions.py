"""Answers from a context without any reading: the sentence that is most like the question, and in it the words that the
question does not have.

It is the oldest idea for extractive questions: what is asked stands beside what is known.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Self

from litebert.baselines.overlap import Similarity
from litebert.errors import RequestError
from litebert.tasks.kinds.questions.sentences import locate_sentences
from litebert.tasks.kinds.questions.squad_metrics import choose_threshold
from litebert.tasks.task import Answer, QuestionExample
from litebert.text.words import WordSpan, find_words, split_words

__all__ = ["FirstWords", "QuestionItem", "SimilarSentence", "cut_sentences", "pick_span"]

QuestionItem = tuple[str, str]
"""A question and its context."""
_LONGEST_ANSWER = 6
_NUM_FREQUENT = 50


class FirstWords:
    """The first words of the context, whatever is asked. Nothing is learnt."""

    def fit(self, items: Sequence[QuestionItem], answers: Sequence[Sequence[str]]) -> Self:
        """Nothing to learn."""
        return self

    def predict(self, items: Sequence[QuestionItem]) -> list[str]:
        """For each question the first words of its context."""
        return [_take(context, find_words(context)[:_LONGEST_ANSWER]) for _, context in items]

    @property
    def size_bytes(self) -> int:
        """Nothing is kept."""
        return 0


class SimilarSentence:
    """The sentence that is most like the question, and in it the span that `pick_span` finds.

    Where training questions have no answer, the similarity below which there is none is the one with the best F1 on
    them (SQuAD's). The 50 most frequent words of the training contexts are not taken for the ends of an answer.
    """

    def __init__(self, similarity: Similarity) -> None:
        self._similarity = similarity

    def fit(self, items: Sequence[QuestionItem], answers: Sequence[Sequence[str]]) -> Self:
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
        self._threshold = math.inf
        if any(not given for given in answers):
            examples = [
                QuestionExample("", question, context, tuple(Answer(text, 0) for text in given))
                for (question, context), given in zip(items, answers, strict=True)
            ]
            guesses = [self._guess(item) for item in items]
            null_odds, spans = zip(*guesses, strict=True)
            self._threshold = choose_threshold(examples, spans, null_odds)
        return self

    def predict(self, items: Sequence[QuestionItem]) -> list[str]:
        """For each question a part of its context, or the empty string for no answer."""
        guesses = (self._guess(item) for item in items)
        return ["" if odds > self._threshold else answer for odds, answer in guesses]

    def _guess(self, item: QuestionItem) -> tuple[float, str]:
        """How unlike the question the best sentence is (the null odds), and the span in it."""
        question, context = item
        sentences = cut_sentences(context)
        if not sentences:
            return 1.0, ""
        similarities = self._similarity.compare(question, sentences)
        best = similarities.index(max(similarities))
        return -similarities[best], pick_span(sentences[best], question, self._similarity, self._frequent)

    @property
    def size_bytes(self) -> int:
        """Bytes of what the similarity has learnt, of the frequent words, and of the threshold."""
        return self._similarity.size_bytes + sum(len(word.encode()) for word in self._frequent) + 8


def cut_sentences(text: str) -> list[str]:
    """Cut a text behind full stops and the like, and at line ends; sentences without words are left out.

    >>> cut_sentences("It rains. Why? 因为是春天。是的。")
    ['It rains.', 'Why?', '因为是春天。', '是的。']
    """
    return [text[begin:end] for begin, end in locate_sentences(text)]


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


def _find_runs(sentence: str, asked: set[str]) -> Iterator[list[WordSpan]]:
    """Neighbouring words that were not asked for, with nothing but white space or a hyphen between them."""
    run: list[WordSpan] = []
    for word, begin, end in find_words(sentence):
        between = sentence[run[-1][2] : begin].strip() if run else ""
        if run and (word in asked or between not in ("", "-", "–")):
            yield run
            run = []
        if word not in asked:
            run.append((word, begin, end))
    if run:
        yield run


def _take(text: str, words: Sequence[WordSpan]) -> str:
    """The part of a text from the first to the last of some words."""
    return text[words[0][1] : words[-1][2]] if words else ""
