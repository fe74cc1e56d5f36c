"""Splitters and scores by client.

* :class:`ClientStratifiedKFold` tests on rows of every client and trains on rows of every client.  To test on
  clients that were never seen, take :class:`sklearn.model_selection.LeaveOneGroupOut` or ``GroupKFold`` with
  the client labels as groups: they leave whole clients out.
* :func:`client_scores`, :func:`worst_client_score` and :func:`make_client_scorer` say who pays for a good
  mean.
"""

from collections.abc import Callable, Hashable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.multiclass import type_of_target

from ..federation.clients import encode_groups

__all__ = ["ClientStratifiedKFold", "client_scores", "make_client_scorer", "worst_client_score"]


class ClientStratifiedKFold(BaseCrossValidator):
    """Cross-validation that keeps every client in the training part of every fold.

    The rows of each client are spread evenly over the test folds, and within a client each class is: the
    counts of a client, and of a class at a client, differ by at most one between folds.  Ties are settled in
    favour of an even spread of the class over all clients.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        Whether to shuffle the rows of a class at a client before they are dealt; otherwise they are dealt in
        blocks, in their order.
    random_state : int, RandomState instance or None, default=None
        Determines the shuffling.

    Notes
    -----
    With metadata routing enabled, `groups` is requested by default and reaches the splitter from
    ``cross_validate(..., params={"groups": groups})`` or ``GridSearchCV(...).fit(X, y, groups=groups)``.
    Without it, pass ``groups=`` to ``GridSearchCV.fit`` as with any group splitter.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.model_selection import ClientStratifiedKFold
    >>> X, y, groups = np.zeros((8, 1)), np.array([0, 1] * 4), np.repeat(["a", "b"], 4)
    >>> for train, test in ClientStratifiedKFold(n_splits=2).split(X, y, groups):
    ...     print(groups[train], y[test])
    ['a' 'a' 'b' 'b'] [0 1 0 1]
    ['a' 'a' 'b' 'b'] [0 1 0 1]
    """

    __metadata_request__split = {"groups": True}  # noqa: RUF012 - the documented form of scikit-learn

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Number of folds; the arguments are there for compatibility."""
        return self.n_splits

    def split(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Generate the row indices of the training and the test part of each fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or None, default=None
            Class labels.  None, or a continuous target, spreads the clients only.
        groups : array-like of shape (n_samples,)
            Client of each row.

        Yields
        ------
        train, test : ndarrays of int

        Raises
        ------
        ValueError
            If `groups` is missing, if a client has a single row, or if `n_splits` is not an integer from 2 to
            the number of rows.
        """
        if groups is None:
            raise ValueError("groups must hold the client of each row; it is None.")
        labels: np.ndarray = column_or_1d(groups)
        check_consistent_length(X, y, labels)
        if not isinstance(self.n_splits, Integral) or not 2 <= self.n_splits <= len(labels):
            raise ValueError(
                f"n_splits must be an integer from 2 to the number of rows, {len(labels)}, got {self.n_splits!r}."
            )
        clients, client, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        if sizes.min() < 2:
            alone = clients[sizes < 2].tolist()
            raise ValueError(f"groups has clients with one row, which cannot be in both parts: {alone}.")
        fold = self._folds(client, _class_codes(y, len(labels)))
        rows = np.arange(len(groups))
        for k in range(self.n_splits):
            yield rows[fold != k], rows[fold == k]

    def _folds(self, client, label):
        """Test fold of each row."""
        rng = check_random_state(self.random_state) if self.shuffle else None
        fold = np.empty(len(client), dtype=np.intp)
        of_label = np.zeros((label.max() + 1, self.n_splits), dtype=np.intp)
        for g in range(client.max() + 1):
            of_client = np.zeros(self.n_splits, dtype=np.intp)
            for k in np.unique(label[client == g]):
                rows = np.flatnonzero((client == g) & (label == k))
                counts = np.full(self.n_splits, len(rows) // self.n_splits)
                # the remainder goes to the folds that have least of this client, then least of this label
                neediest = np.lexsort((of_label[k], of_client))
                counts[neediest[: len(rows) % self.n_splits]] += 1
                of_client += counts
                of_label[k] += counts
                if rng is not None:
                    rng.shuffle(rows)
                fold[rows] = np.repeat(np.arange(self.n_splits), counts)
        return fold


def _class_codes(y, n_samples):
    if y is None or type_of_target(y) not in ("binary", "multiclass"):
        return np.zeros(n_samples, dtype=np.intp)
    return np.unique(column_or_1d(y), return_inverse=True)[1]


Metric = Callable[[np.ndarray, np.ndarray], float]


def worst_client_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    groups: ArrayLike,
    *,
    metric: Metric = accuracy_score,
    greater_is_better: bool = True,
) -> float:
    """Score of the client that is served worst.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True and predicted targets.
    groups : array-like of shape (n_samples,)
        Client of each row.
    metric : callable, default=accuracy_score
        ``metric(y_true, y_pred)`` of the rows of one client.
    greater_is_better : bool, default=True
        False for a loss, whose worst value is the largest.

    Returns
    -------
    score : float

    Examples
    --------
    >>> from skdro.model_selection import worst_client_score
    >>> worst_client_score([0, 1, 0, 1], [0, 1, 0, 0], ["a", "a", "b", "b"])
    0.5
    """
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    check_consistent_length(y_true, y_pred, groups)
    values = [metric(y_true[rows], y_pred[rows]) for rows in _rows_of_clients(groups, len(y_true)).values()]
    return float(min(values) if greater_is_better else max(values))


