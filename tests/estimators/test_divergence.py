"""The divergence classifiers: exact fits against independent models, and what separates them from private ones."""

import pickle
import re
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skdro import DROSpiderClassifier, KLDROSpiderClassifier
from skdro.exceptions import NoiseFeedbackWarning, PrivacyLeakWarning

seeded = pytest.mark.filterwarnings("ignore:random_state is set:skdro.exceptions.PrivacyLeakWarning")
feedback = pytest.mark.filterwarnings("ignore::skdro.exceptions.NoiseFeedbackWarning")
BOX = ([4, 2, 1, 0], [8, 4.5, 7, 2.5])
PRIVATE = {"epsilon": 2.0, "delta": 1e-4, "n_rounds": 6, "feature_bounds": BOX}
CLASSES = [DROSpiderClassifier, KLDROSpiderClassifier]
SOLVERS = [
    *((DROSpiderClassifier, s) for s in ("dpgd", "dpsgda", "storm", "double_spider", "privatediff", "erm")),
    *((KLDROSpiderClassifier, s) for s in ("dpgd", "recursive_spider")),
]
needs_extra = pytest.mark.skipif(find_spec("dp_accounting") is None, reason="needs the extra subsampling")
each_solver = pytest.mark.parametrize(("cls", "solver"), SOLVERS, ids=lambda value: getattr(value, "__name__", value))


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_huge_penalty_is_logistic_regression(iris, n_classes, fit_intercept):
    X, y = iris[0][iris[1] < n_classes], iris[1][iris[1] < n_classes]
    reg = 1e-2
    model = DROSpiderClassifier(penalty=1e9, reg=reg, fit_intercept=fit_intercept, tol=1e-8).fit(X, y)
    plain = LogisticRegression(C=1 / (reg * len(y)), fit_intercept=fit_intercept, tol=1e-10, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=2e-5)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=2e-4)


@pytest.mark.parametrize("cls", CLASSES)
def test_neither_shift_nor_scale_of_the_features_moves_the_probabilities(iris, cls):
    X, y = iris
    plain = cls(reg=1e-2, tol=1e-8).fit(X, y)
    moved = cls(reg=1e-2 * 100.0**2, tol=1e-8).fit(50.0 + 100.0 * X, y)
    np.testing.assert_allclose(moved.predict_proba(50.0 + 100.0 * X), plain.predict_proba(X), atol=1e-5)
    assert moved.worst_case_risk_ == pytest.approx(plain.worst_case_risk_, rel=1e-6)


@pytest.mark.parametrize("divergence", ["chi2", "kl", "kl_cvar", "cressie_read", "tv"])
def test_weights_rise_with_the_losses_and_carry_the_risk(iris, divergence):
    X, y = iris
    model = DROSpiderClassifier(divergence=divergence, penalty=0.1, reg=1e-2, max_weight=4.0).fit(X, y)
    losses = -model.predict_log_proba(X)[np.arange(len(y)), y]
    weight = model.sample_weights_
    assert weight.mean() == pytest.approx(1.0, abs=1e-8)
    assert weight.min() >= 0 and weight.max() <= 4.0 + 1e-6
    order = np.argsort(losses)
    assert (np.diff(weight[order]) >= -1e-3 * weight.max()).all()
    assert losses.mean() < model.worst_case_risk_ <= (weight * losses).mean() + 1e-9
    assert model.dual_gap_ <= 1e-4 * model.worst_case_risk_


def test_kl_radius_is_the_divergence_of_the_weights(iris):
    X, y = iris
    model = KLDROSpiderClassifier(radius=0.2, min_temperature=1e-3, max_weight=100.0, reg=1e-2).fit(X, y)
    w = model.sample_weights_
    assert (w * np.log(w)).mean() == pytest.approx(0.2, rel=1e-6)
    assert model.temperature_ > 1e-3


