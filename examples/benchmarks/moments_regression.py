"""Private regression from one release: diabetes, and five sites whose features are shifted and corrupted.

R2 on held-out rows and, for the sites, the mean squared error at the site that is served worst, at delta = 1e-6 and
epsilon from .5 to 10, with noise at each client and once on the sum.  Compared with ridge regression without
privacy, and with ridge regression whose solution gets the noise (output perturbation, trusted; its penalty is the
best of a grid by the test rows, which favours it).

    python examples/benchmarks/moments_regression.py [n_seeds]
"""

import sys
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdro import DPMomentDRORegressor
from skdro.datasets import make_multisource_regression
from skdro.model_selection import worst_client_score
from skdro.preprocessing import PublicBoundsScaler, RowNormClipper
from skdro.privacy.accounting import gaussian_mu

EPSILONS = (0.5, 1.0, 2.0, 4.0, 10.0)
DELTA = 1e-6
PENALTIES = np.geomspace(1.0, 1e4, 9)
SETTINGS = {
    "local": {},
    "local, simplex": {"mixture": "simplex"},
    "local, tune": {"tune": True},
    "trusted": {"aggregation": "trusted"},
    "trusted, tune": {"aggregation": "trusted", "tune": True},
}


def diabetes(seed):
    """Four clients of equal size; bounds stated as public."""
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    clients = np.random.default_rng(seed).permutation(np.arange(len(y)) % 4)
    return (X, y, clients), (X_test, y_test, np.zeros(len(y_test))), (-0.2, 0.2), (0.0, 400.0)


def sites(seed):
    """Ten times the rows of the published study: 300 to 3000 a site."""
    data = make_multisource_regression((300, 400, 800, 1500, 3000), random_state=seed)
    test = (data.data_test, data.target_test, data.groups_test)
    return (data.data, data.target, data.groups), test, (-6.0, 6.0), (-8.0, 8.0)


def output_perturbed(train, X_test, epsilon, feature_bounds, target_bounds, seed):
    """Predictions by ridge regression with noise on the solution, for each penalty.

    The objective is penalty-strongly convex and a record's gradient at the solution is at most ||w|| + 1 long, with
    ||w|| <= min(sqrt(n / penalty), n / penalty), so that replacing one record moves w by at most twice that over
    the penalty (Chaudhuri, Monteleoni & Sarwate 2011).
    """
    X, y, _ = train
    centre, half = np.mean(target_bounds), (target_bounds[1] - target_bounds[0]) / 2

    def rows(X):
        Z = PublicBoundsScaler(feature_bounds).fit_transform(X)
        return RowNormClipper(1.0).fit_transform(np.column_stack([Z, np.ones(len(Z))]))

    Z, t = rows(X), np.clip((y - centre) / half, -1, 1)
    rng, mu = np.random.default_rng(seed), gaussian_mu(epsilon, DELTA)
    out = []
    for penalty in PENALTIES:
        w = np.linalg.solve(Z.T @ Z + penalty * np.eye(Z.shape[1]), Z.T @ t)
        length = min(np.sqrt(len(Z) / penalty), len(Z) / penalty)
        w = w + 2 * (length + 1) / penalty / mu * rng.normal(size=w.shape)
        out.append(centre + half * np.clip(rows(X_test) @ w, -1, 1))
    return out


def one_seed(load, seed):
    """R2 and worst-client MSE for each epsilon and method."""
    warnings.simplefilter("ignore")
    train, (X_test, y_test, groups_test), feature_bounds, target_bounds = load(seed)
    X, y, clients = train

    def judged(prediction):
        worst = worst_client_score(
            y_test, prediction, groups_test, metric=mean_squared_error, greater_is_better=False
        )
        return r2_score(y_test, prediction), worst

    ridge = make_pipeline(PublicBoundsScaler(feature_bounds), Ridge(alpha=1.0)).fit(X, y)
    out = np.empty((len(EPSILONS), len(SETTINGS) + 2, 2))
    out[:, 0] = judged(ridge.predict(X_test))
    for k, epsilon in enumerate(EPSILONS):
        for column, settings in enumerate(SETTINGS.values(), start=1):
            model = DPMomentDRORegressor(
                epsilon,
                DELTA,
                feature_bounds=feature_bounds,
                target_bounds=target_bounds,
                random_state=seed,
                **settings,
            ).fit(X, y, groups=clients)
            out[k, column] = judged(model.predict(X_test))
        candidates = output_perturbed(train, X_test, epsilon, feature_bounds, target_bounds, seed)
        scores = np.array([judged(prediction) for prediction in candidates])
        out[k, -1] = scores[:, 0].max(), scores[:, 1].min()
    return out


def main():
    """Print the tables."""
    n_seeds = int((sys.argv[1:] or ["20"])[0])
    columns = ["ridge, no privacy", *SETTINGS, "output noise"]
    for load in (diabetes, sites):
        runs = np.array(Parallel(n_jobs=2)(delayed(one_seed)(load, seed) for seed in range(n_seeds)))
        for figure, label in enumerate(("R2", "worst-client mean squared error")):
            print(f"\n{load.__name__}: {label}, mean (standard error) over {n_seeds} seeds, delta = {DELTA:g}")
            print(f"{'epsilon':>8s}" + "".join(f"{column:>20s}" for column in columns))
            for k, epsilon in enumerate(EPSILONS):
                values = runs[:, k, :, figure]
                errors = values.std(axis=0, ddof=1) / np.sqrt(n_seeds)
                cells = "".join(f"{m:>12.3f} ({e:.3f})" for m, e in zip(values.mean(axis=0), errors, strict=True))
                print(f"{epsilon:8g}{cells}")


if __name__ == "__main__":
    main()
