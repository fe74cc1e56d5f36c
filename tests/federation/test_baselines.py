"""The private baselines against loops over clients and records: descent with a ridge, samples, DP-ADMM."""

import numpy as np
import pytest

from skdro import DPFedERMClassifier
from skdro.federation import in_process
from skdro.federation.batches import FullBatch, PoissonBatch
from skdro.federation.client_data import prepare, stacked
from skdro.federation.doors import pass_through
from skdro.federation.frames import ClippedFrame
from skdro.federation.in_process import run
from skdro.federation.steps.gradient import GradientDescent
from skdro.federation.steps.linearised import LinearisedADMM, dp_admm_steps
from skdro.federation.steps.multipliers import NoBall
from skdro.federation.steps.objectives import RidgeRisk
from skdro.privacy.noise import StreamNoise
from skdro.privacy.subsampling import PoissonSampling

K, P = 3, 2
COLUMNS = P + 1
SIZES = [2, 6, 9]
ALPHA = np.array([0.2, 0.5, 0.3])
DATA_NORM, REG, STEP = 1.3, 0.3, 0.7


def federation():
    rng = np.random.default_rng(5)
    index = rng.permutation(np.repeat(np.arange(3), SIZES))
    X, y = rng.normal(size=(len(index), P)), rng.integers(0, K, len(index))
    block = prepare(X, y, index, np.arange(3), ClippedFrame.as_given(P, True, DATA_NORM))
    Z = [[clipped(x) for x in X[index == g]] for g in range(3)]
    return block, Z, [y[index == g] for g in range(3)], (X, y, index)


def clipped(x):
    z = np.append(x, 1.0)
    return z * min(1.0, DATA_NORM / np.sqrt(sum(v * v for v in z)))


def loss(M, z, label):
    return max(M[k] @ z + (k != label) for k in range(K)) - M[label] @ z


def gradient(M, z, label):
    G = np.zeros((K, COLUMNS))
    if loss(M, z, label) > 0:
        rival = max((k for k in range(K) if k != label), key=lambda k: (M[k] @ z, -k))
        G[rival] += z
        G[label] -= z
    return G


def ridge(M):
    return REG * np.column_stack([M[:, :P], np.zeros(K)])


def value(M, Z, y):
    return np.mean([loss(M, z, label) for z, label in zip(Z, y, strict=True)]) + REG / 2 * (M[:, :P] ** 2).sum()


def adding(table):
    def door(exact, ledger, *, index, round, bound):
        assert (np.abs(exact).reshape(len(exact), -1).max(axis=1) <= bound * (1 + 1e-12)).all()
        return exact + table[round, index], ledger

    return door


def descent(batch, at_client=pass_through, at_server=pass_through):
    return GradientDescent(RidgeRisk(REG, P), K, ALPHA, STEP, DATA_NORM, at_client, at_server, batch)


@pytest.mark.parametrize("rate", [1.0, 0.4], ids=["full batch", "sampled"])
@pytest.mark.parametrize("where", ["client", "server"])
@pytest.mark.parametrize("padded", [False, True])
def test_rounds_of_the_descent_are_the_loops(rate, where, padded):
    T, (block, Z, y, _) = 6, federation()
    noise, sampling = StreamNoise(8), PoissonSampling(rate)
    batch = FullBatch() if rate == 1 else PoissonBatch(sampling, noise)
    table = 0.2 * np.random.default_rng(1).normal(size=(T, 3, K, COLUMNS))
    at = {"client": (adding(table), pass_through), "server": (pass_through, adding(table[:, :1]))}[where]
    result = run(descent(batch, *at), stacked(block) if padded else block, (K, COLUMNS), T)
    assert stacked(block) is not block
    M, taken_in_all = np.zeros((K, COLUMNS)), 0
    for t in range(T):
        total = np.zeros_like(M) if where == "client" else table[t, 0].copy()
        for g in range(3):
            taken = [True] * SIZES[g]
            if rate < 1:
                taken = sampling.mask(noise, [SIZES[g]], clients=[g], round=t)
            # over the expected number of records, not over those that came
            total += (
                ALPHA[g]
                / (rate * SIZES[g])
                * sum(
                    (gradient(M, z, label) for z, label, here in zip(Z[g], y[g], taken, strict=True) if here),
                    np.zeros_like(M),
                )
            )
            total += ALPHA[g] * table[t, g] * (where == "client")
            taken_in_all += sum(taken)
        M = M - STEP / np.sqrt(t + 1) * (total + ridge(M))
        assert result.history["model_norm"][t] == pytest.approx(np.sqrt((M**2).sum()), abs=1e-11)
    np.testing.assert_allclose(result.server.model, M, atol=1e-11)
    assert set(result.history) == {"model_norm"}
    assert taken_in_all == T * sum(SIZES) if rate == 1 else 0 < taken_in_all < T * sum(SIZES)


def test_an_empty_sample_is_a_zero_gradient():
    block = federation()[0]
    nobody = PoissonBatch(PoissonSampling(1e-12), StreamNoise(0))
    replies, _ = descent(nobody).client_step((), block, {"model": np.zeros((K, COLUMNS)), "round": 0})
    assert all(not reply["gradient"].any() for reply in replies)


