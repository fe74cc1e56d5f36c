"""Per-record gradients of modules against loops of plain autograd, and against the models written by hand."""

import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from skdro import DROSpiderClassifier, KLDROSpiderClassifier
from skdro.losses.models import LinearModel, Records, TanhNetwork

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from skdro.torch import Network, resnet20  # noqa: E402
from skdro.torch import model as torch_model  # noqa: E402
from skdro.torch.records import Passes  # noqa: E402

seeded = pytest.mark.filterwarnings("ignore:random_state is set:skdro.exceptions.PrivacyLeakWarning")
feedback = pytest.mark.filterwarnings("ignore::skdro.exceptions.NoiseFeedbackWarning")
N_FEATURES = 4


class Linear(nn.Module):
    """The parameters of `LinearModel`: W, whose last column is the intercept."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_out, n_in + 1, dtype=torch.float64))

    def forward(self, x):
        return x @ self.weight[:, :-1].T + self.weight[:, -1]


class Tanh(nn.Module):
    """The parameters of `TanhNetwork`, started where it starts."""

    def __init__(self, n_in, n_out, n_hidden=3, seed=0):
        super().__init__()
        twin = TanhNetwork(2 if n_out == 1 else n_out, n_in + 1, n_hidden, True)
        first, second = twin.layers(twin.start(np.random.default_rng(seed)))
        self.first, self.second = (nn.Parameter(torch.from_numpy(layer.copy())) for layer in (first, second))

    def forward(self, x):
        h = torch.tanh(x @ self.first[:, :-1].T + self.first[:, -1])
        return h @ self.second[:, :-1].T + self.second[:, -1]


def linear(shape, n_outputs):
    return Linear(*shape, n_outputs)


def tanh(shape, n_outputs):
    return Tanh(*shape, n_outputs)


def perceptron(shape, n_outputs):
    return nn.Sequential(nn.Linear(*shape, 5), nn.GroupNorm(1, 5), nn.Tanh(), nn.Linear(5, n_outputs))


def precise_perceptron(shape, n_outputs):
    return perceptron(shape, n_outputs).double()


class Centred(nn.Module):
    """Subtracts the mean of the batch: for one record at a time, nothing is left of it."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.last = nn.Linear(n_in, n_out)

    def forward(self, x):
        return self.last(x - x.mean(dim=0, keepdim=True))


def centred(shape, n_outputs):
    return Centred(*shape, n_outputs)


def convolutional(shape, n_outputs):
    layers = [nn.Conv2d(shape[0], 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4, n_outputs)).double()


def records(n=11, n_classes=3, seed=0, n_features=N_FEATURES):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * rng.choice([1e-3, 1.0, 30.0], size=(n, 1))
    X[0] = 0.0
    return Records.of(X, rng.integers(n_classes, size=n))


@cache
def built(factory, n_classes=3, micro_batch=4, shape=None, n_features=N_FEATURES):
    return Network(factory, shape, micro_batch=micro_batch).build(n_classes, n_features)


def spread(model, seed=1):
    return model.start(np.random.default_rng(seed)) + 0.3 * np.random.default_rng(seed).normal(
        size=model.n_parameters
    )


def by_loop(model, theta, data):
    """Losses and gradients of single records by plain backward passes through a module in train mode, float64."""
    module = model.factory(model.passes.input_shape, model.n_outputs).double()
    torch.nn.utils.vector_to_parameters(torch.from_numpy(theta), module.parameters())
    losses, gradients = [], []
    for x, label in zip(data.X, data.y, strict=True):
        module.zero_grad()
        out = module(torch.from_numpy(x).reshape(1, *model.passes.input_shape))[0]
        scores = torch.cat([out.new_zeros(1), out]) if len(out) == 1 else out
        loss = torch.logsumexp(scores, 0) - scores[int(label)]
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.reshape(-1) for p in module.parameters()]).numpy())
    return np.array(losses), np.array(gradients)


def clip(vector, bound):
    norm = np.linalg.norm(vector)
    return vector if norm <= bound else vector * (bound / norm)


