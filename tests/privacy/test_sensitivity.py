"""Lemmas 1 and 2 on the package's own gradients: attained by a label swap, never exceeded."""

import numpy as np
import pytest

from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.losses.crammer_singer import GRADIENT_NORM, gradient_sum, margin_violations
from skdro.preprocessing import clip_rows
from skdro.privacy.sensitivity import (
    ADJACENCIES,
    crammer_singer_gradient,
    label_branch_share,
    mean_gradient,
    model_step,
    multiplier_step,
    weighted_gradient_sum,
)

REPLACE, ZERO = ADJACENCIES["replace_one"], ADJACENCIES["zero_out"]
L, K, P = 1.7, 4, 5


def gradient(M, X, y, mask):
    """Sum of subgradients with a 0/1 mask on the per-record terms, after clipping."""
    X = clip_rows(X, L)
    _, rival = margin_violations(X @ M.T, y)
    return gradient_sum(X, y, rival, mask, K)


def flips(M, lam, kappa, X, y, mask):
    """kappa times the (masked) number of records whose worst case is a flipped label."""
    ball = WassersteinBall(0.1, kappa, TRANSPORT_NORMS["l2"])
    return -RobustRisk(clip_rows(X, L), y, mask, K, P, ball).data_cut(M, lam)[1]


def robust_gradient(M, lam, kappa, X, y, mask):
    ball = WassersteinBall(0.1, kappa, TRANSPORT_NORMS["l2"])
    return RobustRisk(clip_rows(X, L), y, mask, K, P, ball).data_cut(M, lam)[0]


def two_top_classes(rng):
    """A model, a row of norm L and its two top classes, within a margin of each other."""
    M = rng.normal(scale=0.1, size=(K, P))
    x = rng.normal(size=P)
    x *= L / np.linalg.norm(x)
    top = np.argsort(M @ x)[-2:]
    return M, x, top


def test_components_of_the_table():
    assert crammer_singer_gradient(L, REPLACE) == 2 * GRADIENT_NORM * L
    assert crammer_singer_gradient(L, ZERO) == GRADIENT_NORM * L
    assert [label_branch_share(0.7, adjacency) for adjacency in (REPLACE, ZERO)] == [0.7, 0.7]
    assert {name: adjacency.name for name, adjacency in ADJACENCIES.items()} == {
        "replace_one": "replace_one",
        "zero_out": "zero_out",
    }


@pytest.mark.parametrize("seed", range(10))
def test_label_swap_attains_the_gradient_bounds(seed):
    M, x, (second, first) = two_top_classes(np.random.default_rng(seed))
    one = np.ones(1)
    here, there = (gradient(M, x[None], np.array([label]), one) for label in (first, second))
    nothing = gradient(M, x[None], np.array([second]), 0 * one)
    assert abs(np.linalg.norm(here - there) - crammer_singer_gradient(L, REPLACE)) < 1e-12
    assert abs(np.linalg.norm(there - nothing) - crammer_singer_gradient(L, ZERO)) < 1e-12


def candidate_rows(rng, x):
    """Replacement rows: far away, opposite, at the bound, tiny, and of absurd length before clipping."""
    far = rng.normal(size=P)
    return [far, -x, x, far * L / np.linalg.norm(far), 1e-9 * far, 1e200 * far, -1e8 * x]


def test_gradient_bounds_hold_for_random_and_searched_pairs():
    rng = np.random.default_rng(0)
    largest = {"replace_one": 0.0, "zero_out": 0.0}
    pairs = 0
    while pairs < 10_000:
        M = rng.normal(scale=rng.choice([0.01, 1.0, 100.0]), size=(K, P))
        lam, kappa = rng.uniform(0, 3), rng.choice([0.3, 1.0, np.inf])
        rows = candidate_rows(rng, rng.normal(size=P) * rng.choice([0.1, 1.0, 10.0]))
        terms = np.array(
            [
                robust_gradient(M, lam, kappa, row[None], np.array([label]), np.ones(1))
                for row in rows
                for label in range(K)
            ]
        ).reshape(len(rows) * K, -1)
        apart = np.linalg.norm(terms[:, None] - terms[None], axis=-1)
        largest["replace_one"] = max(largest["replace_one"], apart.max())
        largest["zero_out"] = max(largest["zero_out"], np.linalg.norm(terms, axis=1).max())
        pairs += apart.size
    for name, adjacency in ADJACENCIES.items():
        bound = crammer_singer_gradient(L, adjacency)
        assert 0.9 * bound < largest[name] <= bound * (1 + 1e-12)


