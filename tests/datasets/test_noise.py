"""Label flips: the exact count, never the own label, all other classes equally likely."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdro.datasets import flip_labels


@given(
    n=st.integers(2, 80),
    n_classes=st.integers(2, 5),
    rate=st.floats(0, 1),
    seed=st.integers(0, 2**16),
    as_label=st.sampled_from([int, float, str]),
)
@settings(deadline=None, max_examples=80)
def test_flips_exactly_the_rounded_share(n, n_classes, rate, seed, as_label):
    y = np.array([as_label(i % n_classes) for i in range(n)])
    original = y.copy()
    y_noisy = flip_labels(y, rate, random_state=seed)
    np.testing.assert_array_equal(y, original)
    assert (y_noisy != y).sum() == round(rate * n)
    assert y_noisy.dtype == y.dtype
    assert set(y_noisy) <= set(y)


def test_other_classes_are_equally_likely():
    y = np.zeros(40_000, dtype=int)
    y[-4:] = [1, 2, 3, 4]
    counts = np.bincount(flip_labels(y, 0.5, random_state=0)[:-4], minlength=5)[1:]
    assert np.abs(counts / counts.sum() - 0.25).max() < 0.012  # 4 standard errors


def test_booleans_and_lists():
    assert flip_labels([True, False], 1.0).tolist() == [False, True]


@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan, "half"])
def test_bad_rate(rate):
    with pytest.raises(ValueError, match="rate"):
        flip_labels([0, 1], rate)


def test_one_class_cannot_be_flipped():
    with pytest.raises(ValueError, match="two classes"):
        flip_labels([1, 1, 1], 0.5)
    assert flip_labels([1, 1, 1], 0.0).tolist() == [1, 1, 1]
