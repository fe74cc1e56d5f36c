"""The private federated classifiers: what they promise, what they refuse, and that nothing else gets out."""

import json
import pickle
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.callback import ScoringMonitor
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline

import skdro
from skdro import DPFedDROClassifier, DPFedERMClassifier, DPFedSGDClassifier
from skdro.estimators import _private_designs
from skdro.exceptions import PrivacyLeakWarning, SingleClientWarning
from skdro.federation import doors
from skdro.federation.steps.gradient import GradientDescent
from skdro.preprocessing import RowNormClipper
from skdro.privacy.accounting import ACCOUNTANTS
from skdro.privacy.mechanism import release
from skdro.privacy.plan import PlannedRelease

seeded = pytest.mark.filterwarnings("ignore:random_state is set:skdro.exceptions.PrivacyLeakWarning")
leaky = pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
ROBUST = {
    "local": {},
    "trusted": {"aggregation": "trusted"},
    "paper": {"variant": "paper", "c_model": 2.0},
    "paper, trusted labels": {"variant": "paper", "c_model": 2.0, "kappa": np.inf},
}
BASELINES = {
    "ERM": (DPFedERMClassifier, {}),
    "ERM, trusted": (DPFedERMClassifier, {"aggregation": "trusted"}),
    "ERM, paper": (DPFedERMClassifier, {"variant": "paper"}),
    "ERM, paper, constant": (DPFedERMClassifier, {"variant": "paper", "schedule": "constant"}),
    "SGD": (DPFedSGDClassifier, {}),
    "SGD, sampled": (DPFedSGDClassifier, {"sampling_rate": 0.5, "aggregation": "trusted"}),
}
METHODS = {name: (DPFedDROClassifier, parameters) for name, parameters in ROBUST.items()} | BASELINES
needs_extra = pytest.mark.skipif(find_spec("dp_accounting") is None, reason="needs the extra subsampling")


def each(names):
    return pytest.mark.parametrize(
        "method", [pytest.param(name, marks=needs_extra if "sampled" in name else ()) for name in names]
    )


EACH_METHOD = each(METHODS)
FULL_BATCH = each(name for name in METHODS if "sampled" not in name)
EACH_ROBUST = each(ROBUST)
ALL_CLASSES = [0, 1, 2]
BOX = ([-4.0, -5.0, -6.0], [5.0, 4.0, 3.0])


def estimator(method="local", **parameters):
    cls, defaults = METHODS[method]
    return cls(**{"classes": ALL_CLASSES, "n_rounds": 4, **defaults, **parameters})


@pytest.fixture
def releases(monkeypatch):
    """Names of the releases made so far."""
    made = []

    def counted(exact, *, name, **rest):
        made.append(name)
        return release(exact, name=name, **rest)

    monkeypatch.setattr(doors, "release", counted)
    return made


# ---------------------------------------------------------------- the model


@seeded
@EACH_METHOD
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_shapes_and_attributes(federation, method, n_classes, fit_intercept):
    X, y, groups = federation
    labels = np.array(["no", "so", "yes"])[:n_classes]
    model = estimator(method, classes=labels, fit_intercept=fit_intercept, random_state=0)
    assert model.fit(X, labels[y % n_classes], groups=groups) is model
    rows = 1 if n_classes == 2 else n_classes
    assert model.coef_.shape == (rows, 3) and model.intercept_.shape == (rows,)
    assert fit_intercept or not model.intercept_.any()
    assert model.classes_.tolist() == labels.tolist() and model.clients_.tolist() == ["a", "b", "c", "d"]
    assert model.n_features_in_ == 3 and model.n_iter_ == 4
    scores = model.decision_function(X)
    assert scores.shape == ((90,) if n_classes == 2 else (90, 3)) and np.isfinite(scores).all()
    chosen = (scores > 0).astype(int) if n_classes == 2 else scores.argmax(axis=1)
    assert model.predict(X).tolist() == labels[chosen].tolist()
    published = {"model_norm"} | ({"spread"} if method in ROBUST else set())
    published |= {"consensus_violation"} if "paper" in method else set()
    assert set(model.history_) == published
    assert all(values.shape == (4,) for values in model.history_.values())
    assert hasattr(model, "client_coef_") == ("paper" in method)
    if "paper" in method:
        assert model.client_coef_.shape == (4, rows, 3)


@seeded
@EACH_METHOD
def test_it_learns_with_little_noise(federation, method):
    groups, y = federation[2], np.arange(90) % 3
    X = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, -3.0]])[y] + 0.3 * federation[0]
    model = estimator(method, epsilon=1e5, n_rounds=50, feature_bounds=BOX, random_state=0)
    assert model.fit(X, y, groups=groups).score(X, y) > 0.95


