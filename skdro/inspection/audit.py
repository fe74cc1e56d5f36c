"""An audit as a picture: the curve of the attack under the curve that the guarantee allows."""

from typing import Any

import numpy as np

from ..privacy.auditing import AuditResult, audit
from ..privacy.membership import MembershipResult
from ._axes import axes_for

__all__ = ["AuditDisplay"]


class AuditDisplay:
    """True against false positive rate of an audit's guesses, with the largest rate that the claim allows.

    A curve well inside the shaded region is what a sound estimator gives; how far outside it has to be for a verdict
    is the result's `refuted`, which takes chance into account.

    Prefer `from_estimator` or `from_result` to the constructor.

    Parameters
    ----------
    result : AuditResult or MembershipResult

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skdro import DPFedDROClassifier
    >>> from skdro.inspection import AuditDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 20)), np.arange(80) % 2
    >>> model = DPFedDROClassifier(epsilon=1.0, classes=[0, 1], n_rounds=3)
    >>> display = AuditDisplay.from_estimator(model, X, y, groups=np.zeros(80), random_state=0)
    >>> display.ax_.get_xlabel()
    'false positive rate'
    """

    def __init__(self, result: AuditResult | MembershipResult):
        self.result = result

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, groups: Any = None, *, ax: Any = None, **parameters: Any
    ) -> "AuditDisplay":
        """Audit an estimator and draw the result.

        Parameters
        ----------
        estimator : private classifier
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.
        **parameters : object
            Passed to `skdro.privacy.audit`.

        Returns
        -------
        AuditDisplay
        """
        return cls.from_result(audit(estimator, X, y, groups, **parameters), ax=ax)

    @classmethod
    def from_result(cls, result: AuditResult | MembershipResult, *, ax: Any = None) -> "AuditDisplay":
        """Draw the result of `audit` or of `membership_inference`.

        Parameters
        ----------
        result : AuditResult or MembershipResult
        ax : matplotlib Axes, default=None

        Returns
        -------
        AuditDisplay
        """
        return cls(result).plot(ax=ax)

    def plot(self, ax: Any = None) -> "AuditDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if not given.

        Returns
        -------
        self : AuditDisplay

        Raises
        ------
        ImportError
            matplotlib is not installed.
        """
        ax = axes_for(self, ax)
        rates = np.linspace(0, 1, 401)
        ax.fill_between(
            rates, self.result.limit(rates), color="C0", alpha=0.15, linewidth=0, label="allowed by the claim"
        )
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=":", label="guessing blindly")
        false, true = roc(self.result.scores, self.result.truth)
        ax.plot(false, true, color="C3" if self.result.refuted else "C0", drawstyle="steps-post", label="attack")
        ax.set(xlim=(0, 1), ylim=(0, 1.01), aspect="equal")
        ax.set(xlabel="false positive rate", ylabel="true positive rate")
        ax.set_title(repr(self.result).split("\n")[0].split(": ", 1)[1], fontsize="small", wrap=True)
        ax.legend(loc="lower right", fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def roc(scores: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False and true positive rates of "score >= threshold" for each threshold, ties taken together.

    Parameters
    ----------
    scores : ndarray of shape (n,)
    truth : ndarray of bool, shape (n,)

    Examples
    --------
    >>> roc(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False]))
    (array([0. , 0. , 0.5, 1. ]), array([0. , 0.5, 1. , 1. ]))
    """
    order = np.argsort(-scores, kind="stable")
    last_of_ties = np.append(np.diff(scores[order]) != 0, True)
    true, false = np.cumsum(truth[order])[last_of_ties], np.cumsum(~truth[order])[last_of_ties]
    return np.append(0, false) / max(false[-1], 1), np.append(0, true) / max(true[-1], 1)
