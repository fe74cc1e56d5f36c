"""Fused losses and gradients against scipy's functions, one at a time, also where they would overflow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdro.losses import softmax


def data(seed, n_classes, size):
    rng = np.random.default_rng(seed)
    return size * rng.normal(size=(12, n_classes)), rng.integers(0, n_classes, 12)


sizes = st.sampled_from([0.0, 1e-9, 1.0, 50.0, 1e4, 1e75])


@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 6), size=sizes)
def test_both_at_once_are_both(seed, n_classes, size):
    scores, y = data(seed, n_classes, size)
    before = scores.copy()
    loss, gradient = softmax.losses_and_gradient(scores, y)
    np.testing.assert_allclose(loss, softmax.losses(scores, y), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gradient, softmax.score_gradient(scores, y), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(scores, before)


@given(seed=st.integers(0, 1000), size=sizes)
def test_two_classes_with_one_logit(seed, size):
    scores, y = data(seed, 2, size)
    scores[:, 0] = 0.0
    loss, gradient = softmax.binary_losses_and_gradient(scores[:, 1], y)
    np.testing.assert_allclose(loss, softmax.losses(scores, y), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gradient, softmax.score_gradient(scores, y)[:, 1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("label", [0, 1])
def test_gradient_is_the_slope_of_the_loss(label):
    y, h = np.array([label]), 1e-6
    for logit in (-30.0, -1.0, 0.0, 2.0, 30.0):
        up, down = (softmax.binary_losses_and_gradient(np.array([logit + s]), y)[0][0] for s in (h, -h))
        slope = softmax.binary_losses_and_gradient(np.array([logit]), y)[1][0]
        assert slope == pytest.approx((up - down) / (2 * h), abs=1e-8)
