from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from skdro.preprocessing import (
    PublicBoundsScaler,
    RowNormClipper,
    check_feature_bounds,
    clip_rows,
    clip_rows_into,
    scale_to_box,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
MATRICES = arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=FINITE)


@pytest.mark.parametrize(
    "transformer",
    [RowNormClipper(), RowNormClipper(max_norm=0.3), PublicBoundsScaler(), PublicBoundsScaler((0.0, 10.0))],
    ids=str,
)
def test_estimator_checks(transformer):
    results = check_estimator(transformer, legacy=True, on_skip=None, on_fail=None)
    failed = [result for result in results if result["status"] not in ("passed", "skipped")]
    assert failed == [] and len(results) > 40
    # array API input is checked only where SCIPY_ARRAY_API is set
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


@settings(max_examples=50, deadline=None)
@given(X=MATRICES, max_norm=st.floats(1e-100, 1e100))
def test_clipped_rows_in_exact_arithmetic(X, max_norm):
    before = X.copy()
    clipped = clip_rows(X, max_norm)
    np.testing.assert_array_equal(X, before)
    limit = Fraction(max_norm) ** 2
    for row, out in zip(X, clipped, strict=True):
        norm2 = sum(Fraction(x) ** 2 for x in row)
        assert sum(Fraction(x) ** 2 for x in out) <= limit * (1 + Fraction(1, 10**14))
        if norm2 < limit * (1 - Fraction(1, 10**14)):
            np.testing.assert_array_equal(out, row)
        elif norm2 > limit:
            factor2 = limit / norm2
            negligible = limit / 10**400  # entries that underflow beside the row or in themselves
            for x, z in zip(row, out, strict=True):
                expected = factor2 * Fraction(x) ** 2
                assert np.sign(x) * np.sign(z) >= 0
                assert abs(Fraction(z) ** 2 - expected) <= expected / 10**14 + negligible


@settings(max_examples=50, deadline=None)
@given(X=MATRICES, max_norm=st.floats(1e-100, 1e100), n_ones=st.integers(0, 2))
def test_clipping_into_another_array_is_clipping_rows_with_ones(X, max_norm, n_ones):
    expected = clip_rows(np.hstack([X, np.ones((len(X), n_ones))]), max_norm)
    before, room = X.copy(), np.full((len(X), X.shape[1] + n_ones + 1), np.nan)
    np.testing.assert_allclose(clip_rows_into(X, max_norm, room[:, :-1]), expected, rtol=1e-14, atol=5e-324)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(room[:, -1], np.nan)
    np.testing.assert_array_equal(clip_rows_into(X, max_norm, X), clip_rows(before, max_norm))


def test_norm_neither_overflows_nor_vanishes():
    X = np.array([[3e200, 4e200], [3e-200, 4e-200], [1e308, 1e308], [0.0, 0.0], [5e-324, 0.0]])
    expected = [[0.6, 0.8], [3e-200, 4e-200], [0.5**0.5, 0.5**0.5], [0.0, 0.0], [5e-324, 0.0]]
    np.testing.assert_allclose(clip_rows(X, 1.0), expected, rtol=1e-15)
    np.testing.assert_allclose(clip_rows(X[1:2], 1e-200), [[0.6e-200, 0.8e-200]], rtol=1e-15)


@settings(deadline=None)
@given(
    X=MATRICES,
    box=st.tuples(st.floats(-1e150, 1e150), st.floats(-1e150, 1e150)).filter(lambda b: b[0] < b[1]),
)
def test_box_in_exact_arithmetic(X, box):
    before = X.copy()
    lo, hi = box
    scaled = scale_to_box(X, *check_feature_bounds(box, X.shape[1]))
    np.testing.assert_array_equal(X, before)
    assert np.abs(scaled).max() <= 1
    for x, z in zip(X.ravel(), scaled.ravel(), strict=True):
        clipped = min(max(Fraction(x), Fraction(lo)), Fraction(hi))
        expected = 2 * (clipped - Fraction(lo)) / (Fraction(hi) - Fraction(lo)) - 1
        assert abs(Fraction(z) - expected) < Fraction(1, 10**15)


def test_corners_of_the_box_are_exact():
    lo, hi = check_feature_bounds(([-0.1, 0.1], [0.3, 0.7]), 2)
    np.testing.assert_array_equal(scale_to_box(np.array([lo, hi]), lo, hi), [[-1.0, -1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    "bounds",
    [
        (1.0, 0.0),
        (1.0, 1.0),
        ([0.0, 0.0], [1.0, 0.0]),
        (0.0, np.inf),
        (np.nan, 1.0),
        (-1e308, 1e308),
        ([0.0, 0.0, 0.0], 1.0),
        (0.0, 1.0, 2.0),
        1.0,
        None,
        "ab",
    ],
    ids=str,
)
def test_bad_bounds_name_the_parameter(bounds):
    X = np.zeros((3, 2))
    for call in (PublicBoundsScaler(bounds).fit, PublicBoundsScaler(bounds).transform):
        with pytest.raises(ValueError, match="feature_bounds"):
            call(X)


@pytest.mark.parametrize("max_norm", [0, -1.0, np.nan, np.inf, "1", None, True])
def test_bad_norm_names_the_parameter(max_norm):
    for call in (RowNormClipper(max_norm).fit, RowNormClipper(max_norm).transform):
        with pytest.raises(ValueError, match="max_norm"):
            call(np.zeros((3, 2)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("transformer", [RowNormClipper(), PublicBoundsScaler()], ids=str)
def test_missing_and_infinite_values_are_refused(transformer, bad):
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        transformer.transform([[0.0, bad]])


@pytest.mark.parametrize("transformer", [RowNormClipper(), PublicBoundsScaler((0, [1.0, 2.0]))], ids=str)
def test_fit_learns_nothing_from_the_values(transformer):
    rng = np.random.default_rng(0)
    X, other = rng.normal(size=(20, 2)), 100 * rng.normal(size=(20, 2))
    unfitted = transformer.transform(X)
    np.testing.assert_array_equal(transformer.fit(other).transform(X), unfitted)
    learnt = {name for name in vars(transformer) if name.endswith("_")}
    assert learnt == {"n_features_in_"}


def test_names_and_set_output_through_a_pipeline():
    frame = pd.DataFrame({"age": [30.0, 150.0], "dose": [5.0, 0.0]}, index=[7, 3])
    pipe = make_pipeline(PublicBoundsScaler((0.0, [120.0, 10.0])), RowNormClipper(1.0)).set_output(transform="pandas")
    out = pipe.fit_transform(frame)
    assert list(out.columns) == ["age", "dose"] == list(pipe.get_feature_names_out())
    assert list(out.index) == [7, 3]
    np.testing.assert_allclose(out.to_numpy(), [[-0.5, 0.0], [0.5**0.5, -(0.5**0.5)]])
    assert frame.loc[3, "age"] == 150.0


def test_an_extreme_row_changes_no_bit_of_another():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    alone = clip_rows(X, 1.0)
    for value in (1e200, 1e308, 5e-324, 0.0):
        X[7] = value
        assert np.array_equal(np.delete(clip_rows(X, 1.0), 7, axis=0), np.delete(alone, 7, axis=0))
        assert np.linalg.norm(clip_rows(X, 1.0)[7]) <= 1.0 + 1e-15


def test_a_box_whose_half_width_is_zero_is_refused():
    with pytest.raises(ValueError, match="feature_bounds must be finite with lo < hi"):
        check_feature_bounds((0.0, 5e-324), 2)
