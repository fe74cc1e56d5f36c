"""What a client answers to a broadcast model: the value of its local risk F_i and a gradient in the model.

Two kinds.  `RecordsRisk` is a mean over records, so that a sample of them gives an unbiased answer: plain losses
(agnostic federated learning) or losses at the records that nature moves at a price (BiDRO-FL).  `SquaresRisk` and
`MarginsRisk` are worst cases over a Wasserstein ball, which couples the records of a client: they need all of them.

The mathematics of one record broadcasts over any leading axes, so that a step at one client and a simulation of many
runs of many clients are the same code.  Models have shape (..., n_outputs, n_columns), a regression one output.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Protocol

import numpy as np

from ..ambiguity.penalised import Box, ascend, perturb, worst_in_box
from ..ambiguity.robust_squares import Squares, penalised_risk, radius_risk
from ..ambiguity.transport import TransportNorm
from ..losses import softmax
from .client_data import ClientBlock, client_risk

__all__ = [
    "Ascent",
    "MarginsRisk",
    "MovedClasses",
    "MovedResponses",
    "Records",
    "RecordsRisk",
    "Roots",
    "SquaresRisk",
    "UnmovedRecords",
    "batch_means",
]


def _scores(X, model):
    """X . m_k for all outputs, shape (..., n_outputs)."""
    if model.ndim == 2:  # one model for all rows: a single product
        return X @ model.T
    return np.vecdot(X[..., None, :], model)


class Records(Protocol):
    """The loss of single records, after nature's move.

    Attributes
    ----------
    n_moved : int
        Coordinates of a record that a random perturbation moves; 0 if there is none.
    """

    n_moved: int

    def respond(self, model, X, y, penalty, normals):
        """Value, gradient in the scores (..., n_outputs), and rows (..., n_columns) after nature's move.

        `penalty` (...) is what a unit of squared distance costs, `normals` (..., n_moved) are standard normals.
        """

    def bound(self, model, X, y, penalty):
        """Least upper bound of each record's value that is known, shape (...); exact where a closed form exists."""


@dataclass(frozen=True)
class UnmovedRecords:
    """Records as they are.

    Parameters
    ----------
    loss : module
        Of `skdro.losses`, with `losses` and `score_gradient`.
    """

    loss: ModuleType
    n_moved: int = 0

    def respond(self, model, X, y, penalty, normals):
        """Loss, its gradient in the scores, and the rows themselves."""
        scores = _scores(X, model)
        return self.loss.losses(scores, y), self.loss.score_gradient(scores, y), X

    def bound(self, model, X, y, penalty):
        """The loss."""
        return self.loss.losses(_scores(X, model), y)


@dataclass(frozen=True)
class Ascent:
    """Inner maximisation by projected ascent, then a random perturbation (the published inner solver).

    Parameters
    ----------
    box : Box
    n_steps : int
    step : float or None
        None takes 1 / (2 rho): the steps then converge wherever rho exceeds the curvature of the loss.
    length : float
        Of the perturbation; 0 for none.
    """

    box: Box
    n_steps: int
    step: float | None
    length: float

    def climb(self, gradient, zeta, penalty, normals):
        """Where the ascent on  loss - rho ||. - zeta||^2  ends; `gradient` is the loss's."""
        step = 0.5 / penalty if self.step is None else self.step
        xi = ascend(gradient, zeta, penalty, self.box, self.n_steps, step)
        return perturb(xi, normals, self.length, self.box) if self.length > 0 else xi

    def __call__(self, zeta, v, residual, penalty, normals):
        """The same for a squared residual e + v . (xi - zeta)."""
        at_origin, twice = residual - np.vecdot(zeta, v), 2.0 * v

        def gradient(xi):
            return (at_origin + np.vecdot(xi, v))[..., None] * twice

        return self.climb(gradient, zeta, penalty, normals)


@dataclass(frozen=True)
class Roots:
    """Exact inner maximisation of a squared residual over a bounded box."""

    box: Box
    length: float = 0.0

    def __call__(self, zeta, v, residual, penalty, normals):
        """See `ambiguity.penalised.worst_in_box`."""
        return worst_in_box(zeta, v, residual, penalty, self.box)


