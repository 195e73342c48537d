"""Bags of words: a text as the counts of its words, in whatever order they stand, with a linear model on top.

Counts were the first way to hand a text to a learner; tf-idf, which weighs a word by how few texts it is in, is the one
that is still hard to beat on a small data set.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse  # type: ignore[import-untyped]
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer  # type: ignore[import-untyped]

from litebert.baselines.linear import LinearModel, Matrix, TextVectors, check_examples, combine_pairs
from litebert.tasks.linear import ALONE
from litebert.tasks.tf_idf import TfIdf, list_terms
from litebert.text.words import Text, split_pair, split_words

__all__ = ["BagOfWords", "Weighting", "choose_rows", "choose_vocabulary", "count_words", "list_singles", "make_counter"]

Weighting = Literal["counts", "tf-idf"]
Floats = NDArray[np.float32]
_MOST_FEATURES = 200_000
_MOST_WEIGHTS = 50_000_000  # of all labels together: 200 MB
_MOST_CANDIDATES = 3_000_000  # terms that are counted at a time: some 500 MB
_WEIGHTS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)  # of vectors beside a bag of length 1: one is chosen
_FOLDS, _MOST_FOLDED = 5, 6_000  # by so many parts of so many training texts
_MOST_FITS = 10  # of the texts that are left, for each weight: of many labels, fewer parts are answered
_MOST_ROWS = 100_000  # with vectors: 3 GB while they are learnt from


def choose_rows(num_rows: int, max_rows: int, seed: int = 0) -> NDArray[np.int64]:
    """All rows, or some of them at random, in their order: every n-th row could be of one class."""
    if num_rows <= max_rows:
        return np.arange(num_rows)
    return np.sort(np.random.default_rng(seed).choice(num_rows, max_rows, replace=False))


def count_words(texts: Iterable[str]) -> tuple[list[str], list[list[int]]]:
    """The words of some texts in order of first appearance, and for each text how often each of them occurs.

    >>> vocabulary, rows = count_words(["나는 오늘 식당에서 밥을 먹었다", "그리고 나는 식당에서 책도 읽었다"])
    >>> vocabulary
    ['나는', '오늘', '식당에서', '밥을', '먹었다', '그리고', '책도', '읽었다']
    >>> for row in rows:
    ...     print(*row)
    1 1 1 1 1 0 0 0
    1 0 1 0 0 1 1 1
    """
    counts = [Counter(split_words(text)) for text in texts]
    vocabulary = list(dict.fromkeys(word for counter in counts for word in counter))
    return vocabulary, [[counter[word] for word in vocabulary] for counter in counts]


class BagOfWords:
    """Counts or tf-idf of words, and a linear model on top of them.

    `counts` takes single words. `tf-idf` also takes pairs of neighbouring words, damps repetition (1 + log count) and
    brings each text to length 1. For pairs of texts, see `combine_pairs`. Features are the terms that most texts
    have, at most 200,000, and fewer if there are more than 250 labels (60 of pairs):
    the coefficients stay below 200 MB (twice that while they are learnt). `vectors` add features of their own, and then
    at most 100,000 texts (25,000 pairs) are learnt from, drawn at random; how much they weigh is chosen by
    cross-validation on the training texts, since long texts need them less than short ones.
    """

    def __init__(
        self,
        model: LinearModel,
        weighting: Weighting = "counts",
        vectors: TextVectors | None = None,
        most_weights: int | None = None,
    ) -> None:
        self._model, self._weighting, self._vectors, self._most_weights = model, weighting, vectors, most_weights

    def fit(self, texts: Sequence[Text], targets: Sequence[Any]) -> Self:
        """Choose the terms, weigh them and learn what they say about the targets."""
        check_examples(len(texts), targets)
        self._is_pair = any(not isinstance(text, str) for text in texts)
        if self._vectors is not None:  # their features are dense
            chosen = choose_rows(len(texts), _MOST_ROWS // 4 if self._is_pair else _MOST_ROWS)
            texts, targets = [texts[row] for row in chosen], [targets[row] for row in chosen]
        weights_per_term = self._model.count_outputs(targets) * (4 if self._is_pair else 1)
        max_features = min(_MOST_FEATURES, max(1, (self._most_weights or _MOST_WEIGHTS) // weights_per_term))
        analyse = split_words if self._weighting == "counts" else list_terms
        singles = list_singles(texts, self._is_pair)
        self._counter = make_counter(choose_vocabulary(map(analyse, singles), max_features), analyse)
        counts = self._counter.transform(singles)
        self._idf = TfidfTransformer(sublinear_tf=True).fit(counts) if self._weighting == "tf-idf" else None
        bags = self._weigh_bags(counts)
        vectors = None if self._vectors is None else self._vectors.fit(singles).average(singles).astype(np.float64)
        if vectors is not None:
            self._weight = self._choose_weight(bags, vectors, targets)
        self._model.fit(self._make_features(bags, vectors), targets)
        return self

    def _choose_weight(self, bags: Matrix, vectors: NDArray[np.float64], targets: Sequence[Any]) -> float:
        """The largest weight of the vectors that answers other texts as well as the best one does, up to chance."""
        num_texts = min(len(targets), _MOST_FOLDED)
        if num_texts < 2 * _FOLDS or isinstance(targets[0], float):
            return _WEIGHTS[0]
        chosen: list[int] = np.random.default_rng(0).permutation(len(targets))[:num_texts].tolist()
        step = 2 if self._is_pair else 1
        rows = [step * number + part for number in chosen for part in range(step)]
        answers, some_bags, some_vectors = [targets[number] for number in chosen], bags[rows], vectors[rows]
        num_folds = min(_FOLDS, max(1, _MOST_FITS // self._model.count_outputs(targets)))
        shares: dict[float, float] = {}
        for self._weight in _WEIGHTS:
            features = self._make_features(some_bags, some_vectors)
            shares[self._weight] = self._cross_validate(features, answers, num_folds)
        best = max(shares.values())
        chance = 0.5 * (best * (1 - best) / (num_texts * num_folds / _FOLDS)) ** 0.5
        return next(weight for weight in _WEIGHTS if shares[weight] >= best - chance)

    def _cross_validate(self, features: Matrix, targets: Sequence[Any], num_folds: int) -> float:
        """The share of the targets of some folds that are answered by models that learnt from the other rows."""
        folds = np.arange(len(targets)) % _FOLDS
        num_right = 0
        for fold in range(num_folds):
            learnt: list[int] = np.flatnonzero(folds != fold).tolist()
            scored: list[int] = np.flatnonzero(folds == fold).tolist()
            self._model.fit(features[learnt], [targets[row] for row in learnt])
            found = self._model.predict(features[scored])
            num_right += sum(_is_same(answer, targets[row]) for answer, row in zip(found, scored, strict=True))
        return num_right / int((folds < num_folds).sum())

    def predict(self, texts: Sequence[Text]) -> list[Any]:
        """A target for each text; words that training did not see count for nothing."""
        if not texts:
            return []
        singles = list_singles(texts, self._is_pair)
        vectors = None if self._vectors is None else self._vectors.average(singles).astype(np.float64)
        return self._model.predict(self._make_features(self._weigh_bags(self._counter.transform(singles)), vectors))

    def as_tf_idf(self, labels: Sequence[Any]) -> TfIdf:
        """What was learnt of words, so that it can be kept: logits for these labels, or numbers."""
        assert self._idf is not None, "counts are not kept"
        coefficients, bias = self._model.coefficients(labels)
        terms = sorted(self._counter.vocabulary_, key=self._counter.vocabulary_.__getitem__)
        num_terms = len(terms) * (4 if self._is_pair else 1)
        weights = coefficients[:, :num_terms].reshape(len(bias), -1, len(terms)).transpose(2, 1, 0)
        if self._is_pair:  # the file has terms as they are
            weights = weights * np.array([ALONE, ALONE, 1, 1], np.float32)[:, None]
        return TfIdf(
            terms=tuple(terms),
            idf=self._idf.idf_.astype(np.float32),
            weights=weights,
            cosine=coefficients[:, num_terms] if self._is_pair else np.zeros_like(bias),
            bias=bias if self._vectors is None else np.zeros_like(bias),
        )

    def vector_coefficients(self, labels: Sequence[Any]) -> tuple[Floats, Floats]:
        """By which the vectors beside the words, as they come, add to each logit; and the bias of all."""
        coefficients, bias = self._model.coefficients(labels)
        num_terms = len(self._counter.vocabulary_)
        if not self._is_pair:
            return coefficients[:, num_terms:] * np.float32(self._weight), bias
        weights = coefficients[:, 4 * num_terms + 1 :].copy()
        size = weights.shape[1] // 4
        powers = np.repeat([1, 1, 2, 1, 0], [size, size, size, size, 1])  # a product has it twice, a cosine never
        return weights * (self._weight**powers).astype(np.float32), bias

    @property
    def limits(self) -> tuple[float, float]:
        """Between which numbers stay."""
        return self._model.limits

    def _weigh_bags(self, counts: Matrix) -> Matrix:
        return counts.astype(np.float64) if self._idf is None else self._idf.transform(counts)

    def _make_features(self, bags: Matrix, vectors: NDArray[np.float64] | None) -> Matrix:
        features = [bags] if vectors is None else [bags, self._weight * vectors]
        if self._is_pair:
            features = [combine_pairs(feature[::2], feature[1::2]) for feature in features]
        return features[0] if len(features) == 1 else sparse.hstack(features, format="csr")

    @property
    def size_bytes(self) -> int:
        """Bytes of the coefficients, of the idf weights, of the terms in UTF-8, and of what gives vectors."""
        terms = sum(len(term.encode()) for term in self._counter.vocabulary_)
        vectors = 0 if self._vectors is None else self._vectors.size_bytes
        return self._model.size_bytes + terms + vectors + (0 if self._idf is None else int(self._idf.idf_.nbytes))


def _is_same(answer: Any, target: Any) -> bool:
    """Whether two labels are one, or two sets of labels."""
    return set(answer) == set(target) if isinstance(answer, tuple) else bool(answer == target)


def list_singles(texts: Sequence[Text], is_pair: bool) -> list[str]:
    """The texts one by one: of pairs, first and second in turn; where none are expected, a pair becomes one text."""
    if is_pair:
        return [single for text in texts for single in split_pair(text)]
    return [text if isinstance(text, str) else f"{text[0]} {text[1]}" for text in texts]


def choose_vocabulary(texts: Iterable[Sequence[str]], max_size: int) -> dict[str, int]:
    """The terms that most texts have, with their numbers; of equals, those that come first.

    Memory is bounded: whenever more than three million terms are being counted, the rarest are forgotten.
    """
    counts: Counter[str] = Counter()
    for terms in texts:
        counts.update(dict.fromkeys(terms, 1))
        floor = 0
        while len(counts) > _MOST_CANDIDATES:
            floor += 1
            counts = Counter({term: count for term, count in counts.items() if count > floor})
    return {term: number for number, (term, _) in enumerate(counts.most_common(max_size))}


def make_counter(vocabulary: dict[str, int], analyse: Callable[[str], Sequence[str]]) -> Any:
    """scikit-learn's counter for a vocabulary; one without words gets a word that no text holds."""
    counter = CountVectorizer(analyzer=analyse, vocabulary=vocabulary or {"": 0}, dtype=np.float32)
    counter.fit([])  # with a vocabulary that is given, fitting only takes it over
    return counter
