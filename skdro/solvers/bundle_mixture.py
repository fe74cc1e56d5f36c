"""Least robust risk of an uncertain mixture of clients: a central bundle with a certified gap.

    minimise over M   V(M) = max over alpha in A of  sum_i alpha_i F_i(M),
    A = { alpha in the simplex : ||alpha - a0||_1 <= 2 rad }    (rad = 0: alpha = a0;  rad = 1: the simplex)

with F_i the robust risk of client i, F_i(M) = min over lam_i >= phi_i(M) of lam_i r_i + f_i(M, lam_i)
(MW-DRO of Liu, Li, You & Cherukuri, arXiv 2609.20501, with the risk of Hernandez, Ibrahim & Gebraeel).  Every
mixture alpha in A gives a data cut, from the clients' cuts f_i >= <G_i, M> + h_i lam_i + c_i:

    t >= sum_i alpha_i ( <G_i, M> + (r_i + h_i) lam_i + c_i ),        phi cuts  lam_i >= <C, M>.

An evaluation adds the cut of the worst mixture and those that move weight to the next worse clients.  The
multipliers (a, b) of the cuts then obey  sum_j a_j = 1  and, for each client,

    sum_j b_ij = sum_j a_j alpha_ij (r_i + h_ij):

**the client's mixture weight multiplies its radius**; without it the bound is wrong.  `bundle_central.py` moves
the centre.  Its certificate holds with  phi(M*) <= V_ub / max over A of alpha . r,  and what it says of
intercepts with the records pooled by any one mixture in A, for such a mixture's risk is at most V.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..ambiguity.wasserstein import RobustRisk, WassersteinBall
from ._centred import CentredRisk
from ._cuts import BundleState, CutTable, ModelMinimum, start_state
from .bundle import Bounds, phi_slopes
from .bundle_central import FIRST_RHO, Centre, proximal_point

__all__ = ["MixtureSolution", "solve_mixture"]

_MIXTURES_A_ROUND = 6
"""Clients that weight is moved to, each in a cut of its own."""


@dataclass(frozen=True)
class MixtureSolution:
    """Model of least worst-mixture risk, between two bounds.

    Parameters
    ----------
    M : ndarray of shape (n_classes, n_columns)
        Rows sum to zero.
    upper : float
        max over A of sum_i alpha_i F_i(M).
    lower : float
        Certified lower bound on the least such value; 0 if all radii are.
    mixture : ndarray of shape (n_clients,)
        Weights alpha in A of the saddle point: no model does better against them than `lower`, up to what the
        certificate subtracts.
    risks : ndarray of shape (n_clients,)
        F_i(M).
    n_iter : int
        Evaluations, each one pass over the data of all clients.
    converged : bool
        Whether ``upper - lower <= tol * max(1, |upper|)``; if all radii are zero see `solve_central`.
    """

    M: np.ndarray
    upper: float
    lower: float
    mixture: np.ndarray
    risks: np.ndarray
    n_iter: int
    converged: bool


class MixtureCuts(CutTable):
    """The cuts of an uncertain mixture: the levels are t and the clients' lam_i; the tags are the mixtures.

    Parameters
    ----------
    state : BundleState
    radii : ndarray of shape (n_clients,)
    """

    def __init__(self, state: BundleState, radii: np.ndarray):
        n_clients = len(radii)
        super().__init__(state, np.eye(1, n_clients + 1).ravel(), np.append(1.0, radii), 1)
        self.radii = radii

    @classmethod
    def start(cls, G: np.ndarray, offsets: np.ndarray, mixture: np.ndarray, radii: np.ndarray) -> "MixtureCuts":
        """The cut of one mixture, positive for all clients and made without flips, and a zero cut for each client.

        Parameters
        ----------
        G : ndarray of shape (n_clients, n_classes, n_columns)
        offsets, mixture, radii : ndarray of shape (n_clients,)
        """
        m = len(radii) + 1
        slopes, units, tags = np.zeros((m, G[0].size)), np.eye(m), np.zeros((m, m - 1))
        slopes[0], units[1:, 0], tags[0] = np.tensordot(mixture, G, 1).ravel(), -mixture * radii, mixture
        weights = np.append(1.0, mixture * radii)
        return cls(start_state(slopes, units, np.append(mixture @ offsets, np.zeros(m - 1)), weights, tags), radii)

    def add_mixture(self, mixture: np.ndarray, G: np.ndarray, h: np.ndarray, c: np.ndarray) -> None:
        """Append the data cut of a mixture.

        Parameters
        ----------
        mixture, h, c : ndarray of shape (n_clients,)
        G : ndarray of shape (n_clients, n_classes, n_columns)
        """
        unit = np.append(1.0, -mixture * (self.radii + h))
        self.add(np.tensordot(mixture, G, 1), unit, float(mixture @ c), mixture)

    def add_phi(self, client: int, C: np.ndarray) -> None:
        """Append the cut  lam_client >= <C, M>."""
        unit = np.zeros(len(self.radii) + 1)
        unit[client + 1] = 1.0
        self.add(C, unit, 0.0)

    def repaired(self, weights: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Exactly feasible multipliers next to rounded ones; see the module for the equalities."""
        weights = np.maximum(weights, 0.0)
        a = weights * units[0]
        total = a.sum()
        if total > 0:
            a /= total
        else:
            a[0] = 1.0
        budget = -units[1:] @ a  # sum_j a_j alpha_ij (r_i + h_ij)
        short = budget < 0
        if short.any():
            # the start cut has no flips, so its budget is positive wherever a radius is
            spare = -units[1:, 0]
            share = (-budget[short] / (spare[short] - budget[short])).max()
            a *= 1.0 - share
            a[0] += share
            budget = np.maximum((1.0 - share) * budget + share * spare, 0.0)
        b = weights * (1.0 - units[0])
        totals = units[1:] @ b
        b[1 : len(totals) + 1][totals == 0] = totals[totals == 0] = 1.0
        return a + b * ((budget / totals) @ units[1:])


