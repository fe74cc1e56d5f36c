"""Model selection that knows the clients and the budget: folds, scores by client, and a search that is private."""

from ._clients import ClientStratifiedKFold, client_scores, make_client_scorer, worst_client_score
from ._costs import composed_cost
from ._private_search import PrivateSearchCV

__all__ = [
    "ClientStratifiedKFold",
    "PrivateSearchCV",
    "client_scores",
    "composed_cost",
    "make_client_scorer",
    "worst_client_score",
]
