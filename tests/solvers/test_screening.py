"""When label flips cannot matter: facts that let rows be screened, each on the solved problems."""

from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.solvers.bundle_central import solve_central


def problem(kappa, norm="linf", intercept=False, radius=0.05, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 3
    X[np.arange(40), y] += 1.0
    ball = WassersteinBall(radius, kappa, TRANSPORT_NORMS[norm])
    columns = np.c_[X, np.ones(40)] if intercept else X
    return RobustRisk(columns, y, np.full(40, 1 / 40), 3, 3, ball)


@pytest.mark.parametrize("norm", sorted(TRANSPORT_NORMS))
def test_without_intercept_flips_never_matter_beyond_twice_the_largest_row(norm):
    longest = TRANSPORT_NORMS[norm].length(problem(1.0, norm).X).max()
    trusted = solve_central(problem(np.inf, norm), tol=1e-8).upper
    assert solve_central(problem(2 * longest, norm), tol=1e-8).upper == pytest.approx(trusted, abs=1e-7)
    # the bound is not idle: cheaper flips do matter
    assert solve_central(problem(0.2 * longest, norm), tol=1e-8).upper > trusted + 1e-3


def test_with_intercept_no_finite_kappa_suffices():
    # features that tell nothing: the best model is constant and pays 2 r / kappa for flips
    for kappa in (1.0, 10.0, 100.0):
        ball = WassersteinBall(0.05, kappa, TRANSPORT_NORMS["linf"])
        risk = RobustRisk(
            np.c_[np.zeros((10, 1)), np.ones(10)], np.array([0] * 9 + [1]), np.full(10, 0.1), 2, 1, ball
        )
        assert solve_central(risk, tol=1e-8).upper == pytest.approx(0.2 + 2 * 0.05 / kappa, abs=1e-7)


@pytest.mark.parametrize("kappa", [1.0, 2.5, 4.0])
def test_rows_found_safe_after_solving_without_flips_are_safe(kappa):
    """Row n is safe if min(2 g_n, 1 + g_n) <= kappa lam, g_n its margin over the lowest score."""
    exact = problem(kappa, intercept=True)
    kept = np.zeros(40, dtype=bool)  # rows whose flips are part of the problem
    for _ in range(40):
        solution = solve_with_flips(exact, kept)
        scores = exact.X @ solution.M.T
        gap = scores[np.arange(40), exact.y] - scores.min(axis=1)
        unsafe = ~kept & (np.minimum(2 * gap, 1 + gap) > kappa * solution.lam + 1e-6)
        if not unsafe.any():
            break
        kept |= unsafe
    assert solution.upper == pytest.approx(solve_central(exact, tol=1e-8).upper, abs=1e-6)
    assert not kept.all()  # some rows were screened


def solve_with_flips(exact, kept):
    """Least risk when only the `kept` rows may be flipped, by the conic form written out."""
    M, lam, s = cp.Variable((3, 4)), cp.Variable(nonneg=True), cp.Variable(40, nonneg=True)
    S = exact.X @ M.T
    constraints = [lam >= cp.norm(M[i, :3] - M[j, :3], 1) for i in range(3) for j in range(i)]
    for label in range(3):
        rows = np.flatnonzero((exact.y == label) | kept)
        price = np.where(exact.y[rows] == label, 0.0, exact.ball.kappa)
        constraints += [
            s[rows] + cp.multiply(price, lam) >= 1 + S[rows, k] - S[rows, label] for k in range(3) if k != label
        ]
    program = cp.Problem(cp.Minimize(exact.ball.radius * lam + exact.weight @ s), constraints)
    value = program.solve(solver=cp.CLARABEL)
    return SimpleNamespace(M=M.value, lam=float(lam.value), upper=value)
