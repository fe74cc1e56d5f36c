"""Choose the default `noise_radius` of the moment estimators on simulated data.

The populations are those on which the private gradient steps were chosen (`choose_private_steps.py`): Gaussian
classes, uneven clients, 10 % flipped labels, a public box.  One release a task and budget; every radius is a refit.
No real data set is used.

    python examples/benchmarks/choose_noise_radius.py
"""

import sys
import warnings
from itertools import product

import numpy as np
from choose_private_steps import TASKS, task
from joblib import Parallel, delayed
from sklearn.metrics import f1_score

from skdro import DPMomentDROClassifier
from skdro.datasets import flip_labels, split_clients_by_share

NOISE_RADII = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
BUDGETS = ((1.0, 1e-5), (3.73, 1e-6), (10.0, 1e-6))
SEEDS = range(10)


def scores(n_classes, n_features, n_rows, seed, aggregation, budget):
    """Macro-F1 for each noise radius."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test, box = task(n_classes, n_features, n_rows, seed)
    model = DPMomentDROClassifier(
        *budget, aggregation=aggregation, feature_bounds=box, classes=np.arange(n_classes), random_state=seed
    ).fit(X, flip_labels(y, 0.1, random_state=seed), groups=split_clients_by_share(y, random_state=seed))
    return [
        f1_score(y_test, model.refit(noise_radius=r).predict(X_test), average="macro", zero_division=0.0)
        for r in NOISE_RADII
    ]


def main():
    """Print the table."""
    print(f"mean macro-F1 on clean test records; noise_radius {NOISE_RADII}")
    means = []
    for aggregation, budget in product(("local", "trusted"), BUDGETS):
        runs = Parallel(n_jobs=2)(
            delayed(scores)(*size, seed, aggregation, budget) for size, seed in product(TASKS, SEEDS)
        )
        means.append(np.mean(runs, axis=0))
        print(f"{aggregation:8s} {budget!s:15s}", "  ".join(f"{v:.3f}" for v in means[-1]))
        sys.stdout.flush()
    mean = np.mean(means, axis=0)
    print(f"{'mean':24s}", "  ".join(f"{v:.3f}" for v in mean))
    print(f"best: {NOISE_RADII[mean.argmax()]}")


if __name__ == "__main__":
    main()
