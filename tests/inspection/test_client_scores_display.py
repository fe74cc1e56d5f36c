"""ClientScoresDisplay: each bar is a client's score, and the frame is around the worst."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import mean_squared_error

from skdro.inspection import ClientScoresDisplay

Y = np.array([0, 1, 0, 1, 0, 1])
CLIENT = np.array(["b", "b", "a", "a", "a", "a"])


def framed(display, model):
    """Index of the bars with a thick frame."""
    return [k for k, bar in enumerate(display.bars_[model]) if bar.get_linewidth() > 1.5]


def test_bars_are_the_clients_scores():
    predictions = {"good": np.array([0, 1, 0, 1, 0, 0]), "bad": np.array([1, 1, 0, 1, 0, 1])}
    display = ClientScoresDisplay.from_predictions(Y, predictions, CLIENT)
    heights = {name: [bar.get_height() for bar in bars] for name, bars in display.bars_.items()}
    assert heights == {"good": [0.75, 1.0, pytest.approx(5 / 6)], "bad": [1.0, 0.5, pytest.approx(5 / 6)]}
    assert display.worst_ == {"good": "a", "bad": "b"}
    assert framed(display, "good") == [0] and framed(display, "bad") == [1]
    ax = display.ax_
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b", "all rows"]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["good", "bad", "worst client"]
    assert ax.get_ylabel() == "accuracy score"
    # the bars of a client stand side by side
    left = [bars[0].get_x() for bars in display.bars_.values()]
    assert left[0] + display.bars_["good"][0].get_width() <= left[1]


def test_the_worst_loss_is_the_largest():
    display = ClientScoresDisplay.from_predictions(
        Y.astype(float), np.eye(6)[1], CLIENT, metric=mean_squared_error, greater_is_better=False
    )
    assert display.worst_ == {"predictions": "a"} and framed(display, "predictions") == [0]
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == ["worst client"]


def test_from_estimator_takes_one_or_several():
    X = np.zeros((6, 1))
    one = DummyClassifier(strategy="constant", constant=1).fit(X, Y)
    assert list(ClientScoresDisplay.from_estimator(one, X, Y, CLIENT).bars_) == ["DummyClassifier"]
    _, ax = plt.subplots()
    both = ClientScoresDisplay.from_estimator({"x": one, "y": one}, X, Y, CLIENT, metric="balanced_accuracy", ax=ax)
    assert both.ax_ is ax and ax.get_ylabel() == "balanced accuracy"
    assert [bar.get_height() for bar in both.bars_["y"]] == [0.5, 0.5, 0.5]


def test_repeats_have_error_bars():
    display = ClientScoresDisplay.from_scores({"m": {7: [0.1, 0.3], 12: [0.5, 0.5]}}, score_name="loss")
    assert [bar.get_height() for bar in display.bars_["m"]] == pytest.approx([0.2, 0.5])
    (bar7, bar12) = display.bars_["m"].errorbar.lines[2][0].get_segments()
    assert np.ptp(bar7[:, 1]) / 2 == pytest.approx(np.std([0.1, 0.3], ddof=1)) and np.ptp(bar12[:, 1]) == 0
    assert display.worst_ == {"m": 7}


def test_many_clients_have_slanted_labels():
    display = ClientScoresDisplay.from_scores({"m": {k: 0.5 for k in range(9)}})
    assert {label.get_rotation() for label in display.ax_.get_xticklabels()} == {30.0}


def test_what_is_wrong_is_named():
    for bad in ({}, {"m": {}}, {"m": {"a": 1.0}, "n": {"b": 1.0}}):
        with pytest.raises(ValueError, match="a score of each of the same clients"):
            ClientScoresDisplay.from_scores(bad)
    with pytest.raises(ValueError, match="overall must have a score of each model"):
        ClientScoresDisplay.from_scores({"m": {"a": 1.0}}, overall={})
    with pytest.raises(ValueError, match="named scorers have their sign"):
        ClientScoresDisplay.from_estimator(DummyClassifier(), [[0]], [0], ["a"], greater_is_better=False)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ClientScoresDisplay.from_predictions(Y, Y[:5], CLIENT)


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"skdro\[plot\]"):
        ClientScoresDisplay.from_predictions(Y, Y, CLIENT)