@pytest.mark.parametrize("cls", CLASSES)
def test_groups_do_not_change_an_exact_fit(iris, cls):
    X, y = iris
    model = cls(reg=1e-2)
    np.testing.assert_array_equal(
        clone(model).fit(X, y).coef_, clone(model).fit(X, y, groups=np.arange(len(y)) % 4).coef_
    )


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("hidden", [(), (3,)])
def test_probabilities_scores_and_labels_agree(iris, cls, hidden):
    for n_classes in (2, 3):
        X, y = iris[0][iris[1] < n_classes], iris[1][iris[1] < n_classes]
        model = cls(reg=1e-2, hidden_layer_sizes=hidden).fit(X, y)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        np.testing.assert_allclose(np.log(p), model.predict_log_proba(X), atol=1e-9)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
        if not hidden:
            scores = X @ model.coef_.T + model.intercept_
            scores = scores.ravel() if n_classes == 2 else scores
            np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-9)
        assert hasattr(model, "coef_") == (not hidden)


def test_too_few_iterations_say_how_far_the_fit_is(iris):
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        DROSpiderClassifier(max_iter=2).fit(*iris)


@each_solver
@seeded
@feedback
def test_trusted_federated_fits_are_the_pooled_fit(iris, cls, solver):
    X, y = iris
    model = cls(solver=solver, aggregation="trusted", classes=[0, 1, 2], random_state=0, **PRIVATE)
    pooled = clone(model).fit(X, y)
    federated = clone(model).fit(X, y, groups=np.array(["b", "a", "c"])[np.arange(len(y)) % 3])
    np.testing.assert_allclose(federated.coef_, pooled.coef_, rtol=1e-9, atol=1e-10)
    renamed = clone(model).fit(X, y, groups=np.array([2, 0, 1])[np.arange(len(y)) % 3])
    np.testing.assert_allclose(renamed.coef_, pooled.coef_, rtol=1e-9, atol=1e-10)


@each_solver
@pytest.mark.parametrize("aggregation", ["local", "trusted"])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@feedback
def test_the_budget_is_kept_and_follows_from_the_pickled_events(iris, cls, solver, aggregation, adjacency):
    X, y = iris
    model = cls(solver=solver, aggregation=aggregation, adjacency=adjacency, classes=[0, 1, 2], **PRIVATE)
    groups = np.arange(len(y)) % 4
    plan = model.privacy_plan(X, groups)
    fitted = pickle.loads(pickle.dumps(model.fit(X, y, groups=groups)))
    assert fitted.privacy_ == plan
    assert fitted.privacy_.private
    assert fitted.privacy_.rederive_epsilon() <= 2.0
    assert fitted.privacy_.rederive_epsilon() == pytest.approx(2.0, rel=1e-6)
    assert len(fitted.history_["model_norm"]) == fitted.n_iter_ == 6


def arrays_in(value, seen):
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from arrays_in(entry, seen)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from arrays_in(entry, seen)
    elif hasattr(value, "__dict__"):
        yield from arrays_in(vars(value), seen)


