"""Mechanisms that might beat noisy descent at equal privacy: output perturbation, steps from the noise, weights.

Each arm has one constant, chosen on the simulated tasks of choose_private_steps.py (`--choose` repeats it), and is
compared on five UCI sets (splits of private_uci.py) with the default of DPFedDROClassifier at the same total budget
and the same place of the noise; macro-F1, paired over 20 seeds of 3 draws.  Kept in the package would be what wins by
more than two standard errors on the mean of the sets.

* output perturbation (trusted): the exact minimiser of worst-case risk plus lambda/2 ||M||^2, labels trusted, with
  noise once.  Two data sets that differ in one of n records have minimisers within 2 sqrt(2) L / (n lambda), to which
  twice the solver's distance sqrt(2 gap / lambda) is added;
* steps from public noise: c / sqrt(1 + (sigma sqrt(K P) / (sqrt(2) L))^2) instead of a fixed c_model;
* heterogeneous clients (local noise): weights N_g^p with p > 1 put less noise into the sum, and less of the small
  clients' signal.

    python examples/benchmarks/better_mechanisms.py [--choose] [n_seeds]
"""

import sys
import warnings
from itertools import product

import cvxpy as cp
import numpy as np
from choose_private_steps import TASKS, task
from joblib import Parallel, delayed
from private_uci import data
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from skdro import DPFedDROClassifier, plan_noise
from skdro.datasets import flip_labels, split_clients_by_share
from skdro.federation.frames import ClippedFrame
from skdro.privacy.accounting import gaussian_mu

BUDGETS = ((3.73, 1e-6), (1.0, 1e-5))
RADIUS, GAP = 0.01, 1e-6
GRIDS = {
    "output perturbation, trusted": (0.03, 0.1, 0.3, 1.0),
    "steps from noise, trusted": (2.0, 3.0, 5.0, 8.0),
    "steps from noise, local": (2.0, 3.0, 5.0, 8.0, 12.0),
    "weights N^p, local": (1.5, 2.0),
}
# printed by --choose
CHOSEN = {
    "output perturbation, trusted": 0.1,
    "steps from noise, trusted": 5.0,
    "steps from noise, local": 8.0,
    "weights N^p, local": 1.5,
}


def robust_minimiser(Z, y, n_classes, ridge):
    """Exact minimiser of the worst-case risk with trusted labels (l_inf transport) plus ridge / 2 ||M||^2."""
    n, columns = Z.shape
    M, slack, spread = cp.Variable((n_classes, columns)), cp.Variable(n), cp.Variable(nonneg=True)
    scores = Z @ M.T
    own = cp.sum(cp.multiply(scores, np.eye(n_classes)[y]), axis=1)
    rows = [scores[:, k] - own + (y != k) <= slack for k in range(n_classes)]
    rows += [cp.norm1(M[a, :-1] - M[b, :-1]) <= spread for a in range(n_classes) for b in range(a)]
    risk = cp.sum(slack) / n + RADIUS * spread + ridge / 2 * cp.sum_squares(M)
    cp.Problem(cp.Minimize(risk), rows).solve(cp.CLARABEL)
    return M.value


def output_perturbation(X, y, groups, public, ridge, rng):
    """Predictor: exact minimiser with Gaussian noise once."""
    frame = ClippedFrame.of_box(*public["feature_bounds"], True, 1.0)
    classes = np.asarray(public["classes"])
    Z = frame.enter(X)
    M = robust_minimiser(Z, np.searchsorted(classes, y), len(classes), ridge)
    sensitivity = 2 * np.sqrt(2) / (len(X) * ridge) + 2 * np.sqrt(2 * GAP / ridge)
    noisy = M + sensitivity / gaussian_mu(public["epsilon"], public["delta"]) * rng.normal(size=M.shape)
    return lambda rows: classes[np.argmax(frame.enter(rows) @ noisy.T, axis=1)]


def descent(X, y, groups, public, rng, **settings):
    """Predictor: DPFedDROClassifier."""
    model = DPFedDROClassifier(**public, **settings, random_state=int(rng.integers(2**31)))
    return model.fit(X, y, groups=groups).predict


