"""What right guesses in one run say about epsilon: the bound of Steinke, Nasr & Jagielski (2023).

m canaries take part in one run, each by a coin of its own.  An auditor who sees the outcome makes r guesses and
abstains otherwise; v guesses are right.  For an (epsilon, delta)-DP mechanism, with q = 1 / (1 + e^-epsilon) and
B ~ Bin(r, q), the probability of that many right guesses is at most

    beta + 2 m delta max_{1 <= i <= m} (P[B >= v - i] - beta) / i,      beta = P[B >= v].

Every epsilon for which this is below 1 - confidence is refuted.  Runs with fresh coins are one run of a larger
mechanism, in which each coin still moves one run only, so that their canaries simply add up.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, expit

__all__ = ["one_run_epsilon", "one_run_p_value"]


def one_run_p_value(epsilon: float, n_right: int, n_guesses: int, n_canaries: int, delta: float) -> float:
    """Largest probability of so many right guesses if the mechanism is (`epsilon`, `delta`)-DP.

    Parameters
    ----------
    epsilon : float
        >= 0.
    n_right, n_guesses, n_canaries : int
        v <= r <= m.
    delta : float
        In [0, 1).

    Examples
    --------
    >>> round(one_run_p_value(0.0, 5, 5, 5, 0.0), 5)
    0.03125
    """
    q = float(expit(epsilon))
    v = np.arange(n_right, -1, -1)  # v, v - 1, ..., 0; further steps add nothing
    tail = np.where(v == 0, 1.0, betainc(np.maximum(v, 1), n_guesses - v + 1, q))  # P[Bin(r, q) >= v]
    steps = np.arange(1, min(n_right, n_canaries) + 1)
    slack = ((tail[steps] - tail[0]) / steps).max(initial=0.0)
    return min(float(tail[0] + 2 * n_canaries * delta * slack), 1.0)


def one_run_epsilon(
    n_right: int, n_guesses: int, n_canaries: int, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Lower confidence bound on epsilon at `delta`.

    Parameters
    ----------
    n_right, n_guesses, n_canaries : int
        v <= r <= m.
    delta : float
        In [0, 1).
    confidence : float

    Returns
    -------
    epsilon : float
        0 where nothing can be said.

    Raises
    ------
    ValueError
        The numbers are not 0 <= v <= r <= m, or `delta` or `confidence` is out of range.

    Examples
    --------
    >>> round(one_run_epsilon(100, 100, 100), 5)
    3.49297
    """
    if not 0 <= n_right <= n_guesses <= n_canaries:
        raise ValueError("n_right <= n_guesses <= n_canaries must hold, all of them >= 0.")
    if not 0 <= delta < 1 or not 0 < confidence < 1:
        raise ValueError("delta must be in [0, 1) and confidence in (0, 1).")
    alpha = 1 - confidence

    def excess(epsilon):
        return one_run_p_value(epsilon, n_right, n_guesses, n_canaries, delta) - alpha

    if excess(0.0) > 0:
        return 0.0
    high = 1.0
    while excess(high) <= 0:
        high *= 2
    return brentq(excess, 0.0, high, xtol=1e-12)
