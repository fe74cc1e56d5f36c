"""Choose n_rounds, reg and the steps of the private classifiers on simulated data.

Gaussian classes with random centres, uneven clients, 10 % flipped labels, features in a public box of three
standard deviations around the population.  For each method, budget and aggregation: mean macro-F1 on clean test
records over tasks and seeds, by (n_rounds, c_model); then the pair that is best on average.  With `rule` instead: the
two constants of c_model="auto" at the default number of rounds; with weights by size its noise depends on the number
of the clients, not on their sizes.  No real data are used.

All settings of one number of rounds run side by side, with the same noise: on private data that would be as many
releases, on simulated data it is free.  The recursions are the estimators'; `check` compares them.

    python examples/benchmarks/choose_private_steps.py [n_seeds] [rule]
"""

import sys
import warnings
from itertools import product
from math import sqrt

import numpy as np
from joblib import Parallel, delayed

from skdro import DPFedDROClassifier, DPFedERMClassifier
from skdro.ambiguity.transport import TRANSPORT_NORMS, spread_and_subgradient
from skdro.ambiguity.wasserstein import worst_labels
from skdro.datasets import flip_labels, split_clients_by_share
from skdro.federation.frames import ClippedFrame
from skdro.federation.steps.gradient import shrinking_step
from skdro.federation.steps.linearised import dp_admm_steps
from skdro.losses.crammer_singer import label_weights
from skdro.privacy.accounting import gaussian_mu

ROUNDS = (5, 10, 20, 30, 50)
STEPS = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
ADMM_ROUNDS = (10, 20, 30, 50, 100)
ADMM_STEPS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0)
RADIUS, KAPPA = 0.01, 2.0
METHODS = {"robust": None, "reg 1e-6 (SGD)": 1e-6, "reg 1e-3": 1e-3, "reg 1e-2": 1e-2, "reg 3e-2": 3e-2}
ADMM = {"DP-ADMM, decaying": 0.5, "DP-ADMM, constant": 0.0}
ADMM_REG, RHO = 1e-3, 0.8
BUDGETS = ((1.0, 1e-5), (3.73, 1e-6))
# of c_model="auto": methods with their default number of rounds
RULE_METHODS = {"robust": 30, "reg 1e-6 (SGD)": 20, "reg 1e-3": 20}
RULE_BUDGETS = (*BUDGETS, (10.0, 1e-5))
NOISELESS, NOISE_WEIGHTS = (5.0, 6.5, 8.0, 10.0, 13.0, 17.0), (1.0, 2.0, 3.0, 4.0, 6.0, 9.0)
N_CLIENTS = 4
TASKS = ((3, 4, 120), (3, 12, 150), (6, 30, 300), (3, 7, 170), (4, 10, 1000), (2, 20, 400))  # classes, features, rows
LINF = TRANSPORT_NORMS["linf"]


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


def mean_gradients(Z, y, M, price):
    """Mean worst-case gradient at each of the models M, shape (n_models, n_classes, n_columns)."""
    n_models, n_classes, _ = M.shape
    scores = np.matmul(Z, M.transpose(0, 2, 1)).reshape(-1, n_classes)
    label, rival, _ = worst_labels(scores, np.tile(y, n_models), np.repeat(price, len(Z)))
    V = label_weights(label, rival, np.full(len(scores), 1 / len(Z)), n_classes)
    return np.matmul(V.reshape(n_models, len(Z), n_classes).transpose(0, 2, 1), Z)


def descents(Z, y, n_classes, n_rounds, settings, sigma, rng):
    """Last models of noisy descents with weights by size, one for each (reg or None, c_model)."""
    M = np.zeros((len(settings), n_classes, Z.shape[1]))
    robust = np.array([reg is None for reg, _ in settings])
    reg = np.array([0.0 if reg is None else reg for reg, _ in settings]).reshape(-1, 1, 1)
    step = np.array([c for _, c in settings]).reshape(-1, 1, 1)
    for t in range(1, n_rounds + 1):
        slope, price = reg * M, np.full(len(M), np.inf)
        slope[:, :, -1] = 0.0
        for j in np.flatnonzero(robust):
            phi, C = spread_and_subgradient(M[j, :, :-1], LINF)
            slope[j, :, :-1], price[j] = RADIUS * C, KAPPA * phi
        noise = sigma * rng.normal(size=M.shape[1:])
        M = M - step / sqrt(t) * (mean_gradients(Z, y, M, price) + noise + slope)
    return M


