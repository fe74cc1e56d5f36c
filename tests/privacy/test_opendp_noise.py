"""Noise by OpenDP: scale, shapes, ledger, and what it refuses.  The tests of the noise itself need the extra."""

import sys

import numpy as np
import pytest
from scipy.stats import chi2

from skdro import DPFedDROClassifier
from skdro.privacy import opendp_noise
from skdro.privacy.mechanism import release
from skdro.privacy.noise import noise_source


def needs_opendp():
    return pytest.importorskip("opendp")


@pytest.mark.parametrize("sigma", [0.3, 7.0])
def test_opendp_noise_has_the_planned_scale(sigma):
    needs_opendp()
    ledger, n = [], 4000
    exact = np.tile([[1.0], [-2.0]], (1, n // 2))
    noisy = release(
        exact, name="x", sensitivity=sigma, multiplier=1.0, bound=2.0, round=0, noise=noise_source(None, "opendp"),
        ledger=ledger,
    )  # fmt: skip
    assert noisy.shape == exact.shape and ledger[0].sigma[0] == sigma
    squares = ((noisy - exact) ** 2).sum() / sigma**2
    assert chi2.ppf(5e-7, n) < squares < chi2.ppf(1 - 5e-7, n)


def test_a_fit_with_opendp_noise_reports_it(federation):
    needs_opendp()
    X, y, groups = federation
    model = DPFedDROClassifier(noise="opendp", classes=[0, 1, 2], n_rounds=2, delta=1e-6).fit(X, y, groups=groups)
    assert "OpenDP" in model.privacy_.noise and model.privacy_.private
    assert not np.array_equal(model.coef_, model.fit(X, y, groups=groups).coef_)


def test_large_releases_are_refused(monkeypatch):
    monkeypatch.setattr(opendp_noise, "_opendp", lambda: None)
    with pytest.raises(ValueError, match="10000 numbers"):
        opendp_noise.OpenDPNoise()((opendp_noise.LARGEST + 1,), clients=[0], round=0, release="x")


def test_opendp_cannot_be_seeded(federation):
    X, y, groups = federation
    with pytest.raises(ValueError, match="random_state=None"):
        DPFedDROClassifier(noise="opendp", classes=[0, 1, 2], random_state=0).fit(X, y, groups=groups)


def test_without_opendp_the_remedy_is_named(federation, monkeypatch):
    X, y, groups = federation
    opendp_noise._opendp.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ImportError, match=r"skdro\[opendp\]"):
        DPFedDROClassifier(noise="opendp", classes=[0, 1, 2]).fit(X, y, groups=groups)
