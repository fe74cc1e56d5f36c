"""Linearised consensus ADMM with noisy local models: Algorithm 2 of Hernandez, Ibrahim & Gebraeel as published.

client_step, all states from zero, with  a = max(0, tau + gamma (phi(M~) - lam~)) after both updates of duals:
    mu  <- mu + M~ - M,   tau <- max(0, tau + gamma (phi(M~) - lam~))    (the broadcast closes the last round)
    M_g    = (M~/eta + rho (M - mu) - (data gradient at M~, lam~) - a dphi(M~)) / (rho + 1/eta)
    lam_g  = lam~ - nu (r - kappa * share of flipped records - a)
    M~ <- M_g + noise,   lam~ <- lam_g + noise
server_step:  M <- sum_g alpha_g (M~_g + mu_g)

The noise stays in every client's own iterate, so the sum carries that of all clients; noise added once to the
sum is not offered here: the duals would subtract it again in the next round.  With trusted labels (kappa = inf)
lam has no data term: it is eliminated, a = r, and only M~ is released.  Without a ball and with a ridge in its
place this is DP-ADMM (Huang et al. 2019).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...losses.crammer_singer import GRADIENT_NORM, label_weights
from ...privacy.ledger import Release
from .multipliers import FlippedLabels, NoBall, TrustedLabels

__all__ = ["ClientStates", "LinearisedADMM", "ServerState", "StepSizes", "dp_admm_steps"]


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


def dp_admm_steps(
    *,
    n_records: np.ndarray,
    shape: tuple[int, int],
    data_norm: float,
    reg: float,
    c_model: float,
    multiplier: float,
) -> np.ndarray:
    """First step sizes c / D of DP-ADMM, with D^2 = (sqrt2 L + reg c)^2 + K P (2 sqrt2 L sigma_rel / N_g)^2.

    D bounds the size of a noisy gradient for a model of norm at most c.

    Parameters
    ----------
    n_records : ndarray of shape (n_clients,)
    shape : tuple of int
        (n_classes, n_columns) of the model.
    data_norm, reg, c_model : float
    multiplier : float
        Noise multiplier sigma / sensitivity.

    Returns
    -------
    eta : ndarray of shape (n_clients,)
    """
    gradient = GRADIENT_NORM * data_norm + reg * c_model
    noise = 2 * GRADIENT_NORM * data_norm * multiplier / n_records
    return c_model / np.sqrt(gradient**2 + shape[0] * shape[1] * noise**2)


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
    n_classes : int
    alpha : ndarray of shape (n_clients,)
        Public client weights, sum one.
    rho : float
        Consensus penalty.
    eta : ndarray of shape (n_clients,)
        Step sizes of the model in the first round.
    data_norm : float
        Bound on the l2 norm of a row, constant column included.
    labels : FlippedLabels, TrustedLabels or NoBall
    door : callable
        For the noisy models.
    decay : float
        Step sizes of round t are eta / t^decay.
    """

    n_classes: int
    alpha: np.ndarray
    rho: float
    eta: np.ndarray
    data_norm: float
    labels: FlippedLabels | TrustedLabels | NoBall
    door: Callable
    decay: float = 0.0
    clients_per_task: ClassVar[None] = None
    exchanges: ClassVar[int] = 1

    def client_start(self, block):
        """All states zero."""
        models = np.zeros((block.n_clients, self.n_classes, block.X.shape[1]))
        zero = np.zeros(block.n_clients)
        return ClientStates(models, models, zero, zero, ())

    def client_step(self, state, block, broadcast):
        """One linearised step of all clients of the block, stacked."""
        M, t = broadcast["model"], int(broadcast["round"])
        mu = state.mu + state.model - M
        slope = self.labels.slope(state, block)
        label, rival, flipped = self.labels.worst(block.scores(state.model), block, state.lam)
        data = block.sums(label_weights(label, rival, block.weight, self.n_classes))
        first_eta = self.eta[block.index].reshape(-1, 1, 1)
        eta = first_eta * (t + 1.0) ** -self.decay
        first_scale, scale = self.rho + 1.0 / first_eta, self.rho + 1.0 / eta
        # only what depends on records passes the door: sums with large states would round differently for
        # neighbours, and the bound would not be a constant; where steps decay, it passes in units of the first
        noisy, ledger = self.door(
            -data / first_scale,
            state.ledger,
            index=block.index,
            round=t,
            bound=GRADIENT_NORM * self.data_norm / first_scale.ravel(),
        )
        public = state.model / eta + self.rho * (M - mu) - slope.model
        model = public / scale + first_scale / scale * noisy
        lam, ledger = self.labels.step(state, block, flipped, slope.pull, ledger, t)
        messages = [{"model": model[g], "dual": mu[g]} for g in range(block.n_clients)]
        return messages, ClientStates(model, mu, lam, slope.tau, ledger)

    def exact_objective(self, state, block, broadcast):
        """Objective at M~ and lam~ without noise, shape (n_clients,): a leak if it leaves a private fit."""
        return self.labels.objective(state, block)

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
            **self.labels.figures(server.model),
            "consensus_violation": float(self.alpha @ disagreement),
        }
