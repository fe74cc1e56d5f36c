"""The worst distribution: inside the ball, as bad as promised, never worse than nature can be; by recomputation."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.ambiguity.worst_case import worst_case

ORDER = {"linf": np.inf, "l2": 2, "l1": 1}


def loss(M, x, label):
    scores = M @ x
    return max(s + (k != label) for k, s in enumerate(scores)) - scores[label]


def spent(risk, worst):
    """Transport cost of the coupling that `record` states, one atom at a time."""
    total = 0.0
    for x, label, mass, n in zip(worst.X, worst.y, worst.weight, worst.record, strict=True):
        moved = np.linalg.norm(x[: risk.n_features] - risk.X[n, : risk.n_features], ORDER[risk.ball.norm.name])
        total += mass * (moved + (risk.ball.kappa if label != risk.y[n] else 0.0))
    return total


def check(risk, M, worst):
    value, _ = risk.value(M)
    radius = risk.ball.radius
    assert np.all(worst.weight > 0)
    shares = np.bincount(worst.record, weights=worst.weight, minlength=len(risk.y))
    assert shares == pytest.approx(risk.weight, abs=1e-12)  # nature moves mass, it makes none
    assert spent(risk, worst) <= radius * (1 + 1e-9)
    assert worst.cost == pytest.approx(spent(risk, worst), rel=1e-12, abs=1e-15)
    expected = sum(p * loss(M, x, c) for p, x, c in zip(worst.weight, worst.X, worst.y, strict=True))
    assert worst.risk == pytest.approx(expected, rel=1e-9)
    assert value * 0.999 <= expected <= value * (1 + 1e-9) + 1e-12
    assert np.array_equal(worst.flipped, worst.y != risk.y[worst.record])
    assert np.array_equal(worst.moved, np.any(risk.X[worst.record] != worst.X, axis=1))
    assert np.array_equal(worst.X[:, risk.n_features :], risk.X[worst.record][:, risk.n_features :])


def random_problem(seed, norm, kappa, radius, n_classes=3, n_labels=None, intercept=True, scale=1.0, n=7, p=2):
    """Records with Dirichlet weights, some of them zero, and labels among the first `n_labels` only."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, p)), rng.integers(0, n_labels or n_classes, n)
    weight = rng.dirichlet(np.ones(n)) * (rng.random(n) < 0.8)
    weight = weight / weight.sum() if weight.sum() > 0 else np.full(n, 1 / n)
    M = scale * rng.normal(size=(n_classes, p + intercept))
    X = np.c_[X, np.ones((n, int(intercept)))]
    return RobustRisk(X, y, weight, n_classes, p, WassersteinBall(radius, kappa, TRANSPORT_NORMS[norm])), M


@settings(max_examples=400)
@given(
    seed=st.integers(0, 100_000),
    norm=st.sampled_from(sorted(ORDER)),
    kappa=st.one_of(st.just(np.inf), st.floats(0.02, 4.0)),
    radius=st.one_of(st.just(0.0), st.sampled_from([1e-9, 1e-6, 1e-3]), st.floats(1e-2, 3.0)),
    n_classes=st.integers(2, 5),
    absent=st.integers(0, 4),
    intercept=st.booleans(),
    scale=st.sampled_from([1e-3, 0.1, 1.0, 10.0]),
)
@example(0, "linf", 0.5, 0.2, 5, 4, True, 1.0)
def test_within_the_ball_and_as_bad_as_promised(seed, norm, kappa, radius, n_classes, absent, intercept, scale):
    labels = max(1, n_classes - absent)
    risk, M = random_problem(seed, norm, kappa, radius, n_classes, labels, intercept, scale)
    check(risk, M, worst_case(risk, M))


@pytest.mark.parametrize("norm", sorted(ORDER))
@pytest.mark.parametrize("kappa", [0.3, 1.0, np.inf])
def test_never_above_what_nature_can_do(norm, kappa):
    for seed, radius in enumerate([0.0, 0.05, 0.3, 1.5]):
        risk, M = random_problem(seed, norm, kappa, radius, n=4)
        best = conic_adversary(risk, M)
        assert 0.999 * best - 1e-6 <= worst_case(risk, M).risk <= best + 1e-6


