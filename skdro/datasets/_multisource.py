"""Linear regression at several sources that err in their own direction."""

from collections.abc import Sequence
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Bunch

from ._clients import apportion
from ._random import RandomStateLike, as_generator

__all__ = ["make_multisource_regression"]

COEFFICIENT = np.array([1.0, 0.5, -0.5])
MEAN_SHIFT = np.array([3.0, 1.0, 1.0, 0.5, 0.5])  # along the client's direction, of the clean features
OBSERVATION_SHIFT = np.array([0.2, -0.1, 0.0, 0.0, 0.0])  # along it, of the observed features
OBSERVATION_NOISE = 0.1
BOX = 500.0


def make_multisource_regression(
    n_samples_per_client: Sequence[int] = (30, 40, 80, 150, 300),
    *,
    n_test: int = 4000,
    test_weights: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Draw the simulation of distributionally robust federated regression: corrupted features, clean tests.

    Five clients share the coefficient a = (1, .5, -.5).  Client i has features theta ~ N(delta_i v_i, I)
    and the response y = theta . a, but observes theta + s_i v_i + noise of standard deviation .1.
    delta = (3, 1, 1, .5, .5), s = (.2, -.1, 0, 0, 0); features and responses are kept in [-500, 500].  With
    u = a / ||a|| and b_1, b_2 random unit vectors orthogonal to u, the directions v_1, v_2, v_3 are
    u + .2 b_1, -u + .2 b_1 and u + .2 b_2, scaled to length one; v_4 = b_1 and v_5 = b_2.

    Parameters
    ----------
    n_samples_per_client : sequence of 5 ints, default=(30, 40, 80, 150, 300)
        Training rows of each client.
    n_test : int, default=4000
        Clean rows of the test mixture.
    test_weights : array-like of shape (5,) or None, default=None
        Shares of the clients in the test mixture; None takes those of the training rows.  The published
        study takes the final mixture weights of its robust method.
    random_state : int, RandomState instance, Generator or None, default=None
        Determines the directions and the rows.  The training rows do not depend on `n_test` or
        `test_weights`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        data : ndarray of shape (n_samples, 3)
            Observed features.
        clean_data : ndarray of shape (n_samples, 3)
            The features before the errors of observation.
        target : ndarray of shape (n_samples,)
            Response to the clean features, without noise.
        groups : ndarray of int, shape (n_samples,)
            Client 0 to 4.
        data_test, target_test, groups_test : ndarrays of shape (n_test, 3), (n_test,) and (n_test,)
            Clean rows of the test mixture.
        coef : ndarray of shape (3,)
            a.
        directions : ndarray of shape (5, 3)
            v_i.
        feature_bounds : tuple of two ndarrays of shape (3,)
            The box of the features.
        feature_names, DESCR
            What they say.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    References
    ----------
    Liu, Li, You, Cherukuri, "Distributionally robust federated learning with multi-source data",
    arXiv 2609.20501, Section VI.

    Examples
    --------
    >>> from skdro.datasets import make_multisource_regression
    >>> study = make_multisource_regression(random_state=2026)
    >>> study.data.shape, study.data_test.shape
    ((600, 3), (4000, 3))
    """
    n_clients = len(MEAN_SHIFT)
    counts = np.asarray(n_samples_per_client)
    if counts.shape != (n_clients,) or counts.dtype.kind != "i" or counts.min() < 1:
        raise ValueError(
            f"n_samples_per_client must hold {n_clients} positive numbers, got {n_samples_per_client!r}."
        )
    if not isinstance(n_test, Integral) or n_test < 0:
        raise ValueError(f"n_test must be a nonnegative integer, got {n_test!r}.")
    weights = counts / counts.sum() if test_weights is None else np.asarray(test_weights, dtype=float)
    if weights.shape != (n_clients,) or not (weights >= 0).all() or not np.isclose(weights.sum(), 1):
        raise ValueError(f"test_weights must be {n_clients} nonnegative numbers that sum to one.")

    rng = as_generator(random_state)
    directions = _draw_directions(rng)
    groups = np.repeat(np.arange(n_clients), counts)
    clean = _draw_clean(groups, directions, rng)
    shift = OBSERVATION_SHIFT[groups, np.newaxis] * directions[groups]
    observed = clean + shift + OBSERVATION_NOISE * rng.standard_normal(clean.shape)
    groups_test = np.repeat(np.arange(n_clients), apportion(n_test, weights, 0))
    data_test = _draw_clean(groups_test, directions, rng)
    return Bunch(
        data=observed.clip(-BOX, BOX),
        clean_data=clean,
        target=(clean @ COEFFICIENT).clip(-BOX, BOX),
        groups=groups,
        data_test=data_test,
        target_test=data_test @ COEFFICIENT,
        groups_test=groups_test,
        coef=COEFFICIENT.copy(),
        directions=directions,
        feature_bounds=(np.full(3, -BOX), np.full(3, BOX)),
        feature_names=["theta_1", "theta_2", "theta_3"],
        DESCR=make_multisource_regression.__doc__,
    )


def _draw_directions(rng):
    u = COEFFICIENT / np.linalg.norm(COEFFICIENT)
    b = rng.standard_normal((2, 3))
    b -= np.outer(b @ u, u)
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    v = np.stack([u + 0.2 * b[0], -u + 0.2 * b[0], u + 0.2 * b[1], b[0], b[1]])
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def _draw_clean(groups, directions, rng):
    """Clean features.  At 500 standard deviations clipping to the box and rejection are the same: idle."""
    mean = MEAN_SHIFT[groups, np.newaxis] * directions[groups]
    return (mean + rng.standard_normal(mean.shape)).clip(-BOX, BOX)
