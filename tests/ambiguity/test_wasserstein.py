"""The closed form of the robust risk against nature's own problem, solved as a conic programme."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall, optimal_multiplier, record_terms

ORDER = {"linf": np.inf, "l2": 2, "l1": 1}


def adversary_value(X, y, weight, n_classes, M, b, radius, kappa, order):
    """Nature moves mass p and displacement p * shift of each record to each label, on each piece of the loss."""
    total, cost, constraints = 0, 0, []
    for n in range(len(X)):
        masses = []
        for label in range(n_classes):
            if label != y[n] and not np.isfinite(kappa):
                continue
            for k in range(n_classes):
                mass, move = cp.Variable(nonneg=True), cp.Variable(X.shape[1])
                slope = M[k] - M[label]
                value = slope @ X[n] + b[k] - b[label] + (k != label)
                total += value * mass + slope @ move
                cost += cp.norm(move, order) + (0 if label == y[n] else kappa * mass)
                masses.append(mass)
                # no mass, no movement: the recession of the piece is reached by a vanishing mass
        constraints.append(sum(masses) == weight[n])
    problem = cp.Problem(cp.Maximize(total), [*constraints, cost <= radius])
    problem.solve(solver=cp.CLARABEL)
    return problem.value


def random_risk(seed, norm, kappa, radius, n=4, n_classes=3, n_features=2, intercept=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    y = rng.integers(0, n_classes, n)
    weight = rng.dirichlet(np.ones(n))
    M = rng.normal(size=(n_classes, n_features + 1))
    M[:, -1] *= intercept
    ball = WassersteinBall(radius, kappa, TRANSPORT_NORMS[norm])
    return RobustRisk(np.c_[X, np.ones(n)], y, weight, n_classes, n_features, ball), M


@pytest.mark.parametrize("norm", sorted(TRANSPORT_NORMS))
@pytest.mark.parametrize("kappa", [0.3, 1.0, np.inf])
@pytest.mark.parametrize("intercept", [False, True])
def test_risk_equals_the_worst_case_found_by_nature(norm, kappa, intercept):
    for seed, radius in enumerate([0.0, 0.05, 0.3, 1.5]):
        risk, M = random_risk(seed, norm, kappa, radius, intercept=intercept)
        primal = adversary_value(risk.X[:, :2], risk.y, risk.weight, 3, M[:, :2], M[:, 2], radius, kappa, ORDER[norm])
        assert risk.value(M)[0] == pytest.approx(primal, abs=2e-6)


def test_trusted_labels_with_an_absent_pair_of_classes():
    # labels 1 and 2 never occur: a record cannot see the distance between their rows
    ball = WassersteinBall(0.5, np.inf, TRANSPORT_NORMS["linf"])
    X = np.array([[0.2, -0.1], [0.4, 0.3]])
    risk = RobustRisk(X, np.array([0, 0]), np.full(2, 0.5), 3, 2, ball)
    M = np.array([[0.0, 0.0], [3.0, 0.0], [-3.0, 0.0]])
    assert risk.phi(M) == 3.0
    primal = adversary_value(X, risk.y, risk.weight, 3, M, np.zeros(3), 0.5, np.inf, np.inf)
    assert risk.value(M)[0] == pytest.approx(primal, abs=2e-6)


@given(seed=st.integers(0, 10_000), kappa=st.floats(0.05, 3), radius=st.floats(0, 2), phi=st.floats(0, 3))
def test_multiplier_minimises_the_dual_objective(seed, kappa, radius, phi):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    own, flip, weight = rng.random(n) * 2, rng.random(n) * 4, rng.dirichlet(np.ones(n))
    ball = WassersteinBall(radius, kappa, TRANSPORT_NORMS["l2"])
    lam = optimal_multiplier(own, flip, weight, phi, ball)

    def objective(lam):
        return lam * radius + weight @ np.maximum(own, flip - kappa * lam)

    # minimise lam r + w s  over lam >= phi, s >= own, s >= flip - kappa lam
    A = -np.c_[np.full(n, kappa), np.eye(n)]
    lp = linprog(np.r_[radius, weight], A_ub=A, b_ub=-flip, bounds=[(phi, None), *[(v, None) for v in own]])
    assert lam >= phi
    assert objective(lam) == pytest.approx(lp.fun, abs=1e-9)


def test_multiplier_is_the_order_statistic_of_the_gains():
    rng = np.random.default_rng(3)
    own, flip, kappa, radius = rng.random(10), 1 + 3 * rng.random(10), 0.8, 0.25
    gains = np.sort((flip - own) / kappa)[::-1]
    ball = WassersteinBall(radius, kappa, TRANSPORT_NORMS["l2"])
    expected = gains[int(np.floor(10 * radius / kappa))]
    assert optimal_multiplier(own, flip, np.full(10, 0.1), 0.0, ball) == pytest.approx(expected)
    assert optimal_multiplier(own, flip, np.full(10, 0.1), expected + 1, ball) == expected + 1


def test_multiplier_above_phi_happens_and_phi_alone_is_another_problem():
    risk, M = random_risk(0, "linf", 0.3, 0.01, n=40)
    value, lam = risk.value(0.05 * M)
    assert lam > risk.phi(0.05 * M) + 0.1
    assert risk.value_at(0.05 * M, risk.phi(0.05 * M)) > value + 1e-3


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    norm=st.sampled_from(sorted(TRANSPORT_NORMS)),
    kappa=st.sampled_from([0.2, 1.0, np.inf]),
    lam=st.floats(0, 3),
)
def test_data_cut_supports_the_risk(seed, norm, kappa, lam):
    risk, M = random_risk(seed, norm, kappa, radius=0.2, n=6)
    rng = np.random.default_rng(seed)
    N, nu = rng.normal(size=M.shape), float(rng.random() * 3)
    G, h, c = risk.data_cut(M, lam)
    assert (G * M).sum() + h * lam + c + 0.2 * lam == pytest.approx(risk.value_at(M, lam), abs=1e-9)
    assert (G * N).sum() + h * nu + c + 0.2 * nu <= risk.value_at(N, nu) + 1e-9
    assert np.abs(G.sum(axis=0)).max() < 1e-12  # column sums of cuts vanish


@given(seed=st.integers(0, 10_000))
def test_risk_is_invariant_to_a_common_row(seed):
    risk, M = random_risk(seed, "linf", 0.5, 0.1)
    shift = np.random.default_rng(seed).normal(size=M.shape[1])
    assert risk.value(M + shift)[0] == pytest.approx(risk.value(M)[0], abs=1e-10)


def test_flipped_branch_is_at_the_lowest_scoring_wrong_label():
    rng = np.random.default_rng(1)
    scores, y = rng.normal(size=(50, 4)), rng.integers(0, 4, 50)
    terms = record_terms(scores, y)
    for n in range(50):
        losses = [max(s + 1 - (k == j) for k, s in enumerate(scores[n])) - scores[n, j] for j in range(4)]
        assert terms.own_loss[n] == pytest.approx(losses[y[n]])
        assert terms.flip_loss[n] == pytest.approx(max(v for j, v in enumerate(losses) if j != y[n]))


@given(
    seed=st.integers(0, 10_000), radius=st.sampled_from([0.0, 0.05, 0.4]), kappa=st.sampled_from([0.2, 1.0, np.inf])
)
def test_subgradient_supports_the_risk(seed, radius, kappa):
    """F(M') >= F(M) + <S, M' - M>, whether lam is phi(M) or flips make it larger."""
    rng = np.random.default_rng(seed)
    X, y = np.c_[rng.normal(size=(9, 2)), np.ones(9)], rng.integers(0, 3, 9)
    ball = WassersteinBall(radius, kappa, TRANSPORT_NORMS[rng.choice(["linf", "l2", "l1"])])
    risk = RobustRisk(X, y, rng.dirichlet(np.ones(9)), 3, 2, ball)
    M = rng.normal(size=(3, 3)) * rng.choice([0.1, 1.0])
    value, slope = risk.value_and_subgradient(M)
    assert value == risk.value(M)[0]
    for size in (1e-3, 0.1, 2.0):
        other = M + size * rng.normal(size=(3, 3))
        assert risk.value(other)[0] >= value + np.sum(slope * (other - M)) - 1e-7
