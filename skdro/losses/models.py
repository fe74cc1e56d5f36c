"""Differentiable classifiers with per-record gradients that are never formed: what a clipped sum needs.

A model is a vector of parameters and the softmax loss of its scores.  `evaluate` makes one pass over the records
and keeps the factors of every record's gradient; from these an `Evaluation` gives all losses, all gradient norms,
any weighted sum of gradients, and the norms of differences between two passes, in a few matrix products.  A
binary model has one output, the score of class 1 against a zero score of class 0.

Memory is that of the factors: one row of outputs (and of hidden units) for each record.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .clipping import Factored, Terms
from .softmax import binary_losses_and_gradient, losses_and_gradient

__all__ = ["Evaluation", "LinearModel", "Model", "Records", "TanhNetwork", "all_scores", "n_outputs"]


@dataclass(frozen=True)
class Records:
    """Rows with their labels, and the norms that every pass over them needs.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_columns)
        With a constant column if the model is to have an intercept.
    y : ndarray of int, shape (n_records,)
    squared_norm : ndarray of shape (n_records,)
        Of the rows of X.
    """

    X: np.ndarray
    y: np.ndarray
    squared_norm: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> "Records":
        """Records from rows and class indices."""
        return cls(X, y, np.einsum("ij,ij->i", X, X))


class Evaluation(Protocol):
    """One pass over the records at fixed parameters.

    Attributes
    ----------
    losses : ndarray of shape (n_records,)
    """

    losses: np.ndarray

    def gradient_sum(self, coefficient: np.ndarray) -> np.ndarray:
        """Sum over records of ``coefficient[i]`` times the gradient of record i, shape (n_parameters,)."""

    def clipped(self, weight: np.ndarray, clip_norm: float) -> Terms:
        """Terms  clip(w_i g_i, C)  of weights >= 0 and the gradients g_i."""


class Model(Protocol):
    """Settings of a model; the parameters are a flat vector that is passed in.

    Attributes
    ----------
    n_parameters : int
    """

    n_parameters: int

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Parameters to start from, shape (n_parameters,); a function of public numbers only."""

    def scores(self, parameters: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Scores of all classes, shape (n_records, n_classes)."""

    def evaluate(self, parameters: np.ndarray, records: Records) -> Evaluation:
        """One pass over the records."""

    def penalised(self) -> np.ndarray:
        """Which parameters a ridge penalty applies to (no intercepts), bool of shape (n_parameters,)."""


def n_outputs(n_classes: int) -> int:
    """Outputs of a model: one for two classes, otherwise one each."""
    return 1 if n_classes == 2 else n_classes


def all_scores(outputs: np.ndarray) -> np.ndarray:
    """Scores of all classes: a single output stands against a zero score."""
    return np.hstack([np.zeros_like(outputs), outputs]) if outputs.shape[1] == 1 else outputs


def _loss_and_gradient(outputs, y):
    """Losses, and their gradients in the outputs."""
    if outputs.shape[1] > 1:
        return losses_and_gradient(outputs, y)
    loss, gradient = binary_losses_and_gradient(outputs[:, 0], y)
    return loss, gradient[:, None]


def _squared(rows):
    return np.einsum("ij,ij->i", rows, rows)


def _scaled(coefficient, rows):
    return coefficient[:, None] * rows


@dataclass(frozen=True)
class LinearModel:
    """Multinomial logistic regression, or logistic regression with one logit: outputs W x.

    Parameters
    ----------
    n_classes, n_columns : int
    intercept : bool
        Whether the last column of the rows is the constant.

    Examples
    --------
    >>> records = Records.of(np.array([[3.0, 4.0]]), np.array([1]))
    >>> model = LinearModel(n_classes=2, n_columns=2, intercept=False)
    >>> model.evaluate(np.zeros(2), records).gradient_norms()   # ||x|| |1/2 - 1|
    array([2.5])
    """

    n_classes: int
    n_columns: int
    intercept: bool

    @property
    def n_parameters(self) -> int:
        """Outputs times columns."""
        return n_outputs(self.n_classes) * self.n_columns

    def start(self, rng):
        """All zero."""
        return np.zeros(self.n_parameters)

    def matrix(self, parameters: np.ndarray) -> np.ndarray:
        """The parameters as W, shape (n_outputs, n_columns)."""
        return parameters.reshape(-1, self.n_columns)

    def scores(self, parameters, X):
        """Scores of all classes, shape (n_records, n_classes)."""
        return all_scores(X @ self.matrix(parameters).T)

    def evaluate(self, parameters, records):
        """One pass over the records."""
        return _LinearEvaluation(records, *_loss_and_gradient(records.X @ self.matrix(parameters).T, records.y))

    def penalised(self):
        """All but the column of the constant."""
        mask = np.ones((n_outputs(self.n_classes), self.n_columns), dtype=bool)
        mask[:, self.n_columns - self.intercept :] = False
        return mask.ravel()


@dataclass(frozen=True)
class _LinearEvaluation(Factored):
    """Record i has the gradient  delta_i x_i^T."""

    records: Records
    losses: np.ndarray
    delta: np.ndarray

    def gradient_norms(self):
        return np.sqrt(self.records.squared_norm * _squared(self.delta))

    def gradient_sum(self, coefficient):
        return (_scaled(coefficient, self.delta).T @ self.records.X).ravel()

    def _step(self, coefficient, other, its):
        return _scaled(coefficient, self.delta) - _scaled(its, other.delta)

    def difference_norms(self, coefficient, other, its):
        return np.sqrt(self.records.squared_norm * _squared(self._step(coefficient, other, its)))

    def difference_sum(self, coefficient, other, its):
        return (self._step(coefficient, other, its).T @ self.records.X).ravel()


@dataclass(frozen=True)
class TanhNetwork:
    """One hidden layer of tanh units with biases: outputs W2 (tanh(W1 x), 1).

    Parameters
    ----------
    n_classes, n_columns, n_hidden : int
    intercept : bool
        Whether the last column of the rows is the constant, which is the hidden layer's bias.
    """

    n_classes: int
    n_columns: int
    n_hidden: int
    intercept: bool

    @property
    def n_parameters(self) -> int:
        """Weights of both layers."""
        return self.n_hidden * self.n_columns + n_outputs(self.n_classes) * (self.n_hidden + 1)

    def layers(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The parameters as W1, shape (n_hidden, n_columns), and W2, shape (n_outputs, n_hidden + 1)."""
        cut = self.n_hidden * self.n_columns
        return parameters[:cut].reshape(self.n_hidden, -1), parameters[cut:].reshape(-1, self.n_hidden + 1)

    def start(self, rng):
        """Hidden weights as by Glorot and Bengio (2010), outputs zero."""
        limit = np.sqrt(6.0 / (self.n_hidden + self.n_columns))
        out = np.zeros(self.n_parameters)
        out[: self.n_hidden * self.n_columns] = rng.uniform(-limit, limit, self.n_hidden * self.n_columns)
        return out

    def _hidden(self, parameters, X):
        first, second = self.layers(parameters)
        h = np.empty((len(X), self.n_hidden + 1))
        np.tanh(X @ first.T, out=h[:, :-1])
        h[:, -1] = 1.0
        return h, second

    def scores(self, parameters, X):
        """Scores of all classes, shape (n_records, n_classes)."""
        h, second = self._hidden(parameters, X)
        return all_scores(h @ second.T)

    def evaluate(self, parameters, records):
        """One pass over the records, forward and back."""
        h, second = self._hidden(parameters, records.X)
        loss, outer = _loss_and_gradient(h @ second.T, records.y)
        inner = (outer @ second[:, :-1]) * (1.0 - h[:, :-1] ** 2)
        return _NetworkEvaluation(records, loss, h, inner, outer)

    def penalised(self):
        """All but the biases of both layers."""
        first = np.ones((self.n_hidden, self.n_columns), dtype=bool)
        first[:, self.n_columns - self.intercept :] = False
        second = np.ones((n_outputs(self.n_classes), self.n_hidden + 1), dtype=bool)
        second[:, -1] = False
        return np.concatenate([first.ravel(), second.ravel()])


@dataclass(frozen=True)
class _NetworkEvaluation(Factored):
    """Record i has the gradient  inner_i x_i^T  in W1 and  outer_i h_i^T  in W2."""

    records: Records
    losses: np.ndarray
    h: np.ndarray
    inner: np.ndarray
    outer: np.ndarray

    def gradient_norms(self):
        first = self.records.squared_norm * _squared(self.inner)
        return np.sqrt(first + _squared(self.h) * _squared(self.outer))

    def gradient_sum(self, coefficient):
        first = _scaled(coefficient, self.inner).T @ self.records.X
        return np.concatenate([first.ravel(), (_scaled(coefficient, self.outer).T @ self.h).ravel()])

    def difference_norms(self, coefficient, other, its):
        """With c and c' the coefficients: c o h^T - c' o' h'^T = d h^T + c' o' (h - h')^T, d = c o - c' o'."""
        first = _squared(_scaled(coefficient, self.inner) - _scaled(its, other.inner))
        theirs = _scaled(its, other.outer)
        d, dh = _scaled(coefficient, self.outer) - theirs, self.h - other.h
        # expanding ||g||^2 + ||g'||^2 - 2 g.g' instead would cancel, and a small step would escape its clip
        second = (
            _squared(d) * _squared(self.h)
            + _squared(theirs) * _squared(dh)
            + 2.0 * np.einsum("ij,ij->i", d, theirs) * np.einsum("ij,ij->i", self.h, dh)
        )
        return np.sqrt(self.records.squared_norm * first + np.maximum(second, 0.0))

    def difference_sum(self, coefficient, other, its):
        first = (_scaled(coefficient, self.inner) - _scaled(its, other.inner)).T @ self.records.X
        theirs = _scaled(its, other.outer)
        second = (_scaled(coefficient, self.outer) - theirs).T @ self.h + theirs.T @ (self.h - other.h)
        return np.concatenate([first.ravel(), second.ravel()])
