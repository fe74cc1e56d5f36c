"""Time of a moment fit on a million rows of 50 features at 100 clients, over that of one X.T @ X.

Everything takes its turn in each round, and counts with its fastest; processor time too, which a busy machine
disturbs less.  `X[order]` is what a copy sorted by client would cost alone.  Set OMP_NUM_THREADS=1: a fit gives each
client one thread of BLAS.

    OMP_NUM_THREADS=1 python examples/benchmarks/moments_speed.py [n_rows] [n_features] [n_clients]
"""

import sys
import time

import numpy as np

from skdro import DPMomentDRORegressor

N_TURNS = 5


def timed(call):
    """Wall and processor time, seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - processor


def main():
    """Print both times and their ratios, clients sorted and in random order."""
    n_rows, n_features, n_clients = (int(v) for v in (sys.argv[1:] + ["1000000", "50", "100"][len(sys.argv) - 1 :]))
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n_rows, n_features))
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=n_rows), -1, 1)
    shuffled = rng.integers(n_clients, size=n_rows)
    in_order, order = np.sort(shuffled), np.argsort(shuffled, kind="stable")

    def fit(groups, n_jobs):
        model = DPMomentDRORegressor(delta=1e-8, feature_bounds=(-1, 1), target_bounds=(-1, 1), n_jobs=n_jobs)
        model.fit(X, y, groups=groups)

    calls = {"X.T @ X": lambda: X.T @ X, "X[order]": lambda: X[order]}
    for n_jobs in (None, 2):
        calls[f"fit, sorted by client, n_jobs={n_jobs}"] = lambda n_jobs=n_jobs: fit(in_order, n_jobs)
        calls[f"fit, in random order, n_jobs={n_jobs}"] = lambda n_jobs=n_jobs: fit(shuffled, n_jobs)
    best = np.min([[timed(call) for call in calls.values()] for _ in range(N_TURNS)], axis=0)
    print(f"{n_rows} x {n_features} rows, {n_clients} clients")
    for label, (wall, processor), ratio in zip(calls, best, best / best[0], strict=True):
        print(f"{label:38s} {wall:.3f} s, {ratio[0]:5.2f} x; processor {processor:.3f} s, {ratio[1]:5.2f} x")


if __name__ == "__main__":
    main()
