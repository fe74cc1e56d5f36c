"""Audits of the moment estimators as they run: sensitivity, noise scale, a distinguishing game, planted faults.

They stop the real `fit` right before its round and run the round themselves, with noise of their choice: they see
what it hands to the mechanism, and what comes out.
"""

from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from sklearn.preprocessing import PolynomialFeatures

from skdro import DPMomentDROClassifier, DPMomentDRORegressor
from skdro.estimators import _moments, moments, moments_regressor
from skdro.federation import doors, frames, in_process
from skdro.federation.doors import pass_through
from skdro.federation.steps.moments import RandomHalves
from skdro.federation.targets import BoundedNumber
from skdro.preprocessing import clip_rows_into
from skdro.privacy.audit_statistics import mu_lower_bound, noise_scale_bounds
from skdro.privacy.mechanism import release
from skdro.privacy.noise import OSNoise, StreamNoise
from skdro.privacy.sensitivity import ADJACENCIES

pytestmark = pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")

PATCH = pytest.MonkeyPatch.context
METHODS = {
    "classes, local": (DPMomentDROClassifier, {"aggregation": "local"}),
    "classes, trusted": (DPMomentDROClassifier, {"aggregation": "trusted", "client_weights": "uniform"}),
    "classes, halves": (DPMomentDROClassifier, {"aggregation": "local", "tune": True}),
    "numbers, local": (DPMomentDRORegressor, {"aggregation": "local"}),
    "numbers, trusted": (DPMomentDRORegressor, {"aggregation": "trusted", "client_weights": "uniform"}),
    "numbers, halves": (DPMomentDRORegressor, {"aggregation": "trusted", "tune": True}),
}
EACH_METHOD = pytest.mark.parametrize("method", METHODS)
EACH_ADJACENCY = pytest.mark.parametrize("adjacency", sorted(ADJACENCIES))
TOLERANCE = 1 + 1e-10


def estimator(method, adjacency="replace_one", n_classes=2, **parameters):
    cls, own = METHODS[method]
    public = {"classes": range(n_classes)} if cls is DPMomentDROClassifier else {"target_bounds": (-1.0, 1.0)}
    common = {"epsilon": 8.0, "delta": 1e-5, "random_state": 0, **public}
    return cls(adjacency=adjacency, **{**common, **own, **parameters})


@contextmanager
def record_masked(masked, record):
    """Within, the term of the record is zero in every sum, and it is still counted: the null record of zero_out."""

    def without(*args):
        block = where_they_lie(*args)
        keep = block.order != record
        return replace(block, order=block.order[keep], offsets=np.cumsum([0, *keep])[block.offsets])

    where_they_lie = _moments.where_they_lie
    with PATCH() as patch:
        if masked:
            patch.setattr(_moments, "where_they_lie", without)
        yield


class _Stopped(Exception):
    pass


@dataclass(frozen=True)
class Opened:
    """A fit stopped right before its round, which can then be run with any noise."""

    algorithm: object
    block: object

    @property
    def planned(self):
        """What the plan says about the release."""
        (door,) = (end for end in (self.algorithm.at_client, self.algorithm.at_server) if end is not pass_through)
        return door.planned

    def round(self, seed=0):
        """(exact, released) of the round with this noise, both of shape (n_draws, n_groups, size)."""
        exacts = []

        def watched(exact, **rest):
            exacts.append(exact.copy())
            return release(exact, **rest)

        def reseeded(door):
            return door if door is pass_through else replace(door, noise=StreamNoise(seed))

        ends = {end: reseeded(getattr(self.algorithm, end)) for end in ("at_client", "at_server")}
        algorithm = replace(self.algorithm, **ends)
        server = algorithm.server_start(self.block.n_clients, ())
        with PATCH() as patch, np.errstate(all="ignore"):
            patch.setattr(doors, "release", watched)
            state = algorithm.client_start(self.block)
            replies, _ = algorithm.client_step(state, self.block, algorithm.broadcast(server))
            server = algorithm.server_step(server, replies, range(self.block.n_clients))
        return exacts[0], server.released


def opened(model, X, y, groups, record=None):
    """The fit as it would run; without the term of `record`, if given."""
    seen = []

    def stop(algorithm, block, *args, **kwargs):
        seen.append(Opened(algorithm, block))
        raise _Stopped

    with PATCH() as patch, record_masked(record is not None, record):
        patch.setattr(in_process, "run", stop)
        with pytest.raises(_Stopped):
            model.fit(X, y, groups=groups)
    return seen[0]


# ---------------------------------------------------------------- audit 1: sensitivity


