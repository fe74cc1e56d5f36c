"""scikit-learn's callbacks: one task a round, honest stops, models that predict in between."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from skdro import DPFedDROClassifier, FedDROClassifier
from skdro.exceptions import PrivacyLeakWarning


class Recording:
    """Notes each hook; asks to stop at the end of round `stop_at` (counted from 1)."""

    def __init__(self, stop_at=None):
        self.stop_at, self.log, self.fitted, self.seen = stop_at, [], [], []

    def setup(self, estimator, context):
        self.log.append("setup")

    def teardown(self, estimator, context):
        self.log.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.log.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.log.append(("end", context.task_name, context.task_id))
        self.fitted.append(fitted_estimator)
        self.seen.append((X, y, metadata))
        return context.task_name == "round" and context.task_id + 1 == self.stop_at

    def tasks(self, event, name="round"):
        return [entry[2] for entry in self.log if entry[:2] == (event, name)]


@pytest.fixture
def recorded(federation):
    recording = Recording()
    model = FedDROClassifier(0.05, 2.0, n_rounds=7, tol=0).set_callbacks(recording)
    return model.fit(*federation), recording


def test_one_task_a_round(recorded):
    model, recording = recorded
    assert model.n_iter_ == 7
    assert recording.tasks("begin") == list(range(7))
    assert recording.tasks("end") == list(range(7))


def test_hooks_come_in_order(recorded):
    _, recording = recorded
    log = recording.log
    assert (log[0], log[-1]) == ("setup", "teardown")
    assert log[1][0] == "begin"
    assert log[-2][0] == "end"
    assert log[1][1:] == log[-2][1:]  # the fit itself
    assert [entry[0] for entry in log[2:-2]] == ["begin", "end"] * 7


def test_model_in_between_predicts_and_is_that_of_its_round(recorded, federation):
    X, y, groups = federation
    _, recording = recorded
    shorter = FedDROClassifier(0.05, 2.0, n_rounds=3, tol=0, rho="auto").fit(X, y, groups)
    third = recording.fitted[2]
    assert third is not recorded[0]
    np.testing.assert_allclose(third.decision_function(X), shorter.decision_function(X), atol=1e-9)
    assert third.predict(X).shape == y.shape
    assert not np.allclose(recording.fitted[0].coef_, third.coef_, atol=1e-3)
    np.testing.assert_array_equal(recording.fitted[6].coef_, recorded[0].coef_)


def test_callbacks_do_not_change_the_model(recorded, federation):
    plain = FedDROClassifier(0.05, 2.0, n_rounds=7, tol=0).fit(*federation)
    assert recorded[0].coef_.tobytes() == plain.coef_.tobytes()


def test_callbacks_see_the_data(recorded, federation):
    X, y, _ = federation
    for seen_X, seen_y, _ in recorded[1].seen:
        assert np.array_equal(seen_X, X)
        assert np.array_equal(seen_y, y)


def test_callbacks_see_sample_weight(federation):
    X, y, groups = federation
    recording, weight = Recording(), np.arange(1.0, 91.0)
    FedDROClassifier(n_rounds=2, tol=0).set_callbacks(recording).fit(X, y, groups, sample_weight=weight)
    assert all(np.array_equal(metadata["sample_weight"], weight) for *_, metadata in recording.seen)


def test_stop_is_honoured_and_no_warning_follows(federation):
    recording = Recording(stop_at=3)
    model = FedDROClassifier(0.05, 2.0, n_rounds=50).set_callbacks(recording).fit(*federation)
    assert model.n_iter_ == 3
    assert recording.tasks("end") == [0, 1, 2]
    assert {len(column) for column in model.history_.values()} == {3}
    assert recording.log[-1] == "teardown"
    shorter = FedDROClassifier(0.05, 2.0, n_rounds=3, tol=0).fit(*federation)
    assert model.coef_.tobytes() == shorter.coef_.tobytes()


def test_rounds_end_by_tolerance_within_the_announced_number(federation):
    recording = Recording()
    model = FedDROClassifier(0.05, 2.0, tol=0.01).set_callbacks(recording).fit(*federation)
    assert 1 < model.n_iter_ < 200
    assert recording.tasks("end") == list(range(model.n_iter_))


def test_scoring_monitor_logs_the_score_of_each_round(federation):
    X, y, groups = federation
    monitor = ScoringMonitor(scoring="accuracy")
    model = FedDROClassifier(0.05, 2.0, n_rounds=5, tol=0).set_callbacks(monitor).fit(X, y, groups)
    rounds = [row for row in monitor.get_logs().data if row["task_name"] == "round"]
    assert [row["task_id"] for row in rounds] == list(range(5))
    assert rounds[-1]["accuracy"] == np.mean(model.predict(X) == y)
    first = FedDROClassifier(0.05, 2.0, n_rounds=1, tol=0).fit(X, y, groups)
    assert rounds[0]["accuracy"] == first.score(X, y)


def test_scoring_monitor_with_named_features(federation):
    X, y, groups = federation
    frame = pd.DataFrame(X, columns=["one", "two", "three"])
    monitor = ScoringMonitor(scoring="accuracy")
    model = FedDROClassifier(n_rounds=3, tol=0).set_callbacks(monitor).fit(frame, y, groups)
    rounds = [row for row in monitor.get_logs().data if row["task_name"] == "round"]
    assert rounds[-1]["accuracy"] == model.score(frame, y)


def test_scoring_monitor_with_sample_weight(federation):
    X, y, groups = federation
    weight = np.arange(1.0, 91.0)
    monitor = ScoringMonitor(scoring="accuracy")
    model = FedDROClassifier(n_rounds=3, tol=0).set_callbacks(monitor)
    model.fit(X, y, groups, sample_weight=weight)
    rounds = [row for row in monitor.get_logs().data if row["task_name"] == "round"]
    assert rounds[-1]["accuracy"] == pytest.approx(weight @ (model.predict(X) == y) / weight.sum())


def test_progress_bar_runs(federation, capsys):
    pytest.importorskip("rich")
    FedDROClassifier(n_rounds=4, tol=0).set_callbacks(ProgressBar()).fit(*federation)
    assert "FedDROClassifier" in capsys.readouterr().out


def test_scoring_monitor_of_a_search_sees_the_rounds_of_each_fit(federation):
    X, y, groups = federation
    monitor = ScoringMonitor(scoring="accuracy")
    model = FedDROClassifier(n_rounds=3, tol=0).set_callbacks(monitor)
    search = GridSearchCV(model, {"radius": [0.01, 0.1]}, cv=StratifiedKFold(2), error_score="raise")
    with config_context(enable_metadata_routing=True):
        search.fit(X, y, groups=groups)
    rounds = [row for log in monitor.get_logs(select="all") for row in log.data if row["task_name"] == "round"]
    assert len(rounds) == 3 * (2 * 2 + 1)


@pytest.mark.parametrize("diagnostics", [None, "not-private"])
def test_models_of_the_clients_are_there_after_every_round(federation, diagnostics):
    recording = Recording()
    model = DPFedDROClassifier(
        classes=[0, 1, 2], variant="paper", n_rounds=4, random_state=0, diagnostics=diagnostics
    ).set_callbacks(recording)
    with pytest.warns(PrivacyLeakWarning):
        model.fit(*federation)
    rounds = [fitted.client_coef_ for fitted in recording.fitted[:4]]
    assert len({coef.tobytes() for coef in rounds}) == 4
    np.testing.assert_array_equal(rounds[-1], model.client_coef_)
