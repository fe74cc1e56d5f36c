"""Private macro-F1 on five UCI sets at equal total budgets, by the recipe of the first paper's Table 1.

80/20 stratified split, four clients that get shares (.4, .3, .2, .1) of each class in random order, 10 % of the
training labels flipped, test labels clean; features bounded by the training range, declared public for comparability
with the paper (with "wider": by ranges 25 % wider on each side, at the paper's budget).  Every method has the
settings of its class, chosen on simulated data; the published algorithms have those of their papers.  Mean over seeds
of the mean over noise draws, standard error over seeds, and paired differences: of a method with steps that do not
shrink with the noise to the same method, of all others to the default.  Wine and Iris come with scikit-learn; the
others need a data folder (SKDRO_DATA).

    python examples/benchmarks/private_uci.py [n_seeds] [n_draws] [wider]
"""

import sys
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from skdro import DPFedDROClassifier, DPFedERMClassifier, DPFedSGDClassifier
from skdro.datasets import fetch_dermatology, fetch_penguins, fetch_seeds, flip_labels, split_clients_by_share

BUDGETS = ((1.0, 1e-5), (3.73, 1e-6), (10.0, 1e-5))
PUBLISHED = {"variant": "paper", "n_rounds": 50}
METHODS = {
    "DRO, local": DPFedDROClassifier(),
    "DRO, trusted": DPFedDROClassifier(aggregation="trusted"),
    "DRO, published (local)": DPFedDROClassifier(**PUBLISHED, c_model=2.0, c_lambda=6.0),
    "DRO, local, radius 0, trusted labels": DPFedDROClassifier(radius=0.0, kappa=np.inf),
    "ERM, local": DPFedERMClassifier(),
    "ERM, trusted": DPFedERMClassifier(aggregation="trusted"),
    "ERM, published (local)": DPFedERMClassifier(**PUBLISHED, c_model=2.0),
    "SGD, local": DPFedSGDClassifier(),
    "SGD, trusted": DPFedSGDClassifier(aggregation="trusted"),
}
FIXED = ", fixed steps"
METHODS |= {
    name + FIXED: clone(method).set_params(c_model=3.0)
    for name, method in METHODS.items()
    if name.endswith((" local", " trusted"))
}


def data():
    """Complete rows of the five sets."""
    sets = {"Iris": load_iris(), "Wine": load_wine()}
    sets |= {"Dermatology": fetch_dermatology(), "Penguins": fetch_penguins(), "Seeds": fetch_seeds()}
    for name, bunch in sets.items():
        X, y = np.asarray(bunch.data, dtype=float), np.asarray(bunch.target)
        complete = np.isfinite(X).all(axis=1)
        yield name, X[complete], y[complete]


def one_seed(X, y, seed, n_draws, budget, widen):
    """Macro-F1 of each method, mean over noise draws."""
    warnings.simplefilter("ignore")
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    clients = split_clients_by_share(y, random_state=seed)
    noisy = flip_labels(y, 0.1, random_state=seed)
    lo, hi = X.min(axis=0), X.max(axis=0)
    margin = widen * np.maximum(hi - lo, 1e-9)
    public = {"feature_bounds": (lo - margin, np.maximum(hi, lo + 1e-9) + margin), "classes": np.unique(y)}
    row = []
    for method in METHODS.values():
        model = clone(method).set_params(epsilon=budget[0], delta=budget[1], **public)
        draws = []
        for draw in range(n_draws):
            model.set_params(random_state=1000 * seed + draw).fit(X, noisy, groups=clients)
            draws.append(f1_score(y_test, model.predict(X_test), average="macro"))
        row.append(np.mean(draws))
    return row


def cells(columns):
    """Means and standard errors over seeds, as text."""
    texts = [f"{c.mean():.3f} ({c.std(ddof=1) / np.sqrt(len(c)):.3f})" for c in columns]
    return "".join(f"{text:>14s}" for text in texts)


def show(title, table):
    """Print scores and paired differences; `table` maps a set to (n_seeds, n_methods)."""
    table = {**table, "mean": np.mean(list(table.values()), axis=0)}
    print(f"\n{title}\n{'':38s}" + "".join(f"{name:>14s}" for name in table))
    for k, label in enumerate(METHODS):
        print(f"{label:38s}" + cells(runs[:, k] for runs in table.values()))
    names = list(METHODS)
    for k, label in enumerate(METHODS):
        default = "DRO, trusted" if "trusted" in label.split(", ")[1] else "DRO, local"
        base = names.index(label.removesuffix(FIXED) if label.endswith(FIXED) else default)
        if k != base:
            line = f"  {label} - {names[base]}"
            print(f"{line:38s}\n{'':38s}" + cells(runs[:, k] - runs[:, base] for runs in table.values()))
    sys.stdout.flush()


def main():
    """Print the tables."""
    wider = sys.argv[-1] == "wider"
    given = [int(value) for value in sys.argv[1 : len(sys.argv) - wider]]
    n_seeds, n_draws = given + [20, 3][len(given) :]
    sets = list(data())
    print(f"macro-F1 (standard error) over {n_seeds} seeds x {n_draws} draws")
    with Parallel(n_jobs=2) as parallel:
        for budget, widen in [(BUDGETS[1], 0.25)] if wider else [(budget, 0.0) for budget in BUDGETS]:
            table = {
                name: np.array(
                    parallel(delayed(one_seed)(X, y, seed, n_draws, budget, widen) for seed in range(n_seeds))
                )
                for name, X, y in sets
            }
            box = "training range" if widen == 0 else "training range and 25 % more on each side"
            show(f"total (epsilon, delta) = {budget}, box: {box}", table)


if __name__ == "__main__":
    main()
