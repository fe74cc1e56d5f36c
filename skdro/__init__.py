"""Distributionally robust, federated and differentially private estimators for scikit-learn."""

from .estimators.agnostic import AFLClassifier, AFLRegressor
from .estimators.federated import FedDROClassifier
from .estimators.mixture_classification import BiDROFLClassifier
from .estimators.mixture_regression import BiDROFLRegressor
from .estimators.one_vs_all import FedOvADROClassifier
from .estimators.private import DPFedDROClassifier
from .estimators.wasserstein import RadiusPath, WassersteinDROClassifier, radius_path

__version__ = "0.1.0.dev0"

__all__ = [
    "AFLClassifier",
    "AFLRegressor",
    "BiDROFLClassifier",
    "BiDROFLRegressor",
    "DPFedDROClassifier",
    "FedDROClassifier",
    "FedOvADROClassifier",
    "RadiusPath",
    "WassersteinDROClassifier",
    "__version__",
    "radius_path",
]
