"""Choose n_rounds and c_model of the private classifiers on simulated data.

Gaussian classes with random centres, uneven clients, 10 % flipped labels, features in a public box of three
standard deviations around the population.  For each budget and aggregation: mean macro-F1 on clean test records
over tasks and seeds, by (n_rounds, c_model); then the pair that is best on average.  No real data set is used.

    python examples/benchmarks/choose_private_steps.py
"""

import sys
import warnings
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import f1_score

from skdro import DPFedDROClassifier
from skdro.datasets import flip_labels, split_clients_by_share

ROUNDS = (5, 10, 20, 30, 50)
STEPS = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
BUDGETS = ((1.0, 1e-5), (3.73, 1e-6))
TASKS = ((3, 4, 120), (3, 12, 150), (6, 30, 300), (3, 7, 170), (4, 10, 1000), (2, 20, 400))  # classes, features, rows
SEEDS = range(8)


def task(n_classes, n_features, n_rows, seed):
    """Train and test records of one simulated population with its public box."""
    rng = np.random.default_rng([n_classes, n_features, n_rows, seed])
    # a few informative features, the rest noise; separation such that a pooled linear model reaches about .95
    centres = np.zeros((n_classes, n_features))
    informative = rng.permutation(n_features)[: max(3, n_features // 2)]
    centres[:, informative] = rng.normal(size=(n_classes, len(informative)))
    distances = [np.linalg.norm(a - b) for i, a in enumerate(centres) for b in centres[:i]]
    centres *= 4.0 / np.median(distances)
    mix = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0] * rng.uniform(0.6, 1.4, n_features)

    def draw(n):
        y = rng.permutation(np.arange(n) % n_classes)
        return centres[y] + rng.normal(size=(n, n_features)) @ mix, y

    X, y = draw(n_rows)
    X_test, y_test = draw(2000)
    spread = np.sqrt(1.0 + centres.var(axis=0))
    return X, y, X_test, y_test, (-3 * spread, 3 * spread)


def scores(n_classes, n_features, n_rows, seed, aggregation, budget):
    """Macro-F1 for each (n_rounds, c_model)."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test, box = task(n_classes, n_features, n_rows, seed)
    clients = split_clients_by_share(y, random_state=seed)
    noisy = flip_labels(y, 0.1, random_state=seed)
    out = np.empty((len(ROUNDS), len(STEPS)))
    for (i, n_rounds), (j, c_model) in product(enumerate(ROUNDS), enumerate(STEPS)):
        model = DPFedDROClassifier(
            *budget,
            aggregation=aggregation,
            n_rounds=n_rounds,
            c_model=c_model,
            feature_bounds=box,
            classes=np.arange(n_classes),
            random_state=seed,
        ).fit(X, noisy, groups=clients)
        out[i, j] = f1_score(y_test, model.predict(X_test), average="macro")
    return out


def main():
    """Print the tables."""
    total = []
    for aggregation, budget in product(("local", "trusted"), BUDGETS):
        runs = Parallel(n_jobs=2)(
            delayed(scores)(*size, seed, aggregation, budget) for size, seed in product(TASKS, SEEDS)
        )
        mean = np.mean(runs, axis=0)
        total.append(mean)
        print(f"\n{aggregation}, (epsilon, delta) = {budget}; rows n_rounds {ROUNDS}, columns c_model {STEPS}")
        print("\n".join("  ".join(f"{v:.3f}" for v in row) for row in mean))
        sys.stdout.flush()
    mean = np.mean(total, axis=0)
    i, j = np.unravel_index(mean.argmax(), mean.shape)
    print("\nmean of all four")
    print("\n".join("  ".join(f"{v:.3f}" for v in row) for row in mean))
    print(f"chosen: n_rounds = {ROUNDS[i]}, c_model = {STEPS[j]}")


if __name__ == "__main__":
    main()
