"""From a matrix of features to a label, a set of labels or a number: the linear models on top of every kind of vector.

Labels are learnt one against the rest with logistic regression, numbers with ridge regression. Coefficients are kept
as float32.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression, Ridge  # type: ignore[import-untyped]
from sklearn.multiclass import OneVsRestClassifier  # type: ignore[import-untyped]

from litebert.errors import RequestError
from litebert.tasks.linear import ALONE, combine_vectors

__all__ = [
    "LinearClassifier",
    "LinearLabeler",
    "LinearModel",
    "LinearRegressor",
    "Matrix",
    "TextVectors",
    "check_examples",
    "combine_pairs",
    "sort_labels",
]

Matrix = Any
"""A NumPy matrix, or a sparse one of SciPy; a row for each text."""
Floats = NDArray[np.float32]
_MOST_ITERATIONS = 1_000


class LinearModel(Protocol):
    """What stands on the features of a text."""

    def count_outputs(self, targets: Sequence[Any]) -> int:
        """How many numbers the model would compute for a text."""

    def fit(self, matrix: Matrix, targets: Sequence[Any]) -> object:
        """Learn from one row of features and one target per text."""

    def predict(self, matrix: Matrix) -> list[Any]:
        """A target for each row."""

    def coefficients(self, labels: Sequence[Any]) -> tuple[Floats, Floats]:
        """By which each of these labels gets a logit, or a text its number: (labels, features) and (labels,)."""

    @property
    def limits(self) -> tuple[float, float]:
        """Between which numbers stay; logits have no limits."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the coefficients."""


