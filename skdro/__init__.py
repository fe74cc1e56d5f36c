"""Distributionally robust, federated and differentially private estimators for scikit-learn."""

from .estimators.federated import FedDROClassifier
from .estimators.moments import DPMomentDROClassifier
from .estimators.moments_regressor import DPMomentDRORegressor
from .estimators.one_vs_all import FedOvADROClassifier
from .estimators.private import DPFedDROClassifier
from .estimators.wasserstein import RadiusPath, WassersteinDROClassifier, radius_path

__version__ = "0.1.0.dev0"

__all__ = [
    "DPFedDROClassifier",
    "DPMomentDROClassifier",
    "DPMomentDRORegressor",
    "FedDROClassifier",
    "FedOvADROClassifier",
    "RadiusPath",
    "WassersteinDROClassifier",
    "__version__",
    "radius_path",
]
