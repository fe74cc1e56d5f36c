"""The centralised robust classifier: its optimum against a conic solver, its certificate, what must not matter."""

import pickle
import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skdro import FedDROClassifier, WassersteinDROClassifier, radius_path
from skdro.exceptions import ConstantModelWarning

DUAL = {"linf": 1, "l2": 2, "l1": "inf"}


def conic_optimum(X, y, radius, kappa, norm, weight=None):
    """Least robust risk with an intercept: every label, every rival, written out."""
    n, classes = len(X), np.unique(y)
    weight = np.full(n, 1 / n) if weight is None else weight / weight.sum()
    W, b = cp.Variable((len(classes), X.shape[1])), cp.Variable(len(classes))
    lam, s = cp.Variable(nonneg=True), cp.Variable(n, nonneg=True)
    S = X @ W.T + np.ones((n, 1)) @ cp.reshape(b, (1, len(classes)), order="C")
    constraints = [lam >= cp.norm(W[i] - W[j], DUAL[norm]) for i in range(len(classes)) for j in range(i)]
    for label, value in enumerate(classes):
        price = np.where(y == value, 0.0, min(kappa, 1e4))
        constraints += [
            s + cp.multiply(price, lam) >= 1 + S[:, k] - S[:, label] for k in range(len(classes)) if k != label
        ]
    problem = cp.Problem(cp.Minimize(radius * lam + weight @ s), constraints)
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("norm", sorted(DUAL))
@pytest.mark.parametrize(("radius", "kappa"), [(0.02, 1.0), (0.02, 0.5), (0.05, np.inf), (0.3, 3.0)])
def test_risk_is_the_conic_optimum_and_the_gap_is_certified(federation, norm, radius, kappa):
    X, y, _ = federation
    model = WassersteinDROClassifier(radius, kappa, norm).fit(X, y)
    optimum = conic_optimum(X, y, radius, kappa, norm)
    # a flip at 1e4 stands for a trusted label in the oracle
    assert model.worst_case_risk_ == pytest.approx(optimum, abs=2e-6)
    assert 0 <= model.dual_gap_ <= 1e-6
    assert model.worst_case_risk_ - model.dual_gap_ <= optimum + 1e-6


def test_binary_is_the_same_code(federation):
    X, y, _ = federation
    keep = y < 2
    model = WassersteinDROClassifier(0.05, 2.0).fit(X[keep], y[keep])
    assert model.coef_.shape == (1, 3) and model.intercept_.shape == (1,)
    assert model.worst_case_risk_ == pytest.approx(conic_optimum(X[keep], y[keep], 0.05, 2.0, "linf"), abs=2e-6)
    scores = model.decision_function(X[keep])
    assert np.array_equal(model.predict(X[keep]), (scores > 0).astype(int))


def test_multiplier_is_the_slope_of_the_risk_in_the_radius(federation):
    X, y, _ = federation
    step = 1e-3
    risks = [WassersteinDROClassifier(r, 2.0, tol=1e-8).fit(X, y).worst_case_risk_ for r in (0.1 - step, 0.1 + step)]
    model = WassersteinDROClassifier(0.1, 2.0, tol=1e-8).fit(X, y)
    assert model.lambda_ == pytest.approx((risks[1] - risks[0]) / (2 * step), rel=2e-2)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_sparse_equals_dense(federation, container):
    X, y, _ = federation
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    dense = WassersteinDROClassifier(0.05, 2.0).fit(X, y)
    model = WassersteinDROClassifier(0.05, 2.0).fit(container(X), y)
    assert model.worst_case_risk_ == pytest.approx(dense.worst_case_risk_, abs=2e-6)
    scores = model.decision_function(container(X))
    assert isinstance(scores, np.ndarray)
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-12)


def test_sparse_data_are_never_made_dense(federation, monkeypatch):
    X, y, _ = federation
    X = sparse.csr_array(np.where(np.abs(X) < 0.7, 0.0, X))

    def refuse(self, *args, **kwargs):
        raise AssertionError("made dense")

    for name in ("toarray", "todense"):
        monkeypatch.setattr(sparse.csr_array, name, refuse)
    model = WassersteinDROClassifier(0.05, 2.0).fit(X, y)
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("as_sparse", [False, True])
def test_weights_are_repetitions_and_order_does_not_matter(federation, as_sparse):
    X, y, _ = federation
    rng = np.random.default_rng(0)
    copies = rng.integers(0, 4, len(y))
    repeated = rng.permutation(np.repeat(np.arange(len(y)), copies))
    wrap = sparse.csr_array if as_sparse else np.asarray
    weighted = WassersteinDROClassifier(0.05, 2.0).fit(wrap(X), y, sample_weight=copies)
    model = WassersteinDROClassifier(0.05, 2.0).fit(wrap(X[repeated]), y[repeated])
    assert model.coef_.tobytes() == weighted.coef_.tobytes()
    assert weighted.worst_case_risk_ == pytest.approx(
        conic_optimum(X, y, 0.05, 2.0, "linf", copies.astype(float)), abs=2e-6
    )


