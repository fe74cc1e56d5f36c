"""ConvergenceDisplay: the curves are the history's, on the axis that suits them, and nothing else is shown."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdro import (
    BiDROFLRegressor,
    DPFedDROClassifier,
    DROSpiderClassifier,
    FedDROClassifier,
    WassersteinDROClassifier,
)
from skdro.inspection import ConvergenceDisplay


def drawn(display):
    return {name: line.get_ydata() for name, line in display.lines_.items()}


def test_consensus_has_its_risk_on_the_left_and_its_residuals_on_the_right(federation):
    model = FedDROClassifier(0.05, tol=0.05).fit(*federation)
    display = ConvergenceDisplay.from_estimator(model)
    assert list(display.lines_) == ["objective", "primal_residual", "dual_residual"]
    for name, values in drawn(display).items():
        np.testing.assert_array_equal(values, model.history_[name])
    assert display.lines_["objective"].get_xdata().tolist() == list(range(1, model.n_iter_ + 1))
    assert display.lines_["objective"].axes is display.ax_ and display.ax_.get_yscale() == "linear"
    assert display.lines_["dual_residual"].axes is display.distance_ax_
    assert display.distance_ax_.get_yscale() == "log" and display.distance_ax_ is not display.ax_
    assert display.ax_.get_xlabel() == "round" and display.ax_.get_title() == "FedDROClassifier"
    assert display.distance_ax_.get_ylabel() == "primal residual, dual residual"


def test_bundle_has_the_certified_gap(federation):
    model = WassersteinDROClassifier(0.05, tol=1e-4).fit(*federation[:2])
    _, ax = plt.subplots()
    display = ConvergenceDisplay.from_estimator(model, quantities=["gap"], ax=ax)
    gap = display.lines_["gap"].get_ydata()
    assert len(gap) == model.n_iter_ and np.all(np.diff(gap) <= 0) and np.all(gap >= -1e-12)
    assert gap[-1] == pytest.approx(model.dual_gap_, abs=1e-9) and gap[-1] <= 1e-4 < gap[-2]
    assert model.history_["objective"][-1] == pytest.approx(model.worst_case_risk_)
    # the only axis there is, so the one that was given
    assert display.distance_ax_ is display.ax_ is ax and ax.get_yscale() == "log" and ax.get_ylabel() == "gap"


def test_no_gap_is_claimed_for_radius_zero(federation):
    model = WassersteinDROClassifier(0.0, tol=0.1).fit(*federation[:2])
    assert np.isnan(model.history_["gap"]).all() and np.isfinite(model.history_["objective"]).all()


def test_descent_has_the_metric_and_no_table_of_weights(federation):
    X, y, groups = federation
    model = BiDROFLRegressor(solver="descent_ascent", n_rounds=20).fit(X, y.astype(float), groups)
    display = ConvergenceDisplay.from_estimator(model)
    assert set(display.lines_) == {"objective", "value", "metric"}
    assert display.lines_["metric"].axes.get_yscale() == "log"


def test_private_fits_show_released_quantities_only(federation):
    model = DPFedDROClassifier(classes=[0, 1, 2], n_rounds=4)
    display = ConvergenceDisplay.from_estimator(model.fit(*federation))
    assert "objective" not in display.lines_ and display.distance_ax_ is None
    assert display.ax_.get_title() == "DPFedDROClassifier, from the noisy releases"
    looked_at = model.set_params(diagnostics="not-private").fit(*federation)
    display = ConvergenceDisplay.from_estimator(looked_at)
    assert "objective" in display.lines_ and display.ax_.get_title() == "DPFedDROClassifier"


def test_a_kept_history():
    history = {"objective": [2.0, 1.0], "metric": [0.5, -1e-17], "weights": np.zeros((2, 3)), "rho": [1.0, 2.0]}
    display = ConvergenceDisplay.from_history(history, title="Monday")
    assert list(display.lines_) == ["objective", "metric"] and display.ax_.get_title() == "Monday"
    display.figure_.canvas.draw()  # a value below zero on a logarithmic axis is left out
    assert list(ConvergenceDisplay.from_history(history, quantities=["rho"]).lines_) == ["rho"]
    many = {name: [1.0, 2.0] for name in "abc"}
    assert ConvergenceDisplay.from_history(many).ax_.get_ylabel() == "value"


def test_what_cannot_be_drawn_is_said(federation):
    X, y, groups = federation
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(FedDROClassifier())
    with pytest.raises(TypeError, match="DROSpiderClassifier has no history_"):
        ConvergenceDisplay.from_estimator(DROSpiderClassifier().fit(*federation))
    pipe = make_pipeline(StandardScaler(), FedDROClassifier(tol=0.1)).fit(X, y, feddroclassifier__groups=groups)
    with pytest.raises(TypeError, match=r"pipeline\[-1\]"):
        ConvergenceDisplay.from_estimator(pipe)
    with pytest.raises(ValueError, match="solved at once"):
        ConvergenceDisplay.from_estimator(BiDROFLRegressor().fit(X, y.astype(float), groups))
    with pytest.raises(ValueError, match=r"quantities must be among \['rho'\].*\['loss'\]"):
        ConvergenceDisplay.from_history({"rho": [1.0, 2.0]}, quantities=["loss"])


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"ConvergenceDisplay needs matplotlib.*skdro\[plot\]"):
        ConvergenceDisplay.from_history({"objective": [2.0, 1.0]})
