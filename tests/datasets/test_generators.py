"""Generators of published studies: counts, and the moments that their descriptions state."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from skdro.datasets import make_imbalanced, make_multisource_regression, make_overlap_study


def test_overlap_counts_and_flips():
    study = make_overlap_study(3, random_state=0)
    assert np.bincount(study.true_target).tolist() == [440, 140, 140, 140]
    assert np.bincount(study.target_test).tolist() == [54] * 4
    assert (study.target != study.true_target).sum() == 86
    assert all(set(study.target[study.groups == g]) == {0, 1, 2, 3} for g in range(4))


@pytest.mark.parametrize("spread", [1.2, 2.0, 3.0])
def test_overlap_moments(spread):
    n = 20_000
    study = make_overlap_study(spread, n_train_per_class=(n,) * 4, label_flip=0, random_state=1)
    of_class = [study.data[study.target == k] for k in range(4)]
    stated = [
        np.zeros(8),
        [2.8, 2.8, 2.8, 0, 0, 0, 1.4, 0],
        [2.8 + spread, 2.8 + spread, 2.8 + spread, 0, 0, 0, 1.4 - 0.6 * spread, 1.2 * spread],
        [0, 0, 0, 4.2, 4.2, 4.2, 0, 2.4],
    ]
    for rows, centre in zip(of_class, stated, strict=True):
        assert np.abs(rows.mean(axis=0) - centre).max() < 5 / np.sqrt(n)
        covariance = np.cov(rows.T)
        assert np.abs(np.diag(covariance) - 1).max() < 0.06
        pairs = {(0, 1): 0.7, (1, 2): 0.7, (3, 5): 0.6, (0, 3): 0.15, (2, 6): 0.15, (6, 7): 0.15}
        for (i, j), correlation in pairs.items():
            assert abs(covariance[i, j] - correlation) < 0.05


def test_multisource_structure():
    study = make_multisource_regression(random_state=2026)
    a = np.array([1, 0.5, -0.5])
    v = study.directions
    assert np.bincount(study.groups).tolist() == [30, 40, 80, 150, 300]
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1)
    np.testing.assert_allclose(v[3:] @ a, 0, atol=1e-12)
    # nearly aligned: the cosine of u + .2 b with u is 1 / sqrt(1.04)
    cosines = v[:3] @ a / np.linalg.norm(a)
    np.testing.assert_allclose(cosines, np.array([1, -1, 1]) / np.sqrt(1.04))
    np.testing.assert_allclose(study.target, study.clean_data @ a)
    np.testing.assert_allclose(study.target_test, study.data_test @ a)
    np.testing.assert_allclose(LinearRegression().fit(study.clean_data, study.target).coef_, a)


def test_multisource_moments():
    n = 40_000
    study = make_multisource_regression((n,) * 5, random_state=0)
    error = study.data - study.clean_data
    for g, (delta, shift) in enumerate(zip((3, 1, 1, 0.5, 0.5), (0.2, -0.1, 0, 0, 0), strict=True)):
        clean, observed = study.clean_data[study.groups == g], error[study.groups == g]
        v = study.directions[g]
        assert np.abs(clean.mean(axis=0) - delta * v).max() < 5 / np.sqrt(n)
        assert np.abs(np.cov(clean.T) - np.eye(3)).max() < 0.05
        assert np.abs(observed.mean(axis=0) - shift * v).max() < 0.5 / np.sqrt(n)
        assert np.abs(np.cov(observed.T) - 0.01 * np.eye(3)).max() < 5e-4


def test_multisource_test_mixture():
    weights = [0, 0.5, 0, 0.25, 0.25]
    study = make_multisource_regression(n_test=1000, test_weights=weights, random_state=5)
    assert np.bincount(study.groups_test, minlength=5).tolist() == [0, 500, 0, 250, 250]
    np.testing.assert_array_equal(study.data, make_multisource_regression(n_test=0, random_state=5).data)


def test_imbalanced_share_and_order():
    y = np.repeat(np.arange(10), 100)
    X = np.arange(1000).reshape(-1, 1, 1) * np.ones((1, 2, 2))
    X_kept, y_kept = make_imbalanced(X, y, 0.1, positive=[5, 6, 7, 8, 9], random_state=0)
    assert X_kept.shape == (556, 2, 2)
    assert np.bincount(y_kept).tolist() == [500, 56]
    rows = X_kept[:, 0, 0].astype(int)
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(y_kept, rows >= 500)


def test_imbalanced_drops_negatives_where_positives_are_rare():
    y = np.array(["bad"] * 90 + ["good"] * 10)
    _, y_kept = make_imbalanced(np.zeros((100, 1)), y, 0.5, random_state=0)
    assert np.bincount(y_kept).tolist() == [10, 10]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: make_overlap_study(-1), "spread"),
        (lambda: make_overlap_study(n_train_per_class=(1, 2)), "n_train_per_class"),
        (lambda: make_multisource_regression((1, 2)), "n_samples_per_client"),
        (lambda: make_multisource_regression(n_test=-1), "n_test"),
        (lambda: make_multisource_regression(test_weights=[1, 1, 1, 1, 1]), "test_weights"),
        (lambda: make_imbalanced([[0], [1]], [0, 1], 0.7), "ratio"),
        (lambda: make_imbalanced([[0], [1], [2]], [0, 1, 2], 0.1), "positive"),
        (lambda: make_imbalanced([[0], [1]], [0, 1], 0.1, positive=[2]), "positive"),
    ],
)
def test_errors_name_the_parameter(call, name):
    with pytest.raises(ValueError, match=name):
        call()
