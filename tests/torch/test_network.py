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
from skdro.torch.records import MODULE_FAILED  # noqa: E402

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


class Keeping(Counting):
    """Keeps the records it sees, in the way it is told."""

    def __init__(self, n_in, n_out, keep):
        super().__init__(n_in, n_out)
        self.keep = keep
        self.trace, self.rows, self.notes, self.held = {}, [], Notes(), {"deep": [[]]}
        self.array = np.zeros(1)

    def forward(self, x):
        self.keep(self, x)
        return self.last(x)


class Notes:
    """An object that is no module."""


def in_a_new_attribute(module, x):
    module.features = x


def in_a_dict(module, x):
    module.trace[len(module.trace)] = x


def in_place_of_another(module, x):
    module.trace["last"] = x


def in_a_list(module, x):
    module.rows.append(x)


def in_another_object(module, x):
    module.notes.last = x


def in_depth(module, x):
    module.held["deep"][0].append(x)


def in_a_counter(module, x):
    module.n_calls = getattr(module, "n_calls", 0) + 1


def in_an_array(module, x):
    module.array += 1.0


def in_a_new_layer(module, x):
    module.extra = nn.Identity()


KEPT = {
    in_a_new_attribute: "features",
    in_a_dict: "trace",
    in_place_of_another: "trace",
    in_a_list: "rows",
    in_another_object: "notes",
    in_depth: "held",
    in_a_counter: "n_calls",
    in_an_array: "array",
    in_a_new_layer: "_modules",
}


def keeping(keep, shape, n_outputs):
    return nn.Sequential(nn.Linear(*shape, 3), Keeping(3, n_outputs, keep))


class Lookup(nn.Module):
    """An embedding of codes, which must be those it has."""

    def __init__(self, n_in, n_out, n_codes=3, clamped=False):
        super().__init__()
        self.codes, self.last = nn.Embedding(n_codes, 4), nn.Linear(4, n_out)
        self.largest, self.clamped = n_codes - 1, clamped

    def forward(self, x):
        codes = x[:, 0].abs().long()
        return self.last(self.codes(codes.clamp(0, self.largest) if self.clamped else codes))


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


@pytest.mark.parametrize("keep", KEPT)
def test_a_module_that_keeps_records_in_attributes_is_named(iris, keep):
    named = f"layer '1' changes its attribute '{KEPT[keep]}' .* local variables"
    with pytest.raises(ValueError, match=named):
        DROSpiderClassifier(network=Network(partial(keeping, keep)), **PRIVATE).fit(*iris)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.GroupNorm(2, 4),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
        lambda: nn.MultiheadAttention(4, 1).out_proj,
        lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)).eval(),
    ],
)
def test_layers_that_keep_nothing_are_accepted(make):
    Network(partial(with_hidden, make)).build(3, 4)


def test_a_factory_must_make_a_module_at_each_call(iris):
    one = nn.Linear(4, 3)
    with pytest.raises(ValueError, match="same one twice"):
        DROSpiderClassifier(network=Network(lambda shape, n_outputs: one), **PRIVATE).fit(*iris)


CODES = {"epsilon": 1.0, "delta": 1e-3, "classes": [0, 1], "n_rounds": 2}


@pytest.mark.parametrize("data_norm", [2.9, 100.0])
@pytest.mark.parametrize("clamped", [False, True])
def test_a_module_must_take_every_record_of_the_public_domain(data_norm, clamped):
    """Whether it is refused depends on the bounds alone: not on the data, where no code is out of range."""
    X, y = np.zeros((20, 1)), np.arange(20) % 2
    lookup = Network(partial(of, partial(Lookup, clamped=clamped)))
    model = DROSpiderClassifier(network=lookup, data_norm=data_norm, **CODES)
    if clamped or data_norm < 3:
        X[3] = 57.0
        model.fit(X, y)
        return
    for X[3] in (0.0, 57.0):
        with pytest.raises(ValueError, match=r"within the public bounds.*99.995 in size.*clamp"):
            model.fit(X, y)


class Choosy(nn.Module):
    """Fails on values that no public row has."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.last = nn.Linear(n_in, n_out)
        self.codes = nn.Embedding(2, n_out)

    def forward(self, x):
        found = ((x[:, 0] > 0.42) & (x[:, 0] < 0.43)).long()
        return self.last(x) + self.codes(found * 57)


@pytest.mark.filterwarnings("ignore::skdro.exceptions.NoiseFeedbackWarning")
@pytest.mark.parametrize("solver", ["dpgd", "double_spider"])
def test_what_a_module_raises_on_a_record_is_not_passed_on(solver):
    X, y = np.full((20, 1), 0.1), np.arange(20) % 2
    model = DROSpiderClassifier(network=Network(partial(of, Choosy)), solver=solver, data_norm=2.0, **CODES)
    model.fit(X, y)
    X[3] = 0.425
    for fails in (lambda: model.predict(X), lambda: clone(model).fit(X, y)):
        with pytest.raises(ValueError, match="module failed on a record") as caught:
            fails()
        assert str(caught.value) == MODULE_FAILED
        assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_gradients_and_sums_that_fail_say_nothing_either():
    model = Network(partial(of, Choosy)).build(2, 1)
    X, y = np.full((5, 1), 0.1), np.zeros(5, dtype=int)
    evaluation = model.evaluate(model.start(np.random.default_rng(0)), Records.of(X, y))
    evaluation.X[3] = 0.425
    for fails in (
        evaluation.gradient_norms,
        lambda: evaluation.gradient_sum(np.ones(5)),
        lambda: evaluation.clipped(np.ones(5), 1.0).total(np.ones(5)),
    ):
        with pytest.raises(ValueError) as caught:
            fails()
        assert str(caught.value) == MODULE_FAILED
        assert caught.value.__context__ is None


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
