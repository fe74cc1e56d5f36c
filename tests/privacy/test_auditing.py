"""`audit` and `membership_inference` on the real estimators, and on estimators with planted faults."""

import numpy as np
import pytest

from skdro import DPFedDROClassifier
from skdro.federation import frames
from skdro.preprocessing import clip_rows_into
from skdro.privacy import audit, membership, membership_inference
from skdro.privacy.noise import StreamNoise

N, P = 250, 200
X = 0.01 * np.random.default_rng(0).normal(size=(N, P))
Y, GROUPS = np.arange(N) % 2, np.zeros(N)
METHODS = {
    "local": {},
    "trusted": {"aggregation": "trusted"},
    "paper": {"variant": "paper", "c_model": 2.0},
    "three classes, a box": {"classes": [0, 1, 2], "feature_bounds": (-1.0, 1.0)},
}


def estimator(adjacency="replace_one", epsilon=1.0, cls=DPFedDROClassifier, **parameters):
    # a step that is set: the losses that are scored, and with them the bounds below, depend on the model's scale
    fixed = {"delta": 1e-5, "classes": [0, 1], "n_rounds": 1, "random_state": 0, "c_model": 3.0}
    settings = {**fixed, **parameters}
    return cls(epsilon=epsilon, adjacency=adjacency, **settings)


def audited(model, n_runs=1, **parameters):
    return audit(model, X, Y, GROUPS, n_canaries=P, n_runs=n_runs, random_state=1, **parameters)


def less_noise(factor):
    def plant(patch):
        sound = StreamNoise.__call__
        patch.setattr(StreamNoise, "__call__", lambda self, *args, **key: sound(self, *args, **key) / factor)

    return plant


def no_clipping(patch):
    patch.setattr(frames, "clip_rows_into", lambda X, max_norm, out: clip_rows_into(X, np.inf, out))


EACH_ADJACENCY = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


@EACH_ADJACENCY
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("random_state", [None, 0])
def test_sound_estimators_are_not_refuted(adjacency, method, random_state):
    model = estimator(adjacency, **{"random_state": random_state, "n_rounds": 3, **METHODS[method]})
    groups = np.arange(N) % 4
    result = audit(model, X, Y, groups, n_canaries=100, n_runs=2, random_state=1)
    assert not result.refuted and result.epsilon_lower < 0.9 < result.epsilon_claimed <= 1.0
    assert "not refuted" in repr(result) and result.scores.shape == result.truth.shape == (200,)
    assert not hasattr(model, "coef_")


@EACH_ADJACENCY
@pytest.mark.parametrize("fault", [no_clipping, less_noise(10)])
def test_one_run_flags_gross_faults(adjacency, fault, monkeypatch):
    assert not audited(estimator(adjacency)).refuted
    fault(monkeypatch)
    result = audited(estimator(adjacency))
    assert result.refuted and result.epsilon_lower > 2 and "REFUTED" in repr(result)


@EACH_ADJACENCY
def test_a_hundred_runs_flag_half_the_noise(adjacency, monkeypatch):
    """20 000 canaries at epsilon = 1; the sound code reaches .56 with as many."""
    sound = audited(estimator(adjacency), n_runs=100)
    assert 0.3 < sound.epsilon_lower < 0.8
    less_noise(2)(monkeypatch)
    assert audited(estimator(adjacency), n_runs=100).refuted


def test_one_run_does_not_see_half_the_noise(monkeypatch):
    """The limit that the documentation names."""
    less_noise(2)(monkeypatch)
    assert not audited(estimator()).refuted


def test_bound_grows_with_the_noise_that_is_missing(monkeypatch):
    bounds = [audited(estimator(epsilon=epsilon), n_runs=5).epsilon_lower for epsilon in (0.5, 2.0, 8.0)]
    assert bounds == sorted(bounds) and bounds[-1] > bounds[0] + 1


