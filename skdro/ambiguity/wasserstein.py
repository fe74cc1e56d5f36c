"""Wasserstein ball around records and labels: the robust risk of a linear multiclass model, exactly.

Nature may move a record from (x, y) to (x', y') at cost ||x - x'|| + kappa 1{y != y'}, on average at most
`radius`.  For the Crammer-Singer loss the worst expected loss has the closed form

    F(M) = min over lam >= phi(M) of  lam r + sum_n w_n max(a_n, b_n - kappa lam),
    phi(M) = max_{i,j} ||m_i - m_j||_*,

where a_n is the record's own loss and b_n its loss under the worst wrong label, which is the lowest-scoring
one. The intercept is part of the scores but not of phi: it is neither transported nor penalised.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..losses.crammer_singer import label_weights, margin_violations
from .transport import TransportNorm, spread, spread_subgradient

__all__ = ["RobustRisk", "WassersteinBall", "flip_gain", "optimal_multiplier", "record_terms", "worst_labels"]

TIE = 1e-9  # relative; by how much lam is moved to see both sides of a record that is as well flipped as not


@dataclass(frozen=True)
class WassersteinBall:
    """Which distributions count as possible.

    Parameters
    ----------
    radius : float
        Average transport cost that nature may spend, >= 0, in the units of the features.
    kappa : float
        Cost of a label flip, > 0; `inf` means that labels are trusted.
    norm : TransportNorm
        Norm of the transport cost.
    """

    radius: float
    kappa: float
    norm: TransportNorm


@dataclass(frozen=True)
class RecordTerms:
    """Both branches of each record's worst loss at one model; all of shape (n_records,).

    `own_loss` and `flip_loss` are a_n and b_n; `rival` violates the own label `y` the most, and `flip_rival`
    the wrong label `flip` with the lowest score.
    """

    own_loss: np.ndarray
    rival: np.ndarray
    flip: np.ndarray
    flip_loss: np.ndarray
    flip_rival: np.ndarray


def record_terms(scores: np.ndarray, y: np.ndarray) -> RecordTerms:
    """Own and flipped-label Crammer-Singer losses of each record.

    Parameters
    ----------
    scores : ndarray of shape (n_records, n_classes)
    y : ndarray of int, shape (n_records,)
    """
    own_loss, rival = margin_violations(scores, y)
    wrong = scores.copy()
    wrong[np.arange(len(y)), y] = np.inf
    flip = wrong.argmin(axis=1)
    flip_loss, flip_rival = margin_violations(scores, flip)
    return RecordTerms(own_loss, rival, flip, flip_loss, flip_rival)


def flip_gain(scores: np.ndarray, y: np.ndarray, own_loss: np.ndarray) -> np.ndarray:
    """max(0, b_n - a_n): how much worse the worst wrong label is than the record's own, without finding it.

    With s_y the score of the own label, b_n - a_n = s_y - min_k s_k + max(0, 1 - a_n) wherever that is
    positive (write b_n with the two cases s_y above or below the best rival), so one pass over the scores is
    enough.

    Parameters
    ----------
    scores : ndarray of shape (n_records, n_classes)
    y : ndarray of int, shape (n_records,)
    own_loss : ndarray of shape (n_records,)
        a_n.

    Returns
    -------
    gain : ndarray of shape (n_records,)

    Examples
    --------
    >>> import numpy as np
    >>> flip_gain(np.array([[2.0, 0.0, 1.0], [0.0, 0.5, 0.0]]), np.array([0, 0]), np.array([0.0, 1.5]))
    array([3., 0.])
    """
    flat = scores.ravel()
    start = np.arange(0, flat.size, scores.shape[1])
    # argmin and a look-up: several times faster than min over a short last axis
    return flat[start + y] - flat[start + scores.argmin(axis=1)] + np.maximum(0.0, 1.0 - own_loss)


def optimal_multiplier(
    own_loss: np.ndarray, flip_loss: np.ndarray, weight: np.ndarray, phi: float, ball: WassersteinBall
) -> float:
    """The lam >= phi that minimises  lam r + sum_n w_n max(a_n, b_n - kappa lam)  for fixed losses.

    The slope r - kappa * (weight of the records whose flip is active) turns non-negative at the first gain
    (b_n - a_n) / kappa above which at most r / kappa of the weight remains. **It can exceed phi**; taking phi
    instead solves another problem.

    Parameters
    ----------
    own_loss, flip_loss, weight : ndarray of shape (n_records,)
        Weights are non-negative and sum to one.
    phi : float
        Lower limit of lam.
    ball : WassersteinBall

    Returns
    -------
    lam : float
    """
    if not np.isfinite(ball.kappa):
        return phi
    gain = (flip_loss - own_loss) / ball.kappa
    order = np.argsort(-gain, kind="stable")
    # weight of the records strictly before each one in order of falling gain; a hair of slack absorbs the
    # rounding of the cumulative sum and only ever moves lam along a flat piece of the objective
    weight_above = np.cumsum(weight[order]) - weight[order]
    share = ball.radius / ball.kappa
    allowed = np.flatnonzero(weight_above + weight[order] > share * (1 + 1e-12) + 1e-15)
    if len(allowed) == 0:
        return phi
    return max(phi, float(gain[order[allowed[0]]]))


def worst_labels(
    scores: np.ndarray, y: np.ndarray, price: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Label under which each record's loss is worst when a flip costs `price`, and that label's rival.

    Parameters
    ----------
    scores : ndarray of shape (n_records, n_classes)
    y : ndarray of int, shape (n_records,)
    price : float or ndarray of shape (n_records,)
        kappa lam >= 0; `inf` where labels are trusted.

    Returns
    -------
    label, rival : ndarray of int, shape (n_records,)
        The subgradient of the record's worst loss in the scores is e_rival - e_label; equal where it is zero.
    flipped : ndarray of int
        Records whose worst label is a wrong one.
    """
    loss, rival = margin_violations(scores, y)
    flipped = np.flatnonzero(flip_gain(scores, y, loss) > price)
    label = y
    if len(flipped):
        worst = scores[flipped]
        flip = worst.argmin(axis=1)  # never the own label, since the gain is positive
        label = y.copy()
        label[flipped], rival[flipped] = flip, margin_violations(worst, flip)[1]
    return label, rival, flipped