def by_hand(model, X, box, data_norm):
    """Scores by the box, the constant column and the norm clip, one row at a time, from `coef_`, `intercept_`."""
    out = []
    for x in X:
        z = np.array(x, dtype=float)
        if box is not None:
            z = np.minimum(np.maximum(z, box[0]), box[1])
            centre, half = (np.array(box[1]) + box[0]) / 2, (np.array(box[1]) - box[0]) / 2
            z = (z - centre) / half
        norm = np.sqrt((z * z).sum() + bool(model.fit_intercept))
        shrink = min(1.0, data_norm / norm)
        inside = np.clip(x, *box) if box is not None else x
        out.append(shrink * (model.coef_ @ inside + model.intercept_))
    return np.squeeze(np.array(out))


@seeded
@EACH_METHOD
@pytest.mark.parametrize("classes", [[0, 1], ALL_CLASSES])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("box", [None, BOX])
def test_scores_apply_the_public_box_and_norm_clip(federation, method, classes, fit_intercept, box):
    if box is not None and not fit_intercept:
        box = ([-4.0, -5.0, -6.0], [4.0, 5.0, 6.0])  # without an intercept the box must be centred at zero
    X, y, groups = federation
    model = estimator(
        method, classes=classes, fit_intercept=fit_intercept, feature_bounds=box, data_norm=1.3, random_state=0
    ).fit(X, y % len(classes), groups=groups)
    far = np.concatenate([X, 100 * X, 0.01 * X])
    np.testing.assert_allclose(model.decision_function(far), by_hand(model, far, box, 1.3), atol=1e-9)


@seeded
@pytest.mark.parametrize("classes", [[0, 1], ALL_CLASSES])
@pytest.mark.parametrize("box", [None, BOX])
def test_coefficients_predict_as_predict_does_inside_the_box(federation, classes, box):
    X, y, groups = federation
    X = np.clip(X, *BOX)
    model = estimator(classes=classes, feature_bounds=box, random_state=0).fit(X, y % len(classes), groups=groups)
    linear = X @ model.coef_.T + model.intercept_
    chosen = (linear.ravel() > 0).astype(int) if len(classes) == 2 else linear.argmax(axis=1)
    assert model.predict(X).tolist() == chosen.tolist()
    assert len(set(chosen)) > 1


@seeded
@EACH_ROBUST
def test_a_scalar_and_the_same_number_for_each_client_agree(federation, method):
    X, y, groups = federation
    kappa = ROBUST[method].get("kappa", 0.5)
    base = estimator(method, random_state=0)
    fits = [
        clone(base).set_params(radius=radius, kappa=cost).fit(X, y, groups=groups)
        for radius, cost in [
            (0.2, kappa),
            ([0.2] * 4, [kappa] * 4),
            (dict.fromkeys("abcdz", 0.2), dict.fromkeys("abcdz", kappa)),
        ]
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.coef_, fits[0].coef_, atol=1e-12)


