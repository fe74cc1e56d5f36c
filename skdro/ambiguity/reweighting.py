"""Nature's answer to given losses under a divergence: weights, and what they cost.

Both forms of the problem are solved to rounding by a one-dimensional root in the shift eta, and the constrained
form by a second one in the temperature lam around it.  The weights average exactly one, so that the value is
attained by a distribution: it never exceeds the true supremum by more than rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from .divergence import KL, Capped

__all__ = ["KLBall", "Penalised", "Reweighted"]

SMALLEST_TEMPERATURE = 1e-12
"""Temperatures are not taken below this share of the range of the losses; the value moves by as little."""

LARGEST_TEMPERATURE = 1e6
"""Above this multiple of the range of the losses the value is that of its expansion around equal weights."""


@dataclass(frozen=True)
class Reweighted:
    """The worst case of some losses.

    Parameters
    ----------
    value : float
        Worst-case mean of the losses, with what nature pays subtracted.
    weight : ndarray of shape (n_records,)
        n p_i, of mean one; the value's gradient in the losses is ``weight / n_records``.
    shift : float
        eta.
    temperature : float
        lam.
    """

    value: float
    weight: np.ndarray
    shift: float
    temperature: float


@dataclass(frozen=True)
class Penalised:
    """max_p  sum p_i l_i - lam / n sum psi(n p_i)   over  n p_i <= max_weight.

    Parameters
    ----------
    divergence : Capped
    penalty : float
        lam > 0.  Towards 0 nature puts `max_weight` on the largest losses; towards infinity all weights are one.

    Examples
    --------
    >>> worst = Penalised(Capped(KL(), 10.0), penalty=1.0).worst_case(np.array([0.0, 1.0]))
    >>> round(worst.value, 4), worst.weight.round(3)   # log of the mean of exp(l)
    (0.6201, array([0.538, 1.462]))
    """

    divergence: Capped
    penalty: float

    @property
    def smooth(self) -> bool:
        """Whether the value is a differentiable function of the losses."""
        return self.divergence.smooth

    def worst_case(self, losses: np.ndarray) -> Reweighted:
        """Nature's answer to `losses`, shape (n_records,)."""
        return _at_temperature(self.divergence, losses, self.penalty)


@dataclass(frozen=True)
class KLBall:
    """max { p.l + lam0 (rho - KL(p)) : KL(p) <= rho, n p_i <= max_weight },  KL(p) = mean psi(n p_i).

    Equal to  min over lam >= lam0 and eta of  lam rho + eta + lam / n sum psi*_cap((l_i - eta) / lam).

    Parameters
    ----------
    radius : float
        rho > 0.
    min_temperature : float
        lam0 > 0.
    max_weight : float

    Examples
    --------
    >>> worst = KLBall(radius=0.1, min_temperature=1e-3, max_weight=10.0).worst_case(np.array([0.0, 1.0]))
    >>> round(worst.value, 4), round(float(KL().psi(worst.weight).mean()), 4)
    (0.7198, 0.1)
    """

    radius: float
    min_temperature: float
    max_weight: float
    smooth = True

    def worst_case(self, losses: np.ndarray) -> Reweighted:
        """Nature's answer to `losses`, shape (n_records,)."""
        capped = Capped(KL(), self.max_weight)

        def at(temperature):
            return _at_temperature(capped, losses, temperature)

        def excess(log_temperature):
            return float(KL().psi(at(np.exp(log_temperature)).weight).mean()) - self.radius

        low = np.log(self.min_temperature)
        if excess(low) <= 0:
            temperature = self.min_temperature
        else:
            high = max(low, np.log(np.ptp(losses))) + 1.0
            while excess(high) > 0:
                high += 2.0
            temperature = float(np.exp(brentq(excess, low, high, xtol=1e-13)))
        worst = at(temperature)
        return Reweighted(worst.value + temperature * self.radius, worst.weight, worst.shift, temperature)


def _at_temperature(divergence, losses, temperature):
    """Worst case at a fixed lam; the value by its primal form."""
    top = float(losses.max())
    lam = max(temperature, SMALLEST_TEMPERATURE * (top - float(losses.min())))
    s = (losses - top) / lam

    def average(shift):
        return float(divergence.weight(s - shift).mean())

    # at the largest loss no weight exceeds one, at the smallest none is below it
    below, above = _bracket(average, float(s.min()), 0.0)
    weight = _averaging_one(divergence.weight(s - below), divergence.weight(s - above))
    if lam > LARGEST_TEMPERATURE * (top - float(losses.min())):
        # psi is lost in rounding; to second order nature pays half of what its weights gain
        centred = losses - losses.mean()
        value = float(losses.mean() + (centred * (weight - 1.0)).mean() / 2)
    else:
        paid = float(divergence.psi(np.minimum(weight, divergence.max_weight)).mean())
        value = float((weight * losses).mean()) - temperature * paid
    return Reweighted(value, weight, top + lam * (below + above) / 2, temperature)


def _bracket(decreasing: Callable[[float], float], below: float, above: float) -> tuple[float, float]:
    """Two neighbouring shifts with  decreasing(below) >= 1 >= decreasing(above)."""
    if below == above:
        return below, above
    # the logarithm of the average is nearly linear in the shift
    root = brentq(
        lambda shift: np.log(max(decreasing(shift), 1e-300)),
        below - 1e-9,
        above + 1e-9,
        xtol=1e-15,
        rtol=8.9e-16,
        maxiter=1000,  # where the average jumps, far fewer do not always suffice
    )
    step = 4 * np.spacing(max(abs(root), 1.0))
    while decreasing(root - step) < 1.0 or decreasing(root + step) > 1.0:
        step *= 2.0
    return root - step, root + step


def _averaging_one(heavy, light):
    """Mixture of two weight vectors around mean one that has mean one."""
    over, under = float(heavy.mean()) - 1.0, 1.0 - float(light.mean())
    share = under / (over + under) if over + under > 0 else 0.5
    return share * heavy + (1.0 - share) * light