@dataclass(frozen=True)
class MovedResponses:
    """Records of a linear regression with squared loss, moved at a price (eq. (27) of Liu et al.).

    A record's coordinates are its features and, if responses may move, y / c.

    Parameters
    ----------
    n_features : int
        Leading columns that nature may move.
    label : float
        c of `ambiguity.robust_squares.Squares`; 0 if responses are trusted.
    move : Ascent or Roots
        Whose box is that of the coordinates.
    """

    n_features: int
    label: float
    move: Ascent | Roots

    @property
    def n_moved(self) -> int:
        """Coordinates of a record if there is a perturbation."""
        return (self.n_features + (self.label > 0)) * (self.move.length > 0)

    def respond(self, model, X, y, penalty, normals):
        """(e^2 - cost), -2 e and the moved rows."""
        zeta, v, residual = self._coordinates(model, X, y)
        xi = self.move(zeta, v, residual, penalty, normals)
        moved = residual + np.vecdot(xi - zeta, v)
        Z = X.copy()
        Z[..., : self.n_features] = xi[..., : self.n_features]
        return moved**2 - penalty * ((xi - zeta) ** 2).sum(axis=-1), -2.0 * moved[..., None], Z

    def bound(self, model, X, y, penalty):
        """The supremum: in closed form without a box, by roots in a bounded one."""
        zeta, v, residual = self._coordinates(model, X, y)
        if not self.move.box.bounded:
            return penalised_risk(residual**2, (v**2).sum(axis=-1), penalty)
        xi = worst_in_box(zeta, v, residual, penalty, self.move.box)
        return (residual + np.vecdot(xi - zeta, v)) ** 2 - penalty * ((xi - zeta) ** 2).sum(axis=-1)

    def _coordinates(self, model, X, y):
        theta = model[..., 0, :]
        residual = y - np.vecdot(X, theta)
        zeta, v = X[..., : self.n_features], -theta[..., : self.n_features]
        if self.label > 0:
            zeta = np.concatenate([zeta, y[..., None] / self.label], axis=-1)
            v = np.concatenate([v, np.full((*v.shape[:-1], 1), self.label)], axis=-1)
        return zeta, v, residual


@dataclass(frozen=True)
class MovedClasses:
    """Records of a softmax classifier, features moved at a price and labels trusted.

    Parameters
    ----------
    n_features : int
        Leading columns that nature may move.
    ascent : Ascent
    """

    n_features: int
    ascent: Ascent

    @property
    def n_moved(self) -> int:
        """Coordinates of a record if there is a perturbation."""
        return self.n_features * (self.ascent.length > 0)

    def respond(self, model, X, y, penalty, normals):
        """(loss - cost), its gradient in the scores, and the moved rows."""
        Z = X.copy()
        zeta = X[..., : self.n_features]
        xi = self.ascent.climb(self._gradient(model, X, y), zeta, penalty, normals)
        Z[..., : self.n_features] = xi
        scores = _scores(Z, model)
        value = softmax.losses(scores, y) - penalty * ((xi - zeta) ** 2).sum(axis=-1)
        return value, softmax.score_gradient(scores, y), Z

    def bound(self, model, X, y, penalty):
        """Value where an unbounded ascent ends plus what strong concavity allows above it.

        With mu = 2 rho - L, L the curvature of the loss in the row, a point of gradient g is within
        ||g||^2 / (2 mu) of the supremum; without mu > 0 nothing is known: infinite.
        """
        W = model[..., : self.n_features]
        mu = 2.0 * penalty - softmax.SMOOTHNESS * np.linalg.norm(W, ord=2, axis=(-2, -1)) ** 2
        gradient, zeta = self._gradient(model, X, y), X[..., : self.n_features]
        everywhere = Box(np.full(self.n_features, -np.inf), np.full(self.n_features, np.inf))
        xi = ascend(gradient, zeta, penalty, everywhere, BOUND_STEPS, 0.5 / penalty)
        offset = xi - zeta
        slope = gradient(xi) - 2.0 * np.asarray(penalty)[..., None] * offset
        value = softmax.losses(_scores(np.concatenate([xi, X[..., self.n_features :]], axis=-1), model), y)
        slack = np.divide((slope**2).sum(axis=-1), 2.0 * mu, out=np.full(value.shape, np.inf), where=mu > 0)
        return value - penalty * (offset**2).sum(axis=-1) + slack

    def _gradient(self, model, X, y):
        W, rest = model[..., : self.n_features], X[..., self.n_features :]

        def gradient(xi):
            slope = softmax.score_gradient(_scores(np.concatenate([xi, rest], axis=-1), model), y)
            return _scores(slope, W.swapaxes(-1, -2))

        return gradient


BOUND_STEPS = 100
"""Ascent steps behind a softmax bound; each one at least halves what is left where rho is twice the curvature."""


