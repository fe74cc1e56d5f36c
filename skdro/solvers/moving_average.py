"""SCDRO without privacy: descent on mini-batches for a Kullback-Leibler ball, with moving averages.

The problem is  min over x and lam >= lam0 of  lam rho + lam log mean_i exp(l_i / lam)  (Qi et al., arXiv 2210.05740,
the non-private reference of the third paper).  The ratio of two means has no unbiased estimate on a batch, so the
means are averaged along the iterates with rate b.  All exponentials are relative to a running maximum, so none
overflows:

    top  <- max(top, losses of the batch),       s, and the part of lam below, are rescaled when it moves
    s    <- (1 - b) s + b mean exp((l - top) / lam)
    v    <- (1 - b) v + b mean[ exp((l - top) / lam) grad l ] / s
    g    <- (1 - b) g + b [ log s + top / lam + rho - mean(l exp((l - top) / lam)) / (lam s) ]
    x    <- x - lr v (and the ridge),     lam <- max(lam0, lam - lr_lam g)
"""

from dataclasses import dataclass

import numpy as np

from ..losses.models import Model, Records

__all__ = ["MovingAverages", "moving_averages"]


@dataclass(frozen=True)
class MovingAverages:
    """Where the descent ended.

    Parameters
    ----------
    parameters : ndarray of shape (n_parameters,)
    temperature : float
        lam.
    log_mean : float
        Running estimate of  log mean exp(l / lam).
    """

    parameters: np.ndarray
    temperature: float
    log_mean: float


def moving_averages(
    model: Model,
    records: Records,
    start: np.ndarray,
    *,
    radius: float,
    min_temperature: float,
    ridge: np.ndarray,
    step: float,
    temperature_step: float,
    rate: float,
    batch_size: int,
    n_steps: int,
    temperature_start: float = 1.0,
    rng: np.random.Generator,
) -> MovingAverages:
    """Minimise the worst-case mean loss over a Kullback-Leibler ball on mini-batches.

    Parameters
    ----------
    model : Model
    records : Records
    start : ndarray of shape (n_parameters,)
    radius : float
        rho > 0.
    min_temperature : float
        lam0 > 0.
    ridge : ndarray of shape (n_parameters,)
        Penalty of each parameter, >= 0.
    step, temperature_step : float
    rate : float
        b, in (0, 1].
    batch_size, n_steps : int
    temperature_start : float
    rng : numpy.random.Generator
        Draws the batches, with replacement unless a batch holds all records.

    Returns
    -------
    MovingAverages

    Examples
    --------
    >>> from skdro.losses.models import LinearModel
    >>> rng = np.random.default_rng(0)
    >>> records = Records.of(np.hstack([rng.normal(size=(50, 2)), np.ones((50, 1))]), np.arange(50) % 2)
    >>> found = moving_averages(
    ...     LinearModel(2, 3, True), records, np.zeros(3), radius=0.1, min_temperature=0.1, ridge=np.zeros(3),
    ...     step=0.3, temperature_step=0.1, rate=0.5, batch_size=10, n_steps=100, rng=rng)
    >>> found.parameters.shape
    (3,)
    """
    n = len(records.y)
    x, lam, top, s, v, g = start, max(temperature_start, min_temperature), -np.inf, 0.0, np.zeros_like(start), 0.0
    for t in range(n_steps):
        rows = np.arange(n) if batch_size >= n else rng.integers(0, n, batch_size)
        batch = Records(records.X[rows], records.y[rows], records.squared_norm[rows])
        evaluation = model.evaluate(x, batch)
        losses, b = evaluation.losses, rate if t else 1.0  # the first batch is all there is
        old, top = top, max(top, float(losses.max()))
        s = s * float(np.exp((old - top) / lam)) if t else 0.0
        e = np.exp((losses - top) / lam)
        s = max((1.0 - b) * s + b * float(e.mean()), np.finfo(float).tiny)
        log_mean = float(np.log(s)) + top / lam
        v = (1.0 - b) * v + b * evaluation.gradient_sum(e / len(rows)) / s
        g = (1.0 - b) * g + b * (log_mean + radius - float((e * losses).mean()) / (lam * s))
        x = x - step * (v + ridge * x)
        lam = max(min_temperature, lam - temperature_step * g)
    return MovingAverages(x, lam, log_mean)
