"""Distributionally robust, federated and differentially private estimators for scikit-learn."""

from .estimators.agnostic import AFLClassifier, AFLRegressor
from .estimators.divergence import DROSpiderClassifier
from .estimators.divergence_kl import KLDROSpiderClassifier
from .estimators.federated import FedDROClassifier
from .estimators.mixture_classification import BiDROFLClassifier
from .estimators.mixture_regression import BiDROFLRegressor
from .estimators.moments import DPMomentDROClassifier
from .estimators.moments_regressor import DPMomentDRORegressor
from .estimators.noise_plan import NoisePlan, plan_noise
from .estimators.one_vs_all import FedOvADROClassifier
from .estimators.private import DPFedDROClassifier
from .estimators.private_erm import DPFedERMClassifier
from .estimators.private_sgd import DPFedSGDClassifier
from .estimators.wasserstein import RadiusPath, WassersteinDROClassifier, radius_path

__version__ = "0.1.0.dev0"

__all__ = [
    "AFLClassifier",
    "AFLRegressor",
    "BiDROFLClassifier",
    "BiDROFLRegressor",
    "DPFedDROClassifier",
    "DPFedERMClassifier",
    "DPFedSGDClassifier",
    "DPMomentDROClassifier",
    "DPMomentDRORegressor",
    "DROSpiderClassifier",
    "FedDROClassifier",
    "FedOvADROClassifier",
    "KLDROSpiderClassifier",
    "NoisePlan",
    "RadiusPath",
    "WassersteinDROClassifier",
    "__version__",
    "plan_noise",
    "radius_path",
]
