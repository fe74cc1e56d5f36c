"""Equally large clients that are each dominated by one class: the harshest of the usual label splits."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from ._clients import apportion, check_enough_rows, check_integer, class_codes
from ._random import RandomStateLike, as_generator

__all__ = ["split_clients_by_dominant_class"]


def split_clients_by_dominant_class(
    y: ArrayLike,
    n_clients: int,
    dominant_share: float = 0.8,
    *,
    min_per_class: int = 1,
    random_state: RandomStateLike = None,
) -> np.ndarray:
    """Split the rows into equally large clients, each dominated by one class.

    Client g is dominated by class ``g % n_classes`` (classes in sorted order).  Rows are handed out in three
    passes: `min_per_class` rows of every class to every client; rows of its dominant class until they make up
    `dominant_share` of the client, or until that class runs out (clients with the same dominant class then
    share it evenly); what is left, at random, but so that no client exceeds its share where that can be
    avoided.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Class labels.
    n_clients : int
        Number of clients; their sizes differ by at most one row.
    dominant_share : float, default=0.8
        Share of the dominant class in each client, in [0, 1].  It cannot be reached where the class has too
        few rows, and is exceeded where the other classes have too few.
    min_per_class : int, default=1
        Rows of each class that every client keeps.
    random_state : int, RandomState instance, Generator or None, default=None
        Determines which rows a client gets.

    Returns
    -------
    groups : ndarray of int, shape (n_samples,)
        Client of each row.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or if the classes or the clients are too small for
        `min_per_class`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.datasets import split_clients_by_dominant_class
    >>> y = np.repeat([0, 1], 100)
    >>> groups = split_clients_by_dominant_class(y, 2, 0.9, random_state=0)
    >>> [np.bincount(y[groups == g]).tolist() for g in range(2)]
    [[90, 10], [10, 90]]
    """
    check_integer("n_clients", n_clients, minimum=1)
    check_integer("min_per_class", min_per_class, minimum=0)
    if not isinstance(dominant_share, Real) or not 0 <= dominant_share <= 1:
        raise ValueError(f"dominant_share must be a number in [0, 1], got {dominant_share!r}.")
    codes, counts = class_codes(y)
    n_classes = len(counts)
    check_enough_rows(counts, n_clients, min_per_class)
    sizes = apportion(len(codes), np.ones(n_clients), 0)
    if sizes.min() < n_classes * min_per_class:
        raise ValueError(
            f"n_clients={n_clients} leaves clients of {sizes.min()} rows, fewer than min_per_class="
            f"{min_per_class} of each of the {n_classes} classes."
        )

    dominant = np.arange(n_clients) % n_classes
    # no client may exceed its size once its rows of the other classes are reserved
    wanted = np.floor(dominant_share * sizes + 0.5).astype(np.intp)
    wanted = np.clip(wanted, min_per_class, sizes - (n_classes - 1) * min_per_class)
    taken = np.full((n_clients, n_classes), min_per_class)
    for k in range(n_classes):
        leaders = np.flatnonzero(dominant == k)
        extra, available = wanted[leaders] - min_per_class, counts[k] - n_clients * min_per_class
        taken[leaders, k] += extra if extra.sum() <= available else apportion(available, extra, 0)
    rng = as_generator(random_state)
    _deal_the_rest(taken, counts, sizes, rng)
    _trade_excess(taken, dominant, wanted, min_per_class)
    groups = np.empty(len(codes), dtype=np.intp)
    for k in range(n_classes):
        groups[codes == k] = rng.permutation(np.repeat(np.arange(n_clients), taken[:, k]))
    return groups


def _deal_the_rest(taken, counts, sizes, rng):
    """Fill each client up to its size with random rows of those not yet taken, in place."""
    rest = counts - taken.sum(axis=0)
    for g, n_free in enumerate(sizes - taken.sum(axis=1)):
        drawn = rng.multivariate_hypergeometric(rest, n_free, method="marginals")
        taken[g] += drawn
        rest -= drawn


def _trade_excess(taken, dominant, wanted, minimum):
    """Swap rows between clients, in place, until none holds more of its dominant class than `wanted`.

    Client g hands a row of its class k to a client that is not led by k and receives a row that this one
    can spare: one above the minimum, and not one that its own share needs.  It stops where nobody can.
    """
    clients = np.arange(len(taken))
    for g, k in enumerate(dominant):
        while taken[g, k] > wanted[g]:
            spare = taken - minimum
            spare[clients, dominant] = np.maximum(taken[clients, dominant] - wanted, 0)
            spare[:, k] = 0
            spare[dominant == k] = 0
            h, j = np.unravel_index(spare.argmax(), spare.shape)
            if spare[h, j] == 0:
                break
            taken[g, k] -= 1
            taken[h, k] += 1
            taken[h, j] -= 1
            taken[g, j] += 1
