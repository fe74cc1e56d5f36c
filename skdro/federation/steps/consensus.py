"""Consensus ADMM for the federated robust problem (Algorithm 1 of Hernandez, Ibrahim & Gebraeel, Fed DRO).

    minimise  sum_g alpha_g F_g(M_g)   subject to  M_g = M           (F_g: robust risk of client g, unweighted)

client_step:  mu_g = z_g - M;  M_g = argmin F_g(X) + rho/2 ||X - (M - mu_g)||^2;
              H_g = w M_g + (1 - w) M   (over-relaxation w);   z_g = H_g + mu_g is what the server averages
server_step:  M <- sum alpha_g z_g / sum alpha_g over the clients heard of so far;  residuals, rho, stopping

The dual of a client is never stored by itself: with full participation mu_g = z_g - M holds exactly, and a
client that comes back after an absence restarts from it.  A change of rho rescales mu_g by rho_old / rho_new,
which both sides do from the rho that z_g was formed with.  The paper keeps rho fixed and stops after n_rounds;
`adapt_until=0` and `tol=0` give that.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...ambiguity.transport import TransportNorm
from ...ambiguity.wasserstein import RobustRisk
from ..client_data import ClientBlock, client_risk
from ..protocol import Message

__all__ = ["ConsensusADMM", "ServerState"]

OVER_RELAXATION = 1.7
IMBALANCE = 5.0  # relative residuals further apart than this move rho ...
BALANCE_EVERY = 10  # ... but not before it has had this many rounds to act
# The dual residual is a gradient.  For rows of unit mean square a record's gradient has norm sqrt 2, so a tenth
# is the scale below which differences between clients (the dual scale, zero for a single client) do not matter.
DUAL_FLOOR = 0.1
PRIMAL_FLOOR = 1e-6


@dataclass(frozen=True)
class ClientState:
    """What a client keeps between rounds: arrays and numbers only.

    `z` is its last message and `rho` the penalty that formed it; `local` is its own model; `warm` what its
    solver keeps (cuts).
    """

    z: np.ndarray | None
    rho: float
    local: np.ndarray | None
    warm: object


@dataclass(frozen=True)
class ServerState:
    """What the server knows after a round.

    Parameters
    ----------
    model : ndarray of shape (n_classes, n_columns)
        The consensus M.
    z, local : ndarray of shape (n_clients, n_classes, n_columns)
        Last messages: what is averaged, and the clients' own models.
    rho_of : ndarray of shape (n_clients,)
        The penalty that each z was formed with; NaN for a client never heard of.
    rho : float
        Penalty of the next round.
    primal, dual : float
        Residuals of this round in the norm weighted by alpha.
    primal_scale, dual_scale : float
        What `tol` multiplies.
    objective : float
        sum alpha_g F_g at the model *broadcast* in this round, over the clients that took part.
    round : int
        Rounds completed.
    best_model : ndarray of shape (n_classes, n_columns)
        Broadcast model with the least objective so far: ADMM is no descent method, and its last model may be ten
        times further from the optimum than the best one.
    best_objective : float
        Its objective, known from rounds in which all clients took part.
    """

    model: np.ndarray
    z: np.ndarray
    local: np.ndarray
    rho_of: np.ndarray
    rho: float
    primal: float
    dual: float
    primal_scale: float
    dual_scale: float
    objective: float
    round: int
    best_model: np.ndarray
    best_objective: float


@dataclass(frozen=True)
class ConsensusADMM:
    """Public settings of the algorithm; see the module for the method.

    Parameters
    ----------
    norm : TransportNorm
    n_classes, n_features : int
        `n_features` leading columns are transported.
    alpha : ndarray of shape (n_clients,)
        Client weights, sum one.
    solve : callable
        ``solve(problem, centre, rho, warm) -> (M_g, warm)`` minimises F_g + rho/2 ||. - centre||^2.
    rho : float
        Penalty of the first round.
    adapt_until : int
        Rounds during which rho is balanced by the residuals; 0 keeps it fixed.
    tol : float
        Relative tolerance on both residuals; 0 never stops.
    """

    norm: TransportNorm
    n_classes: int
    n_features: int
    alpha: np.ndarray
    solve: Callable
    rho: float
    adapt_until: int
    tol: float
    clients_per_task: ClassVar[int] = 1
    exchanges: ClassVar[int] = 1

    def risk(self, block: ClientBlock, g: int) -> RobustRisk:
        """Robust risk F_g of the block's g-th client."""
        return client_risk(block, g, self.norm, self.n_classes, self.n_features)

    def client_start(self, block: ClientBlock) -> list[ClientState]:
        """No duals, no cuts."""
        return [ClientState(None, self.rho, None, None)] * block.n_clients

    def client_step(self, state, block, broadcast):
        """One prox problem a client."""
        M, rho = broadcast["model"], float(broadcast["rho"])
        problems = [self.risk(block, g) for g in range(block.n_clients)]
        pairs = [self._one_client(*client, M, rho) for client in zip(state, problems, strict=True)]
        return [reply for reply, _ in pairs], [new for _, new in pairs]

    def _one_client(self, state, problem, M, rho):
        mu = np.zeros_like(M) if state.z is None else (state.z - M) * (state.rho / rho)
        local, warm = self.solve(problem, M - mu, rho, state.warm)
        z = OVER_RELAXATION * local + (1 - OVER_RELAXATION) * M + mu
        reply = {"z": z, "local": local, "risk": np.asarray(problem.value(M)[0])}
        return reply, ClientState(z, rho, local, warm)

    def memory(self, server: ServerState, client: int) -> Message | None:
        """The last z_g that arrived, and the penalty that it was formed with."""
        if np.isnan(server.rho_of[client]):
            return None
        return {"z": server.z[client], "rho": np.asarray(server.rho_of[client])}

    def resume(self, state, block, memory):
        """The dual that the server takes the client to have: mu_g = z_g - M, or zero; cuts survive."""
        if memory is None:
            return [replace(own, z=None) for own in state]
        return [replace(own, z=memory["z"], rho=float(memory["rho"])) for own in state]

    def server_start(self, n_clients, shape):
        """The zero model, and nobody heard of."""
        nobody = np.zeros((n_clients, *shape))
        unknown = np.full(n_clients, np.nan)
        inf = float("inf")
        zero = np.zeros(shape)
        return ServerState(zero, nobody, nobody, unknown, self.rho, inf, inf, 1.0, 1.0, float("nan"), 0, zero, inf)

    def broadcast(self, server: ServerState) -> Message:
        """Model and penalty."""
        return {"model": server.model, "rho": np.asarray(server.rho)}

    def server_step(self, server, replies, clients):
        """Average, residuals, next rho."""
        server = _receive(server, replies, clients)
        heard = np.flatnonzero(~np.isnan(server.rho_of))
        alpha = self.alpha[heard] / self.alpha[heard].sum()
        M_old, rho, ratio = server.model, server.rho, server.rho_of[heard] / server.rho
        z = M_old + ratio[:, None, None] * (server.z[heard] - M_old)
        M = np.tensordot(alpha, z, axes=1)
        local = server.local[heard]
        primal = _weighted_norm(alpha, local - M)
        dual = rho / OVER_RELAXATION * float(np.linalg.norm(M - M_old))
        primal_scale = max(float(np.linalg.norm(M)), _weighted_norm(alpha, local), PRIMAL_FLOOR)
        dual_scale = max(rho * _weighted_norm(alpha, z - M), DUAL_FLOOR)
        risks = np.array([float(reply["risk"]) for reply in replies])
        weight = self.alpha[list(clients)]
        objective = float(weight @ risks / weight.sum()) if weight.sum() > 0 else float("nan")
        better = len(clients) == len(self.alpha) and objective < server.best_objective
        return replace(
            server,
            model=M,
            rho=self._next_rho(rho, primal / primal_scale, dual / dual_scale, server.round + 1),
            primal=primal,
            dual=dual,
            primal_scale=primal_scale,
            dual_scale=dual_scale,
            objective=objective,
            round=server.round + 1,
            best_model=M_old if better else server.best_model,
            best_objective=objective if better else server.best_objective,
        )

    def _next_rho(self, rho, primal, dual, rounds):
        """Residual balancing (Boyd et al. 2011, 3.4.1) on relative residuals (Wohlberg 2017)."""
        if rounds >= self.adapt_until or rounds % BALANCE_EVERY:
            return rho
        if primal > IMBALANCE * dual:
            return 2.0 * rho
        if dual > IMBALANCE * primal:
            return 0.5 * rho
        return rho

    def report(self, server: ServerState) -> dict[str, float]:
        """Residuals, penalty and the objective of the model that the round began with."""
        return {
            "primal_residual": server.primal,
            "dual_residual": server.dual,
            "rho": server.rho,
            "objective": server.objective,
        }

    def finished(self, server: ServerState) -> bool:
        """Both residuals within tolerance."""
        return (
            self.tol > 0
            and server.primal <= self.tol * server.primal_scale
            and server.dual <= self.tol * server.dual_scale
        )


def _receive(server, replies, clients):
    z, local, rho_of = server.z.copy(), server.local.copy(), server.rho_of.copy()
    for g, reply in zip(clients, replies, strict=True):
        z[g], local[g], rho_of[g] = reply["z"], reply["local"], server.rho
    return replace(server, z=z, local=local, rho_of=rho_of)


def _weighted_norm(alpha, D):
    return float(np.sqrt(alpha @ (D**2).sum(axis=(1, 2))))
