"""A robust risk in coordinates that suit the proximal term, and bounds on its least value there.

With an intercept, moving the features by their mean and scaling the constant column change a problem in its
proximal term only.  That is done on models and cuts: the data are neither copied nor made dense.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..ambiguity.wasserstein import RobustRisk, WassersteinBall
from ._cuts import ModelMinimum

__all__ = ["CentredRisk"]

_REACH = 100.0
"""Largest score, in margins, that a typical record gets from the models compared where the radius is zero."""


@dataclass(frozen=True)
class CentredRisk:
    """A robust risk in coordinates where the features have mean zero and the constant column their size.

    Parameters
    ----------
    risk : RobustRisk
    mean : ndarray of shape (n_features,)
        Zero without an intercept, where the risk would change.
    size : float
        Root mean square l_2 length of the centred rows.
    """

    risk: RobustRisk
    mean: np.ndarray
    size: float

    @classmethod
    def of(cls, risk: RobustRisk) -> "CentredRisk":
        """Coordinates from the weighted mean and size of the rows."""
        features: Any = risk.X[:, : risk.n_features]  # an array, or a sparse matrix
        weight = risk.weight
        if issparse(features):
            square = float(weight @ features.power(2).sum(axis=1))
        else:
            square = float(np.einsum("n,np,np->", weight, features, features))
        mean = np.zeros(risk.n_features)
        if risk.X.shape[1] > risk.n_features:
            mean = np.asarray(weight @ features)
            square -= float(mean @ mean)
        # features that do not vary beyond rounding leave no length to go by
        tiny = np.finfo(float).eps * float(mean @ mean)
        return cls(risk, mean, np.sqrt(square) if square > tiny else 1.0)

    @property
    def ball(self) -> WassersteinBall:
        """Of the risk."""
        return self.risk.ball

    @property
    def n_classes(self) -> int:
        """Of the risk."""
        return self.risk.n_classes

    @property
    def n_features(self) -> int:
        """Of the risk."""
        return self.risk.n_features

    @property
    def labels_in_phi(self) -> np.ndarray | None:
        """Of the risk."""
        return self.risk.labels_in_phi

    def to_user(self, M: np.ndarray) -> np.ndarray:
        """The model of the original columns with the same scores."""
        user, P = M.copy(), self.n_features
        user[:, P:] = self.size * M[:, P:] - (M[:, :P] @ self.mean)[:, None]
        return user

    def by_class(self) -> list["CentredRisk"]:
        """As `RobustRisk.by_class`, in these coordinates."""
        return [replace(self, risk=part) for part in self.risk.by_class()]

    def data_cut(self, M: np.ndarray, lam: float) -> tuple[np.ndarray, float, float]:
        """As `RobustRisk.data_cut`, for models in these coordinates."""
        G, h, c = self.risk.data_cut(self.to_user(M), lam)
        P = self.n_features
        G[:, :P] -= G[:, P:].sum(axis=1, keepdims=True) * self.mean
        G[:, P:] *= self.size
        return G, h, c

    @cached_property
    def _classes(self):
        """Share of each class and transport norm of its mean row."""
        one_hot = np.zeros((len(self.risk.y), self.risk.n_classes))
        one_hot[np.arange(len(self.risk.y)), self.risk.y] = self.risk.weight
        share = one_hot.sum(axis=0)
        sums = np.asarray((one_hot.T @ self.risk.X)[:, : self.n_features])
        rows = sums / np.maximum(share, np.finfo(float).tiny)[:, None] - self.mean
        return share, self.ball.norm.length(rows)

    def _intercept_spread(self, upper):
        """Largest difference between two intercepts of some minimiser, given J* <= upper.

        Three reasons: records of a class with intercept far below the others have a large loss; so have
        records flipped to it; and a class out of reach may take another one's row, with an intercept lower by
        one.
        """
        share, length = self._classes
        radius, kappa = self.ball.radius, self.ball.kappa
        present = share > 0
        own = upper * np.maximum(1.0 / share[present], length[present] / radius) - 1.0
        if not np.isfinite(kappa):
            # a single class that occurs has no spread, whatever its bound says of the others
            return max(own.max(), 0.0) + (not present.all())
        flipped = upper * max(1.0, kappa / radius) - 1.0
        return flipped if not present.all() else min(own.max(), flipped)

    def lower_bound(self, least: ModelMinimum, upper: float, widest: float | None = None) -> float:
        """Certified bound on the least risk from the multipliers of a model, given J* <= upper.

        For radius 0 it holds among models of Frobenius norm up to `_REACH` / size only.

        Parameters
        ----------
        least : ModelMinimum
        upper : float
        widest : float, optional
            Bound on phi(M*); upper / radius if not given.
        """
        W = least.slope
        if self.ball.radius == 0:
            return max(least.offset - _REACH / self.size * float(np.sqrt((W * W).sum())), 0.0)
        length = self.ball.norm.length(W[:, : self.n_features])
        widest = upper / self.ball.radius if widest is None else widest
        bound = least.offset - widest * float(length.sum() - length.max())
        if W.shape[1] > self.n_features:
            spread = self._intercept_spread(upper)
            bound -= 0.5 * float(np.abs(W[:, self.n_features :]).sum()) / self.size * spread
        return max(bound, 0.0)
