"""Binary robust hinge loss: the bundle against the `dro` package, in an environment that has both.

    pip install dro        # pulls PyTorch; not a dependency of this package
    python examples/benchmarks/peer_binary.py

Gaussian classes, 10 % label noise, transport cost l_inf, kappa = 1, with an intercept.  One thread; CPU time; median
of three alternating runs for each of three seeds (one run beyond 5000 records).  Each model is judged by the same
exact robust risk.
"""

import importlib.metadata
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from dro.linear_model.wasserstein_dro import WassersteinDRO

from skdro import WassersteinDROClassifier
from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall

SIZES = ((500, 10), (2000, 20), (5000, 50))
RADIUS, KAPPA = 0.01, 1.0


def data(n, p, seed):
    """Two Gaussian classes with labels -1 and 1."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, -1, 1)
    X = rng.normal(size=(n, p)) / np.sqrt(p)
    X[:, :3] += 0.4 * y[:, None]
    return X, np.where(rng.random(n) < 0.1, -y, y)


def robust_risk(X, y, w, b):
    """Exact robust risk of the score w.x + b."""
    ball = WassersteinBall(RADIUS, KAPPA, TRANSPORT_NORMS["linf"])
    risk = RobustRisk(
        np.c_[X, np.ones(len(X))], (y > 0).astype(int), np.full(len(X), 1 / len(X)), 2, X.shape[1], ball
    )
    half = 0.5 * np.append(w, b)
    return risk.value(np.array([-half, half]))[0]


def peer(X, y):
    """The peer's model: weights and intercept."""
    model = WassersteinDRO(input_dim=X.shape[1], model_type="svm")
    model.update({"eps": RADIUS, "kappa": KAPPA, "p": "inf", "cost_matrix": np.eye(X.shape[1])})
    model.fit(X, y)
    return np.ravel(model.theta), float(np.ravel(model.b)[0])


def ours(X, y):
    """Our model to a certified gap of 1e-4."""
    model = WassersteinDROClassifier(RADIUS, KAPPA, tol=1e-4).fit(X, y)
    return model.coef_[0], model.intercept_[0]


def main():
    """Print the table."""
    versions = {name: importlib.metadata.version(name) for name in ("dro", "cvxpy", "clarabel", "numpy")}
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    ours(*data(50, 2, 0)), peer(*data(50, 2, 0))  # whatever is loaded on first use
    for n, p in SIZES:
        for seed in range(3):
            X, y = data(n, p, seed)
            seconds, models = {ours: [], peer: []}, {}
            for _ in range(3 if n < 5000 else 1):
                for method in (ours, peer):
                    start = time.process_time()
                    models[method] = method(X, y)
                    seconds[method].append(time.process_time() - start)
            a, b = (float(np.median(seconds[m])) for m in (ours, peer))
            risks = [robust_risk(X, y, *models[m]) for m in (ours, peer)]
            print(
                f"({n}, {p}) seed {seed}: bundle {a:.3f} s, dro {b:.3f} s, ratio {b / a:.1f};  robust risk "
                f"{risks[0]:.6f} and {risks[1]:.6f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
