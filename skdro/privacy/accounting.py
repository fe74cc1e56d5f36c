"""The one place that turns noise into (epsilon, delta), and a budget into noise.

Gaussian releases with sensitivity Delta_k and noise sigma_k compose exactly to Gaussian differential privacy
with mu^2 = sum_k (Delta_k / sigma_k)^2  (Dong, Roth & Su 2022), and mu-GDP is (epsilon, delta)-DP exactly for

    delta(epsilon) = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2).

The papers' moments bound  A + 2 sqrt(A ln(1/delta)), A = mu^2/2,  is kept to reproduce their numbers; it
costs 18 to 40 % more epsilon.  Each accountant rounds epsilon up and mu down by `SLACK`, so that root finding
never flatters.  Poisson-sampled rounds have their half of the adapter in `subsampling`, beside the sampler.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, expm1, inf, log, pi, sqrt
from numbers import Real

from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "calibrate_multiplier",
    "check_budget",
    "classical_multiplier",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "moments_epsilon",
    "moments_mu",
]

SLACK = 1e-11
"""Relative distance by which a root is moved to its safe side; well above the error of the root finder."""

MIN_EPSILON = 1e-9
"""Smallest epsilon whose noise is computed to full accuracy."""


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse a budget that means nothing.

    Parameters
    ----------
    epsilon : float
        Finite and >= `MIN_EPSILON`.
    delta : float
        In (0, 1).

    Raises
    ------
    ValueError
        Naming the parameter.

    Examples
    --------
    >>> check_budget(1.0, 1e-5)
    >>> check_budget(1.0, 1.0)
    Traceback (most recent call last):
    ...
    ValueError: delta must be a number in (0, 1); got 1.0.
    """
    if not (_is_number(epsilon) and MIN_EPSILON <= epsilon < inf):
        raise ValueError(f"epsilon must be a finite number > 0, at least {MIN_EPSILON:g}; got {epsilon!r}.")
    if not (_is_number(delta) and 0 < delta < 1):
        raise ValueError(f"delta must be a number in (0, 1); got {delta!r}.")


def _is_number(value):
    return isinstance(value, Real) and not isinstance(value, bool)


def _log_mills(x):
    """Logarithm of (1 - Phi(x)) / phi(x), for x >= 0."""
    return log(sqrt(pi / 2) * erfcx(x / sqrt(2)))


def _log_delta(epsilon, mu):
    """Logarithm of delta(epsilon), for mu > 0.

    exp(epsilon) phi(below) = phi(above), so that the gap between the logs of the two terms needs Mills ratios
    only, however small both terms are.
    """
    above, below = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    log_density = -above * above / 2 - log(2 * pi) / 2
    if above <= 0:
        log_first = log_density + _log_mills(-above)
        gap = _log_mills(-above) - _log_mills(below)
    else:
        log_first = float(log_ndtr(above))
        gap = log_first - log_density - _log_mills(below)
    # the exact gap is positive and below mu; where rounding swallows it, take that bound
    return log_first + log(-expm1(-gap if gap > 0 else -mu))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Smallest delta for which mu-GDP is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, mu : float
        >= 0.

    Examples
    --------
    >>> round(gaussian_delta(1.0, 0.5), 5)
    0.00683
    """
    return exp(_log_delta(epsilon, mu)) if mu > 0 else 0.0


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon for which mu-GDP is (epsilon, delta)-DP, rounded up.

    Parameters
    ----------
    mu : float
        >= 0.
    delta : float
        In (0, 1).

    Examples
    --------
    >>> round(gaussian_epsilon(1.0, 1e-5), 4)
    4.3772
    """
    if mu == 0 or _log_delta(0.0, mu) <= log(delta):
        return 0.0
    root = brentq(lambda epsilon: _log_delta(epsilon, mu) - log(delta), 0.0, moments_epsilon(mu, delta), xtol=1e-15)
    return root * (1 + SLACK) + 1e-15


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu for which mu-GDP is (epsilon, delta)-DP, rounded down.

    `gaussian_epsilon` of it never exceeds `epsilon`.

    Parameters
    ----------
    epsilon, delta : float

    Raises
    ------
    ValueError
        If `epsilon` or `delta` is out of range.

    Examples
    --------
    >>> round(gaussian_mu(1.0, 1e-5), 4)
    0.2681
    """
    check_budget(epsilon, delta)
    low = moments_mu(epsilon, delta)
    high = 2 * low
    while _log_delta(epsilon, high) < log(delta):
        high *= 2
    root = brentq(lambda mu: _log_delta(epsilon, mu) - log(delta), low, high, xtol=1e-300)
    slack, mu = SLACK, root * (1 - SLACK)
    while gaussian_epsilon(mu, delta) > epsilon:
        slack = min(2 * slack, 0.5)
        mu *= 1 - slack
    return mu


def moments_epsilon(mu: float, delta: float) -> float:
    """Moments bound  A + 2 sqrt(A ln(1/delta)),  A = mu^2/2,  on epsilon (Theorem 1 of the first paper).

    Parameters
    ----------
    mu, delta : float

    Examples
    --------
    >>> round(moments_epsilon(1.0, 1e-5), 4)
    5.2985
    """
    A = mu**2 / 2
    return A + 2 * sqrt(-A * log(delta))


def moments_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose moments bound is `epsilon`, rounded down.

    Parameters
    ----------
    epsilon, delta : float

    Raises
    ------
    ValueError
        If `epsilon` or `delta` is out of range.

    Examples
    --------
    >>> round(moments_mu(1.0, 1e-5), 4)
    0.2041
    """
    check_budget(epsilon, delta)
    c = -log(delta)
    return sqrt(2) * epsilon / (sqrt(c + epsilon) + sqrt(c)) * (1 - SLACK)


