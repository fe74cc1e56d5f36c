"""The pump: the physics balances, faults do what an engineer expects, and the study has its numbers."""

import inspect
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skdro.datasets import _pump, make_pump_faults
from skdro.datasets._pump import FAULTY_FRICTION, LEAK_AREA, STRAINER_LOSS
from skdro.datasets._pump_features import FEATURE_NAMES, flow_features
from skdro.datasets._pump_physics import ATMOSPHERE, PumpParameters, chambers, start, step

DT = 5e-5
N_LEVELS = len(LEAK_AREA)


@pytest.fixture(scope="module")
def levels():
    """One run of each level of each fault, without any other variation: flow, speed and pressure in time."""
    sound = PumpParameters()
    leak, loss, friction = np.zeros(3 * N_LEVELS), np.ones(3 * N_LEVELS), np.zeros(3 * N_LEVELS)
    leak[:N_LEVELS] = LEAK_AREA
    loss[N_LEVELS : 2 * N_LEVELS] = STRAINER_LOSS
    friction[2 * N_LEVELS :] = FAULTY_FRICTION
    pump = replace(sound, leak_area=leak, strainer_area=sound.strainer_area / np.sqrt(loss), faulty_friction=friction)
    return simulate(pump, np.zeros(3 * N_LEVELS), n_samples=516)  # five turns


def simulate(pump, theta, n_samples, transient=200, dt=DT):
    state = start(pump, theta)
    record = {"flow": [], "speed": [], "manifold": [], "suction": [], "lowest": []}
    for sample in range(n_samples):
        for _ in range(round(1e-3 / dt)):
            step(pump, state, dt)
        if sample >= transient:
            record["flow"].append(60e3 * state.flow)
            record["speed"].append(state.omega * 30 / np.pi)
            record["manifold"].append(state.manifold / 1e5)
            record["suction"].append(state.suction / 1e5)
            record["lowest"].append(state.pressure.min(axis=0))
    return {name: np.array(values) for name, values in record.items()}


def of_fault(values, fault):
    return values.mean(axis=0)[fault * N_LEVELS : (fault + 1) * N_LEVELS]


def test_sound_pump_works_where_it_should(levels):
    assert of_fault(levels["flow"], 0)[0] == pytest.approx(38, abs=0.4)
    assert of_fault(levels["speed"], 0)[0] == pytest.approx(950, abs=6)
    assert of_fault(levels["manifold"], 0)[0] == pytest.approx(8, abs=0.2)  # bar absolute: 7 above the atmosphere


def test_flow_is_near_the_displacement(levels):
    pump = PumpParameters()
    swept = 3 * np.pi * pump.plunger_radius**2 * 2 * pump.crank_radius * 60e3  # litres a minute at 1 turn a second
    displacement = swept * of_fault(levels["speed"], 0)[0] / 60
    assert 0.93 < of_fault(levels["flow"], 0)[0] / displacement < 1.0


def test_volume_of_the_chambers():
    pump = PumpParameters()
    theta = np.linspace(0, 2 * np.pi, 721)
    volume, slope = chambers(pump, theta)
    swept = np.pi * pump.plunger_radius**2 * 2 * pump.crank_radius
    assert volume[0].min() == pytest.approx(pump.dead_volume)
    assert np.ptp(volume[0]) == pytest.approx(swept)
    numeric = np.gradient(volume, theta, axis=1, edge_order=2)
    np.testing.assert_allclose(numeric, slope, atol=2e-4 * slope.max())
    # the second plunger is a third of a turn ahead
    np.testing.assert_allclose(volume[1], chambers(pump, theta + 2 * np.pi / 3)[0][0], rtol=1e-12)


def test_flow_balance():
    pump = PumpParameters(leak_area=np.array([0.0, 2e-6]))
    state = start(pump, np.zeros(2))
    for _ in range(1000):
        step(pump, state, DT)
    before, delivered, out = state.manifold.copy(), state.delivered.copy(), np.zeros(2)
    for _ in range(3000):
        # the manifold is charged the flow at the start of the step
        out += DT * state.flow
        step(pump, state, DT)
    stored = pump.manifold_compliance * (state.manifold - before)
    np.testing.assert_allclose(state.delivered - delivered, out + stored, rtol=1e-9)