def noisy_steps(aggregation):
    """Descent whose step shrinks with the public size of the noise."""

    def fit(X, y, groups, public, c, rng):
        sizes = np.unique(groups, return_counts=True)[1].tolist()
        shape = {"n_features": X.shape[1], "n_classes": len(public["classes"])}
        plan = plan_noise(public["epsilon"], public["delta"], 30, sizes, **shape, aggregation=aggregation)
        ratio = max(noise.ratio_round for noise in plan.noise.values())
        step = c / np.sqrt(1 + ratio**2)
        return descent(X, y, groups, public, rng, aggregation=aggregation, c_model=step)

    return fit


def weighted(X, y, groups, public, power, rng):
    """Descent with local noise and weights N_g^power."""
    sizes = np.unique(groups, return_counts=True)[1].astype(float)
    return descent(X, y, groups, public, rng, client_weights=sizes**power)


ARMS = {
    "output perturbation, trusted": output_perturbation,
    "steps from noise, trusted": noisy_steps("trusted"),
    "steps from noise, local": noisy_steps("local"),
    "weights N^p, local": weighted,
}


def score(arm, constant, X, y, groups, X_test, y_test, public, seed):
    """Macro-F1 of one draw of an arm, or of the default where it has no constant."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    if constant is None:
        predict = descent(X, y, groups, public, rng, aggregation=arm)
    else:
        predict = ARMS[arm](X, y, groups, public, constant, rng)
    return f1_score(y_test, predict(X_test), average="macro", zero_division=0.0)


def choose(parallel):
    """Print the mean macro-F1 of each constant over the simulated tasks and both budgets."""

    def simulated(arm, constant, shape, budget, seed):
        X, y, X_test, y_test, box = task(*shape, seed)
        groups, noisy = split_clients_by_share(y, random_state=seed), flip_labels(y, 0.1, random_state=seed)
        public = {"epsilon": budget[0], "delta": budget[1], "feature_bounds": box, "classes": range(shape[0])}
        return score(arm, constant, X, noisy, groups, X_test, y_test, public, seed)

    for arm, grid in GRIDS.items():
        means = {}
        for constant in grid:
            jobs = product(TASKS, BUDGETS, range(3))
            means[constant] = np.mean(parallel(delayed(simulated)(arm, constant, *job) for job in jobs))
        print(arm, {c: round(float(v), 4) for c, v in means.items()}, "best", max(means, key=means.get), flush=True)


def real(X, y, budget, seed):
    """Macro-F1 of the two defaults and of all arms, mean over three draws."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    groups, noisy = split_clients_by_share(y, random_state=seed), flip_labels(y, 0.1, random_state=seed)
    lo, hi = X.min(axis=0), X.max(axis=0)
    box = (lo, np.maximum(hi, lo + 1e-9))
    public = {"epsilon": budget[0], "delta": budget[1], "feature_bounds": box, "classes": np.unique(y)}
    columns = [("local", None), ("trusted", None), *CHOSEN.items()]
    return [
        np.mean([score(*column, X, noisy, groups, X_test, y_test, public, 1000 * seed + d) for d in range(3)])
        for column in columns
    ]


def main():
    """Print the choice or the comparison."""
    with Parallel(n_jobs=2) as parallel:
        if "--choose" in sys.argv:
            choose(parallel)
            return
        n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
        for budget in BUDGETS:
            sets = [
                np.array(parallel(delayed(real)(X, y, budget, seed) for seed in range(n_seeds))) for _, X, y in data()
            ]
            mean = np.mean(sets, axis=0)
            print(f"\ntotal {budget}, five sets, {n_seeds} seeds: macro-F1 (standard error), paired difference")
            for k, arm in enumerate(["default, local", "default, trusted", *CHOSEN]):
                base = mean[:, 1 if "trusted" in arm else 0]
                gap, root = mean[:, k] - base, np.sqrt(n_seeds)
                error, gap_error = mean[:, k].std(ddof=1) / root, gap.std(ddof=1) / root
                print(
                    f"{arm:32s} {mean[:, k].mean():.3f} ({error:.3f})  {gap.mean():+.3f} ({gap_error:.3f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
