"""Loaders: the published counts of each set, clients that line up, and the traps of the files."""

from pathlib import Path

import numpy as np
import pytest

from skdro import datasets

# name: shape, class counts, client counts, missing cells
FACTS = {
    "dermatology": ((366, 34), [112, 61, 72, 49, 52, 20], None, 8),
    "seeds": ((210, 7), [70, 70, 70], None, 0),
    "penguins": ((344, 4), [152, 68, 124], {"Biscoe": 168, "Dream": 124, "Torgersen": 52}, 8),
    "heart_disease": (
        (920, 13),
        [411, 509],
        {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200},
        6 + 782 + 273 + 698 + 123 + 49 + 1,
    ),
    "adult": (
        (32561, 14),
        [24720, 7841],
        {
            "Amer-Indian-Eskimo": 311,
            "Asian-Pac-Islander": 1039,
            "Black": 3124,
            "Other": 271,
            "White": 27816,
        },
        4262,
    ),
    "ai4i": ((10000, 6), [9661, 339], {"H": 1003, "L": 6000, "M": 2997}, 0),
    "tennessee_eastman": ((10580, 52), [500] + [480] * 21, dict.fromkeys(range(4), 2645), 0),
    "diabetes130": ((101766, 47), [54864, 35545, 11357], None, 192849),
}


def fetch(name, **kwargs):
    return getattr(datasets, f"fetch_{name}")(download_if_missing=False, **kwargs)


@pytest.mark.parametrize("name", FACTS)
def test_published_counts_and_documented_bounds(name, data_home):
    shape, class_counts, clients, n_missing = FACTS[name]
    bunch = fetch(name, data_home=data_home)
    assert bunch.data.shape == shape
    assert bunch.data.dtype == np.float64
    assert np.bincount(bunch.target).tolist() == class_counts
    assert len(bunch.target_names) == len(class_counts)
    assert len(bunch.feature_names) == shape[1]
    assert bunch.groups.shape == bunch.target.shape == shape[:1]
    assert np.isnan(bunch.data).sum() == n_missing
    if clients is not None:
        assert dict(zip(*np.unique(bunch.groups, return_counts=True), strict=True)) == clients
    assert bunch.licence in bunch.DESCR
    assert bunch.citation in bunch.DESCR
    low, high = bunch.feature_bounds
    assert low.shape == high.shape == (shape[1],)
    # a comparison with NaN is false: unknown bounds and missing cells exclude nothing
    assert not (bunch.data < low).any()
    assert not (bunch.data > high).any()


@pytest.mark.parametrize("name", ["dermatology", "seeds", "penguins", "heart_disease", "ai4i"])
def test_two_calls_and_all_formats_agree(name, data_home):
    bunch = fetch(name, data_home=data_home)
    for again in (
        fetch(name, data_home=data_home, return_X_y_groups=True),
        [np.asarray(part) for part in (bunch.data, bunch.target, bunch.groups)],
    ):
        for first, second in zip((bunch.data, bunch.target, bunch.groups), again, strict=True):
            np.testing.assert_array_equal(first, second)
    framed = fetch(name, data_home=data_home, as_frame=True)
    assert list(framed.data.columns) == bunch.feature_names
    assert framed.frame.shape == (len(bunch.data), bunch.data.shape[1] + 2)
    np.testing.assert_array_equal(framed.groups.to_numpy(), bunch.groups)
    for j, column in enumerate(bunch.feature_names):
        if column in bunch.feature_levels:
            assert framed.data[column].cat.categories.tolist() == list(bunch.feature_levels[column])
            np.testing.assert_array_equal(framed.data[column].cat.codes, bunch.data[:, j])
        else:
            np.testing.assert_array_equal(framed.data[column], bunch.data[:, j])


@pytest.mark.parametrize("name", ["dermatology", "seeds"])
def test_simulated_clients_hold_every_class(name, data_home):
    bunch = fetch(name, data_home=data_home)
    assert all(set(bunch.target[bunch.groups == g]) == set(bunch.target) for g in range(4))
    moved = fetch(name, data_home=data_home, random_state=1)
    assert (moved.groups != bunch.groups).any()


def test_environment_variable_names_the_root(data_home, monkeypatch):
    monkeypatch.setenv("SKDRO_DATA", str(data_home))
    assert fetch("seeds").data.shape == (210, 7)


def test_heart_disease_zeros_are_missing_values(data_home):
    bunch = fetch("heart_disease", data_home=data_home)
    of = {name: bunch.data[:, j] for j, name in enumerate(bunch.feature_names)}
    assert np.isnan(of["chol"][bunch.groups == "switzerland"]).all()
    assert np.isnan(of["chol"][bunch.groups == "va"]).sum() == 49 + 7
    assert np.nanmin(of["chol"]) > 80
    assert np.nanmin(of["trestbps"]) >= 80
    assert (of["ca"] == 0).any()