@seeded
@EACH_ROBUST
def test_every_clients_radius_and_kappa_count(federation, method):
    X, y, groups = federation
    kappa = ROBUST[method].get("kappa", 0.5)
    settings = {"epsilon": 100.0, "n_rounds": 8, "random_state": 0}
    base = estimator(method, radius=[0.1] * 4, **{**ROBUST[method], "kappa": [kappa] * 4}, **settings)
    base.fit(X, y, groups=groups)
    for g in range(4):
        radius = [0.1] * 4
        radius[g] = 0.6
        other = clone(base).set_params(radius=radius).fit(X, y, groups=groups)
        assert not np.allclose(other.coef_, base.coef_, atol=1e-6)
    if np.isfinite(kappa):
        other = clone(base).set_params(kappa=[kappa] * 3 + [0.05]).fit(X, y, groups=groups)
        assert not np.allclose(other.coef_, base.coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"radius": [0.1, 0.2]}, "radius"),
        ({"kappa": {"a": 1.0}}, "kappa"),
        ({"radius": [0.1, 0.2, 0.3, np.inf]}, "radius"),
        ({"kappa": [0.0, 1.0, 1.0, 1.0]}, "kappa"),
        ({"client_weights": [1.0, -1.0, 1.0, 1.0]}, "client_weights"),
        ({"variant": "paper", "kappa": [np.inf, 1.0, 1.0, 1.0]}, "kappa"),
        ({"variant": "paper", "aggregation": "trusted"}, "aggregation"),
        ({"feature_bounds": (1.0, 1.0)}, "feature_bounds"),
        ({"feature_bounds": (2.0, 1.0)}, "feature_bounds"),
        ({"feature_bounds": (0.0, np.inf)}, "feature_bounds"),
        ({"feature_bounds": (0.0, [1.0, 2.0])}, "feature_bounds"),
        ({"classes": [0]}, "classes"),
        ({"classes": [[0, 1], [1, 2]]}, "classes"),
        ({"data_norm": 0.0}, "data_norm"),
        ({"data_norm": np.inf}, "data_norm"),
        ({"n_rounds": 0}, "n_rounds"),
        ({"diagnostics": True}, "diagnostics"),
        ({"adjacency": "add_or_remove"}, "adjacency"),
        ({"random_state": np.random.RandomState(0)}, "random_state"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_parameters_are_named_before_any_release(federation, releases, parameters, named):
    X, y, groups = federation
    with pytest.raises(ValueError, match=named):
        DPFedDROClassifier(**{"classes": ALL_CLASSES, **parameters}).fit(X, y, groups=groups)
    assert releases == []


@pytest.mark.parametrize(
    "budget",
    [{"epsilon": bad} for bad in (0, 0.0, -1, np.nan, np.inf, "1", None, True)]
    + [{"delta": bad} for bad in (0, -1e-5, 1.0, 2.0, np.nan, "x", None)],
    ids=str,
)
@pytest.mark.parametrize("total", ["total", "per_round"])
def test_bad_budgets_are_refused_before_any_release(federation, releases, budget, total):
    X, y, groups = federation
    model = estimator(budget=total, **budget)  # nothing is validated before fit
    with pytest.raises((ValueError, TypeError), match=next(iter(budget))):
        model.fit(X, y, groups=groups)
    assert releases == [] and not hasattr(model, "coef_")


# ---------------------------------------------------------------- records that are refused, and how


SECRET = "HIV-positive"
VALUE = 7.640625  # exactly representable, so that it would show in full


def with_cell(value):
    def spoil(X, y):
        X = X.astype(object if isinstance(value, str) else type(value))
        X[17, 1] = value
        return X, y

    return spoil


def with_label(value):
    def spoil(X, y):
        y = y.astype(object if isinstance(value, str) else float)
        y[17] = value
        return X, y

    return spoil


@pytest.mark.parametrize("method", ["local", "paper"])
@pytest.mark.parametrize(
    "spoil",
    [
        with_cell(np.nan),
        with_cell(np.inf),
        with_cell(-np.inf),
        with_cell(SECRET),
        with_cell(f'it\'s "{SECRET}"'),
        with_cell(complex(VALUE, 1.0)),
        with_label(np.nan),
        with_label(VALUE),
        with_label(SECRET),
        lambda X, y: (np.full(len(y), VALUE), y),
        lambda X, y: (X, np.where(y == 0, VALUE + 1j, y)),
        lambda X, y: (X, np.array([SECRET] * len(y))),
        lambda X, y: (X, np.array(["2020-01-01"] * len(y), dtype="M8[D]")),
        lambda X, y: (X, np.stack([y, y], axis=1)),
        lambda X, y: (X, SECRET),
    ],
)
def test_bad_records_are_refused_before_any_release_and_shown_to_nobody(federation, releases, method, spoil):
    X, y, groups = federation
    X[17, 0] = VALUE
    model = estimator(method)
    with pytest.raises((ValueError, TypeError)) as caught:
        model.fit(*spoil(X, y), groups=groups)
    shown = str(caught.value)
    assert not any(secret in shown for secret in (SECRET, str(VALUE), "2020", "\n"))
    assert caught.value.__context__ is None  # nor does the original error come along
    assert releases == [] and not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        (lambda X, y: (X[:, 0], y), r"got 1D array instead. X must have shape \(n_samples, n_features\)"),
        (with_label(VALUE), "outside classes. Give classes every label that may occur"),
    ],
    ids=["a column", "a label"],
)
def test_errors_that_hide_the_records_name_the_remedy(federation, spoil, remedy):
    X, y, groups = federation
    with pytest.raises(ValueError, match=remedy):
        estimator("local").fit(*spoil(X, y), groups=groups)


@leaky
def test_one_class_in_y_is_refused_without_showing_it(federation, releases):
    X, y, groups = federation
    with pytest.raises(ValueError, match="one class") as caught:
        estimator(classes=None).fit(X, np.full(len(y), SECRET), groups=groups)
    assert SECRET not in str(caught.value) and releases == []


def test_many_rare_labels_cause_no_warning(federation):
    X = federation[0][:40]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = estimator(classes=range(40)).fit(X, np.arange(40), groups=np.zeros(40))
    assert model.classes_.tolist() == list(range(40))


@EACH_METHOD
def test_numpys_error_state_does_not_turn_records_into_exceptions(federation, method):
    X, y, groups = federation
    X[:6] = [[5e-324, 0.0, 1.0], [1e308, -1e308, 1e-308], [-0.0, 0.0, 0.0], [1e200] * 3, [1e-200] * 3, [5e-324] * 3]
    with np.errstate(all="raise"):
        assert np.isfinite(estimator(method).fit(X, y, groups=groups).coef_).all()


def test_a_box_at_the_end_of_the_number_line(federation):
    X, y, groups = federation
    model = estimator(feature_bounds=(1e308, 1.5e308)).fit(X, y, groups=groups)
    assert np.isfinite(model.history_["model_norm"]).all()


@EACH_METHOD
@pytest.mark.parametrize("labels", [[0, 2], [1]])
def test_public_classes_may_be_rare_or_absent(federation, method, labels):
    X, y, groups = federation
    model = estimator(method).fit(X, np.resize(labels, len(y)), groups=groups)
    assert model.classes_.tolist() == ALL_CLASSES and model.coef_.shape == (3, 3)
    assert model.privacy_.assumes == [] and "classes" in model.privacy_.public