def test_energy_balance():
    """Over whole turns the work of the crank is the hydraulic work and a moderate loss in the valves."""
    pump = PumpParameters()
    state = start(pump, np.zeros(1))
    for _ in range(4000):
        step(pump, state, DT)
    crank_work = hydraulic_work = 0.0
    turns = state.theta + 2 * np.pi * 4
    while state.theta < turns:
        _, slope = chambers(pump, state.theta)
        torque = -((state.pressure - ATMOSPHERE) * slope).sum(axis=0)
        crank_work += DT * (torque * state.omega)[0]
        hydraulic_work += DT * ((state.manifold - state.suction) * state.flow)[0]
        step(pump, state, DT)
    assert 0.90 < hydraulic_work / crank_work < 1.0


def test_small_steps_change_little():
    pump = PumpParameters(leak_area=np.array([0, 1.5e-6]), strainer_area=np.array([1.8e-4, 1.1e-4]))
    coarse = simulate(pump, np.zeros(2), 190, transient=127)["flow"]  # one turn
    fine = simulate(pump, np.zeros(2), 190, transient=127, dt=DT / 4)["flow"]
    assert np.sqrt(((coarse - fine) ** 2).mean(axis=0)).max() < 0.13
    assert np.abs(coarse.mean(axis=0) - fine.mean(axis=0)).max() < 0.06


@pytest.mark.parametrize("fault", [0, 1, 2])
def test_each_fault_costs_more_flow_with_its_level(levels, fault):
    assert (np.diff(of_fault(levels["flow"], fault)) < 0).all()


def test_each_fault_has_its_mark(levels):
    speed, suction = levels["speed"], levels["suction"]
    assert (np.diff(of_fault(speed, 0)) > 0).all()  # a leak takes load off the motor
    assert (np.diff(of_fault(speed, 2)) < 0).all()  # friction brakes it
    assert (np.diff(of_fault(suction, 1)) < 0).all()
    assert np.ptp(of_fault(suction, 2)) < 0.01
    features = flow_features(levels["flow"].T, 1000.0)
    shaft = features[:, FEATURE_NAMES.index("power_10_20_hz")].reshape(3, N_LEVELS)
    assert (np.diff(shaft[0]) > 0).all()  # one weak plunger of three beats once a turn
    assert shaft[0, -1] > 100 * shaft[1].max()


def test_pressures_stay_physical(levels):
    assert levels["lowest"].min() > 0
    assert np.isfinite(levels["flow"]).all()


def test_features_of_a_known_signal():
    seconds = np.arange(1000) / 1000
    # the phase keeps the few samples a period away from zeros and peaks
    flow = 38 + 2 * np.sin(2 * np.pi * 50 * seconds + 0.1)
    of = dict(zip(FEATURE_NAMES, flow_features(flow[np.newaxis], 1000.0)[0], strict=True))
    assert of["mean"] == pytest.approx(38)
    assert of["variance"] == pytest.approx(2)
    assert of["skewness"] == pytest.approx(0, abs=1e-9)
    assert of["kurtosis"] == pytest.approx(-1.5)
    assert of["peak_to_peak"] == pytest.approx(4, rel=1e-2)
    assert of["rms"] == pytest.approx(np.sqrt(38**2 + 2))
    assert of["crest_factor"] == pytest.approx(40 / np.sqrt(38**2 + 2), rel=1e-3)
    assert of["mean_absolute_deviation"] == pytest.approx(4 / np.pi, rel=1e-2)
    # the integral of a half period of 2 l/min at 50 Hz, in millilitres
    assert of["cumulative_sum_range"] == pytest.approx(1000 / 60 * 2 * 2 / (2 * np.pi * 50), rel=5e-3)
    assert of["peak_frequency"] == pytest.approx(50, abs=0.1)
    assert of["power_40_60_hz"] == pytest.approx(2, rel=1e-3)
    assert of["power_10_20_hz"] == pytest.approx(0, abs=1e-3)
    assert of["power_above_100_hz"] == pytest.approx(0, abs=1e-3)


@pytest.fixture(scope="module")
def small_study():
    return make_pump_faults((75, 42, 42, 41), random_state=0, return_traces=True)


