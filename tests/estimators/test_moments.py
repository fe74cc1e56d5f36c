"""DPMomentDROClassifier and DPMomentDRORegressor: what they fit, what is free afterwards, what is refused."""

import math
import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, SplineTransformer

from skdro import DPMomentDROClassifier, DPMomentDRORegressor
from skdro.exceptions import PrivacyLeakWarning
from skdro.federation import doors
from skdro.federation.frames import MAP_FAILED
from skdro.privacy.accounting import ACCOUNTANTS
from skdro.privacy.mechanism import release

seeded = pytest.mark.filterwarnings("ignore:random_state is set:skdro.exceptions.PrivacyLeakWarning")
ALL_CLASSES = [0, 1, 2]
BOX = ([-4.0, -5.0, -6.0], [5.0, 4.0, 3.0])
KINDS = {
    "classes": (DPMomentDROClassifier, {"classes": ALL_CLASSES}),
    "numbers": (DPMomentDRORegressor, {"target_bounds": (-1.0, 4.0)}),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
EACH_PLACE = pytest.mark.parametrize("aggregation", ["local", "trusted"])
HUGE = 1e11


def estimator(kind="classes", **parameters):
    cls, own = KINDS[kind]
    return cls(**{"feature_bounds": BOX, **own, **parameters})


def rows_by_hand(X, box, data_norm):
    """Box, constant column and norm clip, written out; divided by the norm."""
    lo, hi = np.array(box)
    Z = np.column_stack([2 * (np.clip(X, lo, hi) - lo) / (hi - lo) - 1, np.ones(len(X))])
    norm = np.linalg.norm(Z, axis=1, keepdims=True)
    return Z * np.minimum(1, data_norm / norm) / data_norm


@pytest.fixture
def releases(monkeypatch):
    """(name, exact) of the releases made so far."""
    made = []

    def counted(exact, *, name, **rest):
        made.append((name, exact.copy()))
        return release(exact, name=name, **rest)

    monkeypatch.setattr(doors, "release", counted)
    return made


# ---------------------------------------------------------------- the model


@seeded
@EACH_PLACE
@pytest.mark.parametrize("data_norm", [1.0, 2.5])
def test_classifier_is_least_squares_where_there_is_no_noise(federation, aggregation, data_norm):
    X, y, groups = federation
    model = estimator(epsilon=HUGE, noise_radius=0.0, aggregation=aggregation, data_norm=data_norm, random_state=0)
    model.fit(X, y, groups=groups)
    Z, T = rows_by_hand(X, BOX, data_norm), np.eye(3)[y] - 1 / 3
    W = np.linalg.lstsq(Z, T, rcond=None)[0]
    np.testing.assert_allclose(model.decision_function(X), Z @ W, atol=1e-4)
    np.testing.assert_allclose(model.certificate_, ((Z @ W - T) ** 2).sum() / len(X), atol=1e-4)


@seeded
@EACH_PLACE
@pytest.mark.parametrize("data_norm", [1.0, 2.5])
def test_regressor_is_least_squares_where_there_is_no_noise(federation, aggregation, data_norm):
    X, y, groups = federation
    target = 0.4 * X[:, 0] + y / 2
    bounds = (-1.0, 1.5)  # some targets lie outside
    model = estimator(
        "numbers", epsilon=HUGE, noise_radius=0.0, aggregation=aggregation, data_norm=data_norm,
        target_bounds=bounds, random_state=0,
    ).fit(X, target, groups=groups)  # fmt: skip
    Z, clipped = rows_by_hand(X, BOX, data_norm), np.clip(target, *bounds)
    assert (clipped != target).any()
    centred = clipped - np.mean(bounds)
    w = np.linalg.lstsq(Z, centred, rcond=None)[0]
    np.testing.assert_allclose(model.predict(X), np.clip(Z @ w + np.mean(bounds), *bounds), atol=1e-4)
    np.testing.assert_allclose(model.certificate_, ((Z @ w - centred) ** 2).mean(), atol=1e-4)


@seeded
def test_client_weights_weight_the_clients(federation):
    X, y, groups = federation
    alpha = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
    Z, T = rows_by_hand(X, BOX, 1.0), np.eye(3)[y] - 1 / 3
    share = np.array([alpha[g] / (groups == g).sum() for g in groups])[:, None] ** 0.5
    W = np.linalg.lstsq(share * Z, share * T, rcond=None)[0]
    for aggregation in ("local", "trusted"):
        model = estimator(
            epsilon=HUGE, noise_radius=0.0, aggregation=aggregation, client_weights=alpha, random_state=0
        ).fit(X, y, groups=groups)
        np.testing.assert_allclose(model.decision_function(X), Z @ W, atol=1e-4)


@seeded
@EACH_KIND
@EACH_PLACE
def test_the_noise_sets_the_ridge_penalty(federation, kind, aggregation):
    X, y, groups = federation
    model = estimator(kind, epsilon=20.0, aggregation=aggregation, noise_radius=0.6, random_state=0)
    model.fit(X, y, groups=groups)
    sigmas = {event.client: event.sigma for event in model.privacy_.events}
    sigma = np.sqrt(sum(s**2 for s in sigmas.values())) if aggregation == "local" else sigmas["a"]
    eta = 0.6 * sigma * np.sqrt(2 * 4)
    assert model.noise_radius_ == pytest.approx(eta, rel=1e-12)
    A, B = (sum(getattr(part, name) for part in model.moments_) for name in "AB")
    values, vectors = np.linalg.eigh(A)
    A = vectors * np.maximum(values, 0) @ vectors.T
    W = np.linalg.solve(A + eta * np.eye(4), B.T).T
    coef, intercept = model._fitted_frame.leave(W)
    unit, centre = {"classes": (1.0, 0.0), "numbers": (2.5, 1.5)}[kind]
    np.testing.assert_allclose(model.coef_, np.squeeze(unit * coef), rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, np.squeeze(centre + unit * intercept), rtol=1e-8)


@seeded
@pytest.mark.parametrize("classes", [[0, 1], ALL_CLASSES])
def test_coefficients_predict_as_predict_does_inside_the_box(federation, classes):
    X, y, groups = federation
    X = np.clip(X, *BOX)
    model = estimator(epsilon=50.0, classes=classes, random_state=0).fit(X, y % len(classes), groups=groups)
    linear = X @ model.coef_.T + model.intercept_
    chosen = (linear.ravel() > 0).astype(int) if len(classes) == 2 else linear.argmax(axis=1)
    assert model.predict(X).tolist() == chosen.tolist()
    assert len(set(chosen)) > 1


@seeded
def test_regression_coefficients_predict_where_rows_are_short():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(500, 2))
    y = 3 + X @ [2.0, -1.0]
    model = DPMomentDRORegressor(
        epsilon=HUGE, noise_radius=0.0, data_norm=2.0, feature_bounds=(-1, 1), target_bounds=(-2, 8), random_state=0
    ).fit(X, y, groups=np.zeros(500))
    np.testing.assert_allclose(X @ model.coef_ + model.intercept_, model.predict(X), atol=1e-9)
    np.testing.assert_allclose(model.coef_, [2.0, -1.0], atol=1e-2)
    assert model.intercept_ == pytest.approx(3.0, abs=1e-2)
    assert isinstance(model.intercept_, float)


