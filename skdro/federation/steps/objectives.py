"""What private gradient descent minimises: the worst case within the ball, or the loss itself with a ridge.

An objective splits into a data term, of which a client needs the label and the rival of each record, and a public
part, whose slope the server adds by itself since it depends on the broadcast model alone.
"""

from dataclasses import dataclass

import numpy as np

from ...ambiguity.transport import TransportNorm, spread_and_subgradient
from ...ambiguity.wasserstein import worst_labels
from ...losses.crammer_singer import margin_violations
from ..client_data import client_risk

__all__ = ["PublicPart", "RidgeRisk", "WorstCaseRisk"]


@dataclass(frozen=True)
class PublicPart:
    """What is known of an objective at a public model.

    Parameters
    ----------
    slope : ndarray of shape (n_classes, n_columns)
        Gradient of the part that no record enters.
    figures : dict of str to float
        Numbers that clients need beside the model, and that `history_` shows.
    """

    slope: np.ndarray
    figures: dict[str, float]


@dataclass(frozen=True)
class WorstCaseRisk:
    """sum_g alpha_g (mean worst loss of client g, flips priced at kappa_g phi(M)) + radius phi(M).

    Parameters
    ----------
    norm : TransportNorm
    n_classes, n_features : int
        All public classes; `n_features` leading columns are transported.
    radius : float
        r = sum_g alpha_g r_g.
    data_norm : float
        Bound on the l2 norm of a row, constant column included.
    """

    norm: TransportNorm
    n_classes: int
    n_features: int
    radius: float
    data_norm: float

    def public(self, M: np.ndarray) -> PublicPart:
        """Spread phi(M) and the slope of radius * phi."""
        slope = np.zeros_like(M)
        phi, slope[:, : self.n_features] = spread_and_subgradient(M[:, : self.n_features], self.norm)
        return PublicPart(self.radius * slope, {"spread": phi})

    def worst(self, scores, block, broadcast):
        """Worst label of each record and its rival."""
        kappa = block.settings["kappa"]
        finite = np.isfinite(kappa)
        # only trusted labels cost inf, also where phi = 0
        price = np.where(finite, np.where(finite, kappa, 0.0) * float(broadcast["spread"]), np.inf)
        if price.min() >= self.largest_gain(broadcast["model"]):
            return block.y, margin_violations(scores, block.y)[1]
        label, rival, _ = worst_labels(scores, block.y, np.repeat(price, block.sizes))
        return label, rival

    def largest_gain(self, M: np.ndarray) -> float:
        """Public bound on what a flip adds to the loss of any record: one, and the range of its scores.

        Where a flip costs more, nobody needs to look for one.
        """
        from_centre = M - M.mean(axis=0)
        return 1.0 + 2.0 * self.data_norm * float(np.sqrt((from_centre**2).sum(axis=1).max()))

    def values(self, M, block):
        """Robust risk of each client, shape (n_clients,); exact."""
        return np.array(
            [
                client_risk(block, g, self.norm, self.n_classes, self.n_features).value(M)[0]
                for g in range(block.n_clients)
            ]
        )


@dataclass(frozen=True)
class RidgeRisk:
    """sum_g alpha_g (mean loss of client g) + reg/2 ||M||^2, the intercept column left out.

    Parameters
    ----------
    reg : float
    n_features : int
        Leading columns that are penalised.
    """

    reg: float
    n_features: int

    def public(self, M: np.ndarray) -> PublicPart:
        """Slope of the penalty."""
        return PublicPart(self.slope(M), {})

    def slope(self, M: np.ndarray) -> np.ndarray:
        """Gradient of the penalty; `M` has shape (..., n_classes, n_columns)."""
        slope = self.reg * M
        slope[..., self.n_features :] = 0.0
        return slope

    def worst(self, scores, block, broadcast):
        """Own labels and their rivals."""
        return block.y, margin_violations(scores, block.y)[1]

    def values(self, M, block):
        """Regularised mean loss of each client, shape (n_clients,); exact.

        `M` has shape (n_classes, n_columns), or (n_clients, n_classes, n_columns) for a model of each client.
        """
        models = np.broadcast_to(M, (block.n_clients, *M.shape[-2:]))
        loss, _ = margin_violations(block.scores(models), block.y)
        penalty = self.reg / 2 * (models[..., : self.n_features] ** 2).sum(axis=(1, 2))
        return np.add.reduceat(block.weight * loss, block.offsets[:-1]) + penalty
