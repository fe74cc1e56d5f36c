"""A real shift between training and test, under privacy: does it help to ask for the worst client?

Two settings, each with clean labels and with 20 % of the training labels flipped.
Heart disease: train on three hospitals, test on the fourth; features lie in public ranges, and what is missing takes
the middle of its range.  Pump: four sites, tested on runs whose sensors have drifted by half a standard deviation in
five of 13 features; the box is the range of the runs without drift, 25 % wider on each side, declared public.

`mixture="simplex"` and a `radius` by which features may move, asked for or chosen inside the fit by `tune` at no
further budget, beside radius 0 and clients by size.  Macro-F1 at each test client: their mean and the worst of them,
paired over seeds (noise, flips and, for the pump, the split).  Every score is appended to `scores.csv`; what the file
holds is not computed again.  The simulated pump is kept in `pump.npz` beside it.

    SKDRO_DATA=folder python examples/benchmarks/moments_shift.py [n_seeds] [scores.csv]
"""

import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from skdro import DPMomentDROClassifier
from skdro.datasets import fetch_heart_disease, flip_labels, make_pump_faults

BUDGET = {"epsilon": 5.0, "delta": 1e-5}
FLIPS = (0.0, 0.2)
# age, trestbps, chol, thalach and oldpeak have no documented bounds: those of adults at rest and under load
WIDE = {0: (20, 90), 3: (80, 220), 4: (100, 600), 7: (60, 220), 9: (-3, 7)}
RUNS_PER_FAULT = (375, 209, 209, 207)
DRIFT, SENSOR_NOISE = 0.5, 0.1  # standard deviations of each feature
DRIFTING = ("mean", "variance", "peak_to_peak", "rms", "power_40_60_hz")
RADII = (0.003, 0.01, 0.03, 0.1, 0.3)
REFERENCE = "radius 0, fixed"
COLUMNS = ["setting", "flips", "seed", "client", "method", "score", "noise_radius", "radius", "mixture_radius"]


def heart():
    """A function of the seed that yields training rows and test clients, the box and the classes."""
    data = fetch_heart_disease()
    lo, hi = (np.array(bound, dtype=float) for bound in data.feature_bounds)
    for column, (low, high) in WIDE.items():
        lo[column], hi[column] = low, high
    X = np.where(np.isnan(data.data), (lo + hi) / 2, data.data)

    def splits(seed):
        for hospital in np.unique(data.groups):
            test = data.groups == hospital
            yield (X[~test], data.target[~test], data.groups[~test]), {hospital: (X[test], data.target[test])}

    return splits, (lo, hi), [0, 1]


def pump(path):
    """The same; simulated once."""
    if not path.exists():
        runs = make_pump_faults(RUNS_PER_FAULT, random_state=0)
        np.savez(path, data=runs.data, target=runs.true_target, groups=runs.groups, names=runs.feature_names)
    runs = np.load(path)
    X, y, groups, scale = runs["data"], runs["target"], runs["groups"], runs["data"].std(axis=0)
    lo, hi = X.min(axis=0), X.max(axis=0)

    def splits(seed):
        rng = np.random.default_rng(seed)
        train, test = train_test_split(np.arange(len(X)), test_size=0.2, stratify=y, random_state=seed)
        sensed = X + SENSOR_NOISE * scale * rng.standard_normal(X.shape)
        sensed[test] += DRIFT * scale * np.isin(runs["names"], DRIFTING)
        sites = {site: test[groups[test] == site] for site in np.unique(groups)}
        clients = {site: (sensed[rows], y[rows]) for site, rows in sites.items()}
        yield (sensed[train], y[train], groups[train]), clients

    return splits, (lo - (hi - lo) / 4, hi + (hi - lo) / 4), range(4)


def models(X, y, groups, common):
    """(name, fitted model) of each method, from three releases of the same rows."""

    def fit(**settings):
        return DPMomentDROClassifier(**common, **settings).fit(X, y, groups=groups)

    plain, tuned = fit(), fit(tune=True)
    yield REFERENCE, plain
    yield "radius 0, simplex", plain.refit(mixture="simplex")
    yield "tuned, fixed", tuned
    yield "tuned, simplex", fit(tune=True, mixture="simplex")
    yield "both halves, radius 0, fixed", tuned.refit(radius=0.0, noise_radius=0.7, mixture_radius=0.0)
    for radius, model in zip(RADII, plain.radius_path(RADII), strict=True):
        yield f"radius {radius}, fixed", model


def one_seed(setting, seed, flips):
    """(client, method, score, choices) of each model at each test client."""
    splits, box, classes = setting
    for (X, y, groups), clients in splits(seed):
        labels = flip_labels(y, flips, random_state=seed) if flips else y
        common = {**BUDGET, "feature_bounds": box, "classes": classes, "random_state": seed}
        for method, model in models(X, labels, groups, common):
            for client, (X_test, y_test) in clients.items():
                score = f1_score(y_test, model.predict(X_test), average="macro", zero_division=0.0)
                yield client, method, score, *model.chosen_.values()


def show(table):
    """Print means over clients, the worst client, and paired differences of the latter."""
    by_seed = table.groupby(["method", "seed"], sort=False)["score"]
    mean, worst = by_seed.mean().unstack(), by_seed.min().unstack()
    for method in worst.index:
        paired = worst.loc[method] - worst.loc[REFERENCE]
        line = f"  {method:30s} mean {mean.loc[method].mean():.3f}  worst client {worst.loc[method].mean():.3f}"
        print(line + f"  minus the first {paired.mean():+.3f} ({paired.sem():.3f})")
    tuned = table[table.method == "tuned, simplex"]
    print(f"  tuned towards the simplex: radius > 0 in {(tuned.radius > 0).mean():.0%} of the fits, ", end="")
    print(f"simplex kept in {(tuned.mixture_radius > 0).mean():.0%}, ", end="")
    print(f"another noise_radius in {(tuned.noise_radius != 0.7).mean():.0%}")


def main():
    """Compute what is missing, and print the tables."""
    warnings.simplefilter("ignore")
    n_seeds, path = int((sys.argv[1:] or ["20"])[0]), Path((sys.argv[2:] or ["moments_shift.csv"])[0])
    settings = {"heart": heart(), "pump": pump(path.with_name("pump.npz"))}
    if not path.exists():
        pd.DataFrame(columns=COLUMNS).to_csv(path, index=False)
    done = set(pd.read_csv(path)[COLUMNS[:3]].itertuples(index=False, name=None))
    for seed, flips, name in product(range(n_seeds), FLIPS, settings):
        if (name, flips, seed) not in done:
            rows = [(name, flips, seed, *row) for row in one_seed(settings[name], seed, flips)]
            pd.DataFrame(rows).to_csv(path, mode="a", header=False, index=False)
    for (name, flips), table in pd.read_csv(path).groupby(["setting", "flips"]):
        print(f"\n{name}, {BUDGET}, {flips:.0%} of the training labels flipped, {table.seed.nunique()} seeds")
        show(table)


if __name__ == "__main__":
    main()
