"""How fast: the exact mixture solver against one least-squares solve, and stacked descent-ascent against a loop.

1. n = 50 clients, 10^5 rows, p = 50: CPU seconds of `BiDROFLRegressor().fit` (validation, standardisation, factors
   and conic programme) over those of one `numpy.linalg.lstsq` of the pooled rows with a constant column.  Median of
   three alternating runs.
2. The paper's setting of the descent (20 runs, 5 clients, one sample a round, 30 inner steps): CPU seconds of 10^4
   rounds in one call of `simulate`, over those of the same formulas run by run and client by client (timed on 20
   rounds and scaled).

    OMP_NUM_THREADS=1 python examples/benchmarks/mixture_speed.py
"""

import time

import numpy as np

from skdro import AFLRegressor, BiDROFLRegressor
from skdro.ambiguity.mixture import MixtureBall
from skdro.ambiguity.penalised import Box
from skdro.federation.local_risks import Ascent, MovedResponses
from skdro.federation.simulation import simulate

N_CLIENTS, N_ROWS, N_FEATURES = 50, 100_000, 50
RUNS, ROUNDS, LOOPED = 20, 10_000, 20
SIZES = np.array([30, 40, 80, 150, 300])
PENALTY = np.array([15.0, 10.0, 5.0, 4.0, 2.5])


def cpu(action):
    """CPU seconds of one call."""
    start = time.process_time()
    action()
    return time.process_time() - start


def exact_against_least_squares():
    """Print the ratio for three problems."""
    rng = np.random.default_rng(0)
    groups = np.arange(N_ROWS) % N_CLIENTS
    slopes = 1 + 0.3 * rng.normal(size=(N_CLIENTS, N_FEATURES))
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    y = (X * slopes[groups]).sum(axis=1) + rng.normal(size=N_ROWS)
    pooled = np.c_[X, np.ones(N_ROWS)]
    models = {
        "MW-DRO, simplex": BiDROFLRegressor(0.05),
        "MW-DRO, mixture_radius .3": BiDROFLRegressor(0.05, mixture_radius=0.3),
        "penalised, simplex": BiDROFLRegressor(penalty=100.0),
        "agnostic": AFLRegressor(),
    }
    seconds = {name: [] for name in ("least squares", *models)}
    for _ in range(3):
        seconds["least squares"].append(cpu(lambda: np.linalg.lstsq(pooled, y, rcond=None)))
        for name, model in models.items():
            seconds[name].append(cpu(lambda model=model: model.fit(X, y, groups=groups)))
    base = np.median(seconds["least squares"])
    print(f"{N_CLIENTS} clients, {N_ROWS} rows, {N_FEATURES} features: CPU seconds, median of 3, and ratio")
    for name, values in seconds.items():
        print(f"  {name:28s} {np.median(values):6.2f}  {np.median(values) / base:5.1f} x", flush=True)


def stacked_against_loop():
    """Print the ratio."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(RUNS, 5, SIZES.max(), 3)), rng.normal(size=(RUNS, 5, SIZES.max()))
    box = Box(np.full(4, -500.0), np.full(4, 500.0))
    records = MovedResponses(3, 1.0, Ascent(box, n_steps=30, step=0.003, length=0.01))

    def run(X, y, sizes, penalty, rounds):
        mixture = MixtureBall(sizes / sizes.sum(), 1.0)
        settings = {"step": 0.01, "mixture_step": 0.01, "model_bound": 100.0, "batch_size": 1}
        simulate(records, X, y, sizes, penalty, mixture, checkpoints=[rounds], rng=rng, **settings)

    def loop():  # one client of one run at a time
        for r in range(RUNS):
            for g in range(5):
                run(X[r : r + 1, g : g + 1], y[r : r + 1, g : g + 1], SIZES[g : g + 1], PENALTY[g : g + 1], LOOPED)

    together = cpu(lambda: run(X, y, SIZES, PENALTY, ROUNDS))
    one_by_one = cpu(loop) * ROUNDS / LOOPED
    print(f"descent-ascent, {RUNS} runs x {ROUNDS} rounds x 30 inner steps: CPU seconds")
    print(f"  one call {together:.1f}; client by client {one_by_one:.0f}: {one_by_one / together:.0f} x", flush=True)


if __name__ == "__main__":
    exact_against_least_squares()
    stacked_against_loop()
