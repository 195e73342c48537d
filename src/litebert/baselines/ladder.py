"""The ladder of baselines: what a practitioner should beat before being glad of a model, from the simplest upwards.

Each rung learns with `fit(inputs, targets)` and answers with `predict(inputs)`, on plain lists. What they hold depends
on the type of the answer:

- label, labels, number: texts or pairs of texts; names, collections of names, numbers.
- tags: lists of words; lists of tags.
- option: passage, question and options; the index of the right option.
- span: question and context; a list of right answers, empty if there is none. Answers are parts of the context, and
  the empty string says that there is none.

Below the ladder stands the majority: the answer that is most often right, whatever is asked. It belongs to the task.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

from litebert.baselines.bag_of_words import BagOfWords
from litebert.baselines.likelihood import LikelyOption, NgramClassifier, NgramLabeler
from litebert.baselines.linear import LinearClassifier, LinearLabeler, LinearRegressor
from litebert.baselines.options import SimilarOption
from litebert.baselines.overlap import BagSimilarity, IdfSimilarity, VectorSimilarity
from litebert.baselines.questions import FirstWords, SimilarSentence
from litebert.baselines.word2vec import AveragedVectors
from litebert.errors import RequestError
from litebert.tasks.kinds.kind import AnswerType

__all__ = ["EXPLANATIONS", "LADDER", "Baseline", "FrequentTag", "make_rung"]


class Baseline(Protocol):
    """A rung of the ladder."""

    def fit(self, inputs: Sequence[Any], targets: Sequence[Any]) -> object:
        """Learn from inputs and their targets."""

    def predict(self, inputs: Sequence[Any]) -> list[Any]:
        """A target for each input."""

    @property
    def size_bytes(self) -> int:
        """About how much has been learnt: bytes of all arrays that are kept, and of all words in UTF-8."""


class FrequentTag:
    """For each word the tag that it most often has; for words that training did not see, the most frequent of all tags.

    Words are told apart by their case, since names are.

    >>> model = FrequentTag().fit([["Anna", "sleeps"], ["Anna", "sees", "Berlin"]], [["PER", "O"], ["PER", "O", "LOC"]])
    >>> model.predict([["Berlin", "sees", "Anna", "twice"]])
    [['LOC', 'O', 'PER', 'PER']]
    """

    def fit(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> Self:
        """Count the tags of each word."""
        counts: dict[str, Counter[str]] = {}
        overall: Counter[str] = Counter()
        for words, row in zip(sentences, tags, strict=True):
            overall.update(row)
            for word, tag in zip(words, row, strict=True):
                counts.setdefault(word, Counter())[tag] += 1
        if not overall:
            raise RequestError("there are no tagged words to learn from: give at least one")
        self._tags = {word: counter.most_common(1)[0][0] for word, counter in counts.items()}
        self._default = overall.most_common(1)[0][0]
        return self

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """A tag for each word of each sentence."""
        return [[self._tags.get(word, self._default) for word in words] for words in sentences]

    @property
    def size_bytes(self) -> int:
        """Bytes of the words and their tags in UTF-8."""
        return sum(len(word.encode()) + len(tag.encode()) for word, tag in self._tags.items())


LADDER: dict[AnswerType, dict[str, Callable[[int], Baseline]]] = {
    "label": {
        "bag-of-words": lambda seed: BagOfWords(LinearClassifier(seed=seed)),
        "tf-idf": lambda seed: BagOfWords(LinearClassifier(strength=10, seed=seed), "tf-idf"),
        "word2vec": lambda seed: AveragedVectors(LinearClassifier(seed=seed), seed),
        "n-gram": lambda seed: NgramClassifier(),
    },
    "labels": {
        "bag-of-words": lambda seed: BagOfWords(LinearLabeler(seed=seed)),
        "tf-idf": lambda seed: BagOfWords(LinearLabeler(strength=10, seed=seed), "tf-idf"),
        "word2vec": lambda seed: AveragedVectors(LinearLabeler(seed=seed), seed),
        "n-gram": lambda seed: NgramLabeler(),
    },
    "number": {
        "bag-of-words": lambda seed: BagOfWords(LinearRegressor(seed)),
        "tf-idf": lambda seed: BagOfWords(LinearRegressor(seed), "tf-idf"),
        "word2vec": lambda seed: AveragedVectors(LinearRegressor(seed), seed),
    },
    "tags": {"frequent-tag": lambda seed: FrequentTag()},
    "span": {
        "first-words": lambda seed: FirstWords(),
        "bag-of-words": lambda seed: SimilarSentence(BagSimilarity()),
        "tf-idf": lambda seed: SimilarSentence(IdfSimilarity()),
        "word2vec": lambda seed: SimilarSentence(VectorSimilarity(seed)),
    },
    "option": {
        "bag-of-words": lambda seed: SimilarOption(BagSimilarity()),
        "tf-idf": lambda seed: SimilarOption(IdfSimilarity()),
        "word2vec": lambda seed: SimilarOption(VectorSimilarity(seed)),
        "n-gram": lambda seed: LikelyOption(),
    },
}
"""The rungs of each type of answer, from the simplest upwards: a name, and what makes the baseline from a seed."""

EXPLANATIONS = {
    "frequent-tag": "the most frequent tag of each word",
    "first-words": "the first words of the context",
    "bag-of-words": "how often each word occurs",
    "tf-idf": "how often each word occurs, the rarer the weightier",
    "word2vec": "averaged skip-gram vectors of the training text",
    "n-gram": "language models of word triples",
}
"""What each rung does, for readers of a table."""


def make_rung(name: str, answer_type: AnswerType, seed: int = 0) -> Baseline:
    """A baseline that is ready to learn; what it learns depends on the data and the seed only.

    >>> type(make_rung("tf-idf", "label")).__name__
    'BagOfWords'
    """
    rungs = LADDER[answer_type]
    if name not in rungs:
        raise RequestError(f"there is no baseline {name!r} for {answer_type}: take {', '.join(rungs)}")
    return rungs[name](seed)
