"""Who the deployment population is made of: the set of client mixtures that nature may choose from.

All sets are  A = { alpha in the simplex : ||alpha - a0||_1 <= 2 rad }  around nominal weights a0: up to a share
`rad` of the population may belong to other clients than a0 says.  rad = 0 fixes the mixture, rad = 1 is the whole
simplex (agnostic federated learning), and between them lies what users of either ask for.

The Euclidean projection on A costs sorts only, and so does the worst mixture,

    max over A of alpha . F  =  min over tau of  sum_i a0_i max(F_i, tau) + rad (max_i F_i - tau):

nature takes the share rad from the clients with the least risk and gives it to the one with the largest.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["MixtureBall", "project_simplex"]


def project_simplex(z: np.ndarray) -> np.ndarray:
    """Euclidean projection on the probability simplex.

    Parameters
    ----------
    z : ndarray of shape (..., n_clients)

    Returns
    -------
    ndarray of shape (..., n_clients)

    References
    ----------
    Held, Wolfe, Crowder. Validation of subgradient optimization. Mathematical Programming 6 (1974), 62-88.

    Examples
    --------
    >>> project_simplex(np.array([0.9, 0.5, -3.0]))
    array([0.7, 0.3, 0. ])
    """
    return np.maximum(z - _level_above(z, 1.0), 0.0)


@dataclass(frozen=True)
class MixtureBall:
    """The mixtures within L1 distance 2 `radius` of the nominal one.

    Parameters
    ----------
    nominal : ndarray of shape (n_clients,)
        a0: non-negative, sum one.
    radius : float
        Share of the population that nature may move, in [0, 1]: 0 fixes the mixture, 1 leaves it open.

    Examples
    --------
    >>> ball = MixtureBall(np.array([0.5, 0.3, 0.2]), radius=0.25)
    >>> ball.worst(np.array([1.0, 2.0, 3.0]))
    array([0.25, 0.3 , 0.45])
    >>> round(float(ball.value(np.array([1.0, 2.0, 3.0]))), 2)
    2.2
    """

    nominal: np.ndarray
    radius: float

    def worst(self, risks: np.ndarray) -> np.ndarray:
        """A mixture of the set that maximises alpha . risks.

        Parameters
        ----------
        risks : ndarray of shape (..., n_clients)

        Returns
        -------
        alpha : ndarray of shape (..., n_clients)
        """
        order = np.argsort(risks, axis=-1, kind="stable")
        held = self.nominal[order]
        taken = np.clip(self.radius - (np.cumsum(held, axis=-1) - held), 0.0, held)
        left = held - taken
        left[..., -1] += taken.sum(axis=-1)
        alpha = np.empty_like(left)
        np.put_along_axis(alpha, order, left, axis=-1)
        return alpha

    def value(self, risks: np.ndarray) -> np.ndarray | float:
        """Largest alpha . risks over the set, shape (...); a client of weight zero counts nothing, even at inf."""
        alpha = self.worst(risks)
        return np.where(alpha > 0, alpha * np.where(alpha > 0, risks, 0.0), 0.0).sum(axis=-1)[()]

    def project(self, z: np.ndarray) -> np.ndarray:
        """Euclidean projection on the set.

        Where the L1 constraint binds, the projection is a0 plus what is gained and minus what is lost; both
        add up to `radius` and have a water level of their own.

        Parameters
        ----------
        z : ndarray of shape (..., n_clients)

        Returns
        -------
        alpha : ndarray of shape (..., n_clients)
        """
        free = project_simplex(z)
        outside = np.abs(free - self.nominal).sum(axis=-1, keepdims=True) > 2.0 * self.radius
        if not outside.any():
            return free
        u = z - self.nominal
        gain = np.maximum(u - _level_above(u, self.radius), 0.0)
        loss = np.clip(_level_below(u, self.nominal, self.radius) - u, 0.0, self.nominal)
        return np.where(outside, self.nominal + gain - loss, free)


def _level_above(u, amount):
    """P with  sum_i (u_i - p)_+ = amount,  shape (..., 1)."""
    falling = -np.sort(-u, axis=-1)
    levels = (np.cumsum(falling, axis=-1) - amount) / np.arange(1, u.shape[-1] + 1)
    # the highest entry is above its level for any positive amount, and for amount 0 the level is that entry
    last = np.maximum((falling > levels).sum(axis=-1, keepdims=True) - 1, 0)
    return np.take_along_axis(levels, last, axis=-1)


def _level_below(u, cap, amount):
    """Q with  sum_i min(cap_i, (q - u_i)_+) = amount <= sum_i cap_i,  shape (..., 1)."""
    knots = np.concatenate([u, u + cap], axis=-1)
    order = np.argsort(knots, axis=-1, kind="stable")
    knots = np.take_along_axis(knots, order, axis=-1)
    slope = np.cumsum(np.where(order < u.shape[-1], 1.0, -1.0), axis=-1)
    filled = np.zeros_like(knots)
    np.cumsum(slope[..., :-1] * np.diff(knots, axis=-1), axis=-1, out=filled[..., 1:])
    k = np.maximum((filled <= amount).sum(axis=-1, keepdims=True) - 1, 0)
    at, done, rate = (np.take_along_axis(a, k, axis=-1) for a in (knots, filled, slope))
    return at + np.where(rate > 0, (amount - done) / np.maximum(rate, 1.0), 0.0)
