"""One release of noisy moments against rounds of private gradient descent: macro-F1 on five UCI sets.

Sets, splits, clients and label flips as in `private_uci.py`.  For two total budgets and both places of the noise:
the moment classifier without robustness, with fixed ridge penalties and with the radius at multiples of the noise's
spectral edge (all of them refits of one release), then the other private classifiers at the same budget, and paired
differences of the default with each of them, over seeds.

    python examples/benchmarks/moments_uci.py [n_seeds] [n_draws]
"""

import sys
import warnings
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from private_uci import data
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

import skdro
from skdro import DPMomentDROClassifier
from skdro.datasets import flip_labels, split_clients_by_share

BUDGETS = ((3.73, 1e-6), (1.0, 1e-5))
AGGREGATIONS = ("local", "trusted")
# label -> noise radius for a release whose noise has this spectral edge
RADII = {
    "penalty 1e-3": lambda edge: 1e-3 / edge,
    "penalty 1": lambda edge: 1.0 / edge,
    ".1 eta": lambda edge: 0.1,
    ".5 eta": lambda edge: 0.5,
    "default": lambda edge: 0.7,
    "eta": lambda edge: 1.0,
    "3 eta": lambda edge: 3.0,
}
# label, class (left out where this version has none of that name), parameters
OPPONENTS = (
    ("DP-Fed DRO", "DPFedDROClassifier", {}),
    ("DP-Fed ERM", "DPFedERMClassifier", {}),
    ("DP-Fed SGD", "DPFedSGDClassifier", {}),
)
PRESENT = tuple(opponent for opponent in OPPONENTS if hasattr(skdro, opponent[1]))
COLUMNS = (*RADII, "tune", *(label for label, _, _ in PRESENT))


def one_draw(train, test, common):
    """Macro-F1 of each column, from one release of the moments and one fit of each opponent."""
    (X, y, clients), (X_test, y_test) = train, test
    base = DPMomentDROClassifier(**common).fit(X, y, groups=clients)
    edge = base.noise_radius_ / base.noise_radius
    models = [base.refit(noise_radius=radius(edge)) for radius in RADII.values()]
    models.append(DPMomentDROClassifier(tune=True, **common).fit(X, y, groups=clients))
    for _, name, parameters in PRESENT:
        models.append(getattr(skdro, name)(**common, **parameters).fit(X, y, groups=clients))
    return [f1_score(y_test, model.predict(X_test), average="macro", zero_division=0.0) for model in models]


def one_seed(X, y, seed, n_draws):
    """Mean over noise draws for each budget, aggregation and column."""
    warnings.simplefilter("ignore")
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    clients = split_clients_by_share(y, random_state=seed)
    noisy = flip_labels(y, 0.1, random_state=seed)
    lo, hi = X.min(axis=0), X.max(axis=0)
    box = (lo, np.maximum(hi, lo + 1e-9))
    out = []
    for (epsilon, delta), aggregation in product(BUDGETS, AGGREGATIONS):
        common = {"epsilon": epsilon, "delta": delta, "aggregation": aggregation}
        common |= {"feature_bounds": box, "classes": np.unique(y)}
        draws = [
            one_draw((X, noisy, clients), (X_test, y_test), {**common, "random_state": 1000 * seed + draw})
            for draw in range(n_draws)
        ]
        out.append(np.mean(draws, axis=0))
    return out


def main():
    """Print the tables."""
    n_seeds, n_draws = (int(v) for v in (sys.argv[1:] + ["20", "3"][len(sys.argv) - 1 :]))
    runs = np.mean(
        [Parallel(n_jobs=2)(delayed(one_seed)(X, y, seed, n_draws) for seed in range(n_seeds)) for _, X, y in data()],
        axis=0,
    )  # mean over sets: (seeds, budget x aggregation, column)
    default = COLUMNS.index("default")
    print(f"macro-F1 (standard error over seeds), mean of five sets, {n_seeds} seeds x {n_draws} draws")
    for k, (budget, aggregation) in enumerate(product(BUDGETS, AGGREGATIONS)):
        print(f"\n(epsilon, delta) = {budget}, {aggregation}")
        for column, label in enumerate(COLUMNS):
            values = runs[:, k, column]
            paired = runs[:, k, default] - values
            line = f"  {label:14s} {values.mean():.3f} ({values.std(ddof=1) / np.sqrt(n_seeds):.3f})"
            if column != default:
                line += f"    default minus this {paired.mean():+.3f} ({paired.std(ddof=1) / np.sqrt(n_seeds):.3f})"
            print(line)


if __name__ == "__main__":
    main()