def test_objective_of_each_client_and_the_slope_of_its_public_part():
    block, Z, y, _ = federation()
    rng, h = np.random.default_rng(2), 1e-6
    M, models = rng.normal(size=(K, COLUMNS)), rng.normal(size=(3, K, COLUMNS))
    risk = RidgeRisk(REG, P)
    np.testing.assert_allclose(risk.values(M, block), [value(M, Z[g], y[g]) for g in range(3)], atol=1e-12)
    np.testing.assert_allclose(
        risk.values(models, block), [value(models[g], Z[g], y[g]) for g in range(3)], atol=1e-12
    )
    slope = risk.public(M).slope
    for place in np.ndindex(slope.shape):
        step = np.zeros_like(M)
        step[place] = h
        penalties = [REG / 2 * ((M + sign * step)[:, :P] ** 2).sum() for sign in (1, -1)]
        assert slope[place] == pytest.approx((penalties[0] - penalties[1]) / (2 * h), abs=1e-8)
    np.testing.assert_array_equal(risk.slope(models), [risk.slope(model) for model in models])


@pytest.mark.parametrize("decay", [0.5, 0.0], ids=["decaying", "constant"])
def test_every_state_of_every_round_is_that_of_dp_admm(decay):
    """x_g = argmin <gradient + ridge, x> + rho/2 ||x - M + mu_g||^2 + ||x - x_g||^2 / (2 eta_t), plus noise."""
    T, rho, eta = 7, 0.8, np.array([0.7, 1.1, 0.4])
    block, Z, y, _ = federation()
    noise = 0.15 * np.random.default_rng(3).normal(size=(T, 3, K, COLUMNS))
    # the door adds noise in units of the first step; in units of step t it shrinks as the sensitivity does
    algorithm = LinearisedADMM(K, ALPHA, rho, eta, DATA_NORM, NoBall(RidgeRisk(REG, P)), adding(noise), decay)
    state, server = algorithm.client_start(block), algorithm.server_start(3, (K, COLUMNS))
    M, local, mu = np.zeros((K, COLUMNS)), np.zeros((3, K, COLUMNS)), np.zeros((3, K, COLUMNS))
    for t in range(T):
        exact = algorithm.exact_objective(state, block, {})
        replies, state = algorithm.client_step(state, block, algorithm.broadcast(server))
        server = algorithm.server_step(server, replies, range(3))
        before = mu.copy()
        for g in range(3):
            assert exact[g] == pytest.approx(value(local[g], Z[g], y[g]), abs=1e-12)
            step = eta[g] / (t + 1) ** decay
            slope = np.mean([gradient(local[g], z, label) for z, label in zip(Z[g], y[g], strict=True)], axis=0)
            slope += ridge(local[g])
            local[g] = (local[g] / step + rho * (M - mu[g]) - slope) / (rho + 1 / step)
            local[g] += noise[t, g] * (rho + 1 / eta[g]) / (rho + 1 / step)
        M = sum(ALPHA[g] * (local[g] + mu[g]) for g in range(3))
        mu = mu + local - M
        np.testing.assert_allclose(server.model, M, atol=1e-11)
        np.testing.assert_allclose(state.model, local, atol=1e-11)
        np.testing.assert_allclose(state.mu, before, atol=1e-11)
        assert set(algorithm.report(server)) == {"model_norm", "consensus_violation"}


def test_step_sizes_of_dp_admm():
    n, L, reg, c, multiplier = np.array([10, 300, 4]), 1.3, 0.2, 2.0, 7.0
    eta = dp_admm_steps(n_records=n, shape=(4, 9), data_norm=L, reg=reg, c_model=c, multiplier=multiplier)
    for g in range(3):
        D2 = (np.sqrt(2) * L + reg * c) ** 2 + 4 * 9 * (2 * np.sqrt(2) * L * multiplier / n[g]) ** 2
        assert eta[g] == pytest.approx(c / np.sqrt(D2), rel=1e-12)


@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize(("schedule", "divided", "decay"), [("decaying", 1.0, 0.5), ("constant", np.sqrt(5), 0.0)])
def test_the_estimator_plans_the_sensitivity_of_its_first_step(schedule, divided, decay, monkeypatch):
    X, y, index = federation()[3]
    seen, original = [], in_process.run

    def watch(algorithm, *args, **kwargs):
        seen.append(algorithm)
        return original(algorithm, *args, **kwargs)

    monkeypatch.setattr(in_process, "run", watch)
    model = DPFedERMClassifier(
        variant="paper", schedule=schedule, n_rounds=5, c_model=2.0, reg=REG, rho=0.8, data_norm=DATA_NORM,
        classes=range(K), random_state=0,
    ).fit(X, y, groups=index)  # fmt: skip
    (algorithm,) = seen
    assert algorithm.decay == decay
    for event, n, eta in zip(model.privacy_.events, SIZES, algorithm.eta, strict=True):
        multiplier = event.sigma / event.sensitivity
        D2 = (np.sqrt(2) * DATA_NORM + REG * 2) ** 2 + K * COLUMNS * (
            2 * np.sqrt(2) * DATA_NORM * multiplier / n
        ) ** 2
        assert eta == pytest.approx(2.0 / np.sqrt(D2) / divided, rel=1e-12)
        assert event.sensitivity == pytest.approx(2 * np.sqrt(2) * DATA_NORM / (n * (0.8 + 1 / eta)), rel=1e-12)
