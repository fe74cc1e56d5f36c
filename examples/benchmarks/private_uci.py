"""Private macro-F1 on five UCI sets at equal total budget, by the recipe of the first paper's Table 1.

80/20 stratified split, four clients that get shares (.4, .3, .2, .1) of each class in random order, 10 % of the
training labels flipped, test labels clean; features bounded by the training range (declared public for
comparability with the paper), and again by ranges 25 % wider on each side.  Mean over seeds x noise draws with the
standard error over seeds.  Wine and Iris come with scikit-learn; the others need a data folder (SKDRO_DATA).

    python examples/benchmarks/private_uci.py [n_seeds] [n_draws]
"""

import sys
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from skdro import DPFedDROClassifier
from skdro.datasets import fetch_dermatology, fetch_penguins, fetch_seeds, flip_labels, split_clients_by_share

BUDGET = {"epsilon": 3.73, "delta": 1e-6}
METHODS = {
    "default, local": {},
    "default, trusted": {"aggregation": "trusted"},
    "default, local, radius 0, trusted labels": {"radius": 0.0, "kappa": np.inf},
    "published Algorithm 2": {"variant": "paper", "n_rounds": 50, "c_model": 2.0, "c_lambda": 6.0},
}


def data():
    """Complete rows of the five sets."""
    sets = {"Iris": load_iris(), "Wine": load_wine()}
    sets |= {"Dermatology": fetch_dermatology(), "Penguins": fetch_penguins(), "Seeds": fetch_seeds()}
    for name, bunch in sets.items():
        X, y = np.asarray(bunch.data, dtype=float), np.asarray(bunch.target)
        complete = np.isfinite(X).all(axis=1)
        yield name, X[complete], y[complete]


def one_seed(X, y, seed, n_draws):
    """Macro-F1 of each method and box, mean over noise draws."""
    warnings.simplefilter("ignore")
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    clients = split_clients_by_share(y, random_state=seed)
    noisy = flip_labels(y, 0.1, random_state=seed)
    lo, hi = X.min(axis=0), X.max(axis=0)
    margin = 0.25 * np.maximum(hi - lo, 1e-9)
    row = []
    for widen in (0, 1):
        box = (lo - widen * margin, np.maximum(hi, lo + 1e-9) + widen * margin)
        for settings in METHODS.values():
            draws = []
            for draw in range(n_draws):
                model = DPFedDROClassifier(
                    **BUDGET, **settings, feature_bounds=box, classes=np.unique(y), random_state=1000 * seed + draw
                ).fit(X, noisy, groups=clients)
                draws.append(f1_score(y_test, model.predict(X_test), average="macro"))
            row.append(np.mean(draws))
    return row


def main():
    """Print the table."""
    n_seeds, n_draws = (int(v) for v in (sys.argv[1:] + ["10", "3"][len(sys.argv) - 1 :]))
    table = {}
    for name, X, y in data():
        table[name] = np.array(Parallel(n_jobs=2)(delayed(one_seed)(X, y, seed, n_draws) for seed in range(n_seeds)))
    print(f"macro-F1 (standard error), total {BUDGET}, {n_seeds} seeds x {n_draws} draws")
    print(f"{'':58s}" + "".join(f"{name:>14s}" for name in table) + f"{'mean':>14s}")
    labels = [f"{method}{box}" for box in ("", ", box 25 % wider") for method in METHODS]
    for k, label in enumerate(labels):
        columns = [runs[:, k] for runs in table.values()]
        columns.append(np.mean(columns, axis=0))
        cells = [f"{c.mean():.3f} ({c.std(ddof=1) / np.sqrt(len(c)):.3f})" for c in columns]
        print(f"{label:58s}" + "".join(f"{cell:>14s}" for cell in cells))


if __name__ == "__main__":
    main()
