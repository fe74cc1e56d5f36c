"""Warnings for what the noise does not cover, each with the parameter that causes it and the remedy."""

import warnings

from ..exceptions import PrivacyLeakWarning

__all__ = ["warn_classes_from_labels", "warn_large_delta", "warn_seeded_noise"]


def warn_seeded_noise(stacklevel: int = 2) -> None:
    """Warn that `random_state` makes the noise known.

    Parameters
    ----------
    stacklevel : int
        As for `warnings.warn`, counted from the caller.

    Warns
    -----
    PrivacyLeakWarning
    """
    warnings.warn(
        "random_state is set: anyone who knows the seed can subtract the noise, so this fit is not "
        "private and its epsilon is only nominal. Use random_state=None on private data.",
        PrivacyLeakWarning,
        stacklevel=stacklevel + 1,
    )


def warn_classes_from_labels(stacklevel: int = 2) -> None:
    """Warn that the set of classes was read from the private labels.

    Parameters
    ----------
    stacklevel : int
        As for `warnings.warn`, counted from the caller.

    Warns
    -----
    PrivacyLeakWarning
    """
    warnings.warn(
        "classes was not given and is read from the labels y: one record with a rare label changes the "
        "model's shape. Pass classes=[...], the public list of possible labels.",
        PrivacyLeakWarning,
        stacklevel=stacklevel + 1,
    )


def warn_large_delta(delta: float, smallest_client: int, stacklevel: int = 2) -> None:
    """Warn if `delta` allows a mechanism that publishes a whole record.

    Parameters
    ----------
    delta : float
    smallest_client : int
        Rows of the smallest client, public.
    stacklevel : int
        As for `warnings.warn`, counted from the caller.

    Warns
    -----
    PrivacyLeakWarning
        If ``delta > 1 / smallest_client``.

    Examples
    --------
    >>> warn_large_delta(1e-5, smallest_client=100)
    """
    if delta * smallest_client > 1:
        warnings.warn(
            f"delta = {delta:g} is larger than one over the rows of the smallest client ({smallest_client}): "
            "publishing a record drawn at random would satisfy it. Use delta <= 1 / (10 * number of rows).",
            PrivacyLeakWarning,
            stacklevel=stacklevel + 1,
        )
