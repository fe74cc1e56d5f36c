"""Divergence ambiguity: nature reweights the records, and pays for weights that are far from one.

A divergence is a convex psi(t) >= 0 on t >= 0 with psi(1) = 0.  With weights w_i = n p_i on n records the
worst case of losses l is

    max_p  sum_i p_i l_i - lam / n sum_i psi(w_i)  =  min_eta  eta + lam / n sum_i psi*((l_i - eta) / lam),

and the maximiser is w_i = psi*'((l_i - eta) / lam)  (third paper, equation (2); its Table 1 of conjugates is
replaced by those derived here and tested against brute force).

`Capped` adds the constraint w_i <= S0.  Weights are then bounded whatever the losses are, the exponent of every
weight is bounded too, so nothing overflows, and the problem is still an exact divergence DRO.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import xlogy

__all__ = ["KL", "Capped", "CressieRead", "Divergence", "TotalVariation"]


class Divergence(Protocol):
    """What a divergence knows about itself; all functions are elementwise.

    Attributes
    ----------
    smooth : bool
        Whether the conjugate is differentiable, so that the worst case is a smooth function of the losses.
    """

    @property
    def smooth(self) -> bool:
        """Whether the conjugate is differentiable."""

    def psi(self, t: np.ndarray) -> np.ndarray:
        """Price of the weight t >= 0."""

    def slope(self, t: float) -> float:
        """(Left) derivative of psi at t > 1: the largest s whose weight is at most t."""

    def conjugate(self, s: np.ndarray) -> np.ndarray:
        """Sup over t >= 0 of  s t - psi(t)."""

    def weight(self, s: np.ndarray) -> np.ndarray:
        """The t that attains it."""


@dataclass(frozen=True)
class KL:
    """Kullback-Leibler:  psi(t) = t log t - t + 1,  weights e^s.

    Examples
    --------
    >>> float(KL().conjugate(0.0)), float(KL().weight(0.0))
    (0.0, 1.0)
    """

    smooth: ClassVar[bool] = True

    def psi(self, t):
        """Value t log t - t + 1."""
        return xlogy(t, t) - t + 1.0

    def slope(self, t):
        """Slope log t."""
        return float(np.log(t))

    def conjugate(self, s):
        """e^s - 1."""
        return np.expm1(s)

    def weight(self, s):
        """e^s."""
        return np.exp(s)


@dataclass(frozen=True)
class CressieRead:
    """Power divergence of order k > 1:  psi(t) = (t^k - k t + k - 1) / (k (k - 1)).

    Order 2 is chi-square, (t - 1)^2 / 2; the limit k -> 1 is Kullback-Leibler.

    Parameters
    ----------
    order : float
        k > 1.  The weights change at a bounded rate with the losses if k <= 2.

    Examples
    --------
    >>> CressieRead(2.0).weight(np.array([-2.0, 0.0, 0.5]))
    array([0. , 1. , 1.5])
    """

    order: float
    smooth: ClassVar[bool] = True

    def psi(self, t):
        """(t^k - k t + k - 1) / (k (k - 1))."""
        k = self.order
        return (t**k - k * t + k - 1.0) / (k * (k - 1.0))

    def slope(self, t):
        """(t^(k-1) - 1) / (k - 1)."""
        return (t ** (self.order - 1.0) - 1.0) / (self.order - 1.0)

    def _base(self, s):
        return np.maximum((self.order - 1.0) * np.asarray(s, dtype=float) + 1.0, 0.0)

    def conjugate(self, s):
        """(((k-1) s + 1)_+^(k / (k-1)) - 1) / k."""
        k = self.order
        return (self._base(s) ** (k / (k - 1.0)) - 1.0) / k

    def weight(self, s):
        """((k-1) s + 1)_+^(1 / (k-1))."""
        base = self._base(s)
        return base if self.order == 2.0 else base ** (1.0 / (self.order - 1.0))


@dataclass(frozen=True)
class TotalVariation:
    """Total variation:  psi(t) = |t - 1| / 2;  weights 0 or 1, and the cap beyond: they jump.

    Only together with `Capped`: without a cap its conjugate is infinite for s > 1/2.

    Examples
    --------
    >>> Capped(TotalVariation(), 4.0).weight(np.array([-1.0, 0.0, 1.0]))
    array([0., 1., 4.])
    """

    smooth: ClassVar[bool] = False

    def psi(self, t):
        """|t - 1| / 2."""
        return np.abs(np.asarray(t) - 1.0) / 2.0

    def slope(self, t):
        """1/2."""
        return 0.5

    def conjugate(self, s):
        """max(s, -1/2), for s <= 1/2."""
        return np.maximum(s, -0.5)

    def weight(self, s):
        """0 below -1/2, then 1."""
        return np.where(np.asarray(s) < -0.5, 0.0, 1.0)


@dataclass(frozen=True)
class Capped:
    """A divergence with the constraint  w <= max_weight.

    psi*_cap(s) = psi*(s) for s <= psi'(S0), and S0 s - psi(S0) beyond.  `Capped(KL(), 1 / a)` is the
    KL-regularised conditional value at risk at level a.

    Parameters
    ----------
    divergence : Divergence
    max_weight : float
        S0 > 1, so that the average weight can be one.

    Examples
    --------
    >>> capped = Capped(KL(), 10.0)
    >>> capped.weight(np.array([-np.inf, 0.0, 800.0]))
    array([ 0.,  1., 10.])
    """

    divergence: Divergence
    max_weight: float

    @property
    def smooth(self) -> bool:
        """As the divergence's own: a cap leaves a smooth conjugate smooth."""
        return self.divergence.smooth

    def psi(self, t):
        """Price of the weight t <= max_weight."""
        return np.where(np.asarray(t) <= self.max_weight, self.divergence.psi(t), np.inf)

    @property
    def edge(self) -> float:
        """The s from which on the weight is `max_weight`."""
        return self.divergence.slope(self.max_weight)

    def conjugate(self, s):
        """Sup over 0 <= t <= max_weight of  s t - psi(t)."""
        s = np.asarray(s, dtype=float)
        beyond = self.max_weight * s - self.divergence.psi(self.max_weight)
        return np.where(s <= self.edge, self.divergence.conjugate(np.minimum(s, self.edge)), beyond)

    def weight(self, s):
        """The t that attains it, in [0, max_weight]."""
        inside = self.divergence.weight(np.minimum(s, self.edge))
        return np.where(np.asarray(s) > self.edge, self.max_weight, np.minimum(inside, self.max_weight))
