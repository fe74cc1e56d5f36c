"""scikit-learn's own checks over every estimator, and the conventions of the house that need no data."""

import inspect
from importlib.util import find_spec

import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.utils.estimator_checks import check_estimator

import skdro
from skdro import (
    AFLClassifier,
    AFLRegressor,
    BiDROFLClassifier,
    BiDROFLRegressor,
    DPFedDROClassifier,
    DPFedERMClassifier,
    DPFedSGDClassifier,
    DPMomentDROClassifier,
    DPMomentDRORegressor,
    DROSpiderClassifier,
    FedDROClassifier,
    FedOvADROClassifier,
    KLDROSpiderClassifier,
    WassersteinDROClassifier,
)

ESTIMATORS = [
    FedDROClassifier(),
    FedDROClassifier(norm="l2"),
    FedDROClassifier(norm="l1"),
    FedDROClassifier(solver="conic", tol=0.05, n_rounds=20),
    WassersteinDROClassifier(),
    WassersteinDROClassifier(norm="l2", fit_intercept=False),
    WassersteinDROClassifier(norm="l1", kappa=float("inf")),
    FedOvADROClassifier(),
    DPFedDROClassifier(),
    DPFedDROClassifier(aggregation="trusted"),
    DPFedDROClassifier(c_model=3.0),
    DPFedDROClassifier(variant="paper"),
    DPFedDROClassifier(variant="paper", kappa=float("inf"), adjacency="zero_out"),
    DPFedERMClassifier(),
    DPFedERMClassifier(aggregation="trusted", accountant="moments"),
    DPFedERMClassifier(variant="paper", schedule="constant"),
    DPFedSGDClassifier(),
    *([DPFedSGDClassifier(sampling_rate=0.5, aggregation="trusted")] if find_spec("dp_accounting") else []),
    BiDROFLRegressor(),
    BiDROFLRegressor(penalty=10.0, solver="descent_ascent", n_rounds=100, n_inner_steps=5, random_state=0),
    BiDROFLClassifier(),
    BiDROFLClassifier(solver="bundle"),
    BiDROFLClassifier(solver="descent_ascent", n_rounds=100),
    BiDROFLClassifier(loss="softmax", penalty=10.0, n_rounds=100, n_inner_steps=5, random_state=0),
    AFLRegressor(),
    AFLRegressor(solver="descent_ascent", n_rounds=100),
    AFLClassifier(),
    AFLClassifier(solver="descent_ascent", n_rounds=100),
    DROSpiderClassifier(),
    DROSpiderClassifier(divergence="tv"),
    DROSpiderClassifier(divergence="kl_cvar", hidden_layer_sizes=(3,)),
    DROSpiderClassifier(epsilon=1.0),
    DROSpiderClassifier(epsilon=1.0, solver="dpsgda", adjacency="zero_out"),
    DROSpiderClassifier(epsilon=10.0, solver="double_spider", n_rounds=20, step_size=0.1, aggregation="trusted"),
    DROSpiderClassifier(epsilon=10.0, solver="storm"),
    DROSpiderClassifier(epsilon=10.0, solver="privatediff", n_rounds=20, step_size=0.1),
    DROSpiderClassifier(epsilon=3.0, solver="erm", hidden_layer_sizes=(3,)),
    *([DROSpiderClassifier(epsilon=3.0, sampling_rate=0.5)] if find_spec("dp_accounting") else []),
    KLDROSpiderClassifier(),
    KLDROSpiderClassifier(solver="scdro", sampling_rate=0.5, temperature_step_size=0.02),
    KLDROSpiderClassifier(epsilon=5.0),
    KLDROSpiderClassifier(epsilon=10.0, solver="recursive_spider", n_rounds=20, step_size=0.1),
    DPMomentDROClassifier(),
    DPMomentDROClassifier(aggregation="trusted", tune=True),
    DPMomentDROClassifier(mixture="simplex", radius=0.01),
    DPMomentDROClassifier(feature_map=RBFSampler(n_components=20, random_state=0), adjacency="zero_out"),
    DPMomentDRORegressor(),
    DPMomentDRORegressor(aggregation="trusted", tune=True, target_bounds=(-3.0, 3.0)),
    DPMomentDRORegressor(mixture_radius=0.5, target_bounds=(-3.0, 3.0)),
]

# checks that scikit-learn skips by itself, with the reason
SKIPPED = {"check_array_api_input"}  # needs SCIPY_ARRAY_API=1; X is converted to numpy


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
# the checks know no groups, seed the noise and declare no classes
@pytest.mark.filterwarnings("ignore::skdro.exceptions.SingleClientWarning")
@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
# some checks draw labels that have nothing to do with X, of which no model can make anything
@pytest.mark.filterwarnings("ignore::skdro.exceptions.ConstantModelWarning")
# two of them (ten or fewer rows, the optimum not unique) take more rounds than the default; none asks for accuracy
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# the checks seed the noise and know no public classes
@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
# nor public bounds of the targets
@pytest.mark.filterwarnings("ignore:target_bounds was not given:sklearn.exceptions.DataConversionWarning")
def test_scikit_learn_checks(estimator):
    results = check_estimator(estimator, legacy=True, on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] not in ("passed", "skipped")}
    assert failed == {}
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= SKIPPED
    assert len(results) > 50  # the whole suite ran


CLASSES = [c for c in vars(skdro).values() if inspect.isclass(c) and issubclass(c, BaseEstimator)]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_public_estimator_is_checked(cls):
    assert cls in {type(estimator) for estimator in ESTIMATORS}


@pytest.mark.parametrize("cls", CLASSES)
def test_every_parameter_has_an_immutable_default_and_is_documented(cls):
    for name, parameter in inspect.signature(cls).parameters.items():
        assert parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        assert isinstance(parameter.default, (str, bool, int, float, tuple, type(None))), name
        assert f"    {name} : " in cls.__doc__, name
        assert name in cls._parameter_constraints, name


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore::skdro.exceptions.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # three rounds fill all attributes
@pytest.mark.filterwarnings("ignore:target_bounds was not given:sklearn.exceptions.DataConversionWarning")
def test_fitted_attributes_are_documented(estimator, federation):
    X, y, groups = federation
    parameters = estimator.get_params()
    federated = "groups" in inspect.signature(estimator.fit).parameters
    rounds = "n_rounds" in parameters and parameters.get("epsilon", 1.0) is not None  # the exact fits have none
    model = clone(estimator).set_params(**({"n_rounds": 3} if rounds else {}))
    model.fit(X, y, **({"groups": groups} if federated else {}))
    fitted = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    assert ({"clients_", "n_iter_"} if federated else {"dual_gap_"}) <= set(fitted)
    assert ("coef_" in fitted) == (not parameters.get("hidden_layer_sizes"))
    assert ("history_" in fitted) == (rounds or type(estimator) is WassersteinDROClassifier)
    for name in fitted:
        assert f"    {name} : " in type(estimator).__doc__, name


@pytest.mark.parametrize("cls", CLASSES)
def test_notebooks_show_every_parameter(cls):
    html = cls()._repr_html_()
    assert f"<div>{cls.__name__}</div>" in html
    for name in inspect.signature(cls).parameters:
        assert f'<td class="param">{name}</td>' in html, name
