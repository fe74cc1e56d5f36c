"""The divergence classifiers with a module: what is refused and how, and scikit-learn's conventions."""

import os
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from skdro import DROSpiderClassifier, KLDROSpiderClassifier
from skdro.losses.models import Records

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from skdro.torch import Network, resnet20  # noqa: E402

CLASSES = [DROSpiderClassifier, KLDROSpiderClassifier]
BOX = ([4, 2, 1, 0], [8, 4.5, 7, 2.5])
PRIVATE = {
    "epsilon": 5.0,
    "delta": 1e-4,
    "n_rounds": 4,
    "feature_bounds": BOX,
    "classes": [0, 1, 2],
    "data_norm": 2.0,
}


def perceptron(shape, n_outputs, n_hidden=4):
    return nn.Sequential(nn.Linear(*shape, n_hidden), nn.Tanh(), nn.Linear(n_hidden, n_outputs))


def with_layer(layer, shape, n_outputs):
    return nn.Sequential(nn.Linear(*shape, 4), layer, nn.Linear(4, n_outputs))


def with_hidden(make, shape, n_outputs):
    return with_layer(make(), shape, n_outputs)


def lazy(shape, n_outputs):
    return nn.LazyLinear(n_outputs)


def frozen(shape, n_outputs):
    return nn.Linear(*shape, n_outputs).requires_grad_(False)


class Counting(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.last = nn.Linear(n_in, n_out)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.last(x)


class Averaging(Counting):
    """Keeps a running mean of the records."""

    def forward(self, x):
        self.calls.mul_(0.9).add_(0.1 * x.mean())
        return self.last(x)


class Noisy(Counting):
    """Draws random numbers."""

    def forward(self, x):
        return self.last(x + torch.randn_like(x))


class Stateful(Counting):
    """Draws random numbers that PyTorch knows nothing of."""

    def forward(self, x):
        return self.last(x) * float(np.random.default_rng().random())


def of(module, shape, n_outputs):
    return module(*shape, n_outputs)


def too_many_outputs(shape, n_outputs):
    return nn.Linear(*shape, n_outputs + 1)


def no_module(shape, n_outputs):
    return "a module"


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize(
    ("network", "error", "named"),
    [
        (Network(partial(with_hidden, partial(nn.BatchNorm1d, 4))), ValueError, r"'1' \(BatchNorm1d\).*GroupNorm"),
        (Network(partial(with_hidden, partial(nn.Dropout, 0.5))), ValueError, r"'1' \(Dropout\).*eval\(\)"),
        (Network(lazy), ValueError, "LazyLinear"),
        (Network(frozen), ValueError, "requires_grad"),
        (Network(partial(of, Counting)), ValueError, "buffer 'calls'"),
        (Network(partial(of, Averaging)), ValueError, "one by one"),
        (Network(partial(of, Noisy)), ValueError, "random"),
        (Network(partial(of, Stateful)), ValueError, "deterministic"),
        (Network(too_many_outputs), ValueError, "3 outputs .* it has 4"),
        (Network(no_module), TypeError, "str"),
        (Network(nn.Linear(4, 3)), TypeError, "factory"),
        (Network(perceptron, input_shape=(1, 5)), ValueError, "holds 5 numbers, but X has 4 features"),
        (Network(perceptron, input_shape=(2, -2)), ValueError, "positive ints"),
        (Network(perceptron, input_shape=(2, 2)), ValueError, "shapes cannot be multiplied"),
        (Network(perceptron, micro_batch=0), ValueError, "micro_batch"),
        (Network(perceptron, n_threads=0), ValueError, "n_threads"),
    ],
)
@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_what_cannot_be_trained_record_by_record_is_named(iris, network, error, named, epsilon):
    with pytest.raises(error, match=named):
        DROSpiderClassifier(epsilon=epsilon, classes=[0, 1, 2], network=network).fit(*iris)


def test_instance_norm_that_remembers_is_refused():
    with pytest.raises(ValueError, match="track_running_stats=False"):
        Network(partial(with_hidden, partial(nn.InstanceNorm1d, 4, track_running_stats=True))).build(3, 4)


@pytest.mark.parametrize("make", [partial(nn.BatchNorm1d, 4), partial(nn.Dropout, 0.5)])
def test_layers_in_eval_mode_are_functions_of_one_record(make):
    Network(partial(with_hidden, lambda: make().eval())).build(3, 4)


def test_two_models_and_a_linear_divergence_are_refused(iris):
    with pytest.raises(ValueError, match="hidden_layer_sizes and network"):
        DROSpiderClassifier(hidden_layer_sizes=(3,), network=Network(perceptron)).fit(*iris)
    with pytest.raises(ValueError, match="network=None"):
        DROSpiderClassifier(divergence="tv", network=Network(perceptron)).fit(*iris)
    with pytest.raises(ValueError, match="network"):
        DROSpiderClassifier(network=nn.Linear(4, 3)).fit(*iris)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("aggregation", ["local", "trusted"])
def test_the_budget_is_kept_and_the_fit_survives_a_pickle(iris, cls, aggregation):
    X, y = iris
    model = cls(network=Network(partial(perceptron, n_hidden=3)), aggregation=aggregation, **PRIVATE)
    groups = np.arange(len(y)) % 4
    plan = model.privacy_plan(X, groups)
    fitted = model.fit(X, y, groups=groups)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.privacy_ == plan and again.privacy_.private
    assert again.privacy_.rederive_epsilon() == pytest.approx(5.0, rel=1e-6)
    assert "network and its start" in plan.public
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert not hasattr(again, "coef_")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_search_over_a_pipeline_reaches_the_network(iris):
    X, y = iris
    model = make_pipeline(StandardScaler(), DROSpiderClassifier(network=Network(perceptron), max_iter=30))
    twin = clone(model)
    assert twin[-1].network is not model[-1].network
    assert twin[-1].network.get_params() == model[-1].network.get_params()
    grid = {"drospiderclassifier__network__micro_batch": [50, 150], "drospiderclassifier__penalty": [0.5]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.85
    # micro-batches change no result but for rounding
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] == pytest.approx(scores[1], abs=0.03)


@pytest.mark.filterwarnings("ignore:random_state is set:skdro.exceptions.PrivacyLeakWarning")
def test_the_start_is_that_of_init_seed(iris):
    model = DROSpiderClassifier(network=Network(perceptron), random_state=0, **PRIVATE)
    torch.manual_seed(1)
    first = clone(model).fit(*iris).decision_function(iris[0])
    torch.manual_seed(2)
    np.testing.assert_array_equal(clone(model).fit(*iris).decision_function(iris[0]), first)
    other = clone(model).set_params(init_seed=1).fit(*iris).decision_function(iris[0])
    assert not np.array_equal(other, first)


def test_a_public_start_is_what_the_factory_gives():
    def loaded(shape, n_outputs):
        module = nn.Linear(*shape, n_outputs)
        nn.init.constant_(module.weight, 0.25)
        nn.init.zeros_(module.bias)
        return module

    start = Network(loaded).build(3, 4).start(np.random.default_rng(0))
    np.testing.assert_array_equal(start, [0.25] * 12 + [0.0] * 3)


@pytest.mark.parametrize(
    "estimator",
    [
        DROSpiderClassifier(network=Network(perceptron), max_iter=30),
        KLDROSpiderClassifier(network=Network(perceptron), epsilon=20.0, n_rounds=10),
    ],
    ids=["exact", "private"],
)
@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator):
    results = check_estimator(estimator, legacy=True, on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] not in ("passed", "skipped")}
    assert failed == {}
    assert len(results) > 50


