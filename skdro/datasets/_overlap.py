"""Four Gaussian classes of which two approach each other: what a one-against-all rule gets wrong."""

from collections.abc import Sequence
from numbers import Real

import numpy as np
from sklearn.utils import Bunch

from ._clients import split_clients_by_share
from ._noise import flip_labels
from ._random import RandomStateLike, as_generator

__all__ = ["make_overlap_study"]

TARGET_NAMES = ("Normal", "A", "B", "C")
CENTRE_A = np.array([2.8, 2.8, 2.8, 0, 0, 0, 1.4, 0])
CENTRE_C = np.array([0, 0, 0, 4.2, 4.2, 4.2, 0, 2.4])
FROM_A_TO_B = np.array([1, 1, 1, 0, 0, 0, -0.6, 1.2])
N_FEATURES = 8


def make_overlap_study(
    spread: float = 2.0,
    *,
    n_train_per_class: Sequence[int] = (440, 140, 140, 140),
    n_test_per_class: Sequence[int] = (54, 54, 54, 54),
    label_flip: float = 0.1,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Draw the study of class overlap: a normal state and three faults, two of them hard to tell apart.

    Eight features of unit variance with correlation .7 among the first three, .6 among the next three and .15
    between any other two, the same in each class.  The centres are 0 for Normal, A = (2.8, 2.8, 2.8, 0, 0, 0,
    1.4, 0), B = A + spread (1, 1, 1, 0, 0, 0, -.6, 1.2) and C = (0, 0, 0, 4.2, 4.2, 4.2, 0, 2.4).

    Parameters
    ----------
    spread : float, default=2.0
        Distance of B from A in units of the direction above; the study takes 1.2 (strong overlap), 2 and 3.
    n_train_per_class, n_test_per_class : sequence of 4 ints, default=(440, 140, 140, 140), (54, 54, 54, 54)
        Rows of each class.
    label_flip : float, default=0.1
        Share of the training labels that are replaced by another class; the test labels are right.
    random_state : int, RandomState instance, Generator or None, default=None
        Determines the rows, the flips and the clients.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        data : ndarray of shape (n_train, 8)
            Training rows.
        target : ndarray of int, shape (n_train,)
            Index into `target_names`, some wrong.
        true_target : ndarray of int, shape (n_train,)
            The class a row was drawn from.
        groups : ndarray of int, shape (n_train,)
            Client 0 to 3: each class (as labelled) in the shares .4, .3, .2, .1, randomly permuted.
        data_test, target_test : ndarrays of shape (n_test, 8) and (n_test,)
            Test rows and their labels.
        feature_names, target_names, DESCR
            What they say.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    References
    ----------
    Hernandez, Ibrahim, Gebraeel, "Private and distributionally robust federated multiclass classification",
    arXiv 2610.13631, Table 4.

    Examples
    --------
    >>> from skdro.datasets import make_overlap_study
    >>> study = make_overlap_study(spread=1.2, random_state=0)
    >>> study.data.shape, study.data_test.shape
    ((860, 8), (216, 8))
    """
    if not isinstance(spread, Real) or not 0 <= spread < np.inf:
        raise ValueError(f"spread must be a nonnegative number, got {spread!r}.")
    rng = as_generator(random_state)
    centres = np.stack([np.zeros(N_FEATURES), CENTRE_A, CENTRE_A + spread * FROM_A_TO_B, CENTRE_C])
    true_target, data = _draw("n_train_per_class", n_train_per_class, centres, rng)
    target_test, data_test = _draw("n_test_per_class", n_test_per_class, centres, rng)
    target = flip_labels(true_target, label_flip, random_state=rng)
    return Bunch(
        data=data,
        target=target,
        true_target=true_target,
        groups=split_clients_by_share(target, random_state=rng),
        data_test=data_test,
        target_test=target_test,
        feature_names=[f"x{j}" for j in range(N_FEATURES)],
        target_names=list(TARGET_NAMES),
        DESCR=make_overlap_study.__doc__,
    )


def _correlation():
    correlation = np.full((N_FEATURES, N_FEATURES), 0.15)
    correlation[:3, :3] = 0.7
    correlation[3:6, 3:6] = 0.6
    np.fill_diagonal(correlation, 1.0)
    return correlation


def _draw(name, n_per_class, centres, rng):
    counts = np.asarray(n_per_class)
    if counts.shape != (len(centres),) or counts.dtype.kind != "i" or counts.min() < 1:
        raise ValueError(f"{name} must hold {len(centres)} positive numbers of rows, got {n_per_class!r}.")
    target = rng.permutation(np.repeat(np.arange(len(centres)), counts))
    noise = rng.multivariate_normal(np.zeros(N_FEATURES), _correlation(), size=len(target), method="cholesky")
    return target, centres[target] + noise