def admms(clients, n_classes, n_rounds, settings, multiplier, rng):
    """Last consensus models of DP-ADMM with weights by size, one for each (decay, c_model)."""
    sizes = np.array([len(y) for _, y in clients])
    shape = (n_classes, clients[0][0].shape[1])
    decay = np.array([decay for decay, _ in settings]).reshape(-1, 1, 1)
    eta = [
        dp_admm_steps(n_records=sizes, shape=shape, data_norm=1.0, reg=ADMM_REG, c_model=c_, multiplier=multiplier)
        / (sqrt(n_rounds) if decay_ == 0 else 1.0)
        for decay_, c_ in settings
    ]
    eta = np.array(eta).T.reshape(len(sizes), len(settings), 1, 1)
    M = np.zeros((len(settings), *shape))
    local, mu = np.zeros((len(sizes), *M.shape)), np.zeros((len(sizes), *M.shape))
    trusted = np.full(len(settings), np.inf)
    for t in range(1, n_rounds + 1):
        for g, (Z, y) in enumerate(clients):
            step = eta[g] / t**decay
            ridge = ADMM_REG * local[g]
            ridge[:, :, -1] = 0.0
            slope = mean_gradients(Z, y, local[g], trusted) + ridge
            slope = slope + multiplier * 2 * sqrt(2) / len(y) * rng.normal(size=slope.shape)
            local[g] = (local[g] / step + RHO * (M - mu[g]) - slope) / (RHO + 1 / step)
        M = np.tensordot(sizes / sizes.sum(), local + mu, axes=1)
        mu += local - M
    return M


def macro_f1(y, found, n_classes):
    """Mean over classes of 2 hits / (records + predictions)."""
    hits, records, predictions = (np.bincount(c, minlength=n_classes) for c in (y[y == found], y, found))
    return np.mean(2 * hits / np.maximum(records + predictions, 1))


def simulated(n_classes, n_features, n_rows, seed):
    """Macro-F1 of the descents [budget, aggregation, n_rounds, (method, c_model)], and the like of DP-ADMM."""
    X, y, X_test, y_test, box = task(n_classes, n_features, n_rows, seed)
    groups = split_clients_by_share(y, random_state=seed)
    noisy = flip_labels(y, 0.1, random_state=seed)
    frame = ClippedFrame.of_box(*box, True, 1.0)
    Z, Z_test, rng = frame.enter(X), frame.enter(X_test), np.random.default_rng(seed)
    clients = [(Z[groups == g], noisy[groups == g]) for g in np.unique(groups)]

    def scored(models):
        return [macro_f1(y_test, (Z_test @ M.T).argmax(axis=1), n_classes) for M in models]

    settings = list(product(METHODS.values(), STEPS))
    by_descent = [
        [
            [
                scored(descents(Z, noisy, n_classes, T, settings, sqrt(T * draws) / mu * 2 * sqrt(2) / len(Z), rng))
                for T in ROUNDS
            ]
            for draws in (len(clients), 1)  # the noise of all clients adds up, or is added once
        ]
        for mu in (gaussian_mu(*budget) for budget in BUDGETS)
    ]
    settings = list(product(ADMM.values(), ADMM_STEPS))
    by_admm = [
        [scored(admms(clients, n_classes, T, settings, sqrt(T) / mu, rng)) for T in ADMM_ROUNDS]
        for mu in (gaussian_mu(*budget) for budget in BUDGETS)
    ]
    return np.array(by_descent), np.array(by_admm)


def by_rule(n_classes, n_features, n_rows, seed):
    """Macro-F1 of the descents [budget, aggregation, method, (noise weight, noiseless step), and c_model 3 last]."""
    X, y, X_test, y_test, box = task(n_classes, n_features, n_rows, seed)
    noisy, frame = flip_labels(y, 0.1, random_state=seed), ClippedFrame.of_box(*box, True, 1.0)
    Z, Z_test, rng = frame.enter(X), frame.enter(X_test), np.random.default_rng(seed)
    shape = (n_classes, Z.shape[1])
    scores = []
    for budget, draws, method in product(RULE_BUDGETS, (N_CLIENTS, 1), RULE_METHODS):
        n_rounds = RULE_METHODS[method]
        sigma = sqrt(n_rounds * draws) / gaussian_mu(*budget) * 2 * sqrt(2) / len(Z)
        steps = [shrinking_step(sigma, shape, 1.0, c, weight) for weight, c in product(NOISE_WEIGHTS, NOISELESS)]
        settings = [(METHODS[method], c) for c in (*steps, 3.0)]
        models = descents(Z, noisy, n_classes, n_rounds, settings, sigma, rng)
        scores.append([macro_f1(y_test, (Z_test @ M.T).argmax(axis=1), n_classes) for M in models])
    return np.reshape(scores, (len(RULE_BUDGETS), 2, len(RULE_METHODS), -1))


