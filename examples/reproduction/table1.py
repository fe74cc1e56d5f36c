"""Table 1 of the first paper: macro-F1 on five UCI sets with and without privacy, four clients, 10 % flipped labels.

The recipe: 80/20 stratified split, each class dealt to the four clients in shares (.4, .3, .2, .1) of random order,
10 % of the training labels replaced by another class, test labels clean.  Features are mapped from their range in
the training split (declared public, as in the paper) to [0, 1] without privacy and to [-1, 1] with it.

Not private: centralised DRO, federated DRO and one-vs-all federated DRO at their optimum, radius and kappa chosen on
a validation quarter of three splits with seeds 100 to 102 whose test rows are not looked at (`--choose` repeats it;
the paper cross-validates in each run).  On Seeds the published .97 to .98 cannot be had on these splits: linear,
logistic and radial models trained on pooled *clean* labels end between .93 and .952.

Private: total (3.73, 1e-6), that is .5 a round over 50 rounds by the paper's Theorem 2; the published algorithms with
the constants of the paper, and the defaults of the package with local and with trusted aggregation; means of three
noise draws.

    SKDRO_DATA=folder python examples/reproduction/table1.py [--quick] [--choose]
"""

import itertools
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from study import Study, options

from skdro import (
    DPFedDROClassifier,
    DPFedERMClassifier,
    DPFedSGDClassifier,
    FedDROClassifier,
    FedOvADROClassifier,
    WassersteinDROClassifier,
)
from skdro.datasets import fetch_dermatology, fetch_penguins, fetch_seeds, flip_labels, split_clients_by_share

LOADERS = {
    "Dermatology": fetch_dermatology,
    "Iris": load_iris,
    "Wine": load_wine,
    "Penguins": fetch_penguins,
    "Seeds": fetch_seeds,
}
KAPPAS, RADII = (0.25, 0.5, 1.0), (1e-4, 1e-3, 1e-2, 3e-2, 1e-1)
# (radius, kappa) of each set, as printed by --choose
CHOSEN = {
    "Dermatology": (3e-2, 1.0),
    "Iris": (1e-4, 0.25),
    "Wine": (3e-2, 0.25),
    "Penguins": (1e-2, 1.0),
    "Seeds": (1e-3, 0.25),
}
EXACT = {
    "centralised DRO": WassersteinDROClassifier(tol=1e-3),
    "Fed DRO": FedDROClassifier(),
    "OvA Fed DRO": FedOvADROClassifier(),
}
BUDGET = {"epsilon": 3.73, "delta": 1e-6}
PUBLISHED_SETTINGS = {"variant": "paper", "n_rounds": 50}
PRIVATE = {
    "DP-Fed DRO, published": DPFedDROClassifier(**PUBLISHED_SETTINGS, c_model=2.0, c_lambda=6.0),
    "DP-Fed ERM, published": DPFedERMClassifier(**PUBLISHED_SETTINGS, c_model=2.0),
    "DP-Fed DRO, local": DPFedDROClassifier(),
    "DP-Fed ERM, local": DPFedERMClassifier(),
    "DP-Fed SGD, local": DPFedSGDClassifier(),
    "DP-Fed DRO, trusted": DPFedDROClassifier(aggregation="trusted"),
    "DP-Fed ERM, trusted": DPFedERMClassifier(aggregation="trusted"),
    "DP-Fed SGD, trusted": DPFedSGDClassifier(aggregation="trusted"),
}
PAPER = {
    "centralised DRO": (0.905, 0.919, 0.943, 0.996, 0.969),
    "Fed DRO": (0.919, 0.943, 0.924, 0.993, 0.981),
    "OvA Fed DRO": (0.957, 0.862, 0.932, 0.992, 0.979),
    "DP-Fed DRO, published": (0.505, 0.564, 0.640, 0.689, 0.733),
    "DP-Fed ERM, published": (0.527, 0.519, 0.590, 0.774, 0.620),
    "DP-Fed SGD, local": (0.599, 0.559, 0.606, 0.637, 0.690),
}
PAPER |= {name: PAPER["DP-Fed DRO, published"] for name in ("DP-Fed DRO, local", "DP-Fed DRO, trusted")}
PAPER |= {name: PAPER["DP-Fed ERM, published"] for name in ("DP-Fed ERM, local", "DP-Fed ERM, trusted")}
PAPER |= {"DP-Fed SGD, trusted": PAPER["DP-Fed SGD, local"]}


def complete(name):
    """Rows without missing values."""
    bunch = LOADERS[name]()
    X, y = np.asarray(bunch.data, dtype=float), np.asarray(bunch.target)
    rows = np.isfinite(X).all(axis=1)
    return X[rows], np.unique(y[rows], return_inverse=True)[1]


def split(data, seed):
    """Training rows, their noisy labels and clients, test rows and labels, and the public box."""
    X, y = complete(data)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    clients, noisy = split_clients_by_share(y, random_state=seed), flip_labels(y, 0.1, random_state=seed)
    lo, hi = X.min(axis=0), X.max(axis=0)
    return X, noisy, clients, X_test, y_test, (lo, np.maximum(hi, lo + 1e-9))