def conic_adversary(risk, M):
    """Nature's own problem: mass and displacement of each record to each label, on each piece of the loss."""
    p, kappa = risk.n_features, risk.ball.kappa
    total, cost, constraints = 0, 0, []
    for x, y, weight in zip(risk.X, risk.y, risk.weight, strict=True):
        labels = range(risk.n_classes) if np.isfinite(kappa) else [y]
        pieces = [(label, k) for label in labels for k in range(risk.n_classes)]
        mass = cp.Variable(len(pieces), nonneg=True)
        constraints.append(cp.sum(mass) == weight)
        for q, (label, k) in zip(mass, pieces, strict=True):
            shift, slope = cp.Variable(p), M[k] - M[label]
            total += q * float(slope @ x + (k != label)) + slope[:p] @ shift
            cost += cp.norm(shift, ORDER[risk.ball.norm.name]) + (kappa * q if label != y else 0)
    problem = cp.Problem(cp.Maximize(total), [*constraints, cost <= risk.ball.radius])
    return problem.solve(solver=cp.CLARABEL)


def test_radius_zero_is_the_empirical_distribution():
    risk, M = random_problem(3, "l2", 0.5, 0.0)
    worst = worst_case(risk, M)
    assert np.array_equal(worst.record, np.flatnonzero(risk.weight))
    assert np.array_equal(worst.X, risk.X[worst.record])
    assert np.array_equal(worst.weight, risk.weight[worst.record])
    assert worst.cost == 0 and not worst.flipped.any() and not worst.moved.any()


@pytest.mark.parametrize("norm", sorted(ORDER))
def test_equal_coefficients_only_allow_flips(norm):
    risk, M = random_problem(5, norm, 1.0, 0.1)
    M[:, :2] = 0.7  # classes differ in their intercepts alone, so rows are not worth moving
    worst = worst_case(risk, M)
    check(risk, M, worst)
    assert worst.flipped.any() and not worst.moved.any()
    assert worst.risk == pytest.approx(risk.value(M)[0], rel=1e-12)
    M[:] = 0.7  # nor are labels worth flipping
    assert worst_case(risk, M).cost == 0


def test_the_marginal_record_is_flipped_in_part_and_uses_the_budget_up():
    ball = WassersteinBall(0.35, 1.0, TRANSPORT_NORMS["l2"])
    X, y = np.array([[3.0], [3.0], [3.0], [-3.0]]), np.array([0, 0, 0, 1])  # ties: all gains are equal
    risk, M = RobustRisk(X, y, np.full(4, 0.25), 2, 1, ball), np.array([[0.5], [-0.5]])
    assert risk.value(M)[1] > risk.phi(M)
    worst = worst_case(risk, M)
    check(risk, M, worst)
    assert worst.weight[worst.flipped] == pytest.approx([0.25, 0.1])
    assert worst.cost == pytest.approx(0.35, rel=1e-12)
    assert not worst.moved.any()


@pytest.mark.parametrize("n_flips", range(11))
@pytest.mark.parametrize("kappa", [0.1, 0.3, 0.7])
def test_a_budget_that_flips_whole_records_leaves_no_crumbs(n_flips, kappa):
    ball = WassersteinBall(n_flips * kappa / 10, kappa, TRANSPORT_NORMS["linf"])
    risk = RobustRisk(np.full((10, 1), 3.0), np.zeros(10, int), np.full(10, 0.1), 2, 1, ball)
    worst = worst_case(risk, np.array([[0.5], [-0.5]]))
    assert len(worst.weight) == 10
    assert worst.flipped.sum() == n_flips and not worst.moved.any()


def test_nothing_moves_when_flips_use_the_budget_up():
    rng, seen = np.random.default_rng(0), 0
    for seed in range(300):
        risk, M = random_problem(seed, "l2", rng.uniform(0.02, 1.0), rng.uniform(0.01, 0.5), scale=0.1)
        if risk.value(M)[1] > risk.phi(M) * (1 + 1e-9):
            seen += 1
            assert not worst_case(risk, M).moved.any()
    assert seen > 50


