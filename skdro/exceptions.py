"""Warnings and errors of the package, each with the name that a user filters or catches by."""


class SingleClientWarning(UserWarning):
    """A federated estimator was fitted without `groups`, so all records count as one client."""


class ConstantModelWarning(UserWarning):
    """The radius is so large that the robust model gives every record the same label."""


class PrivacyLeakWarning(UserWarning):
    """Something outside the noisy releases of a private fit depends on the data, or the noise is known."""


class NoiseFeedbackWarning(UserWarning):
    """The noise of a private solver that follows gradients by their changes grows from iteration to iteration."""


class BudgetExceededError(ValueError):
    """A fit would cost more than the ceiling of its `BudgetAccountant` leaves; no data were touched."""
