"""PrivateSearchCV and composed_cost: what they promise, what they hide, what they refuse."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterSampler
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from skdro import DPFedDROClassifier, FedDROClassifier
from skdro.exceptions import PrivacyLeakWarning, SingleClientWarning
from skdro.model_selection import PrivateSearchCV, _trials, composed_cost
from skdro.model_selection._trials import at_cost, held_out, noisy_accuracy
from skdro.preprocessing import RowNormClipper
from skdro.privacy import BudgetAccountant
from skdro.privacy.mechanism import release
from skdro.privacy.noise import OSNoise, StreamNoise
from skdro.privacy.random_stopping import TruncatedNegativeBinomial

seeded = pytest.mark.filterwarnings("ignore:random_state is set:skdro.exceptions.PrivacyLeakWarning")
GRID = {"c_model": [0.1, 1.0, 10.0], "radius": [0.0, 0.1]}


def search(candidates=GRID, inner=None, **parameters):
    inner = {"classes": [0, 1, 2], "n_rounds": 3, "aggregation": "trusted", **(inner or {})}
    return PrivateSearchCV(DPFedDROClassifier(**inner), candidates, **parameters)


@pytest.fixture
def trials(monkeypatch):
    """Every trial of the searches in a test."""
    made = []

    def counted(*args):
        made.append(sound(*args))
        return made[-1]

    sound = _trials.trial
    monkeypatch.setattr("skdro.model_selection._private_search.trial", counted)
    return made


@pytest.mark.parametrize("n_candidates", [1, 7])
@pytest.mark.parametrize("n_splits", [2, 5])
def test_composed_cost_counts_every_fit_that_a_record_is_in(n_candidates, n_splits):
    fits = [fold for _ in range(n_candidates) for fold in range(n_splits) if fold != 0]  # a record in fold 0
    assert composed_cost(n_candidates, n_splits, 0.3) == pytest.approx(0.3 * np.sqrt(len(fits) + 1))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((0, 5, 1.0), "n_candidates"), ((3, 1, 1.0), "n_splits"), ((3, 2.5, 1.0), "n_splits"), ((3, 5, -1.0), "mu")],
)
def test_composed_cost_refuses_nonsense(arguments, named):
    with pytest.raises(ValueError, match=named):
        composed_cost(*arguments)


# ---------------------------------------------------------------- what a search is


def test_attributes_and_predictions_are_the_winners(federation):
    X, y, groups = federation
    model = search()
    assert model.fit(X, y, groups=groups) is model
    assert model.best_params_ in list(sklearn.model_selection.ParameterGrid(GRID))
    assert model.best_estimator_.get_params().items() >= model.best_params_.items()
    assert np.array_equal(model.predict(X), model.best_estimator_.predict(X))
    assert np.array_equal(model.decision_function(X), model.best_estimator_.decision_function(X))
    assert model.classes_.tolist() == [0, 1, 2] and model.n_features_in_ == 3
    assert model.best_estimator_.clients_.tolist() == ["a", "b", "c", "d"]
    assert 0 <= model.score(X, y) <= 1
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


def test_the_best_noisy_score_wins_and_losers_leave_no_trace(federation, trials):
    X, y, groups = federation
    model = search(n_trials=10.0).fit(X, y, groups=groups)
    while len(trials) < 3:
        trials.clear()
        model = search(n_trials=10.0).fit(X, y, groups=groups)
    best = max(trials, key=lambda one: one.score)
    assert model.best_score_ == best.score and model.best_estimator_ is best.estimator
    fitted = {name for name in vars(model) if name.endswith("_")}
    assert fitted == {"best_estimator_", "best_params_", "best_score_", "privacy_", "classes_", "n_features_in_"}
    assert fitted | set(model.get_params(deep=False)) == set(vars(model))
    text = pickle.dumps(model)
    for loser in trials:
        hidden = loser.estimator.coef_.tobytes() in text or np.float64(loser.score).tobytes()[::-1] in text
        assert hidden == (loser is best)


class Fixed:
    """A model that needs no fit and predicts zeros."""

    adjacency = "replace_one"

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y, groups=None):
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_candidates_are_drawn_alike_and_the_number_of_trials_by_its_law(federation, monkeypatch):
    X, y, groups = federation
    data, noise = (X, y, groups, X, y), OSNoise()
    drawn = [_trials.trial([(k, Fixed()) for k in range(5)], data, 0.1, n, noise).parameters for n in range(2000)]
    assert np.abs(np.bincount(drawn) - 400).max() < 5 * np.sqrt(2000 * 0.2 * 0.8)

    counts = []
    monkeypatch.setattr(
        "skdro.model_selection._private_search.trial",
        lambda models, data, mu, number, noise: counts.append(number) or _trials.Trial(Fixed(), {}, 0.0),
    )
    for _ in range(40):
        search({"radius": [0.0]}, n_trials=4.0, eta=1.0).fit(X, y, groups=groups)
    spread = np.sqrt((np.arange(1, 500) - 4.0) ** 2 @ TruncatedNegativeBinomial.with_mean(4.0, 1.0).pmf(499))
    assert abs(len(counts) / 40 - 4.0) < 5 * spread / np.sqrt(40)
    assert 0.2 * 40 < counts.count(1) <= 40 and counts.count(0) == 40  # K = 1 has probability 1/4


def test_a_search_finds_what_works(federation):
    X, y, groups = federation
    bad = {"classes": [0, 1, 2], "feature_bounds": ([-4.0] * 3, [5.0] * 3), "n_rounds": 20}
    chosen = [
        search([{"c_model": 1e-12}, {"c_model": 3.0}, {"kappa": 0.01}], bad, epsilon=500.0, n_trials=25.0, eta=1.0)
        .fit(X, y, groups=groups)
        .best_params_
        for _ in range(3)
    ]
    assert chosen.count({"c_model": 3.0}) >= 2


def test_candidates_one_by_one(federation):
    X, y, groups = federation
    listed = list(ParameterSampler({"c_model": np.geomspace(0.1, 10, 50)}, 4, random_state=0))
    assert search(listed).fit(X, y, groups=groups).best_params_ in listed


# ---------------------------------------------------------------- what it costs


@pytest.mark.parametrize("holdout", [0.0, 0.3])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0])
def test_each_trial_costs_what_the_report_says(federation, monkeypatch, holdout, adjacency, epsilon):
    X, y, groups = federation
    fits, scores = [], []
    sound_fit = DPFedDROClassifier.fit

    def fit(self, X, y, groups=None):
        sound_fit(self, X, y, groups=groups)
        fits.append(self.privacy_)
        return self

    def scored(exact, **rest):
        scores.append((exact.copy(), rest["sensitivity"] / (rest["multiplier"] * rest["sensitivity"])))
        assert rest["sensitivity"] == pytest.approx(1 / n_scored)
        return release(exact, **rest)

    monkeypatch.setattr(DPFedDROClassifier, "fit", fit)
    monkeypatch.setattr(_trials, "release", scored)
    index = np.unique(groups, return_inverse=True)[1]
    n_scored = held_out(index, holdout).sum() if holdout else len(X)
    model = search(inner={"adjacency": adjacency}, epsilon=epsilon, delta=1e-6, holdout=holdout)
    model.fit(X, y, groups=groups)
    report = model.privacy_
    assert len(fits) == len(scores) > 0
    for fitted, (_, mu_score) in zip(fits, scores, strict=True):
        mu_model = np.sqrt(max(event.count * (event.sensitivity / event.sigma) ** 2 for event in fitted.events))
        assert mu_score == pytest.approx(report.mu_score) and mu_model <= report.mu_model
        total = max(mu_model, mu_score) if holdout else np.hypot(mu_model, mu_score)
        assert total <= report.mu * (1 + 1e-12) and total == pytest.approx(report.mu, rel=1e-6)
    assert report.private and report.adjacency == adjacency
    assert report.rederive_epsilon() == report.epsilon
    assert 0.999999 * epsilon < report.epsilon <= epsilon
    assert model.best_estimator_.privacy_ is report
    assert report == model.privacy_plan(np.full_like(X, np.nan), groups)
    assert json.loads(json.dumps(report.to_dict()))["private"] is True
    assert f"({epsilon:.6g}, 1e-06)" in repr(report)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.999])
def test_held_out_rows_depend_on_the_public_map_alone(share):
    index = np.random.default_rng(0).integers(0, 4, 200)
    mask = held_out(index, share)
    for client in range(4):
        assert mask[index == client].sum() == int(share * np.sum(index == client))
    assert np.array_equal(mask, held_out(index.copy(), share))


def test_a_record_is_in_the_fit_or_in_the_score(federation, monkeypatch):
    """With a hold-out, a scored record moves no fit and a fitted one no score; otherwise both are on all rows."""
    X, y, groups = federation
    X[:, 0] = np.arange(len(X))
    for holdout in (0.25, 0.0):
        seen = []
        monkeypatch.setattr(
            "skdro.model_selection._private_search.trial",
            lambda models, data, *rest, seen=seen: seen.append(data) or _trials.trial(models, data, *rest),
        )
        search(holdout=holdout).fit(X, y, groups=groups)
        fitted, scored = set(seen[0][0][:, 0]), set(seen[0][3][:, 0])
        assert len(fitted | scored) == len(X)
        assert not fitted & scored if holdout else fitted == scored
        assert set(seen[0][2]) == set("abcd")


def test_the_scores_noise_is_calibrated():
    hits = np.arange(50) < 30
    noise = StreamNoise(0)
    scores = [noisy_accuracy(hits, 0.5, "replace_one", number, noise, []) for number in range(4000)]
    assert np.std(scores) == pytest.approx(1 / (50 * 0.5), rel=0.06) and np.mean(scores) == pytest.approx(
        0.6, abs=4e-3
    )


def test_a_ledger_takes_a_search_from_a_declared_budget(federation):
    X, y, groups = federation
    accountant = BudgetAccountant(3.0, 1e-5, declared={"search": (1.0, 1e-6)})
    with pytest.raises(ValueError, match="trial of a search"):
        accountant.fit(search(epsilon=1.0, delta=1e-6), X, y, groups=groups)
    accountant.fit(search(epsilon=1.0, delta=1e-6), X, y, groups=groups, declared="search")
    assert accountant.charges[0].declared == "search"


def test_at_cost_keeps_to_the_cost():
    for mu in (1e-3, 0.1, 1.0, 30.0):
        plan = at_cost(DPFedDROClassifier(classes=[0, 1]), mu).privacy_plan(np.zeros((50, 2)))
        assert mu * (1 - 1e-7) < plan.mu <= mu


# ---------------------------------------------------------------- what it refuses, and what it warns of


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (
            lambda: PrivateSearchCV(FedDROClassifier(), {"radius": [0.1]}),
            r"estimator must be .* got FedDROClassifier",
        ),
        (lambda: search({}), "candidates"),
        (lambda: search([]), "candidates"),
        (lambda: search("c_model"), "candidates"),
        (lambda: search({"epsilon": [1.0, 2.0]}), "epsilon"),
        (lambda: search([{"c_model": 1.0}, {"classes": [0, 1]}]), "classes"),
        (lambda: search({"adjacency": ["zero_out"]}), "adjacency"),
        (lambda: search({"no_parameter": [1]}), "no_parameter"),
        (lambda: search({"c_model": [1.0, -1.0]}), "c_model"),
        (lambda: search(inner={"diagnostics": "not-private"}), "diagnostics"),
        (lambda: search(epsilon=0.0), "epsilon"),
        (lambda: search(delta=1.0), "delta"),
        (lambda: search(n_trials=1.0), "n_trials"),
        (lambda: search(eta=-1.0), "eta"),
        (lambda: search(holdout=1.0), "holdout"),
        (lambda: search(holdout=1e-6), "holdout keeps no row"),
        (lambda: search(score_share=0.0), "score_share"),
    ],
)
def test_bad_settings_are_named_before_any_trial(federation, trials, make, named):
    X, y, groups = federation
    with pytest.raises(ValueError, match=named):
        make().fit(X, y, groups=groups)
    assert trials == []


def messages(model, X, y, groups):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, groups=groups)
    assert all(warning.filename == __file__ for warning in caught)
    return [(warning.category, str(warning.message).split()[0]) for warning in caught]


def test_warnings_come_once_and_name_what_leaks(federation):
    X, y, groups = federation
    leak = PrivacyLeakWarning
    assert messages(search(), X, y, groups) == []
    assert messages(search(random_state=0), X, y, groups) == [(leak, "random_state")]
    assert messages(search(inner={"random_state": 0}), X, y, groups) == [(leak, "random_state")]
    assert messages(search(inner={"classes": None}), X, y, groups) == [(leak, "classes")]
    assert messages(search(delta=0.5), X, y, groups) == [(leak, "delta")]
    assert messages(search(), X, y, None) == [(SingleClientWarning, "PrivateSearchCV")]


@seeded
def test_a_seed_repeats_the_search_and_takes_the_claim_away(federation):
    X, y, groups = federation
    fits = [search(random_state=seed).fit(X, y, groups=groups) for seed in (3, 3, 4)]
    assert np.array_equal(fits[0].best_estimator_.coef_, fits[1].best_estimator_.coef_)
    assert fits[0].best_score_ == fits[1].best_score_ != fits[2].best_score_
    report = fits[0].privacy_
    assert not report.private and report.epsilon is None and report.nominal_epsilon == pytest.approx(1.0)
    assert "NOT PRIVATE" in repr(report)


@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
def test_classes_from_labels_are_an_assumption(federation):
    X, y, groups = federation
    model = search(inner={"classes": None}).fit(X, y, groups=groups)
    assert model.privacy_.assumes == ["classes"] and model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="classes"):
        model.privacy_plan(X, groups)


def test_bad_records_are_shown_to_nobody(federation, trials):
    X, y, groups = federation
    spoilt = X.astype(object)
    spoilt[3, 1] = "HIV-positive"
    with pytest.raises(ValueError) as caught:
        search().fit(spoilt, y, groups=groups)
    assert "HIV" not in str(caught.value)
    with pytest.raises(ValueError, match="outside classes"):
        search().fit(X, y + 1, groups=groups)
    assert trials == []


# ---------------------------------------------------------------- scikit-learn's manners


def test_frames_and_routing(federation):
    X, y, groups = federation
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = search().fit(frame, y, groups=groups)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    model.predict(frame), model.best_estimator_.predict(frame)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(RowNormClipper(), search()).fit(X, y, groups=groups)
    assert pipe[-1].best_estimator_.clients_.tolist() == ["a", "b", "c", "d"]
    nested = search().set_params(estimator__n_rounds=2, epsilon=2.0)
    assert clone(nested).estimator.n_rounds == 2


@pytest.mark.filterwarnings("ignore::skdro.exceptions.SingleClientWarning")
@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
def test_scikit_learn_checks():
    model = PrivateSearchCV(DPFedDROClassifier(n_rounds=10), {"c_model": [1.0, 3.0]}, epsilon=100.0, n_trials=2.0)
    results = check_estimator(model, legacy=True, on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] not in ("passed", "skipped")}
    assert failed == {}
    assert len(results) > 50
