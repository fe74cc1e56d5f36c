"""What a search by cross-validation would cost if only its fits were counted."""

from math import inf, sqrt
from numbers import Integral, Real

__all__ = ["composed_cost"]


def composed_cost(n_candidates: int, n_splits: int, mu: float) -> float:
    """Gaussian-DP parameter of the fits of a grid search with cross-validation and a refit.

    Of the `n_splits` fits of a candidate, a record is in the training part of all but one; the refit is one more:
    mu_total = sqrt(N (k - 1) + 1) mu.

    **The scores are not in this number.**  `GridSearchCV`, `cross_val_score` and `score` compute them exactly from
    private labels, so that such a search is not private at any epsilon; use `PrivateSearchCV`.

    Parameters
    ----------
    n_candidates : int
        N >= 1.
    n_splits : int
        Folds k >= 2.
    mu : float
        Gaussian-DP parameter of one fit, >= 0: `privacy_.mu`.

    Returns
    -------
    mu_total : float
        `skdro.privacy.accounting.gaussian_epsilon` turns it into epsilon.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    A grid of 25 candidates with five folds, each fit at (3.10, 1e-6):

    >>> from skdro.model_selection import composed_cost
    >>> from skdro.privacy.accounting import gaussian_epsilon, gaussian_mu
    >>> mu = gaussian_mu(3.10, 1e-6)
    >>> round(gaussian_epsilon(composed_cost(25, 5, mu), 1e-6), 1)
    53.6
    """
    for name, value, least in (("n_candidates", n_candidates, 1), ("n_splits", n_splits, 2)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be an int >= {least}; got {value!r}.")
    if not isinstance(mu, Real) or isinstance(mu, bool) or not 0 <= mu < inf:
        raise ValueError(f"mu must be a finite number >= 0; got {mu!r}.")
    return sqrt(n_candidates * (n_splits - 1) + 1) * mu
