"""worst_case_distribution: in the user's units, client by client, on what predict would accept."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from skdro import FedDROClassifier
from skdro.estimators._base import LinearClassifier
from skdro.estimators._worst_case import WorstCaseMixin

ORDER = {"linf": np.inf, "l2": 2, "l1": 1}
RADIUS, KAPPA = {"a": 0.05, "b": 0.2, "c": 0.0, "d": 0.5}, {"a": 0.3, "b": np.inf, "c": 1.0, "d": 2.0}
ROUGH = {"tol": 0.05, "rho": 0.2}  # the adversary of any model will do


def expected_loss(model, worst):
    """Crammer-Singer loss of the atoms, from the model's own scores."""
    scores = model.decision_function(worst.X)
    if scores.ndim == 1:
        scores = np.c_[np.zeros(len(scores)), scores]
    own = np.searchsorted(model.classes_, worst.y)
    margins = scores + 1 - np.eye(scores.shape[1])[own]
    return worst.weight @ (margins.max(axis=1) - scores[np.arange(len(own)), own])


def spent(X, y, worst, norm, kappa):
    """Transport cost of each atom, without its weight."""
    moved = np.linalg.norm(worst.X - X[worst.record], ORDER[norm], axis=1)
    flipped = worst.y != y[worst.record]
    assert np.array_equal(flipped, worst.flipped)
    assert np.array_equal(moved > 0, worst.moved)
    return moved + np.where(flipped, kappa, 0.0)


@pytest.mark.parametrize("norm", sorted(ORDER))
@pytest.mark.parametrize("shift", [0.0, 50.0])
def test_each_client_has_its_own_budget_and_the_risk_is_the_fitted_one(federation, norm, shift):
    X, y, groups = federation
    X, names = 10 * X + shift, np.array(["x", "y", "z"])[y]
    radius, kappa = ({g: 10 * v for g, v in values.items()} for values in (RADIUS, KAPPA))
    weights = {"a": 1, "b": 2, "c": 3, "d": 4}
    model = FedDROClassifier(radius, kappa, norm, client_weights=weights, tol=0.05)
    model.fit(X, names, groups)
    worst = model.worst_case_distribution(X, names, groups)
    assert np.array_equal(worst.groups, groups[worst.record])
    total = 0.0
    for g, share in weights.items():
        mine = worst.groups == g
        price = np.where(worst.flipped, kappa[g], 0.0)
        cost = spent(X, names, worst, norm, price)[mine] @ worst.weight[mine] / (share / 10)
        assert worst.weight[mine].sum() == pytest.approx(share / 10, abs=1e-12)
        assert cost <= radius[g] * (1 + 1e-9)
        total += share / 10 * cost
    assert worst.cost == pytest.approx(total, rel=1e-9)
    assert worst.risk == pytest.approx(expected_loss(model, worst), rel=1e-9)
    risk = model.worst_case_risk_
    assert 0.999 * risk <= worst.risk <= risk * (1 + 1e-9)
    assert not np.any((worst.groups == "c") & (worst.flipped | worst.moved))  # no budget
    assert not np.any((worst.groups == "b") & worst.flipped)  # trusted labels


def test_binary_model_without_intercept(federation):
    X, y, groups = federation
    y = np.where(y == 2, "yes", "no")
    model = FedDROClassifier(0.02, 0.4, fit_intercept=False, client_weights="size", **ROUGH).fit(X, y, groups)
    worst = model.worst_case_distribution(X, y, groups)
    assert 0.999 * model.worst_case_risk_ <= expected_loss(model, worst) <= model.worst_case_risk_ * (1 + 1e-9)
    assert worst.weight @ spent(X, y, worst, "linf", 0.4) <= 0.02 * (1 + 1e-9)


def test_weights_count_like_copies(federation):
    X, y, groups = federation
    model = FedDROClassifier(0.1, 0.5, **ROUGH).fit(X, y, groups)
    copies = np.random.default_rng(0).integers(0, 4, len(X))
    copies[groups == "d"] = 0  # a client without mass is out
    weighted = model.worst_case_distribution(X, y, groups, sample_weight=copies)
    repeated = model.worst_case_distribution(*(np.repeat(a, copies, axis=0) for a in (X, y, groups)))
    assert weighted.risk == pytest.approx(repeated.risk, rel=1e-3)
    assert set(weighted.groups) == {"a", "b", "c"}
    assert np.all(copies[weighted.record] > 0)


def test_new_records_of_some_clients_and_data_frames(federation):
    X, y, groups = federation
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    model = FedDROClassifier(RADIUS, 2.0, **ROUGH).fit(frame, y, groups)
    some = np.isin(groups, ["b", "d"])
    worst = model.worst_case_distribution(frame[some] + 0.1, y[some], pd.Series(groups[some]))
    assert set(worst.groups) == {"b", "d"}
    for g in ("b", "d"):
        assert worst.weight[worst.groups == g].sum() == pytest.approx(0.5)


def test_one_client_needs_no_groups(federation):
    X, y, _ = federation
    model = FedDROClassifier(0.1, **ROUGH).fit(X, y, np.zeros(len(X)))
    assert model.worst_case_distribution(X, y).groups is None


def test_a_classifier_without_clients(federation):
    class Central(WorstCaseMixin, LinearClassifier):
        """What any pooled linear classifier brings."""

        radius, kappa, norm = 0.05, 0.5, "l2"

        def fit(self, X, y):
            fitted = FedDROClassifier(0.05, 0.5, "l2", **ROUGH).fit(X, y, np.zeros(len(X)))
            self.coef_, self.intercept_, self.classes_ = fitted.coef_, fitted.intercept_, fitted.classes_
            self.risk_, self.n_features_in_ = fitted.worst_case_risk_, X.shape[1]
            return self

    X, y, _ = federation
    model = Central().fit(X, y)
    worst = model.worst_case_distribution(X, y)
    assert worst.groups is None
    assert worst.risk == pytest.approx(model.risk_, rel=1e-3)
    assert worst.weight.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": lambda y, g: np.where(y == 0, 7, y)}, r"y has labels that are not in classes_: \[7\]"),
        ({"groups": lambda y, g: np.where(g == "a", "new", g)}, r"groups names clients.*\['new'\]"),
        ({"groups": lambda y, g: None}, "groups is needed: the model was fitted to 4 clients"),
        ({"groups": lambda y, g: g[:-1]}, "groups must have one client label a row"),
        ({"X": lambda y, g: np.zeros((len(y), 2))}, "X has 2 features"),
        ({"sample_weight": lambda y, g: -np.ones(len(y))}, "sample_weight must be non-negative"),
        ({"sample_weight": lambda y, g: np.zeros(len(y))}, "sample_weight is zero"),
    ],
)
def test_invalid_input_is_named(federation, change, message):
    X, y, groups = federation
    model = FedDROClassifier(**ROUGH).fit(X, y, groups)
    arguments = {"X": X, "y": y, "groups": groups} | {name: make(y, groups) for name, make in change.items()}
    with pytest.raises(ValueError, match=message):
        model.worst_case_distribution(**arguments)


def test_unfitted_is_refused(federation):
    X, y, groups = federation
    with pytest.raises(NotFittedError):
        FedDROClassifier().worst_case_distribution(X, y, groups)