def test_warm_start_keeps_the_cuts_for_the_same_data_only(federation):
    X, y, _ = federation
    cold = WassersteinDROClassifier(0.05, 2.0).fit(X, y)
    model = WassersteinDROClassifier(0.06, 2.0, warm_start=True).fit(X, y)
    first = model.n_iter_
    model.set_params(radius=0.05).fit(X, y)
    assert model.n_iter_ < min(first, cold.n_iter_)
    assert model.worst_case_risk_ == pytest.approx(cold.worst_case_risk_, abs=2e-6)
    # cuts of other data, weights, norm or flip cost would be no lower bounds
    for changes, rows, labels, weight in [
        ({}, X + 0.1 * X**2, y, None),
        ({}, X, np.where(np.arange(90) % 15 == 0, (y + 1) % 3, y), None),
        ({}, X, y, np.arange(1.0, 91)),
        ({"norm": "l2"}, X, y, None),
        ({"kappa": 1.2}, X, y, None),
        ({"fit_intercept": False}, X, y, None),
    ]:
        fresh = WassersteinDROClassifier(0.05, 2.0).set_params(**changes).fit(rows, labels, weight)
        warm = pickle.loads(pickle.dumps(model)).set_params(**changes).fit(rows, labels, weight)
        assert warm.worst_case_risk_ == pytest.approx(fresh.worst_case_risk_, abs=2e-6), changes


def test_radius_path_is_the_single_fits_in_the_given_order(federation):
    X, y, _ = federation
    radii = [0.05, 0.3, 0.01]
    path = radius_path(X, y, radii, kappa=2.0)
    assert path.radii.tolist() == radii and path.coefs.shape == (3, 3, 3)
    for k, radius in enumerate(radii):
        model = WassersteinDROClassifier(radius, 2.0).fit(X, y)
        assert path.risks[k] == pytest.approx(model.worst_case_risk_, abs=2e-6)
        assert path.dual_gaps[k] <= 1e-6
    for bad in ([-0.1], "0.1", ["small"], [[0.1]], [np.nan], None):
        with pytest.raises(ValueError, match="radii must be a sequence of finite numbers"):
            radius_path(X, y, bad)


@pytest.mark.parametrize("factor", [1e-4, 1e5])
def test_scaling_the_units_changes_nothing(federation, factor):
    X, y, _ = federation
    model = WassersteinDROClassifier(0.05, 2.0).fit(X, y)
    scaled = WassersteinDROClassifier(0.05 * factor, 2.0 * factor).fit(X * factor, y)
    assert scaled.worst_case_risk_ == pytest.approx(model.worst_case_risk_, abs=2e-6)


def test_shifting_the_features_changes_nothing(federation):
    X, y, _ = federation
    model = WassersteinDROClassifier(0.05, 2.0).fit(X, y)
    shifted = WassersteinDROClassifier(0.05, 2.0).fit(X + 50.0, y)
    assert shifted.worst_case_risk_ == pytest.approx(model.worst_case_risk_, abs=2e-6)


def test_radius_zero_separates_separable_data_without_a_certificate():
    X = np.array([[-2.0, 0.0], [-1.5, 1.0], [1.5, 0.0], [2.0, -1.0]])
    model = WassersteinDROClassifier(0.0).fit(X, [0, 0, 1, 1])
    assert model.worst_case_risk_ == pytest.approx(0.0, abs=1e-5)
    assert np.isnan(model.dual_gap_)


def test_one_client_is_the_central_problem(federation):
    X, y, _ = federation
    central = WassersteinDROClassifier(0.05, 2.0).fit(X, y)
    federated = FedDROClassifier(0.05, 2.0, tol=1e-5, n_rounds=1000).fit(X, y, np.zeros(len(y)))
    assert federated.worst_case_risk_ == pytest.approx(central.worst_case_risk_, rel=1e-4)


def test_too_few_evaluations_warn_with_the_remaining_gap(federation):
    X, y, _ = federation
    with pytest.warns(ConvergenceWarning, match=r"certified to within 0\.\d+"):
        model = WassersteinDROClassifier(0.05, 2.0, max_iter=25).fit(X, y)
    assert model.n_iter_ == 25 and model.dual_gap_ > 1e-6


def test_huge_radius_predicts_the_most_frequent_class(federation):
    X, y, _ = federation
    keep = (y == 1) | (np.arange(len(y)) % 3 == 0)
    with pytest.warns(ConstantModelWarning, match="radius is too large"):
        model = WassersteinDROClassifier(1e6).fit(X[keep], y[keep])
    assert set(model.predict(X)) == {1}


def test_separable_data_leave_nothing_to_divide_by():
    X = np.c_[np.repeat([-100.0, 100.0], 10), np.zeros(20)]
    y = np.repeat([0, 1], 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = WassersteinDROClassifier().fit(X, y)
    assert model.score(X, y) == 1.0 and np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"radius": -1.0}, "radius"),
        ({"radius": np.nan}, "radius"),
        ({"radius": np.inf}, "radius"),
        ({"kappa": 0.0}, "kappa"),
        ({"norm": "l3"}, "norm"),
        ({"tol": 0.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"warm_start": "yes"}, "warm_start"),
    ],
)
def test_bad_parameters_are_named(federation, parameters, name):
    X, y, _ = federation
    with pytest.raises(ValueError, match=name):
        WassersteinDROClassifier(**parameters).fit(X, y)


def test_bad_input_is_named(federation):
    X, y, _ = federation
    with pytest.raises(ValueError, match="sample_weight"):
        WassersteinDROClassifier().fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="sample_weight"):
        WassersteinDROClassifier().fit(X, y, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="two classes"):
        WassersteinDROClassifier().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="NaN"):
        WassersteinDROClassifier().fit(np.where(X > 2, np.nan, X), y)