def test_movers_with_an_active_hinge_reach_the_supremum_by_small_steps():
    ball = WassersteinBall(0.2, np.inf, TRANSPORT_NORMS["l1"])
    risk = RobustRisk(np.array([[0.5, 0.1], [-0.5, 0.2]]), np.array([0, 1]), np.full(2, 0.5), 2, 2, ball)
    M = np.array([[0.5, 0.1], [-0.5, 0.0]])
    worst = worst_case(risk, M)
    assert worst.risk == pytest.approx(risk.value(M)[0], rel=1e-12)
    # 0.2 on average for both: towards the other class along the coordinate that weighs most
    assert worst.X.tolist() == [pytest.approx([0.3, 0.1]), pytest.approx([-0.3, 0.2])]


def test_records_beyond_the_margin_move_far_in_a_small_mass():
    ball = WassersteinBall(0.1, np.inf, TRANSPORT_NORMS["l2"])
    risk = RobustRisk(np.array([[9.0], [-9.0]]), np.array([0, 1]), np.full(2, 0.5), 2, 1, ball)
    M = np.array([[0.5], [-0.5]])
    distances = []
    for tol in (1e-1, 1e-3, 1e-5):
        worst = worst_case(risk, M, tol)
        assert risk.value(M)[0] * (1 - tol) <= worst.risk < risk.value(M)[0]
        distances.append(np.abs(worst.X - risk.X[worst.record]).max())
    assert distances[1] == pytest.approx(100 * distances[0]) and distances[2] == pytest.approx(100 * distances[1])


@pytest.mark.parametrize("norm", sorted(ORDER))
def test_a_pair_that_is_widest_up_to_a_solver_moves_its_records_too(norm):
    # classes 0 and 2 are a hair further apart than 0 and 1, but both records are on the margin of 0 and 1
    M = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0 + 1e-5, 0.0, -9.0]])
    X, y = np.array([[0.3, 0.0, 1.0], [-0.2, 0.0, 1.0]]), np.array([0, 1])
    risk = RobustRisk(X, y, np.full(2, 0.5), 3, 2, WassersteinBall(0.1, np.inf, TRANSPORT_NORMS[norm]))
    worst = worst_case(risk, M)
    check(risk, M, worst)
    assert np.abs(worst.X - risk.X[worst.record]).max() < 1


@pytest.mark.parametrize("norm", sorted(ORDER))
@pytest.mark.parametrize("radius", [0.01, 0.5])
def test_when_no_record_has_a_label_of_the_widest_pair_the_movers_pay_for_a_flip(norm, radius):
    ball = WassersteinBall(radius, 2.0, TRANSPORT_NORMS[norm])
    M = np.array([[0.0, 0.0, 3.0], [4.0, 1.0, 0.0], [-4.0, 0.5, 0.0]])
    risk = RobustRisk(np.c_[0.1 * np.eye(2), np.ones(2)], np.zeros(2, int), np.full(2, 0.5), 3, 2, ball)
    worst = worst_case(risk, M)
    check(risk, M, worst)
    assert worst.moved.any() and np.all(worst.flipped[worst.moved])


@pytest.mark.parametrize("fault", ["moved twice as far", "one flip too many", "half the way"])
def test_the_checks_catch(fault):
    risk, M = random_problem(2, "l2", 0.3, 0.5, scale=0.5, n_labels=3)
    worst = worst_case(risk, M)
    X, y = worst.X.copy(), worst.y.copy()
    moved = X[worst.moved] - risk.X[worst.record[worst.moved]]
    if fault == "one flip too many":
        n = np.flatnonzero(~worst.flipped & ~worst.moved)[0] if np.any(~worst.flipped & ~worst.moved) else 0
        y[n] = (y[n] + 1) % 3
    else:
        X[worst.moved] += moved * (1.0 if fault == "moved twice as far" else -0.5)
    faulty = type(worst)(**(vars(worst) | {"X": X, "y": y}))
    with pytest.raises(AssertionError):
        check(risk, M, faulty)