def test_branch_share_bounds_hold_and_are_attained():
    rng = np.random.default_rng(1)
    kappa = 0.6
    largest = {"replace_one": 0.0, "zero_out": 0.0}
    for _ in range(300):
        M, lam = rng.normal(size=(K, P)), rng.uniform(0, 5)
        X, y = rng.normal(size=(3, P)), rng.integers(K, size=3)
        base = flips(M, lam, kappa, X, y, np.ones(3))
        masked = flips(M, lam, kappa, X, y, np.array([0.0, 1.0, 1.0]))
        largest["zero_out"] = max(largest["zero_out"], abs(base - masked))
        for row in candidate_rows(rng, X[0]):
            for label in range(K):
                X2, y2 = np.vstack([row, X[1:]]), np.r_[label, y[1:]]
                moved = abs(flips(M, lam, kappa, X2, y2, np.ones(3)) - base)
                largest["replace_one"] = max(largest["replace_one"], moved)
    for name, adjacency in ADJACENCIES.items():
        assert abs(largest[name] - label_branch_share(kappa, adjacency)) < 1e-12


def neighbours(rng, n):
    """A client and its neighbour: one row's label swapped between the two top classes."""
    M, x, (second, first) = two_top_classes(rng)
    X, y = rng.normal(size=(n, P)), rng.integers(K, size=n)
    X[0] = x
    return M, X, np.r_[first, y[1:]], np.r_[second, y[1:]]


@pytest.mark.parametrize("adjacency", ADJACENCIES.values(), ids=ADJACENCIES)
def test_steps_of_algorithm_2_move_by_their_sensitivity(adjacency):
    n, rho, eta, nu, kappa = 9, 0.8, 0.3, 0.4, 0.6
    M, X, y, y_swapped = neighbours(np.random.default_rng(2), n)
    keep = np.ones(n)
    y_other, mask = (y_swapped, keep) if adjacency is REPLACE else (y_swapped, np.r_[0.0, keep[1:]])
    y_here = y if adjacency is REPLACE else y_swapped
    constant = np.random.default_rng(3).normal(size=(K, P))

    def step(labels, weight):
        return (M / eta + rho * constant - gradient(M, X, labels, weight) / n) / (rho + 1 / eta)

    moved = np.linalg.norm(step(y_here, keep) - step(y_other, mask))
    assert abs(moved - model_step(L, n, rho, eta, adjacency)) < 1e-12

    # lam small: every record of the label that scores highest flips, and none that scores lowest does
    scores = X[0] @ M.T
    flipping, other = np.r_[scores.argmax(), y[1:]], np.r_[scores.argmin(), y[1:]]
    lam = np.ptp(scores) / (2 * kappa)
    if adjacency is REPLACE:
        pair = (flips(M, lam, kappa, X, labels, keep) for labels in (flipping, other))
    else:
        pair = (flips(M, lam, kappa, X, flipping, weight) for weight in (keep, np.r_[0.0, keep[1:]]))
    moved = nu * abs(np.subtract(*pair)) / n
    assert abs(moved - multiplier_step(kappa, n, nu, adjacency)) < 1e-12


@pytest.mark.parametrize("adjacency", ADJACENCIES.values(), ids=ADJACENCIES)
@pytest.mark.parametrize(
    "alpha",
    [np.full(3, 1 / 3), np.array([5, 20, 75]) / 100, np.array([0.7, 0.0, 0.3])],
    ids=["uniform", "size", "array"],
)
def test_trusted_sum_moves_by_each_clients_sensitivity(alpha, adjacency):
    sizes = np.array([5, 20, 75])
    bounds = weighted_gradient_sum(L, alpha, sizes, adjacency)
    for client, n in enumerate(sizes):
        M, X, y, y_swapped = neighbours(np.random.default_rng(client), n)
        keep = np.ones(n)
        here = gradient(M, X, y_swapped, keep)
        there = gradient(M, X, y, keep) if adjacency is REPLACE else gradient(M, X, y_swapped, np.r_[0, keep[1:]])
        assert abs(alpha[client] * np.linalg.norm(here - there) / n - bounds[client]) < 1e-12


def test_weights_by_size_give_two_root_two_over_n():
    sizes = np.array([5, 20, 75])
    by_size = weighted_gradient_sum(L, sizes / 100, sizes, REPLACE)
    np.testing.assert_allclose(by_size, 2 * np.sqrt(2) * L / 100, rtol=1e-14)
    assert weighted_gradient_sum(L, np.full(3, 1 / 3), sizes, REPLACE).max() > 6 * by_size.max()


def test_mean_gradient_uses_each_clients_own_rows():
    np.testing.assert_allclose(
        mean_gradient(L, np.array([5, 20]), REPLACE),
        [2 * np.sqrt(2) * L / 5, 2 * np.sqrt(2) * L / 20],
        rtol=1e-14,
    )
