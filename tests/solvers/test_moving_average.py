"""SCDRO: with the whole batch it finds the optimum of the ball; on batches it comes near; nothing overflows."""

import numpy as np
import pytest

from skdro.ambiguity.reweighting import KLBall
from skdro.losses.models import LinearModel, Records
from skdro.solvers.moving_average import moving_averages

MODEL = LinearModel(2, 3, True)


def records(seed=0, n=60):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    X = np.hstack([rng.normal(size=(n, 2)) + 0.7 * y[:, None], np.ones((n, 1))])
    return Records.of(X, y)


def objective(theta, data, ridge):
    losses = MODEL.evaluate(theta, data).losses
    return KLBall(0.1, 0.1, 1e6).worst_case(losses).value + 0.5 * ridge @ theta**2


def solve(data, ridge, **options):
    defaults = {"step": 0.5, "temperature_step": 0.2, "rate": 1.0, "batch_size": 10**9, "n_steps": 1000}
    return moving_averages(
        MODEL,
        data,
        np.zeros(3),
        radius=0.1,
        min_temperature=0.1,
        ridge=ridge,
        rng=np.random.default_rng(1),
        **{**defaults, **options},
    )


def slope(theta, data, ridge):
    """Gradient of the objective at nature's exact answer (Danskin), which shares no code with the averages."""
    evaluation = MODEL.evaluate(theta, data)
    worst = KLBall(0.1, 0.1, 1e6).worst_case(evaluation.losses)
    return evaluation.gradient_sum(worst.weight) / len(data.y) + ridge * theta, worst.temperature


def test_whole_batches_reach_the_optimum():
    data, ridge = records(), np.array([0.05, 0.05, 0.0])
    found = solve(data, ridge)
    gradient, temperature = slope(found.parameters, data, ridge)
    assert np.linalg.norm(gradient) < 1e-5
    assert found.temperature == pytest.approx(temperature, rel=1e-4)


def test_batches_come_near_it_and_averaging_helps():
    data, ridge = records(n=400), np.array([0.05, 0.05, 0.0])
    best = objective(solve(data, ridge, n_steps=400).parameters, data, ridge)
    options = {"batch_size": 8, "step": 0.02, "temperature_step": 0.005, "n_steps": 2000}
    gaps = [
        objective(solve(data, ridge, rate=rate, **options).parameters, data, ridge) - best for rate in (1.0, 0.05)
    ]
    assert gaps[1] < 0.001 and gaps[1] < gaps[0] / 2


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_tiny_temperatures_and_huge_losses_leave_numbers(size):
    data = records()
    data = Records.of(size * data.X, data.y)
    found = moving_averages(
        MODEL,
        data,
        np.full(3, size),
        radius=2.0,
        min_temperature=1e-12,
        ridge=np.zeros(3),
        step=1.0,
        temperature_step=10.0,
        rate=0.5,
        batch_size=5,
        n_steps=200,
        temperature_start=1e-9,
        rng=np.random.default_rng(0),
    )
    assert np.isfinite(found.parameters).all() and np.isfinite([found.temperature, found.log_mean]).all()