def shifted(nominal: np.ndarray, rad: float, risks: np.ndarray, client: int) -> np.ndarray:
    """The mixture that moves `rad` of the nominal weight to one client, from the least risky ones first.

    For the riskiest client this attains  max over A of alpha . risks.

    Parameters
    ----------
    nominal, risks : ndarray of shape (n_clients,)
    rad : float
    client : int

    Examples
    --------
    >>> import numpy as np
    >>> shifted(np.array([0.5, 0.3, 0.2]), 0.4, np.array([1.0, 3.0, 2.0]), 1)
    array([0.1, 0.7, 0.2])
    """
    order = np.argsort(risks, kind="stable")
    order = order[order != client]
    before = np.cumsum(nominal[order]) - nominal[order]
    moved = np.minimum(nominal[order], np.maximum(rad - before, 0.0))
    mixture = nominal.copy()
    mixture[order] -= moved
    mixture[client] += moved.sum()
    return mixture


def worst_value(nominal: np.ndarray, rad: float, risks: np.ndarray) -> float:
    """Largest alpha . risks over A."""
    return float(shifted(nominal, rad, risks, int(risks.argmax())) @ risks)


def _solid_radii(clients):
    """Radii r with  r phi(M) <= r_i phi_i(M)  for the phi of all pairs.

    Where labels are trusted and a client lacks some, two classes that it lacks are within twice its phi_i, since
    each is within phi_i of a class that it has.
    """
    halved = [p.labels_in_phi is not None and not p.labels_in_phi.all() for p in clients]
    return np.array([p.ball.radius / (2.0 if half else 1.0) for p, half in zip(clients, halved, strict=True)])


def _pooled(clients, mixture, radii):
    """The clients as one, whose records, radius and flip costs bound a minimiser's intercepts."""
    with np.errstate(divide="ignore"):
        ratio = max(np.divide(p.ball.kappa, r) for p, r in zip(clients, radii, strict=True))
    radius = float(mixture @ radii)
    kappa = radius * ratio if radius > 0 else np.inf
    return RobustRisk(
        np.vstack([p.X for p in clients]),
        np.concatenate([p.y for p in clients]),
        np.concatenate([w * p.weight for w, p in zip(mixture, clients, strict=True)]),
        clients[0].n_classes,
        clients[0].n_features,
        WassersteinBall(radius, kappa, clients[0].ball.norm),
    )


