"""What may leave a site: noise, sensitivities, accounting, the plan of a fit and the report it ends with."""

from .budget import BudgetAccountant
from .report import PrivacyReport

__all__ = ["BudgetAccountant", "PrivacyReport"]
