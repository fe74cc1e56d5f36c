"""The active set against every support there is, the exact repair of its weights, and the cuts it is fed."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.solvers._cuts import feasible_weights
from skdro.solvers._quadratic import Basis, solve_quadratic


def make_program(seed, n, rank, radius, duplicates, parts=1):
    """Dual of a bundle: start cuts, a zero cut, data cuts with flips and phi cuts; slopes of low rank."""
    rng = np.random.default_rng(seed)
    slopes = np.round(rng.normal(size=(n, rank)), 1)
    slopes[parts] = 0.0
    if duplicates:
        slopes[-2:] = slopes[parts + 1 : parts + 3]
    is_data = rng.random(n) < 0.5
    is_data[: parts + 1] = [True] * parts + [False]
    flips = np.where(rng.random(n) < 0.5, 0.0, np.round(rng.random(n), 1)) * is_data
    flips[:parts] = 0.0
    part = np.where(np.arange(n) < parts, np.arange(n), rng.integers(parts, size=n))
    E = np.vstack([is_data & (part == g) for g in range(parts)] + [np.where(is_data, flips, 1.0)]).astype(float)
    p = np.where(is_data, rng.random(n), 0.0) + slopes @ rng.normal(size=rank)
    return slopes @ slopes.T, E, p, np.append(np.ones(parts), radius)


def brute_force(Q, E, p, e):
    """Least value over all supports: the best stationary point among the feasible ones is the minimum."""
    best, n = np.inf, len(p)
    for size in range(1, n + 1):
        for S in map(list, combinations(range(n), size)):
            system = np.block([[np.zeros((len(e), len(e))), E[:, S]], [E[:, S].T, Q[np.ix_(S, S)]]])
            x = np.linalg.lstsq(system, np.concatenate([e, p[S]]), rcond=1e-12)[0][len(e) :]
            if (x >= -1e-9).all() and np.abs(E[:, S] @ x - e).max() < 1e-9:
                best = min(best, x @ Q[np.ix_(S, S)] @ x / 2 - p[S] @ x)
    return best


def solve(Q, E, p, e):
    x = np.zeros(len(p))
    x[: len(e)] = e
    basis = Basis.of(np.arange(len(e)), Q, E)
    mass = np.where(E[:-1].any(axis=0), 1.0, max(e[-1], 1e-12))
    multipliers, converged = solve_quadratic(Q, E, p, e, x, basis, mass, 1e-10)
    return x, multipliers, converged, basis


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(5, 8),
    rank=st.integers(1, 4),
    radius=st.sampled_from([1e-3, 0.1, 0.5, 2.0]),
    duplicates=st.booleans(),
    parts=st.integers(1, 2),
)
def test_active_set_finds_the_best_support(seed, n, rank, radius, duplicates, parts):
    Q, E, p, e = make_program(seed, n, rank, radius, duplicates, parts)
    x, multipliers, converged, basis = solve(Q, E, p, e)
    assert converged
    assert (x >= 0).all()
    assert_allclose(E @ x, e, atol=1e-9)
    assert_allclose(x @ Q @ x / 2 - p @ x, brute_force(Q, E, p, e), atol=1e-8)
    assert (Q @ x - p + E.T @ multipliers >= -1e-6).all()
    assert set(np.flatnonzero(x)) <= set(basis.support)


def test_inverse_survives_many_changes_of_basis():
    rng = np.random.default_rng(0)
    Q, E, _, e = make_program(0, 60, 30, 0.3, False)
    x = np.zeros(60)
    x[:2] = e
    basis = Basis.of(np.array([0, 1]), Q, E)
    for _ in range(50):
        p = rng.normal(size=60)
        _, converged = solve_quadratic(Q, E, p, e, x, basis, np.ones(60), 1e-9)
        assert converged
    assert_allclose(basis.inverse, Basis.of(basis.support, Q, E).inverse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("radius", [0.0, 0.05, 3.0])
def test_repaired_weights_are_exactly_feasible(radius, parts):
    rng = np.random.default_rng(1)
    for _ in range(50):
        _, E, _, _ = make_program(rng.integers(10**6), 8, 2, radius, False, parts)
        rough = rng.normal(size=8) * (rng.random(8) < 0.7)
        weights = feasible_weights(rough, E, radius)
        assert (weights >= 0).all()
        assert_allclose(E @ weights, [1.0] * parts + [radius], atol=1e-14)


def test_repair_leaves_feasible_weights_alone():
    Q, E, p, e = make_program(3, 8, 3, 0.5, False)
    x = solve(Q, E, p, e)[0]
    assert_allclose(feasible_weights(x, E, 0.5), x, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("kappa", [0.3, 2.0, np.inf])
def test_data_cuts_support_the_risk_record_by_record(kappa, n_classes):
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(30, 4)), rng.integers(n_classes, size=30), rng.dirichlet(np.ones(30))
    problem = RobustRisk(X, y, w, n_classes, 4, WassersteinBall(0.1, kappa, TRANSPORT_NORMS["l2"]))

    def data_term(M, lam):
        total = 0.0
        for x, label, weight in zip(X, y, w, strict=True):
            s = M @ x
            loss = [max(s[k] + (k != c) for k in range(n_classes)) - s[c] for c in range(n_classes)]
            cost = [0.0 if c == label else (kappa * lam if lam else 0.0) for c in range(n_classes)]
            allowed = range(n_classes) if np.isfinite(kappa) else [label]
            total += weight * max(loss[c] - cost[c] for c in allowed)
        return total

    points = [(rng.normal(size=(n_classes, 4)) * scale, lam) for scale in (0, 0.3, 2) for lam in (0.0, 0.5, 3.0)]
    for M, lam in points:
        G, h, c = problem.data_cut(M, lam)
        assert_allclose((G * M).sum() + h * lam + c, data_term(M, lam), atol=1e-12)
        for other, price in points:
            assert (G * other).sum() + h * price + c <= data_term(other, price) + 1e-12
