"""The imbalanced binary tasks of divergence_private.py: digits, MNIST and Fashion-MNIST as "class 5 or more"."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skdro.datasets import make_imbalanced

POSITIVE = [5, 6, 7, 8, 9]
MOST_ROWS = {"linear": 4000, "network": 2000}  # a random part of what is longer


@dataclass(frozen=True)
class Cell:
    """One task under one budget."""

    model: str
    data: str
    ratio: float
    epsilon: float


def digits(seed):
    """A quarter of scikit-learn's digits for the test."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16.0, y, test_size=0.25, stratify=y, random_state=seed)
    return X, y, X_test, y_test


@cache
def _images(folder, train, test):
    root = Path(os.environ["SKDRO_DATA"]) / folder
    parts = [[np.load(root / name) for name in names] for names in (train, test)]
    out = []
    for part in parts:
        keys = sorted(part[0].files, key=lambda key: part[0][key].ndim)
        y, X = (np.concatenate([file[key] for file in part]) for key in (keys[0], keys[-1]))
        X = X.reshape(len(X), 28, 28).astype(float) / 255.0
        out += [X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(X), 196), y.astype(int)]
    return out[0], out[1], out[2], out[3]


def mnist(seed):
    """14 x 14 means of 2 x 2 pixels."""
    return _images("mnist", ("mnist_train10k.npz",), ("mnist_test10k.npz",))


def fashion(seed):
    """14 x 14 means of 2 x 2 pixels."""
    return _images("fashion_mnist", ("fashion_train_0.npz", "fashion_train_1.npz"), ("fashion_test5k.npz",))


DATA = {"digits": digits, "mnist": mnist, "fashion": fashion}


def task_of(cell, seed):
    """Training rows and labels, test rows and labels of a run."""
    X, y, X_test, y_test = DATA[cell.data](seed)
    X, y = make_imbalanced(X, y, cell.ratio, positive=POSITIVE, random_state=seed)
    X_test, y_test = make_imbalanced(X_test, y_test, 0.5, positive=POSITIVE, random_state=seed)
    if len(X) > MOST_ROWS[cell.model]:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS[cell.model], stratify=y, random_state=seed)
    return X, y, X_test, y_test
