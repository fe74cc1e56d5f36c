"""Algorithm 2 against its formulas written out for one client and one record at a time."""

from itertools import combinations

import numpy as np
import pytest

from skdro import DPFedDROClassifier
from skdro.ambiguity.transport import TRANSPORT_NORMS
from skdro.federation import in_process
from skdro.federation.client_data import prepare
from skdro.federation.doors import GaussianDoor, pass_through
from skdro.federation.frames import ClippedFrame
from skdro.federation.in_process import run
from skdro.federation.steps.linearised import LinearisedADMM, StepSizes
from skdro.federation.steps.multipliers import FlippedLabels, TrustedLabels
from skdro.privacy.noise import StreamNoise
from skdro.privacy.plan import PlannedRelease

K, P, G = 3, 2, 3
COLUMNS = P + 1
SIZES = [1, 6, 9]
ALPHA = np.array([0.2, 0.5, 0.3])
RADIUS = np.array([0.05, 0.2, 0.1])
KAPPA = np.array([0.5, 0.3, 0.8])
ETA = np.array([0.7, 1.1, 0.4])
NU = np.array([0.9, 0.5, 1.3])
RHO, GAMMA, DATA_NORM = 0.8, 0.3, 1.2
DUAL = {"linf": 1, "l2": 2, "l1": np.inf}


def federation():
    rng = np.random.default_rng(11)
    index = rng.permutation(np.repeat(np.arange(G), SIZES))
    X, y = rng.normal(size=(len(index), P)), rng.integers(0, K, len(index))
    block = prepare(X, y, index, np.arange(G), ClippedFrame.as_given(P, True, DATA_NORM))
    block.settings.update(radius=RADIUS, kappa=KAPPA)
    return block, X, y, index


def admm(norm="linf", door=pass_through, lam_door=pass_through, flips=True):
    ball = (TRANSPORT_NORMS[norm], P)
    labels = FlippedLabels(*ball, KAPPA, NU, GAMMA, lam_door) if flips else TrustedLabels(*ball)
    return LinearisedADMM(K, ALPHA, RHO, ETA, DATA_NORM, labels, door)


# ---------------------------------------------------------------- the oracle: the formulas of the paper in loops


def clipped(x):
    z = np.append(x, 1.0)
    return z * min(1.0, DATA_NORM / np.sqrt(sum(v * v for v in z)))


def loss(M, z, y):
    return max(M[k] @ z + (k != y) for k in range(K)) - M[y] @ z


def phi(M, norm):
    return max(np.linalg.norm(M[i, :P] - M[j, :P], ord=DUAL[norm]) for i, j in combinations(range(K), 2))


def phi_slope(M, norm):
    C = np.zeros((K, COLUMNS))
    i, j = max(combinations(range(K), 2), key=lambda ij: np.linalg.norm(M[ij[0], :P] - M[ij[1], :P], ord=DUAL[norm]))
    d = M[i, :P] - M[j, :P]
    if d.any():
        v = {
            "linf": np.sign(d),
            "l2": d / np.linalg.norm(d),
            "l1": np.where(np.arange(P) == np.abs(d).argmax(), np.sign(d), 0.0),
        }[norm]
        C[i, :P], C[j, :P] = v, -v
    return C


def data_term(M, lam, Z, y, kappa):
    """Mean worst loss, its slope in M (the flip wins only if strictly worse), and the share of flipped records."""
    value, slope, share = 0.0, np.zeros((K, COLUMNS)), 0.0
    for z, own in zip(Z, y, strict=True):
        flip = max((k for k in range(K) if k != own), key=lambda k: (loss(M, z, k), -k))
        flipped = loss(M, z, flip) - kappa * lam > loss(M, z, own) + 1e-13 if np.isfinite(kappa) else False
        label = flip if flipped else own
        value += (loss(M, z, label) - (kappa * lam if flipped else 0.0)) / len(Z)
        share += flipped / len(Z)
        if loss(M, z, label) > 0:
            top = max((k for k in range(K) if k != label), key=lambda k: (M[k] @ z, -k))
            slope[top] += z / len(Z)
            slope[label] -= z / len(Z)
    return value, slope, share


