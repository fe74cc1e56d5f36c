"""How well any attack can do against a guarantee: the curves and areas that an audit is measured by.

`mu` is given where all releases are full-batch Gaussians, and then decides; otherwise only (epsilon, delta) is known.
The areas are for neighbours that differ in one replaced record, which is two steps by way of the null record: a
guarantee for zero_out enters with twice its mu.
"""

from math import exp, sqrt
from typing import cast

import numpy as np
from scipy.special import expit, ndtr, ndtri

from .accounting import gaussian_epsilon
from .report import PrivacyReport

__all__ = ["auc_of_one_target", "auc_of_pooled_records", "claim", "largest_true_positive_rate", "replace_one_claim"]


def claim(plan: PrivacyReport) -> tuple[float, float, float | None]:
    """(epsilon, delta, mu) that a report claims, nominally or not; mu is None unless it says everything.

    Parameters
    ----------
    plan : PrivacyReport
    """
    gaussian = all(event.type == "gaussian" and event.q == 1 for event in plan.events)
    epsilon = plan.epsilon if plan.private else plan.nominal_epsilon
    # a report has the one or the other
    return cast(float, epsilon), plan.delta, plan.mu if gaussian else None


def replace_one_claim(plan: PrivacyReport) -> tuple[float, float, float | None]:
    """The claim about a replaced record: two steps away, by way of the null record, under zero_out.

    Parameters
    ----------
    plan : PrivacyReport
    """
    epsilon, delta, mu = claim(plan)
    if plan.adjacency == "replace_one":
        return epsilon, delta, mu
    if mu is not None:
        return gaussian_epsilon(2 * mu, delta), delta, 2 * mu
    return 2 * epsilon, min((1 + exp(epsilon)) * delta, 1.0), None


def largest_true_positive_rate(
    false_positive_rate: np.ndarray, epsilon: float, delta: float, mu: float | None
) -> np.ndarray:
    """Largest true positive rate of a test between two neighbours.

    Parameters
    ----------
    false_positive_rate : ndarray
    epsilon, delta : float
    mu : float or None

    Examples
    --------
    >>> largest_true_positive_rate(np.array([0.0, 0.1, 1.0]), 1.0, 1e-5, 0.5).round(3)
    array([0.   , 0.217, 1.   ])
    """
    f = np.asarray(false_positive_rate, dtype=float)
    if mu is not None:
        return ndtr(ndtri(f) + mu)
    return np.clip(np.minimum(exp(epsilon) * f + delta, 1 - exp(-epsilon) * (1 - delta - f)), 0, 1)


def auc_of_one_target(epsilon: float, delta: float, mu: float | None) -> float:
    """Largest area under the curve of an attack on one known record, over repeated fits.

    1 - (1 - delta)^2 / (1 + e^epsilon), or Phi(mu / sqrt 2).

    Parameters
    ----------
    epsilon, delta : float
    mu : float or None

    Examples
    --------
    >>> round(auc_of_one_target(1.0, 1e-5, None), 4), round(auc_of_one_target(1.0, 1e-5, 0.2681), 4)
    (0.7311, 0.5752)
    """
    by_pair = 1 - (1 - delta) ** 2 * float(expit(-epsilon))
    return by_pair if mu is None else min(by_pair, float(ndtr(mu / sqrt(2))))


def auc_of_pooled_records(epsilon: float, delta: float, mu: float | None) -> float:
    """Largest expected area under the curve between exchangeable members and non-members.

    (e^epsilon + delta) / (1 + e^epsilon), or Phi(mu / 2).

    Parameters
    ----------
    epsilon, delta : float
    mu : float or None

    Examples
    --------
    >>> round(auc_of_pooled_records(1.0, 1e-5, None), 4), round(auc_of_pooled_records(1.0, 1e-5, 0.2681), 4)
    (0.7311, 0.5533)
    """
    by_pair = float(expit(epsilon)) + delta * float(expit(-epsilon))
    return by_pair if mu is None else min(by_pair, float(ndtr(mu / 2)))
