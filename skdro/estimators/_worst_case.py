"""`worst_case_distribution`: what nature does to given records against a fitted linear robust classifier."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ..ambiguity.transport import TRANSPORT_NORMS
from ..ambiguity.wasserstein import RobustRisk, WassersteinBall
from ..ambiguity.worst_case import WorstCase, worst_case
from ..federation.clients import client_weights, encode_groups, per_client
from ._base import checked_sample_weight

__all__ = ["WorstCaseMixin", "pooled_worst_case"]


class WorstCaseMixin:
    """Linear Crammer-Singer classifiers with `radius`, `kappa` and `norm`, federated (`clients_`) or not."""

    radius: Any  # a number, or numbers by client
    kappa: float
    norm: str
    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray

    def worst_case_distribution(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> WorstCase:
        """Worst distribution of the given records for the fitted model: rows, labels and weights.

        Nature may spend `radius` on average, on moving rows and, at `kappa` each, on flipping labels; each client
        has its own budget.  On the training records the expected loss is `worst_case_risk_`, up to 0.1 %: the
        supremum is usually not attained, because half the mass moved twice as far may always gain a little more.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels, all of them in `classes_`.
        groups : array-like of shape (n_samples,), default=None
            Client label of each row, all of them in `clients_`.  Needed if the model was fitted to several
            clients; clients without rows do not count.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each record within its client, >= 0.

        Returns
        -------
        WorstCase
            With `X` (n_atoms, n_features) in the units of the features, `y`, `weight` (a client's atoms sum to
            its weight in the objective, all atoms to one), `record` (the row of `X` that the atom was), the masks
            `flipped` and `moved`, `cost` (transport spent, averaged over the clients with their weights), `risk`
            (expected loss), `groups`; arrays of shape (n_atoms,).

        Raises
        ------
        ValueError
            An input is invalid or names a class or a client that the fit did not see; the message names it.

        References
        ----------
        Hernandez, Ibrahim, Gebraeel. Private and Distributionally Robust Federated Multiclass Classification.
        arXiv 2610.13631, sections 2 and A.1.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from skdro import FedDROClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = FedDROClassifier(radius=0.05).fit(X, y, groups=np.zeros(150))
        >>> worst = model.worst_case_distribution(X, y)
        >>> bool(worst.cost <= 0.05 * (1 + 1e-9)), bool(worst.risk >= 0.999 * model.worst_case_risk_)
        (True, True)
        """
        check_is_fitted(self)
        X, y = validate_data(self, X, y, reset=False, dtype=np.float64)
        codes = _class_indices(y, self.classes_)
        weight = checked_sample_weight(sample_weight, len(X))
        clients = getattr(self, "clients_", np.zeros(1, dtype=int))  # not federated: one client
        index = _client_indices(groups, len(X), clients)
        sizes = np.bincount(index, weights=weight, minlength=len(clients))
        alpha = client_weights(getattr(self, "client_weights", "uniform"), clients, sizes) * (sizes > 0)
        if alpha.sum() <= 0:
            raise ValueError("sample_weight is zero, or the clients' weights are, for all records.")
        balls = [
            WassersteinBall(float(radius), float(kappa), TRANSPORT_NORMS[self.norm])
            for radius, kappa in zip(
                per_client(self.radius, clients, "radius"), per_client(self.kappa, clients, "kappa"), strict=True
            )
        ]
        worst = pooled_worst_case(
            X, codes, weight, index, balls, alpha / alpha.sum(), _both_rows(self.coef_), _both_rows(self.intercept_)
        )
        return replace(
            worst, y=self.classes_[worst.y], groups=None if groups is None else clients[index[worst.record]]
        )


def pooled_worst_case(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    index: np.ndarray,
    balls: list[WassersteinBall],
    alpha: np.ndarray,
    coef: np.ndarray,
    intercept: np.ndarray,
) -> WorstCase:
    """The clients' worst cases put together with the clients' weights.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of int, shape (n_samples,)
        Class indices.
    weight : ndarray of shape (n_samples,)
        Non-negative.
    index : ndarray of int, shape (n_samples,)
        Client of each row.
    balls : list of WassersteinBall
        One a client, in the units of `X`.
    alpha : ndarray of shape (n_clients,)
        Weights of the clients, sum one; zero for clients without mass, which have no atoms.
    coef : ndarray of shape (n_classes, n_features)
    intercept : ndarray of shape (n_classes,)

    Returns
    -------
    WorstCase
        Without the constant column, `y` as class indices, sorted by client and record.
    """
    M = np.c_[coef, intercept]
    pieces = []
    for g in np.flatnonzero(alpha):
        rows = np.flatnonzero(index == g)
        share = weight[rows] / weight[rows].sum()
        risk = RobustRisk(np.c_[X[rows], np.ones(len(rows))], y[rows], share, len(M), X.shape[1], balls[g])
        worst = worst_case(risk, M)
        pieces.append(replace(worst, X=worst.X[:, :-1], weight=alpha[g] * worst.weight, record=rows[worst.record]))
    used = alpha[alpha > 0]
    return WorstCase(
        **{
            name: np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("X", "y", "weight", "record", "flipped", "moved")
        },
        cost=float(used @ [piece.cost for piece in pieces]),
        risk=float(used @ [piece.risk for piece in pieces]),
    )


def _both_rows(array):
    """Coefficients or intercepts of all classes; a binary model stores the difference, class 1 minus class 0."""
    return np.concatenate([np.zeros_like(array), array]) if len(array) == 1 else array


def _class_indices(y, classes):
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"y has labels that are not in classes_: {unknown[:5].tolist()}.")
    return np.searchsorted(classes, y)


def _client_indices(groups, n_rows, clients):
    """Position in `clients` of each row's client label."""
    if groups is None:
        if len(clients) > 1:
            raise ValueError(
                f"groups is needed: the model was fitted to {len(clients)} clients and each has its own budget."
            )
        return np.zeros(n_rows, dtype=int)
    labels, index = encode_groups(groups, n_rows)
    position = {label: g for g, label in enumerate(clients.tolist())}
    unknown = [label for label in labels.tolist() if label not in position]
    if unknown:
        raise ValueError(f"groups names clients that the fit did not see: {unknown[:5]}.")
    return np.array([position[label] for label in labels.tolist()])[index]
