"""Audits that a user can run on a private estimator as it is: do its fits betray more than they claim?

An audit refutes claims and proves none.  `audit` is a lower bound on epsilon that holds with the stated confidence;
what it can see at all depends on how many canaries there are (`AuditResult` says so).
"""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np

from .canaries import ADJACENT_WORLDS, draw_canaries, fresh, noiseless, signed_scores
from .limits import claim, largest_true_positive_rate
from .one_run import one_run_epsilon

__all__ = ["AuditResult", "audit"]


@dataclass(frozen=True, repr=False, eq=False)
class AuditResult:
    """What the canaries say about a claimed epsilon.

    Parameters
    ----------
    epsilon_lower : float
        Lower confidence bound on epsilon at `delta`.
    epsilon_claimed, delta : float
        What the estimator claims (nominally, if its noise is seeded).
    mu_claimed : float or None
        None unless all releases are full-batch Gaussians.
    confidence : float
    adjacency : str
    n_canaries, n_runs : int
        Canaries in each run, and runs.
    n_guesses, n_right : int
    scores : ndarray of shape (n_runs * n_canaries,)
        The auditor's evidence that the coin of a canary was heads: guesses are made where it is largest in size.
    truth : ndarray of bool, shape (n_runs * n_canaries,)
        The coins.
    """

    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    mu_claimed: float | None
    confidence: float
    adjacency: str
    n_canaries: int
    n_runs: int
    n_guesses: int
    n_right: int
    scores: np.ndarray
    truth: np.ndarray

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted at the stated confidence."""
        return self.epsilon_lower > self.epsilon_claimed

    @property
    def largest_possible(self) -> float:
        """The bound if every guess had been right: no audit of this size can show a larger epsilon."""
        total = self.n_canaries * self.n_runs
        return one_run_epsilon(self.n_guesses, self.n_guesses, total, self.delta, self.confidence)

    def limit(self, false_positive_rate: np.ndarray) -> np.ndarray:
        """Largest true positive rate that the claim allows for one record."""
        return largest_true_positive_rate(false_positive_rate, self.epsilon_claimed, self.delta, self.mu_claimed)

    def __repr__(self):
        verdict = "REFUTED" if self.refuted else "not refuted"
        what = {"replace_one": "two labels of a public record", "zero_out": "a public record or the null record"}
        return "\n".join(
            [
                f"AuditResult: the claim epsilon = {self.epsilon_claimed:.4g} at delta = {self.delta:g} is {verdict}",
                f"  lower bound : epsilon >= {self.epsilon_lower:.4g} with confidence {self.confidence:g}",
                f"  canaries    : {self.n_canaries} in each of {self.n_runs} run(s): {what[self.adjacency]}",
                f"  guesses     : {self.n_right} of {self.n_guesses} right; abstained on "
                f"{self.n_canaries * self.n_runs - self.n_guesses}",
                f"  can show    : at most epsilon = {self.largest_possible:.4g}, if all guesses were right",
            ]
        )


def audit(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    n_canaries: int | None = None,
    n_runs: int = 1,
    n_guesses: int | None = None,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> AuditResult:
    """Lower confidence bound on the epsilon of an estimator's fit, from canaries in one run (or several).

    Canaries take the place of `n_canaries` rows, so that the number of rows and the clients stay as they are.  Each
    has a coin of its own, the model is fitted, and the auditor guesses the coins for which the model's scores speak
    most clearly [1]_.  The auditor knows everything but the coins: two fits with next to no noise and other coins
    tell what the rest of the data do to a canary's score.

    The estimator is fitted on **your data without a budget**: the result is a statement about the code and not a
    release, and belongs where the data are.  Simulated data do as well.

    Parameters
    ----------
    estimator : private classifier
        With public `classes`.  It is cloned; if it is seeded, every run gets another seed.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    groups : array-like of shape (n_samples,), default=None
    n_canaries : int, default=None
        In each run; the smaller of 100 and half the rows if not given.  More of them than features get into each
        other's way, which costs power and not validity.
    n_runs : int, default=1
        Runs with fresh coins, whose canaries add up.
    n_guesses : int, default=None
        Over all runs; 5 sqrt(canaries) if not given.  It has to be fixed before the scores are seen.
    confidence : float, default=0.95
    random_state : None, int or numpy.random.Generator, default=None
        Of the canaries and coins.

    Returns
    -------
    result : AuditResult

    Raises
    ------
    ValueError
        A number is out of range, or the estimator has no public classes.
    TypeError
        The estimator has no `privacy_plan`, or its adjacency cannot be played.

    Notes
    -----
    **What it can see.**  With 200 canaries in one run, epsilon = 1, few rounds, as many features as canaries: no
    clipping, or a tenth of the noise.  Half the noise takes some 20 000 canaries (100 runs) at epsilon = 1.  At
    epsilon = 10, or below .1, it sees no small fault at any affordable size; many rounds and few features blunt it,
    and it never sees what leaves no trace in the final model.  The tests of this
    package therefore use a distinguishing game besides.

    References
    ----------
    .. [1] Steinke, Nasr, Jagielski. Privacy Auditing with One (1) Training Run. NeurIPS 2023, Theorem 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro import DPFedDROClassifier
    >>> from skdro.privacy import audit
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 50)), np.arange(200) % 2
    >>> model = DPFedDROClassifier(epsilon=1.0, classes=[0, 1], n_rounds=5)
    >>> result = audit(model, X, y, groups=np.zeros(200), n_canaries=50, random_state=0)
    >>> result.refuted, result.n_guesses
    (False, 36)
    """
    if not hasattr(estimator, "privacy_plan"):
        raise TypeError(f"{type(estimator).__name__} has no privacy_plan: only private estimators can be audited.")
    X, y = np.array(X, dtype=float), np.array(y)
    plan = estimator.privacy_plan(X, groups)
    epsilon, delta, mu = claim(plan)
    n_canaries = min(100, len(X) // 2) if n_canaries is None else n_canaries
    total = n_canaries * n_runs
    n_guesses = min(total, ceil(5 * sqrt(total))) if n_guesses is None else n_guesses
    for name, value, most in (("n_canaries", n_canaries, len(X)), ("n_guesses", n_guesses, total)):
        if not 1 <= value <= most:
            raise ValueError(f"{name} must be from 1 to {most}; got {value!r}.")
    rng = np.random.default_rng(random_state)
    play = ADJACENT_WORLDS[plan.adjacency]
    scores_by_run, coins_by_run = [], []
    canaries = draw_canaries(estimator, X.shape, n_canaries, rng)
    base = _background(estimator, X, y, groups, canaries, play, rng)
    for _ in range(n_runs):
        coins = rng.random(n_canaries) < 0.5
        model = play(fresh(estimator, rng), X, y, groups, canaries, coins)
        scores_by_run.append(signed_scores(model, canaries) - base)
        coins_by_run.append(coins)
    scores, truth = np.concatenate(scores_by_run), np.concatenate(coins_by_run)
    chosen = np.argsort(-np.abs(scores), kind="stable")[:n_guesses]
    n_right = int(np.sum((scores[chosen] > 0) == truth[chosen]))
    return AuditResult(
        epsilon_lower=one_run_epsilon(n_right, n_guesses, total, delta, confidence),
        epsilon_claimed=epsilon,
        delta=delta,
        mu_claimed=mu,
        confidence=confidence,
        adjacency=plan.adjacency,
        n_canaries=n_canaries,
        n_runs=n_runs,
        n_guesses=n_guesses,
        n_right=n_right,
        scores=scores,
        truth=truth,
    )


def _background(estimator, X, y, groups, canaries, play, rng):
    """Scores of the canaries halfway between their two worlds, from coins that are not those of the audit."""
    coins = rng.random(len(canaries.rows)) < 0.5
    fits = [play(fresh(noiseless(estimator), rng), X, y, groups, canaries, world) for world in (coins, ~coins)]
    return sum(signed_scores(model, canaries) for model in fits) / 2
