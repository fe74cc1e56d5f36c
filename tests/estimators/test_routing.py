"""How client labels reach a federated estimator inside pipelines and searches, and what is said when they do not."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skdro import FedDROClassifier
from skdro.exceptions import SingleClientWarning


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def pipeline(**params):
    return Pipeline([("scale", StandardScaler()), ("model", FedDROClassifier(tol=0.02, **params))])


GRID = {"model__radius": [0.01, 0.1]}
SPLITS = StratifiedKFold(3)


def clients_seen(search):
    return search.best_estimator_["model"].clients_.tolist()


def test_grid_search_under_routing_hands_groups_to_the_clients(federation, routing):
    X, y, groups = federation
    search = GridSearchCV(pipeline(), GRID, cv=SPLITS, error_score="raise").fit(X, y, groups=groups)
    assert clients_seen(search) == ["a", "b", "c", "d"]
    # the same model as fitting the winner by hand
    by_hand = FedDROClassifier(tol=0.02, radius=search.best_params_["model__radius"])
    by_hand.fit(StandardScaler().fit_transform(X), y, groups)
    assert search.best_estimator_["model"].coef_.tobytes() == by_hand.coef_.tobytes()


def test_scores_of_a_search_under_routing_come_from_federated_fits(federation, routing):
    X, y, groups = federation
    search = GridSearchCV(pipeline(), GRID, cv=SPLITS, error_score="raise").fit(X, y, groups=groups)
    for k, (train, test) in enumerate(SPLITS.split(X, y)):
        scaler = StandardScaler().fit(X[train])
        model = FedDROClassifier(tol=0.02, radius=0.1).fit(scaler.transform(X[train]), y[train], groups[train])
        score = model.score(scaler.transform(X[test]), y[test])
        assert search.cv_results_[f"split{k}_test_score"][1] == score


def test_pipeline_under_routing(federation, routing):
    X, y, groups = federation
    assert pipeline().fit(X, y, groups=groups)["model"].clients_.tolist() == ["a", "b", "c", "d"]
    assert make_pipeline(FedDROClassifier(tol=0.02)).fit(X, y, groups=groups)[-1].clients_.tolist() == list("abcd")


def test_grid_search_without_routing_takes_groups_by_the_name_of_the_step(federation):
    X, y, groups = federation
    search = GridSearchCV(pipeline(), GRID, cv=SPLITS, error_score="raise").fit(X, y, model__groups=groups)
    assert clients_seen(search) == ["a", "b", "c", "d"]


def test_mapping_of_radii_survives_the_folds(federation):
    X, y, groups = federation
    grid = {"model__radius": [dict.fromkeys("abcd", 0.01), {"a": 0.01, "b": 0.2, "c": 0.1, "d": 0.05}]}
    search = GridSearchCV(pipeline(), grid, cv=SPLITS, error_score="raise").fit(X, y, model__groups=groups)
    assert clients_seen(search) == ["a", "b", "c", "d"]


def single_client_messages(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(w.message) for w in caught if w.category is SingleClientWarning]


def test_groups_of_a_search_without_routing_do_not_arrive_and_the_warning_says_how(federation):
    X, y, groups = federation
    search = GridSearchCV(pipeline(), GRID, cv=SPLITS)
    messages = single_client_messages(lambda: search.fit(X, y, groups=groups))
    assert len(messages) == 3 * 2 + 1  # each fit of the search
    assert all("<step>__groups" in message and "metadata routing" in message for message in messages)
    assert len(clients_seen(search)) == 1


def test_warning_under_routing_does_not_ask_for_what_is_already_on(federation, routing):
    X, y, _ = federation
    (message,) = single_client_messages(lambda: pipeline().fit(X, y))
    assert "metadata routing is on" in message
    assert "<step>__groups" not in message


def test_warning_points_at_the_line_that_fits(federation):
    X, y, _ = federation
    with pytest.warns(SingleClientWarning) as caught:
        FedDROClassifier(tol=0.02).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("constant", [np.zeros(90), ["hq"] * 90])
def test_constant_groups_silence_the_warning(federation, constant):
    X, y, _ = federation
    assert single_client_messages(lambda: FedDROClassifier(tol=0.02).fit(X, y, groups=constant)) == []


def test_cross_validate_under_routing(federation, routing):
    X, y, groups = federation
    result = cross_validate(
        pipeline(), X, y, params={"groups": groups}, cv=SPLITS, return_estimator=True, error_score="raise"
    )
    assert [fitted["model"].clients_.tolist() for fitted in result["estimator"]] == [["a", "b", "c", "d"]] * 3


def test_cross_validate_without_routing(federation):
    X, y, groups = federation
    result = cross_validate(
        pipeline(), X, y, params={"model__groups": groups}, cv=SPLITS, return_estimator=True, error_score="raise"
    )
    assert [fitted["model"].clients_.tolist() for fitted in result["estimator"]] == [["a", "b", "c", "d"]] * 3


def test_group_k_fold_takes_clients_away_but_fits(federation, routing):
    X, y, groups = federation
    result = cross_validate(
        pipeline(radius={"a": 0.01, "b": 0.02, "c": 0.03, "d": 0.04}),
        X,
        y,
        params={"groups": groups},
        cv=GroupKFold(4),
        return_estimator=True,
        error_score="raise",
    )
    # splitter and model got the same groups, so each fold trains without one client
    seen = sorted(fitted["model"].clients_.tolist() for fitted in result["estimator"])
    assert seen == [list("abc"), list("abd"), list("acd"), list("bcd")]
    assert np.all(np.isfinite(result["test_score"]))


def test_sample_weight_is_routed_on_request(federation, routing):
    X, y, groups = federation
    weight = (groups != "b").astype(float)
    model = FedDROClassifier(tol=0.02).set_fit_request(groups=True, sample_weight=True)
    fitted = make_pipeline(model).fit(X, y, groups=groups, sample_weight=weight)
    assert fitted[-1].clients_.tolist() == ["a", "c", "d"]