@dataclass(frozen=True)
class Accountant:
    """A way to turn the mu of Gaussian releases into epsilon and back.

    Parameters
    ----------
    name, words : str
    version : str
        Raised when a number that it returns changes.
    epsilon : callable
        ``epsilon(mu, delta)``.
    mu : callable
        ``mu(epsilon, delta)``, the largest mu with ``epsilon(mu, delta) <= epsilon``.
    """

    name: str
    words: str
    version: str
    epsilon: Callable[[float, float], float]
    mu: Callable[[float, float], float]

    def largest_epsilon(self, clients: Iterable[Sequence], delta: float, adjacency: str) -> float:
        """Epsilon of the client whose events cost the most; `adjacency` is in their sensitivities already.

        Parameters
        ----------
        clients : iterable of sequences of Event
        delta : float
        adjacency : str
        """
        mu_squared = [sum(e.count * (e.sensitivity / e.sigma) ** 2 for e in events) for events in clients]
        return self.epsilon(sqrt(max(mu_squared)), delta)


ACCOUNTANTS = {
    "gdp": Accountant("gdp", "exact Gaussian-DP composition", "1", gaussian_epsilon, gaussian_mu),
    "moments": Accountant("moments", "moments bound of the papers", "1", moments_epsilon, moments_mu),
}


def calibrate_multiplier(
    epsilon: float,
    delta: float,
    counts: Sequence[int],
    shares: Sequence[float],
    accountant: Accountant,
) -> float:
    """Base noise multiplier s of a fit whose releases together cost at most (`epsilon`, `delta`).

    Release k gets the multiplier  sigma_k / Delta_k = s / sqrt(share_k),  so that
    mu^2 = sum_k count_k share_k / s^2.

    Parameters
    ----------
    epsilon, delta : float
        Total budget.
    counts : sequence of int
        How often each kind of release happens.
    shares : sequence of float
        Share of each kind in the budget of a round, > 0.
    accountant : Accountant

    Returns
    -------
    multiplier : float
        Rounded up far enough for an epsilon recomputed from the events never to exceed the request.

    Raises
    ------
    ValueError
        If `epsilon` or `delta` is out of range.

    Examples
    --------
    >>> round(calibrate_multiplier(1.0, 1e-5, [50], [1.0], ACCOUNTANTS["gdp"]), 3)
    26.38
    """
    mu = accountant.mu(epsilon, delta)
    total = sum(count * share for count, share in zip(counts, shares, strict=True))
    # recomputing mu from the events rounds differently; 100 SLACK is orders of magnitude more than that moves
    return sqrt(total) / mu * (1 + 100 * SLACK)


def classical_multiplier(epsilon: float, delta: float) -> float:
    """The papers' noise multiplier of one round,  sqrt(2 ln(1.25/delta)) / epsilon  (Theorem 1).

    As a statement about one round it is proved for epsilon <= 1 only; what a fit may claim is the total that
    an accountant computes from it.

    Parameters
    ----------
    epsilon, delta : float
        The pair of one round.

    Raises
    ------
    ValueError
        If `epsilon` or `delta` is out of range.

    Examples
    --------
    >>> round(classical_multiplier(0.5, 1e-6), 3)
    10.598
    """
    check_budget(epsilon, delta)
    return sqrt(2 * log(1.25 / delta)) / epsilon