def objective(M, lam, tau, g, norm, Z, y):
    """lam r + data term + penalty of the augmented Lagrangian."""
    hinge = max(0.0, tau + GAMMA * (phi(M, norm) - lam))
    return lam * RADIUS[g] + data_term(M, lam, Z, y, KAPPA[g])[0] + (hinge**2 - tau**2) / (2 * GAMMA)


def published(T, norm, X, y, index, model_noise, lam_noise, flips):
    """All rounds of Algorithm 2 in the order in which the paper states them; yields the states after each."""
    M = np.zeros((K, COLUMNS))
    local, mu = [np.zeros_like(M) for _ in range(G)], [np.zeros_like(M) for _ in range(G)]
    lam, tau = np.zeros(G), np.zeros(G)
    for t in range(T):
        before, tau_before = [m.copy() for m in mu], tau.copy()
        for g in range(G):
            Z, labels = [clipped(x) for x in X[index == g]], y[index == g]
            _, slope, share = data_term(local[g], lam[g], Z, labels, KAPPA[g] if flips else np.inf)
            a = max(0.0, tau[g] + GAMMA * (phi(local[g], norm) - lam[g])) if flips else RADIUS[g]
            gradient = slope + a * phi_slope(local[g], norm)
            new = (local[g] / ETA[g] + RHO * (M - mu[g]) - gradient) / (RHO + 1 / ETA[g])
            if flips:
                lam[g] = lam[g] - NU[g] * (RADIUS[g] + (-KAPPA[g] * share - a)) + lam_noise[t, g]
            local[g] = new + model_noise[t, g]
        M = sum(ALPHA[g] * (local[g] + mu[g]) for g in range(G))
        for g in range(G):
            mu[g] = mu[g] + local[g] - M
            if flips:
                tau[g] = max(0.0, tau[g] + GAMMA * (phi(local[g], norm) - lam[g]))
        yield M.copy(), np.array(local), np.array(before), lam.copy(), tau_before


# ---------------------------------------------------------------- tests


@pytest.mark.parametrize("flips", [True, False], ids=["flips", "trusted labels"])
@pytest.mark.parametrize("scale", [0.0, 0.15], ids=["no noise", "known noise"])
@pytest.mark.parametrize("norm", sorted(DUAL))
def test_every_state_of_every_round_is_the_papers(norm, scale, flips):
    T, (block, X, y, index) = 7, federation()
    rng = np.random.default_rng(1)
    model_noise = scale * rng.normal(size=(T, G, K, COLUMNS))
    lam_noise = scale * rng.normal(size=(T, G)) - 2 * scale * (np.arange(T) == 3)[:, None]  # once far below zero

    def adding(table):
        def door(exact, ledger, *, index, round, bound):
            return exact + table[round, index], ledger

        return door

    algorithm = admm(norm, adding(model_noise), adding(lam_noise), flips)
    state, server = algorithm.client_start(block), algorithm.server_start(G, (K, COLUMNS))
    lams, flipped = [], 0
    for M, local, mu, lam, tau in published(T, norm, X, y, index, model_noise, lam_noise, flips):
        replies, state = algorithm.client_step(state, block, algorithm.broadcast(server))
        server = algorithm.server_step(server, replies, range(G))
        for got, expected in [
            (server.model, M),
            (server.local, local),
            (state.model, local),
            (state.mu, mu),
            (state.lam, lam),
            (state.tau, tau),
        ]:
            np.testing.assert_allclose(got, expected, atol=1e-11)
        report = algorithm.report(server)
        violation = sum(ALPHA[g] * np.sqrt(((local[g] - M) ** 2).sum()) for g in range(G))
        assert report["consensus_violation"] == pytest.approx(violation, abs=1e-11)
        assert report["spread"] == pytest.approx(phi(M, norm), abs=1e-11)
        assert report["model_norm"] == pytest.approx(np.sqrt((M**2).sum()), abs=1e-11)
        lams.append(lam)
        flipped += algorithm.labels.worst(block.scores(state.model), block, state.lam)[2].sum()
    assert server.round == T and not algorithm.finished(server)
    if flips:  # the hard cases do occur
        assert flipped and (scale == 0.0 or np.min(lams) < 0)