@EACH_METHOD
def test_clients_of_one_and_two_rows(federation, method):
    X, y, _ = federation
    groups = np.r_[[0], [1, 1], np.full(87, 2)]
    assert np.isfinite(estimator(method).fit(X, y, groups=groups).coef_).all()
    assert np.isfinite(estimator(method).fit(X, y, groups=np.arange(90)).coef_).all()


# ---------------------------------------------------------------- the report


@FULL_BATCH
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("accountant", ["gdp", "moments"])
@pytest.mark.parametrize("epsilon", [0.05, 0.9, 1.0, 9.99, 100.0, 1000.0])
def test_reported_epsilon_follows_from_the_pickled_events_and_keeps_to_the_request(
    federation, method, adjacency, accountant, epsilon
):
    X, y, groups = federation
    model = estimator(method, epsilon=epsilon, delta=1e-6, adjacency=adjacency, accountant=accountant)
    report = pickle.loads(pickle.dumps(model.fit(X, y, groups=groups))).privacy_
    assert report.private and report.nominal_epsilon is None and report.adjacency == adjacency
    mu_squared = dict.fromkeys("abcd", 0.0)
    for event in report.events:
        assert (event.type, event.q, event.count) == ("gaussian", 1.0, 4)
        mu_squared[event.client] += event.count * event.sensitivity**2 / event.sigma**2
    mu = max(mu_squared.values()) ** 0.5
    again = ACCOUNTANTS[accountant].epsilon(mu, report.delta)
    assert again == pytest.approx(report.epsilon, rel=1e-10) and report.rederive_epsilon() == pytest.approx(again)
    assert 0.999 * epsilon < report.epsilon <= epsilon and again <= epsilon
    for client, guarantee in report.per_client.items():
        assert guarantee.mu == pytest.approx(mu_squared[client] ** 0.5)
        assert guarantee.epsilon <= epsilon


@needs_extra
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("aggregation", ["local", "trusted"])
def test_sampled_rounds_are_accounted_by_their_events(federation, aggregation, adjacency):
    X, y, groups = federation
    model = DPFedSGDClassifier(
        sampling_rate=0.2, adjacency=adjacency, aggregation=aggregation, client_weights=[3.0, 0.0, 2.0, 2.0],
        classes=ALL_CLASSES, n_rounds=20, data_norm=1.5,
    )  # fmt: skip
    if aggregation == "local":
        model.set_params(client_weights="uniform")
    report = pickle.loads(pickle.dumps(model.fit(X, y, groups=groups))).privacy_
    assert report.private and 0.999 < report.epsilon <= 1.0 and report.rederive_epsilon() == report.epsilon
    assert report.mu is None and all(each.mu is None for each in report.per_client.values())
    assert (report.accountant, "sampling rate" in report.public) == ("pld", True)
    assert "privacy loss distribution" in repr(report) and "0.2" in repr(report) and "mu =" not in repr(report)
    json.dumps(report.to_dict())
    factor = {"replace_one": 2.0, "zero_out": 1.0}[adjacency] * np.sqrt(2) * 1.5
    alpha = {"local": [1.0] * 4, "trusted": np.array([3.0, 0.0, 2.0, 2.0]) / 7}[aggregation]
    for event, weight in zip(report.events, alpha, strict=True):
        assert (event.type, event.q, event.count) == ("poisson_gaussian", 0.2, 20)
        # a record that takes part counts one over the *expected* number of records
        expected = 0.2 * np.sum(groups == event.client)
        assert event.sensitivity == pytest.approx(factor * weight / expected, rel=1e-12)
        by_hand = independent_epsilon(event, adjacency)
        assert report.per_client[event.client].epsilon == pytest.approx(by_hand, rel=1e-6)
    assert max(each.epsilon for each in report.per_client.values()) == report.epsilon


def independent_epsilon(event, adjacency):
    """From sigma over the norm of one record's term; the package doubles that norm itself for a replaced record."""
    if event.sensitivity == 0:
        return 0.0
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    relation, norm = {
        "replace_one": (dp.NeighboringRelation.REPLACE_ONE, event.sensitivity / 2),
        "zero_out": (dp.NeighboringRelation.REPLACE_SPECIAL, event.sensitivity),
    }[adjacency]
    accountant = PLDAccountant(relation, 1e-3)
    accountant.compose(dp.PoissonSampledDpEvent(event.q, dp.GaussianDpEvent(event.sigma / norm)), event.count)
    return accountant.get_epsilon(1e-5)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"sampling_rate": 0.0}, "sampling_rate"),
        ({"sampling_rate": 1.5}, "sampling_rate"),
        ({"sampling_rate": np.nan}, "sampling_rate"),
        ({"accountant": "pld"}, "accountant"),
        ({"sampling_rate": 0.5, "accountant": "gdp"}, "accountant"),
        ({"sampling_rate": 0.5, "accountant": "moments"}, "accountant"),
        ({"reg": -1.0}, "reg"),
        ({"reg": np.inf}, "reg"),
    ],
)
def test_bad_parameters_of_the_sampled_baseline(federation, releases, parameters, named):
    X, y, groups = federation
    with pytest.raises(ValueError, match=named):
        DPFedSGDClassifier(classes=ALL_CLASSES, **parameters).fit(X, y, groups=groups)
    assert releases == []


