"""Which records take part in a round."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .client_data import ClientBlock

__all__ = ["FullBatch"]


@dataclass(frozen=True)
class FullBatch:
    """Every record, in every round.

    `largest` is the factor by which the weight of a record in its client's mean can grow.
    """

    largest: ClassVar[float] = 1.0

    def weights(self, block: ClientBlock, round: int) -> np.ndarray:
        """Weight of each record in its client's mean, shape (n_rows,)."""
        return block.weight