def test_steps_are_slopes_of_the_augmented_objective():
    block, X, y, index = federation()
    rng = np.random.default_rng(3)
    algorithm, h = admm(), 1e-6
    start = algorithm.client_start(block)
    state = type(start)(
        rng.normal(size=start.model.shape), rng.normal(size=start.mu.shape), rng.uniform(0.3, 1, G),
        rng.uniform(0, 1, G), (),
    )  # fmt: skip
    M = rng.normal(size=(K, COLUMNS))
    _, after = algorithm.client_step(state, block, {"model": M, "round": 0})
    exact = algorithm.exact_objective(state, block, {"model": M, "round": 0})
    for g in range(G):
        Z, labels = [clipped(x) for x in X[index == g]], y[index == g]
        tau = max(0.0, state.tau[g] + GAMMA * (phi(state.model[g], "linf") - state.lam[g]))
        assert after.tau[g] == pytest.approx(tau, abs=1e-12)

        def f(model, lam, g=g, Z=Z, labels=labels, tau=tau):
            return objective(model, lam, tau, g, "linf", Z, labels)

        assert exact[g] == pytest.approx(f(state.model[g], state.lam[g]), abs=1e-12)
        slope = np.zeros((K, COLUMNS))
        for place in np.ndindex(slope.shape):
            step = np.zeros_like(M)
            step[place] = h
            slope[place] = (f(state.model[g] + step, state.lam[g]) - f(state.model[g] - step, state.lam[g])) / (2 * h)
        mu = state.mu[g] + state.model[g] - M
        new = (state.model[g] / ETA[g] + RHO * (M - mu) - slope) / (RHO + 1 / ETA[g])
        np.testing.assert_allclose(after.model[g], new, atol=1e-8)
        lam_slope = (f(state.model[g], state.lam[g] + h) - f(state.model[g], state.lam[g] - h)) / (2 * h)
        assert after.lam[g] == pytest.approx(state.lam[g] - NU[g] * lam_slope, abs=1e-8)


def test_objective_with_trusted_labels():
    block, X, y, index = federation()
    algorithm, models = admm("l2", flips=False), np.random.default_rng(4).normal(size=(G, K, COLUMNS))
    state = type(algorithm.client_start(block))(models, models, np.zeros(G), np.zeros(G), ())
    exact = algorithm.exact_objective(state, block, {})
    for g in range(G):
        losses = [loss(models[g], clipped(x), label) for x, label in zip(X[index == g], y[index == g], strict=True)]
        assert exact[g] == pytest.approx(RADIUS[g] * phi(models[g], "l2") + np.mean(losses), abs=1e-12)


@pytest.mark.parametrize("flips", [True, False])
def test_blocks_of_any_size_agree(flips):
    block = federation()[0]
    sensitivity = np.array([0.3, 0.1, 0.05])

    def door(name):
        return GaussianDoor(PlannedRelease(name, 8, 2.0, sensitivity, sensitivity), StreamNoise(3))

    models = [
        run(admm("linf", door("model"), door("multiplier"), flips), block, (K, COLUMNS), 8, clients_per_task=size)
        for size in (1, 2, None)
    ]
    for other in models[1:]:
        np.testing.assert_allclose(other.server.model, models[0].server.model, atol=1e-12)
        np.testing.assert_allclose(other.server.local, models[0].server.local, atol=1e-12)
    assert np.abs(models[0].server.model).max() > 0.1


def test_the_bounds_given_to_the_doors_hold():
    block, seen, rng = federation()[0], {"model": [], "multiplier": []}, np.random.default_rng(0)

    def door(name):
        def watch(exact, ledger, *, index, round, bound):
            seen[name].append((np.abs(exact).reshape(G, -1).max(axis=1) / bound).max())
            return exact + rng.normal(size=exact.shape) * 10.0 ** rng.integers(-3, 4), ledger

        return watch

    run(admm("linf", door("model"), door("multiplier")), block, (K, COLUMNS), 60)
    for ratios in seen.values():
        assert len(ratios) == 60 and 0.5 < max(ratios) <= 1 + 1e-12


