"""Pictures of fitted estimators, as scikit-learn's Display classes; they need matplotlib (`skdro[plot]`)."""

from .audit import AuditDisplay
from .worst_case import WorstCaseDisplay

__all__ = ["AuditDisplay", "WorstCaseDisplay"]
