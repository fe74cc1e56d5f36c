"""What the mixture estimators share: the set of mixtures, per-client radii and penalties, the two ways to solve."""

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ..ambiguity.mixture import MixtureBall
from ..federation.clients import client_weights, per_client
from ..federation.steps.descent_ascent import DescentAscent
from ._base import FederatedMixin, Interval, StrOptions

__all__ = ["Fitted", "MixtureMixin"]

MIXTURES = {"fixed": 0.0, "simplex": 1.0}  # share of the population that nature may move between clients


@dataclass(frozen=True)
class Fitted:
    """What a solver hands to the estimator, in frame coordinates.

    Parameters
    ----------
    model : ndarray of shape (n_outputs, n_columns)
    alpha : ndarray of shape (n_clients,)
    history : dict of str to ndarray
    """

    model: np.ndarray
    alpha: np.ndarray
    history: dict[str, np.ndarray]


class MixtureMixin(FederatedMixin):
    """Estimators that guard against an unknown mixture of their clients."""

    _parameter_constraints: ClassVar[dict] = {
        "mixture": [StrOptions(set(MIXTURES))],
        "mixture_radius": [None, Interval(Real, 0, 1, closed="both")],
        "client_weights": [StrOptions({"uniform", "size"}), "array-like", dict],
        "fit_intercept": ["boolean"],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "step_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "model_bound": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
    }

    def _ball(self, clients, sizes):
        """The set of mixtures, around the clients' nominal weights."""
        share = MIXTURES[self.mixture] if self.mixture_radius is None else self.mixture_radius
        return MixtureBall(client_weights(self.client_weights, clients, sizes), float(share))

    def _radii(self, clients):
        radius = per_client(self.radius, clients, "radius")
        if not np.all(np.isfinite(radius) & (radius >= 0)):
            raise ValueError("radius must be finite and >= 0 for each client.")
        return radius

    def _penalties(self, clients):
        """Price of a unit of squared distance at each client; None in the radius form."""
        if self.penalty is None:
            return None
        penalty = per_client(self.penalty, clients, "penalty")
        if not np.all(np.isfinite(penalty) & (penalty > 0)):
            raise ValueError("penalty must be finite and > 0 for each client.")
        return penalty

    def _check_batch(self, radius):
        """Mini-batches see means of records, and a Wasserstein ball couples the records of a client."""
        if self.batch_size is not None and np.any(radius > 0):
            raise ValueError(
                "batch_size is for penalty= (or radius=0): the worst case within a radius is no mean over records. "
                "Set batch_size=None, or give penalty."
            )

    def _descend(self, risk, block, ball, n_outputs, reconstruct, monitor, data):
        """Run the rounds of descent-ascent in the coordinates of the block."""
        step = self.n_rounds**-0.5 if self.step_size == "auto" else float(self.step_size)  # Theorem 7's, or given
        algorithm = DescentAscent(
            risk=risk,
            mixture=ball,
            step=step,
            mixture_step=step,
            model_bound=float(self.model_bound),
            average=self.average,
            seed=int(check_random_state(self.random_state).randint(2**31)),
            monitor=monitor,
        )
        run = self._run(
            algorithm,
            block,
            (n_outputs, block.X.shape[1]),
            lambda server: reconstruct(algorithm.reported(server)[0]),
            **data,
        )
        model, alpha = algorithm.reported(run.server)
        if np.any(np.abs(model) >= self.model_bound):
            warnings.warn(
                f"{type(self).__name__}: coefficients ended at model_bound={self.model_bound:g}; the steps probably "
                "diverge. Lower step_size, raise penalty, scale the features, or raise model_bound if such models "
                "are wanted.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return Fitted(model, alpha, run.history)

    def _solve_at_once(self, solve, reconstruct, data):
        """The saddle point of an exact solver, under scikit-learn's callbacks as one task."""
        context = self._init_callback_context()
        context.call_on_fit_task_begin(estimator=self, **data)
        point = solve()
        model = np.atleast_2d(point.model)
        context.call_on_fit_task_end(estimator=self, reconstruction_attributes=lambda: reconstruct(model), **data)
        return Fitted(model, point.alpha, {})
