"""The mixture of robust risks against conic programmes written out here, and its certificate."""

import dataclasses
import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.solvers import bundle_mixture
from skdro.solvers.bundle_central import solve_central
from skdro.solvers.bundle_mixture import MixtureCuts, shifted, solve_mixture

DUAL_ORDER = {"linf": 1, "l2": 2, "l1": np.inf}


def make_clients(
    seed=0, K=3, P=3, *, norm="linf", kappa=1.0, radii=(0.05, 0.1, 0.02), intercept=True, shift=0.7, n=25
):
    """Clients with class means of their own; the labels of each client are all present unless `n` is small."""
    rng = np.random.default_rng(seed)
    n, means, clients = 25, rng.normal(size=(K, P)), []
    for radius in radii:
        y = np.concatenate([np.arange(K), rng.integers(K, size=n - K)])
        X = (means + 0.7 * rng.normal(size=(K, P)))[y] + 0.8 * rng.normal(size=(n, P))
        X = np.column_stack([X, np.ones(n)]) if intercept else X
        weight = rng.dirichlet(np.ones(n))
        clients.append(RobustRisk(X, y, weight, K, P, WassersteinBall(radius, kappa, TRANSPORT_NORMS[norm])))
    return clients


def literal_risk(problem, M):
    """F_i(M) as an expression with its constraints: one for every record, label and rival."""
    X, y, ball, K, P = problem.X, problem.y, problem.ball, problem.n_classes, problem.n_features
    lam, s = cp.Variable(nonneg=True), cp.Variable(len(y), nonneg=True)
    scores, constraints = X @ M.T, []
    flips = np.isfinite(ball.kappa)
    for label in range(K):
        rows = np.arange(len(y)) if flips else np.flatnonzero(y == label)
        if len(rows) == 0:
            continue
        cost = cp.multiply(ball.kappa * (y[rows] != label), lam) if flips else 0.0
        for rival in set(range(K)) - {label}:
            constraints.append(s[rows] + cost >= 1 + scores[rows, rival] - scores[rows, label])
    present = np.isin(np.arange(K), y)
    for i in range(K):
        for j in range(i):
            if flips or present[i] or present[j]:
                constraints.append(cp.norm(M[i, :P] - M[j, :P], DUAL_ORDER[ball.norm.name]) <= lam)
    return ball.radius * lam + problem.weight @ s, constraints


def literal_optimum(clients, nominal, rad):
    """Least worst mixture: a0 . max(F, tau) + rad (max F - tau) in place of the maximum over the ball."""
    M = cp.Variable((clients[0].n_classes, clients[0].X.shape[1]))
    risks, constraints = zip(*(literal_risk(p, M) for p in clients), strict=True)
    top, tau, m = cp.Variable(), cp.Variable(), cp.Variable(len(clients))
    constraints = [c for group in constraints for c in group] + [m >= tau, top >= tau]
    constraints += [m[i] >= risk for i, risk in enumerate(risks)] + [top >= risk for risk in risks]
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        program = cp.Problem(cp.Minimize(nominal @ m + rad * (top - tau)), constraints)
        return program.solve(solver=cp.CLARABEL, **tight)


def worst_mixture_by_lp(nominal, rad, risks):
    alpha = cp.Variable(len(risks), nonneg=True)
    near = [cp.sum(alpha) == 1, cp.norm1(alpha - nominal) <= 2 * rad]
    return cp.Problem(cp.Maximize(alpha @ risks), near).solve(solver=cp.CLARABEL)


def assert_solves(clients, nominal, rad, solution, best):
    assert solution.converged
    assert solution.lower <= best + 1e-7
    assert best - 1e-7 <= solution.upper <= best + 1.1e-6
    risks = [p.value(solution.M)[0] for p in clients]
    assert_allclose(solution.risks, risks, rtol=1e-12)
    assert_allclose(solution.upper, worst_mixture_by_lp(nominal, rad, solution.risks), atol=1e-6)
    assert solution.mixture.min() >= 0
    assert_allclose(solution.mixture.sum(), 1.0, atol=1e-9)
    assert np.abs(solution.mixture - nominal).sum() <= 2 * rad + 1e-9
    # a saddle point: the weights are worst for the model (up to the gap)
    assert solution.mixture @ solution.risks >= solution.upper - 1e-4


A0 = np.array([0.5, 0.3, 0.2])


@pytest.mark.parametrize("norm", sorted(TRANSPORT_NORMS))
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("rad", [0.0, 0.25, 1.0])
def test_value_equals_conic_optimum(rad, intercept, norm):
    clients = make_clients(norm=norm, intercept=intercept)
    solution = solve_mixture(clients, A0, rad)
    assert_solves(clients, A0, rad, solution, literal_optimum(clients, A0, rad))


