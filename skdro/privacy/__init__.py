"""What may leave a site: noise, sensitivities, accounting, plans and reports; the ledger of many fits; audits."""

from .auditing import AuditResult, audit
from .budget import BudgetAccountant
from .membership import MembershipResult, membership_inference
from .report import PrivacyReport

__all__ = [
    "AuditResult",
    "BudgetAccountant",
    "MembershipResult",
    "PrivacyReport",
    "audit",
    "membership_inference",
]
