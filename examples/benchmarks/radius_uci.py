"""What the radius is worth without privacy: macro-F1 on three UCI sets for three radii, 10 % flipped labels.

The recipe of `private_uci.py`: 80/20 split, four uneven clients, features mapped to [-1, 1] by their training range,
clean test labels; kappa = 2, mean over six seeds with the standard error.  Needs a data folder (SKDRO_DATA).

    python examples/benchmarks/radius_uci.py
"""

import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_wine
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from skdro import FedDROClassifier
from skdro.datasets import fetch_dermatology, fetch_seeds, flip_labels, split_clients_by_share

RADII = (1e-4, 1e-2, 3e-2)
SEEDS = range(6)


def score(X, y, radius, seed):
    """Macro-F1 of one split."""
    warnings.simplefilter("ignore")  # 120 rounds are enough for a score, not for the tolerance
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    clients = split_clients_by_share(y, random_state=seed)
    noisy = flip_labels(y, 0.1, random_state=seed)
    scaler = MinMaxScaler((-1, 1)).fit(X)
    model = FedDROClassifier(radius, 2.0, n_rounds=120).fit(scaler.transform(X), noisy, groups=clients)
    return f1_score(y_test, model.predict(scaler.transform(X_test)), average="macro")


def main():
    """Print the table."""
    for name, bunch in {"Dermatology": fetch_dermatology(), "Wine": load_wine(), "Seeds": fetch_seeds()}.items():
        X, y = np.asarray(bunch.data, dtype=float), np.asarray(bunch.target)
        complete = np.isfinite(X).all(axis=1)
        for radius in RADII:
            runs = Parallel(n_jobs=2)(delayed(score)(X[complete], y[complete], radius, seed) for seed in SEEDS)
            print(
                f"{name:12s} radius {radius:g}: {np.mean(runs):.3f} ({np.std(runs, ddof=1) / np.sqrt(len(runs)):.3f})"
            )


if __name__ == "__main__":
    main()
