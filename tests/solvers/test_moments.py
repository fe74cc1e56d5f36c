"""Post-processing of moments against generic optimisers, brute force and the noise itself."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from skdro.ambiguity.moment import MomentLayout, noise_edge, noise_quantile, pooled, robust_quadratic
from skdro.solvers.moment_tuning import tuned
from skdro.solvers.moments import MomentProblem, Robustness, solve_mixture, solve_wasserstein, worst_mixture

P, K = 4, 2
LAYOUTS = {
    "public squares": MomentLayout(P, K, 0.8, 0.0, target_square=0.5),
    "released squares": MomentLayout(P, 1, 0.8, 0.8),
}


def sample(rng, layout, n):
    """Rows of norm <= 1 with a constant column, and targets that they explain in part."""
    Z = np.column_stack([rng.uniform(-1, 1, size=(n, P - 1)), np.ones(n)])
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    if layout.square_weight:
        T = np.clip(Z @ [[0.9], [-0.5], [0.0], [0.2]] + 0.2 * rng.normal(size=(n, 1)), -1, 1)
    else:
        label = (Z[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
        T = np.eye(2)[label] - 0.5
    return Z, T


def moments(layout, Z, T, sigma=0.0, rng=None):
    exact = layout.pack(Z.T @ Z, T.T @ Z, np.asarray((T**2).sum()))
    noise = sigma * rng.normal(size=layout.size) if sigma else 0.0
    return layout.unpack(exact + noise, len(Z), sigma)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_unpacking_undoes_packing_and_the_loss_is_the_loss(layout):
    rng = np.random.default_rng(0)
    Z, T = sample(rng, layout, 30)
    released = moments(layout, Z, T)
    np.testing.assert_allclose(released.A, Z.T @ Z, atol=1e-12)
    np.testing.assert_allclose(released.B, T.T @ Z, atol=1e-12)
    assert released.c == pytest.approx((T**2).sum())
    W, V = rng.normal(size=(2, layout.n_outputs, P))
    assert released.loss(W) == pytest.approx(((Z @ W.T - T) ** 2).sum(axis=1).mean())
    draws = np.array([[m.loss(W), m.loss(V)] for m in (moments(layout, Z, T, 0.3, rng) for _ in range(1500))])
    spread = (draws[:, 0] - draws[:, 1]).std()
    noisy = moments(layout, Z, T, 0.3, rng)
    assert spread == pytest.approx(noisy.difference_noise(W, V), rel=0.1)  # 5 standard errors


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_robust_loss_is_the_largest_over_the_spectral_ball(layout):
    """sup over ||E||_2 <= eta of <S + E, V V^T>, attained at E = eta V^+ V and exceeded by no random E."""
    rng = np.random.default_rng(1)
    Z, T = sample(rng, layout, 40)
    eta, W = 3.0, rng.normal(size=(layout.n_outputs, P))
    risk = robust_quadratic(moments(layout, Z, T), eta)
    n_all = P + layout.n_outputs
    V = np.vstack([W.T, -np.eye(layout.n_outputs)])
    S = np.hstack([Z, T]).T @ np.hstack([Z, T])
    E = cp.Variable((n_all, n_all), symmetric=True)
    largest = cp.Problem(cp.Maximize(cp.trace((S + E) @ (V @ V.T))), [cp.sigma_max(E) <= eta]).solve(
        solver=cp.CLARABEL
    )
    assert risk.value(W) == pytest.approx(largest / 40, rel=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_edge_and_the_quantile_are_those_of_the_noise(layout):
    rng = np.random.default_rng(2)
    big = MomentLayout(300, 1, 1.0, 1.0)
    noisy = big.unpack(0.5 * rng.normal(size=big.size), 10, 0.5)
    assert np.abs(np.linalg.eigvalsh(noisy.A)).max() == pytest.approx(noise_edge(noisy), rel=0.04)
    norms = []
    for _ in range(2000):
        noise = layout.unpack(0.5 * rng.normal(size=layout.size), 10, 0.5)
        C = np.zeros((layout.n_outputs, layout.n_outputs)) if not layout.square_weight else np.array([[noise.c]])
        N = np.block([[noise.A, noise.B.T], [noise.B, C]])
        norms.append(np.abs(np.linalg.eigvalsh(N)).max())
    for confidence in (0.5, 0.9, 0.95, 0.99):
        exact, bound = np.quantile(norms, confidence), noise_quantile(noise, confidence)
        assert exact * 0.99 <= bound <= 1.35 * exact


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("n_features", [P, P - 1])
@pytest.mark.parametrize("radius", [0.0, 0.01, 0.1, 0.4, 5.0])
def test_the_root_minimises_the_wasserstein_risk(layout, n_features, radius):
    rng = np.random.default_rng(3)
    risk = robust_quadratic(moments(layout, *sample(rng, layout, 50), 0.5, rng), 0.7)

    def value(W):
        return np.sqrt(risk.value(W)) + radius * np.linalg.norm(W[:, :n_features])

    W = solve_wasserstein(risk, radius, n_features)
    variable = cp.Variable((P, layout.n_outputs))
    residual = cp.hstack([cp.vec(risk.root @ variable - risk.target, order="C"), [np.sqrt(risk.slack)]])
    objective = cp.norm(residual) / np.sqrt(risk.n_records) + radius * cp.norm(variable[:n_features], "fro")
    best = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    assert value(W) <= best * (1 + 1e-7)
    if radius == 5.0:
        assert not W[:, :n_features].any()


def test_wasserstein_risk_of_one_output_is_the_worst_case_over_moved_rows():
    """Projected ascent over the rows finds no more than the closed form, and comes close."""
    rng = np.random.default_rng(4)
    layout = LAYOUTS["released squares"]
    Z, T = sample(rng, layout, 60)
    w, radius = np.array([0.7, -0.3, 0.2, 0.1]), 0.15
    residual = T[:, 0] - Z @ w
    v = w[:-1]
    # moving each row along v by an amount proportional to its residual is the optimum of a linear-quadratic problem
    moves = -radius * residual / np.sqrt((residual**2).mean())
    moved = Z.copy()
    moved[:, :-1] += moves[:, None] * v / np.linalg.norm(v)
    assert ((moved - Z) ** 2).sum(axis=1).mean() == pytest.approx(radius**2)
    problem = MomentProblem((moments(layout, Z, T),), np.ones(1), P - 1)
    certificate = problem.certificate(w[None], Robustness(0.7, radius, 0.0), 0.95)
    assert certificate == pytest.approx(((T[:, 0] - moved @ w) ** 2).mean(), rel=1e-9)


@pytest.mark.parametrize("rad", [0.2, 1.0])
@pytest.mark.parametrize("radius", [0.0, 0.05])
def test_the_mixture_is_minimised(rad, radius):
    rng = np.random.default_rng(5)
    layout = LAYOUTS["public squares"]
    risks = [robust_quadratic(moments(layout, *sample(rng, layout, n), 0.3, rng), 0.5) for n in (20, 40, 60)]
    weights = np.array([0.5, 0.3, 0.2])

    def value(flat):
        W = flat.reshape(K, P)
        length = radius * np.linalg.norm(W[:, : P - 1])
        return worst_mixture(np.array([(np.sqrt(r.value(W)) + length) ** 2 for r in risks]), weights, rad)

    W = solve_mixture(risks, radius, P - 1, weights, rad)
    start = W.ravel() + 0.05 * rng.normal(size=W.size)
    found = minimize(value, start, method="Powell", options={"maxiter": 20_000, "xtol": 1e-9, "ftol": 1e-12}).fun
    assert value(W.ravel()) <= found + 1e-7
    one = solve_mixture(risks[:1], radius, P - 1, np.ones(1), 1.0)
    np.testing.assert_allclose(one, solve_wasserstein(risks[0], radius, P - 1), atol=2e-4)


@given(seed=st.integers(0, 1000), rad=st.floats(0, 1))
def test_worst_mixture_is_a_linear_programme(seed, rad):
    rng = np.random.default_rng(seed)
    G = int(rng.integers(1, 6))
    risks, weights = rng.normal(size=G), rng.dirichlet(np.ones(G))
    # alpha - weights = up - down, sum(up) = sum(down) <= rad
    result = linprog(
        np.r_[-risks, risks],
        A_eq=[np.r_[np.ones(G), -np.ones(G)]],
        b_eq=[0.0],
        A_ub=np.vstack([np.r_[np.ones(G), np.zeros(G)], np.hstack([-np.eye(G), np.eye(G)])]),
        b_ub=np.r_[rad, weights],
    )
    assert worst_mixture(risks, weights, rad) == pytest.approx(weights @ risks - result.fun, abs=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("rad", [0.0, 1.0])
@pytest.mark.parametrize("radius", [0.0, 0.05])
def test_certificates_cover_the_truth(layout, rad, radius):
    """In at least 95 % of the draws of the noise, for a model that was fitted to the same noise."""
    rng = np.random.default_rng(6)
    data = [sample(rng, layout, n) for n in (2000, 4000)]
    weights, covered, ratios = np.array([1 / 3, 2 / 3]), 0, []
    robustness = Robustness(0.7, radius, rad)
    for _ in range(400):
        parts = tuple(moments(layout, Z, T, 3.0, rng) for Z, T in data)
        problem = MomentProblem(parts, weights, P - 1)
        W = problem.solve(Robustness(0.7, radius, 0.0))
        bound = problem.certificate(W, robustness, 0.95)
        move = radius * np.linalg.norm(W[:, : P - 1])
        exact = np.array([((Z @ W.T - T) ** 2).sum(axis=1).mean() for Z, T in data])
        truth = ((np.sqrt(exact) + move) ** 2).max() if rad else (np.sqrt(weights @ exact) + move) ** 2
        covered += bound >= truth
        ratios.append(bound / truth)
    assert covered >= 0.95 * 400
    assert 1.0 < np.median(ratios) < 2.0  # and it is no formality


def test_a_certificate_at_the_fitting_radius_would_not_cover():
    """Planted fault: eta of the fit instead of eta_beta is below the truth far more often than in 5 % of draws."""
    rng = np.random.default_rng(7)
    layout = LAYOUTS["released squares"]
    Z, T = sample(rng, layout, 400)
    misses = 0
    for _ in range(300):
        part = moments(layout, Z, T, 3.0, rng)
        W = solve_wasserstein(robust_quadratic(part, 0.0), 0.0, P - 1)
        misses += part.loss_bound(W, 0.5 * noise_edge(part)) < ((Z @ W.T - T) ** 2).mean()
    assert misses > 30


def test_noise_outside_the_cone_is_repaired():
    layout = LAYOUTS["released squares"]
    rng = np.random.default_rng(8)
    for _ in range(50):
        part = layout.unpack(rng.normal(size=layout.size), 5, 1.0)  # nothing but noise
        for eta in (0.0, 0.1):
            risk = robust_quadratic(part, eta)
            assert risk.slack >= 0
            for radius in (0.0, 0.1):
                assert np.isfinite(solve_wasserstein(risk, radius, P - 1)).all()


def test_pooling_adds_moments_and_noise():
    rng = np.random.default_rng(9)
    layout = LAYOUTS["released squares"]
    parts = [moments(layout, *sample(rng, layout, n), 0.5, rng) for n in (10, 30)]
    whole = pooled(parts, np.array([2.0, 1.0]))
    np.testing.assert_allclose(whole.A, 2 * parts[0].A + parts[1].A)
    assert (whole.n_records, whole.sigma) == (50.0, pytest.approx(0.5 * np.sqrt(5)))
    problem = MomentProblem(tuple(parts), np.array([0.5, 0.5]), P - 1)
    assert problem.together.n_records == 40
    W = rng.normal(size=(1, P))
    assert problem.together.loss(W) == pytest.approx(np.mean([part.loss(W) for part in parts]))
    assert problem.loss(W, 0.0) == pytest.approx(np.mean([part.loss(W) for part in parts]))
    assert problem.loss(W, 1.0) == pytest.approx(max(part.loss(W) for part in parts))


def test_tuning_keeps_the_asked_robustness_unless_another_is_clearly_better():
    rng = np.random.default_rng(10)
    layout = LAYOUTS["released squares"]
    good, absurd = Robustness(0.7, 0.0, 0.0), Robustness(500.0, 0.0, 0.0)

    def halves(n, sigma):
        return [
            MomentProblem((moments(layout, *sample(rng, layout, n), sigma, rng),), np.ones(1), P - 1) for _ in "ab"
        ]

    assert tuned(*halves(20_000, 5.0), absurd).noise_radius <= 2.0
    kept = [tuned(*halves(50, 20.0), good) == good for _ in range(20)]  # where nothing can be seen
    assert np.mean(kept) >= 0.7
