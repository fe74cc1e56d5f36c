"""The first paper's study on our simulated pump: noisy sensors, flipped labels, sensors drifted at deployment."""

from pathlib import Path

import numpy as np

from skdro.datasets import make_pump_faults

CACHE = Path(__file__).resolve().parent / ".cache"
SIZES, QUICK_SIZES = (750, 418, 418, 414), (188, 104, 104, 104)


def pump_study(seed, quick):
    """Training rows, labels and clients, test rows and labels; features in [0, 1], then rows of norm one.

    The sensor noise is .2 standard deviations at deployment and .4 in training, 15 % of the training labels are
    wrong, and five sensors have drifted by half a standard deviation.  Ranges are those of the training rows,
    declared public as in the paper; test rows are not clipped.
    """
    path = CACHE / f"pump_{seed}{'_quick' * quick}.npz"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        pump = make_pump_faults(
            QUICK_SIZES if quick else SIZES,
            n_times=300 if quick else 1000,
            sensor_noise=0.2,
            label_flip=0.15,
            deployment_offset=0.5,
            random_state=seed,
        )
        names = ("data", "target", "groups", "deployed")
        np.savez(path, **{name: pump[name] for name in names})
    pump = np.load(path)
    train = ~pump["deployed"]
    lo, hi = pump["data"][train].min(axis=0), pump["data"][train].max(axis=0)
    X = (pump["data"] - lo) / (hi - lo)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = pump["target"]
    return X[train], y[train], pump["groups"][train], X[~train], y[~train]
