"""FedDROClassifier against a pooled problem written out record by record, and what must not matter to it."""

import pickle
import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skdro import FedDROClassifier
from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.ambiguity.wasserstein import RobustRisk, WassersteinBall
from skdro.exceptions import ConstantModelWarning, SingleClientWarning

DUAL = {"linf": 1, "l2": 2, "l1": "inf"}
CLOSE = {"rho": 0.2, "tol": 1e-4, "n_rounds": 1000}  # a fixed penalty reaches 1e-4 of the optimum sooner


def pooled_optimum(X, y, groups, alpha, radius, kappa, norm, weight=None, intercept=True):
    """min over M of sum_g alpha_g F_g(M): one multiplier a client, all label flips and rivals of each record."""
    classes, y = np.unique(y, return_inverse=True)
    n_classes = len(classes)
    weight = np.ones(len(X)) if weight is None else weight
    M = cp.Variable((n_classes, X.shape[1]))
    b = cp.Variable(n_classes) if intercept else np.zeros(n_classes)
    constraints, total = [], 0
    for g, client in enumerate(sorted(set(groups))):
        rows = np.flatnonzero(np.asarray(groups) == client)
        lam, loss = cp.Variable(nonneg=True), cp.Variable(len(rows), nonneg=True)
        flips = np.isfinite(kappa[g])
        present = set(y[rows])
        constraints += [
            lam >= cp.norm(M[i] - M[j], DUAL[norm])
            for i in range(n_classes)
            for j in range(i)
            if flips or i in present or j in present
        ]
        for n, row in enumerate(rows):
            scores = M @ X[row] + b
            for label in range(n_classes):
                if label == y[row] or flips:
                    price = 0 if label == y[row] else kappa[g] * lam
                    margins = scores - scores[label] + (np.arange(n_classes) != label)
                    constraints.append(loss[n] + price >= margins)
        share = weight[rows] / weight[rows].sum()
        total += alpha[g] * (radius[g] * lam + share @ loss)
    problem = cp.Problem(cp.Minimize(total), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.value


def federated_risk(model, X, y, groups, alpha, radius, kappa, norm, weight=None):
    """sum_g alpha_g F_g of a fitted model on the records as they are, in the user's units."""
    coef, intercept = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        coef, intercept = np.r_[0 * coef, coef], np.r_[0 * intercept, intercept]
    M = np.c_[coef, intercept]
    y = np.searchsorted(model.classes_, y)
    weight = np.ones(len(X)) if weight is None else weight
    total = 0.0
    for g, client in enumerate(sorted(set(groups))):
        rows = np.asarray(groups) == client
        ball = WassersteinBall(radius[g], kappa[g], TRANSPORT_NORMS[norm])
        share = weight[rows] / weight[rows].sum()
        risk = RobustRisk(np.c_[X[rows], np.ones(rows.sum())], y[rows], share, len(model.classes_), X.shape[1], ball)
        total += alpha[g] * risk.value(M)[0]
    return total


def quiet(model, *args, **kwargs):
    """Fit whose rounds may run out: equality of two runs is what counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args, **kwargs)


def binary(federation):
    X, y, groups = federation
    keep = y < 2
    return X[keep], y[keep], groups[keep]


# ---- the objective


@pytest.mark.parametrize("norm", sorted(DUAL))
def test_four_clients_reach_the_pooled_optimum(federation, norm):
    X, y, groups = federation
    radius, kappa, alpha = [0.05, 0.08, 0.02, 0.1], [5.0, 4.0, 6.0, np.inf], np.array([0.4, 0.3, 0.2, 0.1])
    optimum = pooled_optimum(X, y, groups, alpha, radius, kappa, norm)
    model = FedDROClassifier(radius, kappa, norm, client_weights=5 * alpha, **CLOSE).fit(X, y, groups)
    assert -1e-7 * optimum <= model.worst_case_risk_ - optimum <= 1e-4 * optimum
    risk = federated_risk(model, X, y, groups, alpha, radius, kappa, norm)
    assert model.worst_case_risk_ == pytest.approx(risk, rel=1e-9)


def test_the_default_stops_within_a_thousandth_of_the_optimum(federation):
    X, y, groups = federation
    optimum = pooled_optimum(X, y, groups, [0.25] * 4, [0.01] * 4, [1.0] * 4, "linf")
    model = FedDROClassifier().fit(X, y, groups)
    assert -1e-7 <= model.worst_case_risk_ / optimum - 1 <= 1e-3


@pytest.mark.parametrize("norm", sorted(DUAL))
@pytest.mark.parametrize("kappa", [0.7, np.inf])
def test_one_client_reaches_the_optimum(federation, norm, kappa):
    X, y, _ = federation
    groups = np.zeros(len(y))
    optimum = pooled_optimum(X, y, groups, [1.0], [0.05], [kappa], norm)
    model = FedDROClassifier(0.05, kappa, norm, tol=1e-5, n_rounds=1000).fit(X, y, groups)
    assert -1e-7 <= model.worst_case_risk_ / optimum - 1 <= 1e-5


@pytest.mark.parametrize("kappa", [2.0, np.inf])
def test_two_classes_reach_the_pooled_optimum(federation, kappa):
    X, y, groups = binary(federation)
    optimum = pooled_optimum(X, y, groups, [0.25] * 4, [0.05] * 4, [kappa] * 4, "l2")
    model = FedDROClassifier(0.05, kappa, "l2", **CLOSE).fit(X, y, groups)
    assert -1e-7 <= model.worst_case_risk_ / optimum - 1 <= 1e-4
    risk = federated_risk(model, X, y, groups, [0.25] * 4, [0.05] * 4, [kappa] * 4, "l2")
    assert model.worst_case_risk_ == pytest.approx(risk, rel=1e-9)


def test_without_intercept(federation):
    X, y, groups = federation
    optimum = pooled_optimum(X, y, groups, [0.25] * 4, [0.05] * 4, [5.0] * 4, "linf", intercept=False)
    model = FedDROClassifier(0.05, 5.0, fit_intercept=False, **CLOSE).fit(X, y, groups)
    assert -1e-7 <= model.worst_case_risk_ / optimum - 1 <= 1e-4
    assert np.all(model.intercept_ == 0)


def test_sample_weight_enters_the_objective(federation):
    X, y, groups = federation
    weight = np.random.default_rng(0).integers(1, 5, len(y)).astype(float)
    args = ([0.25] * 4, [0.05] * 4, [5.0] * 4, "l2", weight)
    optimum = pooled_optimum(X, y, groups, *args)
    model = FedDROClassifier(0.05, 5.0, "l2", **CLOSE).fit(X, y, groups, sample_weight=weight)
    assert -1e-7 <= model.worst_case_risk_ / optimum - 1 <= 1e-4
    assert model.worst_case_risk_ == pytest.approx(federated_risk(model, X, y, groups, *args), rel=1e-9)


def test_radius_zero_is_the_pooled_unregularised_problem(federation):
    X, y, groups = federation
    # the plain Crammer-Singer hinge over all records, whose clients do not matter
    M, loss = cp.Variable((3, 4)), cp.Variable(len(y))
    margins = np.c_[X, np.ones(len(y))] @ M.T
    own = cp.sum(cp.multiply(margins, np.eye(3)[y]), axis=1)
    constraints = [loss >= margins[:, k] - own + (y != k) for k in range(3)]
    plain = cp.Problem(cp.Minimize(cp.sum(loss) / len(y)), constraints).solve(solver=cp.CLARABEL)
    model = FedDROClassifier(0.0, client_weights="size", **CLOSE).fit(X, y, groups)
    assert -1e-7 <= model.worst_case_risk_ / plain - 1 <= 1e-4
    others = np.random.default_rng(1).integers(0, 6, len(y))
    model = FedDROClassifier(0.0, client_weights="size", **CLOSE).fit(X, y, others)
    assert -1e-7 <= model.worst_case_risk_ / plain - 1 <= 1e-4


def test_federated_risk_is_at_most_the_pooled_one(federation):
    X, y, groups = federation
    apart = FedDROClassifier(0.1, 3.0, client_weights="size")
    together = quiet(clone(apart), X, y, np.zeros(len(y))).worst_case_risk_
    # the accuracy of the default is a thousandth
    assert quiet(apart, X, y, groups).worst_case_risk_ < 0.998 * together


def test_conic_solver_agrees(federation):
    X, y, groups = federation
    with_bundle = FedDROClassifier(0.05, 2.0, n_rounds=8)
    with_conic = clone(with_bundle).set_params(solver="conic")
    quiet(with_bundle, X, y, groups), quiet(with_conic, X, y, groups)
    # both certify their steps to about 1e-7 in the objective, so to about 1e-3 in the strongly convex argument
    np.testing.assert_allclose(with_conic.coef_, with_bundle.coef_, atol=2e-3)
    np.testing.assert_allclose(with_conic.history_["objective"], with_bundle.history_["objective"], rtol=1e-3)


# ---- what must not matter


def test_order_of_rows_does_not_matter_bit_for_bit(federation):
    X, y, groups = federation
    model = FedDROClassifier(0.05, 2.0, n_rounds=20)
    first = quiet(clone(model), X, y, groups)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        second = quiet(clone(model), X[order], y[order], groups[order])
        assert second.coef_.tobytes() == first.coef_.tobytes()
        assert second.intercept_.tobytes() == first.intercept_.tobytes()


def test_names_of_clients_do_not_matter(federation):
    X, y, groups = federation
    model = FedDROClassifier(0.05, 2.0, n_rounds=20)
    first = quiet(clone(model), X, y, groups)
    # the same order: the same arithmetic
    renamed = np.array([{"a": -3.5, "b": 0.0, "c": 2.0, "d": 10.0}[label] for label in groups])
    second = quiet(clone(model), X, y, renamed)
    assert second.coef_.tobytes() == first.coef_.tobytes()
    assert second.clients_.tolist() == [-3.5, 0.0, 2.0, 10.0]


def test_order_of_clients_matters_to_rounding_only(federation):
    X, y, groups = federation
    radius, kappa = {"a": 0.1, "b": 0.02, "c": 0.05, "d": 0.0}, {"a": 1.0, "b": np.inf, "c": 0.5, "d": 2.0}
    first = quiet(FedDROClassifier(radius, kappa, n_rounds=40), X, y, groups)
    names = dict(zip("abcd", ["z", "m", "x", "c"], strict=True))
    radius, kappa = ({names[c]: value for c, value in numbers.items()} for numbers in (radius, kappa))
    second = FedDROClassifier(radius, kappa, n_rounds=40)
    quiet(second, X, y, np.array([names[label] for label in groups]))
    np.testing.assert_allclose(second.coef_, first.coef_, atol=1e-6)
    np.testing.assert_allclose(second.client_coef_, first.client_coef_[[3, 1, 2, 0]], atol=1e-6)
    assert second.worst_case_risk_ == pytest.approx(first.worst_case_risk_, rel=1e-7)


def test_weights_equal_repetition(federation):
    X, y, groups = federation
    times = np.random.default_rng(2).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), times)
    for client_weights in ("uniform", "size"):
        model = FedDROClassifier(0.05, 2.0, client_weights=client_weights, n_rounds=20)
        weighted = quiet(clone(model), X, y, groups, sample_weight=times)
        repeated = quiet(clone(model), X[rows], y[rows], groups[rows])
        assert weighted.coef_.tobytes() == repeated.coef_.tobytes()
        assert weighted.worst_case_risk_ == repeated.worst_case_risk_


def test_scale_of_weights_does_not_matter(federation):
    X, y, groups = federation
    model = FedDROClassifier(0.05, 2.0, n_rounds=20)
    first = quiet(clone(model), X, y, groups)
    second = quiet(clone(model), X, y, groups, sample_weight=np.full(len(y), 4.0))
    assert second.coef_.tobytes() == first.coef_.tobytes()


@pytest.mark.parametrize("gone", ["scattered rows", "a whole client"])
def test_rows_of_weight_zero_are_not_there(federation, gone):
    X, y, groups = federation
    keep = groups != "b" if gone == "a whole client" else np.arange(len(y)) % 5 != 0
    X = X.copy()
    X[~keep] *= 100  # would wreck the fit
    radius = {"a": 0.1, "b": 0.02, "c": 0.05, "d": 0.0}
    model = FedDROClassifier(radius, 2.0, client_weights={"a": 2, "b": 5, "c": 1, "d": 1}, n_rounds=20)
    weighted = quiet(clone(model), X, y, groups, sample_weight=keep.astype(float))
    dropped = quiet(clone(model), X[keep], y[keep], groups[keep])
    assert weighted.coef_.tobytes() == dropped.coef_.tobytes()
    assert weighted.clients_.tolist() == dropped.clients_.tolist()
    assert len(weighted.client_coef_) == len(dropped.clients_)


def test_weight_only_on_clients_without_records_is_refused(federation):
    X, y, groups = federation
    model = FedDROClassifier(client_weights={"a": 0, "b": 1, "c": 0, "d": 0})
    with pytest.raises(ValueError, match="client_weights"):
        model.fit(X, y, groups, sample_weight=(groups != "b").astype(float))


@pytest.mark.parametrize("c", [1e-3, 256.0])
def test_units_of_the_features_do_not_matter(federation, c):
    X, y, groups = federation
    first = FedDROClassifier(0.05, 2.0).fit(X, y, groups)
    second = FedDROClassifier(0.05 * c, 2.0 * c).fit(X * c, y, groups)
    np.testing.assert_array_equal(second.predict(X * c), first.predict(X))
    assert second.worst_case_risk_ == pytest.approx(first.worst_case_risk_, rel=1e-4)
    np.testing.assert_allclose(second.coef_ * c, first.coef_, atol=0.05)


def test_a_shift_of_the_features_does_not_matter(federation):
    X, y, groups = federation
    first = FedDROClassifier(0.05, 2.0).fit(X, y, groups)
    second = FedDROClassifier(0.05, 2.0).fit(X + 50, y, groups)
    np.testing.assert_array_equal(second.predict(X + 50), first.predict(X))
    assert second.worst_case_risk_ == pytest.approx(first.worst_case_risk_, rel=1e-4)


def test_per_client_numbers_as_array_and_as_mapping(federation):
    X, y, groups = federation
    radius, kappa, weights = [0.1, 0.02, 0.05, 0.0], [1.0, np.inf, 0.5, 2.0], [1, 2, 3, 4]
    by_array = FedDROClassifier(radius, np.array(kappa), client_weights=weights, n_rounds=20)
    mapped = [dict(zip("dcbaz", [*values[::-1], 9], strict=True)) for values in (radius, kappa, weights)]
    by_label = FedDROClassifier(mapped[0], mapped[1], client_weights=mapped[2], n_rounds=20)
    quiet(by_array, X, y, groups), quiet(by_label, X, y, groups)
    assert by_array.coef_.tobytes() == by_label.coef_.tobytes()
    plain = quiet(FedDROClassifier(0.1, 1.0, n_rounds=20), X, y, groups)
    assert not np.allclose(plain.coef_, by_array.coef_, atol=1e-3)


# ---- small and lopsided clients


def test_clients_may_lack_classes_or_have_one_row(federation):
    X, y, groups = federation
    groups = np.where(y == 2, "z", np.where(groups == "d", "a", groups))  # only z knows class 2, and no other
    groups[np.flatnonzero(y == 1)[0]] = "y"  # one row
    model = FedDROClassifier(0.05, 5.0, **{**CLOSE, "rho": 1.0}).fit(X, y, groups)
    assert model.clients_.tolist() == ["a", "b", "c", "y", "z"]
    optimum = pooled_optimum(X, y, groups, [0.2] * 5, [0.05] * 5, [5.0] * 5, "linf")
    assert -1e-7 <= model.worst_case_risk_ / optimum - 1 <= 1e-4
    assert model.score(X, y) > 0.8


def test_trusted_labels_with_classes_that_a_client_lacks(federation):
    X, y, groups = federation
    groups = np.where(y == 0, "zero", groups)
    clients = sorted(set(groups))
    n = len(clients)
    optimum = pooled_optimum(X, y, groups, [1 / n] * n, [0.1] * n, [np.inf] * n, "linf")
    model = FedDROClassifier(0.1, np.inf, **CLOSE).fit(X, y, groups)
    assert -1e-7 <= model.worst_case_risk_ / optimum - 1 <= 1e-4


def test_every_row_its_own_client(federation):
    X, y = federation[0][:40], federation[1][:40]
    model = quiet(FedDROClassifier(0.01, np.inf, n_rounds=100), X, y, np.arange(len(y)))
    assert len(model.clients_) == len(y)
    assert model.score(X, y) >= 0.8


# ---- constant models


@pytest.mark.parametrize("radius", [10.0, 1e6])
@pytest.mark.parametrize("kappa", [1.0, np.inf])
def test_huge_radius_gives_the_most_frequent_class_and_says_so(federation, radius, kappa):
    X, y, groups = binary(federation)
    keep = (y == 1) | (np.arange(len(y)) % 3 == 0)
    X, y, groups = X[keep], y[keep], groups[keep]
    assert (y == 1).mean() > 0.6
    with pytest.warns(ConstantModelWarning, match="radius is too large"):
        model = quiet(FedDROClassifier(radius, kappa, client_weights="size"), X, y, groups)
    assert set(model.predict(X)) == {1}
    assert set(model.predict(X * 1000)) == {1}
    assert np.isfinite(model.worst_case_risk_)
    risk = federated_risk(model, X, y, groups, client_sizes(groups), [radius] * 4, [kappa] * 4, "linf")
    assert model.worst_case_risk_ == pytest.approx(risk, rel=1e-9)


def client_sizes(groups):
    return np.unique(groups, return_counts=True)[1] / len(groups)


def test_useful_radius_does_not_warn(federation):
    X, y, groups = federation
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FedDROClassifier(0.01, 1.0).fit(X, y, groups)
    assert len(set(model.predict(X))) == 3


def test_equal_rows_do_not_blow_up():
    X, y = np.full((12, 2), 0.1), np.arange(12) % 3 == 0
    with pytest.warns(ConstantModelWarning):
        model = FedDROClassifier(0.0).fit(X, y, np.arange(12) % 2)
    assert np.abs(model.coef_).max() < 100
    assert set(model.predict(X + 1e-6)) == {False}


# ---- attributes


def test_history(federation):
    X, y, groups = federation
    model = FedDROClassifier(0.05, 2.0).fit(X, y, groups)
    assert set(model.history_) == {"objective", "primal_residual", "dual_residual", "rho"}
    assert {column.shape for column in model.history_.values()} == {(model.n_iter_,)}
    assert 1 < model.n_iter_ < 200
    # the model returned is the best of all rounds
    assert model.worst_case_risk_ == pytest.approx(model.history_["objective"].min(), rel=1e-12)
    # the entry of a round is the risk of the model after that round
    for rounds in (1, 7):
        shorter = quiet(FedDROClassifier(0.05, 2.0, n_rounds=rounds, rho=0.1), X, y, groups)
        longer = quiet(FedDROClassifier(0.05, 2.0, n_rounds=rounds + 3, rho=0.1), X, y, groups)
        assert longer.history_["objective"][rounds - 1] == pytest.approx(shorter.history_["objective"][-1], rel=1e-12)


def test_fixed_rho_is_in_the_users_units_and_stays(federation):
    X, y, groups = federation
    one = quiet(FedDROClassifier(0.05, 2.0, rho=0.3, n_rounds=40), X, y, groups)
    assert len(set(one.history_["rho"])) == 1
    # mean over clients of their mean squared distance from the federation's mean
    means = np.array([X[groups == c].mean(axis=0) for c in "abcd"])
    square = np.mean([((X[groups == c] - means.mean(axis=0)) ** 2).sum(axis=1).mean() for c in "abcd"])
    assert one.history_["rho"][0] == pytest.approx(0.3 / square, rel=1e-12)


def test_ran_out_of_rounds(federation):
    X, y, groups = federation
    with pytest.warns(ConvergenceWarning, match="n_rounds=2"):
        model = FedDROClassifier(n_rounds=2).fit(X, y, groups)
    assert model.n_iter_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FedDROClassifier(n_rounds=2, tol=0).fit(X, y, groups)  # all rounds were asked for


def test_one_round(federation):
    X, y, groups = federation
    model = FedDROClassifier(n_rounds=1, tol=0).fit(X, y, groups)
    assert {len(column) for column in model.history_.values()} == {1}
    risk = federated_risk(model, X, y, groups, [0.25] * 4, [0.01] * 4, [1.0] * 4, "linf")
    assert model.history_["objective"][0] == pytest.approx(risk, rel=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_shapes_of_three_classes(federation, intercept):
    X, y, groups = federation
    model = FedDROClassifier(fit_intercept=intercept, tol=1e-2).fit(X, y, groups)
    assert model.coef_.shape == (3, 3)
    assert model.intercept_.shape == (3,)
    assert model.client_coef_.shape == (4, 3, 3)
    assert model.decision_function(X).shape == (90, 3)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_, rtol=1e-12)
    assert np.array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))


def test_shapes_of_two_classes(federation):
    X, y, groups = binary(federation)
    model = FedDROClassifier(0.02, 2.0).fit(X, np.array(["no", "yes"])[y], groups)
    assert model.coef_.shape == (1, 3)
    assert model.intercept_.shape == (1,)
    assert model.client_coef_.shape == (4, 1, 3)
    scores = model.decision_function(X)
    assert scores.shape == (len(y),)
    assert np.array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))
    assert model.score(X, np.array(["no", "yes"])[y]) > 0.8


def test_client_models_agree_with_the_consensus(federation):
    X, y, groups = federation
    model = FedDROClassifier(0.05, 5.0, **CLOSE).fit(X, y, groups)
    spread = np.sqrt(((model.client_coef_ - model.coef_) ** 2).sum(axis=(1, 2)))
    assert spread.max() <= 1e-3 * np.linalg.norm(model.coef_)
    early = quiet(FedDROClassifier(0.05, 5.0, n_rounds=2), X, y, groups)
    assert np.abs(early.client_coef_ - early.coef_).max() > 1e-2


def test_refit_forgets(federation):
    X, y, groups = federation
    model = FedDROClassifier(0.02, 2.0).fit(X, y, groups)
    X2, y2, groups2 = binary(federation)
    X2, groups2 = X2[:, :2], (groups2 > "b").astype(int)
    model.fit(X2, y2, groups2)
    fresh = FedDROClassifier(0.02, 2.0).fit(X2, y2, groups2)
    assert vars(model).keys() == vars(fresh).keys()
    assert model.coef_.tobytes() == fresh.coef_.tobytes()
    assert model.clients_.tolist() == [0, 1]
    assert model.n_features_in_ == 2
    assert model.classes_.tolist() == [0, 1]


def test_clone_and_pickle(federation):
    X, y, groups = federation
    model = FedDROClassifier({"a": 0.1, "b": 0.02, "c": 0.05, "d": 0.0}, 2.0, norm="l2", tol=1e-2).fit(X, y, groups)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "coef_")
    assert copy.fit(X, y, groups).coef_.tobytes() == model.coef_.tobytes()
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert again.worst_case_risk_ == model.worst_case_risk_


def test_inputs_are_not_modified(federation):
    X, y, groups = federation
    weight = np.arange(len(y), dtype=float)
    before = [a.copy() for a in (X, y, groups, weight)]
    FedDROClassifier(tol=1e-2).fit(X, y, groups, sample_weight=weight)
    for old, new in zip(before, (X, y, groups, weight), strict=True):
        assert np.array_equal(old, new)


def test_without_groups_all_rows_are_one_client(federation):
    X, y, _ = federation
    with pytest.warns(SingleClientWarning):
        alone = FedDROClassifier(0.05).fit(X, y)
    assert alone.clients_.shape == (1,)
    assert alone.coef_.tobytes() == FedDROClassifier(0.05).fit(X, y, np.full(len(y), "x")).coef_.tobytes()


# ---- bad input

FOUR = ["a", "b", "c", "d"]
BAD_PARAMETERS = [
    ("radius", -0.1),
    ("radius", np.nan),
    ("radius", np.inf),
    ("radius", "0.1"),
    ("radius", None),
    ("radius", [0.1, 0.1, -0.1, 0.1]),
    ("radius", [0.1, 0.1, np.nan, 0.1]),
    ("radius", dict.fromkeys(FOUR, -1.0)),
    ("radius", {"a": 0.1, "b": np.nan, "c": 0.1, "d": 0.1}),
    ("radius", {"a": 0.1, "b": None, "c": 0.1, "d": 0.1}),
    ("radius", {"a": 0.1, "b": 0.1}),
    ("radius", [0.1, 0.1, 0.1]),
    ("radius", [[0.1, 0.1, 0.1, 0.1]]),
    ("radius", ["x", "y", "z", "w"]),
    ("kappa", 0),
    ("kappa", -1.0),
    ("kappa", np.nan),
    ("kappa", [1.0, 0.0, 1.0, 1.0]),
    ("kappa", [1.0, np.nan, 1.0, 1.0]),
    ("kappa", dict.fromkeys(FOUR, 0.0)),
    ("kappa", [1.0, 1.0]),
    ("client_weights", "sizes"),
    ("client_weights", [1, 1, 1]),
    ("client_weights", [1, 1, 1, -1]),
    ("client_weights", [0, 0, 0, 0]),
    ("client_weights", {"a": 1}),
    ("client_weights", 1.0),
    ("norm", "l3"),
    ("norm", 2),
    ("solver", "simplex"),
    ("rho", 0.0),
    ("rho", "balanced"),
    ("tol", -1e-3),
    ("tol", np.nan),
    ("n_rounds", 0),
    ("n_rounds", 2.5),
    ("n_rounds", None),
    ("fit_intercept", "yes"),
    ("n_jobs", "all"),
]


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS, ids=[f"{n}={v!r}" for n, v in BAD_PARAMETERS])
def test_bad_parameter_is_named(federation, name, value):
    X, y, groups = federation
    model = FedDROClassifier(**{name: value})  # the constructor does not complain
    with pytest.raises(ValueError, match=name):
        model.fit(X, y, groups)


@pytest.mark.parametrize(
    "groups",
    [np.arange(89), np.zeros((90, 2)), np.r_[np.nan, np.zeros(89)], [1, "a"] * 45, [None] * 90, "a", 3],
    ids=["length", "two columns", "NaN", "mixed", "None", "a string", "a number"],
)
def test_bad_groups_are_named(federation, groups):
    X, y, _ = federation
    with pytest.raises(ValueError, match="groups"):
        FedDROClassifier().fit(X, y, groups)


@pytest.mark.parametrize(
    "weight",
    [np.r_[-1.0, np.ones(89)], np.zeros(90), np.ones(89), np.ones((90, 2)), np.r_[np.nan, np.ones(89)], ["x"] * 90],
    ids=["negative", "all zero", "length", "two columns", "NaN", "strings"],
)
def test_bad_sample_weight_is_named(federation, weight):
    X, y, groups = federation
    with pytest.raises(ValueError, match="sample_weight"):
        FedDROClassifier().fit(X, y, groups, sample_weight=weight)


def test_one_class_is_refused(federation):
    X, y, groups = federation
    with pytest.raises(ValueError, match=r"two classes in y; got one class \(0.0\). Pass the records"):
        FedDROClassifier().fit(X, np.zeros(len(y)), groups)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_features_are_refused(federation, value):
    X, y, groups = federation
    bad = X.copy()
    bad[3, 1] = value
    with pytest.raises(ValueError, match="Input X contains"):
        FedDROClassifier().fit(bad, y, groups)
    model = FedDROClassifier(tol=1e-2).fit(X, y, groups)
    with pytest.raises(ValueError, match="Input X contains"):
        model.predict(bad)


def test_sparse_features_are_refused(federation):
    X, y, groups = federation
    with pytest.raises(TypeError, match="Sparse data"):
        FedDROClassifier().fit(sparse.csr_array(X), y, groups)


def test_continuous_labels_are_refused(federation):
    X, _, groups = federation
    with pytest.raises(ValueError, match="continuous"):
        FedDROClassifier().fit(X, X[:, 0], groups)