def unit(X, box):
    """Features in [0, 1]."""
    lo, hi = box
    return (X.clip(lo, hi) - lo) / (hi - lo)


def exact(method, data, seed):
    """Macro-F1 of a model without privacy."""
    warnings.simplefilter("ignore")
    X, noisy, clients, X_test, y_test, box = split(data, seed)
    radius, kappa = CHOSEN[data]
    model = clone(EXACT[method]).set_params(radius=radius, kappa=kappa)
    groups = {} if method.startswith("centralised") else {"groups": clients}
    model.fit(unit(X, box), noisy, **groups)
    return {"macro-F1": f1_score(y_test, model.predict(unit(X_test, box)), average="macro")}


def private(method, data, seed, draw):
    """Macro-F1 of a private model."""
    warnings.simplefilter("ignore")
    X, noisy, clients, X_test, y_test, box = split(data, seed)
    model = clone(PRIVATE[method]).set_params(
        **BUDGET, feature_bounds=box, classes=np.unique(y_test), random_state=1000 * seed + draw
    )
    model.fit(X, noisy, groups=clients)
    return {"macro-F1": f1_score(y_test, model.predict(X_test), average="macro")}


def validated(data, radius, kappa, seed):
    """Macro-F1 of the centralised model on noisy validation rows."""
    warnings.simplefilter("ignore")
    X, noisy, _, _, _, box = split(data, seed)
    X, X_val, y, y_val = train_test_split(unit(X, box), noisy, test_size=0.25, stratify=noisy, random_state=seed)
    model = WassersteinDROClassifier(radius, kappa, tol=1e-2).fit(X, y)
    return {"macro-F1": f1_score(y_val, model.predict(X_val), average="macro")}


def choose(args):
    """Print the best pair of each set."""
    jobs = itertools.product(LOADERS, RADII, KAPPAS, (100, 101, 102))
    rows = Study("table1_choice", args).run(
        validated, [dict(zip(("data", "radius", "kappa", "seed"), job, strict=True)) for job in jobs]
    )
    means = rows.groupby(["data", "radius", "kappa"], sort=False)["macro-F1"].mean()
    for data in LOADERS:
        best = means[data].idxmax()
        print(f"{data:12s} {means[data].round(3).to_dict()}\n{'':12s} best {best}")


def draw_figure(study, scores, methods):
    """Dots of all methods, published beside ours."""
    figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
    for k, method in enumerate(methods):
        for j, data in enumerate(LOADERS):
            values, height = scores[method][data], 0.3 - 0.15 * j - k
            bar = 2 * values.std(ddof=1) / np.sqrt(len(values))
            style = {"color": f"C{j}", "marker": "o", "ms": 4, "label": data if k == 0 else None}
            ax.errorbar(values.mean(), height, xerr=bar, **style)
            ax.plot(PAPER[method][j], height, "x", color=f"C{j}", ms=5)
    ax.set(
        yticks=-np.arange(len(methods)),
        yticklabels=methods,
        xlabel="macro-F1 (cross: published; bar: two standard errors)",
    )
    ax.grid(axis="x", alpha=0.3)
    ax.legend(frameon=False, fontsize=8, loc="lower left")
    study.save(figure)


def main():
    """Run, compare, draw."""
    args = options(__doc__, choose={"action": "store_true", "help": "repeat the choice of radius and kappa"})
    if args.choose:
        choose(args)
        return
    study = Study("table1", args)
    seeds, draws = (range(2), range(1)) if args.quick else (range(args.seeds or 10), range(3))
    datasets = [name for name in LOADERS if not (args.quick and name == "Dermatology")]
    quick_exact = [m for m in EXACT if not (args.quick and m == "OvA Fed DRO")]
    jobs = [{"method": m, "data": d, "seed": s} for d in datasets[::-1] for m in quick_exact for s in seeds]
    not_private = study.run(exact, jobs, "_exact")
    jobs = itertools.product(PRIVATE, datasets, seeds, draws)
    with_privacy = study.run(
        private, [dict(zip(("method", "data", "seed", "draw"), job, strict=True)) for job in jobs], "_private"
    )
    with_privacy = with_privacy.groupby(["method", "data", "seed"], sort=False)["macro-F1"].mean().reset_index()
    scores, entries = {}, []
    for method in (*quick_exact, *PRIVATE):
        rows = not_private if method in EXACT else with_privacy
        rows = rows[rows["method"] == method]
        scores[method] = {d: rows.loc[rows["data"] == d, "macro-F1"].to_numpy() for d in datasets}
        paper = dict(zip(LOADERS, PAPER[method], strict=True))
        entries += [(method, d, values, paper[d]) for d, values in scores[method].items()]
        mean = round(float(np.mean([paper[d] for d in datasets])), 4)
        entries.append((method, "mean", np.mean(list(scores[method].values()), axis=0), mean))
    study.compare("First paper, Table 1: macro-F1 on five UCI sets, total (3.73, 1e-6) where private", entries)
    if not args.quick:
        draw_figure(study, scores, list(scores))


if __name__ == "__main__":
    main()
