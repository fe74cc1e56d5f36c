"""Client splitters: they deal the rows of one table to clients, the ways federated studies do.

Each takes the labels (or a column) and returns one integer client label a row, 0 .. n_clients - 1; a row
belongs to exactly one client.  The rows of a class are exchangeable: which of them a client gets is random.
"""

from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from ._random import RandomStateLike, as_generator

__all__ = [
    "split_clients_by_column",
    "split_clients_by_share",
    "split_clients_dirichlet",
]


def split_clients_by_share(
    y: ArrayLike,
    shares: Sequence[float] = (0.4, 0.3, 0.2, 0.1),
    *,
    min_per_class: int = 1,
    random_state: RandomStateLike = None,
) -> np.ndarray:
    """Split each class over the clients in given shares, dealt in a fresh random order class by class.

    A client that holds 40 % of one class may hold 10 % of the next: label proportions differ between
    clients while every client sees every class.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Class labels.
    shares : sequence of float, default=(0.4, 0.3, 0.2, 0.1)
        Share of a class that each client receives before the random permutation; nonnegative, rescaled to
        sum to one.  Its length is the number of clients.
    min_per_class : int, default=1
        Rows of each class that every client keeps, taken from the largest holder of that class.
    random_state : int, RandomState instance, Generator or None, default=None
        Determines the permutations of the shares and of the rows.

    Returns
    -------
    groups : ndarray of int, shape (n_samples,)
        Client of each row.

    Raises
    ------
    ValueError
        If `shares` is not a nonempty sequence of nonnegative numbers with a positive sum, or if a class has
        fewer than ``len(shares) * min_per_class`` rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro.datasets import split_clients_by_share
    >>> groups = split_clients_by_share(load_iris().target, random_state=0)
    >>> [sorted(np.bincount(groups[load_iris().target == k]).tolist()) for k in range(3)]
    [[5, 10, 15, 20], [5, 10, 15, 20], [5, 10, 15, 20]]
    """
    share = np.asarray(shares, dtype=float)
    if share.ndim != 1 or not np.isfinite(share).all() or (share < 0).any() or share.sum() <= 0:
        raise ValueError("shares must be a sequence of nonnegative numbers with a positive sum.")
    check_integer("min_per_class", min_per_class, minimum=0)
    codes, counts = class_codes(y)
    check_enough_rows(counts, len(share), min_per_class)
    rng = as_generator(random_state)
    groups = np.empty(len(codes), dtype=np.intp)
    for k, n_rows in enumerate(counts):
        sizes = apportion(n_rows, rng.permutation(share), min_per_class)
        groups[codes == k] = rng.permutation(np.repeat(np.arange(len(share)), sizes))
    return groups


def split_clients_dirichlet(
    y: ArrayLike,
    n_clients: int,
    alpha: float,
    *,
    min_rows: int = 1,
    random_state: RandomStateLike = None,
) -> np.ndarray:
    """Split each class over the clients in proportions drawn from a symmetric Dirichlet distribution.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Class labels.
    n_clients : int
        Number of clients.
    alpha : float
        Concentration, positive.  A large value gives clients that look alike, a small one gives each class
        to a few clients: a client may miss classes altogether.
    min_rows : int, default=1
        Rows that every client has at least; a client below it receives random rows of the largest one.
    random_state : int, RandomState instance, Generator or None, default=None
        Determines the proportions and the rows.

    Returns
    -------
    groups : ndarray of int, shape (n_samples,)
        Client of each row.

    Raises
    ------
    ValueError
        If a parameter is out of its range or `y` has fewer than ``n_clients * min_rows`` rows.

    References
    ----------
    T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the effects of non-identical data distribution for federated
    visual classification", arXiv 1909.06335, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.datasets import split_clients_dirichlet
    >>> groups = split_clients_dirichlet(np.repeat([0, 1, 2], 50), n_clients=5, alpha=0.5, random_state=0)
    >>> np.unique(groups).tolist()
    [0, 1, 2, 3, 4]
    """
    check_integer("n_clients", n_clients, minimum=1)
    check_integer("min_rows", min_rows, minimum=0)
    if not isinstance(alpha, Real) or not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be a positive finite number, got {alpha!r}.")
    codes, counts = class_codes(y)
    if len(codes) < n_clients * min_rows:
        raise ValueError(f"y has {len(codes)} rows, fewer than n_clients * min_rows = {n_clients * min_rows}.")
    rng = as_generator(random_state)
    groups = np.empty(len(codes), dtype=np.intp)
    for k, n_rows in enumerate(counts):
        sizes = apportion(n_rows, rng.dirichlet(np.full(n_clients, float(alpha))), 0)
        groups[codes == k] = rng.permutation(np.repeat(np.arange(n_clients), sizes))
    _lift_small_clients(groups, n_clients, min_rows, rng)
    return groups


