"""Facts about models for an unknown mixture: closed forms, invariances, what is refused, what is warned about."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression

from skdro import AFLClassifier, AFLRegressor, BiDROFLClassifier, BiDROFLRegressor, WassersteinDROClassifier
from skdro.exceptions import ConstantModelWarning

ROUNDS = {"solver": "descent_ascent", "n_rounds": 500}


@pytest.fixture
def sources():
    """Three clients with slopes of their own: X (60, 2), y, groups."""
    rng = np.random.default_rng(0)
    groups = np.repeat(["x", "y", "z"], [30, 20, 10])
    slope = {"x": [1.0, 0.5], "y": [-0.5, 0.5], "z": [0.3, 1.5]}
    X = rng.normal(size=(60, 2)) + 0.5
    y = np.array([row @ slope[g] for row, g in zip(X, groups, strict=True)]) + 0.3 * rng.normal(size=60) + 2.0
    return X, y, groups


def opposite_slopes(seed=0):
    """900 rows y = x and 100 rows y = -x, x uniform on (-1, 1)."""
    x = np.random.default_rng(seed).uniform(-1, 1, 1000)
    groups = np.repeat([0, 1], [900, 100])
    return x[:, None], np.where(groups == 0, x, -x), groups


def worst_mse(predicted, y, groups):
    return max(np.mean((y[groups == g] - predicted[groups == g]) ** 2) for g in np.unique(groups))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_two_opposite_clients(fit_intercept):
    X, y, groups = opposite_slopes()
    pooled = LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    assert pooled.coef_[0] == pytest.approx(0.8, abs=0.03)
    m2 = max(np.mean(X[groups == g] ** 2) for g in (0, 1))
    assert worst_mse(pooled.predict(X), y, groups) == pytest.approx(3.24 * m2, rel=0.1)
    # on the sample the minimax slope s equals both risks: (1 - s)^2 m_0 = (1 + s)^2 m_1
    root = [np.sqrt(np.mean(X[groups == g] ** 2)) for g in (0, 1)]
    minimax = (2 * root[0] * root[1] / (root[0] + root[1])) ** 2
    for model in (AFLRegressor(), AFLRegressor(**ROUNDS), BiDROFLRegressor(radius=0.0)):
        model.set_params(fit_intercept=fit_intercept).fit(X, y, groups)
        assert worst_mse(model.predict(X), y, groups) <= 1.02 * minimax
        assert model.certificate_ == pytest.approx(minimax, rel=0.02)
        np.testing.assert_allclose(model.mixture_weights_, 0.5, atol=0.05)


def test_one_client_without_radius_is_least_squares(sources):
    X, y, _ = sources
    ols = LinearRegression().fit(X, y)
    for model in (AFLRegressor(), BiDROFLRegressor(radius=0)):
        model.fit(X, y, np.zeros(60))
        np.testing.assert_allclose(model.coef_, ols.coef_, atol=1e-5)
        assert model.intercept_ == pytest.approx(ols.intercept_, abs=1e-5)
        assert model.certificate_ == pytest.approx(np.mean((ols.predict(X) - y) ** 2))


def test_a_fixed_mixture_is_weighted_least_squares(sources):
    X, y, groups = sources
    weights = {"x": 1.0, "y": 5.0, "z": 2.0}
    model = AFLRegressor(mixture="fixed", client_weights=weights).fit(X, y, groups)
    each = np.array([weights[g] for g in groups]) / np.array([np.sum(groups == g) for g in groups])
    np.testing.assert_allclose(model.coef_, LinearRegression().fit(X, y, each).coef_, atol=1e-5)
    np.testing.assert_allclose(model.mixture_weights_, np.array([1, 5, 2]) / 8)


def test_one_client_is_the_root_lasso_like_problem(sources):
    """One client in a ball: RMSE + eps ||(coef, 1)||, checked by its stationarity."""
    X, y, _ = sources
    eps = 0.3
    model = BiDROFLRegressor(radius=eps).fit(X, y, np.zeros(60))
    residual = y - model.predict(X)
    rmse, length = np.sqrt(np.mean(residual**2)), np.sqrt(model.coef_ @ model.coef_ + 1)
    np.testing.assert_allclose(-X.T @ residual / 60 / rmse + eps * model.coef_ / length, 0, atol=1e-4)
    assert residual.mean() == pytest.approx(0, abs=1e-4)
    assert model.certificate_ == pytest.approx((rmse + eps * length) ** 2, rel=1e-6)


@pytest.mark.parametrize("form", [{"radius": 0.2}, {"penalty": 9.0}])
def test_units_of_the_data(sources, form):
    """Labels trusted: (c X, c eps) and (c X, c^-2 penalty) give coef / c.  Labels moved: only if y is scaled too."""
    X, y, groups = sources
    c = 7.0
    scaled = {"radius": 0.2 * c} if "radius" in form else {"penalty": 9.0 / c**2}
    kept = BiDROFLRegressor(**form, perturb_labels=False).fit(X, y, groups)
    moved = BiDROFLRegressor(**scaled, perturb_labels=False).fit(c * X, y, groups)
    np.testing.assert_allclose(moved.coef_, kept.coef_ / c, atol=2e-5)
    both = BiDROFLRegressor(**form).fit(X, y, groups)
    same = {"radius": 0.2 * c} if "radius" in form else form
    np.testing.assert_allclose(BiDROFLRegressor(**same).fit(c * X, c * y, groups).coef_, both.coef_, atol=2e-4)
    if "radius" in form:
        other = BiDROFLRegressor(**scaled).fit(c * X, y, groups)
        assert np.abs(other.coef_ - both.coef_ / c).max() > 1e-3


@pytest.mark.parametrize(
    "estimator",
    [
        BiDROFLRegressor(radius={"x": 0.1, "y": 0.2, "z": 0.3, 0: 0.3, 1: 0.2, 2: 0.1}),
        BiDROFLRegressor(radius=0.1, **{**ROUNDS, "n_rounds": 50}),
        AFLRegressor(mixture_radius=0.2),
    ],
)
def test_names_and_order_of_clients_do_not_matter(sources, estimator):
    X, y, groups = sources
    model = estimator.fit(X, y, groups)
    predicted, risks = model.predict(X), model.client_risks_
    order = np.random.default_rng(1).permutation(60)
    renamed = np.array([{"x": 2, "y": 1, "z": 0}[g] for g in groups])  # sorts the other way round
    estimator.fit(X[order], y[order], renamed[order])
    np.testing.assert_allclose(estimator.predict(X), predicted, atol=1e-4)
    np.testing.assert_allclose(estimator.client_risks_[::-1], risks, rtol=1e-4)


def test_mixture_radius_runs_from_fixed_to_simplex(sources):
    X, y, groups = sources
    ends = [AFLRegressor(mixture=m).fit(X, y, groups).certificate_ for m in ("fixed", "simplex")]
    radii = (0.0, 0.05, 0.1, 1.0)
    path = [AFLRegressor(mixture_radius=r).fit(X, y, groups) for r in radii]
    values = [model.certificate_ for model in path]
    assert values[0] == pytest.approx(ends[0], rel=1e-6)
    assert values[-1] == pytest.approx(ends[1], rel=1e-6)
    assert np.all(np.diff(values) > 0)
    for model, radius in zip(path, radii, strict=True):
        assert np.abs(model.mixture_weights_ - 1 / 3).sum() <= 2 * radius + 1e-6


@pytest.mark.parametrize("form", [{"radius": 0.1}, {"penalty": 20.0}])
def test_rounds_come_close_to_the_exact_model(sources, form):
    X, y, groups = sources
    exact = BiDROFLRegressor(**form).fit(X, y, groups)
    rounds = BiDROFLRegressor(**form, **ROUNDS).fit(X, y, groups)
    best, reached = exact.history_["objective"][0], rounds.history_["objective"]
    assert reached.shape == rounds.history_["metric"].shape == (500,)
    assert rounds.history_["mixture_weights"].shape == (500, 3)
    np.testing.assert_allclose(rounds.history_["metric"], reached - best, atol=1e-5 * best)
    assert rounds.history_["metric"].min() > -1e-6
    assert reached[-1] == pytest.approx(best, rel=0.05)
    assert rounds.certificate_ >= exact.certificate_ - 1e-6


def test_a_bounded_support_is_respected_and_lowers_the_risk(sources):
    X, y, groups = sources
    lo, hi = np.r_[X.min(axis=0), y.min()] - 0.1, np.r_[X.max(axis=0), y.max()] + 0.1
    exact = {"penalty": 20.0, "inner_solver": "exact", **ROUNDS, "n_rounds": 200}
    model = BiDROFLRegressor(**exact, support=(lo, hi)).fit(X, y, groups)
    free = BiDROFLRegressor(**exact, support=(-1e3, 1e3)).fit(X, y, groups)
    assert model.history_["objective"][-1] < free.history_["objective"][-1]
    assert "metric" not in model.history_


def test_steps_in_the_users_units_are_the_published_algorithm(sources):
    """A numeric step_size runs in the units of the data: first round from zero, all rows, by hand."""
    X, y, groups = sources
    model = AFLRegressor(solver="descent_ascent", n_rounds=1, step_size=0.01, average=False, client_weights="size")
    model.fit(X, y, groups)
    np.testing.assert_allclose(model.coef_, 0.01 * 2 * X.T @ y / 60)
    assert model.intercept_ == pytest.approx(0.02 * y.mean())


def test_certificate_in_penalty_mode_pays_for_the_radius(sources):
    X, y, groups = sources
    model = BiDROFLRegressor(penalty=[9.0, 20.0, 15.0], radius=[0.1, 0.0, 0.3]).fit(X, y, groups)
    budget = np.array([9.0, 20.0, 15.0]) * np.array([0.1, 0.0, 0.3]) ** 2
    assert model.certificate_ == pytest.approx(np.max(model.client_risks_ + budget))
    mse = np.array([np.mean((y - model.predict(X))[groups == g] ** 2) for g in "xyz"])
    v2 = model.coef_ @ model.coef_ + 1
    rho = np.array([9.0, 20.0, 15.0])
    np.testing.assert_allclose(model.client_risks_, rho / (rho - v2) * mse)


def test_a_penalty_that_excludes_good_models_is_named(sources):
    X, y, groups = sources
    with pytest.warns(ConvergenceWarning, match=r"penalty is too small for client\(s\) \['y'\].*radius form"):
        BiDROFLRegressor(penalty={"x": 9.0, "y": 1.2, "z": 9.0}).fit(X, 3 * y, groups)


def test_a_descent_that_diverges_is_named(sources):
    X, y, groups = sources
    with pytest.warns(ConvergenceWarning, match="model_bound=3"):
        AFLRegressor(solver="descent_ascent", step_size=10.0, n_rounds=20, average=False, model_bound=3.0).fit(
            X, y, groups
        )


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (BiDROFLRegressor(penalty=0.9), "penalty must exceed 1"),
        (BiDROFLRegressor(penalty=9.0, support=(-9, 9)), "support must be None"),
        (BiDROFLRegressor(penalty=9.0, inner_solver="exact", **ROUNDS), "bounded support"),
        (BiDROFLRegressor(penalty=9.0, support=(0, 1), **ROUNDS), "contain all records"),
        (BiDROFLRegressor(penalty=9.0, support=(np.zeros(9), 1), **ROUNDS), "support must be"),
        (BiDROFLRegressor(radius=0.1, support=(-99, 99), **ROUNDS), "penalised form"),
        (BiDROFLRegressor(radius=0.1, batch_size=4, **ROUNDS), "batch_size is for penalty"),
        (BiDROFLRegressor(penalty=[1.0, 2.0]), "penalty has shape"),
        (BiDROFLRegressor(penalty=[1.0, 2.0, np.inf]), "penalty must be finite"),
        (BiDROFLRegressor(radius=[1.0, -2.0, 0.0]), "radius must be finite"),
        (AFLRegressor(mixture_radius=1.5), "mixture_radius"),
        (AFLRegressor(client_weights=[0, 0, 0]), "client_weights"),
    ],
)
def test_what_does_not_exist_raises_and_names_the_remedy(sources, estimator, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(*sources)


@pytest.mark.parametrize("dtype", ["U6", "S6", object])
def test_a_response_of_text_is_named(sources, dtype):
    X, _, groups = sources
    text = np.array(["1.5"] * len(groups), dtype=dtype)
    with pytest.raises(ValueError, match="y must hold numbers; got text"):
        AFLRegressor().fit(X, text, groups)
    assert AFLRegressor().fit(X, text.astype(float).astype(object), groups).n_features_in_ == 2


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (BiDROFLClassifier(loss="softmax"), "no radius form"),
        (BiDROFLClassifier(penalty=3.0), "no penalised form"),
        (BiDROFLClassifier(loss="softmax", penalty=3.0, solver="conic"), "has no softmax"),
        (AFLClassifier(loss="softmax", solver="conic"), "has no softmax"),
        (BiDROFLClassifier(solver="descent_ascent", batch_size=3), "batch_size is for penalty"),
        (BiDROFLClassifier(kappa=[1.0, -1.0, 1.0, 1.0]), "kappa must be > 0"),
    ],
)
def test_what_does_not_exist_for_classes_raises(federation, estimator, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(*federation)


def test_one_client_of_a_classifier_is_the_central_one(federation):
    X, y, _ = federation
    model = BiDROFLClassifier(radius=0.05, kappa=0.5).fit(X, y, np.zeros(90))
    central = WassersteinDROClassifier(radius=0.05, kappa=0.5).fit(X, y)
    assert model.certificate_ == pytest.approx(central.worst_case_risk_, abs=2e-6)


@pytest.mark.parametrize("estimator", [BiDROFLClassifier(radius=0.02), AFLClassifier()])
def test_the_worst_client_gains_against_the_fixed_mixture(federation, estimator):
    X, y, groups = federation
    worst = estimator.fit(X, y, groups)
    mean_of_fixed = estimator.set_params(mixture="fixed")
    risks = worst.client_risks_.copy()
    fixed = mean_of_fixed.fit(X, y, groups)
    assert risks.max() < fixed.client_risks_.max() - 0.01
    assert risks.mean() >= fixed.client_risks_.mean() - 1e-6
    assert fixed.certificate_ == pytest.approx(fixed.client_risks_.mean())


@pytest.mark.parametrize("radius", [0.0, 0.03])
def test_rounds_of_a_classifier_come_close_to_the_exact_value(federation, radius):
    X, y, groups = federation
    exact = BiDROFLClassifier(radius=radius).fit(X, y, groups).certificate_
    rounds = BiDROFLClassifier(radius=radius, solver="descent_ascent", n_rounds=800).fit(X, y, groups)
    assert exact - 1e-6 <= rounds.certificate_ <= 1.1 * exact
    assert rounds.history_["objective"][-1] == pytest.approx(rounds.certificate_, rel=1e-6)


def test_agnostic_softmax_of_one_client_approaches_logistic_regression(federation):
    X, y, _ = federation
    model = AFLClassifier(loss="softmax", n_rounds=1000, average=False).fit(X, y, np.zeros(90))
    exact = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y)
    optimum = -np.mean(np.log(exact.predict_proba(X)[np.arange(90), y]))
    assert optimum <= model.certificate_ <= optimum + 0.03


def test_softmax_certificate_bounds_every_move(federation):
    X, y, groups = federation
    model = BiDROFLClassifier(loss="softmax", penalty=5.0, radius=0.1, n_rounds=200).fit(X, y, groups)
    assert np.isfinite(model.certificate_)
    rng = np.random.default_rng(0)
    for _ in range(50):
        moves = rng.normal(size=X.shape)
        for g in np.unique(groups):  # a distribution of the client within W_2 distance .1
            own = groups == g
            moved = X[own] + 0.1 * moves[own] / np.sqrt(np.mean((moves[own] ** 2).sum(axis=1)))
            scores = moved @ model.coef_.T + model.intercept_
            loss = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(own.sum()), y[own]]
            assert loss.mean() <= model.certificate_


def test_an_unknown_softmax_certificate_is_infinite(federation):
    X, y, groups = federation
    model = BiDROFLClassifier(loss="softmax", penalty=1e-5, n_rounds=50, perturbation=0.0).fit(3 * X, y, groups)
    assert model.certificate_ == np.inf


def test_a_radius_that_is_too_large_is_named_and_predicts_the_most_frequent_class(federation):
    X, y, groups = federation
    with pytest.warns(ConstantModelWarning):
        model = BiDROFLClassifier(radius=100.0, client_weights="size").fit(X, y, groups)
    assert np.all(model.predict(X) == np.bincount(y).argmax())
    assert model.certificate_ == pytest.approx(1.0, abs=2e-3)


def test_clients_that_contradict_each_other_leave_no_model():
    """Two clients of the same records and opposite labels: no linear model is better than undecided for both."""
    x = np.r_[-1.0, 1.0, -2.0, 2.0]
    X, y, groups = np.r_[x, x][:, None], np.r_[x > 0, x < 0].astype(int), np.repeat([0, 1], 4)
    with pytest.warns(ConstantModelWarning, match="worst mixture of the clients"):
        model = AFLClassifier().fit(X, y, groups)
    assert model.certificate_ == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize(
    "estimator",
    [
        BiDROFLRegressor(penalty=20.0, batch_size=3, random_state=0, **{**ROUNDS, "n_rounds": 30}),
        BiDROFLClassifier(loss="softmax", penalty=20.0, batch_size=3, random_state=0, n_rounds=30),
    ],
)
def test_a_seed_settles_every_number_whatever_the_workers(federation, estimator):
    X, y, groups = federation
    first = estimator.fit(X, y, groups).coef_.tobytes()
    assert estimator.set_params(n_jobs=2).fit(X, y, groups).coef_.tobytes() == first
    assert estimator.set_params(random_state=1).fit(X, y, groups).coef_.tobytes() != first


def test_no_warning_where_nothing_is_wrong(sources, federation):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BiDROFLRegressor(penalty=20.0).fit(*sources)
        BiDROFLClassifier().fit(*federation)


@pytest.mark.parametrize("mixture_radius", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("kappa", [0.5, np.inf])
def test_the_bundle_reaches_the_conic_optimum(mixture_radius, kappa):
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(60, 3)), np.arange(60) % 3
    y = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(60, 3))).argmax(axis=1)
    settings = {"radius": 0.05, "kappa": kappa, "mixture_radius": mixture_radius}
    conic = BiDROFLClassifier(solver="conic", **settings).fit(X, y, groups=groups)
    bundle = BiDROFLClassifier(solver="bundle", **settings).fit(X, y, groups=groups)
    assert bundle.certificate_ == pytest.approx(conic.certificate_, rel=1e-5)
    assert bundle.mixture_weights_.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(bundle.mixture_weights_ @ bundle.client_risks_, bundle.certificate_, rtol=1e-3)
