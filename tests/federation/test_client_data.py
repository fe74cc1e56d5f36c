"""From the user's rows to the block of clients: labels, numbers a client, frames, sorting, merging."""

import datetime
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skdro.federation.client_data import by_client, prepare, where_they_lie
from skdro.federation.clients import client_weights, encode_groups, per_client
from skdro.federation.frames import AffineFrame, client_moments, frame_of_moments
from skdro.federation.merging import merge_duplicate_rows

DAYS = [datetime.date(2024, 5, 2), datetime.date(2024, 5, 1), datetime.date(2024, 5, 2)]

LABELS = {
    "strings": (["b", "a", "b"], ["a", "b"]),
    "array of strings": (np.array(["b", "a", "b"]), ["a", "b"]),
    "integers": ([10, 9, 10], [9, 10]),
    "negative integers": (np.array([3, -1, 3], dtype=np.int8), [-1, 3]),
    "floats": (np.array([2.5, 0.5, 2.5]), [0.5, 2.5]),
    "integers and floats": ([2.5, 1, 2.5], [1, 2.5]),
    "booleans": ([True, False, True], [False, True]),
    "days": (np.array(DAYS, dtype="datetime64[D]"), np.array(sorted(set(DAYS)), dtype="datetime64[D]")),
    "date objects": (DAYS, sorted(set(DAYS))),
    "objects": (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
    "pandas strings": (pd.Series(["b", "a", "b"], index=[7, 7, 1]), ["a", "b"]),
    "pandas time stamps": (pd.to_datetime(pd.Series(DAYS)), np.array(sorted(set(DAYS)), dtype="datetime64[s]")),
    "empty category": (pd.Series(pd.Categorical(["b", "a", "b"], categories=["c", "b", "a"])), ["a", "b"]),
    "nullable integers": (pd.Series([10, 9, 10], dtype="Int64"), [9, 10]),
    "nullable strings": (pd.Series(["b", "a", "b"], dtype="string"), ["a", "b"]),
    "polars strings": (pl.Series(["b", "a", "b"]), ["a", "b"]),
    "polars integers": (pl.Series([10, 9, 10]), [9, 10]),
    "tuple": (("b", "a", "b"), ["a", "b"]),
}


@pytest.mark.parametrize(("groups", "expected"), LABELS.values(), ids=LABELS.keys())
def test_labels_of_one_type_are_sorted_and_counted_by_position(groups, expected):
    clients, index = encode_groups(groups, 3)
    assert list(clients) == list(expected)
    assert index.tolist() == [1, 0, 1]
    assert index.dtype.kind == "i"


def test_numbers_stay_numbers():
    # as strings, 10 would sort before 9
    assert encode_groups([10, 9, 10], 3)[0].dtype.kind == "i"
    assert encode_groups(np.array([10, 9, 10], dtype=object), 3)[0].dtype.kind == "i"


@given(
    st.sampled_from([np.int8, np.uint8, np.int16, np.int64, np.uint64]).flatmap(
        lambda kind: arrays(
            kind, st.integers(1, 400), elements=st.integers(int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        )
    ),
    st.integers(1, 300),
)
def test_integers_that_lie_close_together_are_counted_as_numpy_does(groups, modulus):
    for labels in (groups, groups.max() - groups % groups.dtype.type(min(modulus, np.iinfo(groups.dtype).max))):
        clients, index = encode_groups(labels, len(labels))
        expected, places = np.unique(labels, return_inverse=True)
        np.testing.assert_array_equal(clients, expected)
        np.testing.assert_array_equal(index, places)
        assert clients.dtype == labels.dtype


def test_pandas_index_plays_no_part():
    series = pd.Series(["a", "b", "c"], index=[2, 0, 1])
    assert encode_groups(series, 3)[1].tolist() == [0, 1, 2]
    assert encode_groups(series.sort_index(), 3)[1].tolist() == [1, 2, 0]


def test_no_groups_is_one_client():
    clients, index = encode_groups(None, 4)
    assert clients.shape == (1,)
    assert index.tolist() == [0, 0, 0, 0]


MISSING = {
    "NaN": np.array([1.0, np.nan, 2.0]),
    "NaN in a list": [1.0, float("nan"), 2.0],
    "NaN among objects": np.array(["a", np.nan, "b"], dtype=object),
    "None in a list": ["a", None, "b"],
    "None among objects": np.array(["a", None, "b"], dtype=object),
    "NaT": np.array(["2024-05-01", "NaT", "2024-05-02"], dtype="datetime64[D]"),
    "pandas NaT": pd.to_datetime(pd.Series(["2024-05-01", None, "2024-05-02"])),
    "pandas NA": pd.Series([1, pd.NA, 2], dtype="Int64"),
    "pandas NA string": pd.Series(["a", pd.NA, "b"], dtype="string"),
    "pandas NA boolean": pd.Series([True, pd.NA, False], dtype="boolean"),
    "pandas category": pd.Series(pd.Categorical(["a", None, "b"])),
    "polars strings": pl.Series(["a", None, "b"]),
    "polars integers": pl.Series([1, None, 2]),
}


@pytest.mark.parametrize("groups", MISSING.values(), ids=MISSING.keys())
def test_missing_labels_are_refused(groups):
    with pytest.raises(ValueError, match="groups has missing values"):
        encode_groups(groups, 3)


REFUSED = {
    "integers and strings": [1, "a", 2],
    "objects of both": np.array([1, "a", 2], dtype=object),
    "dates and strings": [DAYS[0], "a", DAYS[1]],
    "too short": ["a", "b"],
    "too long": np.arange(4),
    "two columns": np.zeros((3, 2)),
    "a frame": pd.DataFrame({"a": [1, 2, 3]}),
    "a list of rows": [[1, 2], [1, 2], [1, 2]],
    "ragged rows": [[1], [1, 2], [1, 2, 3]],
    "objects of no order": [object(), object(), object()],
    "sets": [{1}, {2}, {1}],
    "a number": 3,
    "a numpy number": np.float64(3.0),
    "a string": "abc",
}


@pytest.mark.parametrize("groups", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_column_of_labels_is_refused(groups):
    with pytest.raises(ValueError, match="groups"):
        encode_groups(groups, 3)


CLIENTS = np.array(["a", "b", "c"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2, [2, 2, 2]),
        (np.float64(0.5), [0.5, 0.5, 0.5]),
        ([1, 2, 3], [1, 2, 3]),
        (pd.Series([1.0, 2.0, 3.0], index=["c", "b", "a"]), [1, 2, 3]),
        ({"c": 3, "a": 1, "b": 2, "unseen": 9}, [1, 2, 3]),
        (np.inf, [np.inf] * 3),
    ],
)
def test_numbers_of_each_client(value, expected):
    found = per_client(value, CLIENTS, "radius")
    assert found.dtype == np.float64
    assert found.tolist() == expected


def test_mapping_by_number_or_day():
    assert per_client({1: 0.1, 2: 0.2}, np.array([1, 2]), "radius").tolist() == [0.1, 0.2]
    days = encode_groups(DAYS, 3)[0]
    assert per_client({DAYS[0]: 2.0, DAYS[1]: 1.0}, days, "radius").tolist() == [1.0, 2.0]


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_mapping_by_time_stamp(unit):
    clients = encode_groups(np.array(DAYS, dtype=f"datetime64[{unit}]"), 3)[0]
    mapping = (
        {pd.Timestamp(DAYS[0]): 2.0, pd.Timestamp(DAYS[1]): 1.0} if unit != "D" else {DAYS[0]: 2.0, DAYS[1]: 1.0}
    )
    assert per_client(mapping, clients, "radius").tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "value",
    [[1.0, 2.0], [[1.0, 2.0, 3.0]], {"a": 1.0, "b": 2.0}, ["x", "y", "z"], [[1], [1, 2], 3]],
    ids=["short", "a row", "client missing", "strings", "ragged"],
)
def test_numbers_that_do_not_fit_the_clients_name_the_parameter(value):
    with pytest.raises(ValueError, match="kappa"):
        per_client(value, CLIENTS, "kappa")


def test_missing_client_is_named():
    with pytest.raises(ValueError, match=r"radius has no entry for client\(s\) \['b'\]"):
        per_client({"a": 1.0, "c": 2.0}, CLIENTS, "radius")


def test_a_misspelt_client_is_shown_beside_the_one_that_is_missing():
    with pytest.raises(ValueError, match=r"client\(s\) \['b'\], but one for \['B'\]. Give one number"):
        per_client({"a": 1.0, "B": 3.0, "c": 2.0}, CLIENTS, "radius")


def test_the_name_of_a_column_is_no_column():
    with pytest.raises(ValueError, match=r"got str. A column of a table is passed itself"):
        encode_groups("site", 3)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("uniform", [1 / 3, 1 / 3, 1 / 3]),
        ("size", [0.5, 0.3, 0.2]),
        ([2, 1, 1], [0.5, 0.25, 0.25]),
        ({"a": 0, "b": 3, "c": 1}, [0, 0.75, 0.25]),
    ],
)
def test_client_weights_sum_to_one(spec, expected):
    np.testing.assert_allclose(client_weights(spec, CLIENTS, np.array([5, 3, 2])), expected, rtol=1e-15)


