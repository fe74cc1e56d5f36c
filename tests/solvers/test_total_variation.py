"""Total-variation DRO against nature's linear program, a subgradient condition and the limits of the penalty."""

import numpy as np
import pytest
from scipy.optimize import linprog

from skdro.ambiguity.divergence import Capped, TotalVariation
from skdro.ambiguity.reweighting import Penalised
from skdro.losses.models import LinearModel, Records
from skdro.solvers.reweighted import lower_bound
from skdro.solvers.total_variation import minimise_total_variation


def instance(seed, K):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(40, 2)), np.ones(40)])
    y = np.concatenate([np.arange(K), rng.integers(K, size=40 - K)])
    return LinearModel(K, 3, True), Records.of(X, y)


def nature(losses, penalty, cap):
    """max sum p l - lam/n sum |n p - 1| / 2  as a linear program in the positive and negative parts of w - 1."""
    n = len(losses)
    c = np.concatenate([-(losses - penalty / 2), losses + penalty / 2]) / n
    bounds = [(0, cap - 1)] * n + [(0, 1)] * n
    mean_one = np.concatenate([np.ones(n), -np.ones(n)])[None]
    return losses.mean() - linprog(c, A_eq=mean_one, b_eq=[0.0], bounds=bounds).fun


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("penalty", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("cap", [1.5, 6.0])
def test_value_weights_and_certificate(K, penalty, cap):
    model, data = instance(K, K)
    risk, ridge = Penalised(Capped(TotalVariation(), cap), penalty), 0.05 * model.penalised()
    solution = minimise_total_variation(model, data, risk, ridge)
    losses = model.evaluate(solution.parameters, data).losses
    ridge_cost = 0.5 * ridge @ solution.parameters**2
    assert solution.objective == pytest.approx(nature(losses, penalty, cap) + ridge_cost, rel=1e-7)
    assert solution.worst.weight.mean() == pytest.approx(1.0, abs=1e-9)
    assert (solution.worst.weight >= 0).all() and (solution.worst.weight <= cap * (1 + 1e-9)).all()
    bound = lower_bound(model, solution.parameters, data, solution.worst, ridge)
    assert bound <= solution.objective + 1e-9
    assert bound == pytest.approx(solution.objective, rel=1e-4)


def test_no_neighbour_is_better():
    model, data = instance(5, 3)
    penalty, cap, reg = 0.3, 4.0, 0.05
    solution = minimise_total_variation(
        model, data, Penalised(Capped(TotalVariation(), cap), penalty), reg * model.penalised()
    )
    rng = np.random.default_rng(0)
    for step in 10.0 ** rng.uniform(-4, -1, size=40):
        theta = solution.parameters + step * rng.normal(size=model.n_parameters)
        value = nature(model.evaluate(theta, data).losses, penalty, cap)
        assert value + 0.5 * reg * (theta[model.penalised()] ** 2).sum() >= solution.objective - 1e-7
