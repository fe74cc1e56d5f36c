"""Per-record gradient norms, sums and differences against gradients that are formed one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdro.losses.models import LinearModel, Records, TanhNetwork

MODELS = [
    LinearModel(2, 5, True),
    LinearModel(3, 5, True),
    LinearModel(4, 5, False),
    TanhNetwork(2, 5, 3, True),
    TanhNetwork(3, 5, 4, False),
]
ids = pytest.mark.parametrize("model", MODELS, ids=str)


def records(model, seed=0, n=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, model.n_columns)) * rng.choice([1e-3, 1.0, 30.0], size=(n, 1))
    X[0] = 0.0
    if model.intercept:
        X[:, -1] = 1.0
    return Records.of(X, rng.integers(model.n_classes, size=n))


def parameters(model, seed=1):
    return np.random.default_rng(seed).normal(size=model.n_parameters)


def loss_by_hand(model, theta, x, label):
    """The loss of one record, written from its definition with plain loops."""
    if isinstance(model, LinearModel):
        outputs = [row @ x for row in theta.reshape(-1, model.n_columns)]
    else:
        cut = model.n_hidden * model.n_columns
        hidden = [np.tanh(row @ x) for row in theta[:cut].reshape(model.n_hidden, -1)] + [1.0]
        outputs = [row @ hidden for row in theta[cut:].reshape(-1, model.n_hidden + 1)]
    scores = [0.0, *outputs] if model.n_classes == 2 else outputs
    top = max(scores)
    return top + np.log(sum(np.exp(s - top) for s in scores)) - scores[label]


def explicit_gradients(model, theta, data):
    """Complex-free central differences of the loss by hand, one record and one parameter at a time."""
    out = np.empty((len(data.y), model.n_parameters))
    for i, (x, label) in enumerate(zip(data.X, data.y, strict=True)):
        for j in range(model.n_parameters):
            h = 1e-6 * np.eye(model.n_parameters)[j]
            up, down = loss_by_hand(model, theta + h, x, label), loss_by_hand(model, theta - h, x, label)
            out[i, j] = (up - down) / 2e-6
    return out


@ids
def test_losses_norms_and_sums_are_those_of_explicit_gradients(model):
    data, theta = records(model), parameters(model)
    evaluation = model.evaluate(theta, data)
    expected = [loss_by_hand(model, theta, x, label) for x, label in zip(data.X, data.y, strict=True)]
    np.testing.assert_allclose(evaluation.losses, expected, rtol=1e-12, atol=1e-13)
    explicit = explicit_gradients(model, theta, data)
    np.testing.assert_allclose(evaluation.gradient_norms(), np.linalg.norm(explicit, axis=1), rtol=1e-6, atol=1e-8)
    coefficient = np.random.default_rng(2).normal(size=len(data.y))
    np.testing.assert_allclose(evaluation.gradient_sum(coefficient), coefficient @ explicit, rtol=1e-5, atol=1e-6)


def one_by_one(evaluation, n):
    """Gradients of single records, exact to rounding: sums with a single coefficient."""
    return np.array([evaluation.gradient_sum(np.eye(n)[i]) for i in range(n)])


@ids
@given(seed=st.integers(0, 1000), log_step=st.floats(-9, 0))
def test_difference_norms_are_exact_down_to_tiny_steps(model, seed, log_step):
    data, theta = records(model, seed), parameters(model, seed)
    rng = np.random.default_rng(seed + 1)
    step = 10.0**log_step * rng.normal(size=model.n_parameters)
    old, new = model.evaluate(theta, data), model.evaluate(theta + step, data)
    a = rng.uniform(0, 3, size=len(data.y))
    b = a + 10.0**log_step * rng.normal(size=len(data.y))
    explicit = a[:, None] * one_by_one(new, len(data.y)) - b[:, None] * one_by_one(old, len(data.y))
    norms = new.difference_norms(a, old, b)
    scale = a * new.gradient_norms() + abs(b) * old.gradient_norms()
    # both sides round each gradient once, hence the absolute term
    np.testing.assert_allclose(norms, np.linalg.norm(explicit, axis=1), rtol=1e-6, atol=1e-14 * scale.max())
    total = new.difference_sum(a, old, b)
    np.testing.assert_allclose(total, explicit.sum(axis=0), rtol=1e-6, atol=1e-13 * scale.sum())


@ids
def test_identical_passes_have_no_difference(model):
    data, theta = records(model), parameters(model)
    evaluation, ones = model.evaluate(theta, data), np.ones(8)
    assert (evaluation.difference_norms(ones, model.evaluate(theta, data), ones) == 0).all()


@ids
def test_a_zero_row_still_has_the_gradient_of_the_biases(model):
    data, theta = records(model), parameters(model)
    norm = model.evaluate(theta, data).gradient_norms()[0]
    assert (norm > 0.01) == (model.intercept or isinstance(model, TanhNetwork))


@ids
def test_huge_scores_stay_finite(model):
    data = records(model)
    evaluation = model.evaluate(1e6 * parameters(model), data)
    assert np.isfinite(evaluation.losses).all() and np.isfinite(evaluation.gradient_norms()).all()


@ids
def test_ridge_spares_what_the_zero_row_sees(model):
    """An intercept is what a zero row's outputs depend on; exactly these parameters are not penalised."""
    data = records(model)
    data = Records.of(np.where(np.arange(5) == 4, data.X, 0.0) if model.intercept else 0 * data.X, data.y)
    theta = parameters(model)
    if isinstance(model, TanhNetwork):
        spared = model.n_hidden * model.intercept + (1 if model.n_classes == 2 else model.n_classes)
    else:
        spared = (1 if model.n_classes == 2 else model.n_classes) * model.intercept
    assert (~model.penalised()).sum() == spared
    assert model.start(np.random.default_rng(0)).shape == theta.shape == model.penalised().shape