def test_step_sizes_of_equation_13():
    T, n, L, epsilon, delta = 50, np.array([10, 300, 4]), 1.3, 0.5, 1e-6
    radius, kappa = np.array([0.1, 2.0, 0.0]), np.array([0.7, 1.0, 0.2])
    eps_M, eps_lam = np.sqrt(0.95) * epsilon, np.sqrt(0.05) * epsilon
    log_term = np.log(1.25 / delta)
    steps = StepSizes.of_theorem_3(
        n_rounds=T, n_records=n, shape=(4, 9), data_norm=L, radius=radius, kappa=kappa, c_model=2.0, c_lambda=6.0,
        model_multiplier=np.sqrt(2 * log_term) / eps_M, lambda_multiplier=np.sqrt(2 * log_term) / eps_lam,
    )  # fmt: skip
    for g in range(3):
        noise = 16 * 4 * 9 * L**2 * log_term / (n[g] ** 2 * eps_M**2)
        assert steps.eta[g] == pytest.approx(2.0 / np.sqrt(T * (2 * (L + 0.4) ** 2 + noise)), rel=1e-12)
        S = max(radius[g], kappa[g] - radius[g])
        noise = 2 * kappa[g] ** 2 * log_term / (n[g] ** 2 * eps_lam**2)
        assert steps.nu[g] == pytest.approx(6.0 / np.sqrt(T * ((S + 1.0) ** 2 + noise)), rel=1e-12)


def test_trusted_labels_leave_the_radius_as_the_slope_in_lam():
    steps = StepSizes.of_theorem_3(
        n_rounds=4, n_records=np.array([5]), shape=(2, 2), data_norm=1.0, radius=np.array([0.3]),
        kappa=np.array([np.inf]), c_model=1.0, c_lambda=1.0, model_multiplier=1.0, lambda_multiplier=0.0,
    )  # fmt: skip
    assert steps.nu[0] == pytest.approx(1 / np.sqrt(4 * 1.3**2))


@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
def test_per_round_budget_gives_the_noise_of_theorem_1(monkeypatch):
    X, y, index = federation()[1:]
    T, epsilon, delta, seen = 5, 0.5, 1e-6, []
    original = in_process.run

    def watch(algorithm, *args, **kwargs):
        seen.append(algorithm)
        return original(algorithm, *args, **kwargs)

    monkeypatch.setattr(in_process, "run", watch)
    model = DPFedDROClassifier(
        epsilon=epsilon, delta=delta, budget="per_round", variant="paper", n_rounds=T, c_model=2.0, c_lambda=6.0,
        radius=0.1, kappa=0.7, rho=RHO, data_norm=1.3, classes=range(K), random_state=0,
    ).fit(X, y, groups=index)  # fmt: skip
    (algorithm,) = seen
    events = {(event.name, event.client): event for event in model.privacy_.events}
    eps_M, eps_lam, log_term = np.sqrt(0.95) * epsilon, np.sqrt(0.05) * epsilon, np.log(1.25 / delta)
    for g, n in enumerate(SIZES):
        noise = 16 * K * COLUMNS * 1.3**2 * log_term / (n**2 * eps_M**2)
        eta = 2.0 / np.sqrt(T * (2 * (1.3 + 0.4) ** 2 + noise))
        nu = 6.0 / np.sqrt(T * ((0.6 + 1.0) ** 2 + 2 * 0.7**2 * log_term / (n**2 * eps_lam**2)))
        delta_M, delta_lam = 2 * np.sqrt(2) * 1.3 / (n * (RHO + 1 / eta)), 0.7 * nu / n
        assert algorithm.eta[g] == pytest.approx(eta, rel=1e-12)
        assert algorithm.labels.nu[g] == pytest.approx(nu, rel=1e-12)
        for name, sensitivity, share in [("model", delta_M, eps_M), ("multiplier", delta_lam, eps_lam)]:
            event = events[name, g]
            assert event.count == T
            assert event.sensitivity == pytest.approx(sensitivity, rel=1e-12)
            assert event.sigma == pytest.approx(sensitivity * np.sqrt(2 * log_term) / share, rel=1e-12)
