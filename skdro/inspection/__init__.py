"""Pictures of fitted estimators, as scikit-learn's Display classes; they need matplotlib (`skdro[plot]`)."""

from .audit import AuditDisplay
from .client_scores import ClientScoresDisplay
from .convergence import ConvergenceDisplay
from .privacy_utility import PrivacyUtilityDisplay
from .radius_path import RadiusPathDisplay
from .worst_case import WorstCaseDisplay

__all__ = [
    "AuditDisplay",
    "ClientScoresDisplay",
    "ConvergenceDisplay",
    "PrivacyUtilityDisplay",
    "RadiusPathDisplay",
    "WorstCaseDisplay",
]