def split_clients_by_column(X: ArrayLike, column: int | str, *, n_clients: int | None = None) -> np.ndarray:
    """Make clients of the values of one column: its categories, or its quantile ranges.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features)
        The table.
    column : int or str
        Position of the column, or its name if `X` is a DataFrame.
    n_clients : int or None, default=None
        None makes a client of each distinct value, in sorted order.  A number cuts a numeric column into that
        many ranges of nearly equal counts; rows with equal values stay together, so that a column with many
        ties may give fewer clients.

    Returns
    -------
    groups : ndarray of int, shape (n_samples,)
        Client of each row.  Rows whose value is missing (NaN or None) form one more client, the last.

    Raises
    ------
    ValueError
        If `column` is not in `X`, or if `n_clients` is given and the column is not numeric.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.datasets import split_clients_by_column
    >>> X = np.array([[0.1, 3], [0.2, 1], [0.3, 3], [0.9, 2]])
    >>> split_clients_by_column(X, 1).tolist()
    [2, 0, 2, 1]
    >>> split_clients_by_column(X, 0, n_clients=2).tolist()
    [0, 0, 1, 1]
    """
    values = _column(X, column)
    missing = np.array([v is None or v != v for v in values.tolist()], dtype=bool)
    present = values[~missing]
    if n_clients is None:
        codes = np.unique(present, return_inverse=True)[1]
    else:
        check_integer("n_clients", n_clients, minimum=1)
        try:
            present = present.astype(float)
        except (TypeError, ValueError):
            raise ValueError(f"n_clients cuts numeric columns only; column {column!r} is not numeric.") from None
        edges = np.quantile(present, np.arange(1, n_clients) / n_clients) if len(present) else []
        codes = np.unique(np.searchsorted(edges, present, side="left"), return_inverse=True)[1]
    groups = np.full(len(values), codes.max(initial=-1) + 1, dtype=np.intp)
    groups[~missing] = codes
    return groups


def _column(X, column):
    try:
        if hasattr(X, "columns"):
            return np.asarray(X[column] if column in X.columns else X.iloc[:, column])
        return np.asarray(X)[:, column]
    except (IndexError, TypeError, ValueError):
        raise ValueError(f"column {column!r} is not a column of X.") from None


def class_codes(y):
    """Class index of each row and the size of each class."""
    y = column_or_1d(y)
    if len(y) == 0:
        raise ValueError("y has no rows to split.")
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    return codes, counts


def check_integer(name, value, minimum):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}.")


def check_enough_rows(counts, n_clients, min_per_class):
    if counts.min() < n_clients * min_per_class:
        raise ValueError(
            f"min_per_class={min_per_class} asks for {n_clients * min_per_class} rows of each class over "
            f"{n_clients} clients, but the smallest class of y has {counts.min()}."
        )


def apportion(n_rows, shares, minimum):
    """Whole numbers near ``n_rows * shares`` that sum to `n_rows`: largest remainders, then the minimum."""
    exact = n_rows * shares / shares.sum()
    sizes = np.floor(exact + 1e-9).astype(np.intp)
    largest_remainders = np.argsort(-(exact - sizes), kind="stable")[: n_rows - sizes.sum()]
    sizes[largest_remainders] += 1
    while sizes.min() < minimum:
        sizes[sizes.argmax()] -= 1
        sizes[sizes.argmin()] += 1
    return sizes


def _lift_small_clients(groups, n_clients, min_rows, rng):
    """Move random rows of the largest client to the smallest, in place, until all have `min_rows`."""
    sizes = np.bincount(groups, minlength=n_clients)
    while sizes.min() < min_rows:
        donor, receiver = sizes.argmax(), sizes.argmin()
        groups[rng.choice(np.flatnonzero(groups == donor))] = receiver
        sizes[donor] -= 1
        sizes[receiver] += 1
