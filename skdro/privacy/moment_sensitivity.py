"""How far one record can move second moments that are released as one vector.

A record is a row x with ||x|| <= 1 and a target vector t.  Its term in the release is

    ( x x^T,  omega t x^T,  u ||t||^2 ),

with the upper triangle of x x^T stored so that its l2 norm is the Frobenius norm.  Two records whose rows have the
inner product s differ, in their first two parts, by the square root of

    2 - 2 s^2 + omega^2 (||t||^2 + ||t'||^2 - 2 <t, t'> s),

at most  2 - 2 s^2 + 2 a (1 + |s|)  where  omega^2 ||t||^2 <= a  for all targets.  That is largest at |s| = a/2, or at
|s| = 1 if a > 2, and shorter rows do not exceed it.  The bound is attained: the same target twice, and rows at the
angle that s says.
"""

from math import sqrt

from .sensitivity import Adjacency

__all__ = ["classification_moments", "moments_of_bounded_targets", "regression_moments"]


def moments_of_bounded_targets(a: float, square_weight: float, adjacency: Adjacency) -> float:
    """l2 sensitivity of the stacked moments of rows of norm <= 1.

    Parameters
    ----------
    a : float
        Largest omega^2 ||t||^2 of a record, > 0.
    square_weight : float
        Largest u ||t||^2 of a record, at most ``min(1, sqrt(a))``; 0 if squared targets are not released.
    adjacency : Adjacency

    Examples
    --------
    >>> from skdro.privacy.sensitivity import ADJACENCIES
    >>> round(moments_of_bounded_targets(1.0, 1.0, ADJACENCIES["zero_out"]) ** 2, 12)
    3.0
    """
    return {"replace_one": _two_records, "zero_out": _one_record}[adjacency.name](a, square_weight)


def _two_records(a, square_weight):
    # squared targets add nothing: they differ only where <t, t'> is smaller, by at most as much
    return sqrt(2 + 2 * a + a * a / 2) if a <= 2 else 2 * sqrt(a)


def _one_record(a, square_weight):
    return sqrt(1 + a + square_weight**2)


def classification_moments(n_classes: int, statistics_weight: float, adjacency: Adjacency) -> float:
    """Sensitivity where targets are one-hot minus 1/K, so that every ||t||^2 is 1 - 1/K and need not be released.

    Parameters
    ----------
    n_classes : int
        K >= 2.
    statistics_weight : float
        omega > 0, the weight of t x^T beside x x^T.
    adjacency : Adjacency

    Examples
    --------
    >>> from skdro.privacy.sensitivity import ADJACENCIES
    >>> round(classification_moments(3, 1.0, ADJACENCIES["replace_one"]) ** 2, 4)
    3.5556
    >>> round(classification_moments(3, 1.0, ADJACENCIES["zero_out"]) ** 2, 4)
    1.6667
    """
    return moments_of_bounded_targets(statistics_weight**2 * (1 - 1 / n_classes), 0.0, adjacency)


def regression_moments(statistics_weight: float, adjacency: Adjacency) -> float:
    """Sensitivity where targets are numbers in [-1, 1] and their squares are released with u = min(1, omega).

    Parameters
    ----------
    statistics_weight : float
        omega > 0.
    adjacency : Adjacency

    Examples
    --------
    >>> from skdro.privacy.sensitivity import ADJACENCIES
    >>> round(regression_moments(1.0, ADJACENCIES["replace_one"]) ** 2, 4)
    4.5
    >>> round(regression_moments(1.0, ADJACENCIES["zero_out"]) ** 2, 4)
    3.0
    """
    return moments_of_bounded_targets(statistics_weight**2, min(1.0, statistics_weight), adjacency)
