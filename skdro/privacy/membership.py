"""Membership inference on exchangeable records, beside what the guarantee allows.

Members and non-members are drawn from the same rows by a coin, client by client.  Where they come from different
populations an attack tells the populations apart, and its success says nothing about privacy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student

from .canaries import fresh, quiet_fit
from .limits import auc_of_one_target, auc_of_pooled_records, largest_true_positive_rate, replace_one_claim

__all__ = ["MembershipResult", "membership_inference"]


@dataclass(frozen=True, repr=False, eq=False)
class MembershipResult:
    """How well the margin of a record's own label tells members from non-members.

    Parameters
    ----------
    auc : float
        Mean over fits of the area under the curve, within clients.
    interval : tuple of float
        Confidence interval of its expectation, given the rows.
    confidence : float
    largest_auc : float
        Largest expected area that the guarantee allows for pooled exchangeable records.
    largest_auc_one_target : float
        The same for one known record over repeated fits, a stronger attack.
    claim : tuple
        (epsilon, delta, mu or None) for a replaced record.
    n_runs : int
    scores : ndarray of shape (n_runs * n_samples,)
        Margins; larger for members, if anything is to be found.
    truth : ndarray of bool, shape (n_runs * n_samples,)
        Who was a member.
    """

    auc: float
    interval: tuple[float, float]
    confidence: float
    largest_auc: float
    largest_auc_one_target: float
    claim: tuple[float, float, float | None]
    n_runs: int
    scores: np.ndarray
    truth: np.ndarray

    @property
    def refuted(self) -> bool:
        """Whether the whole interval is above what the guarantee allows."""
        return self.interval[0] > self.largest_auc

    def limit(self, false_positive_rate: np.ndarray) -> np.ndarray:
        """Largest true positive rate that the claim allows for one record."""
        return largest_true_positive_rate(false_positive_rate, *self.claim)

    def __repr__(self):
        low, high = self.interval
        verdict = "more than the guarantee allows: REFUTED" if self.refuted else "within what the guarantee allows"
        return "\n".join(
            [
                f"MembershipResult: AUC = {self.auc:.4f} [{low:.4f}, {high:.4f}], {verdict}",
                f"  attack      : margin of a record's own label, {self.n_runs} fits on random halves of the "
                f"clients; {100 * self.confidence:g} % interval",
                f"  allowed     : {self.largest_auc:.4f} for pooled records, "
                f"{self.largest_auc_one_target:.4f} for one known record over repeated fits",
            ]
        )


def membership_inference(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    n_runs: int = 20,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> MembershipResult:
    """Area under the curve of a membership attack, with its interval and the largest that the guarantee allows.

    Each run fits the estimator on a random half of every client's rows and ranks all rows by the margin of their own
    label.  Pairs are compared within clients, where members and non-members are exchangeable.

    The estimator is fitted on **your data without a budget**; the result belongs where the data are.

    Parameters
    ----------
    estimator : private classifier
        With public `classes`.  It is cloned; if it is seeded, every run gets another seed.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    groups : array-like of shape (n_samples,), default=None
        Each client needs two rows.
    n_runs : int, default=20
        >= 2; the interval is that of their mean.
    confidence : float, default=0.95
    random_state : None, int or numpy.random.Generator, default=None
        Of the halves.

    Returns
    -------
    result : MembershipResult

    Raises
    ------
    ValueError
        A number is out of range, a client has one row, or the estimator has no public classes.
    TypeError
        The estimator has no `privacy_plan`.

    Notes
    -----
    A weak attack that finds nothing proves nothing.  It shows gross faults: training on the data outside of the
    mechanism, noise that is missing.  `audit` sees more.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro import DPFedDROClassifier
    >>> from skdro.privacy import membership_inference
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 5)), np.arange(60) % 2
    >>> model = DPFedDROClassifier(epsilon=1.0, classes=[0, 1], n_rounds=5)
    >>> result = membership_inference(model, X, y, groups=np.arange(60) // 30, random_state=0)
    >>> result.refuted, round(result.largest_auc, 3)
    (False, 0.553)
    """
    if not hasattr(estimator, "privacy_plan"):
        raise TypeError(f"{type(estimator).__name__} has no privacy_plan: only private estimators can be audited.")
    if n_runs < 2 or not 0 < confidence < 1:
        raise ValueError("n_runs must be >= 2, and confidence in (0, 1).")
    X, y = np.array(X, dtype=float), np.array(y)
    groups = np.zeros(len(X), dtype=int) if groups is None else np.asarray(groups)
    clients, index = np.unique(groups, return_inverse=True)
    if np.bincount(index).min() < 2:
        raise ValueError("groups must give each client two rows: one to be a member and one not to be.")
    rng = np.random.default_rng(random_state)
    aucs, scores, truth = [], [], []
    for _ in range(n_runs):
        member = _halves(index, rng)
        model = quiet_fit(fresh(estimator, rng).fit, X[member], y[member], groups=groups[member])
        margin = _margins(model, X, y)
        aucs.append(_auc_within(margin, member, index, len(clients)))
        scores.append(margin)
        truth.append(member)
    # the plan of the last run: all halves have the same public sizes
    allowed = replace_one_claim(estimator.privacy_plan(X[member], groups[member]))
    auc = float(np.mean(aucs))
    half_width = float(student.ppf((1 + confidence) / 2, n_runs - 1) * np.std(aucs, ddof=1) / np.sqrt(n_runs))
    return MembershipResult(
        auc=auc,
        interval=(auc - half_width, auc + half_width),
        confidence=confidence,
        largest_auc=auc_of_pooled_records(*allowed),
        largest_auc_one_target=auc_of_one_target(*allowed),
        claim=allowed,
        n_runs=n_runs,
        scores=np.concatenate(scores),
        truth=np.concatenate(truth),
    )


def _halves(index, rng):
    """A random half of each client's rows, rounded down."""
    member = np.zeros(len(index), dtype=bool)
    for client in range(index.max() + 1):
        rows = np.flatnonzero(index == client)
        member[rng.permutation(rows)[: len(rows) // 2]] = True
    return member


def _margins(model, X, y):
    """Score of each record's own label minus the largest other score."""
    scores = model.decision_function(X)
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1) / 2
    each, own = np.arange(len(X)), np.searchsorted(model.classes_, y)
    others = scores.copy()
    others[each, own] = -np.inf
    return scores[each, own] - others.max(axis=1)


def _auc_within(scores, member, index, n_clients):
    """Share of (member, non-member) pairs of one client in which the member scores higher; ties count half."""
    right = pairs = 0.0
    for client in range(n_clients):
        rows = index == client
        n_members, n_others = np.sum(member[rows]), np.sum(~member[rows])
        ranks = rankdata(scores[rows])[member[rows]]
        right += ranks.sum() - n_members * (n_members + 1) / 2
        pairs += n_members * n_others
    return float(right / pairs)
