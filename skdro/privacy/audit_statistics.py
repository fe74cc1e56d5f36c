"""Statistics of privacy audits: is the noise as large as claimed, and can neighbours be told apart too well?

The distinguishing game is judged in Gaussian-DP form: a mu-GDP release lets no test have
Phi^-1(true positive rate) - Phi^-1(false positive rate) > mu.  With a few hundred fits a side this sees half
the noise; the (epsilon, delta) form of the same game does not with thousands.
"""

import numpy as np
from scipy.special import betaincinv, ndtri
from scipy.stats import chi2

__all__ = ["clopper_pearson_lower", "clopper_pearson_upper", "mu_lower_bound", "noise_scale_bounds"]


def clopper_pearson_lower(successes: np.ndarray, trials: int, confidence: float = 0.95) -> np.ndarray:
    """One-sided exact lower confidence bound on a probability (Clopper & Pearson 1934).

    Parameters
    ----------
    successes : int or ndarray of int
    trials : int
    confidence : float

    Examples
    --------
    >>> round(float(clopper_pearson_lower(10, 10)), 4)
    0.7411
    """
    k = np.asarray(successes)
    # Beta(0, .) is no distribution: the bound for no success is 0
    return np.where(k == 0, 0.0, betaincinv(np.maximum(k, 1), trials - k + 1, 1 - confidence))


def clopper_pearson_upper(successes: np.ndarray, trials: int, confidence: float = 0.95) -> np.ndarray:
    """One-sided exact upper confidence bound on a probability, see `clopper_pearson_lower`.

    Examples
    --------
    >>> round(float(clopper_pearson_upper(0, 10)), 4)
    0.2589
    """
    return 1.0 - clopper_pearson_lower(trials - np.asarray(successes), trials, confidence)


def mu_lower_bound(scores0: np.ndarray, scores1: np.ndarray, confidence: float = 0.95) -> float:
    """Lower confidence bound on the mu of the test "score > threshold" between two neighbouring data sets.

    The threshold is the best one on the first half of each sample; the bound is evaluated on the second half,
    so that the choice costs no confidence.

    Parameters
    ----------
    scores0, scores1 : ndarray of shape (n_runs0,), (n_runs1,)
        Score of each independent run on either data set; larger under the second.
    confidence : float
        Of each of the two one-sided bounds.

    Returns
    -------
    mu : float
        -inf where nothing can be said.  A claimed mu below this is refuted with probability of error at most
        ``2 (1 - confidence)``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> round(mu_lower_bound(rng.normal(size=200), 3.0 + rng.normal(size=200)), 1)
    2.7
    """
    half0, half1 = len(scores0) // 2, len(scores1) // 2
    choices = np.concatenate([scores0[:half0], scores1[:half1]])
    bounds = _mu_bounds(choices, scores0[:half0], scores1[:half1], confidence)
    best = choices[[bounds.argmax()]]
    return float(_mu_bounds(best, scores0[half0:], scores1[half1:], confidence)[0])


def _mu_bounds(thresholds, scores0, scores1, confidence):
    """Phi^-1(TPR_lower) - Phi^-1(FPR_upper) of each threshold."""
    false = (scores0 > thresholds[:, None]).sum(axis=1)
    true = (scores1 > thresholds[:, None]).sum(axis=1)
    lower = clopper_pearson_lower(true, len(scores1), confidence)
    upper = clopper_pearson_upper(false, len(scores0), confidence)
    return ndtri(lower) - ndtri(upper)


def noise_scale_bounds(n_draws: int, level: float = 1e-6) -> tuple[float, float]:
    """Range of (root mean square of the draws) / sigma that sound noise leaves with probability `level`.

    Parameters
    ----------
    n_draws : int
    level : float
        Two-sided.

    Returns
    -------
    low, high : float

    Examples
    --------
    >>> low, high = noise_scale_bounds(10_000)
    >>> round(low, 3), round(high, 3)
    (0.966, 1.035)
    """
    low, high = chi2.ppf(level / 2, n_draws), chi2.isf(level / 2, n_draws)
    return float(np.sqrt(low / n_draws)), float(np.sqrt(high / n_draws))
