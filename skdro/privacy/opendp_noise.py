"""Gaussian noise by OpenDP, for small releases: added in exact arithmetic instead of floating point.

The package's own sources add a rounded normal number to a rounded sum, and rounding to a grid afterwards is a
mitigation of attacks on low-order bits.  OpenDP's Gaussian measurement adds its noise to the exact value of the
floating-point sum, by a sampler without rounding errors; that leaves no such bits.  It takes some 100 microseconds a
number, so releases are limited to `LARGEST` numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

__all__ = ["LARGEST", "OpenDPNoise"]

LARGEST = 10_000
"""Numbers in one release."""


@cache
def _opendp():
    try:
        import opendp.prelude as dp
    except ImportError:
        raise ImportError('noise="opendp" needs OpenDP: pip install "skdro[opendp]".') from None
    dp.enable_features("contrib")
    return dp


@dataclass(frozen=True)
class OpenDPNoise:
    """Source of noise whose numbers and additions are OpenDP's; it cannot be seeded.

    Raises
    ------
    ImportError
        OpenDP is not installed.
    """

    description: ClassVar[str] = "OpenDP's Gaussian measurement, in exact arithmetic"
    seeded: ClassVar[bool] = False

    def __post_init__(self):
        _opendp()

    def __call__(
        self, shape: tuple[int, ...], *, clients: Sequence[int] | np.ndarray, round: int, release: str
    ) -> np.ndarray:
        """Standard normals of shape ``(len(clients), *shape)``, whatever the key."""
        zeros = np.zeros((len(clients), *shape))
        return self.add(zeros, np.ones(len(clients)), clients=clients, round=round, release=release)

    def add(
        self, exact: np.ndarray, sigma: np.ndarray, *, clients: Sequence[int] | np.ndarray, round: int, release: str
    ) -> np.ndarray:
        """`exact`, shape (n_draws, ...), plus normal noise of standard deviation sigma[g] on block g.

        Raises
        ------
        ValueError
            The release has more than `LARGEST` numbers: a public fact, found before any noise is drawn.
        """
        if exact.size > LARGEST:
            raise ValueError(
                f'noise="opendp" is for releases of at most {LARGEST} numbers, this one has {exact.size}: use '
                'noise="os".'
            )
        return np.array([_measured(block, float(s)) for block, s in zip(exact, sigma, strict=True)])


def _measured(block, sigma):
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    measure = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=sigma)
    return np.reshape(measure(block.ravel().tolist()), block.shape)
