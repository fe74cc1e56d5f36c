"""Between sites the estimators give the model that `fit` gives: one code, two ways to run it."""

import subprocess
import sys
import textwrap

import joblib
import numpy as np
import pandas as pd
import pytest

import skdro
from skdro import (
    AFLClassifier,
    AFLRegressor,
    BiDROFLClassifier,
    BiDROFLRegressor,
    DPFedDROClassifier,
    FedDROClassifier,
    FedOvADROClassifier,
)
from skdro.estimators._between_sites import runs_between_sites

pytest.importorskip("flwr")

SEEDED = {"epsilon": 5.0, "delta": 1e-4, "classes": [0, 1, 2], "n_rounds": 6, "random_state": 0}
pytestmark = pytest.mark.filterwarnings(
    "ignore::skdro.exceptions.PrivacyLeakWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
)


def assert_same(between, together):
    for name in ("coef_", "intercept_", "client_coef_", "mixture_weights_", "client_risks_", "certificate_"):
        if hasattr(together, name):
            np.testing.assert_allclose(getattr(between, name), getattr(together, name), rtol=1e-12, atol=1e-12)
    for name, values in together.history_.items():
        if name != "metric":  # against the exact value, which takes the second moments of all records
            np.testing.assert_allclose(between.history_[name], values, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(between.clients_, together.clients_)
    if hasattr(together, "classes_"):
        np.testing.assert_array_equal(between.classes_, together.classes_)
    assert between.n_iter_ == together.n_iter_


@pytest.mark.parametrize(
    "make",
    [
        lambda config: FedDROClassifier(radius=0.05, n_rounds=12),
        lambda config: FedDROClassifier(
            radius={"a": 0.1, "b": 0.0, "c": 0.05, "d": 0.02}, kappa=0.7, norm="l2", client_weights="size", n_rounds=6
        ),
        lambda config: FedDROClassifier(radius=50.0, fit_intercept=True, n_rounds=4),
        lambda config: FedOvADROClassifier(radius=0.05, n_rounds=8, fit_intercept=False),
    ],
    ids=["joint", "by client", "constant", "one-vs-all"],
)
@pytest.mark.filterwarnings("ignore::skdro.exceptions.ConstantModelWarning")
def test_exact_estimators(study, make):
    between = study.run(make)
    together = make({}).fit(study.X, study.y, groups=study.groups)
    assert_same(between, together)
    np.testing.assert_allclose(between.worst_case_risk_, together.worst_case_risk_, rtol=1e-12)


@pytest.mark.parametrize(
    "settings", [{}, {"variant": "paper"}, {"variant": "paper", "kappa": np.inf}, {"norm": "l1"}]
)
def test_private_estimators_on_test_streams(study, settings):
    def make(config):
        return DPFedDROClassifier(**SEEDED, **settings)

    between = study.run(make, seeded=True)
    together = make({}).fit(study.X, study.y, groups=study.groups)
    assert_same(between, together)
    assert between.privacy_ == together.privacy_
    assert not between.privacy_.private


ROUNDS = {"solver": "descent_ascent", "n_rounds": 8}
BY_CLIENT = {"a": 9.0, "b": 12.0, "c": 7.0, "d": 20.0}


@pytest.mark.parametrize(
    "make",
    [
        lambda config: BiDROFLRegressor(radius={"a": 0.1, "b": 0.0, "c": 0.3, "d": 0.2}, **ROUNDS),
        lambda config: BiDROFLRegressor(
            penalty=BY_CLIENT, perturbation=0.0, client_weights="size", mixture_radius=0.3, **ROUNDS
        ),
        lambda config: BiDROFLRegressor(
            penalty=9.0, inner_solver="exact", support=(-20, 20), perturb_labels=False, fit_intercept=False, **ROUNDS
        ),
        lambda config: AFLRegressor(step_size=0.01, average=False, client_weights="size", **ROUNDS),
        lambda config: BiDROFLClassifier(radius=0.05, kappa=0.7, norm="l2", **ROUNDS),
        lambda config: BiDROFLClassifier(loss="softmax", penalty=BY_CLIENT, perturbation=0.0, **ROUNDS),
        lambda config: AFLClassifier(loss="softmax", step_size=0.1, **ROUNDS),
        lambda config: BiDROFLClassifier(radius=50.0, **ROUNDS),
    ],
    ids=["radius", "penalty", "support", "own steps", "margins", "softmax", "agnostic", "constant"],
)
@pytest.mark.filterwarnings("ignore::skdro.exceptions.ConstantModelWarning")
def test_estimators_for_an_unknown_mixture(study, make):
    assert_same(study.run(make), make({}).fit(study.X, study.y, groups=study.groups))


@pytest.mark.parametrize(
    "make",
    [
        lambda config: BiDROFLRegressor(penalty=9.0, batch_size=5, random_state=0, **ROUNDS),
        lambda config: BiDROFLClassifier(loss="softmax", penalty=9.0, batch_size=5, random_state=0, **ROUNDS),
    ],
)
def test_their_samples_on_test_streams(study, make):
    assert_same(study.run(make, seeded=True), make({}).fit(study.X, study.y, groups=study.groups))


@pytest.mark.parametrize(
    "model",
    [
        AFLRegressor(),
        BiDROFLRegressor(solver="conic"),
        AFLClassifier(),
        BiDROFLClassifier(solver="bundle"),
        BiDROFLClassifier(solver="conic"),
    ],
)
def test_a_solver_that_needs_all_records_is_refused_with_the_remedy(study, model):
    message = rf"solver='{model.solver}' needs the records of all clients.*set solver='descent_ascent'"
    with pytest.raises(ValueError, match=message):
        study.run(lambda config: model)


def test_only_moments_of_the_records_cross(study):
    """What the server is told of a site's 9 to 36 rows before the rounds: counts, means, one mean square each."""
    model = AFLRegressor(**ROUNDS)
    facts = model._facts(model._records_of_site(*study.load({"site-name": "a"})))
    assert {name: value.shape for name, value in facts.items()} == {
        "weight": (1,),
        "mean": (1, 3),
        "deviation": (1,),
        "response_mean": (1, 1),
        "response_deviation": (1,),
    }
    own = AFLRegressor(step_size=0.01, **ROUNDS)
    assert list(own._facts(own._records_of_site(*study.load({"site-name": "a"})))) == ["weight"]


PUBLIC = [getattr(skdro, name) for name in skdro.__all__]
BETWEEN_SITES = [cls for cls in PUBLIC if runs_between_sites(cls)]


def test_who_can_run_between_sites_is_known():
    names = {cls.__name__ for cls in BETWEEN_SITES}
    private = {"DPFedDROClassifier", "DPFedERMClassifier", "DPFedSGDClassifier"}
    consensus = {"FedDROClassifier", "FedOvADROClassifier"}
    mixture = {"BiDROFLRegressor", "BiDROFLClassifier", "AFLRegressor", "AFLClassifier"}
    assert names == private | consensus | mixture


def test_others_are_refused_by_name(study):
    with pytest.raises(TypeError, match="DPMomentDROClassifier cannot be fitted between sites"):
        study.run(lambda config: skdro.DPMomentDROClassifier())


@pytest.mark.parametrize("estimator", BETWEEN_SITES, ids=lambda cls: cls.__name__)
def test_every_estimator_that_can_run_between_sites(study, estimator):
    """Whoever supplies the seam is run, with no code of its own here."""

    def make(config):
        model = estimator()
        model.set_params(**{name: value for name, value in SEEDED.items() if name in model.get_params()})
        try:
            model._check_between_sites()
        except ValueError:  # its default solver needs all records
            model.set_params(solver="descent_ascent")
        return model

    between = study.run(make, seeded=True)
    together = make({}).fit(study.X, study.y, groups=study.groups)
    assert_same(between, together)


def test_a_tolerance_ends_the_rounds_in_both(study):
    def make(config):
        return FedDROClassifier(radius=0.05, tol=0.3)

    between = study.run(make)
    assert between.n_iter_ == make({}).fit(study.X, study.y, groups=study.groups).n_iter_ < 100
    assert between.history_["replied"].shape == (between.n_iter_, 4)
    assert between.history_["replied"].all()
    np.testing.assert_array_equal(between.history_["attempt"], np.arange(between.n_iter_))


def test_column_names_and_text_labels_arrive(study):
    labels = np.array(["low", "mid", "high"])

    def load(node_config):
        X, y = study.load(node_config)
        return pd.DataFrame(X, columns=["age", "dose", "weight"]), labels[y]

    fitted = study.run(lambda config: FedDROClassifier(radius=0.05, n_rounds=3), load=load)
    assert fitted.classes_.tolist() == ["high", "low", "mid"]
    assert fitted.feature_names_in_.tolist() == ["age", "dose", "weight"]
    assert set(fitted.predict(load({"site-name": "a"})[0])) <= set(labels)


def test_a_site_without_some_classes_takes_part(study):
    study.y[(study.groups == "d") & (study.y == 2)] = 0
    fitted = study.run(lambda config: FedDROClassifier(radius=0.05, n_rounds=3))
    assert fitted.classes_.tolist() == [0, 1, 2]


def test_the_saved_model_predicts_without_flwr(study, tmp_path):
    fitted = study.run(lambda config: FedDROClassifier(radius=0.05, n_rounds=3))
    joblib.dump(fitted, tmp_path / "model.joblib")
    np.save(tmp_path / "X.npy", study.X)
    code = """
        import sys
        sys.modules["flwr"] = None  # an import of it fails from here on
        import joblib, numpy
        where = sys.argv[1]
        model = joblib.load(f"{where}/model.joblib")
        numpy.save(f"{where}/predicted.npy", model.predict(numpy.load(f"{where}/X.npy")))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "predicted.npy"), fitted.predict(study.X))
