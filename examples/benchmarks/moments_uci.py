"""One release of noisy moments against rounds of private gradient descent: macro-F1 on five UCI sets.

Sets, splits, clients and label flips as in `private_uci.py`.  For two total budgets and both places of the noise:
the moment classifier without robustness, with fixed ridge penalties and with the radius at multiples of the noise's
spectral edge (all of them refits of one release), with `tune`, then the other private classifiers at the same
budget, and paired differences of the default with each of them, over seeds.

Every score is appended to `scores.csv` as it is computed; what the file holds is not computed again.

    python examples/benchmarks/moments_uci.py [n_seeds] [n_draws] [scores.csv]
"""

import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from private_uci import data
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from skdro import DPFedDROClassifier, DPFedERMClassifier, DPFedSGDClassifier, DPMomentDROClassifier
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
OTHERS = {
    "tune": lambda **common: DPMomentDROClassifier(tune=True, **common),
    "DP-Fed DRO": DPFedDROClassifier,
    "DP-Fed ERM": DPFedERMClassifier,
    "DP-Fed SGD": DPFedSGDClassifier,
}
COLUMNS = (*RADII, *OTHERS)
KEY = ["draw", "seed", "set", "epsilon", "aggregation"]


def one_draw(train, test, common):
    """Macro-F1 of each column, from one release of the moments and one fit of each of the others."""
    (X, y, clients), (X_test, y_test) = train, test
    base = DPMomentDROClassifier(**common).fit(X, y, groups=clients)
    edge = base.noise_radius_ / base.noise_radius
    models = [base.refit(noise_radius=radius(edge)) for radius in RADII.values()]
    models += [make(**common).fit(X, y, groups=clients) for make in OTHERS.values()]
    return [f1_score(y_test, model.predict(X_test), average="macro", zero_division=0.0) for model in models]


def one_seed(X, y, seed, draw):
    """Yield epsilon, aggregation and the macro-F1 of each column."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    clients = split_clients_by_share(y, random_state=seed)
    noisy = flip_labels(y, 0.1, random_state=seed)
    lo, hi = X.min(axis=0), X.max(axis=0)
    box = (lo, np.maximum(hi, lo + 1e-9))
    for (epsilon, delta), aggregation in product(BUDGETS, AGGREGATIONS):
        common = {"epsilon": epsilon, "delta": delta, "aggregation": aggregation, "random_state": 1000 * seed + draw}
        common |= {"feature_bounds": box, "classes": np.unique(y)}
        yield epsilon, aggregation, *one_draw((X, noisy, clients), (X_test, y_test), common)


def scores(n_seeds, n_draws, path):
    """All scores, computed where `path` lacks them; one row a draw."""
    if not path.exists():
        pd.DataFrame(columns=[*KEY, *COLUMNS]).to_csv(path, index=False)
    done = set(pd.read_csv(path)[KEY[:3]].itertuples(index=False, name=None))
    for draw, seed, (name, X, y) in product(range(n_draws), range(n_seeds), data()):  # all seeds first
        if (draw, seed, name) not in done:
            rows = [(draw, seed, name, *row) for row in one_seed(X, y, seed, draw)]
            pd.DataFrame(rows).to_csv(path, mode="a", header=False, index=False)
    table = pd.read_csv(path)
    return table[(table.seed < n_seeds) & (table.draw < n_draws)]


def main():
    """Print the tables."""
    warnings.simplefilter("ignore")
    n_seeds, n_draws = (int(v) for v in (sys.argv[1:3] + ["20", "3"][len(sys.argv[1:3]) :]))
    table = scores(n_seeds, n_draws, Path((sys.argv[3:] or ["moments_uci.csv"])[0]))
    print(f"macro-F1 (standard error over seeds), mean of five sets, {n_seeds} seeds x {n_draws} draws")
    for (epsilon, delta), aggregation in product(BUDGETS, AGGREGATIONS):
        some = table[(table.epsilon == epsilon) & (table.aggregation == aggregation)]
        by_seed = some.groupby("seed")[list(COLUMNS)].mean()
        paired = -by_seed.sub(by_seed["default"], axis=0)
        print(f"\n(epsilon, delta) = ({epsilon}, {delta:g}), {aggregation}")
        for label in COLUMNS:
            line = f"  {label:14s} {by_seed[label].mean():.3f} ({by_seed[label].sem():.3f})"
            if label != "default":
                line += f"    default minus this {paired[label].mean():+.3f} ({paired[label].sem():.3f})"
            print(line)
        print("  default by set: ", some.groupby("set")["default"].mean().round(3).to_dict())


if __name__ == "__main__":
    main()