@pytest.mark.parametrize(
    "bad", [{"variant": "paper", "aggregation": "trusted"}, {"schedule": "cosine"}, {"reg": -1.0}]
)
def test_bad_parameters_of_erm(federation, releases, bad):
    X, y, groups = federation
    with pytest.raises(ValueError, match=list(bad)[-1]):
        DPFedERMClassifier(classes=ALL_CLASSES, **bad).fit(X, y, groups=groups)
    assert releases == []


def test_without_the_extra_sampling_names_the_remedy(federation, releases, monkeypatch):
    X, y, groups = federation
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"skdro\[subsampling\]"):
        DPFedSGDClassifier(classes=ALL_CLASSES, sampling_rate=0.5).fit(X, y, groups=groups)
    assert releases == []


@seeded
def test_full_batch_sgd_is_erm_by_descent(federation):
    X, y, groups = federation
    common = {"classes": ALL_CLASSES, "reg": 0.1, "n_rounds": 5, "c_model": 2.0, "random_state": 0}
    sgd, erm = (cls(**common).fit(X, y, groups=groups) for cls in (DPFedSGDClassifier, DPFedERMClassifier))
    np.testing.assert_array_equal(sgd.coef_, erm.coef_)
    # and without a ball the robust class is the same descent, but for the ridge
    plain = DPFedERMClassifier(**common | {"reg": 0.0}).fit(X, y, groups=groups)
    del common["reg"]
    robust = DPFedDROClassifier(radius=0.0, kappa=np.inf, **common).fit(X, y, groups=groups)
    np.testing.assert_allclose(robust.coef_, plain.coef_, rtol=1e-12)
    assert not np.allclose(plain.coef_, erm.coef_, rtol=1e-2)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize(
    ("weights", "alpha"),
    [
        ("uniform", [0.25] * 4),
        ("size", [0.4, 0.3, 0.2, 0.1]),
        ([4.0, 0.0, 1.0, 3.0], [0.5, 0.0, 0.125, 0.375]),
        ({"a": 4.0, "b": 0.0, "c": 1.0, "d": 3.0, "elsewhere": 9.0}, [0.5, 0.0, 0.125, 0.375]),
    ],
    ids=["uniform", "size", "array", "mapping"],
)
def test_trusted_noise_and_what_it_exposes_each_client_to(federation, weights, alpha, adjacency):
    X, y, _ = federation
    sizes = [36, 27, 18, 9]
    model = estimator("trusted", client_weights=weights, adjacency=adjacency, data_norm=1.5, n_rounds=7)
    model.fit(X, y, groups=np.repeat(list("abcd"), sizes))
    factor = {"replace_one": 2.0, "zero_out": 1.0}[adjacency] * np.sqrt(2) * 1.5
    moved = [factor * a / n for a, n in zip(alpha, sizes, strict=True)]
    events = model.privacy_.events
    assert [event.client for event in events] == list("abcd")
    np.testing.assert_allclose([event.sensitivity for event in events], moved, rtol=1e-12)
    (sigma,) = {event.sigma for event in events}
    mu = ACCOUNTANTS["gdp"].mu(1.0, 1e-5)
    assert sigma == pytest.approx(np.sqrt(7) * max(moved) / mu, rel=1e-8)
    for guarantee, move in zip(model.privacy_.per_client.values(), moved, strict=True):
        assert guarantee.mu == pytest.approx(np.sqrt(7) * move / sigma, rel=1e-12)
    if weights == "size":
        np.testing.assert_allclose(moved, factor / 90)


def test_local_noise_exposes_all_clients_alike(federation):
    X, y, groups = federation
    model = estimator(data_norm=1.5).fit(X, y, groups=groups)
    for event in model.privacy_.events:
        n = np.sum(groups == event.client)
        assert event.sensitivity == pytest.approx(2 * np.sqrt(2) * 1.5 / n, rel=1e-12)
    np.testing.assert_allclose([each.mu for each in model.privacy_.per_client.values()], model.privacy_.mu)


@seeded
@EACH_METHOD
@pytest.mark.parametrize("random_state", [None, 0])
def test_the_plan_is_the_report_that_the_fit_ends_with(federation, method, random_state):
    X, y, groups = federation
    model = estimator(method, feature_bounds=BOX, random_state=random_state)
    plan = model.privacy_plan(X, groups)
    assert not any(name.endswith("_") and not name.startswith("_") for name in vars(model))  # still unfitted
    assert plan == model.fit(X, y, groups=groups).privacy_
    assert plan == model.privacy_plan(np.full_like(X, np.nan), groups)  # records are not looked at


