"""How far one record can move the sums that a reweighted descent releases, for both notions of neighbour.

The terms of these sums are bounded whatever the data are: weights and exponentials by the cap on the weights,
vectors and differences by a clip.  A sum is over the records of one client; what is released is a mean, and the
plan of the fit divides by the public number of records.
"""

from math import e, log

from .sensitivity import Adjacency

__all__ = ["capped_sum", "clipped_sum", "entropy_sum", "mixed_sum"]


def capped_sum(max_weight: float, adjacency: Adjacency) -> float:
    """Sensitivity of a sum of terms in [0, max_weight]: weights w_i, or capped exponentials e_i.

    Two such terms differ by no more than one of them differs from zero, so both notions agree.

    Parameters
    ----------
    max_weight : float
        S0 > 0.
    adjacency : Adjacency

    Examples
    --------
    >>> from skdro.privacy.sensitivity import ADJACENCIES
    >>> [capped_sum(10.0, adjacency) for adjacency in ADJACENCIES.values()]
    [10.0, 10.0]
    """
    return adjacency.interval * max_weight


def entropy_sum(max_weight: float, adjacency: Adjacency) -> float:
    """Sensitivity of a sum of terms  h = a exp(a)  with  exp(a) <= max_weight.

    They lie between -1/e, at a = -1, and  S0 log S0.

    Parameters
    ----------
    max_weight : float
        S0 > 1.
    adjacency : Adjacency

    Examples
    --------
    >>> from skdro.privacy.sensitivity import ADJACENCIES
    >>> [round(entropy_sum(10.0, adjacency), 4) for adjacency in ADJACENCIES.values()]
    [23.3937, 23.0259]
    >>> round(entropy_sum(1.1, ADJACENCIES["zero_out"]), 4)
    0.3679
    """
    low, high = 1.0 / e, max_weight * log(max_weight)
    # one term takes both signs: the ball's two, for replacing, is split into the two ends of the interval
    return max(low, high) + (adjacency.ball - 1.0) * min(low, high)


def clipped_sum(clip: float, adjacency: Adjacency) -> float:
    """Sensitivity of a sum of vectors, or signed numbers, that are each clipped to the norm `clip`.

    Parameters
    ----------
    clip : float
    adjacency : Adjacency

    Examples
    --------
    >>> from skdro.privacy.sensitivity import ADJACENCIES
    >>> [clipped_sum(0.5, adjacency) for adjacency in ADJACENCIES.values()]
    [1.0, 0.5]
    """
    return adjacency.ball * clip


def mixed_sum(fresh: float, of_terms: float, changed: float, of_differences: float) -> float:
    """Sensitivity of  sum [ fresh * c_i + changed * clip(c_i - c'_i) ], as in the momentum of STORM.

    A record enters both parts, so its two movements add in the worst case.

    Parameters
    ----------
    fresh, changed : float
        >= 0; beta and 1 - beta in STORM.
    of_terms, of_differences : float
        Sensitivities of both sums by themselves.

    Examples
    --------
    >>> mixed_sum(0.25, 2.0, 0.75, 0.4)
    0.8
    """
    return fresh * of_terms + changed * of_differences
