"""Data sets that come with their clients: loaders, generators, client splitters and label noise."""

from ._clients import (
    split_clients_by_column,
    split_clients_by_share,
    split_clients_dirichlet,
)
from ._dominant import split_clients_by_dominant_class
from ._noise import flip_labels

__all__ = [
    "flip_labels",
    "split_clients_by_column",
    "split_clients_by_dominant_class",
    "split_clients_by_share",
    "split_clients_dirichlet",
]