@pytest.mark.parametrize(
    ("parameters", "X", "groups", "named"),
    [
        ({"classes": None}, np.zeros((4, 2)), None, "classes"),
        ({"epsilon": -1.0}, np.zeros((4, 2)), None, "epsilon"),
        ({}, np.zeros(4), None, "X"),
        ({}, np.zeros((4, 2)), [0, 1], "groups"),
        ({"variant": "paper", "aggregation": "trusted"}, np.zeros((4, 2)), None, "aggregation"),
    ],
)
def test_a_plan_that_cannot_be_stated_is_refused(parameters, X, groups, named):
    with pytest.raises(ValueError, match=named):
        DPFedDROClassifier(**{"classes": ALL_CLASSES, **parameters}).privacy_plan(X, groups)


def test_a_plan_leaves_the_users_generator_alone():
    generator = np.random.default_rng(0)
    before = generator.bit_generator.state
    assert not estimator(random_state=generator).privacy_plan(np.zeros((4, 2))).private
    assert generator.bit_generator.state == before


def leak_messages(model, X, y, groups):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, groups=groups)
    assert all(warning.filename == __file__ for warning in caught)
    return [(warning.category, str(warning.message).split()[0]) for warning in caught]


@EACH_METHOD
def test_warnings_name_what_leaks(federation, method):
    X, y, groups = federation
    leak, model = PrivacyLeakWarning, estimator(method)
    assert leak_messages(model, X, y, groups) == []
    assert leak_messages(estimator(method, random_state=0), X, y, groups) == [(leak, "random_state")]
    assert leak_messages(estimator(method, classes=None), X, y, groups) == [(leak, "classes")]
    smallest = np.bincount(np.unique(groups, return_inverse=True)[1]).min()
    assert leak_messages(estimator(method, delta=1.01 / smallest), X, y, groups) == [(leak, "delta")]
    assert leak_messages(estimator(method, delta=0.99 / smallest), X, y, groups) == []
    assert leak_messages(model, X, y, None) == [(SingleClientWarning, type(model).__name__)]


@leaky
def test_classes_from_labels_are_an_assumption_of_the_report(federation):
    X, y, groups = federation
    report = estimator(classes=None).fit(X, y, groups=groups).privacy_
    assert report.assumes == ["classes"] and "classes" not in report.public


@seeded
@EACH_METHOD
def test_a_seed_repeats_the_noise_and_makes_the_budget_nominal(federation, method):
    X, y, groups = federation
    first, again, other = (
        estimator(method, random_state=seed).fit(X, y, groups=groups) for seed in (3, 3, np.random.default_rng(3))
    )
    assert np.array_equal(first.coef_, again.coef_) and not np.array_equal(first.coef_, other.coef_)
    for model in (first, other):
        report = model.privacy_
        assert not report.private and report.epsilon is None and 0.999 < report.nominal_epsilon <= 1.0
        assert "random_state" in report.why_not_private[0]


@EACH_METHOD
def test_without_a_seed_no_two_fits_agree(federation, method):
    X, y, groups = federation
    models = [estimator(method).fit(X, y, groups=groups) for _ in range(2)]
    assert not np.isclose(models[0].coef_, models[1].coef_, rtol=1e-9, atol=0).any()
    assert models[0].privacy_.epsilon <= 1.0 and models[0].privacy_.nominal_epsilon is None


@EACH_METHOD
def test_diagnostics_add_the_objective_and_take_the_claim_away(federation, method):
    X, y, groups = federation
    parameters = {"epsilon": 1e5, "n_rounds": 30, "feature_bounds": BOX, "c_model": 1.0}
    model = estimator(method, diagnostics="not-private", **parameters).fit(X, y, groups=groups)
    assert not model.privacy_.private and model.privacy_.epsilon is None
    assert "diagnostics" in model.privacy_.why_not_private[0]
    assert model.history_["objective"].shape == (30,)
    assert model.history_["objective"][0] == pytest.approx(1.0)  # the zero model: every margin is violated by one
    assert model.history_["objective"][-1] < 0.96
    assert "objective" not in estimator(method).fit(X, y, groups=groups).history_


# ---------------------------------------------------------------- callbacks


class Witness:
    """A callback that keeps what it is given, and may ask to stop."""

    def __init__(self, stop_after=None):
        self.stop_after, self.rounds, self.data, self.fitted = stop_after, 0, [], []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, X=0, y=0, metadata=0):
        self.data.append((X, y, metadata))

    def on_fit_task_end(self, estimator, context, *, X=0, y=0, metadata=0, fitted_estimator=0):
        self.data.append((X, y, metadata))
        self.fitted.append(fitted_estimator)
        if context.task_name != "round":
            return False
        self.rounds += 1
        return self.rounds == self.stop_after


