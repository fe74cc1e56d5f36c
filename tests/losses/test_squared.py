"""Squared loss against finite differences."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skdro.losses import squared


@given(score=st.floats(-100, 100), y=st.floats(-100, 100))
def test_gradient_is_the_slope_of_the_loss(score, y):
    h = 1e-4
    up, down = (squared.losses(np.array([[score + d]]), np.array([y]))[0] for d in (h, -h))
    slope = squared.score_gradient(np.array([[score]]), np.array([y]))[0, 0]
    np.testing.assert_allclose(slope, (up - down) / (2 * h), atol=1e-4)


def test_leading_axes():
    scores, y = np.arange(6.0).reshape(2, 3, 1), np.ones((2, 3))
    np.testing.assert_array_equal(squared.losses(scores, y), [[1, 0, 1], [4, 9, 16]])
    np.testing.assert_array_equal(squared.score_gradient(scores, y)[..., 0], [[-2, 0, 2], [4, 6, 8]])
