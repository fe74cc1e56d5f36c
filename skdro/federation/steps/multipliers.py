"""What the linearised ADMM adds to the mean loss, and what becomes of the transport multiplier lam.

Labels that may flip keep a noisy multiplier at each client; trusted labels (kappa = inf) leave r dphi of it; without
a ball there is a ridge instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...ambiguity.transport import TransportNorm, spread, spreads_and_subgradients
from ...ambiguity.wasserstein import record_terms, worst_labels
from ...losses.crammer_singer import margin_violations
from .objectives import RidgeRisk

__all__ = ["FlippedLabels", "NoBall", "Slope", "TrustedLabels"]


@dataclass(frozen=True)
class Slope:
    """Public part of the model's gradient at each client, and the dual that goes with it.

    Parameters
    ----------
    model : ndarray of shape (n_clients, n_classes, n_columns)
    pull, tau : ndarray of shape (n_clients,)
        Weight a of dphi in it; the dual of lam >= phi(M) after the last round.
    """

    model: np.ndarray
    pull: np.ndarray
    tau: np.ndarray


def _spreads(models, norm, n_features):
    """Phi and one of its subgradients for each client's model."""
    C = np.zeros_like(models)
    phi, C[:, :, :n_features] = spreads_and_subgradients(models[:, :, :n_features], norm)
    return phi, C


@dataclass(frozen=True)
class FlippedLabels:
    """Labels may flip at a finite cost: the multiplier lam takes noisy steps of its own.

    Parameters
    ----------
    norm : TransportNorm
    n_features : int
        Leading columns that are transported.
    kappa, nu : ndarray of shape (n_clients,)
    gamma : float
        Weight of the penalty for lam < phi(M).
    door : callable
        For the noisy multiplier.
    """

    norm: TransportNorm
    n_features: int
    kappa: np.ndarray
    nu: np.ndarray
    gamma: float
    door: Callable

    def objective(self, state, block):
        """Augmented objective h_g of Theorem 3 at the clients' own noisy iterates, shape (n_clients,); exact."""
        terms = record_terms(block.scores(state.model), block.y)
        price = np.repeat(self.kappa[block.index] * state.lam, block.sizes)
        worst = block.weight * np.maximum(terms.own_loss, terms.flip_loss - price)
        slope = self.slope(state, block)
        penalty = (slope.pull**2 - slope.tau**2) / (2 * self.gamma)
        return state.lam * block.settings["radius"] + np.add.reduceat(worst, block.offsets[:-1]) + penalty

    def slope(self, state, block):
        """Public part a dphi(M~), with a = max(0, tau + gamma (phi(M~) - lam~))."""
        phi, C = _spreads(state.model, self.norm, self.n_features)
        violation = self.gamma * (phi - state.lam)
        tau = np.maximum(0.0, state.tau + violation)
        pull = np.maximum(0.0, tau + violation)
        return Slope(pull.reshape(-1, 1, 1) * C, pull, tau)

    def worst(self, scores, block, lam):
        """Worst label of each record and its rival at lam, which noise may have made negative; flipped records."""
        price = np.repeat(self.kappa[block.index] * lam, block.sizes)
        label, rival, at = worst_labels(scores, block.y, np.maximum(price, 0.0))
        flipped = np.zeros(len(scores), dtype=bool)
        flipped[at] = True
        # where a flip earns money even a better label can win, and both losses have to be known
        paid = np.flatnonzero(price < 0)
        if len(paid):
            terms = record_terms(scores[paid], block.y[paid])
            flipped[paid] = terms.flip_loss - price[paid] > terms.own_loss
            label, rival = label.copy(), rival.copy()
            label[paid] = np.where(flipped[paid], terms.flip, block.y[paid])
            rival[paid] = np.where(flipped[paid], terms.flip_rival, terms.rival)
        return label, rival, flipped

    def step(self, state, block, flipped, pull, ledger, t):
        """Noisy step of lam."""
        share = np.add.reduceat(block.weight * flipped, block.offsets[:-1])
        kappa, nu = self.kappa[block.index], self.nu[block.index]
        noisy, ledger = self.door(nu * kappa * share, ledger, index=block.index, round=t, bound=nu * kappa)
        return state.lam - nu * (block.settings["radius"] - pull) + noisy, ledger

    def figures(self, M):
        """Spread of the consensus, for `history_`."""
        return {"spread": spread(M[:, : self.n_features], self.norm)}


class _NoMultiplier:
    """Labels stay as they are and lam is not there: no step, no release."""

    def worst(self, scores, block, lam):
        """Own labels."""
        label, rival, _ = worst_labels(scores, block.y, np.inf)
        return label, rival, np.zeros(len(block.y), dtype=bool)

    def step(self, state, block, flipped, pull, ledger, t):
        """No multiplier, no release."""
        return state.lam, ledger


@dataclass(frozen=True)
class TrustedLabels(_NoMultiplier):
    """Labels are trusted: no record flips, and eliminating lam leaves r dphi in the model's gradient.

    Parameters
    ----------
    norm : TransportNorm
    n_features : int
        Leading columns that are transported.
    """

    norm: TransportNorm
    n_features: int

    def objective(self, state, block):
        """Robust risk of the clients at their own noisy models, shape (n_clients,); exact."""
        loss, _ = margin_violations(block.scores(state.model), block.y)
        phi, _ = _spreads(state.model, self.norm, self.n_features)
        return phi * block.settings["radius"] + np.add.reduceat(block.weight * loss, block.offsets[:-1])

    def slope(self, state, block):
        """Public part r dphi(M~)."""
        radius = block.settings["radius"]
        return Slope(
            radius.reshape(-1, 1, 1) * _spreads(state.model, self.norm, self.n_features)[1], radius, state.tau
        )

    def figures(self, M):
        """Spread of the consensus, for `history_`."""
        return {"spread": spread(M[:, : self.n_features], self.norm)}


@dataclass(frozen=True)
class NoBall(_NoMultiplier):
    """No ball at all: the mean loss with a ridge.

    Parameters
    ----------
    risk : RidgeRisk
    """

    risk: RidgeRisk

    def objective(self, state, block):
        """Regularised mean loss of the clients at their own noisy models, shape (n_clients,); exact."""
        return self.risk.values(state.model, block)

    def slope(self, state, block):
        """Slope of the ridge."""
        return Slope(self.risk.slope(state.model), state.lam, state.tau)

    def figures(self, M):
        """Nothing beyond what the algorithm reports."""
        return {}
