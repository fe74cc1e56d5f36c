"""WorstCaseDisplay: what is drawn is what nature did, and the picture keeps its frame."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from matplotlib.quiver import Quiver

from skdro import DPFedDROClassifier, FedDROClassifier
from skdro.ambiguity.worst_case import WorstCase
from skdro.inspection import WorstCaseDisplay


@pytest.fixture
def display():
    """Three records: the first is flipped in part, the second moves a little, the third far up and left, in part."""
    X = np.array([[0.0, 5.0, 0.0], [1.0, 5.0, 0.0], [1.0, 5.0, 1.0]])
    worst = WorstCase(
        X=np.vstack([X[[0, 0]], [[1.0, 9.0, 0.1]], X[[2]], [[-99.0, 5.0, 101.0]]]),
        y=np.array(["no", "yes", "no", "yes", "yes"]),
        weight=np.array([0.2, 0.2, 0.2, 0.3, 0.1]),
        record=np.array([0, 0, 1, 2, 2]),
        flipped=np.array([False, True, False, False, False]),
        moved=np.array([False, False, True, False, True]),
        cost=1.0,
        risk=1.0,
    )
    return WorstCaseDisplay(worst, X, np.array(["no", "no", "yes"]), features=(0, 2))


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def rings(ax):
    return [c for c in ax.collections if len(c.get_offsets()) and c.get_facecolor().size == 0]


def test_flips_moves_and_exits_are_drawn_where_they_are(display):
    display.plot()
    ax = display.ax_
    assert display.figure_ is ax.figure
    assert legend(ax) == ["no", "yes", "moved", "moved out of the picture", "relabelled as the ring's class"]
    (ring,) = rings(ax)
    assert ring.get_offsets().tolist() == [[0.0, 0.0]]
    assert ring.get_edgecolor()[0, :3] == pytest.approx(to_rgba("C1")[:3])  # the new label's colour
    assert 0.5 < ring.get_edgecolor()[0, 3] < 0.8  # half of the record
    (arrows,) = [c for c in ax.collections if isinstance(c, Quiver)]
    assert arrows.XY.tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert np.c_[arrows.U, arrows.V][0] == pytest.approx([0.0, 0.1])
    # the far one stops at the upper border, on its way
    tip = arrows.XY[1] + [arrows.U[1], arrows.V[1]]
    assert tip == pytest.approx([0.88, 1.12])
    assert ax.get_ylim() == pytest.approx((-0.12, 1.12)) and ax.get_xlim() == pytest.approx((-0.12, 1.12))
    (exit_,) = [c for c in ax.collections if c.get_label() == "moved out of the picture"]
    assert np.asarray(exit_.get_offsets()[0]) == pytest.approx(tip)
    whole, quarter = arrows.get_facecolor()[:, 3]
    assert whole == pytest.approx(1.0)
    assert exit_.get_facecolor()[0, 3] == quarter < 0.5


def test_an_own_axes_and_a_second_picture(display):
    _, axes = plt.subplots(1, 2)
    assert display.plot(ax=axes[0]) is display
    assert display.ax_ is axes[0]
    assert display.plot(ax=axes[1]).ax_ is axes[1]
    assert axes[0].get_xlabel() == "feature 0" and axes[0].get_ylabel() == "feature 2"


def test_moves_in_hidden_features_have_no_arrow(display):
    display.features = (1, 0)
    display.worst_case.moved[4] = False
    display.worst_case.X[2] = [1.0, 5.0, 7.0]
    display.plot()
    assert not [c for c in display.ax_.collections if isinstance(c, Quiver)]


def test_from_estimator_draws_the_estimators_worst_case(federation):
    X, y, groups = federation
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    model = FedDROClassifier(0.05, 0.5, tol=0.05, rho=0.2).fit(frame, y, groups)
    display = WorstCaseDisplay.from_estimator(model, frame, y, groups, features=(2, 0))
    worst = model.worst_case_distribution(frame, y, groups)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("w", "u")
    assert worst.flipped.any()
    (ring,) = rings(display.ax_)
    assert np.asarray(ring.get_offsets()) == pytest.approx(X[worst.record[worst.flipped]][:, [2, 0]])
    display.figure_.canvas.draw()


def test_no_change_is_a_plain_scatter(federation):
    X, y, groups = federation
    model = FedDROClassifier(0.0, tol=0.05, rho=0.2).fit(X, y, groups)
    assert legend(WorstCaseDisplay.from_estimator(model, X, y, groups).ax_) == ["0", "1", "2"]


@pytest.mark.parametrize("features", [(0, 0), (0, 3), (-1, 0), (0,), (0, 1, 2), ("petal", "sepal"), (0.5, 1.5), 0])
def test_features_must_be_two_columns(display, features):
    display.features = features
    with pytest.raises(ValueError, match="features must be two different columns of X"):
        display.plot()


def test_private_estimators_have_no_worst_case_to_show(federation):
    with pytest.raises(TypeError, match=r"DPFedDROClassifier has no worst_case.* such as FedDROClassifier"):
        WorstCaseDisplay.from_estimator(DPFedDROClassifier(), *federation)


def test_missing_matplotlib_is_named(display, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"skdro\[plot\]"):
        display.plot()