def test_guesses_are_the_clearest_scores():
    result = audited(estimator(epsilon=4.0), n_guesses=30)
    chosen = np.argsort(-np.abs(result.scores))[:30]
    assert result.n_right == np.sum((result.scores[chosen] > 0) == result.truth[chosen]) and result.n_guesses == 30
    assert result.largest_possible == pytest.approx(-np.log(0.05 ** (-1 / 30) - 1), rel=0.01)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [({"n_canaries": 0}, "n_canaries"), ({"n_canaries": N + 1}, "n_canaries"), ({"n_guesses": 101}, "n_guesses")],
)
def test_impossible_audits_are_refused(parameters, named):
    with pytest.raises(ValueError, match=named):
        audit(estimator(), X, Y, GROUPS, **parameters)


def test_other_estimators_are_refused():
    for attack in (audit, membership_inference):
        with pytest.raises(TypeError, match="privacy_plan"):
            attack(object(), X, Y)
        with pytest.raises(ValueError, match="classes"):
            attack(estimator(classes=None), X, Y, GROUPS)


@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
@EACH_ADJACENCY
@pytest.mark.parametrize("method", METHODS)
def test_null_records_are_counted_and_have_no_term(adjacency, method):
    """What a null record holds plays no part; the others do; and nothing of it stays behind in the estimator."""
    null = np.arange(N) < 100
    other_X, other_y = np.where(null[:, None], 5 - X, X), np.where(null, 1 - Y, Y)
    model = estimator(adjacency, **{"n_rounds": 3, **METHODS[method]})
    first = model.fit_with_null_records(X, Y, null, groups=GROUPS).coef_
    second = model.fit_with_null_records(other_X, other_y, null, groups=GROUPS).coef_
    assert np.array_equal(first, second)
    third = model.fit_with_null_records(1 + X, Y, null, groups=GROUPS).coef_
    assert not np.array_equal(first, third)
    plan = model.privacy_
    assert not np.array_equal(model.fit(X, Y, groups=GROUPS).coef_, first) and model.privacy_ == plan


# ---------------------------------------------------------------- membership


class Overfit(DPFedDROClassifier):
    """The fault of a model that is trained on the data outside of the mechanism: it remembers its records."""

    def fit(self, X, y, groups=None):
        super().fit(X, y, groups=groups)
        M = np.linalg.pinv(X) @ np.where(y == 1, 1.0, -1.0)
        self.coef_ = self.coef_ + 1e3 * M[None]
        return self


def test_membership_of_a_sound_fit_is_within_the_guarantee():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(N, 20))
    result = membership_inference(estimator(n_rounds=10), Z, Y, np.arange(N) % 3, random_state=0)
    assert not result.refuted and result.interval[0] < result.auc < result.interval[1] < 0.56
    assert 0.5 < result.largest_auc < result.largest_auc_one_target < 0.6
    assert "within" in repr(result) and result.scores.shape == result.truth.shape == (20 * N,)


def test_membership_finds_training_outside_of_the_mechanism():
    rng = np.random.default_rng(0)
    model = estimator(cls=Overfit, feature_bounds=(-9.0, 9.0))
    result = membership_inference(
        model,
        rng.normal(size=(N, P)),
        Y,
        GROUPS,
        n_runs=5,
        random_state=0,
    )
    assert result.refuted and result.interval[0] > 0.6 and "REFUTED" in repr(result)


def test_members_and_others_are_compared_within_clients_alone(monkeypatch):
    """Clients whose margins differ by much: across clients an AUC of 1 would say nothing about members."""
    monkeypatch.setattr(membership, "_margins", lambda model, X, y: X[:, 0])
    Z = np.random.default_rng(0).normal(size=(60, 2)) + 100 * (np.arange(60) < 40)[:, None]
    groups = (np.arange(60) < 40).astype(int)
    result = membership_inference(estimator(), Z, Y[:60], groups, n_runs=40, random_state=0)
    assert abs(result.auc - 0.5) < 0.05 and result.interval[0] < 0.5 < result.interval[1]


@pytest.mark.parametrize(
    ("parameters", "named"), [({"n_runs": 1}, "n_runs"), ({"confidence": 1.0}, "confidence"), ({}, "groups")]
)
def test_impossible_membership_attacks_are_refused(parameters, named):
    groups = np.arange(N) if named == "groups" else GROUPS
    with pytest.raises(ValueError, match=named):
        membership_inference(estimator(), X, Y, groups, **parameters)
