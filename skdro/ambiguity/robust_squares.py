"""Worst expected squared loss of each client, in closed form from its moments.

A model of a linear regression is theta with or without an intercept b.  With the cost ||xi - xi'||^2 of moving a
record xi = (x, y), unbounded support, e_i the residuals of client i and v = (-theta, c) (c = 1 if responses may
move, 0 if not; the intercept is not part of v), the worst expected losses are

    radius form      F_i = ( RMSE_i + eps_i ||v|| )^2                            over the W_2 ball of radius eps_i,
    penalised form   F_i = rho_i / (rho_i - ||v||^2) MSE_i  if rho_i > ||v||^2   (eq. (27) of [1]_),

infinite for rho_i < ||v||^2.  Both see the rows of a client through ||e_i|| alone, so that its rows are replaced
once by a triangular factor R_i of [X 1 y] / sqrt(N_i): ||e_i|| / sqrt(N_i) = ||R_i (-theta, -b, 1)||, whatever N_i.

.. [1] Liu, Li, You, Cherukuri. Distributionally Robust Federated Learning with Multi-Source Data. arXiv 2609.20501.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["Squares", "penalised_risk", "radius_risk", "stretch"]


@dataclass(frozen=True)
class Squares:
    """Mean squared residuals of all clients as functions of the model.

    Parameters
    ----------
    factors : ndarray of shape (n_clients, n_columns + 1, n_columns + 1)
        Triangular factor of [X y] / sqrt(N_i), where X has a constant column last if there is an intercept.
    n_features : int
        Leading columns that nature may move.
    label : float
        c, what a unit of v costs in the direction of the response: 1 in the units of the data, 0 if responses are
        trusted; (scale of x) / (scale of y) in standardised coordinates.
    """

    factors: np.ndarray
    n_features: int
    label: float

    @classmethod
    def of(cls, clients: list[tuple[np.ndarray, np.ndarray]], n_features: int, label: float) -> "Squares":
        """From rows (n_rows, n_columns) and responses (n_rows,) of each client."""
        return cls(np.array([_triangle(np.c_[X, y]) / np.sqrt(len(y)) for X, y in clients]), n_features, label)

    def mean_squares(self, model: np.ndarray) -> np.ndarray:
        """MSE_i, shape (..., n_clients), of models of shape (..., n_columns)."""
        return (self._residuals(model) ** 2).sum(axis=-1)

    def mean_squares_gradient(self, model: np.ndarray) -> np.ndarray:
        """Gradients of MSE_i in a model of shape (n_columns,); shape (n_clients, n_columns)."""
        return -2.0 * np.einsum("ikd,ik->id", self.factors[:, :, :-1], self._residuals(model))

    def radius_risk_gradient(self, model: np.ndarray, radius: np.ndarray) -> np.ndarray:
        """(Sub)gradients of ( RMSE_i + eps_i ||v|| )^2 in a model of shape (n_columns,); (n_clients, n_columns)."""
        rmse, length = np.sqrt(self.mean_squares(model)), np.sqrt(self.stretch(model))
        slope = _over(0.5 * self.mean_squares_gradient(model), rmse[:, None])
        slope[:, : self.n_features] += _over(radius[:, None] * model[: self.n_features], length)
        return 2.0 * (rmse + radius * length)[:, None] * slope

    def stretch(self, model: np.ndarray) -> np.ndarray:
        """||v||^2 of models of shape (..., n_columns)."""
        return stretch(model, self.n_features, self.label)

    def least_squares(self, alpha: np.ndarray) -> np.ndarray:
        """Model of least mixture-weighted MSE without any robustness, shape (n_columns,)."""
        stack = (np.sqrt(alpha)[:, None, None] * self.factors).reshape(-1, self.factors.shape[2])
        return np.linalg.lstsq(stack[:, :-1], stack[:, -1], rcond=None)[0]

    def _residuals(self, model):
        fitted = model @ self.factors[:, :, :-1].reshape(-1, model.shape[-1]).T  # one product for all clients
        return self.factors[:, :, -1] - fitted.reshape(*model.shape[:-1], *self.factors.shape[:2])


def _over(numerator, length):
    """A gradient of a norm: zero, one of its subgradients, where the norm is zero."""
    return np.divide(numerator, length, out=np.zeros_like(numerator), where=length > 0)


def _triangle(rows):
    """Square triangular factor of rows, zero rows added where there are fewer than columns."""
    R = np.linalg.qr(rows, mode="r")
    return np.vstack([R, np.zeros((rows.shape[1] - len(R), rows.shape[1]))])


def stretch(model: np.ndarray, n_features: int, label: float) -> np.ndarray:
    """||v||^2 of models of shape (..., n_columns); see `Squares` for `n_features` and `label`."""
    return (model[..., :n_features] ** 2).sum(axis=-1) + label**2


def radius_risk(mean_squares: np.ndarray, stretch: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """( RMSE + eps ||v|| )^2.

    Parameters
    ----------
    mean_squares, stretch, radius : broadcastable ndarrays
        MSE, ||v||^2 and eps >= 0.

    Examples
    --------
    >>> float(radius_risk(4.0, 1.0, 0.5))
    6.25
    """
    return (np.sqrt(mean_squares) + radius * np.sqrt(stretch)) ** 2


def penalised_risk(mean_squares: np.ndarray, stretch: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Rho / (rho - ||v||^2) MSE, with its limits where rho <= ||v||^2.

    Parameters
    ----------
    mean_squares, stretch, penalty : broadcastable ndarrays
        MSE, ||v||^2 and rho > 0.

    Examples
    --------
    >>> penalised_risk(np.array([2.0, 2.0, 0.0, 0.0]), 1.0, np.array([2.0, 1.0, 1.0, 0.5]))
    array([ 4., inf,  0., inf])
    """
    mean_squares, stretch, penalty = np.broadcast_arrays(mean_squares, stretch, penalty)
    slack = penalty - stretch
    risk = np.where((slack == 0) & (mean_squares == 0), 0.0, np.inf)
    np.divide(penalty * mean_squares, slack, out=risk, where=slack > 0)
    return risk
