"""Linearised consensus ADMM with noisy local models: Algorithm 2 of Hernandez, Ibrahim & Gebraeel as published.

client_step, all states from zero, with  a = max(0, tau + gamma (phi(M~) - lam~)):
    mu  <- mu + M~ - M                                                (the broadcast closes the last round)
    M_g    = (M~/eta + rho (M - mu) - (data gradient at M~, lam~) - a dphi(M~)) / (rho + 1/eta)
    lam_g  = lam~ - nu (r - kappa * share of flipped records - a)
    M~ <- M_g + noise,   lam~ <- lam_g + noise,   tau <- max(0, tau + gamma (phi(M~) - lam~))
server_step:  M <- sum_g alpha_g (M~_g + mu_g)

The noise stays in every client's own iterate, so the sum carries that of all clients; noise added once to the
sum is not offered here: the duals would subtract it again in the next round.  With trusted labels (kappa = inf)
lam has no data term: it is eliminated, a = r, and only M~ is released.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...ambiguity.transport import TransportNorm, spread, spread_subgradient
from ...ambiguity.wasserstein import record_terms, worst_labels
from ...losses.crammer_singer import GRADIENT_NORM, label_weights, margin_violations
from ...privacy.ledger import Release

__all__ = ["ClientStates", "FlippedLabels", "LinearisedADMM", "ServerState", "StepSizes", "TrustedLabels"]


@dataclass(frozen=True)
class StepSizes:
    """Step sizes of Theorem 3, equation (13), from public numbers only; arrays of shape (n_clients,).

    `eta` is the model's, `nu` the multiplier's.
    """

    eta: np.ndarray
    nu: np.ndarray

    PENALTY_BOUND: ClassVar[float] = 0.4  # C: largest slope of the penalty in M that the paper allows for
    MULTIPLIER_BOUND: ClassVar[float] = 1.0  # V: its largest slope in lam

    @classmethod
    def of_theorem_3(
        cls,
        *,
        n_rounds: int,
        n_records: np.ndarray,
        shape: tuple[int, int],
        data_norm: float,
        radius: np.ndarray,
        kappa: np.ndarray,
        c_model: float,
        c_lambda: float,
        model_multiplier: float,
        lambda_multiplier: float,
    ) -> "StepSizes":
        """Steps that balance the size of a subgradient against that of the noise.

        Parameters
        ----------
        n_rounds : int
        n_records, radius, kappa : ndarray of shape (n_clients,)
        shape : tuple of int
            (n_classes, n_columns) of the model.
        data_norm, c_model, c_lambda : float
        model_multiplier, lambda_multiplier : float
            Noise multipliers sigma / sensitivity; for the paper's formula sqrt(2 ln(1.25/delta)) / epsilon.
        """
        size = 2.0 * (data_norm + cls.PENALTY_BOUND) ** 2
        noise = 8.0 * shape[0] * shape[1] * (data_norm * model_multiplier / n_records) ** 2
        eta = c_model / np.sqrt(n_rounds * (size + noise))
        trusted = ~np.isfinite(kappa)
        finite = np.where(trusted, 0.0, kappa)
        slope = np.maximum(radius, finite - radius)
        noise = (finite * lambda_multiplier / n_records) ** 2
        nu = c_lambda / np.sqrt(n_rounds * ((slope + cls.MULTIPLIER_BOUND) ** 2 + noise))
        return cls(eta, nu)


@dataclass(frozen=True)
class FlippedLabels:
    """Labels may flip at a finite cost: the multiplier lam takes noisy steps of its own.

    Parameters
    ----------
    kappa, nu : ndarray of shape (n_clients,)
    gamma : float
        Weight of the penalty for lam < phi(M).
    door : callable
        For the noisy multiplier.
    """

    kappa: np.ndarray
    nu: np.ndarray
    gamma: float
    door: Callable

    def objective(self, state, block, phi):
        """Augmented objective h_g of Theorem 3 at the clients' own noisy iterates, shape (n_clients,); exact."""
        terms = record_terms(block.scores(state.model), block.y)
        price = np.repeat(self.kappa[block.index] * state.lam, block.sizes)
        worst = block.weight * np.maximum(terms.own_loss, terms.flip_loss - price)
        hinge = np.maximum(0.0, state.tau + self.gamma * (phi - state.lam))
        penalty = (hinge**2 - state.tau**2) / (2 * self.gamma)
        return state.lam * block.settings["radius"] + np.add.reduceat(worst, block.offsets[:-1]) + penalty

    def pull(self, state, phi, radius):
        """Weight a of dphi in the model's gradient."""
        return np.maximum(0.0, state.tau + self.gamma * (phi - state.lam))

    def worst(self, scores, block, lam):
        """Worst label of each record and its rival at lam, which noise may have made negative; flipped records."""
        terms = record_terms(scores, block.y)
        price = np.repeat(self.kappa[block.index] * lam, block.sizes)
        flipped = terms.flip_loss - price > terms.own_loss
        return (
            np.where(flipped, terms.flip, block.y),
            np.where(flipped, terms.flip_rival, terms.rival),
            flipped,
        )

    def step(self, state, block, flipped, pull, ledger, t):
        """Noisy step of lam."""
        share = np.add.reduceat(block.weight * flipped, block.offsets[:-1])
        kappa, nu = self.kappa[block.index], self.nu[block.index]
        noisy, ledger = self.door(nu * kappa * share, ledger, index=block.index, round=t, bound=nu * kappa)
        return state.lam - nu * (block.settings["radius"] - pull) + noisy, ledger

    def dual(self, tau, phi, lam):
        """Dual of lam >= phi(M)."""
        return np.maximum(0.0, tau + self.gamma * (phi - lam))


