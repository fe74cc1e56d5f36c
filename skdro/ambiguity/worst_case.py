"""The worst distribution itself: what nature does to the records of one robust risk, in closed form.

Let nature flip a mass f_n <= w_n of record n to its worst wrong label and spend m on moving rows.  A flip of unit
mass costs kappa and gains b_n - a_n; moving gains at most phi = max ||m_i - m_j||_* per unit of cost, whatever the
record.  So her problem is a continuous knapsack,

    max  sum_n f_n (b_n - a_n) + phi m    subject to    kappa sum_n f_n + m <= r,    0 <= f_n <= w_n:

flip in order of falling gain while (b_n - a_n) / kappa > phi, the last record in part, then move with what is left.
Its dual is the minimum over lam >= phi that defines F(M): lam* > phi exactly when the flips use up the budget.

To move, let v be a unit vector with <v, m_k - m_l> = ||m_k - m_l||_* for a widest pair (k, l).  Under label l a row
x + t v loses at least 1 + s_k(x) - s_l(x) + t phi.  So moving a mass q by t = m / q falls short of phi m by at most q
times the slack, loss - (1 + s_k - s_l) >= 0: zero for records whose loss is that very piece, positive for the others,
where the supremum is only approached, by a vanishing mass that moves infinitely far.  The second knapsack takes mass
in order of rising slack until the shortfall is `tol` F(M) / 2, which moves all movers equally far and no further than
that shortfall demands.  An optimal model has several widest pairs, equal up to its solver's tolerance: pairs count
that lose at most the other half of `tol` F(M).  If no record has a label of such a pair (possible only for finite
kappa), the movers are flipped first: a surcharge of kappa in cost and of kappa phi in slack, again >= 0 by dual
feasibility; at most half of m then pays for flips.  Theory: [1]_, sections 2 and A.1.

.. [1] Hernandez, Ibrahim, Gebraeel. Private and Distributionally Robust Federated Multiclass Classification.
   arXiv 2610.13631.
"""

from dataclasses import dataclass

import numpy as np

from ..losses.crammer_singer import margin_violations
from .transport import pair_distances
from .wasserstein import RobustRisk, record_terms

__all__ = ["WorstCase", "worst_case"]

SHORTFALL = 9e-4  # relative; less than the 1e-3 that is promised, so that rounding never matters
NOTHING = 1e-12  # share of a budget that is rounding, not money
SHORTEST_STEP = 1e-6  # relative to the largest feature; rounding would change the length of a shorter one