@dataclass(frozen=True)
class RobustRisk:
    """The robust risk of one client (or of pooled data) as a function of a linear model.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_columns)
        Features, followed by a constant column if the model has an intercept.
    y : ndarray of int, shape (n_records,)
        Class indices.
    weight : ndarray of shape (n_records,)
        Non-negative, sum one.
    n_classes : int
    n_features : int
        How many leading columns nature may move; the rest (at most the constant column) is outside phi.
    ball : WassersteinBall
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    n_classes: int
    n_features: int
    ball: WassersteinBall

    @cached_property
    def labels_in_phi(self) -> np.ndarray | None:
        """Mask of the labels that occur if labels are trusted, None if any label can be reached by a flip."""
        if np.isfinite(self.ball.kappa):
            return None
        present = np.zeros(self.n_classes, dtype=bool)
        present[self.y[self.weight > 0]] = True
        return present

    def phi(self, M: np.ndarray) -> float:
        """Spread of the feature columns of `M`, shape (n_classes, n_columns)."""
        return spread(M[:, : self.n_features], self.ball.norm, self.labels_in_phi)

    def value(self, M: np.ndarray) -> tuple[float, float]:
        """Robust risk F(M) and the lam that attains it."""
        terms = record_terms(self.X @ M.T, self.y)
        phi = self.phi(M)
        lam = optimal_multiplier(terms.own_loss, terms.flip_loss, self.weight, phi, self.ball)
        return self._objective(terms, lam), lam

    def value_and_subgradient(self, M: np.ndarray) -> tuple[float, np.ndarray]:
        """Robust risk F(M) and a subgradient of F at M, shape (n_classes, n_columns).

        Where the optimal lam is phi(M), moving M moves lam with it, at a rate r + h >= 0 for each unit of phi.
        Where it is larger, some record is worth flipping in part: so much of it that r + h = 0.
        """
        risk, lam = self.value(M)
        slope, h, _ = self.data_cut(M, lam * (1 + TIE))
        if lam <= self.phi(M):
            C = spread_subgradient(M[:, : self.n_features], self.ball.norm, self.labels_in_phi)
            slope[:, : self.n_features] += (self.ball.radius + h) * C
            return risk, slope
        flipped, h_flipped, _ = self.data_cut(M, lam * (1 - TIE))
        part = np.clip((self.ball.radius + h) / (h - h_flipped), 0.0, 1.0) if h > h_flipped else 0.0
        return risk, slope + part * (flipped - slope)

    def value_at(self, M: np.ndarray, lam: float) -> float:
        """Risk lam r + sum_n w_n max(a_n, b_n - kappa lam), for any lam; a bound on F(M) if lam >= phi(M)."""
        return self._objective(record_terms(self.X @ M.T, self.y), lam)

    def _objective(self, terms, lam):
        return lam * self.ball.radius + float(self.weight @ self._worst(terms, lam))

    def _worst(self, terms, lam):
        if not np.isfinite(self.ball.kappa):
            return terms.own_loss
        return np.maximum(terms.own_loss, terms.flip_loss - self.ball.kappa * lam)

    def data_cut(self, M: np.ndarray, lam: float) -> tuple[np.ndarray, float, float]:
        """Affine minorant  <G, M> + h lam + c  of  sum_n w_n max(a_n, b_n - kappa lam), tight at (M, lam).

        Returns
        -------
        G : ndarray of shape (n_classes, n_columns)
        h : float
            -kappa times the weight of the records whose flipped label is worse.
        c : float
            Weight of the records with an active hinge.
        """
        # the test keeps 0 * inf out: trusted labels are never flipped, whatever lam
        price = self.ball.kappa * lam if np.isfinite(self.ball.kappa) else np.inf
        label, rival, flipped = worst_labels(self.X @ M.T, self.y, price)
        h = -self.ball.kappa * float(self.weight[flipped].sum()) if len(flipped) else 0.0
        V = label_weights(label, rival, self.weight, self.n_classes)
        return V.T @ self.X, h, float(self.weight @ (rival != label))
