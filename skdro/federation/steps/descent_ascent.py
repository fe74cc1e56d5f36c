"""BiDRO-FL (Algorithm 1 of Liu et al., [1]_) and agnostic federated learning: descent in x, ascent in the mixture.

    minimise over x   max over alpha in A of  sum_i alpha_i F_i(x)

client_step:  g_i = F_i(x_t), G_i = dF_i(x_t), on all rows or on a fresh sample;    x_i = x_t - eta_x G_i
server_step:  x_{t+1} = Proj_X( sum_i alpha_i x_i ),   alpha_{t+1} = Proj_A( alpha_t + eta_alpha g )

F_i is a local risk (`federation.local_risks`); with the plain mean loss this is AFL.  X is the box |x_j| <= bound, A
a ball of mixtures.  Theorem 7 bounds the averaged iterate's distance from the minimax value by O(1 / sqrt(T)) for
steps 1 / sqrt(T); `objective` in the report is what it is about, max over A of alpha . F there, on all rows.

.. [1] Liu, Li, You, Cherukuri. Distributionally Robust Federated Learning with Multi-Source Data. arXiv 2609.20501.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...ambiguity.mixture import MixtureBall
from ..local_risks import LocalRisk

__all__ = ["DescentAscent", "ServerState", "client_stream", "local_models", "next_iterate"]


def local_models(model: np.ndarray, gradients: np.ndarray, step: float) -> np.ndarray:
    """The clients' descent steps from the broadcast model.

    Parameters
    ----------
    model : ndarray of shape (..., n_outputs, n_columns)
    gradients : ndarray of shape (..., n_clients, n_outputs, n_columns)
    step : float
        eta_x.
    """
    return model[..., None, :, :] - step * gradients


def next_iterate(
    alpha: np.ndarray,
    models: np.ndarray,
    values: np.ndarray,
    mixture: MixtureBall,
    mixture_step: float,
    model_bound: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The server's step, over any leading axes.

    Parameters
    ----------
    alpha, values : ndarrays of shape (..., n_clients)
    models : ndarray of shape (..., n_clients, n_outputs, n_columns)
    mixture : MixtureBall
    mixture_step : float
        eta_alpha.
    model_bound : float
        Of each coefficient.

    Returns
    -------
    model : ndarray of shape (..., n_outputs, n_columns)
    alpha : ndarray of shape (..., n_clients)
    """
    mean = (alpha[..., None, None] * models).sum(axis=-3)
    return np.clip(mean, -model_bound, model_bound), mixture.project(alpha + mixture_step * values)


def client_stream(seed: int, client: int, round: int) -> np.random.Generator:
    """Random numbers of one client in one round, whatever else is drawn elsewhere."""
    return np.random.Generator(np.random.Philox(key=[seed, client], counter=[0, 0, 0, round]))


@dataclass(frozen=True)
class ServerState:
    """Iterates after `round` rounds.

    Parameters
    ----------
    model, alpha : ndarray
        x and alpha of the next round.
    model_sum, alpha_sum : ndarray
        Sums over the rounds so far of what was broadcast.
    values : ndarray of shape (n_clients,)
        Last g_i that each client sent; 0 before the first.
    bounds : ndarray of shape (n_clients,)
        F_i at the reported model of the last round.
    round : int
    """

    model: np.ndarray
    alpha: np.ndarray
    model_sum: np.ndarray
    alpha_sum: np.ndarray
    values: np.ndarray
    bounds: np.ndarray
    round: int


@dataclass(frozen=True)
class DescentAscent:
    """Public settings of the algorithm; see the module for the method.

    Parameters
    ----------
    risk : LocalRisk
    mixture : MixtureBall
        Of all clients.
    step, mixture_step : float
        eta_x and eta_alpha.
    model_bound : float
        Bound of each coefficient.
    average : bool
        Whether the reported model is the average of the iterates or the last one.
    seed : int
        Of the clients' samples and perturbations.
    monitor : bool
        Whether clients evaluate F_i at the reported model on all their rows in each round.
    """

    risk: LocalRisk
    mixture: MixtureBall
    step: float
    mixture_step: float
    model_bound: float
    average: bool
    seed: int
    monitor: bool
    clients_per_task: ClassVar[None] = None
    exchanges: ClassVar[int] = 1

    def client_start(self, block):
        """What the risk computes once from the rows."""
        return self.risk.prepare(block)

    def client_step(self, state, block, broadcast):
        """Local step from a value and a gradient of F_i at the broadcast model."""
        model, t = broadcast["model"], int(broadcast["round"])
        values, gradients = self.risk.answer(
            state, block, model, lambda g: client_stream(self.seed, int(block.index[g]), t)
        )
        bounds = (
            self.risk.bound(state, block, broadcast["reported"]) if self.monitor else np.full(len(values), np.nan)
        )
        models = local_models(model, gradients, self.step)
        return [
            {"model": x, "value": np.asarray(g), "bound": np.asarray(F)}
            for x, g, F in zip(models, values, bounds, strict=True)
        ], state

    def server_start(self, n_clients, shape):
        """The zero model and the nominal mixture."""
        zero, none = np.zeros(shape), np.zeros(n_clients)
        return ServerState(zero, self.mixture.nominal.copy(), zero, none, none, np.full(n_clients, np.nan), 0)

    def broadcast(self, server):
        """x, alpha, the reported model that clients evaluate, and the number of rounds behind them."""
        return {
            "model": server.model,
            "mixture": server.alpha,
            "reported": (server.model_sum + server.model) / (server.round + 1) if self.average else server.model,
            "round": np.asarray(server.round),
        }

    def server_step(self, server, replies, clients):
        """Step of model and mixture; a client that is absent counts with its last value and no local model."""
        clients = list(clients)
        values, bounds = server.values.copy(), server.bounds.copy()
        values[clients] = [reply["value"] for reply in replies]
        bounds[clients] = [reply["bound"] for reply in replies]
        models = np.repeat(server.model[None], len(values), axis=0)
        models[clients] = [reply["model"] for reply in replies]
        model, alpha = next_iterate(server.alpha, models, values, self.mixture, self.mixture_step, self.model_bound)
        return ServerState(
            model,
            alpha,
            server.model_sum + server.model,
            server.alpha_sum + server.alpha,
            values,
            bounds,
            server.round + 1,
        )

    def reported(self, server):
        """Model and mixture that the method returns: averages over the rounds, or the last ones."""
        if self.average:
            return server.model_sum / server.round, server.alpha_sum / server.round
        return server.model, server.alpha

    def finished(self, server):
        """After the last round only."""
        return False

    def report(self, server):
        """Mixture of the next round, sampled value under it, and the objective where it is known."""
        figures = {"mixture_weights": server.alpha, "value": float(server.alpha @ server.values)}
        if self.monitor:
            figures["objective"] = float(self.mixture.value(server.bounds))
        return figures