@each_solver
@feedback
def test_a_private_fit_keeps_no_record_and_forgets_the_exact_one(iris, cls, solver):
    X, y = iris
    model = cls().fit(X, y)
    assert len(model.sample_weights_) == len(y) and not hasattr(model, "privacy_")
    model.set_params(solver=solver, classes=[0, 1, 2], **PRIVATE).fit(X, y)
    for name in ("sample_weights_", "worst_case_risk_", "dual_gap_", "gradient_norm_", "shift_", "temperature_"):
        assert not hasattr(model, name)
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_") or name.startswith("_")}
    assert all(len(y) not in array.shape for array in arrays_in(fitted, set()))
    model.set_params(solver="auto", epsilon=None).fit(X, y)
    assert not hasattr(model, "privacy_") and not hasattr(model, "history_")


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (DROSpiderClassifier(solver="dpgd"), "epsilon=None"),
        (DROSpiderClassifier(epsilon=1.0, solver="exact"), "exact"),
        (DROSpiderClassifier(epsilon=1.0, divergence="tv"), "epsilon=None"),
        (DROSpiderClassifier(epsilon=1.0, divergence="cressie_read", order=3.0), "order"),
        (DROSpiderClassifier(divergence="tv", hidden_layer_sizes=(3,)), "hidden_layer_sizes"),
        (DROSpiderClassifier(hidden_layer_sizes=(3, 3)), "hidden_layer_sizes"),
        (DROSpiderClassifier(hidden_layer_sizes=(0,)), "hidden_layer_sizes"),
        (DROSpiderClassifier(max_weight=1.0), "max_weight"),
        (DROSpiderClassifier(epsilon=1.0, step_size="long"), "step_size"),
        (DROSpiderClassifier(epsilon=1.0, step_size=0.0), "step_size"),
        (DROSpiderClassifier(epsilon=-1.0), "epsilon"),
        (KLDROSpiderClassifier(epsilon=1.0, min_temperature=0.01), "min_temperature"),
        (KLDROSpiderClassifier(epsilon=1.0, temperature_start=20.0), "temperature_start"),
        (KLDROSpiderClassifier(epsilon=1.0, solver="scdro"), "scdro.*epsilon=None"),
        (KLDROSpiderClassifier(solver="scdro", sampling_rate=(0.5, 0.1)), "scdro.*sampling_rate"),
        (KLDROSpiderClassifier(solver="scdro", mixing=0.0), "mixing"),
        (DROSpiderClassifier(epsilon=1.0, sampling_rate=0.0), "sampling_rate"),
        (DROSpiderClassifier(epsilon=1.0, sampling_rate=1.5), "sampling_rate"),
        (DROSpiderClassifier(epsilon=1.0, sampling_rate=np.nan), "sampling_rate"),
        (DROSpiderClassifier(epsilon=1.0, solver="storm", sampling_rate=(0.5,)), "sampling_rate"),
        (DROSpiderClassifier(epsilon=1.0, solver="storm", sampling_rate=(0.5, "all")), "sampling_rate"),
        (DROSpiderClassifier(epsilon=1.0, solver="storm", sampling_rate=(0.5, 0.0)), "sampling_rate"),
        (DROSpiderClassifier(epsilon=1.0, solver="dpsgda", sampling_rate=(1.0, 0.5)), "dpsgda.*single"),
        (DROSpiderClassifier(epsilon=1.0, solver="privatediff", sampling_rate=(1.0, 0.5)), "privatediff.*single"),
        (DROSpiderClassifier(epsilon=1.0, sampling_rate=0.5, accountant="gdp"), "accountant"),
        (DROSpiderClassifier(epsilon=1.0, accountant="pld"), "accountant"),
        (KLDROSpiderClassifier(epsilon=1.0, sampling_rate=(1.0, 0.5)), "single"),
    ],
)
def test_bad_parameters_are_named(iris, model, named):
    with pytest.raises(ValueError, match=named):
        model.fit(*iris)


def test_classes_read_from_labels_warn(iris):
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        DROSpiderClassifier(**PRIVATE).fit(*iris)


@pytest.mark.parametrize("cls", CLASSES)
def test_extreme_penalties_and_records_stay_finite(iris, cls):
    X, y = iris
    X = X.copy()
    X[0] *= 1e3
    extreme = {"penalty": 1e-8} if cls is DROSpiderClassifier else {"radius": 50.0}
    assert np.isfinite(cls(reg=1e-2, tol=1e-3, **extreme).fit(X, y).coef_).all()
    model = cls(classes=[0, 1, 2], **{**PRIVATE, "epsilon": 1e4}, **extreme).fit(X, y)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.history_["model_norm"]).all()


