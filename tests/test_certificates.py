"""Radii and coverage: the formulas inverted, their limits, and simulated coverage of the certificate."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

from skdro.certificates import (
    bootstrap_radius,
    coverage_probability,
    empirical_wasserstein,
    out_of_sample_gap,
    wasserstein_radius,
)

CONSTANTS = {"c1": 2.0, "c2": 0.5}


@pytest.mark.parametrize(("dim", "p"), [(1, 1), (3, 2), (5, 2), (9, 1)])
def test_radius_inverts_the_tail_bound(dim, p):
    """P(W_p > eps) <= c1 exp(-c2 N (eps / R)^max(2p, m)) must give beta back."""
    eps = wasserstein_radius(250, dim, 0.05, p, 3.0, **CONSTANTS)
    assert 2.0 * np.exp(-0.5 * 250 * (eps / 1.5) ** max(2 * p, dim)) == pytest.approx(0.05)


@pytest.mark.parametrize(("dim", "p"), [(2, 1), (4, 2)])
def test_radius_in_the_critical_dimension(dim, p):
    x = (wasserstein_radius(250, dim, 0.05, p, 3.0, **CONSTANTS) / 1.5) ** p
    assert 2.0 * np.exp(-0.5 * 250 * (x / np.log(2 + 1 / x)) ** 2) == pytest.approx(0.05)


@pytest.mark.parametrize(("dim", "p"), [(3, 2), (4, 2), (6, 2)])
def test_radius_shrinks_with_records_and_grows_with_confidence(dim, p):
    radii = wasserstein_radius([10, 100, 1000], dim, 0.05, p, 1.0, **CONSTANTS)
    assert np.all(np.diff(radii) < 0)
    assert np.all(wasserstein_radius([10, 100, 1000], dim, 0.01, p, 1.0, **CONSTANTS) > radii)


def test_coverage_of_independent_balls_is_the_product():
    beta, n = np.array([0.1, 0.02, 0.3]), [20, 500, 90]
    eps = wasserstein_radius(n, 3, beta, 2, 1.0, **CONSTANTS)
    assert coverage_probability(eps, n, 3, 2, 1.0, **CONSTANTS) == pytest.approx(np.prod(1 - beta))


@pytest.mark.parametrize(("dim", "p"), [(3, 2), (4, 2)])
def test_coverage_by_one_ball_where_clients_hardly_differ(dim, p):
    """With delta = 0 one success among the clients is enough: 1 - prod beta_i."""
    beta, n = np.array([0.1, 0.02, 0.3]), [20, 500, 90]
    eps = wasserstein_radius(n, dim, beta, p, 1.0, **CONSTANTS)
    alike = coverage_probability(eps, n, dim, p, 1.0, heterogeneity=0.0, **CONSTANTS)
    assert alike == pytest.approx(1 - np.prod(beta))
    apart = coverage_probability(eps, n, dim, p, 1.0, heterogeneity=10.0, **CONSTANTS)
    assert apart == pytest.approx(np.prod(1 - beta))
    between = coverage_probability(eps, n, dim, p, 1.0, heterogeneity=0.1 * eps.min(), **CONSTANTS)
    assert apart <= between <= alike


def test_without_a_radius_nothing_is_covered():
    assert coverage_probability([0.0, 1.0], [10, 10], 3, 2, 1.0, **CONSTANTS) == 0.0


def test_unknown_constants_are_no_proof():
    with pytest.warns(UserWarning, match="c1 and c2"):
        wasserstein_radius(10, 3, 0.1, 2, 1.0)
    with pytest.warns(UserWarning, match="c1 and c2"):
        coverage_probability(0.1, 10, 3, 2, 1.0, c1=1.0)


@pytest.mark.parametrize(
    "wrong", [{"dim": 0}, {"p": 0.5}, {"diameter": 0.0}, {"beta": 1.0}, {"beta": 0.0}, {"n_samples": 0}, {"c1": -1.0}]
)
def test_wrong_arguments_are_refused(wrong):
    arguments = {"n_samples": 10, "dim": 3, "beta": 0.1, "p": 2, "diameter": 1.0, **CONSTANTS, **wrong}
    with pytest.raises(ValueError, match=r"must be|need"):
        wasserstein_radius(**arguments)


def test_gap():
    assert out_of_sample_gap(3.0, [0.1, 0.2], 0.5) == pytest.approx(2.7)


@pytest.mark.parametrize("p", [1, 2])
def test_distance_equals_all_assignments(p):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 5, 2))
    cost = np.linalg.norm(A[:, None] - B, axis=2) ** p
    best = min(cost[range(5), order].mean() for order in itertools.permutations(range(5)))
    assert empirical_wasserstein(A, B, p) == pytest.approx(best ** (1 / p))


def test_distance_of_a_shift_is_its_length():
    A = np.random.default_rng(1).normal(size=(30, 3))
    assert empirical_wasserstein(A, A + np.array([1.0, 2.0, 2.0])) == pytest.approx(3.0)


def test_distance_needs_samples_of_one_size():
    with pytest.raises(ValueError, match="one shape"):
        empirical_wasserstein(np.zeros((3, 2)), np.zeros((4, 2)))


def test_bootstrap_radius_has_units_and_shrinks():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 2))
    radius = bootstrap_radius(X, n_bootstrap=30, random_state=0)
    assert bootstrap_radius(5 * X, n_bootstrap=30, random_state=0) == pytest.approx(5 * radius)
    assert bootstrap_radius(X[:20], n_bootstrap=30, random_state=0) > 1.5 * radius
    assert bootstrap_radius(X, beta=0.5, n_bootstrap=30, random_state=0) < radius


def test_bootstrap_radius_of_many_records_is_extrapolated():
    X = np.random.default_rng(3).normal(size=(400, 1))
    whole = bootstrap_radius(X, n_bootstrap=60, max_records=400, random_state=0)
    sampled = bootstrap_radius(X, n_bootstrap=60, max_records=100, random_state=0)
    assert sampled == pytest.approx(whole, rel=0.5)


@pytest.mark.slow
def test_certificates_with_calibrated_radii_hold_as_often_as_promised():
    """500 draws of three clients; the radii are quantiles of simulated distances, so that Theorem 5 applies."""
    script = Path(__file__).parents[1] / "examples" / "benchmarks" / "mixture_coverage.py"
    spec = importlib.util.spec_from_file_location("mixture_coverage", script)
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    rng = np.random.default_rng(5)
    clients = study.populations(rng)
    radii = study.calibrated_radii(clients, rng, 300)

    def share(radii):
        pairs = [study.certificate_and_truth(study.draw(clients, rng), radii, clients) for _ in range(500)]
        return np.mean([truth <= certificate for certificate, truth in pairs])

    assert share(radii) >= (1 - study.BETA) ** 3
    assert share(np.zeros(3)) < 0.7  # without radii the sample's value is no bound