@dataclass(frozen=True)
class TrustedLabels:
    """Labels are trusted: no record flips, and eliminating lam leaves r dphi in the model's gradient."""

    def objective(self, state, block, phi):
        """Robust risk of the clients at their own noisy models, shape (n_clients,); exact."""
        loss, _ = margin_violations(block.scores(state.model), block.y)
        return phi * block.settings["radius"] + np.add.reduceat(block.weight * loss, block.offsets[:-1])

    def pull(self, state, phi, radius):
        """The radius."""
        return radius

    def worst(self, scores, block, lam):
        """Own labels."""
        label, rival, _ = worst_labels(scores, block.y, np.inf)
        return label, rival, np.zeros(len(block.y), dtype=bool)

    def step(self, state, block, flipped, pull, ledger, t):
        """No multiplier, no release."""
        return state.lam, ledger

    def dual(self, tau, phi, lam):
        """No constraint, no dual."""
        return tau


@dataclass(frozen=True)
class ClientStates:
    """Noisy states of a block's clients, which are all that it keeps, and what it released.

    `model` M~ and `mu` have shape (n_clients, n_classes, n_columns), `lam` and `tau` (n_clients,).
    """

    model: np.ndarray
    mu: np.ndarray
    lam: np.ndarray
    tau: np.ndarray
    ledger: tuple[Release, ...]


@dataclass(frozen=True)
class ServerState:
    """The consensus model and the clients' last noisy models and duals after `round` rounds."""

    model: np.ndarray
    local: np.ndarray
    dual: np.ndarray
    heard: np.ndarray
    round: int