@dataclass(frozen=True)
class WorstCase:
    """A distribution within the ball whose expected loss is the robust risk, up to 0.1 %.

    Parameters
    ----------
    X : ndarray of shape (n_atoms, n_features)
        Rows, in the units of the rows that were passed.
    y : ndarray of shape (n_atoms,)
        Labels.
    weight : ndarray of shape (n_atoms,)
        Positive, sum one.  A record that is changed in part is several atoms.
    record : ndarray of int, shape (n_atoms,)
        Which of the rows passed each atom was; records of weight zero have none.
    flipped, moved : ndarray of bool, shape (n_atoms,)
        Whether label and row differ from the record's.
    cost : float
        Average transport cost spent, in the units of the features; at most the radius.
    risk : float
        Expected loss.
    groups : ndarray of shape (n_atoms,) or None
        Client label of each atom.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    record: np.ndarray
    flipped: np.ndarray
    moved: np.ndarray
    cost: float
    risk: float
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class _Atoms:
    """Masses of the records, each under a label and with a displacement `shift`, shape (n_atoms, n_features)."""

    record: np.ndarray
    label: np.ndarray
    mass: np.ndarray
    shift: np.ndarray

    def followed_by(self, other: "_Atoms") -> "_Atoms":
        """Both together, without empty atoms, in the order of the records."""
        parts = [np.concatenate(pair) for pair in zip(vars(self).values(), vars(other).values(), strict=True)]
        order = np.argsort(parts[0], kind="stable")
        order = order[parts[2][order] > 0]
        return _Atoms(*(part[order] for part in parts))


def worst_case(risk: RobustRisk, M: np.ndarray, tol: float = SHORTFALL) -> WorstCase:
    """An eps-optimal worst-case distribution of a linear model.

    Parameters
    ----------
    risk : RobustRisk
        Records, weights and ball.
    M : ndarray of shape (n_classes, n_columns)
        Feature columns, followed by the intercepts if the rows end in a constant column.
    tol : float, default=9e-4
        Relative shortfall of the expected loss below F(M), > 0.

    Returns
    -------
    WorstCase
        `X` has the columns of ``risk.X`` and `y` class indices; the transport cost is at most
        ``risk.ball.radius`` and the expected loss at least ``(1 - tol) F(M)``, both up to rounding.

    Examples
    --------
    A perfect classifier of two records, of which nature may flip one eighth of the mass at this radius:

    >>> import numpy as np
    >>> from skdro.ambiguity.transport import TRANSPORT_NORMS
    >>> from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
    >>> ball = WassersteinBall(0.125, 1.0, TRANSPORT_NORMS["l2"])
    >>> risk = RobustRisk(np.array([[2.0], [-2.0]]), np.array([0, 1]), np.full(2, 0.5), 2, 1, ball)
    >>> worst = worst_case(risk, np.array([[0.5], [-0.5]]))
    >>> worst.record, worst.weight, worst.flipped
    (array([0, 0, 1]), array([0.375, 0.125, 0.5  ]), array([False,  True, False]))
    >>> worst.risk == risk.value(np.array([[0.5], [-0.5]]))[0]
    True
    """
    scores = risk.X @ M.T
    phi = risk.phi(M)
    atoms, left, value = _flip(risk, scores, phi)
    if left * phi > 0:
        atoms = _move(atoms, risk, M, scores, left, tol * (value + left * phi))
    return _describe(atoms, risk, M)


def _fill(rank, capacity, unit_cost, budget):
    """Continuous knapsack: how much of each item is taken, by rising `rank`, until the budget is spent."""
    order = np.argsort(rank, kind="stable")
    need = (capacity * unit_cost)[order]
    room = budget - (np.cumsum(need) - need)
    room[room <= NOTHING * budget] = 0.0
    whole = need <= room * (1 + NOTHING)
    taken = np.empty_like(capacity)
    taken[order] = np.where(whole, capacity[order], room / np.where(whole, 1.0, unit_cost[order]))
    return taken


def _flip(risk, scores, phi):
    """Atoms after the label flips, the budget that is left for moving, and the expected loss so far."""
    terms = record_terms(scores, risk.y)
    n, radius, kappa = len(risk.y), risk.ball.radius, risk.ball.kappa
    gain = terms.flip_loss - terms.own_loss
    flips, left = np.zeros(n), radius
    if np.isfinite(kappa):
        worthwhile = np.where(gain > kappa * phi, risk.weight, 0.0)
        flips = _fill(-gain, worthwhile, np.full(n, kappa), radius)
        left = radius - kappa * float(flips.sum())
        left = left if left > NOTHING * radius else 0.0
    records, still = np.arange(n), np.zeros((n, risk.n_features))
    stay = _Atoms(records, risk.y, risk.weight - flips, still)
    atoms = stay.followed_by(_Atoms(records, terms.flip, flips, still))
    return atoms, left, float(risk.weight @ terms.own_loss + flips @ gain)


def _widest_pairs(risk, M, tolerance):
    """phi, and the labels, rivals and directions of all pairs, either way round, within `tolerance` of it."""
    W, norm = M[:, : risk.n_features], risk.ball.norm
    distances, i, j = pair_distances(W, norm, risk.labels_in_phi)
    phi = distances.max()
    wide = distances >= phi - tolerance
    label, rival = np.concatenate([j[wide], i[wide]]), np.concatenate([i[wide], j[wide]])
    return phi, label, rival, np.array([norm.direction(W[k] - W[l]) for l, k in zip(label, rival, strict=True)])


def _move(atoms, risk, M, scores, budget, shortfall):
    """Atoms after spending `budget` on moving mass along the widest pairs, losing at most `shortfall` for it."""
    phi, target, rival, direction = _widest_pairs(risk, M, shortfall / 2 / budget)
    at, own = scores[atoms.record], risk.y[atoms.record]
    loss = margin_violations(at, atoms.label)[0]

    fits = atoms.label[:, None] == target
    surcharge = np.zeros(fits.shape)
    if not fits.any():  # nobody has such a label: a flip comes first (to one that is wrong: no flip is taken back)
        fits = own[:, None] != target
        surcharge = np.where(fits & (atoms.label == own)[:, None], risk.ball.kappa, 0.0)
    slack = np.maximum(loss[:, None] + phi * surcharge - (1.0 + at[:, rival] - at[:, target]), 0.0)

    movers = np.flatnonzero(fits.any(axis=1))
    pair = np.where(fits, slack, np.inf)[movers].argmin(axis=1)
    slack, surcharge = slack[movers, pair], surcharge[movers, pair]
    # half of the budget is kept for distance: it lasts for steps that are no rounding of the rows
    step = SHORTEST_STEP * np.abs(risk.X[:, : risk.n_features]).max()
    affordable = _fill(slack, atoms.mass[movers], np.maximum(surcharge, step), budget / 2)
    mass = _fill(slack, affordable, slack, shortfall / 2)
    distance = (budget - mass @ surcharge) / mass.sum()

    rest = atoms.mass.copy()
    rest[movers] -= mass
    gone = _Atoms(atoms.record[movers], target[pair], mass, distance * direction[pair])
    return _Atoms(atoms.record, atoms.label, rest, atoms.shift).followed_by(gone)


def _describe(atoms, risk, M):
    """Rows, masks, cost and expected loss of the atoms."""
    X = risk.X[atoms.record]
    X[:, : risk.n_features] += atoms.shift
    flipped = atoms.label != risk.y[atoms.record]
    cost = risk.ball.norm.length((X - risk.X[atoms.record])[:, : risk.n_features])
    cost[flipped] += risk.ball.kappa
    return WorstCase(
        X=X,
        y=atoms.label,
        weight=atoms.mass,
        record=atoms.record,
        flipped=flipped,
        moved=atoms.shift.any(axis=1),
        cost=float(atoms.mass @ cost),
        risk=float(atoms.mass @ margin_violations(X @ M.T, atoms.label)[0]),
    )