@seeded
@EACH_KIND
@EACH_PLACE
@pytest.mark.parametrize("tune", [False, True])
def test_neither_the_order_of_rows_nor_workers_nor_client_names_matter(federation, kind, aggregation, tune):
    X, y, groups = federation
    order = np.argsort(groups, kind="stable")  # with tune, halves go by position within the client
    if not tune:
        order = np.random.default_rng(0).permutation(90)
    parameters = {"aggregation": aggregation, "tune": tune, "random_state": 0}
    model = estimator(kind, **parameters).fit(X, y, groups=groups)
    other = estimator(kind, n_jobs=2, **parameters).fit(X[order], y[order], groups=groups[order])
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-9)
    names = np.array(["x" + g for g in groups])
    again = estimator(kind, **parameters).fit(X, y, groups=names)
    np.testing.assert_array_equal(again.coef_, model.coef_)


@seeded
@EACH_KIND
def test_a_fit_makes_no_copy_of_its_rows(kind):
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(50_000, 20)), np.arange(50_000) % 2, rng.integers(5, size=50_000)
    model = estimator(kind, feature_bounds=(-3, 3), random_state=0).fit(
        X[:100], y[:100], groups=groups[:100]
    )  # what is loaded only once
    tracemalloc.start()
    try:
        model.fit(X, y, groups=groups)
        assert tracemalloc.get_traced_memory()[1] < X.nbytes / 2
        tracemalloc.reset_peak()
        model.fit(np.asfortranarray(X), y, groups=groups)  # the check sees a copy where there is one
        assert tracemalloc.get_traced_memory()[1] > X.nbytes
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- free afterwards


