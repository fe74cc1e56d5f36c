"""Doors: through which a step's exact sums leave, with noise or without.

A step never adds noise itself.  It sends what it has computed through the door that it was given, at the client
(local aggregation) or at the server (trusted aggregation); the other end then has `pass_through`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..privacy.ledger import Release
from ..privacy.mechanism import release
from ..privacy.noise import NoiseSource
from ..privacy.plan import PlannedRelease

__all__ = ["GaussianDoor", "pass_through"]


@dataclass(frozen=True)
class GaussianDoor:
    """Releases as planned: adds the planned noise and writes the ledger.

    Parameters
    ----------
    planned : PlannedRelease
    noise : NoiseSource
    """

    planned: PlannedRelease
    noise: NoiseSource

    def __call__(
        self,
        exact: np.ndarray,
        ledger: Sequence[Release],
        *,
        index: np.ndarray,
        round: int,
        bound: float | np.ndarray,
        scale: float = 1.0,
    ) -> tuple[np.ndarray, tuple[Release, ...]]:
        """Noisy copy of `exact`, shape (n_draws, ...), and the longer ledger.

        Parameters
        ----------
        exact : ndarray of shape (n_draws, ...)
        ledger : sequence of Release
        index : ndarray of int, shape (n_draws,)
            Which of the planned draws these are.
        round : int
        bound : float or ndarray of shape (n_draws,)
            Public bound on the magnitude of the entries.
        scale : float
            Sensitivity of this round for a unit of the planned one: for kinds that were planned relative to a
            public number.
        """
        lines: list[Release] = []
        noisy = release(
            exact,
            name=self.planned.name,
            sensitivity=self.planned.drawn[index] * scale,
            multiplier=self.planned.multiplier,
            bound=bound,
            round=round,
            noise=self.noise,
            ledger=lines,
            clients=index,
        )
        return noisy, (*ledger, *lines)


def pass_through(exact, ledger, *, index, round, bound, scale=1.0):
    """`exact` itself: what stays inside the trusted party needs no noise."""
    return exact, ledger
