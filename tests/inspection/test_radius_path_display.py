"""RadiusPathDisplay: scores are those of the path's models, risks those of its certificates."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import balanced_accuracy_score

from skdro import DPMomentDROClassifier, WassersteinDROClassifier, radius_path
from skdro.inspection import RadiusPathDisplay

RADII = [0.005, 0.02, 0.05]


@pytest.fixture(params=["three classes", "two classes"])
def problem(request, federation):
    X, y, _ = federation
    return (X, np.array(["no", "yes", "so"])[y]) if request.param == "three classes" else (X, y > 0)


def test_a_path_predicts_as_its_models_do(problem):
    X, y = problem
    path = radius_path(X, y, RADII, tol=1e-3)
    labels = path.predict(X)
    assert labels.shape == (3, 90) and labels.dtype == y.dtype
    for radius, predicted, coef, intercept in zip(RADII, labels, path.coefs, path.intercepts, strict=True):
        model = WassersteinDROClassifier(radius, tol=1e-3).fit(X, y)
        model.coef_, model.intercept_ = coef, intercept
        np.testing.assert_array_equal(predicted, model.predict(X))
    np.testing.assert_array_equal(labels, path.predict(sparse.csr_array(X)))
    with pytest.raises(ValueError, match="X must have 3 features"):
        path.predict(X[:, :2])


def test_from_path_draws_scores_and_risks(problem):
    X, y = problem
    path = radius_path(X, y, RADII, tol=1e-3)
    display = RadiusPathDisplay.from_path(path, X, y, metric=balanced_accuracy_score)
    expected = [balanced_accuracy_score(y, labels) for labels in path.predict(X)]
    np.testing.assert_array_equal(display.lines_["score"].get_ydata(), expected)
    np.testing.assert_array_equal(display.lines_["worst-case risk"].get_ydata(), path.risks)
    assert display.lines_["worst-case risk"].axes is display.risk_ax_ is not display.ax_
    ax = display.ax_
    assert (ax.get_ylabel(), display.risk_ax_.get_ylabel()) == ("balanced accuracy score", "worst-case risk")
    assert ax.get_xscale() == "log"
    (mark,) = [line for line in ax.lines if line not in display.lines_.values()]
    assert set(mark.get_xdata()) == {0.01} and [t.get_text() for t in ax.texts] == ["default"]
    display.figure_.canvas.draw()


def test_risks_alone(problem):
    _, ax = plt.subplots()
    display = RadiusPathDisplay.from_path(radius_path(*problem, RADII[1:], tol=1e-3), default=None, ax=ax)
    assert display.risk_ax_ is display.ax_ is ax and ax.get_xscale() == "log" and len(ax.lines) == 1
    assert ax.get_legend() is None


def test_models_of_one_release(federation):
    X, y, groups = federation
    release = DPMomentDROClassifier(100.0, classes=[0, 1, 2], aggregation="trusted").fit(X, y, groups)
    models = release.radius_path([0.01, 0.02])
    display = RadiusPathDisplay.from_estimators(models, X, y, scoring="f1_macro")
    assert display.ax_.get_ylabel() == "f1 macro" and display.ax_.get_xlabel() == "radius"
    by_noise = [release.refit(noise_radius=radius) for radius in (0.1, 1.0)]
    display = RadiusPathDisplay.from_estimators(by_noise, X, y, parameter="noise_radius")
    assert display.ax_.get_xlabel() == "noise radius"
    assert display.lines_["score"].get_ydata().tolist() == [model.score(X, y) for model in by_noise]


def test_arrays_are_sorted_and_have_bands():
    display = RadiusPathDisplay.from_results([1.0, 0.1], {"a": [[2.0, 4.0], [1.0, 1.0]], "b": [5.0, 6.0]})
    assert display.lines_["a"].get_xdata().tolist() == [0.1, 1.0]
    assert display.lines_["a"].get_ydata().tolist() == [1.0, 3.0]
    assert len(display.ax_.collections) == 1
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == ["a", "b"]


def test_radius_zero_has_a_place():
    display = RadiusPathDisplay.from_results([0.0, 0.1, 1.0], [1.0, 2.0, 3.0])
    display.figure_.canvas.draw()
    assert display.ax_.get_xscale() == "symlog" and display.ax_.get_xlim()[0] == 0
    x = display.ax_.transData.transform([(r, 0.0) for r in (0.0, 0.1, 1.0)])[:, 0]
    assert np.all(np.diff(x) > 20)  # pixels


def test_what_is_wrong_is_named():
    for bad in ([], [-1.0], [np.nan], [[1.0]]):
        with pytest.raises(ValueError, match="radii must be a sequence of finite numbers >= 0"):
            RadiusPathDisplay.from_results(bad, [1.0])
    with pytest.raises(ValueError, match=r"scores must have shape \(2,\)"):
        RadiusPathDisplay.from_results([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match=r"risks must have shape \(1,\)"):
        RadiusPathDisplay.from_results([1.0], [1.0], risks=[1.0, 2.0])
    with pytest.raises(ValueError, match="nothing to draw"):
        RadiusPathDisplay.from_results([1.0], {})
    with pytest.raises(ValueError, match="one number as radius"):
        RadiusPathDisplay.from_estimators([WassersteinDROClassifier(radius=None)], [[0]], [0])
    path = radius_path([[0.0], [1.0]], [0, 1], [0.1])
    with pytest.raises(ValueError, match="X and y must be given together"):
        RadiusPathDisplay.from_path(path, X=[[0.0]])


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"skdro\[plot\]"):
        RadiusPathDisplay.from_results([1.0], [1.0])