def solve_mixture(
    clients: Sequence[RobustRisk],
    nominal: np.ndarray,
    mixture_radius: float,
    *,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> MixtureSolution:
    """Minimise the worst mixture of the clients' robust risks over all linear models.

    Parameters
    ----------
    clients : sequence of RobustRisk
        One a client, of one norm, number of classes and columns; radius and kappa may differ.  The intercept,
        if any, is the last column of `X`.
    nominal : ndarray of shape (n_clients,)
        Weights a0 in the simplex.
    mixture_radius : float
        rad in [0, 1]: the part of the population that may come from other clients than nominal; 0 fixes the
        mixture, 1 allows all.
    tol : float
        Certified gap, relative to max(1, |upper|), at which to stop.
    max_iter : int
        Evaluations allowed.

    Returns
    -------
    MixtureSolution

    Raises
    ------
    ValueError
        `nominal` is not in the simplex, `mixture_radius` not in [0, 1], or a class has no record in any client of
        positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.ambiguity.transport import TRANSPORT_NORMS
    >>> from skdro.ambiguity.wasserstein import WassersteinBall
    >>> ball, n = WassersteinBall(0.1, 1.0, TRANSPORT_NORMS["linf"]), np.full(3, 1 / 3)
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.9]])
    >>> clients = [RobustRisk(X, np.array(y), n, 2, 2, ball) for y in ([0, 1, 1], [0, 1, 0])]
    >>> solution = solve_mixture(clients, np.array([0.5, 0.5]), 1.0)
    >>> solution.converged, bool(abs(solution.mixture.sum() - 1) < 1e-9)
    (True, True)
    """
    nominal = np.asarray(nominal, dtype=float)
    _check(clients, nominal, mixture_radius)
    everywhere = (1.0 - mixture_radius) * nominal + mixture_radius / len(nominal)
    part = np.flatnonzero(everywhere > 0)  # a client without weight in any mixture has no say
    problem = _Mixture([clients[i] for i in part.tolist()], nominal[part], float(mixture_radius), everywhere[part])
    bounds, n_iter = problem.solve(tol, max_iter)
    M = problem.inner.to_user(bounds.M)
    risks = np.array([client.value(M)[0] for client in clients])
    mixture = np.zeros(len(nominal))
    mixture[part] = problem.mixture
    lower = bounds.lower if any(client.ball.radius > 0 for client in clients) else 0.0
    upper = worst_value(nominal, mixture_radius, risks)
    return MixtureSolution(M, upper, lower, mixture, risks, n_iter, bounds.met)


def _check(clients, nominal, mixture_radius):
    if nominal.shape != (len(clients),) or (nominal < 0).any() or abs(nominal.sum() - 1.0) > 1e-9:
        raise ValueError(f"nominal must hold {len(clients)} weights >= 0 of sum one, one a client; got {nominal}.")
    if not 0 <= mixture_radius <= 1:
        raise ValueError(f"mixture_radius must be in [0, 1], got {mixture_radius}.")
    share = np.zeros(clients[0].n_classes)
    for client, weight in zip(clients, nominal, strict=True):
        if weight > 0 or mixture_radius > 0:
            np.add.at(share, client.y, client.weight)
    if not share.all():
        raise ValueError(
            f"Class(es) {np.flatnonzero(share == 0).tolist()} have no record of positive weight in any client that "
            "counts; leave them out of the classes."
        )


class _Mixture:
    """One problem in centred coordinates, with the cuts found so far."""

    def __init__(self, clients, nominal, rad, everywhere):
        self.nominal, self.rad = nominal, rad
        self.radii = np.array([client.ball.radius for client in clients])
        solid = _solid_radii(clients)
        self.inner = CentredRisk.of(_pooled(clients, everywhere, solid))
        self.clients = [replace(self.inner, risk=client) for client in clients]
        self.reach = worst_value(nominal, rad, solid)
        self.origin = np.zeros((clients[0].n_classes, clients[0].X.shape[1]))
        G, _, c = self._cut(self.origin, np.full(len(clients), np.inf))
        self.cuts = MixtureCuts.start(G, c, everywhere, self.radii)
        self.mixture, self._best = everywhere, -np.inf

    def _cut(self, M, lam):
        """The clients' cuts at (M, lam): G, h and c of all."""
        G, h, c = zip(*(p.data_cut(M, price) for p, price in zip(self.clients, lam, strict=True)), strict=True)
        return np.array(G), np.array(h), np.array(c)

    def evaluate(self, least: ModelMinimum, accuracy: float):
        """Multipliers and value at the model's minimiser; adds the cuts there."""
        M, lam = least.M, np.maximum(least.levels[1:], 0.0)
        for i in np.flatnonzero(self.radii > 0):
            phi, slopes = phi_slopes(self.clients[i], M, lam[i], accuracy / self.radii[i])
            for C in slopes:
                self.cuts.add_phi(i, C)
            lam[i] = max(lam[i], phi)
        priced = np.where(self.radii > 0, lam, np.inf)  # free of charge where the radius is zero
        G, h, c = self._cut(M, priced)
        risks = np.tensordot(G, M, 2) + c + (self.radii + h) * lam
        risks[self.radii == 0] = (np.tensordot(G, M, 2) + c)[self.radii == 0]
        top = np.argsort(-risks, kind="stable")[: _MIXTURES_A_ROUND if self.rad > 0 else 1]
        for client in top:
            mixture = shifted(self.nominal, self.rad, risks, client)
            if mixture @ risks > least.levels[0] + 0.1 * accuracy:
                self.cuts.add_mixture(mixture, G, h, c)
        return priced, worst_value(self.nominal, self.rad, risks)

    def lower_bound(self, least: ModelMinimum, upper: float) -> float:
        """Certified bound; takes note of the mixture that gives the best one."""
        widest = upper / self.reach if self.reach > 0 else None
        bound = self.inner.lower_bound(least, upper, widest)
        if bound >= self._best:
            self._best, self.mixture = bound, least.tag
        return bound

    def solve(self, tol, max_iter):
        """Bounds met or evaluations spent, and how many of them."""
        value = worst_value(self.nominal, self.rad, np.array([p.risk.value(self.origin)[0] for p in self.clients]))
        bounds = Bounds(tol)
        bounds.update(self.origin, np.nan, value, 0.0)
        centre = Centre(self.origin, value, FIRST_RHO * self.inner.size**2)
        return bounds, proximal_point(self.cuts, self.evaluate, self.lower_bound, centre, bounds, max_iter)
