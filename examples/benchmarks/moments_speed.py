"""Time of a moment fit on a million rows of 50 features at 100 clients, over that of one X.T @ X.

python examples/benchmarks/moments_speed.py [n_rows] [n_features] [n_clients]
"""

import sys
import time

import numpy as np

from skdro import DPMomentDRORegressor


def fastest(call, n_times=5):
    """Smallest wall time of several calls, seconds."""
    times = []
    for _ in range(n_times):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    """Print both times and their ratio, clients sorted and in random order."""
    n_rows, n_features, n_clients = (int(v) for v in (sys.argv[1:] + ["1000000", "50", "100"][len(sys.argv) - 1 :]))
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n_rows, n_features))
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=n_rows), -1, 1)
    model = DPMomentDRORegressor(delta=1e-8, feature_bounds=(-1, 1), target_bounds=(-1, 1))
    product = fastest(lambda: X.T @ X)
    print(f"{n_rows} x {n_features} rows, {n_clients} clients; X.T @ X: {product:.3f} s")
    shuffled = rng.integers(n_clients, size=n_rows)
    for label, groups in (("sorted by client", np.sort(shuffled)), ("in random order", shuffled)):
        for n_jobs in (None, 2):
            model.set_params(n_jobs=n_jobs)
            seconds = fastest(lambda groups=groups: model.fit(X, y, groups=groups), 3)
            print(f"fit, {label}, n_jobs={n_jobs}: {seconds:.3f} s, {seconds / product:.2f} x X.T @ X")


if __name__ == "__main__":
    main()
