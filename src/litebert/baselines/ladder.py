"""The ladder of baselines: what a practitioner should beat before being glad of a model, from the simplest upwards.

Each rung learns with `fit(inputs, targets)` and answers with `predict(inputs)`, on plain lists:

- classification, multi-label, regression: texts or pairs of texts; names, collections of names, numbers.
- tagging: lists of words; lists of tags.
- choice: passage, question and options; the number of the right option.
- questions: question and context; a list of right answers, empty if there is none. Answers are pieces of the context,
  and the empty string says that there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from litebert.errors import RequestError

__all__ = ["LADDER", "Baseline", "Rung", "RungKind", "list_rungs", "make_rung"]

RungKind = Literal["classification", "multi-label", "regression", "tagging", "questions", "choice"]
_TEXTS: tuple[RungKind, ...] = ("classification", "multi-label", "regression")


class Baseline(Protocol):
    """A rung that can be stood upon."""

    def fit(self, inputs: Sequence[Any], targets: Sequence[Any]) -> object:
        """Learn from inputs and their targets."""

    def predict(self, inputs: Sequence[Any]) -> list[Any]:
        """A target for each input."""

    @property
    def size_bytes(self) -> int:
        """About how much has been learnt: bytes of all arrays that are kept, and of all words in UTF-8."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A kind of baseline, and what it can be asked."""

    name: str
    explanation: str
    kinds: tuple[RungKind, ...]
    needs_gensim: bool = False


LADDER: tuple[Rung, ...] = (
    Rung(
        "majority",
        "what is most frequent, whatever the text (of tags: for each word)",
        (*_TEXTS, "tagging", "questions", "choice"),
    ),
    Rung("bag-of-words", "how often each word occurs, with a linear model on top", (*_TEXTS, "questions", "choice")),
    Rung(
        "tf-idf",
        "words and pairs of words, the rarer the weightier, with a linear model on top",
        (*_TEXTS, "questions", "choice"),
    ),
    Rung(
        "word2vec",
        "averaged skip-gram vectors of the training text, with a linear model on top",
        (*_TEXTS, "questions", "choice"),
        needs_gensim=True,
    ),
    Rung("n-gram", "a language model of word triples for each class", ("classification", "multi-label", "choice")),
)


def list_rungs(kind: RungKind) -> list[Rung]:
    """The rungs that can be asked this kind of question, from the simplest upwards.

    >>> [rung.name for rung in list_rungs("regression")]
    ['majority', 'bag-of-words', 'tf-idf', 'word2vec']
    """
    return [rung for rung in LADDER if kind in rung.kinds]


def make_rung(name: str, kind: RungKind, seed: int = 0) -> Baseline:
    """A baseline that is ready to learn; what it learns depends on the data and the seed only."""
    names = [rung.name for rung in list_rungs(kind)]
    if name not in names:
        raise RequestError(f"there is no baseline {name!r} for {kind}: take {', '.join(names) or 'another kind'}")
    try:
        return _make_for_texts(name, kind, seed) if kind in _TEXTS else _make_other(name, kind, seed)
    except ModuleNotFoundError as error:
        raise RequestError(
            f"the baseline {name!r} needs a library that is not installed ({error.name}): "
            "install it with pip install 'litebert[baselines]'"
        ) from error


def _make_for_texts(name: str, kind: Any, seed: int) -> Baseline:
    # Imported here, since the table of rungs is also read where scikit-learn is not wanted.
    match name:
        case "majority":
            from litebert.baselines.majority import Majority

            return Majority(kind)
        case "word2vec":
            from litebert.baselines.word2vec import AveragedVectors

            return AveragedVectors(kind, seed)
        case "n-gram":
            from litebert.baselines.likelihood import NgramClassifier

            return NgramClassifier(kind)
        case _:
            from litebert.baselines.bag_of_words import BagOfWords

            return BagOfWords(kind, "tf-idf" if name == "tf-idf" else "counts", seed)


def _make_other(name: str, kind: RungKind, seed: int) -> Baseline:
    from litebert.baselines.majority import FrequentTag, Majority
    from litebert.baselines.overlap import LikelyOption, SimilarityName, SimilarOption, make_similarity
    from litebert.baselines.questions import FirstWords, SimilarSentence

    if kind == "tagging":
        return FrequentTag()
    if name == "majority":
        return FirstWords() if kind == "questions" else Majority("choice")
    if name == "n-gram":
        return LikelyOption()
    similarity = make_similarity(cast(SimilarityName, name), seed)
    return SimilarSentence(similarity) if kind == "questions" else SimilarOption(similarity)
