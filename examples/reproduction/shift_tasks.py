"""The tasks of the study of robustness under shift: real or physical data, several clients, a changed deployment.

Each task is a function of (seed, flips) that returns training rows, their noisy labels and clients, test rows, their
labels and clients.  Rows lie in [-1, 1] by public ranges, missing values in the middle.
"""

import numpy as np
from pump import CACHE, SIZES
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from skdro.datasets import fetch_adult, fetch_heart_disease, fetch_tennessee_eastman, flip_labels, make_pump_faults

# age, trestbps, chol, thalach and oldpeak have no documented bounds: those of adults at rest and under load
WIDE = {0: (20, 90), 3: (80, 220), 4: (100, 600), 7: (60, 220), 9: (-3, 7)}
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
DRIFTING = [0, 1, 4, 6, 11]  # of the pump: mean, variance, peak to peak, rms, power at 40 to 60 Hz
FAULTS = (0, 1, 2, 4, 5, 6, 7)
AGE, CAPITAL, HOURS = (17, 90), (0, 10_000), (1, 99)


def symmetric(X, low, high):
    """The box mapped to [-1, 1], clipped, missing values in its middle."""
    return np.nan_to_num((2 * (X - low) / (high - low) - 1).clip(-1, 1))


def flipped(y, flips, seed):
    """Labels of which a share is wrong."""
    return flip_labels(y, flips, random_state=seed) if flips else y


def heart(left_out, seed, flips):
    """Heart disease at a hospital that no model has seen, from the three others."""
    data = fetch_heart_disease()
    low, high = (np.array(bound, dtype=float) for bound in data.feature_bounds)
    for column, (least, most) in WIDE.items():
        low[column], high[column] = least, most
    X, train = symmetric(data.data, low, high), data.groups != left_out
    y = flipped(data.target[train], flips, seed)
    return X[train], y, data.groups[train], X[~train], data.target[~train], data.groups[~train]


def clean_pump():
    """One clean simulation of the pump, kept: features in their units, labels and sites."""
    path = CACHE / "pump_clean.npz"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        pump = make_pump_faults(SIZES, random_state=0)
        np.savez(path, data=pump.data, target=pump.target, groups=pump.groups)
    return np.load(path)


def pump(seed, flips, drift=0.5):
    """Pump faults; new split, sensor noise (.4 and, deployed, .2 standard deviations) and drift of five sensors."""
    study, rng = clean_pump(), np.random.default_rng(seed)
    X, y, sites = study["data"], study["target"], study["groups"]
    train, test = train_test_split(np.arange(len(X)), test_size=0.2, stratify=y, random_state=seed)
    X = X / X.std(axis=0)
    X_train = X[train] + 0.4 * rng.standard_normal(X[train].shape)
    X_test = X[test] + 0.2 * rng.standard_normal(X[test].shape)
    X_test[:, DRIFTING] += drift
    low, high = X_train.min(axis=0), X_train.max(axis=0)
    rows = [symmetric(part, low, high) for part in (X_train, X_test)]
    return rows[0], flipped(y[train], flips, seed), sites[train], rows[1], y[test], sites[test]


def tennessee(seed, flips, drift=0.5):
    """Seven conditions of the plant, 100 rows each; at deployment a quarter of the sensors has drifted."""
    rng = np.random.default_rng(seed)
    parts = []
    for subset, per_fault in (("train", 100), ("test", 200)):
        data = fetch_tennessee_eastman(subset=subset)
        rows = [rng.choice(np.flatnonzero(data.target == k), per_fault, replace=False) for k in FAULTS]
        rows = np.concatenate(rows)
        parts += [data.data[rows], data.target[rows], data.groups[rows]]
    X, y, periods, X_test, y_test, test_periods = parts
    mean, scale = X.mean(axis=0), X.std(axis=0) + 1e-12
    X_test = X_test + drift * scale * (rng.permutation(X.shape[1]) < X.shape[1] // 4) * rng.choice(
        [-1, 1], X.shape[1]
    )
    rows = [symmetric(part, mean - 4 * scale, mean + 4 * scale) for part in (X, X_test)]
    return rows[0], flipped(y, flips, seed), periods, rows[1], y_test, test_periods


def adult(seed, flips):
    """Income of 3000 census records, clients by race; deployed on the test file."""
    rng, parts, encoder = np.random.default_rng(seed), [], None
    for subset, n in (("train", 3000), ("test", 6000)):
        data = fetch_adult(subset=subset, as_frame=True)
        rows = rng.choice(len(data.target), n, replace=False)
        frame = data.data.iloc[rows]
        names = ["age", "education-num", "hours-per-week", "capital-gain", "capital-loss"]
        bounds = np.array([AGE, (1, 16), HOURS, CAPITAL, (0, 3000)], dtype=float).T
        numbers = symmetric(frame[names].to_numpy(dtype=float), *bounds)
        words = frame[["marital-status", "occupation", "relationship", "sex"]].astype(str)
        encoder = encoder or OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(words)
        parts += [np.hstack([numbers, encoder.transform(words)]), np.asarray(data.target)[rows],
                  np.asarray(data.groups)[rows]]  # fmt: skip
    X, y, races, X_test, y_test, test_races = parts
    return X, flipped(y, flips, seed), races, X_test, y_test, test_races


TASKS = {
    "heart": [lambda seed, flips, left_out=name: heart(left_out, seed, flips) for name in HOSPITALS],
    "pump": [pump],
    "tennessee": [tennessee],
    "adult": [adult],
}