@EACH_METHOD
def test_an_early_stop_is_honoured_and_refunds_nothing(federation, method):
    X, y, groups = federation
    witness = Witness(stop_after=2)
    stopped = estimator(method, n_rounds=9).set_callbacks(witness).fit(X, y, groups=groups)
    full = estimator(method, n_rounds=9).fit(X, y, groups=groups)
    assert stopped.n_iter_ == 2 and all(len(values) == 2 for values in stopped.history_.values())
    assert stopped.privacy_.events == full.privacy_.events and stopped.privacy_.epsilon == full.privacy_.epsilon


@EACH_METHOD
def test_callbacks_see_models_and_no_data(federation, method):
    X, y, groups = distinctive(federation)
    witness = Witness()
    model = estimator(method).set_callbacks(witness).fit(X, y, groups=groups)
    assert witness.data == [(None, None, None)] * 10
    assert np.array_equal(witness.fitted[-1].coef_, model.coef_)
    for fitted in witness.fitted:
        assert fitted.predict(X).shape == (90,)
        assert leaks_in(fitted.set_callbacks(), X) == []


def test_a_scoring_monitor_records_nothing(federation):
    X, y, groups = federation
    monitor = ScoringMonitor(scoring="accuracy")
    estimator().set_callbacks(monitor).fit(X, y, groups=groups)
    assert "accuracy" not in repr(monitor.get_logs(select="most_recent").data)


# ---------------------------------------------------------------- nothing else gets out


SIZES = (41, 29, 20)  # no other array of a fit has such a length


def distinctive(federation):
    X, y, _ = federation
    return X, y, np.repeat([1, 2, 3], SIZES)


def walk(value):
    """Every object that hangs on an object, once."""
    pending, seen = [value], set()
    while pending:
        current = pending.pop()
        if id(current) in seen or isinstance(current, type):
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, dict):
            pending += [*current, *current.values()]
        elif isinstance(current, list | tuple | set | frozenset):
            pending += current
        elif hasattr(current, "__dict__"):
            pending += vars(current).values()


def leaks_in(model, X):
    """Arrays with as many rows as there are records, here or at a client, and numbers that stand in X."""
    lengths, numbers = {*SIZES, sum(SIZES)}, set(X.ravel().tolist())
    found = []
    for value in walk(pickle.loads(pickle.dumps(model))):
        if isinstance(value, np.ndarray):
            if lengths & set(value.shape):
                found.append(value.shape)
            found += [number for number in value.ravel().tolist() if number in numbers]
        elif isinstance(value, list | tuple) and len(value) in lengths:
            found.append(len(value))
        elif isinstance(value, float) and value in numbers:
            found.append(value)
    return found


@EACH_METHOD
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_the_pickle_holds_no_record(federation, method, epsilon):
    X, y, groups = distinctive(federation)
    model = estimator(method, epsilon=epsilon).fit(X, y, groups=groups)
    before = model.decision_function(X)
    assert leaks_in(model, X) == []
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), before)
    for leak in (X, {"kept": [X[:1]]}, float(X[3, 1]), list(y), np.ones((3, SIZES[1]))):  # the walk does find them
        model.kept_ = leak
        assert leaks_in(model, X)


