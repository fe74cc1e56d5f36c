"""Gradient descent at the broadcast model: the default of the private classifiers (`variant="global"`).

client_step:  G_g = mean worst-case subgradient of client g at M, the branch chosen by lam = phi(M)
server_step:  M  <- M - c / sqrt(t) * ( sum_g alpha_g G_g + r dphi(M) ),     r = sum_g alpha_g r_g

M and so phi(M) are public: no multiplier, no dual, no client state depends on data, and G_g is the only release.
The data term is not differentiated through lam, which makes this a heuristic for the robust problem: exact where
no flipped label is active at lam = phi(M).  With r = 0 and kappa = inf it is plain subgradient descent.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...ambiguity.transport import TransportNorm, spread, spread_subgradient
from ...ambiguity.wasserstein import worst_labels
from ...losses.crammer_singer import GRADIENT_NORM, label_weights
from ...privacy.ledger import Release
from ..client_data import client_risk

__all__ = ["GradientDescent", "ServerState"]


@dataclass(frozen=True)
class ServerState:
    """The public model after `round` rounds, and what was released at the server."""

    model: np.ndarray
    round: int
    ledger: tuple[Release, ...]


@dataclass(frozen=True)
class GradientDescent:
    """Public settings of the algorithm; see the module for the method.

    Parameters
    ----------
    norm : TransportNorm
    n_classes, n_features : int
        All public classes; `n_features` leading columns are transported.
    alpha : ndarray of shape (n_clients,)
        Public client weights, sum one.
    radius : float
        r = sum_g alpha_g r_g.
    step : float
        c in the step size c / sqrt(t).
    data_norm : float
        Bound L on the l2 norm of a row, constant column included.
    at_client, at_server : callable
        Doors (see `federation.doors`) for a client's mean gradient and for the weighted sum.
    """

    norm: TransportNorm
    n_classes: int
    n_features: int
    alpha: np.ndarray
    radius: float
    step: float
    data_norm: float
    at_client: Callable
    at_server: Callable
    clients_per_task: ClassVar[None] = None

    def client_start(self, block):
        """Nothing released yet: the state of a block is its ledger."""
        return ()

    def client_step(self, ledger, block, broadcast):
        """Mean worst-case gradients of all clients of the block, stacked."""
        M, t = broadcast["model"], int(broadcast["round"])
        phi = spread(M[:, : self.n_features], self.norm)
        # only trusted labels cost inf, also where phi = 0
        price = np.where(np.isfinite(block.settings["kappa"]), block.settings["kappa"], 0.0) * phi
        price[~np.isfinite(block.settings["kappa"])] = np.inf
        label, rival, _ = worst_labels(block.X @ M.T, block.y, np.repeat(price, block.sizes))
        exact = block.sums(label_weights(label, rival, block.weight, self.n_classes))
        bound = GRADIENT_NORM * self.data_norm
        gradients, ledger = self.at_client(exact, ledger, index=block.index, round=t, bound=bound)
        return [{"gradient": G} for G in gradients], ledger

    def exact_objective(self, state, block, broadcast):
        """F_g at the broadcast model, without noise, shape (n_clients,): a leak if it leaves a private fit."""
        return np.array(
            [
                client_risk(block, g, self.norm, self.n_classes, self.n_features).value(broadcast["model"])[0]
                for g in range(block.n_clients)
            ]
        )

    def server_start(self, n_clients, shape):
        """The zero model."""
        return ServerState(np.zeros(shape), 0, ())

    def broadcast(self, server):
        """The model and the number of rounds behind it."""
        return {"model": server.model, "round": np.asarray(server.round)}

    def server_step(self, server, replies, clients):
        """One public step along the weighted sum of what was released."""
        weights = self.alpha[list(clients)]
        weights = weights / weights.sum()  # where clients are absent (local noise only) the rest stand for them
        total = np.tensordot(weights, np.array([reply["gradient"] for reply in replies]), axes=1)
        released, ledger = self.at_server(
            total[None],
            server.ledger,
            index=np.zeros(1, dtype=int),
            round=server.round,
            bound=GRADIENT_NORM * self.data_norm,
        )
        M, direction = server.model, released[0].copy()
        W = M[:, : self.n_features]
        direction[:, : self.n_features] += self.radius * spread_subgradient(W, self.norm)
        t = server.round + 1
        return replace(server, model=M - self.step / np.sqrt(t) * direction, round=t, ledger=ledger)

    def ledger(self, server, states):
        """All releases of the run: at the clients and at the server."""
        return [line for lines in states for line in lines] + list(server.ledger)

    def finished(self, server):
        """Never: stopping on data would be a release."""
        return False

    def report(self, server):
        """Functions of the public model only."""
        return {
            "model_norm": float(np.linalg.norm(server.model)),
            "spread": spread(server.model[:, : self.n_features], self.norm),
        }
