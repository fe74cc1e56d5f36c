"""FedOvADROClassifier against binary robust hinge problems written out here, and what must not matter to it."""

import pickle
import re
import warnings

import cvxpy as cp
import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdro import FedDROClassifier, FedOvADROClassifier
from skdro.exceptions import ConstantModelWarning, SingleClientWarning

DUAL = {"linf": 1, "l2": 2, "l1": np.inf}
CLOSE = {"tol": 1e-4, "n_rounds": 200}
# a model of few rounds may still be undecided about a class
EARLY = pytest.mark.filterwarnings("ignore::skdro.exceptions.ConstantModelWarning")
FITTED = ("coef_", "intercept_", "client_coef_", "worst_case_risk_")


def shares(groups, client, weight):
    rows = np.flatnonzero(np.asarray(groups) == client)
    return rows, weight[rows] / weight[rows].sum()


def hinge_optimum(X, sign, groups, alpha, radius, kappa, norm, weight=None, intercept=True):
    """min over (w, b) of sum_g alpha_g F_g: the robust hinge of labels -1 and 1, one multiplier a client."""
    weight = np.ones(len(X)) if weight is None else weight
    w, b = cp.Variable(X.shape[1]), cp.Variable() if intercept else 0.0
    total, constraints = 0, []
    for g, client in enumerate(sorted(set(groups))):
        rows, share = shares(groups, client, weight)
        lam, loss, margin = (
            cp.Variable(),
            cp.Variable(len(rows), nonneg=True),
            cp.multiply(sign[rows], X[rows] @ w + b),
        )
        constraints += [lam >= cp.norm(w, "inf" if norm == "l1" else DUAL[norm]), loss >= 1 - margin]
        if np.isfinite(kappa[g]):
            constraints.append(loss >= 1 + margin - kappa[g] * lam)
        total += alpha[g] * (radius[g] * lam + share @ loss)
    problem = cp.Problem(cp.Minimize(total), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.value


def hinge_risk(scores, w, sign, groups, alpha, radius, kappa, norm, weight=None):
    """The same objective at given scores, in the user's units: the best multiplier is one of finitely many."""
    weight = np.ones(len(sign)) if weight is None else weight
    phi, total = np.linalg.norm(w, DUAL[norm]), 0.0
    for g, client in enumerate(sorted(set(groups))):
        rows, share = shares(groups, client, weight)
        own, flipped = (np.maximum(0, 1 - d * sign[rows] * scores[rows]) for d in (1, -1))
        kinks = (flipped - own) / kappa[g]
        total += alpha[g] * min(
            radius[g] * lam + share @ np.maximum(own, flipped - kappa[g] * lam if kappa[g] < np.inf else own)
            for lam in [phi, *kinks[kinks > phi]]
        )
    return total


def quiet(model, *args, **kwargs):
    """Fit whose rounds may run out: equality of two runs is what counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", ConstantModelWarning)  # a model of few rounds may still be undecided
        return model.fit(*args, **kwargs)


def two_classes(federation):
    X, y, groups = federation
    keep = y < 2
    return X[keep], np.array(["no", "yes"])[y[keep]], groups[keep]


def assert_equal_fits(one, other):
    for name in FITTED:
        assert np.asarray(getattr(one, name)).tobytes() == np.asarray(getattr(other, name)).tobytes(), name


# ---- the objective


@pytest.mark.parametrize(("norm", "intercept"), [("linf", True), ("l2", True), ("l1", True), ("linf", False)])
def test_each_class_reaches_the_optimum_of_its_own_problem(federation, norm, intercept):
    X, y, groups = federation
    radius, kappa, alpha = [0.05, 0.08, 0.02, 0.1], [5.0, 4.0, 6.0, np.inf], np.array([0.4, 0.3, 0.2, 0.1])
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    model = FedOvADROClassifier(radius, kappa, norm, client_weights=5 * alpha, fit_intercept=intercept, **CLOSE)
    quiet(model, X, y, groups, sample_weight=weight)
    scores = model.decision_function(X)
    for k in range(3):
        sign = np.where(y == k, 1.0, -1.0)
        optimum = hinge_optimum(X, sign, groups, alpha, radius, kappa, norm, weight, intercept)
        risk = hinge_risk(scores[:, k], model.coef_[k], sign, groups, alpha, radius, kappa, norm, weight)
        assert -1e-7 <= model.worst_case_risk_[k] / optimum - 1 <= 1e-4
        assert model.worst_case_risk_[k] == pytest.approx(risk, rel=1e-9)


def test_default_stops_within_a_thousandth_of_the_optimum(federation):
    X, y, groups = federation
    model = FedOvADROClassifier().fit(X, y, groups)
    for k in range(3):
        sign = np.where(y == k, 1.0, -1.0)
        optimum = hinge_optimum(X, sign, groups, [0.25] * 4, [0.01] * 4, [1.0] * 4, "linf")
        assert -1e-7 <= model.worst_case_risk_[k] / optimum - 1 <= 1e-3


def test_wrong_radius_would_be_noticed(federation):
    X, y, groups = federation
    sign = np.where(y == 0, 1.0, -1.0)
    args = (X, sign, groups, [0.25] * 4)
    optimum = hinge_optimum(*args, [0.05] * 4, [1.0] * 4, "l2")
    assert abs(hinge_optimum(*args, [0.055] * 4, [1.0] * 4, "l2") / optimum - 1) > 1e-3
    assert abs(hinge_optimum(*args, [0.05] * 4, [np.inf] * 4, "l2") / optimum - 1) > 1e-3


# ---- two classes, prediction, shapes


@pytest.mark.parametrize("norm", sorted(DUAL))
def test_two_classes_equal_the_multiclass_model_bit_for_bit(federation, norm):
    X, y, groups = two_classes(federation)
    radius, kappa = {"a": 0.1, "b": 0.02, "c": 0.05, "d": 0.0}, {"a": 1.0, "b": np.inf, "c": 0.5, "d": 2.0}
    one = FedDROClassifier(radius, kappa, norm).fit(X, y, groups)
    other = FedOvADROClassifier(radius, kappa, norm).fit(X, y, groups)
    assert_equal_fits(one, other)
    assert other.coef_.shape == (1, 3)
    assert other.intercept_.shape == other.worst_case_risk_.shape == (1,)
    assert other.client_coef_.shape == (4, 1, 3)
    assert other.n_iter_ == one.n_iter_
    for name in ("objective", "primal_residual", "dual_residual"):
        assert np.array_equal(other.history_[name], one.history_[name]), name
    assert set(other.history_["n_running"]) == {1}
    scores = other.decision_function(X)
    assert scores.shape == (len(y),)
    assert np.array_equal(other.predict(X), np.where(scores > 0, "yes", "no"))


def test_largest_score_is_predicted(federation):
    X, y, groups = federation
    names = np.array(["walk", "run", "sit"])
    model = FedOvADROClassifier(0.02, 2.0).fit(X, names[y], groups)
    scores = model.decision_function(X)
    assert scores.shape == (90, 3)
    assert model.coef_.shape == (3, 3)
    assert model.intercept_.shape == model.worst_case_risk_.shape == (3,)
    assert model.client_coef_.shape == (4, 3, 3)
    np.testing.assert_allclose(scores, X @ model.coef_.T + model.intercept_, rtol=1e-12)
    assert model.classes_.tolist() == ["run", "sit", "walk"]
    assert np.array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    assert model.score(X, names[y]) > 0.75
    assert not hasattr(model, "predict_proba")


def test_client_models_agree_with_the_consensus(federation):
    X, y, groups = federation
    model = FedOvADROClassifier(0.05, 5.0).fit(X, y, groups)
    spread = np.sqrt(((model.client_coef_ - model.coef_) ** 2).sum(axis=2))
    assert np.all(spread <= 2e-2 * np.linalg.norm(model.coef_, axis=1))
    early = quiet(FedOvADROClassifier(0.05, 5.0, n_rounds=2), X, y, groups)
    assert np.abs(early.client_coef_ - early.coef_).max() > 1e-2


# ---- history and warnings


def test_history(federation):
    X, y, groups = federation
    model = FedOvADROClassifier(0.05, 2.0, rho=0.1, tol=1e-2).fit(X, y, groups)
    history = model.history_
    assert set(history) == {"objective", "primal_residual", "dual_residual", "n_running"}
    assert {column.shape for column in history.values()} == {(model.n_iter_,)}
    assert history["n_running"][0] == 3
    assert 1 <= history["n_running"][-1] < 3  # not all take equally long
    assert np.all(np.diff(history["n_running"]) <= 0)
    assert history["objective"].min() >= model.worst_case_risk_.sum() - 1e-12
    # the entry of a round is the risk of the models after that round, also where a class has finished
    finished = int(np.flatnonzero(history["n_running"] < 3)[0])
    for rounds in (1, 7, finished + 2):
        shorter = quiet(FedOvADROClassifier(0.05, 2.0, n_rounds=rounds, rho=0.1, tol=1e-2), X, y, groups)
        assert shorter.history_["objective"] == pytest.approx(history["objective"][:rounds], rel=1e-12)


def test_classes_that_ran_out_of_rounds_are_named(federation):
    X, y, groups = federation
    settings = {"radius": 0.05, "kappa": 2.0, "rho": 0.1, "tol": 1e-2}
    rounds = [FedDROClassifier(**settings).fit(X, y == k, groups).n_iter_ for k in range(3)]
    limit = max(rounds) - 1  # not enough for the slowest class
    slow = [label for label, own in zip("xyz", rounds, strict=True) if own > limit]
    assert len(slow) < 3
    model = FedOvADROClassifier(n_rounds=limit, **settings)
    with pytest.warns(ConvergenceWarning, match=rf"n_rounds={limit}.*class\(es\) {re.escape(str(slow))} met"):
        model.fit(X, np.array(["x", "y", "z"])[y], groups)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        FedOvADROClassifier(n_rounds=10, tol=0).fit(X, y, groups)  # all rounds were asked for


def test_huge_radius_says_no_of_every_class_and_names_them(federation):
    X, y, groups = federation
    with pytest.warns(ConstantModelWarning, match=r"\[0, 1, 2\].*radius is too large"):
        model = FedOvADROClassifier(1e3).fit(X, y, groups)
    assert len(set(model.predict(X * 1000))) == 1
    # a constant "no" costs two for the class's own records and for as many flips as the radius buys: undecided at 1
    assert np.all(model.worst_case_risk_ <= 1 + 2e-3)


def test_only_the_class_that_no_plane_parts_from_the_rest_is_named():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [60, 30, 60])
    X = np.c_[3.0 * (y - 1) + 0.3 * rng.normal(size=150), rng.normal(size=150)]
    groups = np.arange(150) % 2
    with pytest.warns(ConstantModelWarning, match=r"class\(es\) \[1\] gives"):
        model = FedOvADROClassifier(0.05).fit(X, y, groups)
    # its share .2 is what "no" to all costs, twice, and the adversary flips radius / kappa of the rest
    assert model.worst_case_risk_[1] == pytest.approx(2 * (0.2 + 0.05), rel=1e-9)
    assert np.all(model.coef_[1] == 0)
    assert model.intercept_[1] == pytest.approx(-1.0)
    assert np.all(model.decision_function(X)[:, 1] == model.intercept_[1])


def test_useful_radius_does_not_warn(federation):
    X, y, groups = federation
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FedOvADROClassifier(0.01, 1.0).fit(X, y, groups)
    assert model.score(X, y) > 0.6


# ---- what must not matter


def test_order_of_rows_does_not_matter_bit_for_bit(federation):
    X, y, groups = federation
    model = FedOvADROClassifier(0.05, 2.0, n_rounds=20)
    first = quiet(clone(model), X, y, groups)
    order = np.random.default_rng(1).permutation(len(y))
    assert_equal_fits(first, quiet(clone(model), X[order], y[order], groups[order]))


def test_names_and_order_of_clients_do_not_matter(federation):
    X, y, groups = federation
    first = quiet(FedOvADROClassifier({"a": 0.1, "b": 0.02, "c": 0.05, "d": 0.0}, 2.0, n_rounds=20), X, y, groups)
    renamed = np.array([{"a": -3.5, "b": 0.0, "c": 2.0, "d": 10.0}[label] for label in groups])
    assert_equal_fits(first, quiet(FedOvADROClassifier([0.1, 0.02, 0.05, 0.0], 2.0, n_rounds=20), X, y, renamed))
    other = np.array([{"a": "z", "b": "m", "c": "x", "d": "c"}[label] for label in groups])
    second = quiet(FedOvADROClassifier({"z": 0.1, "m": 0.02, "x": 0.05, "c": 0.0}, 2.0, n_rounds=20), X, y, other)
    np.testing.assert_allclose(second.coef_, first.coef_, atol=1e-6)
    np.testing.assert_allclose(second.client_coef_, first.client_coef_[[3, 1, 2, 0]], atol=1e-6)


def test_weights_equal_repetition(federation):
    X, y, groups = federation
    times = np.random.default_rng(2).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), times)
    model = FedOvADROClassifier(0.05, 2.0, client_weights="size", n_rounds=20)
    weighted = quiet(clone(model), X, y, groups, sample_weight=times)
    assert_equal_fits(weighted, quiet(clone(model), X[rows], y[rows], groups[rows]))
    assert not np.allclose(weighted.coef_, quiet(clone(model), X, y, groups).coef_, atol=1e-3)


def test_without_groups_all_rows_are_one_client(federation):
    X, y, _ = federation
    with pytest.warns(SingleClientWarning, match="FedOvADROClassifier"):
        alone = FedOvADROClassifier(0.05).fit(X, y)
    assert_equal_fits(alone, FedOvADROClassifier(0.05).fit(X, y, np.full(len(y), "x")))


BACKENDS = [
    pytest.param({}, 2, id="two workers"),
    pytest.param({"backend": "threading"}, 3, id="threads"),
    pytest.param({"backend": "loky"}, 2, id="processes"),
]


@pytest.mark.parametrize(("config", "n_jobs"), BACKENDS)
def test_model_does_not_depend_on_workers_bit_for_bit(federation, config, n_jobs):
    reference = quiet(FedOvADROClassifier(0.05, 2.0, n_rounds=25), *federation)
    with joblib.parallel_config(**config):
        model = quiet(FedOvADROClassifier(0.05, 2.0, n_rounds=25, n_jobs=n_jobs), *federation)
    assert_equal_fits(reference, model)
    for name, column in reference.history_.items():
        assert model.history_[name].tobytes() == column.tobytes(), name


def test_inputs_are_not_modified_and_refit_forgets(federation):
    X, y, groups = federation
    before = [a.copy() for a in (X, y, groups)]
    model = FedOvADROClassifier(0.02, 2.0, tol=1e-2).fit(X, y, groups)
    for old, new in zip(before, (X, y, groups), strict=True):
        assert np.array_equal(old, new)
    model.fit(*two_classes(federation))
    assert_equal_fits(model, FedOvADROClassifier(0.02, 2.0, tol=1e-2).fit(*two_classes(federation)))
    again = pickle.loads(pickle.dumps(model))
    assert_equal_fits(model, again)


def test_a_client_may_lack_classes_or_have_one_row(federation):
    X, y, groups = federation
    groups = np.where(y == 2, "z", groups)  # only z knows class 2, and no other
    groups[np.flatnonzero(y == 1)[0]] = "y"  # one row
    model = quiet(FedOvADROClassifier(0.05, np.inf, n_rounds=150), X, y, groups)
    assert model.clients_.tolist() == sorted(set(groups))
    assert model.score(X, y) > 0.75
    for k in range(3):
        sign = np.where(y == k, 1.0, -1.0)
        n = len(model.clients_)
        optimum = hinge_optimum(X, sign, groups, [1 / n] * n, [0.05] * n, [np.inf] * n, "linf")
        assert -1e-7 <= model.worst_case_risk_[k] / optimum - 1 <= 2e-3


def test_conic_solver_agrees(federation):
    X, y, groups = federation
    with_bundle = quiet(FedOvADROClassifier(0.05, 2.0, n_rounds=5), X, y, groups)
    with_conic = quiet(FedOvADROClassifier(0.05, 2.0, n_rounds=5, solver="conic"), X, y, groups)
    np.testing.assert_allclose(with_conic.coef_, with_bundle.coef_, atol=2e-3)


# ---- scikit-learn around it


class Recording:
    """Notes the tasks and the models in between; stops at the end of round `stop_at` (counted from 1)."""

    def __init__(self, stop_at=None):
        self.stop_at, self.begun, self.ended, self.fitted = stop_at, [], [], []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.begun += [context.task_id] if context.task_name == "round" else []

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        if context.task_name != "round":
            return False
        self.ended.append(context.task_id)
        self.fitted.append(fitted_estimator)
        return context.task_id + 1 == self.stop_at


@EARLY
def test_callbacks_see_one_task_a_round(federation):
    X, y, groups = federation
    recording = Recording()
    model = FedOvADROClassifier(0.05, 2.0, n_rounds=6, tol=0).set_callbacks(recording).fit(X, y, groups)
    assert recording.begun == recording.ended == list(range(6))
    for between, objective in zip(recording.fitted, model.history_["objective"], strict=True):
        scores, signs = between.decision_function(X), np.where(y == np.arange(3)[:, None], 1.0, -1.0)
        args = (groups, [0.25] * 4, [0.05] * 4, [2.0] * 4, "linf")
        risks = [hinge_risk(scores[:, k], between.coef_[k], signs[k], *args) for k in range(3)]
        assert sum(risks) == pytest.approx(objective, rel=1e-9)
    assert_equal_fits(model, FedOvADROClassifier(0.05, 2.0, n_rounds=6, tol=0).fit(X, y, groups))


@EARLY
def test_stop_is_honoured_and_no_warning_follows(federation):
    recording = Recording(stop_at=3)
    model = FedOvADROClassifier(0.05, 2.0, n_rounds=50).set_callbacks(recording).fit(*federation)
    assert model.n_iter_ == 3
    assert recording.ended == [0, 1, 2]
    assert {len(column) for column in model.history_.values()} == {3}


@EARLY
def test_scoring_monitor_scores_each_round(federation):
    X, y, groups = federation
    monitor, recording = ScoringMonitor(scoring="accuracy"), Recording()
    FedOvADROClassifier(0.05, 2.0, n_rounds=4, tol=0).set_callbacks(monitor, recording).fit(X, y, groups)
    rounds = [row for row in monitor.get_logs().data if row["task_name"] == "round"]
    assert [row["accuracy"] for row in rounds] == [model.score(X, y) for model in recording.fitted]


@EARLY
def test_groups_reach_the_clients_through_a_search(federation):
    X, y, groups = federation
    pipe = make_pipeline(StandardScaler(), FedOvADROClassifier(n_rounds=3, tol=0))
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(pipe, {"fedovadroclassifier__radius": [0.01, 0.1]}, cv=2, error_score="raise")
        search.fit(X, y, groups=groups)
    assert search.best_estimator_[-1].clients_.tolist() == ["a", "b", "c", "d"]


def test_column_names(federation):
    X, y, groups = federation
    model = FedOvADROClassifier(tol=1e-2).fit(pd.DataFrame(X, columns=["u", "v", "w"]), y, groups)
    assert model.feature_names_in_.tolist() == ["u", "v", "w"]
    assert model.n_features_in_ == 3


# ---- bad input


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("radius", -0.1),
        ("radius", [0.1, 0.1]),
        ("kappa", 0),
        ("kappa", {"a": 1.0}),
        ("client_weights", [0, 0, 0, 0]),
        ("norm", "l3"),
        ("solver", "simplex"),
        ("rho", 0.0),
        ("tol", -1e-3),
        ("n_rounds", 0),
        ("fit_intercept", "yes"),
        ("n_jobs", "all"),
    ],
)
def test_bad_parameter_is_named(federation, name, value):
    model = FedOvADROClassifier(**{name: value})
    with pytest.raises(ValueError, match=name):
        model.fit(*federation)


def test_bad_data_are_named(federation):
    X, y, groups = federation
    model = FedOvADROClassifier()
    with pytest.raises(ValueError, match="groups"):
        model.fit(X, y, groups[:-1])
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y, groups, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="two classes in y"):
        model.fit(X, np.zeros(len(y)), groups)
    with pytest.raises(ValueError, match="continuous"):
        model.fit(X, X[:, 0], groups)
    with pytest.raises(TypeError, match="Sparse data"):
        model.fit(sparse.csr_array(X), y, groups)
