"""A user's script as mypy sees it: what the public interface promises in types, and what it refuses.

mypy checks it (`.ci/run`), and `test_packaging.py` runs it, so that no promise is about something that is not there.
`assert_type` does nothing at run time; an ignored error that mypy would not report is an error of its own.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, assert_type

import numpy as np

from skdro import (
    AFLRegressor,
    DPFedDROClassifier,
    DPMomentDROClassifier,
    FedDROClassifier,
    NoisePlan,
    RadiusPath,
    WassersteinDROClassifier,
    plan_noise,
    radius_path,
)
from skdro.certificates import wasserstein_radius
from skdro.datasets import flip_labels, make_imbalanced, make_overlap_study, split_clients_by_share
from skdro.inspection import (
    ClientScoresDisplay,
    ConvergenceDisplay,
    PrivacyUtilityDisplay,
    RadiusPathDisplay,
    WorstCaseDisplay,
)
from skdro.model_selection import ClientStratifiedKFold, client_scores, worst_client_score
from skdro.preprocessing import PublicBoundsScaler, RowNormClipper
from skdro.privacy import BudgetAccountant, PrivacyReport

rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
X[:, 0] += y

# data sets
groups = split_clients_by_share(y, (0.6, 0.4), random_state=0)
assert_type(groups, np.ndarray)
noisy = flip_labels(y, 0.1, random_state=0)
assert_type(noisy, np.ndarray)
assert_type(make_imbalanced(X, y, 0.2, random_state=0), tuple[np.ndarray, np.ndarray])
study = make_overlap_study(random_state=0)

# estimators
robust = FedDROClassifier(radius=0.05, kappa=0.5)
robust.fit(X, y, groups=groups)
assert_type(robust.predict(X), np.ndarray)
assert_type(robust.decision_function(X), np.ndarray)
assert_type(robust.coef_, np.ndarray)
assert_type(robust.intercept_, np.ndarray)
assert_type(robust.classes_, np.ndarray)
pooled = WassersteinDROClassifier(radius=0.05)
pooled.fit(X, y)
assert_type(pooled.predict(X), np.ndarray)
regressor = AFLRegressor()
regressor.fit(X, X[:, 0], groups=groups)
assert_type(regressor.predict(X), np.ndarray)
assert_type(regressor.intercept_, float)
path = radius_path(X, y, [0.01, 0.1], tol=1e-3)
assert_type(path, RadiusPath)
assert_type(path.risks, np.ndarray)
assert_type(path.predict(X), np.ndarray)

# privacy
private = DPFedDROClassifier(epsilon=1.0, classes=[0, 1], n_rounds=2)
report = private.privacy_plan(X, groups)
assert_type(report, PrivacyReport)
assert_type(report.epsilon, float | None)
assert_type(report.mu, float | None)
assert_type(report.delta, float)
assert_type(report.private, bool)
assert_type(report.in_words(), str)
assert_type(report.rederive_epsilon(), float)
for event in report.events:
    assert_type(event.sigma, float)
    assert_type(event.count, int)
for guarantee in report.per_client.values():
    assert_type(guarantee.epsilon, float)
private.fit(X, y, groups=groups)
assert_type(private.privacy_, PrivacyReport)
moments = DPMomentDROClassifier(epsilon=1.0, classes=[0, 1])
moments.fit(X, y, groups=groups)
again = moments.refit(radius=0.1)
assert_type(again, DPMomentDROClassifier)
assert_type(moments.radius_path([0.0, 0.1]), list[DPMomentDROClassifier])
accountant = BudgetAccountant(epsilon=3.0, delta=1e-5)
accountant.fit(private, X, y, groups=groups)
assert_type(accountant.epsilon, float)
plan = plan_noise(1.0, 1e-5, 30, {"north": 400, "south": 100}, n_features=10, n_classes=2)
assert_type(plan, NoisePlan)
assert_type(plan.epsilon, float | None)
assert_type(plan.drowning_rows, float)

# scores and preprocessing
assert_type(client_scores(robust, X, y, groups), dict[Hashable, float])
assert_type(worst_client_score(y, robust.predict(X), groups), float)
train, test = next(ClientStratifiedKFold(n_splits=3).split(X, y, groups))
assert_type(train, np.ndarray)
assert_type(RowNormClipper().transform(X), np.ndarray)
assert_type(PublicBoundsScaler(([-4, -4], [4, 4])).transform(X), np.ndarray)
assert_type(wasserstein_radius(100, dim=3, beta=0.05, p=1, diameter=8.0, c1=1.0, c2=1.0), np.ndarray | float)


def pictures() -> None:
    """Needs matplotlib."""
    assert_type(ConvergenceDisplay.from_estimator(robust), ConvergenceDisplay)
    assert_type(ConvergenceDisplay.from_estimator(robust).plot(), ConvergenceDisplay)
    assert_type(RadiusPathDisplay.from_path(path, X, y), RadiusPathDisplay)
    assert_type(WorstCaseDisplay.from_estimator(robust, X, y, groups), WorstCaseDisplay)
    assert_type(ClientScoresDisplay.from_estimator(robust, X, y, groups), ClientScoresDisplay)
    assert_type(PrivacyUtilityDisplay.from_results([1.0, 2.0], [0.7, 0.8]), PrivacyUtilityDisplay)


if TYPE_CHECKING:  # mistakes, each of which mypy has to find
    radius_path(X, y, [0.1], kapa=1.0)  # type: ignore[call-arg]
    radius_path(X, y, [0.1], kappa="large")  # type: ignore[arg-type]
    str(path.radius)  # type: ignore[attr-defined]
    str(report.epsilom)  # type: ignore[attr-defined]
    abs(report.epsilon)  # type: ignore[arg-type]
    str(robust.predict(X).labels)  # type: ignore[attr-defined]
    BudgetAccountant(epsilon="1", delta=1e-5)  # type: ignore[arg-type]
    ConvergenceDisplay.from_history({}, title=3)  # type: ignore[arg-type]
    client_scores(robust, X, y)  # type: ignore[call-arg]
    worst: str = worst_client_score(y, y, groups)  # type: ignore[assignment]