@pytest.mark.parametrize("spec", [[-1, 2, 2], [0, 0, 0], [np.nan, 1, 1], [np.inf, 1, 1], [1, 1], {"a": 1}])
def test_client_weights_that_are_none_are_refused(spec):
    with pytest.raises(ValueError, match="client_weights"):
        client_weights(spec, CLIENTS, np.array([5, 3, 2]))


FRAME = AffineFrame(np.array([1.0, -2.0]), 4.0, True)


def test_prepare_sorts_by_client_and_keeps_the_order_within():
    X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0]])
    y, index = np.array([0, 1, 2, 3, 4]), np.array([1, 0, 1, 0, 1])
    before = X.copy()
    block = prepare(X, y, index, np.array(["north", "south"]), FRAME, np.array([1.0, 2.0, 3.0, 2.0, 0.0]))
    assert block.y.tolist() == [1, 3, 0, 2, 4]
    assert block.offsets.tolist() == [0, 2, 5]
    assert (block.rows(0), block.rows(1)) == (slice(0, 2), slice(2, 5))
    np.testing.assert_allclose(block.weight, [0.5, 0.5, 0.25, 0.75, 0.0], rtol=1e-15)
    np.testing.assert_array_equal(block.X[0], [(3.0 - 1.0) / 4, (4.0 + 2.0) / 4, 1.0])
    assert np.array_equal(X, before)


