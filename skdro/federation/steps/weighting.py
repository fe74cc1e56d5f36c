"""What a record weighs and costs at given (x, eta): under a divergence, or plainly its loss."""

from dataclasses import dataclass

import numpy as np

from ...ambiguity.divergence import Capped

__all__ = ["EqualWeights", "Weighting"]


@dataclass(frozen=True)
class Weighting:
    """Weights and costs of records under a capped divergence.

    Parameters
    ----------
    divergence : Capped
    penalty : float
        lam > 0.
    """

    divergence: Capped
    penalty: float

    def scaled(self, losses: np.ndarray, shift: float) -> np.ndarray:
        """(l_i - eta) / lam;  infinite for the tiniest lam, never undefined."""
        return np.clip((losses - shift) / max(self.penalty, np.finfo(float).tiny), -1e300, 1e300)

    def weights(self, losses: np.ndarray, shift: float) -> np.ndarray:
        """w_i in [0, S0]."""
        return self.divergence.weight(self.scaled(losses, shift))

    def costs(self, losses: np.ndarray, shift: float) -> np.ndarray:
        """L_i."""
        return shift + self.penalty * self.divergence.conjugate(self.scaled(losses, shift))


@dataclass(frozen=True)
class EqualWeights:
    """No ambiguity: every record weighs one, and costs its loss."""

    def weights(self, losses: np.ndarray, shift: float) -> np.ndarray:
        """All one."""
        return np.ones_like(losses)

    def costs(self, losses: np.ndarray, shift: float) -> np.ndarray:
        """The losses."""
        return losses