def client_scores(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike,
    metric: str | Metric = "accuracy",
) -> dict[Hashable, float]:
    """Score of a fitted estimator at each client.

    Parameters
    ----------
    estimator : object
        Fitted estimator.
    X : array-like of shape (n_samples, n_features)
        Rows to score on.
    y : array-like of shape (n_samples,)
        True targets.
    groups : array-like of shape (n_samples,)
        Client of each row.
    metric : str or callable, default="accuracy"
        Name of a scikit-learn scorer, or ``metric(y_true, y_pred)`` for predictions.

    Returns
    -------
    scores : dict
        Score by client, in sorted order; ``pandas.Series(scores)`` is a table.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from skdro.model_selection import client_scores
    >>> X, y = [[0], [1], [2], [3]], [0, 0, 0, 1]
    >>> client_scores(DummyClassifier().fit(X, y), X, y, groups=["a", "a", "b", "b"])
    {'a': 1.0, 'b': 0.5}
    """
    check_consistent_length(X, y, groups)
    y = np.asarray(y)
    clients = _rows_of_clients(groups, len(y))
    if isinstance(metric, str):
        scorer = get_scorer(metric)
        return {c: float(scorer(estimator, take_rows(X, rows), y[rows])) for c, rows in clients.items()}
    y_pred = np.asarray(estimator.predict(X))
    return {c: float(metric(y[rows], y_pred[rows])) for c, rows in clients.items()}


class _ClientScorer:
    """Scorer that asks for `groups` and reduces the scores of the clients to one number."""

    def __init__(self, metric, reduction, sign):
        self.metric = metric
        self.reduction = reduction
        self.sign = sign

    def __call__(self, estimator, X, y, groups=None):
        if groups is None:
            raise ValueError(
                "The client scorer got no groups: call sklearn.set_config(enable_metadata_routing=True) and "
                'pass params={"groups": groups} to cross_validate, or groups=groups to the fit of a search.'
            )
        scores = client_scores(estimator, X, y, groups, self.metric)
        return float(self.reduction(self.sign * np.array(list(scores.values()))))

    def get_metadata_routing(self):
        """Requests of this scorer, for scikit-learn's metadata routing."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="groups", alias=True)
        return request


def make_client_scorer(
    metric: str | Metric = "accuracy",
    *,
    reduction: Callable[[np.ndarray], float] = np.min,
    greater_is_better: bool = True,
) -> Callable:
    """Make a scorer for `cross_validate` and the searches that scores each client and reduces the scores.

    Parameters
    ----------
    metric : str or callable, default="accuracy"
        As in :func:`client_scores`.
    reduction : callable, default=numpy.min
        What becomes of the array of client scores: ``numpy.min`` is the worst client, ``numpy.mean`` gives
        every client the same weight whatever its size.
    greater_is_better : bool, default=True
        False for a callable loss, whose sign is then changed; scorers that are named have the right one.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, groups=groups)``.  It requests `groups`: with metadata routing enabled,
        ``cross_validate(..., params={"groups": groups})`` hands them over.  Without routing scikit-learn
        gives no metadata to scorers, and the scorer raises a ValueError that says so.

    Examples
    --------
    >>> import sklearn
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_validate
    >>> from skdro.datasets import split_clients_by_share
    >>> from skdro.model_selection import ClientStratifiedKFold, make_client_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> groups = split_clients_by_share(y, random_state=0)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     result = cross_validate(
    ...         LogisticRegression(max_iter=1000), X, y, cv=ClientStratifiedKFold(3),
    ...         scoring=make_client_scorer(), params={"groups": groups},
    ...     )
    >>> bool((result["test_score"] > 0.8).all())
    True
    """
    if isinstance(metric, str) and not greater_is_better:
        raise ValueError("greater_is_better=False is for a callable metric; named scorers have their sign.")
    return _ClientScorer(metric, reduction, 1.0 if greater_is_better else -1.0)


def _rows_of_clients(groups, n_rows):
    if groups is None:
        raise ValueError("groups must hold the client label of each row; got None.")
    clients, codes = encode_groups(groups, n_rows)
    return {client: np.flatnonzero(codes == g) for g, client in enumerate(clients.tolist())}


def take_rows(X, rows):
    """Rows of an array, a sparse matrix, a list or a dataframe, by position."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return (X if hasattr(X, "shape") else np.asarray(X))[rows]
