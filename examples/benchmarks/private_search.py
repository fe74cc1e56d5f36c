"""What a private search is worth on five UCI sets: against the fixed default and against the oracle's choice.

The recipe of ``private_uci.py``: 80/20 stratified split, four clients, 10 % of the training labels flipped, test
labels clean, features bounded by the training range (declared public).  All at one total budget; noise on the sum.

* default: one fit with the default parameters and the whole budget, on all training rows;
* search: `PrivateSearchCV` over the candidates, the whole budget for the search;
* random: one fit of a candidate drawn at random with the whole budget, the floor that a search has to beat;
* oracle: each candidate fitted with the whole budget, the best by its mean test macro-F1 on that data set (a choice
  that nobody can make honestly).

    python examples/benchmarks/private_search.py [n_seeds] [n_draws]
"""

import sys
import warnings

import numpy as np
from joblib import Parallel, delayed
from private_uci import BUDGETS, data
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from skdro import DPFedDROClassifier
from skdro.datasets import flip_labels, split_clients_by_share
from skdro.model_selection import PrivateSearchCV

BUDGET = dict(zip(("epsilon", "delta"), BUDGETS[1], strict=True))
CANDIDATES = [
    {"c_model": c_model, "n_rounds": n_rounds, "radius": radius}
    for c_model in (0.3, 1.0, 3.0, 10.0)
    for n_rounds in (10, 30)
    for radius in (0.0, 0.01, 0.1)
]
SEARCHES = {
    "search, defaults (10 trials, no hold-out)": {},
    "search, 3 trials": {"n_trials": 3.0},
    "search, 20 % held out": {"holdout": 0.2},
}


def one_seed(X, y, seed, n_draws):
    """Macro-F1 on the test rows, mean over draws: (the default, each search, each candidate)."""
    warnings.simplefilter("ignore")
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    clients = split_clients_by_share(y, random_state=seed)
    noisy = flip_labels(y, 0.1, random_state=seed)
    box = (X.min(axis=0), np.maximum(X.max(axis=0), X.min(axis=0) + 1e-9))
    public = {"feature_bounds": box, "classes": np.unique(y), "aggregation": "trusted"}
    models = [DPFedDROClassifier(**BUDGET, **public)]
    models += [
        PrivateSearchCV(DPFedDROClassifier(**public), CANDIDATES, **BUDGET, **settings)
        for settings in SEARCHES.values()
    ]
    models += [DPFedDROClassifier(**BUDGET, **public, **candidate) for candidate in CANDIDATES]
    scores = []
    for model in models:
        draws = []
        for draw in range(n_draws):
            model.set_params(random_state=1000 * seed + draw).fit(X, noisy, groups=clients)
            draws.append(f1_score(y_test, model.predict(X_test), average="macro"))
        scores.append(np.mean(draws))
    return scores


def main():
    """Print the table."""
    n_seeds, n_draws = (int(v) for v in (sys.argv[1:] + ["10", "3"][len(sys.argv) - 1 :]))
    table = {}
    for name, X, y in data():
        runs = np.array(Parallel(n_jobs=2)(delayed(one_seed)(X, y, seed, n_draws) for seed in range(n_seeds)))
        fits = runs[:, 1 + len(SEARCHES) :]
        rows = {"default, one fit": runs[:, 0]}
        rows |= dict(zip(SEARCHES, runs[:, 1 : 1 + len(SEARCHES)].T, strict=True))
        rows |= {"random candidate": fits.mean(axis=1), "oracle candidate": fits[:, fits.mean(axis=0).argmax()]}
        table[name] = rows
        print(name, "oracle:", CANDIDATES[fits.mean(axis=0).argmax()], flush=True)
    print(f"macro-F1 (standard error), total {BUDGET}, trusted, {n_seeds} seeds x {n_draws} draws")
    print(f"{'':48s}" + "".join(f"{name:>14s}" for name in table) + f"{'mean':>14s}{'minus default':>16s}")
    for label in rows:
        columns = [rows[label] for rows in table.values()]
        gap = np.mean([rows[label] - rows["default, one fit"] for rows in table.values()], axis=0)
        columns += [np.mean(columns, axis=0), gap]
        cells = [f"{c.mean():.3f} ({c.std(ddof=1) / np.sqrt(len(c)):.3f})" for c in columns]
        print(f"{label:48s}" + "".join(f"{cell:>14s}" for cell in cells))


if __name__ == "__main__":
    main()
