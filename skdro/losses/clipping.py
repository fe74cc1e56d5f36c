"""Clipped gradients of single records as terms of a sum: what a private descent adds up, afresh or by changes.

With the weight w_i and the gradient g_i of record i at one pass, and w'_i, g'_i at another,

    term    c_i = clip(w_i g_i, C)            change    clip(c_i - c'_i, D)

where clip(v, C) = v min(1, C / ||v||).  Models that know the norms of gradients and of their differences, without
forming them, share `ClippedGradients`; others bring `Terms` of their own.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

__all__ = ["ClippedGradients", "Factored", "Terms", "clip_coefficients"]

NEGLIGIBLE = 1e-150
"""Norms below this need no clip, and dividing by less might overflow."""


class Terms(Protocol):
    """Bounded terms c_i, one for each record of a pass."""

    def total(self, rows: np.ndarray) -> float | np.ndarray:
        """Sum of  rows_i c_i."""

    def change(self, old: "Terms", rows: np.ndarray, clip: float) -> float | np.ndarray:
        """Sum of  rows_i clip(c_i - c'_i)  with the terms c' of another pass over the same records."""


def clip_coefficients(weight: np.ndarray, norms: np.ndarray, clip_norm: float) -> np.ndarray:
    """Coefficients a_i with  a_i g_i = clip(w_i g_i, C),  that is  w_i min(1, C / (w_i ||g_i||)).

    Parameters
    ----------
    weight : ndarray of shape (n_records,)
        w_i >= 0.
    norms : ndarray of shape (n_records,)
        ||g_i||.
    clip_norm : float

    Examples
    --------
    >>> clip_coefficients(np.array([0.5, 2.0, 3.0]), np.array([1.0, 4.0, 0.0]), 1.0)
    array([0.5 , 0.25, 3.  ])
    """
    return np.minimum(weight, clip_norm / np.maximum(norms, NEGLIGIBLE))


@dataclass(frozen=True)
class ClippedGradients:
    """Gradients scaled by coefficients, which hold weight and clip; never formed one by one."""

    evaluation: "Factored"
    coefficient: np.ndarray

    @classmethod
    def of(cls, evaluation: "Factored", weight: np.ndarray, clip_norm: float) -> "ClippedGradients":
        """Terms  clip(w_i g_i, C)."""
        return cls(evaluation, clip_coefficients(weight, evaluation.gradient_norms(), clip_norm))

    def total(self, rows: np.ndarray) -> np.ndarray:
        """Sum of  rows_i c_i,  shape (n_parameters,)."""
        return self.evaluation.gradient_sum(rows * self.coefficient)

    def change(self, old: "ClippedGradients", rows: np.ndarray, clip: float) -> np.ndarray:
        """Sum of  rows_i clip(c_i - c'_i),  shape (n_parameters,)."""
        norms = self.evaluation.difference_norms(self.coefficient, old.evaluation, old.coefficient)
        share = rows * clip_coefficients(np.ones(len(rows)), norms, clip)
        return self.evaluation.difference_sum(share * self.coefficient, old.evaluation, share * old.coefficient)


class Factored:
    """Base of evaluations that know the norms of gradients and of their differences without forming them."""

    def gradient_norms(self) -> np.ndarray:
        """l2 norm of each record's gradient, shape (n_records,)."""
        raise NotImplementedError

    def gradient_sum(self, coefficient: np.ndarray) -> np.ndarray:
        """Sum over records of ``coefficient[i]`` times the gradient of record i, shape (n_parameters,)."""
        raise NotImplementedError

    def difference_norms(self, coefficient: np.ndarray, other: "Factored", its: np.ndarray) -> np.ndarray:
        """l2 norm of ``coefficient[i] g_i - its[i] other.g_i`` for each record: accurate for tiny differences."""
        raise NotImplementedError

    def difference_sum(self, coefficient: np.ndarray, other: "Factored", its: np.ndarray) -> np.ndarray:
        """Sum over records of ``coefficient[i] g_i - its[i] other.g_i``, shape (n_parameters,)."""
        raise NotImplementedError

    def clipped(self, weight: np.ndarray, clip_norm: float) -> ClippedGradients:
        """Terms  clip(w_i g_i, C)."""
        return ClippedGradients.of(self, weight, clip_norm)
