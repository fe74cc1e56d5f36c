"""A ledger for many private fits on the same records, with a ceiling that holds whatever is fitted next.

`BudgetAccountant.fit` asks the estimator for its plan (`privacy_plan`, from public facts), reserves it, and only then
lets the data be touched.  For full-batch Gaussian releases the rule "refuse what would lift the sum of mu^2 above
mu_max^2" is a privacy filter: the total is mu_max-GDP even if every budget is chosen after a look at all results so
far (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023).
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, sqrt
from pathlib import Path
from typing import Any

from ..exceptions import BudgetExceededError
from .accounting import check_budget, gaussian_epsilon, gaussian_mu
from .budget_file import read_ledger, write_ledger
from .charges import Charge, Declared, Remaining, accountable_plan, charge_of, map_fingerprint, total_mu_squared
from .sensitivity import ADJACENCIES

__all__ = ["BudgetAccountant"]


class BudgetAccountant:
    """Ledger of private fits on one set of records, with an optional ceiling.

    It stores the releases of each fit (sensitivity, noise, number) and never (epsilon, delta) pairs, because only
    releases add up exactly.

    Parameters
    ----------
    epsilon : float or None
        Ceiling on the total epsilon at `delta`; None keeps the ledger without a ceiling.
    delta : float
        In (0, 1).
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        The only notion of neighbours that this ledger accepts: two notions do not add up.
    declared : dict of (epsilon, delta), default=None
        Budgets set aside, by name, for fits whose releases do not compose as full-batch Gaussians do (sampled
        batches, `PrivateSearchCV`).  They have to be named here, before anything is spent: their part of the ceiling
        is gone whether or not it is used.

    Attributes
    ----------
    charges : tuple of Charge
        Every fit so far, also those that failed.

    Raises
    ------
    ValueError
        A parameter is invalid, or `declared` leaves nothing of the ceiling.

    Notes
    -----
    **Same records.** Row i has to be the same record in every fit.  Fits under the same `groups` use parallel
    composition, so that a client with less exposure does not pay for another's; any other `groups`, or another number
    of rows, is treated as if the same records were used once more, and adds up.

    **Failures.** A charge is reserved before the fit and stays if the fit raises: something may have been released.

    **Refused.** A fit that is not private (seeded noise, diagnostics) has no finite cost, so that no total could be
    claimed after it; it is refused rather than recorded.

    The ledger lives in memory: call `save` after each fit.

    Examples
    --------
    >>> import numpy as np
    >>> from skdro import DPFedDROClassifier
    >>> from skdro.privacy import BudgetAccountant
    >>> rng = np.random.default_rng(0)
    >>> X, y, groups = rng.normal(size=(60, 2)), np.arange(60) % 2, np.arange(60) // 20
    >>> accountant = BudgetAccountant(epsilon=2.0, delta=1e-5)
    >>> model = accountant.fit(DPFedDROClassifier(epsilon=1.5, classes=[0, 1]), X, y, groups=groups)
    >>> accountant
    BudgetAccountant: spent (epsilon, delta) = (1.5, 1e-05) of (2, 1e-05), replace-one
      1. DPFedDROClassifier: spent, mu = 0.3872
      remaining: epsilon = 1.21 at delta = 1e-05 for one more fit (informative; nothing is refunded)
    >>> accountant.fit(DPFedDROClassifier(epsilon=1.5, classes=[0, 1]), X, y, groups=groups)
    Traceback (most recent call last):
    ...
    skdro.exceptions.BudgetExceededError: DPFedDROClassifier would bring the total to epsilon = ...
    """

    def __init__(
        self,
        epsilon: float | None,
        delta: float,
        *,
        adjacency: str = "replace_one",
        declared: Mapping[str, tuple[float, float]] | None = None,
    ):
        check_budget(1.0 if epsilon is None else epsilon, delta)
        if adjacency not in ADJACENCIES:
            raise ValueError(f"adjacency must be one of {sorted(ADJACENCIES)}; got {adjacency!r}.")
        self._epsilon, self._delta, self._adjacency = epsilon, delta, adjacency
        self._declared = {str(name): Declared(*pair) for name, pair in (declared or {}).items()}
        self._charges: list[Charge] = []
        if not self._gaussian_delta > 0 or (epsilon is not None and epsilon <= self._declared_epsilon):
            raise ValueError("declared must leave a part of epsilon and of delta for all other fits.")

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every fit so far."""
        return tuple(self._charges)

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of all fits so far, declared budgets aside."""
        return sqrt(total_mu_squared(self._charges))

    @property
    def epsilon(self) -> float:
        """Total epsilon so far at the ledger's delta, declared budgets included."""
        return self._epsilon_of(self.mu)

    @property
    def delta(self) -> float:
        """The delta at which epsilon is stated."""
        return self._delta

    @property
    def remaining(self) -> Remaining:
        """What is left of the ceiling for one more fit on all records."""
        if self._epsilon is None:
            return Remaining(inf, self._delta, inf)
        mu = sqrt(max(self._largest_mu_squared - total_mu_squared(self._charges), 0.0))
        # rounded down by far more than the two conversions between mu and epsilon can differ
        epsilon = gaussian_epsilon(mu, self._gaussian_delta) * (1 - 1e-9)
        return Remaining(epsilon, self._gaussian_delta, mu)

    def fit(self, estimator: Any, X: Any, y: Any, groups: Any = None, *, declared: str | None = None) -> Any:
        """Fit `estimator` on the records if the ledger allows it.

        Parameters
        ----------
        estimator : estimator with `privacy_plan`
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
            Public client label of each row.
        declared : str, default=None
            Name of the declared budget to use, once; the plan must not exceed it.

        Returns
        -------
        estimator : object
            The same, fitted.

        Raises
        ------
        BudgetExceededError
            The plan would exceed the ceiling or the declared budget.  No data were touched, nothing is charged.
        ValueError
            The estimator states no plan, is not private, holds for another adjacency, or releases what this ledger
            cannot add up.  Nothing is charged.
        RuntimeError
            The fit did not keep to its plan: a bug, after which the ledger cannot be trusted.
        """
        plan = accountable_plan(estimator, X, groups, self._adjacency)
        public_map = map_fingerprint(groups, len(X))
        name = type(estimator).__name__
        if declared:
            charge = self._from_declared(name, plan, public_map, declared)
        else:
            charge = self._accepted(charge_of(name, plan.events, public_map))
        position = len(self._charges)
        self._charges.append(charge)
        try:
            estimator.fit(X, y, **({} if groups is None else {"groups": groups}))
            self._charges[position] = replace(charge, status="spent")
        finally:
            if self._charges[position].status == "reserved":
                self._charges[position] = replace(charge, status="failed")
        if estimator.privacy_ != plan:
            raise RuntimeError(f"{name} did not keep to its privacy_plan; do not trust this ledger any more.")
        return estimator

    def save(self, path: str | Path) -> None:
        """Write the ledger as plain JSON, in one step.

        Parameters
        ----------
        path : str or Path
        """
        settings = {"epsilon": self._epsilon, "delta": self._delta, "adjacency": self._adjacency}
        write_ledger(path, {**settings, "declared": self._declared}, self._charges)

    @classmethod
    def load(cls, path: str | Path) -> "BudgetAccountant":
        """The ledger that `save` wrote.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        ValueError
            The file is no ledger, was damaged, or has an unknown version.
        OSError
            The file cannot be read.
        """
        settings, charges = read_ledger(path)
        declared = {name: (pair.epsilon, pair.delta) for name, pair in settings.pop("declared").items()}
        accountant = cls(**settings, declared=declared)
        accountant._charges = charges
        return accountant

    def __eq__(self, other):
        return isinstance(other, BudgetAccountant) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # typeshed has every object hashable

    def __repr__(self):
        ceiling = "no ceiling" if self._epsilon is None else f"of ({self._epsilon:.6g}, {self._delta:g})"
        lines = [
            f"BudgetAccountant: spent (epsilon, delta) = ({self.epsilon:.6g}, {self._delta:g}) {ceiling}, "
            f"{self._adjacency.replace('_', '-')}"
        ]
        for number, charge in enumerate(self._charges, start=1):
            cost = (
                f"declared {charge.declared!r}" if charge.declared else f"mu = {sqrt(total_mu_squared([charge])):.4g}"
            )
            lines.append(f"  {number}. {charge.name}: {charge.status}, {cost}")
        lines += [f"  declared {name!r}: ({d.epsilon:.6g}, {d.delta:g})" for name, d in self._declared.items()]
        if self._epsilon is not None:
            left = self.remaining
            lines.append(
                f"  remaining: epsilon = {left.epsilon:.4g} at delta = {left.delta:g} for one more fit "
                "(informative; nothing is refunded)"
            )
        return "\n".join(lines)

    @property
    def _declared_epsilon(self):
        return sum(pair.epsilon for pair in self._declared.values())

    @property
    def _gaussian_delta(self):
        return self._delta - sum(pair.delta for pair in self._declared.values())

    @property
    def _largest_mu_squared(self):
        if self._epsilon is None:
            return inf
        return gaussian_mu(self._epsilon - self._declared_epsilon, self._gaussian_delta) ** 2

    def _epsilon_of(self, mu):
        return gaussian_epsilon(mu, self._gaussian_delta) + self._declared_epsilon

    def _accepted(self, charge):
        """The charge, if the ceiling leaves room for it."""
        total = total_mu_squared([*self._charges, charge])
        if total > self._largest_mu_squared:
            raise BudgetExceededError(
                f"{charge.name} would bring the total to epsilon = {self._epsilon_of(sqrt(total)):.4g} at delta = "
                f"{self._delta:g}; the ceiling is {self._epsilon:.6g}. Nothing was touched. What is left allows one "
                f"more fit with epsilon = {self.remaining.epsilon:.4g} at delta = {self.remaining.delta:g}."
            )
        return charge

    def _from_declared(self, name, plan, public_map, declared):
        """A charge against a declared budget, which serves once."""
        if declared not in self._declared:
            raise ValueError(f"declared must be one of {sorted(self._declared)}; got {declared!r}.")
        if any(charge.declared == declared for charge in self._charges):
            raise BudgetExceededError(f"The declared budget {declared!r} has been used; it serves one fit.")
        pair = self._declared[declared]
        if plan.epsilon > pair.epsilon or plan.delta > pair.delta:
            raise BudgetExceededError(
                f"{name} costs ({plan.epsilon:.6g}, {plan.delta:g}) and {declared!r} was declared with "
                f"({pair.epsilon:.6g}, {pair.delta:g}). Nothing was touched."
            )
        return Charge(name, "reserved", public_map, (), declared)