def movement(before, after, client):
    """Movement of what is handed to the mechanism, as a multiple of what the plan says about this client."""
    here, there = before.round()[0], after.round()[0]
    if len(here) > 1:  # noise at the clients: a client's release depends on its own records only
        np.testing.assert_array_equal(np.delete(there, client, axis=0), np.delete(here, client, axis=0))
        here, there = here[client], there[client]
    with np.errstate(all="ignore"):  # what a fault lets through may overflow, and then moves without bound
        ratio = np.linalg.norm(there - here) / before.planned.sensitivity[client]
    return np.inf if np.isnan(ratio) else ratio


def turned(angle):
    """Records whose rows lie at the angle at which the bound is attained, for two features and no intercept."""
    return np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])


def pair(rng, method, adjacency, size, n_classes=2, **parameters):
    """Movement between two neighbouring fits."""
    n_rows = rng.integers(1, 5, size=3)
    groups = rng.permutation(np.repeat(np.arange(3), n_rows))
    X = size * rng.normal(size=(len(groups), 2))
    regression = METHODS[method][0] is DPMomentDRORegressor
    targets = (
        rng.choice([-1.0, 1.0, 0.3, 1e200], len(groups)) if regression else rng.integers(0, n_classes, len(groups))
    )
    record = int(rng.integers(len(groups)))
    X2, y2 = X.copy(), targets.copy()
    if adjacency == "replace_one":
        angle = np.arccos(-rng.uniform(0, 1)) if rng.random() < 0.8 else rng.uniform(0, np.pi)
        X2[record] = turned(angle)[1] @ np.array([X[record], [-X[record, 1], X[record, 0]]])
        if rng.random() < 0.2:
            X2[record] = 1e200 * rng.normal(size=2)
        if rng.random() < 0.3:
            y2[record] = -targets[record] if regression else rng.integers(n_classes)
    model = estimator(method, adjacency, n_classes, **parameters)
    masked = record if adjacency == "zero_out" else None
    return movement(opened(model, X, targets, groups), opened(model, X2, y2, groups, masked), groups[record])


def search(method, adjacency, n_pairs=50, **parameters):
    """Largest movement over pairs that are likely to move the release much."""
    rng = np.random.default_rng(1)
    parameters = {"fit_intercept": False, **parameters}
    return max(pair(rng, method, adjacency, size=10.0 ** rng.integers(0, 4), **parameters) for _ in range(n_pairs))


@pytest.fixture
def one_split(monkeypatch):
    """Masking a record shifts the others' positions: keep every row but the record in the half where it was."""

    def by_content(self, block, g):
        rows = block.rows(g)
        first = np.array(
            [hash((x.tobytes(), float(y))) % 2 for x, y in zip(block.X[rows], block.y[rows], strict=True)]
        )
        return [rows[first == 1], rows[first == 0]]

    return lambda: monkeypatch.setattr(RandomHalves, "__call__", by_content)


@EACH_ADJACENCY
@EACH_METHOD
@pytest.mark.parametrize("omega", [0.5, 2.0])
def test_the_release_reaches_its_sensitivity_and_never_exceeds_it(method, adjacency, omega, one_split):
    if "halves" in method and adjacency == "zero_out":
        one_split()
    assert 0.9 <= search(method, adjacency, statistics_weight=omega) <= TOLERANCE


