"""Which records take part in a round: all of them, or a Poisson sample that nobody outside the client sees."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..privacy.noise import NoiseSource
from ..privacy.subsampling import PoissonSampling
from .client_data import ClientBlock

__all__ = ["FullBatch", "PoissonBatch"]


@dataclass(frozen=True)
class FullBatch:
    """Every record, in every round.

    `largest` is the factor by which the weight of a record in its client's mean can grow.
    """

    largest: ClassVar[float] = 1.0

    def weights(self, block: ClientBlock, round: int) -> np.ndarray:
        """Weight of each record in its client's mean, shape (n_rows,)."""
        return block.weight


@dataclass(frozen=True)
class PoissonBatch:
    """Each record independently with a public probability, afresh in every round.

    Sums are divided by the *expected* size of the batch: the realised one depends on the records' coins, and the
    accountant does not know it.

    Parameters
    ----------
    sampling : PoissonSampling
        The same object that accounts for the rounds.
    noise : NoiseSource
        The coins come from where the noise comes from.
    """

    sampling: PoissonSampling
    noise: NoiseSource

    @property
    def largest(self):
        """A record that takes part counts one over its probability."""
        return 1.0 / self.sampling.rate

    def weights(self, block: ClientBlock, round: int) -> np.ndarray:
        """Weight of each record in this round: zero, or its weight over the probability of taking part."""
        taken = self.sampling.mask(self.noise, block.sizes, clients=block.index, round=round)
        return np.where(taken, block.weight * self.largest, 0.0)
