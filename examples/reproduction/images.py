"""The third paper's image tasks from the data folder (SKDRO_DATA): MNIST-ST, Fashion-MNIST-ST and Fashion-MNIST."""

import os
from pathlib import Path

import numpy as np

from skdro.datasets import make_imbalanced

FILES = {
    "mnist": (("mnist_train10k.npz",), ("mnist_test10k.npz",)),
    "fashion_mnist": (("fashion_train_0.npz", "fashion_train_1.npz"), ("fashion_test5k.npz",)),
}
POSITIVE = [5, 6, 7, 8, 9]


def images(name):
    """Training rows and labels, test rows and labels; 14 x 14 means of 2 x 2 pixels in [0, 1], shape (n, 196)."""
    folder = Path(os.environ["SKDRO_DATA"]) / name
    parts = []
    for files in FILES[name]:
        loaded = [np.load(folder / file) for file in files]
        X = np.concatenate([file["X"] for file in loaded]).reshape(-1, 14, 2, 14, 2) / 255.0
        parts += [X.mean(axis=(2, 4)).reshape(-1, 196), np.concatenate([file["y"] for file in loaded]).astype(int)]
    return parts


def imbalanced(name, ratio, seed):
    """Classes 5 to 9 against 0 to 4: rare in training by `ratio`, half of the test rows."""
    X, y, X_test, y_test = images(name)
    train = make_imbalanced(X, y, ratio, positive=POSITIVE, random_state=seed)
    return *train, *make_imbalanced(X_test, y_test, 0.5, positive=POSITIVE, random_state=seed)