@seeded
@EACH_KIND
@pytest.mark.parametrize("aggregation", ["local", "trusted"])
def test_refit_and_radius_path_touch_no_data_and_spend_nothing(federation, releases, kind, aggregation):
    X, y, groups = federation
    model = estimator(kind, epsilon=20.0, aggregation=aggregation, random_state=0).fit(X, y, groups=groups)
    fresh = estimator(kind, epsilon=20.0, aggregation=aggregation, radius=0.05, random_state=0)
    expected = clone(fresh).fit(X, y, groups=groups).coef_
    before, report, n_releases = model.coef_.copy(), model.privacy_, len(releases)
    X[:], y[:], groups[:] = np.nan, -1, ""  # the data are gone
    del X, y, groups
    other = pickle.loads(pickle.dumps(model)).refit(radius=0.05)
    np.testing.assert_allclose(other.coef_, expected, rtol=1e-10)
    moved = pickle.loads(pickle.dumps(model)).set_params(data_norm=9.0, feature_bounds=None)
    np.testing.assert_array_equal(moved.refit(radius=0.05).coef_, other.coef_)  # only a fit makes them count
    path = model.radius_path([0.0, 0.05, 0.3])
    np.testing.assert_allclose(path[1].coef_, expected, rtol=1e-10)
    np.testing.assert_array_equal(path[0].coef_, model.coef_)
    norms = [np.linalg.norm(each.coef_) for each in path]
    assert norms[0] > norms[1] > norms[2]
    assert len(releases) == n_releases  # those of the two fits
    assert other.privacy_ == report and all(each.privacy_ is report for each in path)
    np.testing.assert_array_equal(model.coef_, before)
    assert model.get_params()["radius"] == 0.0 and path[2].get_params()["radius"] == 0.3


@seeded
def test_refit_to_a_mixture_and_back(federation):
    X, y, groups = federation
    model = estimator(epsilon=50.0, random_state=0).fit(X, y, groups=groups)
    worst = model.refit(mixture="simplex")
    direct = clone(model).set_params(mixture="simplex").fit(X, y, groups=groups)
    np.testing.assert_allclose(worst.coef_, direct.coef_, atol=1e-6)
    assert not np.allclose(worst.coef_, model.coef_, atol=1e-4)
    half = worst.refit(mixture_radius=0.5)
    assert half.chosen_["mixture_radius"] == 0.5
    back = half.refit(mixture="fixed")
    np.testing.assert_allclose(back.coef_, model.coef_, rtol=1e-12)
    again = clone(back).fit(X, y, groups=groups)  # the parameters say what the model is
    np.testing.assert_allclose(again.coef_, back.coef_, rtol=1e-12)


@seeded
@pytest.mark.parametrize(
    "bad", [{"radius": -1.0}, {"noise_radius": np.nan}, {"mixture": "worst"}, {"mixture_radius": 2.0}], ids=str
)
def test_refit_names_bad_parameters(federation, bad):
    X, y, groups = federation
    model = estimator(random_state=0).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match=next(iter(bad))):
        model.refit(**bad)
    with pytest.raises(ValueError, match="radii"):
        model.radius_path([0.1, -1.0])


@EACH_KIND
@EACH_PLACE
def test_tuning_costs_no_budget(federation, releases, kind, aggregation):
    X, y, groups = federation
    plain = estimator(kind, aggregation=aggregation).fit(X, y, groups=groups)
    tuned = estimator(kind, aggregation=aggregation, tune=True).fit(X, y, groups=groups)
    assert len(releases) == 2 * {"local": 4, "trusted": 1}[aggregation]  # one vector each, halves included
    for one, other in zip(plain.privacy_.events, tuned.privacy_.events, strict=True):
        assert (one.sensitivity, one.sigma, one.count) == (other.sensitivity, other.sigma, other.count)
    assert tuned.privacy_.epsilon == plain.privacy_.epsilon <= 1.0
    assert "disjoint halves" in repr(tuned.privacy_)
    # and the halves do add up to all records
    exact = {name: vectors for name, vectors in releases}
    np.testing.assert_allclose(exact["moments of two disjoint halves"].sum(axis=1), exact["moments"][:, 0], atol=1e-9)
    sigma = plain.moments_[0].sigma
    assert tuned.moments_[0].sigma == pytest.approx(np.sqrt(2) * sigma)
    assert [part.n_records for part in tuned.moments_] == [part.n_records for part in plain.moments_]


