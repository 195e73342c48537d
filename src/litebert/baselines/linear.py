"""From a matrix of features to classes, sets of labels or scores: the linear model on top of every kind of vector.

Classes and label sets are learnt one against the rest with logistic regression, scores with ridge regression.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression, Ridge  # type: ignore[import-untyped]

from litebert.errors import RequestError

__all__ = ["LinearModel", "Matrix", "TextKind", "combine_pairs", "count_outputs", "list_labels"]

TextKind = Literal["classification", "multi-label", "regression"]
Matrix = Any
"""A NumPy matrix, or a sparse one of SciPy; a row for each text."""
_MOST_ITERATIONS = 1_000
_CERTAIN = 100.0  # the log-odds of a label that all training texts have


def list_labels(kind: TextKind, targets: Sequence[Any]) -> list[Any]:
    """All labels that occur, in order of their names; none for scores."""
    if kind == "regression":
        return []
    labels: set[Hashable] = set(targets) if kind == "classification" else {name for names in targets for name in names}
    return sorted(labels, key=lambda label: (str(type(label)), label))


def count_outputs(kind: TextKind, targets: Sequence[Any]) -> int:
    """How many numbers a linear model gives for a text."""
    return max(1, len(list_labels(kind, targets)))


class LinearModel:
    """Logistic regression (one against the rest) or ridge regression, with the coefficients in one array.

    `strength` is the inverse of the regularisation in logistic regression, as scikit-learn's `C`.
    """

    def __init__(self, kind: TextKind, strength: float = 1.0, seed: int = 0) -> None:
        self._kind, self._strength, self._seed = kind, strength, seed

    def fit(self, matrix: Matrix, targets: Sequence[Any]) -> "LinearModel":
        """Learn from one row and one target per text."""
        if not len(targets) or matrix.shape[0] != len(targets):
            raise RequestError(
                f"there are {matrix.shape[0]} texts and {len(targets)} targets to learn from: "
                "give at least one text, and a target for each"
            )
        self._labels = list_labels(self._kind, targets)
        if self._kind == "regression":
            self._fit_scores(matrix, np.asarray(targets, np.float64))
            return self
        # Of two classes, the second is learnt and the first is all else.
        learnt = self._labels[1:] if self._kind == "classification" and len(self._labels) <= 2 else self._labels
        self._weights = np.zeros((matrix.shape[1], len(learnt)), np.float32)
        self._intercepts = np.zeros(len(learnt), np.float32)
        for column, label in enumerate(learnt):
            if self._kind == "classification":
                has_label = np.fromiter((target == label for target in targets), bool, len(targets))
            else:
                has_label = np.fromiter((label in target for target in targets), bool, len(targets))
            self._weights[:, column], self._intercepts[column] = self._fit_label(matrix, has_label)
        return self

    def _fit_scores(self, matrix: Matrix, scores: NDArray[np.float64]) -> None:
        if not np.isfinite(scores).all():
            raise RequestError("a score to learn from is not a finite number: leave such texts out")
        model = Ridge(solver="sparse_cg" if sparse.issparse(matrix) else "cholesky", random_state=self._seed)
        model.fit(matrix, scores)
        self._weights = model.coef_.astype(np.float32)[:, None]
        self._intercepts = np.array([model.intercept_], np.float32)
        self._range = (float(scores.min()), float(scores.max()))

    def _fit_label(self, matrix: Matrix, has_label: NDArray[np.bool_]) -> tuple[NDArray[Any], float]:
        """Coefficients and intercept for one label against the rest; a label of all or none needs no learning."""
        if has_label.all() or not has_label.any():
            return np.zeros(matrix.shape[1]), _CERTAIN if has_label[0] else -_CERTAIN
        # liblinear's Newton method needs few steps on counts that are not scaled, where L-BFGS needs thousands; on
        # dense features that are scaled, L-BFGS is faster.
        solver = "liblinear" if sparse.issparse(matrix) else "lbfgs"
        model = LogisticRegression(C=self._strength, solver=solver, max_iter=_MOST_ITERATIONS, random_state=self._seed)
        model.fit(matrix, has_label)
        return model.coef_[0], float(model.intercept_[0])

    def predict(self, matrix: Matrix) -> list[Any]:
        """A class, a tuple of labels or a score for each row; scores stay within those of the training texts."""
        outputs = np.asarray(matrix @ self._weights) + self._intercepts
        if self._kind == "regression":
            return [float(score) for score in np.clip(outputs[:, 0], *self._range)]
        if self._kind == "multi-label":
            return [tuple(self._labels[i] for i in np.flatnonzero(row > 0)) for row in outputs]
        if len(self._labels) == 1:
            return [self._labels[0]] * outputs.shape[0]
        best = (outputs[:, 0] > 0).astype(int) if len(self._labels) == 2 else outputs.argmax(1)
        return [self._labels[i] for i in best]

    @property
    def size_bytes(self) -> int:
        """Bytes of the coefficients, which are kept as float32."""
        return int(self._weights.nbytes + self._intercepts.nbytes)


def combine_pairs(first: Matrix, second: Matrix) -> Matrix:
    """The features of pairs: both vectors, their product, their absolute difference, and their cosine.

    A linear model sees whether the texts agree only if it is shown: the product is large where both have a feature, the
    difference where one of them has it, and the cosine sums up the agreement in one number.

    >>> combine_pairs(np.array([[3.0, 4.0]]), np.array([[0.0, 5.0]]))
    array([[ 3. ,  4. ,  0. ,  5. ,  0. , 20. ,  3. ,  1. ,  0.8]])
    """
    is_sparse = sparse.issparse(first)
    product = first.multiply(second).tocsr() if is_sparse else first * second
    lengths = _measure(first) * _measure(second)
    cosines = np.asarray(product.sum(1)).reshape(-1, 1) / np.where(lengths > 0, lengths, 1.0)
    parts = [first, second, product, abs(first - second), cosines]
    return sparse.hstack(parts, format="csr") if is_sparse else np.hstack(parts)


def _measure(matrix: Matrix) -> NDArray[Any]:
    """The Euclidean length of each row, as a column."""
    squares = matrix.multiply(matrix) if sparse.issparse(matrix) else matrix * matrix
    lengths: NDArray[Any] = np.sqrt(np.asarray(squares.sum(1)).reshape(-1, 1))
    return lengths
