"""What the divergence benchmarks share: one call from rows to a fitted private model, for each solver by name."""

import warnings

import numpy as np

from skdro.ambiguity.divergence import Capped, CressieRead
from skdro.federation.client_data import prepare
from skdro.federation.divergence_designs import DESIGNS, KL_DESIGNS
from skdro.federation.divergence_settings import Ambiguity, Budget, Descent, Facts, KLBallSettings
from skdro.federation.frames import ClippedFrame
from skdro.federation.in_process import run
from skdro.losses.models import LinearModel, TanhNetwork
from skdro.privacy.accounting import ACCOUNTANTS
from skdro.privacy.ledger import check_ledger
from skdro.privacy.noise import StreamNoise
from skdro.privacy.plan import AGGREGATIONS
from skdro.privacy.sensitivity import ADJACENCIES

DELTA_SHARE = 0.1  # delta = 1 / (10 n)
N_HIDDEN = 16
RIDGE = 1e-4  # that of the classifiers
TABLE = {**DESIGNS, **{f"kl {name}": design for name, design in KL_DESIGNS.items()}}
CHI2 = Ambiguity(Capped(CressieRead(2.0), 10.0), penalty=1.0)
KL_BALL = KLBallSettings(radius=0.5)


def model_of(kind, n_columns):
    """Linear or with a hidden layer, binary, with intercept."""
    if kind == "linear":
        return LinearModel(2, n_columns, True)
    return TanhNetwork(2, n_columns, N_HIDDEN, True)


def public_frame(n_features):
    """Rows in [0, 1] as they are, clipped to norm one with the constant."""
    return ClippedFrame.as_given(n_features, True, 1.0)


def fit_parameters(X, y, solver, epsilon, delta, seed, kind="linear", **descent):
    """Frame, model and parameters of a private fit."""
    frame = public_frame(X.shape[1])
    model = model_of(kind, X.shape[1] + 1)
    block = prepare(X, y, np.zeros(len(X), dtype=int), np.zeros(1), frame)
    budget = Budget(epsilon, delta, ADJACENCIES["replace_one"], AGGREGATIONS["trusted"], ACCOUNTANTS["gdp"])
    facts = Facts(model, 2, model.start(np.random.default_rng(seed)), block.sizes, np.ones(1), StreamNoise(seed))
    steps = Descent(ridge=RIDGE, **descent)
    design = TABLE[solver](budget, steps, KL_BALL if solver.startswith("kl") else CHI2, facts)
    algorithm = design.algorithm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = run(algorithm, block, (model.n_parameters,), steps.n_rounds, exchanges=algorithm.exchanges)
    check_ledger(design.plan, algorithm.ledger(result.server, result.states))
    return frame, model, result.server.model


def fit_model(*args, **kwargs):
    """Function from rows to logits of the positive class."""
    frame, model, parameters = fit_parameters(*args, **kwargs)

    def logits(X):
        scores = model.scores(parameters, frame.enter(X))
        return scores[:, 1] - scores[:, 0]

    return logits


def gradient_norm(worst_case, model, parameters, records):
    """Norm of the gradient of the worst-case (or mean) loss of `records`; not private, for the table only."""
    evaluation = model.evaluate(parameters, records)
    return float(np.linalg.norm(evaluation.gradient_sum(worst_case(evaluation.losses)) / len(records.y)))