@dataclass(frozen=True)
class LinearisedADMM:
    """Public settings of Algorithm 2; see the module for the method.

    Parameters
    ----------
    norm : TransportNorm
    n_classes, n_features : int
        All public classes; `n_features` leading columns are transported.
    alpha : ndarray of shape (n_clients,)
        Public client weights, sum one.
    rho : float
        Consensus penalty.
    eta : ndarray of shape (n_clients,)
        Step sizes of the model.
    data_norm : float
        Bound on the l2 norm of a row, constant column included.
    labels : FlippedLabels or TrustedLabels
    door : callable
        For the noisy models.
    """

    norm: TransportNorm
    n_classes: int
    n_features: int
    alpha: np.ndarray
    rho: float
    eta: np.ndarray
    data_norm: float
    labels: FlippedLabels | TrustedLabels
    door: Callable
    clients_per_task: ClassVar[None] = None

    def client_start(self, block):
        """All states zero."""
        models = np.zeros((block.n_clients, self.n_classes, block.X.shape[1]))
        zero = np.zeros(block.n_clients)
        return ClientStates(models, models, zero, zero, ())

    def client_step(self, state, block, broadcast):
        """One linearised step of all clients of the block, stacked."""
        M, t = broadcast["model"], int(broadcast["round"])
        radius, eta = block.settings["radius"], self.eta[block.index]
        mu = state.mu + state.model - M
        phi, C = self._spreads(state.model)
        pull = self.labels.pull(state, phi, radius)
        label, rival, flipped = self.labels.worst(block.scores(state.model), block, state.lam)
        data = block.sums(label_weights(label, rival, block.weight, self.n_classes))
        per_client = (-1, 1, 1)
        public = state.model / eta.reshape(per_client) + self.rho * (M - mu) - pull.reshape(per_client) * C
        scale = (self.rho + 1.0 / eta).reshape(per_client)
        # only what depends on records passes the door: sums with large states would round differently for
        # neighbours, and the bound would not be a constant
        noisy, ledger = self.door(
            -data / scale,
            state.ledger,
            index=block.index,
            round=t,
            bound=GRADIENT_NORM * self.data_norm / scale.ravel(),
        )
        model = public / scale + noisy
        lam, ledger = self.labels.step(state, block, flipped, pull, ledger, t)
        tau = self.labels.dual(state.tau, self._spreads(model)[0], lam)
        messages = [{"model": model[g], "dual": mu[g]} for g in range(block.n_clients)]
        return messages, ClientStates(model, mu, lam, tau, ledger)

    def exact_objective(self, state, block, broadcast):
        """h_g at M~ and lam~ without noise, shape (n_clients,): a leak if it leaves a private fit."""
        return self.labels.objective(state, block, self._spreads(state.model)[0])

    def _spreads(self, models):
        """Phi and one of its subgradients for each client's model."""
        C, phi = np.zeros_like(models), np.empty(len(models))
        for g, model in enumerate(models):
            W = model[:, : self.n_features]
            phi[g] = spread(W, self.norm)
            C[g, :, : self.n_features] = spread_subgradient(W, self.norm)
        return phi, C

    def server_start(self, n_clients, shape):
        """Zero models."""
        nobody = np.zeros((n_clients, *shape))
        return ServerState(np.zeros(shape), nobody, nobody, np.zeros(n_clients, dtype=bool), 0)

    def broadcast(self, server):
        """The consensus and the number of rounds behind it."""
        return {"model": server.model, "round": np.asarray(server.round)}

    def server_step(self, server, replies, clients):
        """Weighted mean of noisy models and duals; a client that is absent counts with its last ones."""
        local, dual, heard = server.local.copy(), server.dual.copy(), server.heard.copy()
        for g, reply in zip(clients, replies, strict=True):
            local[g], dual[g], heard[g] = reply["model"], reply["dual"], True
        alpha = self.alpha[heard] / self.alpha[heard].sum()
        M = np.tensordot(alpha, local[heard] + dual[heard], axes=1)
        return replace(server, model=M, local=local, dual=dual, heard=heard, round=server.round + 1)

    def memory(self, server, client):
        """The client's last noisy model and dual; None if it was never heard of."""
        return {"model": server.local[client], "dual": server.dual[client]} if server.heard[client] else None

    def resume(self, state, block, memory):
        """Model and dual that the server takes the client to have; the multiplier stays the client's own."""
        zero = np.zeros_like(state.model)
        if memory is None:
            return replace(state, model=zero, mu=zero)
        return replace(state, model=memory["model"][None], mu=memory["dual"][None])

    def ledger(self, server, states):
        """All releases of the run, at the clients."""
        return [line for state in states for line in state.ledger]

    def finished(self, server):
        """Never: stopping on data would be a release."""
        return False

    def report(self, server):
        """Functions of what the server received only."""
        disagreement = np.linalg.norm(server.local - server.model, axis=(1, 2))
        return {
            "model_norm": float(np.linalg.norm(server.model)),
            "spread": spread(server.model[:, : self.n_features], self.norm),
            "consensus_violation": float(self.alpha @ disagreement),
        }
