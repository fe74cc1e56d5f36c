"""Dual norms, the spread phi and its subgradients against brute force over pairs."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skdro.ambiguity.transport import (
    TRANSPORT_NORMS,
    pairs_in_spread,
    spread,
    spread_and_subgradient,
    spreads_and_subgradients,
    widest_pair,
)

DUAL = {"linf": 1, "l2": 2, "l1": np.inf}
models = st.integers(2, 6).flatmap(lambda k: arrays(float, (k, 3), elements=st.floats(-4, 4)))
norms = pytest.mark.parametrize("name", sorted(TRANSPORT_NORMS))


@norms
@given(W=models)
def test_spread_is_the_largest_dual_norm_over_pairs(name, W):
    expected = max(np.linalg.norm(W[i] - W[j], ord=DUAL[name]) for i, j in combinations(range(len(W)), 2))
    phi, i, j = widest_pair(W, TRANSPORT_NORMS[name])
    assert phi == pytest.approx(expected, abs=1e-12)
    assert np.linalg.norm(W[i] - W[j], ord=DUAL[name]) == pytest.approx(phi, abs=1e-12)


@norms
@given(W=models, seed=st.integers(0, 100))
def test_subgradient_supports_phi(name, W, seed):
    norm = TRANSPORT_NORMS[name]
    phi, C = spread_and_subgradient(W, norm)
    assert phi == spread(W, norm)
    assert (C * W).sum() == pytest.approx(phi, abs=1e-9)
    other = np.random.default_rng(seed).normal(size=W.shape)
    assert spread(other, norm) >= (C * other).sum() - 1e-9
    assert np.abs(C.sum(axis=0)).max() == 0.0


@norms
@given(W=st.integers(2, 5).flatmap(lambda k: arrays(float, (4, k, 3), elements=st.floats(-4, 4))))
def test_many_models_at_once_are_the_models_one_by_one(name, W):
    norm = TRANSPORT_NORMS[name]
    phi, C = spreads_and_subgradients(W, norm)
    other = np.random.default_rng(0).normal(size=W[0].shape)
    for g in range(4):
        assert phi[g] == pytest.approx(spread(W[g], norm), abs=1e-12)
        # a subgradient of its own where several pairs are equally far apart
        assert (C[g] * W[g]).sum() == pytest.approx(phi[g], abs=1e-9)
        assert spread(other, norm) >= (C[g] * other).sum() - 1e-9


@norms
@given(d=arrays(float, 4, elements=st.floats(-4, 4)))
def test_direction_attains_the_dual_norm(name, d):
    norm = TRANSPORT_NORMS[name]
    v = norm.direction(d)
    assert norm.length(v[None])[0] <= 1 + 1e-12
    assert v @ d == pytest.approx(norm.dual(d[None])[0], abs=1e-9)


def test_pairs_of_two_absent_labels_do_not_count():
    W = np.array([[0.0], [5.0], [-5.0], [1.0]])
    present = np.array([True, False, False, True])
    assert np.transpose(pairs_in_spread(4, present)).tolist() == [[0, 1], [0, 2], [0, 3], [1, 3], [2, 3]]
    assert spread(W, TRANSPORT_NORMS["l1"]) == 10.0
    assert widest_pair(W, TRANSPORT_NORMS["l1"], present) == (6.0, 2, 3)