class TextVectors(Protocol):
    """What gives a text a vector."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn what there is to learn from texts."""

    def average(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector for each text."""

    @property
    def size_bytes(self) -> int:
        """Bytes of what is kept."""


class LinearClassifier:
    """One label for each text, by logistic regression. `strength` is the inverse of the regularisation (`C`).

    `balanced`: every label counts the same, however rare it is.
    """

    limits = (-math.inf, math.inf)

    def __init__(self, strength: float = 1.0, seed: int = 0, balanced: bool = False) -> None:
        self._strength, self._seed, self._balanced = strength, seed, balanced

    def count_outputs(self, targets: Sequence[Any]) -> int:
        """One for each label."""
        return len(set(targets))

    def fit(self, matrix: Matrix, targets: Sequence[Any]) -> Self:
        """Learn each label against the rest; a single label needs no learning."""
        check_examples(matrix.shape[0], targets)
        self._shape = matrix.shape
        self._labels = sort_labels(targets)
        self._models: list[Any] = []
        if len(self._labels) == 1:
            return self
        # liblinear's Newton method needs few steps on counts that are not scaled, where L-BFGS needs thousands; on
        # dense features that are scaled, L-BFGS is faster.
        solver = "liblinear" if sparse.issparse(matrix) else "lbfgs"
        logistic = LogisticRegression(
            C=self._strength,
            solver=solver,
            max_iter=_MOST_ITERATIONS,
            random_state=self._seed,
            class_weight="balanced" if self._balanced else None,
        )
        index = {label: number for number, label in enumerate(self._labels)}
        self._model = OneVsRestClassifier(logistic).fit(matrix, [index[target] for target in targets])
        self._models = self._model.estimators_
        for model in self._models:
            model.coef_, model.intercept_ = model.coef_.astype(np.float32), model.intercept_.astype(np.float32)
        return self

    def predict(self, matrix: Matrix) -> list[Any]:
        """The most probable label of each row."""
        if not self._models:
            return self._labels * int(matrix.shape[0])
        return [self._labels[number] for number in self._model.predict(matrix)]

    def coefficients(self, labels: Sequence[Any]) -> tuple[Floats, Floats]:
        """By which each of these labels gets a logit; one that training did not see is unlikely."""
        num_texts, num_features = self._shape
        weights = np.zeros((len(labels), num_features), np.float32)
        bias = np.full(len(labels), -np.log(num_texts + 1), np.float32)
        for number, label in enumerate(labels):
            if label not in self._labels:
                continue
            place, bias[number] = self._labels.index(label), 0.0
            if len(self._models) == 1:  # of two labels: half for the one, half against the other
                sign = 0.5 if place else -0.5
                weights[number], bias[number] = (
                    sign * self._models[0].coef_[0],
                    sign * self._models[0].intercept_[0],
                )
            elif self._models:
                weights[number], bias[number] = self._models[place].coef_[0], self._models[place].intercept_[0]
        return weights, bias

    @property
    def size_bytes(self) -> int:
        """Bytes of the coefficients."""
        return sum(int(model.coef_.nbytes + model.intercept_.nbytes) for model in self._models)


class LinearLabeler:
    """A set of labels for each text: a `LinearClassifier` for each label says whether the text has it."""

    limits = (-math.inf, math.inf)

    def __init__(self, strength: float = 1.0, seed: int = 0) -> None:
        self._strength, self._seed = strength, seed

    def count_outputs(self, targets: Sequence[Iterable[Any]]) -> int:
        """One for each label, and at least one."""
        return max(1, len({label for target in targets for label in target}))

    def fit(self, matrix: Matrix, targets: Sequence[Iterable[Any]]) -> Self:
        """Learn each label on its own."""
        check_examples(matrix.shape[0], targets)
        self._shape = matrix.shape
        sets = [frozenset(target) for target in targets]
        self._models = {
            label: LinearClassifier(self._strength, self._seed).fit(matrix, [label in labels for labels in sets])
            for label in sort_labels(label for labels in sets for label in labels)
        }
        return self

    def predict(self, matrix: Matrix) -> list[tuple[Any, ...]]:
        """The labels of each row."""
        columns = {label: model.predict(matrix) for label, model in self._models.items()}
        return [tuple(label for label, has in columns.items() if has[row]) for row in range(matrix.shape[0])]

    def coefficients(self, labels: Sequence[Any]) -> tuple[Floats, Floats]:
        """By which each of these labels gets a logit; one that training did not see is unlikely."""
        never = LinearClassifier().fit(sparse.csr_matrix(self._shape), [False] * self._shape[0])
        found = [self._models.get(label, never).coefficients([False, True]) for label in labels]
        weights = [both[1] - both[0] for both, _ in found]
        return np.stack(weights), np.array([both[1] - both[0] for _, both in found], np.float32)

    @property
    def size_bytes(self) -> int:
        """Bytes of the coefficients."""
        return sum(model.size_bytes for model in self._models.values())


class LinearRegressor:
    """A number for each text, by ridge regression; numbers stay within those of the training texts."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def count_outputs(self, targets: Sequence[float]) -> int:
        """One."""
        return 1

    def fit(self, matrix: Matrix, targets: Sequence[float]) -> Self:
        """Learn the numbers, which must be finite."""
        check_examples(matrix.shape[0], targets)
        numbers = np.asarray(targets, np.float64)
        if not np.isfinite(numbers).all():
            raise RequestError("a number to learn from is not finite: leave such texts out")
        self._model = Ridge(solver="sparse_cg" if sparse.issparse(matrix) else "cholesky", random_state=self._seed)
        self._model.fit(matrix, numbers)
        self._model.coef_ = self._model.coef_.astype(np.float32)
        self._limits = (float(numbers.min()), float(numbers.max()))
        return self

    def predict(self, matrix: Matrix) -> list[float]:
        """A number for each row."""
        numbers: list[float] = np.clip(self._model.predict(matrix), *self._limits).tolist()
        return numbers

    def coefficients(self, labels: Sequence[Any]) -> tuple[Floats, Floats]:
        """By which a text gets its number."""
        return self._model.coef_.reshape(1, -1), np.array([self._model.intercept_], np.float32).reshape(1)

    @property
    def limits(self) -> tuple[float, float]:
        """Between which numbers stay."""
        return self._limits

    @property
    def size_bytes(self) -> int:
        """Bytes of the coefficients and the intercept."""
        return int(self._model.coef_.nbytes) + 4


def check_examples(num_texts: int, targets: Sequence[Any]) -> None:
    """Refuse to learn from nothing, or from texts without targets."""
    if not num_texts or num_texts != len(targets):
        raise RequestError(
            f"there are {num_texts} texts and {len(targets)} targets to learn from: "
            "give at least one text, and a target for each"
        )


def sort_labels(labels: Iterable[Any]) -> list[Any]:
    """All different labels, in order of their names.

    >>> sort_labels(["no", "yes", "no"])
    ['no', 'yes']
    """
    return sorted(set(labels), key=lambda label: (str(type(label)), label))


def combine_pairs(first: Matrix, second: Matrix) -> Matrix:
    """The features of pairs (`combine_vectors`), also of sparse matrices."""
    if not sparse.issparse(first):
        return combine_vectors(first, second)
    product = first.multiply(second).tocsr()
    lengths = _measure(first) * _measure(second)
    cosines = np.asarray(product.sum(1)).reshape(-1, 1) / np.where(lengths > 0, lengths, 1.0)
    return sparse.hstack([ALONE * first, ALONE * second, product, abs(first - second), cosines], format="csr")


def _measure(matrix: Matrix) -> NDArray[Any]:
    """The Euclidean length of each row, as a column."""
    lengths: NDArray[Any] = np.sqrt(np.asarray(matrix.multiply(matrix).sum(1)).reshape(-1, 1))
    return lengths
