"""Gaussian mechanism: the only place where noise is added, the only door through which data leaves a site.

A release takes a stack of exact sums of bounded per-record terms, one for each client, adds normal noise of
standard deviation  sigma_g = multiplier * sensitivity_g, writes a line into the ledger, and rounds to a
public grid.

Rounding is post-processing.  It removes the low-order bits through which floating-point noise can betray the
exact value (Mironov 2012; Casacuberta et al. 2022; Haney et al. 2022): a mitigation, not a proof.
"""

from collections.abc import Sequence

import numpy as np

from .ledger import Release
from .noise import NoiseSource

__all__ = ["noise_grid", "release"]

GRID_BITS = 20
"""The grid is at least this many powers of two finer than the noise."""


def noise_grid(sigma: np.ndarray) -> np.ndarray:
    """Largest power of two that is at most ``sigma / 2**20``.

    Parameters
    ----------
    sigma : float or ndarray
        Standard deviation of the noise, > 0.

    Examples
    --------
    >>> float(noise_grid(3.0)) == 2.0 / 2**20
    True
    """
    _, exponent = np.frexp(sigma)
    return np.ldexp(1.0, exponent - 1 - GRID_BITS)


def release(
    exact: np.ndarray,
    *,
    name: str,
    sensitivity: float | np.ndarray,
    multiplier: float,
    bound: float | np.ndarray,
    round: int,
    noise: NoiseSource,
    ledger: list[Release],
    clients: Sequence[int] | np.ndarray | None = None,
) -> np.ndarray:
    """Noisy, rounded copy of `exact`; appends one line to `ledger`.

    Parameters
    ----------
    exact : ndarray of shape (n_draws, ...)
        Exact values, one block for each client, or a single block if noise is added once to a sum over
        clients.
    name : str
        Which kind of release of the plan this is; also part of the key of the noise.
    sensitivity : float or ndarray of shape (n_draws,)
        l2 sensitivity of each block to one record.
    multiplier : float
        Standard deviation of the noise over the sensitivity.
    bound : float or ndarray of shape (n_draws,)
        Public bound on the magnitude of the entries of `exact`.  Only the rounding needs it: the grid must
        not be finer than the spacing of floating-point numbers of that size.
    round : int
        Round, part of the key of the noise.
    noise : callable
        Source of standard normals, see `skdro.privacy.noise`.
    ledger : list of Release
    clients : sequence of int, shape (n_draws,), optional
        Index of each client in the federation, part of the key of the noise; ``range(n_draws)`` by default.

    Returns
    -------
    released : ndarray, same shape as `exact`
        Multiples of ``noise_grid(sigma)``.

    Raises
    ------
    ValueError
        If a standard deviation is not a positive number, or so small that floating-point numbers cannot carry
        it.  Both depend on public numbers only and are raised before any noise is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.privacy.noise import StreamNoise
    >>> ledger = []
    >>> released = release(np.zeros((2, 3)), name="gradient", sensitivity=np.array([0.1, 0.2]),
    ...                    multiplier=5.0, bound=1.0, round=0, noise=StreamNoise(0), ledger=ledger)
    >>> released.shape, ledger[0].sigma
    ((2, 3), array([0.5, 1. ]))
    """
    n_draws = len(exact)
    index = np.arange(n_draws) if clients is None else np.asarray(clients)
    sensitivity = np.broadcast_to(np.asarray(sensitivity, dtype=float), (n_draws,))
    sigma = multiplier * sensitivity
    grid = _checked_grid(sigma, bound)
    ledger.append(Release(name, index, sensitivity, sigma))
    per_draw = (n_draws,) + (1,) * (exact.ndim - 1)
    grid = grid.reshape(per_draw)
    if hasattr(noise, "add"):  # a source with an arithmetic of its own
        noisy = noise.add(exact, sigma, clients=index, round=round, release=name)
    else:
        noisy = exact + sigma.reshape(per_draw) * noise(exact.shape[1:], clients=index, round=round, release=name)
    return np.rint(noisy / grid) * grid


def _checked_grid(sigma, bound):
    if not (sigma.min() > 0 and sigma.max() < np.inf):
        raise ValueError(
            "The standard deviation of the noise must be a positive number: check multiplier and sensitivity."
        )
    grid = noise_grid(sigma)
    if not (grid >= np.spacing(np.abs(bound))).all():
        raise ValueError(
            "The noise is too small beside the values for floating-point numbers to hide their low-order "
            "bits: lower the step-size constants, or ask for a smaller epsilon."
        )
    return grid