@each_solver
@seeded
@feedback
@pytest.mark.parametrize("hidden_layer_sizes", [(), (3,)])
def test_automatic_steps_are_those_of_the_public_noise(iris, cls, solver, hidden_layer_sizes):
    """The step by hand from the released events gives the same model, whatever the records are."""
    rng = np.random.default_rng(0)
    model = cls(solver=solver, classes=[0, 1, 2], hidden_layer_sizes=hidden_layer_sizes, random_state=0, **PRIVATE)
    for X, y in (iris, (4.0 + rng.random((150, 4)), rng.integers(0, 3, 150))):
        auto = clone(model).fit(X, y)
        (sigma,) = (event.sigma for event in auto.privacy_.events if event.name == "gradient")
        n_parameters = 15 if not hidden_layer_sizes else 3 * 5 + 3 * 4
        way = model._ways[solver][len(hidden_layer_sizes)]
        noise = sigma * np.sqrt(n_parameters / 6) / (model.clip_norm * way.knee)
        step = way.length / (6 * model.clip_norm) / np.sqrt(1 + noise**2)
        numeric = clone(model).set_params(step_size=step).fit(X, y)
        np.testing.assert_allclose(auto.predict_proba(X), numeric.predict_proba(X), rtol=1e-7, atol=1e-12)
        assert not np.allclose(
            auto.predict_proba(X), clone(numeric).set_params(step_size=step / 2).fit(X, y).predict_proba(X)
        )


def test_noise_that_feeds_back_is_named_with_its_cure(iris):
    with pytest.warns(NoiseFeedbackWarning, match="n_rounds"):
        DROSpiderClassifier(
            solver="double_spider", epsilon=2.0, delta=1e-4, classes=[0, 1, 2], step_size=3.0, n_rounds=50
        ).fit(*iris)


@pytest.mark.parametrize(
    ("cls", "solver"), [(DROSpiderClassifier, "double_spider"), (DROSpiderClassifier, "privatediff")]
)
def test_the_cure_of_feedback_holds_for_automatic_steps(iris, cls, solver):
    """Fewer iterations alone would not do: each automatic step would be longer."""
    model = cls(solver=solver, epsilon=30.0, delta=1e-4, classes=[0, 1, 2], n_rounds=60, data_norm=8.0)
    with pytest.warns(NoiseFeedbackWarning) as caught:
        model.fit(*iris)
    message = next(str(w.message) for w in caught if w.category is NoiseFeedbackWarning)
    n_rounds, step = re.search(r"n_rounds=(\d+) with step_size=([\d.e-]+) ", message).groups()
    clone(model).set_params(n_rounds=int(n_rounds), step_size=float(step)).fit(*iris)  # a warning would be an error
    with pytest.warns(NoiseFeedbackWarning):
        clone(model).set_params(n_rounds=int(n_rounds)).fit(*iris)


@each_solver
@needs_extra
@feedback
def test_sampled_fits_keep_the_budget_by_their_pickled_events(iris, cls, solver):
    X, y = iris
    pair = solver in ("storm", "double_spider", "recursive_spider")
    rate, adjacency = ((1.0, 0.25), "zero_out") if pair else (0.25, "replace_one")
    model = cls(solver=solver, sampling_rate=rate, adjacency=adjacency, classes=[0, 1, 2], **PRIVATE)
    groups = np.arange(len(y)) % 3
    plan = model.privacy_plan(X, groups)
    fitted = pickle.loads(pickle.dumps(model.fit(X, y, groups=groups)))
    report = fitted.privacy_
    assert report == plan and report.private and report.mu is None and report.accountant == "pld"
    assert 0.999 * 2.0 < report.epsilon <= 2.0 and report.rederive_epsilon() == report.epsilon
    assert "sampling rate" in report.public and "0.25" in repr(report)
    assert {event.q for event in report.events} == ({1.0, 0.25} if pair else {0.25})
    for event in report.events:  # all releases of an iteration on one batch
        assert event.batch in ("afresh", "changes") and event.count % event.n_batches == 0
    assert sum({event.batch: event.n_batches for event in report.events}.values()) == 6
    assert all(len(y) not in array.shape for array in arrays_in(vars(fitted), set()))