@given(seed=st.integers(0, 10_000))
def test_weights_sum_to_one_within_each_client(seed):
    rng = np.random.default_rng(seed)
    index = rng.permutation(np.r_[np.arange(4), rng.integers(0, 4, 11)])
    block = prepare(rng.normal(size=(15, 2)), np.zeros(15, int), index, np.arange(4), FRAME, rng.random(15) + 0.01)
    for g in range(4):
        assert block.weight[block.rows(g)].sum() == pytest.approx(1, abs=1e-14)
        assert block.offsets[g + 1] - block.offsets[g] == (index == g).sum()


def test_without_sample_weight_all_rows_of_a_client_count_alike():
    block = prepare(np.zeros((3, 2)), np.zeros(3, int), np.array([0, 1, 1]), np.arange(2), FRAME)
    assert block.weight.tolist() == [1.0, 0.5, 0.5]


def test_rows_where_they_lie_are_those_of_the_sorted_copy():
    rng = np.random.default_rng(0)
    X, y, index = rng.normal(size=(60, 3)), rng.normal(size=60), rng.permutation(np.arange(60) % 5)
    scattered, copied = where_they_lie(X, y, index, 5), by_client(X, y, index, np.arange(5))
    for start, stop in [(0, 5), (1, 3), (4, 5)]:
        part, other = scattered.subset(start, stop), copied.subset(start, stop)
        assert part.n_clients == other.n_clients and part.X is X
        np.testing.assert_array_equal(part.index, other.index)
        for g in range(stop - start):
            np.testing.assert_array_equal(X[part.rows(g)], other.X[other.rows(g)])
            np.testing.assert_array_equal(y[part.rows(g)], other.y[other.rows(g)])


def test_subset_holds_the_rows_of_its_clients_without_a_copy():
    rng = np.random.default_rng(0)
    index = rng.permutation(np.repeat(np.arange(4), [3, 1, 2, 5]))
    whole = prepare(rng.normal(size=(11, 2)), np.arange(11), index, np.array(list("abcd")), FRAME)
    whole.settings["radius"] = np.array([0.1, 0.2, 0.3, 0.4])
    part = whole.subset(1, 3)
    assert part.clients.tolist() == ["b", "c"]
    assert part.n_clients == 2
    assert part.offsets.tolist() == [0, 1, 3]
    assert part.settings["radius"].tolist() == [0.2, 0.3]
    for g in range(2):
        np.testing.assert_array_equal(part.X[part.rows(g)], whole.X[whole.rows(g + 1)])
        np.testing.assert_array_equal(part.y[part.rows(g)], whole.y[whole.rows(g + 1)])
    assert np.shares_memory(part.X, whole.X)