def batch_means(value, slope, Z, weight):
    """Means over the last record axis: values (...) and gradients (..., n_outputs, n_columns).

    Parameters
    ----------
    value, weight : ndarrays of shape (..., n_records)
    slope : ndarray of shape (..., n_records, n_outputs)
    Z : ndarray of shape (..., n_records, n_columns)
    """
    return np.vecdot(value, weight), (slope * weight[..., None]).swapaxes(-1, -2) @ Z


class LocalRisk(Protocol):
    """The local risks of a block's clients."""

    def prepare(self, block: ClientBlock) -> np.ndarray | None:
        """Arrays computed once from a block's rows."""

    def answer(self, kept, block, model, streams: Callable[[int], np.random.Generator]):
        """Values (n_clients,) and gradients (n_clients, n_outputs, n_columns); `streams` by position in the block."""

    def bound(self, kept, block, model) -> np.ndarray:
        """F_i on all rows, or the least upper bound known, shape (n_clients,)."""


@dataclass(frozen=True)
class RecordsRisk:
    """Mean over the records of a client, or over a fresh sample of them.

    Parameters
    ----------
    records : Records
    batch_size : int or None
        Records that a client draws in each round, with replacement; None takes all.
    """

    records: Records
    batch_size: int | None

    def prepare(self, block):
        """Nothing."""
        return None

    def answer(self, kept, block, model, streams):
        """Mean of what the records answer."""
        penalty = block.settings["penalty"]
        if self.batch_size is None:
            normals = self._normals(block.sizes, streams)
            flat = None if normals is None else np.vstack(normals)
            value, slope, Z = self.records.respond(model, block.X, block.y, np.repeat(penalty, block.sizes), flat)
            sums = replace(block, X=Z).sums(block.weight[:, None] * slope)
            return np.add.reduceat(block.weight * value, block.offsets[:-1]), sums
        rngs = [streams(g) for g in range(block.n_clients)]
        rows = np.array([rng.integers(n, size=self.batch_size) for rng, n in zip(rngs, block.sizes, strict=True)])
        rows += block.offsets[:-1, None]
        normals = self._normals([self.batch_size] * block.n_clients, rngs.__getitem__)
        answers = self.records.respond(
            model, block.X[rows], block.y[rows], penalty[:, None], None if normals is None else np.array(normals)
        )
        return batch_means(*answers, np.full(rows.shape, 1.0 / self.batch_size))

    def bound(self, kept, block, model):
        """Mean of the records' bounds."""
        penalty = np.repeat(block.settings["penalty"], block.sizes)
        return np.add.reduceat(
            block.weight * self.records.bound(model, block.X, block.y, penalty), block.offsets[:-1]
        )

    def _normals(self, sizes, streams):
        if self.records.n_moved == 0:
            return None
        return [streams(g).standard_normal((n, self.records.n_moved)) for g, n in enumerate(sizes)]


@dataclass(frozen=True)
class SquaresRisk:
    """( RMSE_i + eps_i ||v|| )^2 of a linear regression; see `ambiguity.robust_squares`."""

    n_features: int
    label: float

    def prepare(self, block):
        """Triangular factors of the clients' rows."""
        rows = [(block.X[block.rows(g)], block.y[block.rows(g)]) for g in range(block.n_clients)]
        return Squares.of(rows, self.n_features, self.label).factors

    def answer(self, kept, block, model, streams):
        """Exact values and gradients."""
        gradients = self._squares(kept).radius_risk_gradient(model[0], block.settings["radius"])
        return self.bound(kept, block, model), gradients[:, None, :]

    def bound(self, kept, block, model):
        """Exact values."""
        squares = self._squares(kept)
        return radius_risk(squares.mean_squares(model[0]), squares.stretch(model[0]), block.settings["radius"])

    def _squares(self, factors):
        return Squares(factors, self.n_features, self.label)


@dataclass(frozen=True)
class MarginsRisk:
    """Worst expected Crammer-Singer losses; see `ambiguity.wasserstein`."""

    norm: TransportNorm
    n_classes: int
    n_features: int

    def prepare(self, block):
        """Nothing."""
        return None

    def answer(self, kept, block, model, streams):
        """Exact values and subgradients."""
        pairs = [self._risk(block, g).value_and_subgradient(model) for g in range(block.n_clients)]
        return np.array([value for value, _ in pairs]), np.array([slope for _, slope in pairs])

    def bound(self, kept, block, model):
        """Exact values."""
        return np.array([self._risk(block, g).value(model)[0] for g in range(block.n_clients)])

    def _risk(self, block, g):
        return client_risk(block, g, self.norm, self.n_classes, self.n_features)
