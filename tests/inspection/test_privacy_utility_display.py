"""PrivacyUtilityDisplay: mean and standard error of the scores, and a sweep that keeps test rows out of the fits."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.stats import sem
from sklearn.dummy import DummyClassifier

from skdro import DPFedDROClassifier, DPFedERMClassifier, FedDROClassifier
from skdro.inspection import PrivacyUtilityDisplay

PRIVATE = DPFedERMClassifier(classes=[0, 1, 2], n_rounds=3)


def test_mean_band_and_references():
    table = np.array([[0.7, 0.9, 0.8], [0.5, 0.5, 0.8]])
    display = PrivacyUtilityDisplay.from_results(
        [4.0, 1.0], {"a": table, "b": [0.9, 0.8]}, references={"open": 0.95}, score_name="f1_macro", delta=1e-6
    )
    line = display.lines_["a"]
    assert line.get_xdata().tolist() == [1.0, 4.0]  # sorted for the line
    np.testing.assert_allclose(line.get_ydata(), table.mean(axis=1)[::-1])
    (band,) = display.ax_.collections  # one repeat has no band
    corners = band.get_paths()[0].vertices
    at_four = corners[np.isclose(corners[:, 0], 4.0), 1]
    np.testing.assert_allclose([at_four.min(), at_four.max()], 0.8 + sem(table[0]) * np.array([-1, 1]))
    assert set(display.lines_["open"].get_ydata()) == {0.95}
    ax = display.ax_
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("total epsilon (delta = 1e-06)", "f1 macro")
    assert ax.get_xscale() == "log" and [t.get_text() for t in ax.get_xticklabels()] == ["4", "1"]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["a", "b", "open"]


def test_one_curve_needs_no_legend():
    _, ax = plt.subplots()
    display = PrivacyUtilityDisplay.from_results([1.0], [0.5], ax=ax)
    assert display.ax_ is ax and ax.get_legend() is None and ax.get_xlabel() == "total epsilon"


class Recorder(DummyClassifier):
    """Remembers what it was fitted on and scored on; knows epsilon."""

    def __init__(self, epsilon=1.0, strategy="prior", random_state=None, constant=None):
        super().__init__(strategy=strategy, random_state=random_state, constant=constant)
        self.epsilon = epsilon

    def fit(self, X, y, groups=None):
        SEEN.append((self.epsilon, np.ravel(X), np.asarray(groups)))
        return super().fit(X, y)

    def score(self, X, y):
        TESTED.append(np.ravel(X))
        return self.epsilon


SEEN, TESTED = [], []


def test_a_sweep_splits_each_client_and_fits_at_each_epsilon():
    SEEN.clear(), TESTED.clear()
    groups = np.repeat(["large", "small"], [40, 8])
    X, y = np.arange(48.0)[:, None], np.arange(48) % 2
    display = PrivacyUtilityDisplay.from_estimators(
        Recorder(), X, y, groups, epsilons=[1.0, 2.0, 3.0], n_repeats=2, random_state=0
    )
    assert [epsilon for epsilon, *_ in SEEN] == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    np.testing.assert_array_equal(display.scores["Recorder"], [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    for (_, train, clients), test in zip(SEEN, TESTED, strict=True):
        assert sorted([*train, *test]) == list(range(48))
        assert np.sum(clients == "small") == 6 and np.sum(clients == "large") == 30
        np.testing.assert_array_equal(clients, groups[train.astype(int)])
    # the same splits at each epsilon, other ones in each repeat
    assert TESTED[0].tolist() == TESTED[2].tolist() == TESTED[4].tolist() != TESTED[1].tolist()


def test_a_seeded_sweep_can_be_repeated_and_says_nothing(federation):
    def sweep(random_state):
        return PrivacyUtilityDisplay.from_estimators(
            {"ridge": PRIVATE, "robust": DPFedDROClassifier(classes=[0, 1, 2], n_rounds=3)},
            *federation,
            epsilons=[0.5, 50.0],
            references={"not private": FedDROClassifier(0.01, tol=0.1)},
            n_repeats=2,
            scoring="neg_log_loss" if random_state is None else "f1_macro",
            random_state=random_state,
        )

    first, second = sweep(3), sweep(3)  # a PrivacyLeakWarning would be an error here
    assert list(first.scores) == ["ridge", "robust"] and list(first.references) == ["not private"]
    for name in first.scores:
        np.testing.assert_array_equal(first.scores[name], second.scores[name])
    assert first.references["not private"] > 0.6
    assert first.ax_.get_ylabel() == "f1 macro" and "delta = 1e-05" in first.ax_.get_xlabel()


def test_frames_and_lists(federation):
    X, y, groups = federation
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    display = PrivacyUtilityDisplay.from_estimators(
        PRIVATE, frame, list(y), list(groups), epsilons=[1.0], n_repeats=1, random_state=0
    )
    assert display.scores["DPFedERMClassifier"].shape == (1, 1)
    one_client = PrivacyUtilityDisplay.from_estimators(PRIVATE, X, y, epsilons=[1.0], n_repeats=1, random_state=0)
    assert 0 <= one_client.scores["DPFedERMClassifier"][0, 0] <= 1


def test_what_is_wrong_is_named(federation):
    for bad in ([], [0.0, 1.0], [[1.0]], [np.inf]):
        with pytest.raises(ValueError, match="epsilons must be a sequence of finite numbers > 0"):
            PrivacyUtilityDisplay.from_results(bad, [0.5])
    with pytest.raises(ValueError, match=r"scores of 'a' must have shape \(2,\) or \(2, n_repeats\).*\(3,\)"):
        PrivacyUtilityDisplay.from_results([1.0, 2.0], {"a": [1.0, 2.0, 3.0]})
    with pytest.raises(TypeError, match="one estimator or a mapping of them by name; got list"):
        PrivacyUtilityDisplay.from_estimators([PRIVATE], *federation)
    with pytest.raises(TypeError, match="FedDROClassifier has no parameter epsilon"):
        PrivacyUtilityDisplay.from_estimators(FedDROClassifier(), *federation)
    with pytest.raises(ValueError, match="n_repeats must be at least 1"):
        PrivacyUtilityDisplay.from_estimators(PRIVATE, *federation, n_repeats=0)


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"skdro\[plot\]"):
        PrivacyUtilityDisplay.from_results([1.0], [0.5])