@pytest.mark.parametrize("scale", [4.0, np.array([0.5, 3.0])])
@pytest.mark.parametrize("constant", [True, False])
def test_scores_are_the_same_inside_and_outside_a_frame(scale, constant):
    rng = np.random.default_rng(1)
    centre = rng.normal(size=2)
    frame = AffineFrame(centre, scale, constant)
    X, models = rng.normal(size=(20, 2)), rng.normal(size=(5, 3, 2 + constant))
    inside = frame.enter(X) @ np.swapaxes(models, 1, 2)
    coef, intercept = frame.leave(models)
    assert (coef.shape, intercept.shape) == ((5, 3, 2), (5, 3))
    np.testing.assert_allclose(X @ np.swapaxes(coef, 1, 2) + intercept[:, None], inside, atol=1e-12)


def common_frame(X, index, weight, alpha, constant):
    moments = client_moments(X, index, weight, len(alpha))
    return frame_of_moments(moments["mean"], moments["deviation"], alpha, constant)


def test_common_frame_by_hand():
    X = np.array([[0.0, 0.0], [4.0, 0.0], [10.0, 6.0]])
    index, weight, alpha = np.array([0, 0, 1]), np.array([1.0, 3.0, 5.0]), np.array([0.75, 0.25])
    frame = common_frame(X, index, weight, alpha, constant=True)
    # client means (3, 0) and (10, 6)
    centre = 0.75 * np.array([3.0, 0.0]) + 0.25 * np.array([10.0, 6.0])
    square = 0.75 * (((X[0] - centre) ** 2).sum() / 4 + 3 * ((X[1] - centre) ** 2).sum() / 4)
    square += 0.25 * ((X[2] - centre) ** 2).sum()
    np.testing.assert_allclose(frame.centre, centre, rtol=1e-14)
    assert frame.scale == pytest.approx(np.sqrt(square), rel=1e-14)
    assert frame.constant


def test_common_frame_without_an_intercept_keeps_the_origin():
    X = np.array([[3.0, 0.0], [0.0, 4.0]])
    frame = common_frame(X, np.zeros(2, int), np.ones(2), np.ones(1), constant=False)
    assert frame.centre.tolist() == [0.0, 0.0]
    assert frame.scale == pytest.approx(np.sqrt(12.5), rel=1e-14)


def test_common_frame_of_equal_rows_has_scale_one():
    frame = common_frame(np.full((3, 2), 7.0), np.zeros(3, int), np.ones(3), np.ones(1), constant=True)
    assert frame.scale == 1.0


records = st.lists(
    st.tuples(
        st.sampled_from([-1.5, -0.0, 0.0, 0.1, 2.0]),
        st.sampled_from([0.0, 1.0]),
        st.integers(0, 1),
        st.integers(0, 2),
        st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 7.0]),
    ),
    min_size=1,
    max_size=12,
)


def merged(rows):
    table = np.array(rows)
    return merge_duplicate_rows(table[:, :2], table[:, 2].astype(int), table[:, 3].astype(int), table[:, 4])


@given(rows=records, shuffle=st.randoms(use_true_random=False))
def test_merging_does_not_depend_on_the_order_of_the_rows(rows, shuffle):
    other = list(rows)
    shuffle.shuffle(other)
    for one, two in zip(merged(rows), merged(other), strict=True):
        assert one.tobytes() == two.tobytes()


def test_sum_of_weights_does_not_depend_on_the_order_of_the_copies():
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1  # so that the order could show
    totals = {merged([(1.0, 2.0, 0, 0, w) for w in order])[3].tobytes() for order in permutations([0.1, 0.2, 0.3])}
    assert len(totals) == 1


@given(rows=records)
def test_merging_keeps_the_weight_of_each_distinct_record(rows):
    expected = {}
    for first, second, y, client, weight in rows:
        if weight > 0:
            expected.setdefault((client, y, first, second), []).append(weight)
    X, y, index, weight = merged(rows)
    found = list(zip(index.tolist(), y.tolist(), *X.T.tolist(), strict=True))
    assert found == sorted(expected)
    for key, total in zip(found, weight, strict=True):
        assert total == pytest.approx(sum(expected[key]), rel=1e-14)


def test_merging_looks_at_client_label_and_features():
    rows = [
        (1.0, 1.0, 0, 0, 1.0),
        (1.0, 1.0, 0, 1, 1.0),
        (1.0, 1.0, 1, 0, 1.0),
        (1.0, 2.0, 0, 0, 1.0),
        (1.0, 1.0, 0, 0, 2.0),
    ]
    assert merged(rows)[3].tolist() == [3.0, 1.0, 1.0, 1.0]
