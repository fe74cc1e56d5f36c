"""What a private estimator may know before it looks at a record, and checks of its input that show none."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..privacy.noise import NoiseSource
from ..privacy.plan import PrivacyPlan

__all__ = ["Design", "PublicFacts", "class_codes", "hiding_records", "public_classes"]


@dataclass(frozen=True)
class PublicFacts:
    """All that a plan may depend on: nothing here comes from a record.

    Parameters
    ----------
    n_records : ndarray of int, shape (n_clients,)
    alpha : ndarray of shape (n_clients,)
    settings : dict of str to ndarray of shape (n_clients,)
        Per-client parameters, such as radius and kappa.
    n_classes, n_features, n_columns : int
    noise : NoiseSource
    """

    n_records: np.ndarray
    alpha: np.ndarray
    settings: dict[str, np.ndarray]
    n_classes: int
    n_features: int
    n_columns: int
    noise: NoiseSource


@dataclass(frozen=True)
class Design:
    """A plan and the algorithm that keeps to it."""

    plan: PrivacyPlan
    algorithm: Any


def hiding_records(check: Callable, *args, **kwargs):
    """Result of a check of the input; its errors keep their type, but show no value of a record.

    scikit-learn puts values into quotes (a string that is no number) or on later lines (an array of a wrong
    shape or type).
    """
    try:
        return check(*args, **kwargs)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        text = re.sub(r"'.*'|\".*\"", "...", str(error).partition("\n")[0])
        if text.endswith(" instead:"):  # the array would follow
            text = f"{text[:-1]}. X must have shape (n_samples, n_features): one row for each record."
    # raised here, so that the original does not come along as the context
    raise kind(text)


def public_classes(classes) -> np.ndarray:
    """Sorted labels of the parameter `classes`."""
    labels = np.asarray(classes)
    if labels.ndim != 1 or len(np.unique(labels)) < 2:
        raise ValueError("classes must be a list of at least two different labels.")
    return np.unique(labels)


def class_codes(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Position in `classes` of each label; a ValueError shows none of them."""
    try:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        known = np.array_equal(classes[codes], y)
    except TypeError:  # labels that cannot be compared
        known = False
    if not known:
        raise ValueError(
            "y holds a label outside classes. Give classes every label that may occur, written and typed as in y."
        )
    return codes
