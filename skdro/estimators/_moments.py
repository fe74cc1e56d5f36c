"""What the estimators from one release of noisy moments share: the plan, the round, and all that comes after it."""

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_is_fitted

from ..ambiguity.moment import noise_edge, pooled
from ..federation.client_data import where_they_lie
from ..federation.doors import GaussianDoor, pass_through
from ..federation.frames import ClippedFrame, MappedFrame
from ..federation.steps.moments import MomentRelease, RandomHalves, all_rows, each_client, weighted_sum
from ..preprocessing import check_feature_bounds
from ..privacy.ledger import check_ledger
from ..privacy.noise import noise_source
from ..privacy.plan import AGGREGATIONS, ReleaseKind, gaussian_plan
from ..privacy.sensitivity import ADJACENCIES
from ..solvers.moment_tuning import tuned
from ..solvers.moments import MomentProblem, Robustness
from ._base import HasMethods, Interval, StrOptions, checked_radii
from ._feature_map import public_map
from ._private import PrivateFederated, PrivateFederatedClassifier
from ._public import Design

__all__ = ["MomentEstimator"]

LARGEST = float(np.finfo(float).max)
"""Of a feature that is taken as given."""

CONFIDENCE = 0.95
"""Of `certificate_`, over the noise."""

MIXTURES = {"fixed": 0.0, "simplex": 1.0}


@dataclass(frozen=True)
class Placement:
    """What one place of the noise means for the release.

    Parameters
    ----------
    combine : callable
        What the server keeps of the clients' vectors.
    doors : callable
        From the noisy door to the doors at the client and at the server.
    exposed : callable
        From the weights of the clients' sums to how often a record of each client counts in what is released.
    parts : callable
        From the rows (n_groups, n_clients), those weights and alpha to the parts' records (n_groups, n_parts) and
        nominal weights (n_parts,).
    """

    combine: Callable
    doors: Callable
    exposed: Callable
    parts: Callable


PLACEMENTS = {
    "local": Placement(
        each_client,
        lambda door: (door, pass_through),
        np.ones_like,  # weights come after the release
        lambda sizes, weights, alpha: (sizes, alpha),
    ),
    "trusted": Placement(
        weighted_sum,
        lambda door: (pass_through, door),
        lambda weights: weights,
        lambda sizes, weights, alpha: ((sizes @ weights)[:, None], np.ones(1)),
    ),
}


