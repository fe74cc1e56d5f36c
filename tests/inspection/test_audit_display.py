"""AuditDisplay: the curve is that of the guesses, the region is that of the claim."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_curve

from skdro import DPFedDROClassifier
from skdro.inspection import AuditDisplay
from skdro.inspection.audit import roc
from skdro.privacy import audit, membership_inference

X, Y = np.random.default_rng(0).normal(size=(60, 20)), np.arange(60) % 2
MODEL = DPFedDROClassifier(epsilon=1.0, classes=[0, 1], n_rounds=2)


def test_curve_and_region():
    result = audit(MODEL, X, Y, np.zeros(60), n_canaries=20, n_runs=3, random_state=0)
    display = AuditDisplay.from_result(result)
    ax = display.ax_
    false, true = ax.lines[1].get_data()
    expected = roc_curve(result.truth, result.scores, drop_intermediate=False)
    np.testing.assert_allclose([false, true], expected[:2])
    corner = ax.collections[0].get_paths()[0].vertices
    top = corner[np.isclose(corner[:, 0], 0.5) & (corner[:, 1] > 0)]
    assert top[0, 1] == pytest.approx(norm.cdf(result.mu_claimed))
    assert "not refuted" in ax.get_title() and display.figure_ is ax.figure
    assert ax.get_legend() is not None


def test_membership_and_given_axes():
    _, ax = plt.subplots()
    result = membership_inference(MODEL, X, Y, np.zeros(60), n_runs=2, random_state=0)
    assert AuditDisplay.from_result(result, ax=ax).ax_ is ax and "AUC" in ax.get_title()
    assert AuditDisplay.from_estimator(MODEL, X, Y, np.zeros(60), n_canaries=7).result.n_canaries == 7


def test_ties_are_one_step():
    rng = np.random.default_rng(0)
    scores, truth = rng.integers(0, 5, 50).astype(float), rng.random(50) < 0.5
    np.testing.assert_allclose(roc(scores, truth), roc_curve(truth, scores, drop_intermediate=False)[:2])


def test_matplotlib_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"skdro\[plot\]"):
        AuditDisplay.from_estimator(MODEL, X, Y, np.zeros(60), n_canaries=7)