def choose_rule(seeds):
    """Print the tables of c_model="auto"."""
    runs = Parallel(n_jobs=2)(delayed(by_rule)(*size, seed) for size, seed in product(TASKS, seeds))
    mean = np.mean(runs, axis=(0, 1))
    cells = [(w, m) for w in range(2) for m in range(len(RULE_METHODS))]
    tables = {f"{('local', 'trusted')[w]}, {list(RULE_METHODS)[m]}": mean[w, m] for w, m in cells}
    for title, scores in {**tables, "mean": mean.mean(axis=(0, 1))}.items():
        print(f"\n{title}: rows noise weight {NOISE_WEIGHTS}, columns noiseless step {NOISELESS}")
        rows = scores[:-1].reshape(len(NOISE_WEIGHTS), -1)
        print("\n".join("  ".join(f"{v:.4f}" for v in row) for row in rows))
        print(f"c_model = 3: {scores[-1]:.4f}")


def check():
    """The recursions here are those of the estimators: models without noise agree."""
    X, y, _, _, box = task(*TASKS[0], 0)
    groups, frame = split_clients_by_share(y, random_state=0), ClippedFrame.of_box(*box, True, 1.0)
    Z, rng = frame.enter(X), np.random.default_rng(0)
    clients = [(Z[groups == g], y[groups == g]) for g in np.unique(groups)]
    common = {"epsilon": 1e9, "n_rounds": 7, "feature_bounds": box, "classes": [0, 1, 2], "random_state": 0}
    robust = DPFedDROClassifier(**common, c_model=2.0, radius=RADIUS, kappa=KAPPA)
    erm = DPFedERMClassifier(**common, c_model=2.0, reg=1e-2)
    paper = DPFedERMClassifier(**common, c_model=2.0, reg=ADMM_REG, rho=RHO, variant="paper")
    models = [
        *descents(Z, y, 3, 7, [(None, 2.0), (1e-2, 2.0)], 0.0, rng),
        admms(clients, 3, 7, [(0.5, 2.0)], 0.0, rng)[0],
    ]
    for estimator, M in zip((robust, erm, paper), models, strict=True):
        estimator.fit(X, y, groups=groups)
        np.testing.assert_allclose(estimator.coef_, frame.leave(M)[0], atol=1e-3)


def show(name, tables, rounds, steps):
    """Print the tables of one method by (budget, aggregation), and what is best on their average."""
    mean = np.mean(list(tables.values()), axis=0)
    for title, table in [*tables.items(), ("mean", mean)]:
        print(f"\n{name}, {title}: rows n_rounds {rounds}, columns c_model {steps}")
        print("\n".join("  ".join(f"{v:.3f}" for v in row) for row in table))
    i, j = np.unravel_index(mean.argmax(), mean.shape)
    print(f"best of {name}: n_rounds = {rounds[i]}, c_model = {steps[j]}, {mean[i, j]:.4f}")


def main():
    """Print the tables."""
    warnings.simplefilter("ignore")
    check()
    rule = sys.argv[-1] == "rule"
    given = sys.argv[1 : len(sys.argv) - rule]
    seeds = range(int((given or [8])[0]))
    if rule:
        choose_rule(seeds)
        return
    runs = Parallel(n_jobs=2)(delayed(simulated)(*size, seed) for size, seed in product(TASKS, seeds))
    descent, admm = (np.mean(part, axis=0) for part in zip(*runs, strict=True))
    for m, name in enumerate(METHODS):
        columns = slice(m * len(STEPS), (m + 1) * len(STEPS))
        cells = product(enumerate(BUDGETS), enumerate(("local", "trusted")))
        tables = {f"{budget}, {where}": descent[b, a][:, columns] for (b, budget), (a, where) in cells}
        show(name, tables, ROUNDS, STEPS)
    for m, name in enumerate(ADMM):
        columns = slice(m * len(ADMM_STEPS), (m + 1) * len(ADMM_STEPS))
        show(name, {f"{budget}": admm[b][:, columns] for b, budget in enumerate(BUDGETS)}, ADMM_ROUNDS, ADMM_STEPS)


if __name__ == "__main__":
    main()