class MomentEstimator(PrivateFederated):
    """Base of both estimators; a subclass supplies `_targets`, `_sensitivity` and `_in_units`."""

    _parameter_constraints: ClassVar[dict] = {
        **{
            name: PrivateFederatedClassifier._parameter_constraints[name]
            for name in (
                *("epsilon", "delta", "aggregation", "adjacency", "data_norm", "feature_bounds"),
                *("client_weights", "fit_intercept", "random_state", "n_jobs"),
            )
        },
        "noise_radius": [Interval(Real, 0, None, closed="left")],
        "radius": [Interval(Real, 0, None, closed="left")],
        "mixture": [StrOptions(set(MIXTURES))],
        "mixture_radius": [Interval(Real, 0, 1, closed="both"), None],
        "statistics_weight": [Interval(Real, 0, None, closed="neither")],
        "feature_map": [HasMethods(["fit", "transform"]), None],
        "tune": ["boolean"],
    }

    _between_sites: ClassVar[bool] = False  # not yet

    n_rounds: ClassVar[int] = 1

    chosen_: dict[str, float]
    _problem: MomentProblem
    _fitted_frame: Any
    _fitted_targets: Any

    @with_callbacks
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Release the moments under the stated total budget, and fit the model to them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
            Client label of each row, public.  None: all rows are one client.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            A parameter or an input is invalid.  Raised before anything is released; the message names the
            parameter and shows no record.
        """
        self._validate_params()
        return self._fit_private(X, y, groups)

    def _fit_private(self, X, y, groups, null=None):
        robustness = self._robustness()
        noise = noise_source(self.random_state)
        X, y = self._private_input(X, y)
        clients, index = self._clients(groups, len(X), above_fit=5)
        frame, targets = self._frame(), self._targets()
        facts = self._public_facts(clients, index, noise)
        design = self._design(facts, frame, targets)
        self._warn(noise, facts, above_fit=5)
        sigma = design.plan.releases[self._release_name()].sigma

        def fitted(server):
            problems = self._problems(server.released, sigma, facts, design.algorithm)
            return self._from_moments(problems, robustness, frame, targets)

        # underflow depends on the records: where the user makes numpy raise on it, it would tell on them
        with np.errstate(all="ignore"):
            block = where_they_lie(X, y, index, len(clients), null)
            result = self._run(design.algorithm, block, (), fitted)
        check_ledger(design.plan, design.algorithm.ledger(result.server, result.states))
        self.__dict__.update(fitted(result.server))
        self.clients_ = clients
        self.n_iter_ = 1
        self.privacy_ = self._claim(design.plan, clients, noise)
        return self

    def _plan(self, facts):
        self._robustness()
        return self._design(facts, self._frame(), self._targets()).plan

    def _claim(self, plan, clients, noise):
        return self._report(plan, clients, noise, self._declared())

    def refit(
        self,
        *,
        noise_radius: float | None = None,
        radius: float | None = None,
        mixture: str | None = None,
        mixture_radius: float | None = None,
    ) -> Self:
        """A model with another robustness, from the moments that were released: no data, no further budget.

        Parameters
        ----------
        noise_radius, radius, mixture, mixture_radius
            As in the class; None keeps what this model was fitted with.  `mixture_radius` overrides `mixture`.

        Returns
        -------
        model : estimator of the same class
            New and fitted, with these parameters; `self` is left as it is.  Both share `privacy_`: using one, the
            other or both costs what the one release has cost.

        Raises
        ------
        ValueError
            A parameter is invalid; the message names it.
        """
        check_is_fitted(self)
        changes = {"noise_radius": noise_radius, "radius": radius, "mixture_radius": mixture_radius}
        changes = {name: value for name, value in changes.items() if value is not None}
        model = copy.copy(self).set_params(**{**self.chosen_, **changes, "tune": False})
        if mixture is not None:
            model.set_params(mixture=mixture, mixture_radius=mixture_radius)
        model._validate_params()
        robustness = model._robustness()
        model.__dict__.update(self._robust_model(self._problem, robustness, self._fitted_frame, self._fitted_targets))
        return model

    def radius_path(self, radii: Any) -> list[Self]:
        """Models for many Wasserstein radii from the one release, see `refit`.

        Parameters
        ----------
        radii : array-like of shape (n_radii,)
            >= 0.

        Returns
        -------
        models : list of fitted estimators
            In the order of `radii`.

        Raises
        ------
        ValueError
            `radii` is no sequence of finite numbers >= 0.
        """
        radii = checked_radii(radii)
        return [self.refit(radius=radius) for radius in radii.tolist()]

    def _robustness(self):
        mixture_radius = MIXTURES[self.mixture] if self.mixture_radius is None else self.mixture_radius
        if mixture_radius > 0 and self.aggregation != "local":
            raise ValueError(
                f"mixture={self.mixture!r} with mixture_radius={self.mixture_radius!r} needs the moments of each "
                'client, and aggregation="trusted" releases their sum only. Use aggregation="local" or '
                'mixture="fixed".'
            )
        return Robustness(float(self.noise_radius), float(self.radius), float(mixture_radius))

    def _frame(self):
        if self.feature_map is None:
            return super()._frame()
        n_features = self.n_features_in_
        box, reaches = ClippedFrame.as_given(n_features, False, np.inf), (1.0, self.data_norm, LARGEST)
        if self.feature_bounds is not None:
            box = ClippedFrame.of_box(*check_feature_bounds(self.feature_bounds, n_features), False, np.inf)
            reaches = (1.0,)
        transform, n_mapped = public_map(self.feature_map, n_features, reaches)
        return MappedFrame(box, transform, ClippedFrame.as_given(n_mapped, self.fit_intercept, self.data_norm))

    def _release_name(self):
        return "moments of two disjoint halves" if self.tune else "moments"

    def _design(self, facts, frame, targets):
        """One release of each client's moments, or of their weighted sum."""
        layout = targets.layout(len(frame.affine.centre) + frame.affine.constant, self.statistics_weight)
        adjacency = ADJACENCIES[self.adjacency]
        placement = PLACEMENTS[self.aggregation]
        weights = facts.alpha * facts.n_records.sum() / facts.n_records
        name = self._release_name()
        plan = gaussian_plan(
            [ReleaseKind(name, 1)],
            {name: placement.exposed(weights) * self._sensitivity(adjacency)},
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=adjacency,
            aggregation=AGGREGATIONS[self.aggregation],
        )
        at_client, at_server = placement.doors(GaussianDoor(plan.releases[name], facts.noise))
        algorithm = MomentRelease(
            layout=layout,
            frame=frame,
            targets=targets,
            groups=RandomHalves(facts.noise) if self.tune else all_rows,
            weights=weights,
            n_records=facts.n_records,
            data_norm=self.data_norm,
            combine=placement.combine,
            at_client=at_client,
            at_server=at_server,
        )
        return Design(plan, algorithm)

    def _problems(self, released, sigma, facts, algorithm):
        """One problem for each group of rows: the released vectors with their public sizes and noise."""
        n_groups = released.shape[1]
        sizes = np.array([(facts.n_records + k) // n_groups for k in reversed(range(n_groups))])
        sizes, weights = PLACEMENTS[self.aggregation].parts(sizes, algorithm.weights, facts.alpha)
        n_features = len(algorithm.frame.affine.centre)
        return [
            MomentProblem(
                tuple(
                    algorithm.layout.unpack(vector, n, s)
                    for vector, n, s in zip(released[:, k], sizes[k], sigma, strict=True)
                ),
                weights,
                n_features,
            )
            for k in range(n_groups)
        ]

    def _from_moments(self, problems, robustness, frame, targets):
        """Fitted attributes; the robustness is chosen here if there is a second half, the model fitted to both."""
        if len(problems) == 2:
            robustness = tuned(*problems, robustness)
        halves = zip(*(problem.parts for problem in problems), strict=True)
        parts = tuple(pooled(groups, np.ones(len(groups))) for groups in halves)
        problem = MomentProblem(parts, problems[0].client_weights, problems[0].n_features)
        return {
            "moments_": parts,
            "_problem": problem,
            "_fitted_frame": frame,
            "_fitted_targets": targets,
            **self._robust_model(problem, robustness, frame, targets),
        }

    def _robust_model(self, problem, robustness, frame, targets):
        """Fitted attributes that depend on the robustness."""
        W = problem.solve(robustness)
        coef, intercept = frame.leave(W / frame.data_norm)  # rows were divided by it
        return {
            "chosen_": asdict(robustness),
            "noise_radius_": robustness.noise_radius * noise_edge(problem.together),
            "certificate_": targets.unit**2 * problem.certificate(W, robustness, CONFIDENCE),
            **self._in_units(coef, intercept, targets),
        }
