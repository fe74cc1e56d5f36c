"""Bounded target vectors for the squared loss: what a label or a number is turned into before it is summed."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..ambiguity.moment import MomentLayout

__all__ = ["BoundedNumber", "CentredClass"]


@dataclass(frozen=True)
class CentredClass:
    """One-hot vector of the class minus 1/K: every target has the public squared norm 1 - 1/K."""

    n_classes: int
    unit: ClassVar[float] = 1.0

    @property
    def n_outputs(self) -> int:
        """Length of a target vector."""
        return self.n_classes

    def enter(self, y: np.ndarray) -> np.ndarray:
        """Target vectors of class indices, shape (n_rows, n_classes)."""
        T = np.full((len(y), self.n_classes), -1.0 / self.n_classes)
        T[np.arange(len(y)), y] += 1.0
        return T

    def layout(self, n_columns: int, statistics_weight: float) -> MomentLayout:
        """Layout of the moments; the squares are public and need no release."""
        return MomentLayout(n_columns, self.n_classes, statistics_weight, 0.0, 1 - 1 / self.n_classes)


@dataclass(frozen=True)
class BoundedNumber:
    """Number clipped to public bounds and mapped to [-1, 1].

    Parameters
    ----------
    lo, hi : float
        In the units of the target.
    """

    lo: float
    hi: float
    n_outputs: ClassVar[int] = 1

    @property
    def centre(self) -> float:
        """Middle of the bounds."""
        return self.lo / 2 + self.hi / 2

    @property
    def unit(self) -> float:
        """Half the distance of the bounds: what a target of one stands for."""
        return self.hi / 2 - self.lo / 2

    def enter(self, y: np.ndarray) -> np.ndarray:
        """Targets in [-1, 1], shape (n_rows, 1)."""
        return np.clip((np.clip(y, self.lo, self.hi) - self.centre) / self.unit, -1.0, 1.0)[:, None]

    def layout(self, n_columns: int, statistics_weight: float) -> MomentLayout:
        """Layout of the moments, squares included with weight min(1, omega)."""
        return MomentLayout(n_columns, 1, statistics_weight, min(1.0, statistics_weight))
