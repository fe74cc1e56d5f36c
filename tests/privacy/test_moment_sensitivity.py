"""Sensitivity of stacked moments: attained by a searched pair of records, exceeded by none of 10^5."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from skdro.ambiguity.moment import MomentLayout
from skdro.privacy.moment_sensitivity import classification_moments, regression_moments
from skdro.privacy.sensitivity import ADJACENCIES

REPLACE, ZERO = ADJACENCIES["replace_one"], ADJACENCIES["zero_out"]
N_PAIRS = 100_000
OMEGAS = [0.5, 1.0, 2.0]


def terms(X, T, omega, u):
    """The record's contribution, entry by entry, without the package's packing: (n, P^2 + K P + 1)."""
    outer = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    cross = omega * (T[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    return np.hstack([outer, cross, u * (T**2).sum(axis=1, keepdims=True)])


def in_ball(rng, n, dim):
    """Rows of norm <= 1, half of them on the sphere."""
    X = rng.normal(size=(n, dim))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X * np.where(rng.random((n, 1)) < 0.5, 1.0, rng.random((n, 1)))


def one_hot(labels, K):
    return np.eye(K)[labels] - 1 / K


def searched(distance, starts):
    """Largest distance of two records over local searches from the given starts."""
    best = 0.0
    for start in starts:
        best = max(best, -minimize(lambda z: -distance(z), start, method="Nelder-Mead", options={"maxiter": 800}).fun)
    return best


def unit(v):
    return v / max(1.0, np.linalg.norm(v))


@pytest.mark.parametrize(("K", "omega"), list(product([2, 3, 6], OMEGAS)))
def test_classification_bound_is_attained_and_never_exceeded(K, omega):
    rng = np.random.default_rng(0)
    X, X2 = in_ball(rng, N_PAIRS, 2), in_ball(rng, N_PAIRS, 2)
    y, y2 = rng.integers(K, size=(2, N_PAIRS))
    here, there = terms(X, one_hot(y, K), omega, 0.0), terms(X2, one_hot(y2, K), omega, 0.0)
    bound = classification_moments(K, omega, REPLACE)
    assert np.linalg.norm(here - there, axis=1).max() <= bound * (1 + 1e-12)
    assert np.linalg.norm(here, axis=1).max() <= classification_moments(K, omega, ZERO) * (1 + 1e-12)

    def distance(z, labels):
        rows = np.array([unit(z[:2]), unit(z[2:])])
        a, b = terms(rows, one_hot(np.array(labels), K), omega, 0.0)
        return np.linalg.norm(a - b)

    starts = 2 * rng.normal(size=(3, 4))
    best = max(searched(lambda z, pair=pair: distance(z, pair), starts) for pair in ([0, 0], [0, 1]))
    assert best == pytest.approx(bound, rel=1e-5)
    alone = np.linalg.norm(terms(np.array([[0.6, 0.8]]), one_hot(np.array([0]), K), omega, 0.0))
    assert alone == pytest.approx(classification_moments(K, omega, ZERO), rel=1e-12)


@pytest.mark.parametrize("omega", [*OMEGAS, 1.3, 4.0])
def test_regression_bound_is_attained_and_never_exceeded(omega):
    rng = np.random.default_rng(1)
    u = min(1.0, omega)
    X, X2 = in_ball(rng, N_PAIRS, 2), in_ball(rng, N_PAIRS, 2)
    # targets in [-1, 1], a third of them at its ends
    t, t2 = np.clip(rng.uniform(-1.5, 1.5, size=(2, N_PAIRS, 1)), -1, 1)
    here, there = terms(X, t, omega, u), terms(X2, t2, omega, u)
    bound = regression_moments(omega, REPLACE)
    assert np.linalg.norm(here - there, axis=1).max() <= bound * (1 + 1e-12)
    assert np.linalg.norm(here, axis=1).max() <= regression_moments(omega, ZERO) * (1 + 1e-12)

    def distance(z):
        rows = np.array([unit(z[:2]), unit(z[2:4])])
        a, b = terms(rows, np.clip(z[4:, None], -1, 1), omega, u)
        return np.linalg.norm(a - b)

    starts = np.hstack([2 * rng.normal(size=(8, 4)), rng.choice([-1.2, 1.2], size=(8, 2))])
    assert searched(distance, starts) == pytest.approx(bound, rel=1e-5)
    alone = np.linalg.norm(terms(np.array([[0.6, 0.8]]), np.ones((1, 1)), omega, u))
    assert alone == pytest.approx(regression_moments(omega, ZERO), rel=1e-12)


@pytest.mark.parametrize("u", [0.0, 1.0])
def test_packing_keeps_all_distances(u):
    """What is released has the norm of what the sensitivity was derived for."""
    rng = np.random.default_rng(2)
    n, P, K, omega = 7, 4, 3, 0.7
    X, T = in_ball(rng, n, P), one_hot(rng.integers(K, size=n), K)
    layout = MomentLayout(P, K, omega, u)
    packed = np.array(
        [layout.pack(np.outer(x, x), np.outer(t, x), np.asarray(t @ t)) for x, t in zip(X, T, strict=True)]
    )
    flat = terms(X, T, omega, u)
    np.testing.assert_allclose(packed @ packed.T, flat @ flat.T, atol=1e-12)


@pytest.mark.parametrize(("omega", "expected"), [(0.5, 2.53125), (1.0, 4.5), (2.0, 16.0), (np.sqrt(2), 8.0)])
def test_golden_values_of_regression(omega, expected):
    assert regression_moments(omega, REPLACE) ** 2 == pytest.approx(expected, rel=1e-12)