@EACH_METHOD
def test_inputs_and_numpys_generator_are_left_alone(federation, method):
    X, y, groups = federation
    X *= 10
    copies = X.copy(), y.copy(), groups.copy()
    np.random.seed(5)  # noqa: NPY002
    model = estimator(method, feature_bounds=BOX).fit(X, y, groups=groups)
    model.predict(X)
    following = np.random.random()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    assert following == np.random.random()  # noqa: NPY002
    for array, copy in zip((X, y, groups), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    for array in (X, y, groups):
        array.flags.writeable = False
    estimator(method, feature_bounds=BOX).fit(X, y, groups=groups)


@seeded
def test_a_refit_forgets_the_earlier_fit(federation):
    X, y, groups = federation
    model = estimator("paper", random_state=0).fit(X, y, groups=groups)
    model.set_params(variant="global", classes=["no", "yes"])
    model.fit(X[:, :2], np.where(y > 0, "yes", "no"), groups=np.zeros(90))
    fresh = clone(model).fit(X[:, :2], np.where(y > 0, "yes", "no"), groups=np.zeros(90))
    assert vars(model).keys() == vars(fresh).keys()
    np.testing.assert_array_equal(model.decision_function(X[:, :2]), fresh.decision_function(X[:, :2]))
    assert model.privacy_ == fresh.privacy_


@seeded
@FULL_BATCH  # a sample's coins go by position
def test_neither_the_order_of_rows_nor_workers_matter(federation, method):
    X, y, groups = federation
    order = np.random.default_rng(0).permutation(90)
    model = estimator(method, random_state=0).fit(X, y, groups=groups)
    shuffled = estimator(method, random_state=0, n_jobs=2).fit(X[order], y[order], groups=groups[order])
    np.testing.assert_allclose(shuffled.coef_, model.coef_, atol=1e-12)


# ---------------------------------------------------------------- among other estimators


@pytest.mark.parametrize("routing", [False, True])
@EACH_METHOD
def test_it_works_inside_meta_estimators(federation, method, routing):
    X, y, groups = federation
    model = estimator(method, client_weights=dict.fromkeys("abcd", 0.1), n_rounds=2)
    pipe = make_pipeline(RowNormClipper(2.0), model)
    name = pipe.steps[-1][0]
    with sklearn.config_context(enable_metadata_routing=routing):
        key = "groups" if routing else f"{name}__groups"
        assert pipe.fit(X, y, **{key: groups}).predict(X).shape == (90,)
        grid = GridSearchCV(pipe, {f"{name}__n_rounds": [1, 2]}, cv=2).fit(X, y, **{key: groups})
        assert grid.best_estimator_[-1].clients_.tolist() == list("abcd")
        scores = cross_val_score(pipe, X, y, cv=2, params={key: groups})
        assert scores.shape == (2,) and np.isfinite(scores).all()
        calibrated = CalibratedClassifierCV(model, cv=2, ensemble=False).fit(X, y, groups=groups)
        np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    if routing:
        with sklearn.config_context(enable_metadata_routing=True):
            scores = cross_val_score(pipe, X, y, cv=GroupKFold(2), params={"groups": groups})
            assert np.isfinite(scores).all()


def test_they_are_public():
    assert {cls.__name__ for cls, _ in METHODS.values()} <= set(skdro.__all__)


# ---------------------------------------------------------------- steps that shrink with the noise

DESCENTS = each(["local", "trusted", "ERM", "ERM, trusted", "SGD", "SGD, sampled"])


@seeded
@DESCENTS
@pytest.mark.parametrize("epsilon", [0.1, 100.0])
@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_automatic_steps_shrink_with_the_public_noise(federation, method, epsilon, weights):
    X, y, groups = federation
    settings = {"epsilon": epsilon, "client_weights": weights, "data_norm": 2.0, "random_state": 0}
    automatic = estimator(method, **settings).fit(X, y, groups=groups)
    sigma = np.array([event.sigma for event in automatic.privacy_.events])  # of each client
    alpha = np.unique(groups, return_counts=True)[1] / 90 if weights == "size" else np.full(4, 0.25)
    of_sum = np.sqrt(np.sum((alpha * sigma) ** 2)) if automatic.aggregation == "local" else sigma[0]
    nu = of_sum * np.sqrt(3 * 4) / (np.sqrt(2) * 2.0)
    given = estimator(method, **settings, c_model=10 / np.sqrt(1 + 16 * nu**2)).fit(X, y, groups=groups)
    np.testing.assert_allclose(automatic.coef_, given.coef_, rtol=1e-9)
    assert automatic.privacy_.events == given.privacy_.events


def test_the_noise_that_automatic_steps_are_told_of_is_that_of_the_weighted_sum():
    rng, alpha, sigma = np.random.default_rng(0), np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.5, 3.0])
    drawn = np.std((alpha * sigma * rng.normal(size=(200_000, 3))).sum(axis=1))
    local = PlannedRelease("gradient", 1, 1.0, sensitivity=sigma, drawn=sigma)
    assert local.sigma_of_sum(alpha) == pytest.approx(drawn, rel=0.01)
    once = PlannedRelease("gradient", 1, 2.0, sensitivity=sigma, drawn=np.array([0.5]))
    assert once.sigma_of_sum(alpha) == 1.0  # the weights are in the sensitivity


@seeded
@DESCENTS
def test_automatic_steps_know_no_record(federation, method, monkeypatch):
    X, y, groups = federation
    steps = []

    def watched(**settings):
        steps.append(settings["step"])
        return GradientDescent(**settings)

    monkeypatch.setattr(_private_designs, "GradientDescent", watched)
    model = estimator(method, random_state=0)
    model.fit(X, y, groups=groups)
    model.fit(-5 * X[::-1], (y + 1) % 3, groups=groups)
    assert steps[1] == steps[0]
    model.fit(X[:60], y[:60], groups=groups[:60])  # another number of rows is another public fact
    assert steps[2] < steps[0]


@seeded
@pytest.mark.parametrize("method", ["paper", "paper, trusted labels", "ERM, paper"])
def test_the_published_algorithms_keep_their_constant(federation, method):
    X, y, groups = federation
    settings = {"random_state": 0, "epsilon": 10.0}
    automatic = estimator(method, **settings, c_model="auto").fit(X, y, groups=groups)
    given, other = (estimator(method, **settings, c_model=c).fit(X, y, groups=groups) for c in (3.0, 2.0))
    np.testing.assert_array_equal(automatic.coef_, given.coef_)
    assert automatic.privacy_ == given.privacy_
    assert np.abs(automatic.coef_ - other.coef_).max() > 1e-6


@pytest.mark.parametrize("cls", [DPFedDROClassifier, DPFedERMClassifier, DPFedSGDClassifier])
@pytest.mark.parametrize("constant", ["automatic", 0.0, None])
def test_a_step_constant_that_is_none_is_refused(federation, cls, constant):
    X, y, _ = federation
    with pytest.raises(ValueError, match="c_model"):
        cls(classes=ALL_CLASSES, c_model=constant).fit(X, y)