@needs_extra
@seeded
@feedback
def test_sampled_pair_of_equal_rates_is_the_single_rate(iris):
    X, y = iris
    model = DROSpiderClassifier(
        solver="double_spider", step_size=0.05, classes=[0, 1, 2], random_state=0, **{**PRIVATE, "epsilon": 8.0}
    )
    single, pair, full = (
        clone(model).set_params(sampling_rate=rate).fit(X, y).coef_ for rate in (0.5, (0.5, 0.5), (1.0, 1.0))
    )
    np.testing.assert_array_equal(single, pair)
    np.testing.assert_array_equal(full, clone(model).fit(X, y).coef_)  # for which no extra is asked
    assert not np.allclose(single, full)


@pytest.mark.parametrize("cls", CLASSES)
def test_without_the_extra_sampling_names_the_remedy(iris, cls, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"skdro\[subsampling\]"):
        cls(sampling_rate=0.5, classes=[0, 1, 2], **PRIVATE).fit(*iris)


@pytest.fixture(scope="module")
def imbalanced():
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.2).astype(int)
    return rng.normal(size=(300, 3)) * [1.0, 10.0, 0.1] + 0.7 * y[:, None] * [1.0, 10.0, 0.1], y


@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scdro_comes_near_the_exact_solution(imbalanced, rate):
    X, y = imbalanced
    model = KLDROSpiderClassifier(radius=0.1, reg=1e-2, max_weight=1e4, tol=1e-8)
    exact = clone(model).fit(X, y)
    options = {"temperature_step_size": 0.01, "mixing": 0.1, "max_iter": 2000}
    scdro = clone(model).set_params(solver="scdro", sampling_rate=rate, random_state=0, **options).fit(X, y)

    def objective(fitted):
        return fitted.worst_case_risk_ + 0.5 * 1e-2 * (fitted.coef_**2).sum()

    gap = objective(scdro) - objective(exact)
    assert -1e-9 < gap < (1e-6 if rate == 1.0 else 5e-3) * objective(exact)
    assert gap <= scdro.dual_gap_ + 1e-9  # the certificate holds for whoever found the model
    assert scdro.sample_weights_.mean() == pytest.approx(1.0, abs=1e-8)
    assert scdro.n_iter_ == 2000 and not hasattr(scdro, "privacy_")
    if rate < 1:
        again = clone(scdro).fit(X, y)
        np.testing.assert_array_equal(again.coef_, scdro.coef_)
        assert not np.array_equal(clone(scdro).set_params(random_state=1).fit(X, y).coef_, scdro.coef_)


def test_scdro_that_stays_far_says_so(imbalanced):
    with pytest.warns(ConvergenceWarning, match="exact"):
        KLDROSpiderClassifier(solver="scdro", max_iter=3, random_state=0).fit(*imbalanced)


@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
def test_figures_of_an_exact_fit_do_not_outlive_a_private_one(federation):
    X, y, groups = federation
    model = DROSpiderClassifier(reg=1e-2).fit(X, y, groups=groups)
    assert model.sample_weights_.shape == (len(X),)
    model.set_params(epsilon=1.0, classes=np.unique(y), random_state=0, n_rounds=2)
    model.fit_with_null_records(X, y, np.zeros(len(X), dtype=bool), groups=groups)
    assert not {"sample_weights_", "worst_case_risk_", "dual_gap_", "shift_"} & set(vars(model))


def test_a_plan_of_a_solver_that_is_not_private_is_refused_by_name(federation):
    X, y, groups = federation
    model = DROSpiderClassifier(epsilon=1.0, solver="exact", classes=np.unique(y))
    for call in (
        lambda: model.privacy_plan(X, groups=groups),
        lambda: model.fit_with_null_records(X, y, np.zeros(len(X), dtype=bool), groups=groups),
    ):
        with pytest.raises(ValueError, match=r'solver="exact" is not private; use epsilon=None'):
            call()
