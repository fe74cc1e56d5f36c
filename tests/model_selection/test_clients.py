"""Client-aware folds and scores: no client is ever lost, and scikit-learn's own tools accept them."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_regression
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, mean_squared_error
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate

from skdro.datasets import split_clients_by_share
from skdro.model_selection import (
    ClientStratifiedKFold,
    client_scores,
    make_client_scorer,
    worst_client_score,
)

X, Y = load_iris(return_X_y=True)
GROUPS = np.array(["delta", "alpha", "charlie", "bravo"])[split_clients_by_share(Y, random_state=0)]


def model():
    return LogisticRegression(max_iter=2000)


@given(
    sizes=st.lists(st.integers(2, 25), min_size=1, max_size=6),
    n_classes=st.integers(1, 4),
    n_splits=st.integers(2, 6),
    shuffle=st.booleans(),
    seed=st.integers(0, 2**16),
)
@settings(deadline=None, max_examples=100)
def test_every_client_is_in_every_training_part(sizes, n_classes, n_splits, shuffle, seed):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    y = rng.integers(n_classes, size=len(groups))
    n_splits = min(n_splits, len(groups))
    splitter = ClientStratifiedKFold(n_splits, shuffle=shuffle, random_state=seed if shuffle else None)
    folds = list(splitter.split(np.zeros((len(y), 1)), y, groups))
    assert len(folds) == splitter.get_n_splits() == n_splits
    tests = np.concatenate([test for _, test in folds])
    np.testing.assert_array_equal(np.sort(tests), np.arange(len(y)))
    for train, test in folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
        assert set(groups[train]) == set(groups)
    for g in range(len(sizes)):
        of_client = [(groups[test] == g).sum() for _, test in folds]
        assert np.ptp(of_client) <= 1
        for k in range(n_classes):
            assert np.ptp([((groups[test] == g) & (y[test] == k)).sum() for _, test in folds]) <= 1


def test_remainders_of_many_small_clients_do_not_pile_up():
    # 20 clients with one row of class 0 and four of class 1: class 0 is spread over the five folds
    y = np.tile([0, 1, 1, 1, 1], 20)
    groups = np.repeat(np.arange(20), 5)
    counts = [(y[test] == 0).sum() for _, test in ClientStratifiedKFold(5).split(y, y, groups)]
    assert counts == [4] * 5


def test_shuffle_is_reproducible_and_moves_rows():
    def folds(seed):
        splitter = ClientStratifiedKFold(3, shuffle=True, random_state=seed)
        return [test.tolist() for _, test in splitter.split(X, Y, GROUPS)]

    assert folds(0) == folds(0) != folds(1)


def test_continuous_target_spreads_the_clients():
    X_real, y_real = make_regression(40, 2, random_state=0)
    groups = np.repeat([0, 1], [30, 10])
    for train, test in ClientStratifiedKFold(4).split(X_real, y_real, groups):
        assert len(test) == 10
        assert set(groups[train]) == {0, 1}


@pytest.mark.parametrize(
    ("splitter", "groups", "message"),
    [
        (ClientStratifiedKFold(), None, "groups"),
        (ClientStratifiedKFold(), ["a"] * 149 + ["b"], "one row.*'b'"),
        (ClientStratifiedKFold(1), GROUPS, "n_splits"),
        (ClientStratifiedKFold(200), GROUPS, "n_splits"),
        (ClientStratifiedKFold(), GROUPS[:10], "inconsistent"),
    ],
)
def test_splitter_errors(splitter, groups, message):
    with pytest.raises(ValueError, match=message):
        next(splitter.split(X, Y, groups))


def test_search_without_routing():
    search = GridSearchCV(model(), {"C": [0.1, 1]}, cv=ClientStratifiedKFold(3))
    search.fit(X, Y, groups=GROUPS)
    assert search.best_score_ > 0.9
    assert cross_val_score(model(), X, Y, cv=ClientStratifiedKFold(3), groups=GROUPS).shape == (3,)


def test_search_and_scorer_with_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        splitter, scorer = (
            ClientStratifiedKFold(3, shuffle=True, random_state=0),
            make_client_scorer("accuracy"),
        )
        result = cross_validate(
            model(),
            X,
            Y,
            cv=splitter,
            scoring={"worst": scorer, "mean": make_client_scorer(reduction=np.mean), "pooled": "accuracy"},
            params={"groups": GROUPS},
            return_estimator=True,
            return_indices=True,
        )
        for k, (estimator, test) in enumerate(zip(result["estimator"], result["indices"]["test"], strict=True)):
            by_client = [
                accuracy_score(Y[rows], estimator.predict(X[rows]))
                for rows in (test[GROUPS[test] == client] for client in np.unique(GROUPS))
            ]
            assert result["test_worst"][k] == min(by_client)
            assert result["test_mean"][k] == pytest.approx(np.mean(by_client))
        search = GridSearchCV(model(), {"C": [1e-4, 1]}, cv=splitter, scoring=scorer)
        search.fit(X, Y, groups=GROUPS)
        assert search.best_params_ == {"C": 1}


def test_scorer_without_groups_says_what_to_do():
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        make_client_scorer()(model().fit(X, Y), X, Y)


@pytest.mark.parametrize(
    ("groups", "said"), [(None, "got None"), ([1, "a"] * 75, "orderable"), (["a"] * 149 + [None], "missing")]
)
def test_scores_of_clients_name_groups_that_are_none(groups, said):
    with pytest.raises(ValueError, match=f"groups.*{said}"):
        client_scores(model().fit(X, Y), X, Y, groups)
    with pytest.raises(ValueError, match=f"groups.*{said}"):
        worst_client_score(Y, Y, groups)


def test_client_scores_match_scores_by_hand():
    fitted = model().fit(X, Y)
    rows = {client: np.flatnonzero(client == GROUPS) for client in ["alpha", "bravo", "charlie", "delta"]}
    expected = {c: f1_score(Y[r], fitted.predict(X[r]), average="macro") for c, r in rows.items()}
    assert client_scores(fitted, X, Y, GROUPS, "f1_macro") == pytest.approx(expected)

    def macro_f1(y_true, y_pred):
        return f1_score(y_true, y_pred, average="macro")

    assert client_scores(fitted, X, Y, GROUPS, macro_f1) == pytest.approx(expected)
    assert list(client_scores(fitted, X, Y, GROUPS)) == sorted(expected)
    worst = worst_client_score(Y, fitted.predict(X), GROUPS, metric=macro_f1)
    assert worst == pytest.approx(min(expected.values()))


@pytest.mark.parametrize("convert", [pd.DataFrame, sparse.csr_array, np.ndarray.tolist])
def test_client_scores_take_any_table(convert):
    table = convert(X)
    fitted = LogisticRegression(max_iter=2000).fit(table, Y)
    assert client_scores(fitted, table, pd.Series(Y), pd.Series(GROUPS)) == client_scores(
        model().fit(X, Y), X, Y, GROUPS
    )


def test_losses_have_their_worst_at_the_top():
    assert worst_client_score([0, 0], [1, 2], [0, 1], metric=mean_squared_error, greater_is_better=False) == 4
    fitted = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    scorer = make_client_scorer(mean_squared_error, greater_is_better=False)
    assert scorer(fitted, [[0.0], [1.0]], [1.0, 3.0], groups=[0, 1]) == pytest.approx(-4)
    with pytest.raises(ValueError, match="greater_is_better"):
        make_client_scorer("neg_mean_squared_error", greater_is_better=False)


def test_worst_client_differs_from_the_mean():
    y = np.array([0] * 90 + [1] * 10)
    groups = np.array(["big"] * 90 + ["small"] * 10)
    constant = DummyClassifier().fit(y[:, np.newaxis], y)
    assert constant.score(y[:, np.newaxis], y) == 0.9
    assert make_client_scorer()(constant, y[:, np.newaxis], y, groups=groups) == 0.0


def test_splitter_prints_its_parameters_and_is_cloned_by_searches():
    search = GridSearchCV(model(), {"C": [1]}, cv=ClientStratifiedKFold(4))
    assert "n_splits=4" in repr(clone(search).cv)
