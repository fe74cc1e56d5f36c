"""Pictures of fitted estimators, as scikit-learn's Display classes; they need matplotlib (`skdro[plot]`)."""

from .worst_case import WorstCaseDisplay

__all__ = ["WorstCaseDisplay"]
