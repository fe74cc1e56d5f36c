"""Many runs of descent-ascent at once: the steps of `steps.descent_ascent` stacked over runs and clients.

For studies that repeat a federation with other data; a fit goes through `in_process`, one federation at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ambiguity.mixture import MixtureBall
from .local_risks import Records, batch_means
from .steps.descent_ascent import local_models, next_iterate

__all__ = ["Trajectory", "simulate"]


@dataclass(frozen=True)
class Trajectory:
    """Iterates of all runs after chosen numbers of rounds.

    Parameters
    ----------
    rounds : ndarray of int, shape (n_checkpoints,)
    model, average : ndarrays of shape (n_checkpoints, n_runs, n_outputs, n_columns)
        The last iterate, and the mean of the models broadcast so far.
    alpha, average_alpha : ndarrays of shape (n_checkpoints, n_runs, n_clients)
    """

    rounds: np.ndarray
    model: np.ndarray
    average: np.ndarray
    alpha: np.ndarray
    average_alpha: np.ndarray


def simulate(
    records: Records,
    X: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    penalty: np.ndarray,
    mixture: MixtureBall,
    *,
    checkpoints: Sequence[int],
    step: float,
    mixture_step: float,
    model_bound: float,
    batch_size: int | None,
    rng: np.random.Generator,
    n_outputs: int = 1,
) -> Trajectory:
    """Run descent-ascent on the data of many runs.

    Parameters
    ----------
    records : Records
    X : ndarray of shape (n_runs, n_clients, n_longest, n_columns)
        Rows, padded at the end of each client's.
    y : ndarray of shape (n_runs, n_clients, n_longest)
    sizes : ndarray of int, shape (n_clients,)
        Rows of each client.
    penalty : ndarray of shape (n_clients,)
    mixture : MixtureBall
    checkpoints : sequence of int
        Increasing numbers of rounds; the last one is when to stop.
    step, mixture_step, model_bound : float
    batch_size : int or None
        Fresh records of each client in each round; None takes all.
    rng : numpy.random.Generator
    n_outputs : int
        Rows of a model.

    Returns
    -------
    Trajectory

    Examples
    --------
    >>> from skdro.federation.local_risks import UnmovedRecords
    >>> from skdro.losses import squared
    >>> X = np.array([[-1.0], [1.0]]).reshape(1, 1, 2, 1).repeat(2, axis=1)  # one run, two clients
    >>> y = X[..., 0] * np.array([1.0, -1.0])[None, :, None]
    >>> path = simulate(
    ...     UnmovedRecords(squared), X, y, np.array([2, 2]), np.ones(2), MixtureBall(np.array([0.9, 0.1]), 1.0),
    ...     checkpoints=[3000], step=0.03, mixture_step=0.03, model_bound=9.0, batch_size=None,
    ...     rng=np.random.default_rng(0),
    ... )
    >>> bool(abs(path.average[-1, 0, 0, 0]) < 0.05)
    True
    """
    n_runs, n_clients, longest, n_columns = X.shape
    model = np.zeros((n_runs, n_outputs, n_columns))
    alpha = np.tile(mixture.nominal, (n_runs, 1))
    model_sum, alpha_sum = np.zeros_like(model), np.zeros_like(alpha)
    first = np.arange(n_runs * n_clients).reshape(n_runs, n_clients, 1) * longest
    X, y = X.reshape(-1, n_columns), y.ravel()
    rows, weight = _all_rows(first, sizes, longest)
    if batch_size is not None:
        weight = np.full((n_clients, batch_size), 1.0 / batch_size)
    drawn = (n_runs, n_clients, weight.shape[1])
    kept = []
    for t in range(1, checkpoints[-1] + 1):
        if batch_size is not None:
            rows = first + rng.integers(sizes[:, None], size=drawn)
        normals = rng.standard_normal((*drawn, records.n_moved)) if records.n_moved else None
        value, slope, Z = records.respond(model[:, None, None], X[rows], y[rows], penalty[:, None], normals)
        values, gradients = batch_means(value, slope, Z, weight)
        model_sum += model
        alpha_sum += alpha
        models = local_models(model, gradients, step)
        model, alpha = next_iterate(alpha, models, values, mixture, mixture_step, model_bound)
        if t in checkpoints:
            kept.append((t, model, model_sum / t, alpha, alpha_sum / t))
    return Trajectory(*(np.array(column) for column in zip(*kept, strict=True)))


def _all_rows(first, sizes, longest):
    """Every row of every client once, and its weight: 0 for padding."""
    real = np.arange(longest) < sizes[:, None]
    return first + np.arange(longest), real / sizes[:, None]
