"""What privacy costs: the score of private estimators against the total epsilon."""

import warnings
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring
from sklearn.utils import check_random_state, indexable
from sklearn.utils.parallel import Parallel, delayed

from ..exceptions import PrivacyLeakWarning
from ..model_selection import ClientStratifiedKFold
from ..model_selection._clients import take_rows
from ._axes import axes_for, by_name, draw_mean

__all__ = ["PrivacyUtilityDisplay"]

STYLES = (":", "-.")  # of the references


class PrivacyUtilityDisplay:
    """Score against epsilon: the mean of some repeats, with a band of one standard error.

    The band is what chance (splits and noise) does to the *mean*; a single private fit, the only one that a budget
    pays for, scatters sqrt(n_repeats) times as much.

    Prefer `from_estimators` or `from_results` to the constructor.

    Parameters
    ----------
    epsilons : ndarray of shape (n_epsilons,)
    scores : dict of str to ndarray of shape (n_epsilons, n_repeats)
    references : dict of str to float, default=None
        Scores without privacy, drawn as horizontal lines.
    score_name : str, default="score"
    delta : float, default=None
        Stated on the axis if given.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D
        By estimator, references included.

    See Also
    --------
    skdro.plan_noise : What a budget costs in noise, without any data.
    skdro.model_selection.composed_cost : What the fits of a search cost together.

    Examples
    --------
    >>> from skdro.inspection import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay.from_results(
    ...     [0.5, 2.0], {"local": [[0.5, 0.6], [0.7, 0.8]], "trusted": [[0.7, 0.7], [0.9, 0.8]]},
    ...     references={"not private": 0.95}, score_name="accuracy",
    ... )
    >>> display.lines_["local"].get_ydata()
    array([0.55, 0.75])
    """

    def __init__(self, epsilons, scores, references=None, score_name="score", delta=None):
        self.epsilons = epsilons
        self.scores = scores
        self.references = references
        self.score_name = score_name
        self.delta = delta

    @classmethod
    def from_estimators(
        cls,
        estimators: Any,
        X: Any,
        y: Any,
        groups: Any = None,
        *,
        epsilons: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0),
        references: Mapping[str, Any] | None = None,
        scoring: Any = None,
        n_repeats: int = 5,
        n_splits: int = 4,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        ax: Any = None,
    ) -> "PrivacyUtilityDisplay":
        """Fit private estimators at each epsilon, score them on rows that they have not seen, and draw the scores.

        **The sweep itself spends budget.**  Its fits are `len(epsilons)` times `n_repeats` releases about the same
        records, and the scores that it shows are exact functions of private labels, which no epsilon covers.  Run
        it on public or simulated data; on private records only where the picture stays with those who may see them.

        Parameters
        ----------
        estimators : estimator instance or mapping of them by name
            With the parameter `epsilon`; cloned.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
            Client of each row; each split keeps rows of every client in both parts.  None is one client.
        epsilons : sequence of float, default=(0.5, 1.0, 2.0, 4.0, 8.0)
            Total budget of each fit.
        references : mapping of estimators by name, default=None
            Fitted on the same splits as they are; those whose `fit` takes groups get them.
        scoring : str or callable, default=None
            A scikit-learn scorer; the estimators' own `score` if None.
        n_repeats : int, default=5
            Splits, each with fresh noise.
        n_splits : int, default=4
            One part in `n_splits` of the rows of each client is for the scores.
        random_state : int, RandomState instance or None, default=None
            Determines the splits and, unless None, the noise: known noise is not private.  The fits then do not
            repeat the `PrivacyLeakWarning`; the sweep is no private computation in any case.
        n_jobs : int, default=None
            Fits at the same time.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        PrivacyUtilityDisplay

        Raises
        ------
        TypeError
            An estimator has no parameter `epsilon`.
        ValueError
            `epsilons` or `n_repeats` is invalid, or a client has too few rows for `n_splits`.
        ImportError
            matplotlib is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from skdro import DPFedSGDClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> display = PrivacyUtilityDisplay.from_estimators(
        ...     DPFedSGDClassifier(classes=[0, 1, 2], feature_bounds=([4, 2, 1, 0], [8, 4.5, 7, 2.5])),
        ...     X, y, np.arange(150) % 3, epsilons=[1.0, 8.0], n_repeats=2, random_state=0,
        ... )
        >>> display.scores["DPFedSGDClassifier"].shape
        (2, 2)
        """
        private = _named(estimators)
        for name, estimator in private.items():
            if "epsilon" not in estimator.get_params():
                raise TypeError(f"{name} has no parameter epsilon; estimators must be private ones.")
        budgets = _checked_epsilons(epsilons)
        if n_repeats < 1:
            raise ValueError(f"n_repeats must be at least 1, got {n_repeats}.")
        X, y, groups = indexable(X, y, np.zeros(len(y), dtype=int) if groups is None else groups)
        rng = check_random_state(random_state)
        splits = [_split(X, y, groups, n_splits, rng) for _ in range(n_repeats)]
        jobs = [
            (name, clone(estimator).set_params(epsilon=epsilon, **_seed(estimator, random_state, rng)), split)
            for name, estimator in private.items()
            for epsilon in budgets.tolist()
            for split in splits
        ]
        jobs += [(name, clone(e), split) for name, e in _named(references or {}).items() for split in splits]
        values = Parallel(n_jobs=n_jobs)(
            delayed(_fit_and_score)(estimator, X, y, groups, split, scoring, random_state is not None)
            for _, estimator, split in jobs
        )
        tables = {name: np.array([v for (n, *_), v in zip(jobs, values, strict=True) if n == name])
                  for name in dict.fromkeys(n for n, *_ in jobs)}  # fmt: skip
        deltas = {estimator.get_params().get("delta") for estimator in private.values()}
        return cls.from_results(
            budgets,
            {name: tables[name].reshape(len(budgets), n_repeats) for name in private},
            references={name: float(tables[name].mean()) for name in tables if name not in private},
            score_name=scoring if isinstance(scoring, str) else "score",
            delta=deltas.pop() if len(deltas) == 1 else None,
            ax=ax,
        )

    @classmethod
    def from_results(
        cls,
        epsilons: Any,
        scores: Any,
        *,
        references: Mapping[str, float] | None = None,
        score_name: str = "score",
        delta: float | None = None,
        ax: Any = None,
    ) -> "PrivacyUtilityDisplay":
        """Draw scores that were computed elsewhere.

        Parameters
        ----------
        epsilons : array-like of shape (n_epsilons,)
            > 0.
        scores : array-like of shape (n_epsilons,) or (n_epsilons, n_repeats), or mapping of them by name
        references : mapping of str to float, default=None
            Scores without privacy.
        score_name : str, default="score"
        delta : float, default=None
        ax : matplotlib Axes, default=None

        Returns
        -------
        PrivacyUtilityDisplay

        Raises
        ------
        ValueError
            `epsilons` is not a sequence of positive numbers, or `scores` do not fit it.
        ImportError
            matplotlib is not installed.
        """
        epsilons = _checked_epsilons(epsilons)
        tables = by_name(scores, len(epsilons), "epsilons")
        return cls(epsilons, tables, dict(references or {}), score_name, delta).plot(ax=ax)

    def plot(self, ax: Any = None) -> "PrivacyUtilityDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        self : PrivacyUtilityDisplay

        Raises
        ------
        ImportError
            matplotlib is not installed.
        """
        ax = axes_for(self, ax)
        self.ax_, self.figure_ = ax, ax.figure
        self.lines_ = {name: draw_mean(ax, self.epsilons, table, label=name) for name, table in self.scores.items()}
        for name, score in (self.references or {}).items():
            self.lines_[name] = ax.axhline(score, color="0.4", linestyle=STYLES[len(self.lines_) % 2], label=name)
        ax.set_xscale("log")
        ax.set_xticks(self.epsilons, [f"{epsilon:g}" for epsilon in self.epsilons])
        ax.minorticks_off()
        ax.set_xlabel("total epsilon" + ("" if self.delta is None else f" (delta = {self.delta:g})"))
        ax.set_ylabel(self.score_name.replace("_", " "))
        if any(self.lines_):
            ax.legend(fontsize="small", framealpha=0.8, loc="best")
        return self


def _named(estimators) -> dict[str, BaseEstimator]:
    if isinstance(estimators, Mapping):
        return dict(estimators)
    if not hasattr(estimators, "get_params"):
        raise TypeError(f"pass one estimator or a mapping of them by name; got {type(estimators).__name__}.")
    return {type(estimators).__name__: estimators}


def _checked_epsilons(epsilons):
    epsilons = np.asarray(epsilons, dtype=float)
    if epsilons.ndim != 1 or len(epsilons) == 0 or not np.all(np.isfinite(epsilons) & (epsilons > 0)):
        raise ValueError("epsilons must be a sequence of finite numbers > 0.")
    return epsilons


def _seed(estimator, random_state, rng):
    """A seed for the noise where the sweep is to be repeatable."""
    seeded = random_state is not None and "random_state" in estimator.get_params()
    return {"random_state": int(rng.randint(2**31 - 1))} if seeded else {}


def _split(X, y, groups, n_splits, rng):
    """Training and test rows of a random split with rows of every client in both parts."""
    return next(ClientStratifiedKFold(n_splits, shuffle=True, random_state=rng).split(X, y, groups))


def _fit_and_score(estimator, X, y, groups, split, scoring, seeded):
    train, test = split
    labels = {"groups": take_rows(groups, train)} if "groups" in signature(estimator.fit).parameters else {}
    with warnings.catch_warnings():
        if seeded:
            warnings.simplefilter("ignore", PrivacyLeakWarning)
        estimator.fit(take_rows(X, train), take_rows(y, train), **labels)
    return check_scoring(estimator, scoring)(estimator, take_rows(X, test), take_rows(y, test))