@pytest.mark.parametrize("rad", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("kappa", [0.1, np.inf])
def test_flips_that_are_cheap_or_impossible(kappa, rad):
    clients = make_clients(1, kappa=kappa, radii=(0.02, 0.0, 0.1))  # and a client without a ball
    assert_solves(clients, A0, rad, solve_mixture(clients, A0, rad), literal_optimum(clients, A0, rad))


def test_clients_with_settings_of_their_own_and_missing_labels():
    clients = make_clients(2, K=4)
    kappas = (np.inf, 0.3, 2.0)
    clients = [
        dataclasses.replace(p, ball=dataclasses.replace(p.ball, kappa=k))
        for p, k in zip(clients, kappas, strict=True)
    ]
    clients[0] = dataclasses.replace(clients[0], y=clients[0].y % 2)
    for rad in (0.0, 0.4, 1.0):
        assert_solves(clients, A0, rad, solve_mixture(clients, A0, rad), literal_optimum(clients, A0, rad))


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    K=st.integers(2, 4),
    P=st.integers(1, 4),
    norm=st.sampled_from(sorted(TRANSPORT_NORMS)),
    kappa=st.sampled_from([0.05, 0.5, 2.0, np.inf]),
    radii=st.lists(st.sampled_from([1e-3, 1e-2, 0.1, 1.0]), min_size=1, max_size=4),
    intercept=st.booleans(),
    rad=st.sampled_from([0.0, 0.1, 0.6, 1.0]),
)
def test_bounds_enclose_the_optimum_after_any_number_of_evaluations(seed, K, P, norm, kappa, radii, intercept, rad):
    clients = make_clients(seed, K, P, norm=norm, kappa=kappa, radii=radii, intercept=intercept)
    nominal = np.random.default_rng(seed).dirichlet(np.ones(len(radii)))
    best = literal_optimum(clients, nominal, rad)
    for max_iter in (5, 20, 60):
        solution = solve_mixture(clients, nominal, rad, max_iter=max_iter)
        assert solution.lower <= best + 1e-7 <= solution.upper + 2e-7
    assert_solves(clients, nominal, rad, solve_mixture(clients, nominal, rad, max_iter=5000), best)


@pytest.mark.parametrize("rad", [0.0, 1.0])
def test_one_client_is_the_central_problem(rad):
    (client,) = make_clients(radii=(0.05,))
    assert_allclose(solve_mixture([client], np.ones(1), rad).upper, solve_central(client).upper, atol=1.1e-6)


def test_fixed_mixture_is_the_weighted_sum_of_risks():
    clients = make_clients()
    solution = solve_mixture(clients, A0, 0.0)
    assert_allclose(solution.mixture, A0, atol=1e-12)
    assert_allclose(solution.upper, A0 @ solution.risks, rtol=1e-12)
    # no model nearby has a smaller sum
    rng = np.random.default_rng(0)
    for _ in range(200):
        M = solution.M + 10.0 ** rng.uniform(-4, 0) * rng.normal(size=solution.M.shape)
        assert sum(w * p.value(M)[0] for w, p in zip(A0, clients, strict=True)) >= solution.lower


def test_value_grows_with_the_ball():
    clients = make_clients()
    values = [solve_mixture(clients, A0, rad).upper for rad in (0.0, 0.2, 0.5, 1.0)]
    assert (np.diff(values) > -1e-6).all()
    assert values[-1] > values[0] + 1e-3


def test_clients_without_weight_have_no_say():
    clients = make_clients()
    nominal = np.array([0.6, 0.4, 0.0])
    solution = solve_mixture(clients, nominal, 0.0)
    assert_allclose(solution.upper, solve_mixture(clients[:2], nominal[:2], 0.0).upper, atol=1.1e-6)
    assert solution.mixture[2] == 0.0
    assert_allclose(solution.risks[2], clients[2].value(solution.M)[0])


def test_all_radii_zero_is_agnostic_learning():
    clients = make_clients(radii=(0.0, 0.0))
    nominal = np.array([0.5, 0.5])
    solution = solve_mixture(clients, nominal, 1.0)
    assert solution.lower == 0.0
    assert solution.converged
    assert_allclose(solution.upper, literal_optimum(clients, nominal, 1.0), atol=1.1e-6)


@pytest.mark.parametrize("rad", [0.0, 0.1, 0.35, 0.8, 1.0])
def test_shifted_weight_attains_the_maximum_over_the_ball(rad):
    rng = np.random.default_rng(3)
    for _ in range(5):
        nominal, risks = rng.dirichlet(np.ones(5)), rng.normal(size=5)
        mixture = shifted(nominal, rad, risks, int(risks.argmax()))
        assert_allclose(mixture @ risks, worst_mixture_by_lp(nominal, rad, risks), atol=1e-6)
        for client in range(5):
            other = shifted(nominal, rad, risks, client)
            assert other.min() >= 0
            assert_allclose([other.sum(), np.abs(other - nominal).sum() <= 2 * rad + 1e-12], 1.0)


class WithoutMixtureWeight(MixtureCuts):
    """The fault of giving each client's phi cuts the weight r_i whatever the client's share of the mixture."""

    @classmethod
    def start(cls, G, offsets, mixture, radii):
        cuts = super().start(G, offsets, mixture, np.zeros_like(radii))
        cuts.total = cuts.capacity = np.append(1.0, radii)
        cuts._restart()
        return cuts

    def repaired(self, weights, units):
        return np.maximum(weights, 0.0)  # trusted labels: nothing but rounding to repair


def test_bound_without_the_mixture_weight_is_caught(monkeypatch):
    clients = make_clients(kappa=np.inf, intercept=False)
    best = literal_optimum(clients, A0, 1.0)
    assert solve_mixture(clients, A0, 1.0).lower <= best + 1e-7
    monkeypatch.setattr(bundle_mixture, "MixtureCuts", WithoutMixtureWeight)
    assert solve_mixture(clients, A0, 1.0, max_iter=400).lower > best + 1e-2


@pytest.mark.parametrize(
    ("nominal", "rad", "named"),
    [([0.5, 0.5], 0.1, "nominal"), ([0.5, 0.6, -0.1], 0.1, "nominal"), (A0, 1.5, "mixture_radius")],
)
def test_bad_input(nominal, rad, named):
    with pytest.raises(ValueError, match=named):
        solve_mixture(make_clients(), np.array(nominal), rad)


def test_a_class_that_no_client_has():
    clients = [dataclasses.replace(p, y=p.y % 2) for p in make_clients()]
    with pytest.raises(ValueError, match="2"):
        solve_mixture(clients, A0, 0.5)
