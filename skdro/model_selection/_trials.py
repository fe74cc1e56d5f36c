"""The pieces of a private search: candidates, a public hold-out, an estimator at a given cost, one trial."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from ..exceptions import PrivacyLeakWarning
from ..privacy.accounting import gaussian_epsilon
from ..privacy.ledger import Release
from ..privacy.mechanism import release
from ..privacy.noise import NoiseSource
from ..privacy.report import PrivacyReport
from ..privacy.sensitivity import ADJACENCIES

__all__ = [
    "Trial",
    "at_cost",
    "candidate_list",
    "check_trial_plan",
    "held_out",
    "noisy_accuracy",
    "secret_uniform",
    "trial",
]

FIXED = {"epsilon", "delta", "budget", "accountant", "adjacency", "classes", "diagnostics", "random_state"}
"""Parameters that are no candidate's to choose: the search's guarantee rests on them."""

DELTA = 1e-12
"""At which a trial's mu is handed over as an epsilon; any value encodes the same mu."""


@dataclass(frozen=True)
class Trial:
    """A fitted candidate and its noisy score."""

    estimator: Any
    parameters: dict[str, Any]
    score: float


def candidate_list(candidates: Any) -> list[dict[str, Any]]:
    """The public list of candidates.

    Parameters
    ----------
    candidates : dict of lists or sequence of dicts
        A grid, all combinations of which count, or the candidates one by one.

    Raises
    ------
    ValueError
        It is empty, of another form, or sets a parameter that the search owns.
    """
    if isinstance(candidates, Mapping):
        listed = list(ParameterGrid(candidates)) if candidates else []
    elif isinstance(candidates, Sequence) and all(isinstance(entry, Mapping) for entry in candidates):
        listed = [dict(entry) for entry in candidates]
    else:
        raise ValueError("candidates must be a grid (a dict of lists) or a list of dicts, one for each candidate.")
    if not listed:
        raise ValueError("candidates must hold at least one candidate.")
    owned = sorted(FIXED.intersection(*[set().union(*listed)]))
    if owned:
        raise ValueError(f"candidates must not set {owned}: set them on the estimator, or on the search.")
    return listed


def held_out(index: np.ndarray, share: float) -> np.ndarray:
    """Which rows are kept for scoring: a share of each client's, rounded down, by position and nothing else.

    The choice is public.  It looks random, so that sorted rows do no harm, and is the same each time.

    Parameters
    ----------
    index : ndarray of int, shape (n_rows,)
        Client index of each row.
    share : float
        In [0, 1).

    Returns
    -------
    mask : ndarray of bool, shape (n_rows,)

    Examples
    --------
    >>> held_out(np.array([0, 0, 0, 0, 1, 1]), 0.5).sum()
    np.int64(3)
    """
    mask = np.zeros(len(index), dtype=bool)
    public = np.random.default_rng(0)
    for client in range(index.max() + 1):
        rows = np.flatnonzero(index == client)
        mask[public.permutation(rows)[: int(share * len(rows))]] = True
    return mask


def at_cost(estimator: Any, mu: float, **parameters: Any) -> Any:
    """Unfitted copy of `estimator` whose fit costs at most `mu`.

    Parameters
    ----------
    estimator : private estimator
    mu : float
    **parameters : object
        Further parameters to set.
    """
    budget = {"epsilon": gaussian_epsilon(mu, DELTA), "delta": DELTA, "budget": "total", "accountant": "gdp"}
    known = estimator.get_params()
    return clone(estimator).set_params(
        **{name: value for name, value in budget.items() if name in known}, **parameters
    )


def check_trial_plan(plan: PrivacyReport, mu: float) -> None:
    """Fail unless a fit with this plan costs at most `mu`, by full-batch Gaussian releases alone.

    Parameters
    ----------
    plan : PrivacyReport
    mu : float

    Raises
    ------
    ValueError
        The fit is not private for another reason than a seed, or its releases are of another kind.
    RuntimeError
        It costs more.
    """
    if any(event.type != "gaussian" or event.q != 1 for event in plan.events):
        raise ValueError("PrivateSearchCV can account for estimators that release full-batch Gaussians only.")
    others = [why for why in plan.why_not_private if "random_state" not in why]
    if others:
        raise ValueError(f"estimator is not private: {'; '.join(others)}.")
    if cast(float, plan.mu) > mu:  # full-batch Gaussians have one
        raise RuntimeError("A candidate would cost more than its trial may.")


def secret_uniform(noise: NoiseSource, what: str, round: int = 0) -> float:
    """A uniform number in (0, 1) that nobody knows unless the noise is seeded.

    Parameters
    ----------
    noise : NoiseSource
    what : str
        What it decides, part of the key of the noise.
    round : int
    """
    return float(ndtr(noise((), clients=[0], round=round, release=what)[0]))


def noisy_accuracy(
    hits: np.ndarray, mu: float, adjacency: str, round: int, noise: NoiseSource, ledger: list[Release]
) -> float:
    """Share of right predictions, released by the Gaussian mechanism at cost `mu`.

    One record is in [0, 1 / n] of the mean, whichever adjacency.

    Parameters
    ----------
    hits : ndarray of bool, shape (n,)
    mu : float
    adjacency : str
    round : int
        Trial, part of the key of the noise.
    noise : NoiseSource
    ledger : list of Release
    """
    noisy = release(
        np.array([hits.mean()]),
        name="score",
        sensitivity=ADJACENCIES[adjacency].interval / len(hits),
        multiplier=1.0 / mu,
        bound=1.0,
        round=round,
        noise=noise,
        ledger=ledger,
    )
    return float(noisy[0])


def trial(models: Sequence[Any], data: tuple, mu_score: float, number: int, noise: NoiseSource) -> Trial:
    """Draw a candidate, fit it, and score it with noise.

    Parameters
    ----------
    models : sequence of (parameters, unfitted estimator)
    data : tuple
        (X, y, groups) to fit on and (X, y) to score on.
    mu_score : float
    number : int
        Of this trial.
    noise : NoiseSource

    Raises
    ------
    RuntimeError
        The noise of the score is not as planned.
    """
    X, y, groups, X_score, y_score = data
    parameters, model = models[int(secret_uniform(noise, "candidate", number) * len(models))]
    model = clone(model)
    if noise.seeded:
        model.set_params(random_state=int(secret_uniform(noise, "seed", number) * 2**32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # the search has said what leaks, once
        model.fit(X, y, groups=groups)
    ledger: list[Release] = []
    hits = model.predict(X_score) == y_score
    score = noisy_accuracy(hits, mu_score, model.adjacency, number, noise, ledger)
    (line,) = ledger
    if not np.allclose(line.sigma * mu_score, line.sensitivity, rtol=1e-12):
        raise RuntimeError("The noise of the score is not as planned.")
    return Trial(model, parameters, score)
