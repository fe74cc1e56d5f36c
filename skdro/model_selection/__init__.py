"""Model selection that knows the clients: folds that lose none of them, and scores client by client."""

from ._clients import ClientStratifiedKFold, client_scores, make_client_scorer, worst_client_score

__all__ = [
    "ClientStratifiedKFold",
    "client_scores",
    "make_client_scorer",
    "worst_client_score",
]