def test_study_counts_and_levels(small_study):
    assert np.bincount(small_study.target).tolist() == [75, 42, 42, 41]
    assert small_study.data.shape == (200, 13)
    assert small_study.traces.shape == (200, 1000)
    assert small_study.deployed.sum() == 40
    assert np.bincount(small_study.groups).tolist() == [50] * 4
    for fault, allowed in enumerate([{1}, {5, 6}, {3, 4}, {7, 8, 9}]):
        assert set(small_study.severity[small_study.target == fault]) == allowed
        assert set(small_study.groups[small_study.target == fault]) == set(range(4))
    dominant = [np.bincount(small_study.target[small_study.groups == g]).argmax() for g in range(4)]
    assert dominant == [0, 1, 2, 3]
    np.testing.assert_allclose(small_study.traces.mean(axis=1), small_study.data[:, 0])


def test_default_study_has_the_published_sizes():
    default = inspect.signature(make_pump_faults).parameters["n_samples_per_class"].default
    assert default == (750, 418, 418, 414)


def pooled_accuracy(study):
    model = make_pipeline(StandardScaler(), LinearSVC(C=10.0, max_iter=20_000, random_state=0))
    model.fit(study.data[~study.deployed], study.target[~study.deployed])
    return model.score(study.data[study.deployed], study.true_target[study.deployed])


def test_pooled_svm_is_good_on_clean_features_and_drops_under_noise(small_study, monkeypatch):
    # the same seed draws the same runs: they need not be simulated again
    monkeypatch.setattr(_pump, "_simulate", lambda *_: small_study.traces)
    noisy = make_pump_faults(
        (75, 42, 42, 41), random_state=0, sensor_noise=0.3, label_flip=0.15, deployment_offset=0.5
    )
    clean_accuracy = pooled_accuracy(small_study)
    assert clean_accuracy >= 0.95
    assert pooled_accuracy(noisy) <= clean_accuracy - 0.05
    training = ~noisy.deployed
    assert (noisy.target != noisy.true_target).sum() == 24
    np.testing.assert_array_equal(noisy.target[~training], noisy.true_target[~training])
    # noise is twice as strong in training; the offset moves five deployed features by half a deviation
    error = (noisy.data - small_study.data) / small_study.data.std(axis=0)
    assert error[training].std() == pytest.approx(0.6, rel=0.05)
    moved = error[~training].mean(axis=0) > 0.25
    assert moved.sum() == 5


def test_result_does_not_depend_on_jobs_or_chunks(small_study, monkeypatch):
    few = {"n_samples_per_class": (3, 2, 2, 2), "n_sites": 2, "n_times": 60, "random_state": 1}
    whole = make_pump_faults(**few)
    monkeypatch.setattr(_pump, "CHUNK", 5)
    X, y, groups = make_pump_faults(**few, n_jobs=2, return_X_y_groups=True)
    np.testing.assert_allclose(X, whole.data, rtol=1e-9)
    np.testing.assert_array_equal(y, whole.target)
    np.testing.assert_array_equal(groups, whole.groups)


@pytest.mark.slow
def test_two_thousand_runs_take_two_cores_less_than_a_minute():
    begin = time.process_time()
    study = make_pump_faults(random_state=0)
    # processor time, which other programs on the machine do not change much: two chunks, one a core
    assert (time.process_time() - begin) / 2 < 60
    assert np.bincount(study.target).tolist() == [750, 418, 418, 414]
    assert pooled_accuracy(study) >= 0.95


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"n_samples_per_class": (1, 2, 3)}, "n_samples_per_class"),
        ({"n_times": 10}, "n_times"),
        ({"leak_levels": (0,)}, "leak_levels"),
        ({"friction_levels": (11,)}, "friction_levels"),
        ({"inlet_levels": ()}, "inlet_levels"),
        ({"sensor_noise": -1}, "sensor_noise"),
        ({"site_spread": np.inf}, "site_spread"),
        ({"deployed_share": 1}, "deployed_share"),
        ({"label_flip": 2}, "label_flip"),
        ({"deployment_offset": np.nan}, "deployment_offset"),
        ({"n_sites": 0}, "n_sites"),
    ],
)
def test_errors_name_the_parameter(arguments, name):
    with pytest.raises(ValueError, match=name):
        make_pump_faults(**{"n_samples_per_class": (4, 4, 4, 4), **arguments})