CASES = [
    (precise_perceptron, None, N_FEATURES, 1e-11),
    (perceptron, None, N_FEATURES, 1e-4),  # computes in single precision, the loop in double
    (convolutional, (2, 3, 3), 18, 1e-11),
]


@pytest.mark.parametrize(("factory", "shape", "n_features", "tolerance"), CASES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("micro_batch", [1, 4])
def test_terms_are_those_of_a_loop_over_records(factory, shape, n_features, tolerance, n_classes, micro_batch):
    model = built(factory, n_classes, micro_batch, shape, n_features)
    data, theta = records(n_classes=n_classes, n_features=n_features), spread(model)
    evaluation = model.evaluate(theta, data)
    losses, gradients = by_loop(model, theta, data)
    close = {"rtol": tolerance, "atol": tolerance * np.abs(gradients).max()}
    np.testing.assert_allclose(evaluation.losses, losses, **close)
    np.testing.assert_allclose(evaluation.gradient_norms(), np.linalg.norm(gradients, axis=1), **close)
    rng = np.random.default_rng(2)
    rows, weight = rng.uniform(size=11), rng.uniform(0, 3, size=11)
    np.testing.assert_allclose(evaluation.gradient_sum(weight), weight @ gradients, **close)
    C = float(np.median(weight * np.linalg.norm(gradients, axis=1)))  # so that half of them are clipped
    terms = np.array([clip(w * g, C) for w, g in zip(weight, gradients, strict=True)])
    np.testing.assert_allclose(evaluation.clipped(weight, C).total(rows), rows @ terms, **close)


@pytest.mark.parametrize("factory", [precise_perceptron, tanh])
@profile(max_examples=10)
@given(seed=st.integers(0, 1000), log_step=st.floats(-9, 0))
def test_changes_are_exact_down_to_tiny_steps(factory, seed, log_step):
    model, data = built(factory), records(seed=seed)
    theta, rng = spread(model, seed), np.random.default_rng(seed + 1)
    step = 10.0**log_step * rng.normal(size=model.n_parameters)
    weight = rng.uniform(0.5, 3, size=11)
    evaluations = [model.evaluate(at, data) for at in (theta, theta + step)]
    ones = np.ones(11)
    explicit = [by_loop(model, at, data)[1] for at in (theta, theta + step)]
    scale = max(np.abs(g).max() for g in explicit)
    C = 0.5 * float(np.median(np.linalg.norm(explicit[0], axis=1)))
    terms = [np.array([clip(w * g, C) for w, g in zip(weight, part, strict=True)]) for part in explicit]
    differences = terms[1] - terms[0]
    D = float(np.median(np.linalg.norm(differences, axis=1)))
    expected = sum(clip(d, D) for d in differences)
    old, new = (evaluation.clipped(weight, C) for evaluation in evaluations)
    # both sides round each gradient once, hence the absolute term
    np.testing.assert_allclose(new.change(old, ones, D), expected, rtol=1e-5, atol=1e-13 * scale)
    for i in range(3):
        alone = new.change(old, np.eye(11)[i], D)
        assert np.linalg.norm(alone) <= D * (1 + 1e-12)


def test_a_pass_does_not_change_from_itself():
    model, data = built(perceptron), records()
    theta, ones = spread(model), np.ones(11)
    terms = [model.evaluate(theta, data).clipped(ones, 1.0) for _ in range(2)]
    assert not terms[0].change(terms[1], ones, 1.0).any()


# ---------------------------------------------------------------- what is written by hand in numpy


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("factory", [linear, tanh])
def test_modules_reproduce_the_models_written_by_hand(factory, n_classes):
    model = built(factory, n_classes)
    hand = LinearModel(n_classes, 5, True) if factory is linear else TanhNetwork(n_classes, 5, 3, True)
    data = records(n_classes=n_classes)
    extended = Records.of(np.hstack([data.X, np.ones((11, 1))]), data.y)
    theta = np.random.default_rng(3).normal(size=hand.n_parameters)
    ours, theirs = model.evaluate(theta, data), hand.evaluate(theta, extended)
    moved = [m.evaluate(theta + 1e-3, d) for m, d in ((model, data), (hand, extended))]
    weight, ones = np.linspace(0.0, 2.0, 11), np.ones(11)
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(ours.losses, theirs.losses, **close)
    np.testing.assert_allclose(ours.gradient_norms(), theirs.gradient_norms(), **close)
    np.testing.assert_allclose(
        ours.clipped(weight, 0.7).total(ones), theirs.clipped(weight, 0.7).total(ones), **close
    )
    changes = [
        after.clipped(weight, 50.0).change(before.clipped(weight, 50.0), ones, 1e-3)
        for after, before in zip(moved, (ours, theirs), strict=True)
    ]
    np.testing.assert_allclose(changes[0], changes[1], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(model.scores(theta, data.X), hand.scores(theta, extended.X), **close)


SOLVERS = [
    *((DROSpiderClassifier, s) for s in ("dpgd", "dpsgda", "storm", "double_spider", "privatediff", "erm")),
    *((KLDROSpiderClassifier, s) for s in ("dpgd", "recursive_spider")),
]


@pytest.mark.parametrize(("cls", "solver"), SOLVERS)
@pytest.mark.parametrize("factory", [linear, tanh])
@seeded
@feedback
def test_private_fits_with_the_same_noise_are_the_same(cls, solver, factory, federation):
    X, y, groups = federation[0], np.unique(federation[1], return_inverse=True)[1], federation[2]
    aggregation = "local" if factory is linear else "trusted"
    common = {"epsilon": 20.0, "solver": solver, "aggregation": aggregation, "classes": [0, 1, 2], "delta": 1e-3}
    # rows are not clipped, or the constant column that the module does not see would differ from one
    common |= {"n_rounds": 6, "data_norm": 100.0, "reg": 0.0, "random_state": 1, "step_size": 1.0}
    hand = cls(hidden_layer_sizes=() if factory is linear else (3,), **common).fit(X, y, groups=groups)
    ours = cls(network=Network(factory, micro_batch=16), **common).fit(X, y, groups=groups)
    for name in hand.history_:
        np.testing.assert_allclose(ours.history_[name], hand.history_[name], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(ours.decision_function(X), hand.decision_function(X), rtol=1e-9, atol=1e-10)
    assert ours.privacy_.events == hand.privacy_.events
    assert "network and its start" in ours.privacy_.public


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_exact_fits_reach_the_same_risk(federation):
    X, y, _ = federation
    hand = DROSpiderClassifier(reg=0.0, tol=1e-5).fit(X, y)
    ours = DROSpiderClassifier(reg=0.0, tol=1e-5, network=Network(linear)).fit(X, y)
    assert ours.worst_case_risk_ == pytest.approx(hand.worst_case_risk_, rel=1e-7)
    assert ours.dual_gap_ == np.inf and not hasattr(ours, "coef_")


# ---------------------------------------------------------------- sensitivity, and what could void it


C, D = 0.3, 1e-3
FACTORIES = [linear, tanh, perceptron, precise_perceptron, centred]


def any_record(rng, x, label, step):
    return np.abs(x).max() * rng.normal(size=x.shape), int(rng.integers(2))


def mirrored(rng, x, label, step):
    """As good as opposite, and yet the step moves its score as it moves that of x."""
    direction = step[: len(x)] / np.linalg.norm(step[: len(x)])
    return -x + 2 * (x @ direction) * direction, label


def moved(factory, adjacency, seed, size, scale, replacement=any_record):
    """How far one record moves the sum of terms and that of changes, as multiples of the clips."""
    rng, model = np.random.default_rng(seed), built(factory, 2)
    n, i = 6, int(rng.integers(6))
    X, y = size * rng.normal(size=(n, N_FEATURES)), rng.integers(2, size=n)
    thetas = [scale * rng.normal(size=model.n_parameters) for _ in range(2)]
    X2, y2, rows = X.copy(), y.copy(), np.ones(n)
    if adjacency == "replace_one":
        X2[i], y2[i] = replacement(rng, X[i], y[i], thetas[1] - thetas[0])
    neighbour = np.where(np.arange(n) == i, 0.0, rows) if adjacency == "zero_out" else rows
    sums = []
    for A, labels, share in ((X, y, rows), (X2, y2, neighbour)):
        data = Records.of(A, labels)
        passes = [model.evaluate(theta, data) for theta in thetas]
        weights = [np.minimum(p.losses, 3.0) for p in passes]  # functions of the record
        old, new = (p.clipped(w, 1e3 * C) for p, w in zip(passes, weights, strict=True))
        sums.append((passes[1].clipped(weights[1], C).total(share), new.change(old, share, D)))
    ball = 2.0 if adjacency == "replace_one" else 1.0
    with np.errstate(all="ignore"):
        pairs = zip(*sums, (C, D), strict=True)
        ratios = np.array([np.linalg.norm(a - b) / (ball * bound) for a, b, bound in pairs])
    return np.where(np.isnan(ratios), np.inf, ratios)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@profile(max_examples=25)
@given(
    factory=st.sampled_from(FACTORIES),
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([0.0, 1e-200, 1.0, 1e3, 1e30, 1e200]),
    scale=st.sampled_from([0.0, 1e-9, 1.0, 1e8, 1e75]),
)
def test_no_record_moves_a_sum_further_than_its_clip(adjacency, factory, seed, size, scale):
    assert (moved(factory, adjacency, seed, size, scale) <= 1 + 1e-10).all()


def furthest(adjacency, factories=(linear,)):
    pairs = [(factory, seed) for factory in factories for seed in range(12)]
    return np.max([moved(factory, adjacency, seed, 10.0, 0.01, mirrored) for factory, seed in pairs], axis=0)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_some_record_moves_both_sums_that_far(adjacency):
    assert (furthest(adjacency) >= 0.9).all()


def batch_mean_clipped(patch):
    def terms(self):
        for batch, gradients in self.evaluation.gradients():
            mean = [part.double().mean(dim=0, keepdim=True) for part in gradients]
            coefficient = min(1.0, self.clip_norm / float(torch_model.norms(mean)))
            yield batch, [coefficient * part.expand(len(gradients[0]), -1) for part in mean]

    patch.setattr(torch_model.ModuleTerms, "_terms", terms)


def nothing_clipped(patch):
    patch.setattr(torch_model, "clip_coefficients", lambda weight, norms, clip_norm: weight)


def one_layer_not_measured(patch):
    sound = torch_model.norms
    patch.setattr(torch_model, "norms", lambda parts: sound(parts[:1]))


def records_passed_as_a_batch(patch):
    """Without vmap apart from the parameters: the module sees all records of a micro-batch at once."""

    def gradients(self, parameters, x, y):
        named = {name: value.expand(len(x), *value.shape) for name, value in parameters.items()}
        named = {name: value.clone().requires_grad_() for name, value in named.items()}
        # each record with parameters of its own, but centred by the batch
        x = x - x.mean(dim=0, keepdim=True)
        labels = torch.from_numpy(np.asarray(y, dtype=np.int64))
        losses = torch.func.vmap(self._loss, in_dims=(0, None, 0, 0))(named, self.constants(), x, labels)
        parts = torch.autograd.grad(losses.sum(), list(named.values()))
        return [part.flatten(1) for part in parts]

    patch.setattr(Passes, "gradients", gradients)


FAULTS = [batch_mean_clipped, nothing_clipped, one_layer_not_measured, records_passed_as_a_batch]


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_seen(fault, monkeypatch):
    fault(monkeypatch)
    assert furthest("replace_one", (linear, precise_perceptron)).max() > 1.05


def test_what_centres_over_the_batch_sees_one_record():
    """Nothing is left of a record less its own mean, whatever else is in the batch: outputs are the bias."""
    model, data = built(centred), records()
    theta = spread(model)
    bias = theta[-3:]
    np.testing.assert_allclose(model.scores(theta, data.X), np.tile(bias, (11, 1)), rtol=1e-6)
    assert built(centred, micro_batch=11).evaluate(theta, data).losses == pytest.approx(
        built(centred, micro_batch=1).evaluate(theta, data).losses
    )


@pytest.mark.parametrize(("factory", "shape", "n_features"), [(perceptron, None, 4), (resnet20, (1, 8, 8), 64)])
def test_a_record_leaves_the_last_bit_of_all_others_alone(factory, shape, n_features):
    """Rounding is a way from one record to another's term, unless micro-batches are composed in public."""
    model = built(factory, 3, 4, shape, n_features)
    data, theta = records(7, n_features=n_features), model.start(np.random.default_rng(0))
    X = data.X.copy()
    X[2] = 1e3
    ones = np.ones(7)
    terms = [model.evaluate(theta, Records.of(rows, data.y)).clipped(ones, 0.1) for rows in (data.X, X)]
    for i in range(7):
        alone = [term.total(np.eye(7)[i]) for term in terms]
        assert np.array_equal(*alone) == (i != 2)


def test_numbers_that_overflow_count_as_zero():
    model, data = built(perceptron), records()
    evaluation = model.evaluate(np.full(model.n_parameters, 1e75), data)
    assert np.isfinite(evaluation.losses).all() and np.isfinite(evaluation.gradient_norms()).all()
    assert np.isfinite(evaluation.clipped(np.ones(11), 1.0).total(np.ones(11))).all()


# ---------------------------------------------------------------- starts, threads, memory


def test_the_start_follows_from_the_seed_and_leaves_the_global_generator_alone():
    model = built(perceptron)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    starts = [model.start(np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert np.array_equal(built(perceptron).start(np.random.default_rng(0)), starts[0])
    assert np.array_equal(starts[0], starts[1]) and not np.array_equal(starts[0], starts[2])
    assert starts[0].dtype == np.float64


def test_ridge_falls_on_weights_of_layers_only():
    model = built(perceptron)
    named = [(value.numel(), value.ndim) for value in perceptron((4,), 3).parameters()]
    expected = np.concatenate([np.full(size, ndim > 1) for size, ndim in named])
    np.testing.assert_array_equal(model.penalised(), expected)
    assert expected.sum() == 4 * 5 + 5 * 3


def frozen_body(shape, n_outputs):
    module = nn.Sequential(nn.Linear(*shape, 3, bias=False), nn.Tanh(), nn.Linear(3, n_outputs)).double()
    nn.init.constant_(module[0].weight, 0.1)
    module[0].weight.requires_grad_(False)
    return module


def test_frozen_parameters_are_constants():
    model, data = built(frozen_body), records()
    assert model.n_parameters == 3 * 3 + 3
    h = np.tanh(0.1 * data.X.sum(axis=1, keepdims=True)) * np.ones(3)
    theta = np.random.default_rng(0).normal(size=12)
    np.testing.assert_allclose(model.scores(theta, data.X), h @ theta[:9].reshape(3, 3).T + theta[9:])


def test_threads_are_given_back():
    before = torch.get_num_threads()
    model = Network(perceptron, n_threads=before + 1).build(3, N_FEATURES)
    terms = model.evaluate(spread(model), records()).clipped(np.ones(11), 1.0)
    terms.change(terms, np.ones(11), 1.0)
    assert torch.get_num_threads() == before


MEMORY = """
import resource
import numpy as np
from torch import nn
from skdro.losses.models import Records
from skdro.torch import Network

def wide(shape, n_outputs):
    return nn.Sequential(nn.Linear(*shape, 1000), nn.Tanh(), nn.Linear(1000, n_outputs))

model = Network(wide, micro_batch=4).build(2, 100)
theta = model.start(np.random.default_rng(0))

def run(n):
    data = Records.of(np.random.default_rng(0).normal(size=(n, 100)), np.arange(n) % 2)
    old, new = (model.evaluate(x, data).clipped(np.ones(n), 1.0) for x in (theta, 1.1 * theta))
    new.total(np.ones(n)), new.change(old, np.ones(n), 0.1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

print(model.n_parameters, -run(8) + run(200))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is in kilobytes on Linux only")
def test_memory_is_that_of_a_micro_batch():
    out = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout.split()
    n_parameters, megabytes = int(out[0]), float(out[1])
    assert n_parameters > 100_000
    assert megabytes < 40  # the gradients of all records are 80 in single precision, those of a micro-batch 2
