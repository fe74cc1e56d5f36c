"""Data sets that come with their clients: loaders, generators, client splitters and label noise."""

from ._clients import split_clients_by_column, split_clients_by_share, split_clients_dirichlet
from ._dominant import split_clients_by_dominant_class
from ._imbalance import make_imbalanced
from ._loader_heart import fetch_heart_disease
from ._loaders_industry import fetch_ai4i, fetch_tennessee_eastman
from ._loaders_people import fetch_adult, fetch_diabetes130
from ._loaders_small import fetch_dermatology, fetch_penguins, fetch_seeds
from ._multisource import make_multisource_regression
from ._noise import flip_labels
from ._overlap import make_overlap_study
from ._pump import make_pump_faults

__all__ = [
    "fetch_adult",
    "fetch_ai4i",
    "fetch_dermatology",
    "fetch_diabetes130",
    "fetch_heart_disease",
    "fetch_penguins",
    "fetch_seeds",
    "fetch_tennessee_eastman",
    "flip_labels",
    "make_imbalanced",
    "make_multisource_regression",
    "make_overlap_study",
    "make_pump_faults",
    "split_clients_by_column",
    "split_clients_by_dominant_class",
    "split_clients_by_share",
    "split_clients_dirichlet",
]