@seeded
def test_tuning_finds_a_better_model_where_the_default_is_bad():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 5))
    y = X @ [1.0, -1.0, 0.5, 0.0, 0.0] / 4
    common = {"epsilon": 5.0, "feature_bounds": (-1, 1), "target_bounds": (-1, 1), "noise_radius": 60.0}
    scores = [
        DPMomentDRORegressor(tune=tune, random_state=0, **common).fit(X, y, groups=np.arange(4000) % 4).score(X, y)
        for tune in (False, True)
    ]
    assert scores[1] > scores[0] + 0.2


# ---------------------------------------------------------------- mixtures, maps, certificates


@seeded
def test_the_simplex_helps_the_worst_client():
    rng = np.random.default_rng(0)
    n = np.array([9000, 1000])
    X = rng.uniform(-1, 1, size=(n.sum(), 1))
    groups = np.repeat([0, 1], n)
    y = np.where(groups == 0, 1.0, -1.0) * X[:, 0]
    base = DPMomentDRORegressor(
        epsilon=1000.0,
        noise_radius=0.01,
        feature_bounds=(-1, 1),
        target_bounds=(-1, 1),
        data_norm=1.5,
        random_state=0,
    ).fit(X, y, groups=groups)
    worst = base.refit(mixture="simplex")
    errors = [[np.mean((m.predict(X[groups == g]) - y[groups == g]) ** 2) for g in (0, 1)] for m in (base, worst)]
    assert base.coef_[0] == pytest.approx(0.8, abs=0.05) and worst.coef_[0] == pytest.approx(0.0, abs=0.05)
    assert max(errors[0]) == pytest.approx(1.08, abs=0.1) and max(errors[1]) == pytest.approx(1 / 3, abs=0.05)
    assert worst.certificate_ == pytest.approx(1 / 3, abs=0.05)


@pytest.mark.parametrize("parameters", [{"mixture": "simplex"}, {"mixture_radius": 0.5}], ids=str)
def test_a_mixture_needs_the_moments_of_each_client(federation, releases, parameters):
    X, y, groups = federation
    with pytest.raises(ValueError, match=r"mixture.*local"):
        estimator(aggregation="trusted", **parameters).fit(X, y, groups=groups)
    assert releases == []
    model = estimator(aggregation="trusted").fit(X, y, groups=groups)
    with pytest.raises(ValueError, match=r"mixture.*local"):
        model.refit(**parameters)


@seeded
def test_random_features_learn_what_is_not_linear():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(6000, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    common = {"epsilon": 5.0, "feature_bounds": (-1, 1), "classes": [0, 1], "random_state": 0}
    groups = np.arange(6000) % 3
    linear = DPMomentDROClassifier(**common).fit(X, y, groups=groups)
    for feature_map in (RBFSampler(gamma=1.0, n_components=60, random_state=0), PolynomialFeatures(2)):
        mapped = DPMomentDROClassifier(feature_map=feature_map, **common).fit(X, y, groups=groups)
        assert mapped.score(X, y) > 0.85 > 0.6 > linear.score(X, y)
        assert not hasattr(feature_map, "n_features_in_")  # the user's own is left alone
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(mapped)).predict(X[:9]), mapped.predict(X[:9]))
    assert mapped.coef_.shape == (1, 6)


SECRET, VALUE = "HIV-positive", 7.640625


def math_log(X):
    """Not total on the box, and says so only at its end."""
    return np.array([[math.log(1.0 - u) for u in row] for row in X])