# ---------------------------------------------------------------- ResNet-20


@pytest.mark.parametrize(("n_channels", "n_outputs", "expected"), [(3, 10, 269722), (1, 10, 269434), (1, 1, 268849)])
def test_resnet20_has_270_thousand_parameters(n_channels, n_outputs, expected):
    """Counted by hand, and no buffer that could remember a record."""
    convolutions = 144 * n_channels + 54 * 16**2 + 9 * 16 * 32 + 45 * 32**2 + 9 * 32 * 64 + 45 * 64**2
    norms = 2 * (7 * 16 + 6 * 32 + 6 * 64)
    assert convolutions + norms + 65 * n_outputs == expected
    module = resnet20((n_channels, 32, 32), n_outputs)
    assert sum(value.numel() for value in module.parameters()) == expected
    assert not list(module.buffers())
    convolved = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d)]
    assert len(convolved) + 1 == 20


def fashion_mnist(n):
    """Images padded to 32 x 32."""
    folder = os.environ.get("SKDRO_DATA")
    path = Path(folder or "", "fashion_mnist", "fashion_train_0.npz")
    if folder is None or not path.exists():
        pytest.skip("needs the data folder (SKDRO_DATA) with fashion_mnist")
    part = np.load(path)
    X = np.pad(part["X"][:n], ((0, 0), (2, 2), (2, 2))).reshape(n, -1) / 255.0
    return X, part["y"][:n].astype(int)


@pytest.mark.slow
def test_resnet20_clips_record_by_record():
    X, y = fashion_mnist(5)
    model = Network(resnet20, (1, 32, 32), micro_batch=2).build(10, 1024)
    theta = model.start(np.random.default_rng(0))
    module = resnet20((1, 32, 32), 10).double()
    torch.nn.utils.vector_to_parameters(torch.from_numpy(theta), module.parameters())
    gradients = []
    for x, label in zip(X, y, strict=True):
        module.zero_grad()
        out = module(torch.from_numpy(x).reshape(1, 1, 32, 32))
        nn.functional.cross_entropy(out, torch.tensor([label])).backward()
        gradients.append(torch.cat([value.grad.reshape(-1) for value in module.parameters()]).numpy())
    norms = np.linalg.norm(gradients, axis=1)
    C = float(np.median(norms))
    evaluation = model.evaluate(theta, Records.of(X, y))
    np.testing.assert_allclose(evaluation.gradient_norms(), norms, rtol=1e-3)
    expected = sum(g * min(1.0, C / norm) for g, norm in zip(gradients, norms, strict=True))
    total = evaluation.clipped(np.ones(5), C).total(np.ones(5))
    assert np.linalg.norm(total - expected) <= 1e-3 * np.linalg.norm(expected)


@pytest.mark.slow
def test_resnet20_learns_in_a_tiny_epoch():
    """Four rounds on 64 images with next to no noise: the loss falls, and the plan is kept."""
    X, y = fashion_mnist(64)
    model = DROSpiderClassifier(
        epsilon=1e6, delta=1e-3, solver="erm", n_rounds=4, step_size=0.5, clip_norm=2.0, momentum=0.0, data_norm=32.0,
        classes=list(range(10)), feature_bounds=(0.0, 1.0), network=Network(resnet20, (1, 32, 32), micro_batch=32),
    )  # fmt: skip
    plan = model.privacy_plan(X)
    model.fit(X, y)
    assert model.privacy_ == plan
    losses = -model.predict_log_proba(X)[np.arange(64), y]
    start = model.set_params(n_rounds=1, step_size=1e-9).fit(X, y)
    before = -start.predict_log_proba(X)[np.arange(64), y]
    assert losses.mean() < before.mean() - 0.02
