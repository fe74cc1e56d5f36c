"""Client splitters: every row has one client, the promised counts hold, and errors name the parameter."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, load_wine

from skdro.datasets import (
    split_clients_by_column,
    split_clients_by_dominant_class,
    split_clients_by_share,
    split_clients_dirichlet,
)


@st.composite
def labels_and_clients(draw):
    """Labels of a few classes, each large enough for `min_per_class` rows at every client."""
    n_clients = draw(st.integers(1, 5))
    min_per_class = draw(st.integers(0, 2))
    smallest = max(1, n_clients * min_per_class)
    counts = draw(st.lists(st.integers(smallest, smallest + 30), min_size=1, max_size=4))
    seed = draw(st.integers(0, 2**16))
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    return y, n_clients, min_per_class, seed


def table(y, groups, n_clients):
    return np.array([[(y[groups == g] == k).sum() for k in np.unique(y)] for g in range(n_clients)])


@given(data=labels_and_clients(), shares=st.lists(st.floats(0, 1), min_size=5, max_size=5))
@settings(deadline=None, max_examples=60)
def test_share_split_deals_every_row_and_keeps_the_minimum(data, shares):
    y, n_clients, min_per_class, seed = data
    shares = np.array(shares[:n_clients]) + 1e-3
    groups = split_clients_by_share(y, shares, min_per_class=min_per_class, random_state=seed)
    counts = table(y, groups, n_clients)
    assert counts.sum() == len(y)
    assert counts.min() >= min_per_class
    for k, n_rows in enumerate(counts.sum(axis=0)):
        # without the minimum every client is within one row of its share, whoever it went to
        if min_per_class == 0:
            exact = np.sort(n_rows * shares / shares.sum())
            assert np.abs(np.sort(counts[:, k]) - exact).max() < 1 + 1e-6


@given(data=labels_and_clients(), dominant_share=st.floats(0, 1))
@settings(deadline=None, max_examples=60)
def test_dominant_class_split_has_equal_clients(data, dominant_share):
    y, n_clients, min_per_class, seed = data
    n_classes = len(np.unique(y))
    if len(y) // n_clients < n_classes * min_per_class:
        return
    groups = split_clients_by_dominant_class(
        y, n_clients, dominant_share, min_per_class=min_per_class, random_state=seed
    )
    counts = table(y, groups, n_clients)
    assert counts.sum() == len(y)
    assert np.ptp(counts.sum(axis=1)) <= 1
    assert counts.min() >= min_per_class


@given(data=labels_and_clients(), alpha=st.floats(0.01, 100))
@settings(deadline=None, max_examples=60)
def test_dirichlet_split_deals_every_row(data, alpha):
    y, n_clients, _, seed = data
    min_rows = len(y) // n_clients
    groups = split_clients_dirichlet(y, n_clients, alpha, min_rows=min_rows, random_state=seed)
    sizes = np.bincount(groups, minlength=n_clients)
    assert sizes.sum() == len(y)
    assert len(sizes) == n_clients
    assert sizes.min() >= min_rows


def test_share_split_permutes_the_shares_class_by_class():
    y = np.repeat(np.arange(3), 100)
    seen = set()
    for seed in range(30):
        counts = table(y, split_clients_by_share(y, random_state=seed), 4)
        for column in counts.T:
            assert sorted(column) == [10, 20, 30, 40]
        seen.add(tuple(counts[:, 0]))
        seen.add(tuple(counts[:, 1]))
    assert len(seen) > 12  # of the 24 permutations


def test_dominant_class_reaches_its_share_where_rows_suffice():
    y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 3], 250))
    counts = table(y, split_clients_by_dominant_class(y, 4, 0.7, random_state=0), 4)
    assert np.diag(counts).tolist() == [175, 175, 175, 175]


def test_dominant_class_does_what_it_can_when_rows_are_short():
    y = np.repeat([0, 1, 2, 3], [600, 334, 334, 332])
    counts = table(y, split_clients_by_dominant_class(y, 4, 0.8, random_state=0), 4)
    assert counts.sum(axis=1).tolist() == [400] * 4
    # 80 % of 400 from each fault class leaves 40 fault rows for the client of the large class
    assert np.diag(counts)[1:].tolist() == [320] * 3
    assert counts[0].tolist()[0] >= 400 - 40
    assert counts.min() >= 1


def test_dirichlet_concentration_orders_heterogeneity():
    y = np.repeat(np.arange(5), 200)

    def heterogeneity(alpha):
        return np.mean([table(y, split_clients_dirichlet(y, 5, alpha, random_state=s), 5).std() for s in range(5)])

    assert heterogeneity(0.1) > 1.5 * heterogeneity(1) > 3 * heterogeneity(100)


@pytest.mark.parametrize("as_state", [np.random.RandomState, np.random.default_rng])
def test_random_state_types(as_state):
    y = load_wine().target
    first = split_clients_by_share(y, random_state=as_state(3))
    np.testing.assert_array_equal(first, split_clients_by_share(y, random_state=as_state(3)))
    assert (first != split_clients_by_share(y, random_state=as_state(4))).any()


def test_global_random_state_is_left_alone():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    split_clients_dirichlet(load_wine().target, 3, 1.0)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_by_column_of_a_frame_with_missing_values():
    frame = pd.DataFrame({"island": ["b", None, "a", "b"], "mass": [1.0, 2.0, np.nan, 3.0]})
    assert split_clients_by_column(frame, "island").tolist() == [1, 2, 0, 1]
    assert split_clients_by_column(frame, 0).tolist() == [1, 2, 0, 1]
    assert split_clients_by_column(frame, "mass", n_clients=3).tolist() == [0, 1, 3, 2]


def test_by_column_cuts_quantiles():
    X = load_iris().data
    groups = split_clients_by_column(X, 2, n_clients=3)
    assert [X[groups == g, 2].max() < X[groups == g + 1, 2].min() for g in range(2)] == [True, True]
    assert np.bincount(groups).min() > 40


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda y: split_clients_by_share(y, (0.5, -0.5)), "shares"),
        (lambda y: split_clients_by_share(y, ()), "shares"),
        (lambda y: split_clients_by_share(y, min_per_class=2.5), "min_per_class"),
        (lambda y: split_clients_by_share(y, min_per_class=20), "min_per_class"),
        (lambda y: split_clients_by_share(y, random_state="seed"), "random_state"),
        (lambda y: split_clients_by_share([]), "y"),
        (lambda y: split_clients_by_dominant_class(y, 0), "n_clients"),
        (lambda y: split_clients_by_dominant_class(y, 2, 1.5), "dominant_share"),
        (lambda y: split_clients_by_dominant_class(y, 2, min_per_class=-1), "min_per_class"),
        (lambda y: split_clients_dirichlet(y, 2, 0.0), "alpha"),
        (lambda y: split_clients_dirichlet(y, 2, 1.0, min_rows=1000), "min_rows"),
        (lambda y: split_clients_by_column(np.ones((3, 2)), 5), "column"),
        (lambda y: split_clients_by_column(np.array([["a"], ["b"]]), 0, n_clients=2), "n_clients"),
    ],
)
def test_errors_name_the_parameter(call, name):
    with pytest.raises(ValueError, match=name):
        call(load_iris().target)