class Recorder(TransformerMixin, BaseEstimator):
    """Keeps what it is fitted to."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y=None):
        assert y is None
        Recorder.seen.append(X.copy())
        return self

    def transform(self, X):
        return X / (X[:, :1] * 0)  # no numbers at all


class Centring(Recorder):
    def transform(self, X):
        return X - X.mean(axis=0)


class NeedsTargets(Recorder):
    def fit(self, X, y):
        raise TypeError("y is required")


class Column(Recorder):
    def transform(self, X):
        return X[:, 0]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_a_feature_map_is_fitted_to_no_record_and_may_return_no_numbers(federation):
    X, y, groups = federation
    Recorder.seen.clear()
    model = estimator(feature_map=Recorder()).fit(X, y, groups=groups)
    (first,) = Recorder.seen
    estimator(feature_map=Recorder()).fit(5 * X[:40], y[:40], groups=groups[:40])
    np.testing.assert_array_equal(Recorder.seen[1], first)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize(
    ("feature_map", "why"),
    [(Centring(), "row on its own"), (NeedsTargets(), "without targets"), (Column(), "two-dimensional")],
)
def test_feature_maps_that_would_leak_are_refused(federation, releases, feature_map, why):
    X, y, groups = federation
    with pytest.raises(ValueError, match=f"feature_map.*{why}"):
        estimator(feature_map=feature_map).fit(X, y, groups=groups)
    assert releases == []


WITH_ENDS = np.array([[-1.0] * 3, [0.0] * 3, [1.0] * 3])


@pytest.mark.parametrize(
    ("feature_map", "feature_bounds"),
    [
        (
            SplineTransformer(extrapolation="error"),
            (-1, 1),
        ),  # its knots lie just inside the box
        (SplineTransformer(knots=WITH_ENDS, extrapolation="error"), None),
        (FunctionTransformer(math_log), (-1, 1)),
    ],
)
def test_a_map_that_fails_at_an_end_of_the_box_is_refused_before_any_record_is_seen(
    federation, releases, feature_map, feature_bounds
):
    X, y, groups = federation
    with pytest.raises(ValueError, match="feature_map must map all rows"):
        estimator(feature_map=feature_map, feature_bounds=feature_bounds).fit(X, y, groups=groups)
    assert releases == []


def test_a_map_that_is_total_on_the_box_is_accepted(federation):
    X, y, groups = federation
    X[7] = [1e9, -1e9, 0.0]  # at a corner
    total = SplineTransformer(knots=WITH_ENDS, extrapolation="error")
    estimator(feature_map=total, feature_bounds=(-1, 1)).fit(X, y, groups=groups)


class Choosy(Recorder):
    """Fails, in a way of its own, on rows whose first feature is VALUE."""

    def __init__(self, way="raise"):
        self.way = way

    def transform(self, X):
        found = X[:, 0] == VALUE
        if found.any() and self.way == "raise":
            raise KeyError(f"{SECRET}: {X[found]}")
        if found.any() and self.way == "text":
            return X.astype(object) + SECRET
        return X[:, :2] if found.any() and self.way == "columns" else X[: len(X) - found.sum()]


@EACH_KIND
@pytest.mark.parametrize("way", ["raise", "text", "columns", "rows"])
def test_what_a_map_raises_on_a_record_is_not_passed_on(federation, kind, way):
    """Neither the record nor the cause, and the same text however it failed."""
    X, y, groups = federation
    X[7, 0] = VALUE
    with pytest.raises(ValueError, match="feature_map failed") as caught:
        estimator(kind, feature_map=Choosy(way), feature_bounds=None).fit(X, y, groups=groups)
    assert str(caught.value) == MAP_FAILED
    assert caught.value.__cause__ is None and caught.value.__context__ is None


class Witness:
    """A callback that keeps the fitted estimators it is given."""

    def __init__(self):
        self.fitted = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.fitted.append(fitted_estimator)


@seeded
@EACH_KIND
def test_callbacks_see_the_model(federation, kind):
    X, y, groups = federation
    witness = Witness()
    model = estimator(kind, random_state=0).set_callbacks(witness).fit(X, y, groups=groups)
    assert len(witness.fitted) == 2  # the round and the fit
    for fitted in witness.fitted:
        np.testing.assert_array_equal(fitted.coef_, model.coef_)
        assert fitted.predict(X).shape == (90,)


# ---------------------------------------------------------------- the report, and what is refused


@EACH_KIND
@EACH_PLACE
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 100.0])
def test_reported_epsilon_follows_from_the_one_event(federation, kind, aggregation, adjacency, epsilon):
    X, y, groups = federation
    model = estimator(kind, epsilon=epsilon, delta=1e-6, adjacency=adjacency, aggregation=aggregation)
    report = pickle.loads(pickle.dumps(model.fit(X, y, groups=groups))).privacy_
    assert report.private and report.adjacency == adjacency and report.assumes == []
    assert [(e.client, e.count, e.name) for e in report.events] == [(c, 1, "moments") for c in "abcd"]
    squared = {  # by the formulas, at omega = 1
        ("classes", "replace_one"): 2 + 4 / 3 + 2 / 9,
        ("classes", "zero_out"): 5 / 3,
        ("numbers", "replace_one"): 4.5,
        ("numbers", "zero_out"): 3.0,
    }[kind, adjacency]
    for event in report.events:
        assert event.sensitivity == pytest.approx(np.sqrt(squared), rel=1e-12)
    mu = report.events[0].sensitivity / report.events[0].sigma
    assert ACCOUNTANTS["gdp"].epsilon(mu, 1e-6) == pytest.approx(report.epsilon, rel=1e-10)
    assert 0.999 * epsilon < report.epsilon <= epsilon and report.rederive_epsilon() <= epsilon
    assert {"classes": "classes", "numbers": "target_bounds"}[kind] in report.public


def test_trusted_noise_hides_the_client_that_counts_most(federation):
    X, y, _ = federation
    sizes = [36, 27, 18, 9]
    model = estimator(aggregation="trusted", client_weights="uniform")
    report = model.fit(X, y, groups=np.repeat(list("abcd"), sizes)).privacy_
    one = np.sqrt(2 + 4 / 3 + 2 / 9)
    moved = [one * 90 / (4 * n) for n in sizes]
    np.testing.assert_allclose([event.sensitivity for event in report.events], moved, rtol=1e-12)
    (sigma,) = {event.sigma for event in report.events}
    assert sigma == pytest.approx(max(moved) / ACCOUNTANTS["gdp"].mu(1.0, 1e-5), rel=1e-8)


@pytest.mark.parametrize(
    ("kind", "parameters", "named"),
    [
        ("numbers", {"target_bounds": (1.0, 1.0)}, "target_bounds"),
        ("numbers", {"target_bounds": (0.0, np.inf)}, "target_bounds"),
        ("numbers", {"target_bounds": (0.0, 1.0, 2.0)}, "target_bounds"),
        ("numbers", {"target_bounds": ["low", "high"]}, "target_bounds"),
        ("classes", {"noise_radius": -0.1}, "noise_radius"),
        ("classes", {"radius": -0.1}, "radius"),
        ("classes", {"mixture": "worst"}, "mixture"),
        ("classes", {"mixture_radius": 1.5}, "mixture_radius"),
        ("classes", {"statistics_weight": 0.0}, "statistics_weight"),
        ("classes", {"feature_map": "rbf"}, "feature_map"),
        ("classes", {"epsilon": 0}, "epsilon"),
        ("classes", {"delta": 1.0}, "delta"),
        ("classes", {"tune": "yes"}, "tune"),
        ("classes", {"client_weights": [1.0, 2.0]}, "client_weights"),
    ],
)
def test_bad_parameters_are_named_before_any_release(federation, releases, kind, parameters, named):
    X, y, groups = federation
    with pytest.raises(ValueError, match=named):
        estimator(kind, **parameters).fit(X, y, groups=groups)
    assert releases == []


@EACH_KIND
@pytest.mark.parametrize(
    "spoil",
    [
        lambda X, y: (np.where(X == VALUE, np.nan, X), y),
        lambda X, y: (np.where(X == VALUE, SECRET, X.astype(object)), y),
        lambda X, y: (X, np.where(X[:, 0] == VALUE, np.nan, y)),
        lambda X, y: (X, np.where(X[:, 0] == VALUE, SECRET, y.astype(object))),
        lambda X, y: (X, np.where(X[:, 0] == VALUE, np.inf, y)),
    ],
)
def test_bad_records_are_shown_to_nobody(federation, releases, kind, spoil):
    X, y, groups = federation
    X[17, 0] = VALUE
    with pytest.raises((ValueError, TypeError)) as caught:
        estimator(kind).fit(*spoil(X, y), groups=groups)
    assert not any(secret in str(caught.value) for secret in (SECRET, str(VALUE), "\n"))
    assert caught.value.__context__ is None and releases == []


def test_a_target_of_text_is_named_before_any_release(federation, releases):
    X, y, groups = federation
    for text in (np.full(len(y), SECRET), np.full(len(y), SECRET, dtype=object)):
        with pytest.raises(ValueError, match="y must hold numbers; got text") as caught:
            estimator("numbers").fit(X, text, groups=groups)
        assert SECRET not in str(caught.value) and releases == []


@EACH_KIND
@pytest.mark.parametrize(("tune", "feature_map"), [(False, None), (True, None), (True, RBFSampler(random_state=0))])
def test_extreme_records_and_tiny_clients(federation, kind, tune, feature_map):
    X, y, _ = federation
    X[:6] = [[5e-324, 0.0, 1.0], [1e308, -1e308, 1e-308], [-0.0, 0.0, 0.0], [1e200] * 3, [1e-200] * 3, [5e-324] * 3]
    for groups in (np.r_[[0], [1, 1], np.full(87, 2)], np.arange(90)):
        with np.errstate(all="raise"):
            model = estimator(kind, tune=tune, feature_bounds=None, feature_map=feature_map)
            model.fit(X, y, groups=groups)
        assert np.isfinite(model.coef_).all() and np.isfinite(model.certificate_)


def test_missing_target_bounds_are_named():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20.0)
    with pytest.warns(UserWarning, match="target_bounds"):
        model = DPMomentDRORegressor(delta=1e-3).fit(X, y, groups=np.zeros(20))
    assert np.abs(model.predict(X)).max() <= 1.0


def test_without_a_seed_no_two_fits_agree(federation):
    X, y, groups = federation
    models = [estimator(tune=True).fit(X, y, groups=groups) for _ in range(2)]
    assert not np.isclose(models[0].moments_[0].A, models[1].moments_[0].A, rtol=1e-9, atol=0).any()
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        assert not estimator(random_state=0).fit(X, y, groups=groups).privacy_.private


@pytest.mark.parametrize("tune", [False, True])
@pytest.mark.parametrize("aggregation", ["local", "trusted"])
def test_the_plan_is_the_report_that_the_fit_ends_with(tune, aggregation):
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(60, 3)), np.arange(60) % 3
    settings = {"epsilon": 2.0, "tune": tune, "aggregation": aggregation}
    for model, y in (
        (DPMomentDROClassifier(classes=[0, 1], **settings), groups % 2),
        (DPMomentDRORegressor(target_bounds=(-3, 3), **settings), X[:, 0]),
    ):
        assert model.privacy_plan(np.empty((60, 3)), groups) == model.fit(X, y, groups=groups).privacy_


@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
def test_null_records_are_counted_and_add_nothing():
    rng = np.random.default_rng(0)
    X, groups, null = rng.normal(size=(60, 3)), np.arange(60) % 3, np.arange(60) == 7
    model = DPMomentDRORegressor(target_bounds=(-3, 3), random_state=0)
    plain = model.fit(X, X[:, 0], groups=groups).moments_
    X[7] = 0.5
    with_null = model.fit_with_null_records(X, X[:, 0], null, groups=groups).moments_
    X[7] = -0.9
    again = model.fit_with_null_records(X, X[:, 0], null, groups=groups).moments_
    for a, b, c in zip(plain, with_null, again, strict=True):
        np.testing.assert_array_equal(b.A, c.A)
        assert a.n_records == b.n_records
    assert not np.array_equal(plain[1].A, with_null[1].A)


@seeded
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(
    ("value", "parameters"),
    [
        (1e200, {"feature_map": RBFSampler(n_components=20, random_state=0), "feature_bounds": None}),
        (-4.0, {"feature_map": FunctionTransformer(lambda Z: np.exp(-1 / (1 + Z)))}),
    ],
    ids=["overflow", "corner of the box"],
)
def test_no_warning_tells_on_a_record_in_a_worker_either(federation, n_jobs, value, parameters):
    X, y, groups = federation
    X = X.copy()
    X[7, 0] = value
    estimator(n_jobs=n_jobs, random_state=0, **parameters).fit(X, y, groups=groups)  # warnings are errors here