def test_heart_disease_grades_leave_out_the_hospital_without(data_home):
    bunch = fetch("heart_disease", data_home=data_home, severity=True)
    counts = {h: np.bincount(bunch.target[bunch.groups == h]).tolist() for h in np.unique(bunch.groups)}
    assert counts == {
        "cleveland": [164, 55, 36, 35, 13],
        "switzerland": [8, 48, 32, 30, 5],
        "va": [51, 56, 41, 42, 10],
    }
    assert bunch.target_names == ["0", "1", "2", "3", "4"]


def test_penguins_live_where_they_live(data_home):
    bunch = fetch("penguins", data_home=data_home)
    assert bunch.target_names == ["Adelie", "Chinstrap", "Gentoo"]
    assert set(bunch.groups[bunch.target == 1]) == {"Dream"}
    assert set(bunch.groups[bunch.target == 2]) == {"Biscoe"}
    assert (bunch.sex == "").sum() == 11
    assert set(bunch.year) == {2007, 2008, 2009}


def test_adult_subsets_and_groups(data_home):
    test = fetch("adult", data_home=data_home, subset="test", group_by="workclass")
    assert np.bincount(test.target).tolist() == [12435, 3846]
    assert np.isnan(test.data).sum() == 2203
    assert "missing" in test.groups
    row = fetch("adult", data_home=data_home, subset="test").data[0]
    levels = [test.feature_levels.get(name) for name in test.feature_names]
    decoded = [value if level is None else level[int(value)] for value, level in zip(row, levels, strict=True)]
    assert decoded[:4] == [25, "Private", 226802, "11th"]
    assert decoded[-2:] == [40, "United-States"]


def test_ai4i_modes_are_no_features(data_home):
    bunch = fetch("ai4i", data_home=data_home)
    assert bunch.failure_modes.sum(axis=0).tolist() == [46, 115, 95, 98, 19]
    assert not set(bunch.failure_mode_names) & set(bunch.feature_names)
    # every failure of a mode that is not random is a failure of the machine
    assert bunch.target[bunch.failure_modes[:, :4].any(axis=1)].all()


def test_tennessee_eastman_faults_set_in_after_eight_hours(data_home):
    bunch = fetch("tennessee_eastman", data_home=data_home, subset="test")
    assert bunch.data.shape == (21120, 52)
    assert np.bincount(bunch.target).tolist() == [960 + 21 * 160] + [800] * 21
    as_filed = fetch("tennessee_eastman", data_home=data_home, subset="test", normal_before_onset=False)
    assert np.bincount(as_filed.target).tolist() == [960] * 22
    np.testing.assert_array_equal(as_filed.target, bunch.run)
    # the reactor pressure of fault 6, a loss of feed, is that of the normal run before the onset
    pressure = bunch.data[bunch.run == 6, 6]
    assert abs(pressure[:160].mean() - bunch.data[bunch.run == 0, 6].mean()) < 2
    assert pressure[300:].mean() > pressure[:160].mean() + 50
    assert bunch.groups[bunch.sample == 239].tolist() == [0] * 22
    assert bunch.groups[bunch.sample == 240].tolist() == [1] * 22


def test_tennessee_eastman_reads_the_files_of_the_source(data_home, tmp_path):
    bunch = fetch("tennessee_eastman", data_home=data_home)
    folder = tmp_path / "tennessee_eastman"
    folder.mkdir()
    for run in range(22):
        rows = bunch.data[bunch.run == run]
        np.savetxt(folder / f"d{run:02d}.dat", rows.T if run == 0 else rows)
    again = fetch("tennessee_eastman", data_home=tmp_path)
    np.testing.assert_allclose(again.data, bunch.data)
    np.testing.assert_array_equal(again.target, bunch.target)


def test_diabetes_patients_and_levels(data_home):
    bunch = fetch("diabetes130", data_home=data_home, group_by="race")
    assert len(np.unique(bunch.patient)) == 71518
    assert (bunch.groups == "missing").sum() == 2273
    assert bunch.feature_levels["age"][:2] == ("[0-10)", "[10-20)")
    assert "250.83" in bunch.feature_levels["diag_1"]
    assert bunch.feature_levels["admission_type_id"] == tuple("12345678")
    weight = bunch.data[:, bunch.feature_names.index("weight")]
    assert np.isnan(weight).sum() == 98569


@pytest.mark.parametrize(
    ("name", "arguments", "parameter"),
    [
        ("adult", {"subset": "validation"}, "subset"),
        ("adult", {"group_by": "age"}, "group_by"),
        ("diabetes130", {"group_by": "hospital"}, "group_by"),
        ("tennessee_eastman", {"subset": "all"}, "subset"),
    ],
)
def test_bad_choices_name_the_parameter(name, arguments, parameter):
    with pytest.raises(ValueError, match=parameter):
        fetch(name, **arguments)


def test_no_data_file_of_others_is_in_the_package():
    package = Path(datasets.__file__).parent
    suffixes = {path.suffix for path in package.rglob("*") if path.is_file()}
    assert suffixes <= {".py", ".rst", ".pyc"}
