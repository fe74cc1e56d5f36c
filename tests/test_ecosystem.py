"""What people do with scikit-learn estimators: frames, pipelines, parallel backends, files, and scikit-learn's own
meta-estimators and tools, with and without metadata routing."""

import inspect

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import StackingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, TunedThresholdClassifierCV, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdro import (
    AFLClassifier,
    AFLRegressor,
    BiDROFLClassifier,
    BiDROFLRegressor,
    DPFedDROClassifier,
    DPFedERMClassifier,
    DPFedSGDClassifier,
    DPMomentDROClassifier,
    DPMomentDRORegressor,
    DROSpiderClassifier,
    FedDROClassifier,
    FedOvADROClassifier,
    KLDROSpiderClassifier,
    WassersteinDROClassifier,
)
from skdro.model_selection import ClientStratifiedKFold, make_client_scorer
from skdro.preprocessing import PublicBoundsScaler, RowNormClipper

# quick settings; a seed makes the noise repeatable and the fits not private, which the tests need and know
PRIVATE = {"classes": [0, 1, 2], "random_state": 0}
MODELS = [
    FedDROClassifier(tol=0.05),
    WassersteinDROClassifier(tol=1e-2),
    FedOvADROClassifier(tol=0.05),
    BiDROFLClassifier(loss="softmax", penalty=10.0, n_rounds=3, random_state=0),
    BiDROFLRegressor(),
    AFLClassifier(solver="descent_ascent", n_rounds=3),
    AFLRegressor(),
    DROSpiderClassifier(),
    DROSpiderClassifier(epsilon=1.0, n_rounds=3, hidden_layer_sizes=(3,), **PRIVATE),
    KLDROSpiderClassifier(epsilon=1.0, n_rounds=3, **PRIVATE),
    DPFedDROClassifier(n_rounds=3, **PRIVATE),
    DPFedDROClassifier(n_rounds=3, variant="paper", feature_bounds=(-5.0, 5.0), **PRIVATE),
    DPFedERMClassifier(n_rounds=3, **PRIVATE),
    DPFedSGDClassifier(n_rounds=3, **PRIVATE),
    DPMomentDROClassifier(**PRIVATE),
    DPMomentDRORegressor(target_bounds=(0.0, 2.0), random_state=0),
]
pytestmark = [
    pytest.mark.filterwarnings("ignore:random_state is set:skdro.exceptions.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def fitted(model, X, y, groups):
    takes_groups = "groups" in inspect.signature(model.fit).parameters
    return clone(model).fit(X, y, **({"groups": groups} if takes_groups else {}))


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_are_taken_by_name_and_give_the_same_model(model, library, federation):
    X, y, groups = federation
    frame = library.DataFrame({name: X[:, j] for j, name in enumerate("uvw")})
    framed = fitted(model, frame, library.Series(y), library.Series(groups))
    assert framed.feature_names_in_.tolist() == ["u", "v", "w"]
    # the columns of a frame lie in another order in memory, so sums may differ in the last digits
    predicted = fitted(model, X, y, groups).predict(X)
    np.testing.assert_allclose(framed.predict(frame), predicted, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        framed.predict(frame[["w", "v", "u"]])


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output_pipelines(output, federation):
    X, y, groups = federation
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    pipe = make_pipeline(
        StandardScaler(), PublicBoundsScaler((-4.0, 4.0)), RowNormClipper(1.0), FedDROClassifier(tol=0.05)
    ).set_output(transform=output)
    pipe.fit(frame, y, feddroclassifier__groups=groups)
    assert pipe[-1].feature_names_in_.tolist() == ["u", "v", "w"]
    assert type(pipe[:-1].transform(frame)).__module__.startswith(output)
    plain = clone(pipe).set_output(transform="default").fit(X, y, feddroclassifier__groups=groups)
    np.testing.assert_allclose(pipe[-1].coef_, plain[-1].coef_, rtol=1e-6)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_parallel_searches_find_what_a_serial_one_finds(backend, federation, routing):
    X, y, groups = federation
    search = GridSearchCV(FedDROClassifier(n_rounds=3), {"radius": [0.05, 0.1]}, cv=2, error_score="raise")
    serial = clone(search).fit(X, y, groups=groups)
    with joblib.parallel_config(backend, n_jobs=2):
        parallel = search.fit(X, y, groups=groups)
    np.testing.assert_array_equal(parallel.cv_results_["mean_test_score"], serial.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(parallel.best_estimator_.coef_, serial.best_estimator_.coef_)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_skops_file_needs_trust_in_our_own_types_only(model, federation):
    sio = pytest.importorskip("skops.io")
    X, y, groups = federation
    original = fitted(model, X, y, groups)
    file = sio.dumps(original)
    allow_list = sio.get_untrusted_types(data=file)
    assert allow_list and all(name.startswith("skdro.") for name in allow_list)
    loaded = sio.loads(file, trusted=allow_list)
    np.testing.assert_array_equal(loaded.predict(X), original.predict(X))
    if hasattr(original, "privacy_"):
        assert loaded.privacy_ == original.privacy_


def test_cross_validate_with_several_scorers(federation, routing):
    X, y, groups = federation
    scoring = {"accuracy": "accuracy", "f1": "f1_macro", "worst client": make_client_scorer()}
    result = cross_validate(
        FedDROClassifier(tol=0.05), X, y, cv=ClientStratifiedKFold(3), scoring=scoring, params={"groups": groups},
        error_score="raise",
    )  # fmt: skip
    assert np.all(result["test_worst client"] <= result["test_accuracy"]) and np.all(result["test_f1"] > 0.4)


def test_permutation_importance_finds_the_column_without_a_meaning(federation):
    X, y, groups = federation
    X = np.hstack([X, np.random.default_rng(0).normal(size=(90, 1))])
    model = FedDROClassifier(radius=0.1, tol=0.05).fit(X, y, groups)
    importance = permutation_importance(model, X, y, n_repeats=5, random_state=0).importances_mean
    assert importance.argmin() == 3 and importance[:2].min() > 0.05


def test_calibration_gives_probabilities_to_margins(federation, routing):
    X, y, groups = federation
    calibrated = CalibratedClassifierCV(FedDROClassifier(tol=0.05), cv=3).fit(X, y, groups=groups)
    probabilities = calibrated.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert all(len(c.estimator.clients_) == 4 for c in calibrated.calibrated_classifiers_)
    assert calibrated.score(X, y) > 0.6


@pytest.mark.filterwarnings("ignore::skdro.exceptions.SingleClientWarning")
def test_stacking_without_groups(federation):
    X, y, _ = federation
    stack = StackingClassifier(
        [
            ("robust", WassersteinDROClassifier(tol=1e-2)),
            ("one client", FedDROClassifier(tol=0.1)),
            ("bayes", GaussianNB()),
        ],
        LogisticRegression(),
        cv=3,
    )  # fmt: skip
    assert stack.fit(X, y).score(X, y) > 0.6
    assert stack.transform(X).shape == (90, 9)


def test_a_tuned_threshold_moves_the_decision(federation, routing):
    X, y, groups = federation
    rare = (y == 2).astype(int)
    tuned = TunedThresholdClassifierCV(
        FedDROClassifier(tol=0.05), scoring="recall", response_method="decision_function", cv=3
    ).fit(X, rare, groups=groups)
    assert tuned.estimator_.clients_.tolist() == ["a", "b", "c", "d"]
    # for recall alone the threshold goes down until all are called
    assert tuned.best_threshold_ < 0 and tuned.predict(X).sum() > tuned.estimator_.predict(X).sum()


def mixed(federation):
    """A frame with a column of words, and a pipeline that can take it."""
    X, y, groups = federation
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(shift=np.where(X[:, 0] > 0, "day", "night"), site=groups)
    columns = make_column_transformer(
        (StandardScaler(), ["u", "v", "w"]), (OneHotEncoder(sparse_output=False), ["shift"]), remainder="drop"
    )
    return frame, y, groups, Pipeline([("columns", columns), ("model", FedDROClassifier(tol=0.1))])


GRID = {"model__radius": [0.03, 0.1]}


def test_column_transformer_pipelines_under_routing(federation, routing):
    frame, y, groups, pipe = mixed(federation)
    assert clone(pipe).fit(frame, y, groups=groups)["model"].clients_.tolist() == ["a", "b", "c", "d"]
    search = GridSearchCV(pipe, GRID, cv=ClientStratifiedKFold(2), error_score="raise")
    search.fit(frame, y, groups=groups)
    assert search.best_estimator_["model"].clients_.tolist() == ["a", "b", "c", "d"]
    scored = cross_validate(pipe, frame, y, cv=ClientStratifiedKFold(2), params={"groups": groups},
                            return_estimator=True, error_score="raise")  # fmt: skip
    assert all(len(each["model"].clients_) == 4 for each in scored["estimator"])


def test_column_transformer_pipelines_without_routing(federation):
    frame, y, groups, pipe = mixed(federation)
    search = GridSearchCV(pipe, GRID, cv=StratifiedKFold(2), error_score="raise").fit(frame, y, model__groups=groups)
    assert search.best_estimator_["model"].clients_.tolist() == ["a", "b", "c", "d"]
    with_routing = clone(search)
    with sklearn.config_context(enable_metadata_routing=True):
        with_routing.fit(frame, y, groups=groups)
    np.testing.assert_array_equal(with_routing.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])


def test_both_the_transformer_and_the_model_may_ask_for_groups(federation, routing):
    """Routing hands the same groups to two steps that both request them."""
    X, y, groups = federation

    class CentreByClient(StandardScaler):
        def fit(self, X, y=None, sample_weight=None, groups=None):
            self.seen_ = np.unique(groups)
            return super().fit(X, y, sample_weight)

    columns = ColumnTransformer([("scale", CentreByClient().set_fit_request(groups=True), [0, 1, 2])])
    pipe = make_pipeline(columns, FedDROClassifier(tol=0.05)).fit(X, y, groups=groups)
    assert pipe[0].named_transformers_["scale"].seen_.tolist() == pipe[-1].clients_.tolist() == list("abcd")