@profile(max_examples=100)
@given(
    method=st.sampled_from([name for name in METHODS if "halves" not in name]),
    adjacency=st.sampled_from(sorted(ADJACENCIES)),
    size=st.sampled_from([0.0, 1e-200, 0.1, 1.0, 1e3, 1e200]),
    n_classes=st.integers(2, 4),
    data_norm=st.floats(1e-2, 1e3),
    fit_intercept=st.booleans(),
    feature_bounds=st.sampled_from([None, (-1.0, 1.0), ([0.0, -5.0], [1e6, 0.0])]),
    client_weights=st.sampled_from(["uniform", "size", [5.0, 1.0, 0.5]]),
    statistics_weight=st.floats(0.1, 5.0),
    feature_map=st.sampled_from([None, PolynomialFeatures(2)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_record_moves_the_release_further_than_planned(method, adjacency, size, seed, **parameters):
    assert pair(np.random.default_rng(seed), method, adjacency, size, **parameters) <= TOLERANCE


@EACH_METHOD
def test_a_record_is_in_one_half_only_and_all_records_are_in_one(method):
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(101, 2)), np.arange(101) % 2, np.arange(101) % 3
    halves = []
    split = RandomHalves.__call__

    def watched(self, block, g):
        halves.append((split(self, block, g), block.rows(g)))
        return halves[-1][0]

    with PATCH() as patch:
        patch.setattr(RandomHalves, "__call__", watched)
        estimator(method, random_state=None).fit(X, y, groups=groups)
    assert len(halves) == (3 if "halves" in method else 0)
    for (first, second), rows in halves:
        assert sorted([*first, *second]) == list(rows)
        assert 0 <= len(first) - len(second) <= 1


# ---------------------------------------------------------------- audit 2: the scale of the noise


def noise_is_off(method, adjacency="replace_one"):
    """Whether released - exact has another scale than planned; 10 000 draws."""
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(80, 25)), np.arange(80) % 2, np.arange(80) // 2
    fit, draws, seed = opened(estimator(method, adjacency), X, y, groups), [], 0
    sigma = fit.planned.sigma[:, None, None]
    while sum(map(len, draws)) < 10_000:
        exact, released = fit.round(seed)
        draws.append(((released - exact) / sigma).ravel())
        seed += 1
    low, high = noise_scale_bounds(sum(map(len, draws)))
    return not low <= np.sqrt(np.mean(np.concatenate(draws) ** 2)) <= high


@EACH_ADJACENCY
@EACH_METHOD
def test_noise_has_the_planned_scale(method, adjacency):
    assert not noise_is_off(method, adjacency)


# ---------------------------------------------------------------- audit 3: the distinguishing game


GROUPS_GAME = np.array([0, 1, 1, 1, 1, 1])
X_GAME = np.array([[2.0, 0.0], [0.2, -0.4], [0.5, 0.5], [-0.3, 0.8], [0.1, 0.6], [0.4, 0.3]])
Y_GAME = np.array([1, 1, 0, 1, 1, 0])
RECORD, N_RUNS = 0, 1000


def sides(method, adjacency):
    """(X, y, masked record) of both sides: rows at the angle that moves the release most, or the term left out."""
    if adjacency == "zero_out":
        return [(X_GAME, Y_GAME, RECORD), (X_GAME, Y_GAME, None)]
    a = {"classes": 0.5, "numbers": 1.0}[method.split(",")[0]]
    other = X_GAME.copy()
    other[RECORD] = 2 * turned(np.arccos(-a / 2))[1]
    return [(X_GAME, Y_GAME, None), (other, Y_GAME, None)]


def game(method, adjacency):
    """Lower confidence bound on mu, and the mu that the fits claim."""
    model = estimator(method, adjacency, fit_intercept=False)
    fits = [opened(model, X, y, GROUPS_GAME, masked) for X, y, masked in sides(method, adjacency)]
    planned, (e0, e1) = fits[0].planned, (fit.round()[0] for fit in fits)
    # the log-likelihood ratio: projection on the difference that the adversary knows
    direction = (e1 - e0) / planned.sigma[:, None, None] ** 2
    scores = [
        np.array([(direction * (fit.round(2 * run + side)[1] - (e0 + e1) / 2)).sum() for run in range(N_RUNS)])
        for side, fit in enumerate(fits)
    ]
    return mu_lower_bound(*scores), float(np.sqrt(planned.mu_squared.max()))


GAMES = [name for name in METHODS if "halves" not in name]


@EACH_ADJACENCY
@pytest.mark.parametrize("method", GAMES)
def test_neighbours_cannot_be_told_apart_better_than_claimed(method, adjacency):
    bound, claimed = game(method, adjacency)
    assert claimed >= 1.5
    assert 0.7 * claimed < bound <= claimed  # and the game is no formality


# ---------------------------------------------------------------- audit 4: planted faults


def half_the_noise(patch):
    sound = StreamNoise.__call__
    patch.setattr(StreamNoise, "__call__", lambda self, *args, **key: sound(self, *args, **key) / 2)


def no_clipping(patch):
    patch.setattr(frames, "clip_rows_into", lambda X, max_norm, out: clip_rows_into(X, np.inf, out))


def targets_not_clipped(patch):
    patch.setattr(BoundedNumber, "enter", lambda self, y: y[:, None])


def omega_forgotten(patch):
    for module, name in ((moments, "classification_moments"), (moments_regressor, "regression_moments")):
        sound = getattr(module, name)
        # the sensitivity at omega = 1, whatever the statistics weigh
        patch.setattr(module, name, lambda *args, sound=sound: sound(*args[:-2], 1.0, args[-1]))


def one_record_for_two(patch):
    patch.setitem(ADJACENCIES, "replace_one", replace(ADJACENCIES["replace_one"], name="zero_out"))


def halves_overlap(patch):
    patch.setattr(RandomHalves, "__call__", lambda self, block, g: [block.rows(g), block.rows(g)])


def client_weights_forgotten(patch):
    """N for N_g: the weighted sum gets the noise of weights by size."""
    placement = _moments.PLACEMENTS["trusted"]
    patch.setitem(_moments.PLACEMENTS, "trusted", replace(placement, exposed=np.ones_like))


def rows_not_divided_by_their_norm(patch):
    patch.setattr(_moments.MomentRelease, "client_step", _undivided)


def _undivided(self, ledger, block, broadcast):
    return SOUND_STEP(replace(self, data_norm=1.0), ledger, block, broadcast)


SOUND_STEP = _moments.MomentRelease.client_step


@pytest.mark.parametrize(
    ("fault", "method", "adjacency", "parameters"),
    [
        (no_clipping, "classes, local", "replace_one", {}),
        (no_clipping, "numbers, trusted", "zero_out", {}),
        (targets_not_clipped, "numbers, local", "replace_one", {}),
        (omega_forgotten, "classes, local", "replace_one", {"statistics_weight": 2.0}),
        (omega_forgotten, "classes, trusted", "zero_out", {"statistics_weight": 2.0}),
        (omega_forgotten, "numbers, local", "replace_one", {"statistics_weight": 2.0}),
        (one_record_for_two, "classes, local", "replace_one", {}),
        (one_record_for_two, "numbers, trusted", "replace_one", {}),
        (halves_overlap, "classes, halves", "replace_one", {}),
        (halves_overlap, "numbers, halves", "zero_out", {}),
        (client_weights_forgotten, "classes, trusted", "replace_one", {}),
        (client_weights_forgotten, "numbers, trusted", "zero_out", {}),
        (rows_not_divided_by_their_norm, "classes, local", "replace_one", {"data_norm": 3.0}),
    ],
)
def test_sensitivity_audit_flags(fault, method, adjacency, parameters, monkeypatch):
    fault(monkeypatch)
    assert search(method, adjacency, n_pairs=40, **parameters) > 1.2


@EACH_METHOD
def test_noise_scale_audit_flags_half_the_noise(method, monkeypatch):
    half_the_noise(monkeypatch)
    assert noise_is_off(method)


@pytest.mark.parametrize(
    ("fault", "method", "adjacency"),
    [
        (half_the_noise, "classes, local", "replace_one"),
        (half_the_noise, "classes, trusted", "zero_out"),
        (half_the_noise, "numbers, local", "zero_out"),
        (half_the_noise, "numbers, trusted", "replace_one"),
        (no_clipping, "numbers, local", "replace_one"),
        (one_record_for_two, "classes, local", "replace_one"),
        (client_weights_forgotten, "classes, trusted", "replace_one"),
    ],
)
def test_distinguishing_game_flags(fault, method, adjacency, monkeypatch):
    fault(monkeypatch)
    bound, claimed = game(method, adjacency)
    assert claimed >= 1.5
    assert bound > claimed


def global_generator_is_involved(method):
    """Whether a fit draws from numpy's global generator, or its noise repeats when that is seeded."""
    models, following = [], []
    for fits in (True, True, False):
        np.random.seed(0)  # noqa: NPY002
        if fits:
            models.append(estimator(method, random_state=None).fit(X_GAME, Y_GAME, groups=GROUPS_GAME).coef_)
        following.append(np.random.random())  # noqa: NPY002
    return len(set(following)) > 1 or np.array_equal(*models)


@pytest.mark.parametrize("method", ["classes, halves", "numbers, halves"])
def test_noise_is_not_numpys_and_noise_that_is_gets_flagged(method, monkeypatch):
    assert not global_generator_is_involved(method)
    monkeypatch.setattr(
        OSNoise,
        "__call__",
        lambda self, shape, *, clients, round, release: np.random.standard_normal((len(clients), *shape)),  # noqa: NPY002
    )
    assert global_generator_is_involved(method)


class Watcher:
    """A callback that keeps whatever it is given."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.seen.append((X, y, metadata))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
        self.seen.append((X, y, metadata))


@pytest.mark.parametrize("method", ["classes, local", "numbers, trusted"])
def test_callbacks_get_no_data(method, monkeypatch):
    def data_given():
        watcher = Watcher()
        estimator(method).set_callbacks(watcher).fit(X_GAME, Y_GAME, groups=GROUPS_GAME)
        assert len(watcher.seen) == 4  # begin and end of the round and of the fit
        return [seen for seen in watcher.seen if any(value is not None for value in seen)]

    assert data_given() == []
    sound = _moments.MomentEstimator._run
    monkeypatch.setattr(
        _moments.MomentEstimator,
        "_run",
        lambda self, algorithm, block, shape, reconstruct: sound(
            self, algorithm, block, shape, reconstruct, X=block.X
        ),
    )
    assert data_given()
