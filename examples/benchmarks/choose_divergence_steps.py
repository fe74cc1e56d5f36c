"""Step sizes, clips and iterations of the private divergence solvers, chosen on simulated data only.

Ten random sparse patterns on an 8 x 8 grid, noisy copies of them, five patterns a class, positives a fifth of the 840
training rows, a balanced test set: about as hard as digits, which are not looked at.  Every solver gets a grid of the
same size.  Prints the mean balanced accuracy over epsilon .5, 1, 5 and the runs, best settings first, and the best
setting of each epsilon.

    python examples/benchmarks/choose_divergence_steps.py [n_runs]
"""

import sys
from itertools import product

import numpy as np
from divergence_engine import DELTA_SHARE, fit_model
from joblib import Parallel, delayed
from sklearn.metrics import balanced_accuracy_score

EPSILONS = (0.5, 1.0, 5.0)
ROUNDS, STEPS, CLIPS = (50, 100), (0.5, 2.0, 8.0), (1.0, 3.0)
SOLVERS = ("dpgd", "erm", "dpsgda", "storm", "double_spider", "privatediff", "kl dpgd", "kl recursive_spider")


def simulated(seed, n_train=840, n_test=1000, positives=0.2):
    """Rows, labels, and the same for the test."""
    rng = np.random.default_rng(seed)
    patterns = np.where(rng.random((10, 64)) < 0.4, rng.random((10, 64)), 0.0)

    def draw(n, share):
        y = (rng.random(n) < share).astype(int)
        return np.clip(patterns[rng.integers(5, size=n) + 5 * y] + 0.35 * rng.normal(size=(n, 64)), 0, 1), y

    return *draw(n_train, positives), *draw(n_test, 0.5)


def one(solver, n_rounds, step, clip_norm, epsilon, seed):
    """Balanced accuracy of one fit."""
    X, y, X_test, y_test = simulated(seed)
    predict = fit_model(
        X, y, solver, epsilon, DELTA_SHARE / len(X), seed, n_rounds=n_rounds, step=step, clip_norm=clip_norm
    )
    return balanced_accuracy_score(y_test, predict(X_test) > 0)


def main():
    """Print the choice."""
    n_runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for solver in SOLVERS:
        grid = list(product(ROUNDS, STEPS, CLIPS))
        jobs = [(solver, *cell, epsilon, seed) for cell in grid for epsilon in EPSILONS for seed in range(n_runs)]
        found = np.array(Parallel(n_jobs=2)(delayed(one)(*job) for job in jobs))
        table = found.reshape(len(grid), len(EPSILONS), n_runs).mean(axis=2)
        order = table.mean(axis=1).argsort()[::-1]
        cells = [f"T={T} lr={lr:g} C={C:g}: {table[k].mean():.3f}" for k in order[:3] for T, lr, C in [grid[k]]]
        best = [
            f"eps {eps:g}: {grid[table[:, j].argmax()]} {table[:, j].max():.3f}" for j, eps in enumerate(EPSILONS)
        ]
        print(f"{solver:22s}" + " | ".join(cells) + "   best of " + " ".join(best), flush=True)


if __name__ == "__main__":
    main()
