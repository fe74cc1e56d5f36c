"""Designs that several private classifiers share: a plan for the budget, and the algorithm that keeps to it."""

from ..federation.batches import FullBatch, PoissonBatch
from ..federation.doors import GaussianDoor, pass_through
from ..federation.steps.gradient import GradientDescent, shrinking_step
from ..privacy.accounting import ACCOUNTANTS
from ..privacy.plan import AGGREGATIONS, PlannedRelease, ReleaseKind, gaussian_plan
from ..privacy.sampled_plan import Batches, poisson_plan
from ..privacy.sensitivity import ADJACENCIES, mean_gradient, weighted_gradient_sum
from ..privacy.subsampling import PLD, PoissonSampling
from ._public import Design

__all__ = [
    "budget",
    "check_accountant",
    "check_local",
    "descent_design",
    "plan_of",
    "published_constant",
    "sampled_descent_design",
]


FULL_BATCH = {**ACCOUNTANTS, "auto": ACCOUNTANTS["gdp"]}

# whether records are sampled -> accountants that hold then
HOLDING = {False: ("auto", *ACCOUNTANTS), True: ("auto", PLD.name)}


def check_accountant(estimator, sampled: bool) -> None:
    """ValueError if the estimator's accountant cannot account for its batches."""
    if estimator.accountant not in HOLDING[sampled]:
        raise ValueError(
            f"accountant={estimator.accountant!r} does not hold for sampling_rate={estimator.sampling_rate}; use "
            f"one of {HOLDING[sampled]}."
        )


def budget(estimator) -> dict:
    """Keyword arguments that a full-batch plan takes from an estimator."""
    return {
        "epsilon": estimator.epsilon,
        "delta": estimator.delta,
        "budget": estimator.budget,
        "accountant": FULL_BATCH[estimator.accountant],
    }


def plan_of(estimator, kinds, sensitivity):
    """Full-batch plan under an estimator's budget."""
    return gaussian_plan(
        kinds,
        sensitivity,
        adjacency=ADJACENCIES[estimator.adjacency],
        aggregation=AGGREGATIONS[estimator.aggregation],
        **budget(estimator),
    )


def check_local(estimator) -> None:
    """ValueError for noise on the sum where clients keep duals."""
    if estimator.aggregation != "local":
        raise ValueError(
            'aggregation="trusted" is not possible with variant="paper": its duals would subtract the noise of one '
            'round in the next, and the budget would not hold. Use variant="global" or aggregation="local".'
        )


def _local_gradient(estimator, facts):
    return mean_gradient(estimator.data_norm, facts.n_records, ADJACENCIES[estimator.adjacency])


def _trusted_gradient(estimator, facts):
    return weighted_gradient_sum(estimator.data_norm, facts.alpha, facts.n_records, ADJACENCIES[estimator.adjacency])


# aggregation -> sensitivity of what gets the noise, and the doors at the client and at the server
GRADIENT_RELEASE = {
    "local": (_local_gradient, lambda door: (door, pass_through)),
    "trusted": (_trusted_gradient, lambda door: (pass_through, door)),
}

PUBLISHED_CONSTANT = 3.0  # the steps of the published algorithms have the noise in their formulas


def published_constant(estimator) -> float:
    """Constant of the published step sizes: the one given, or a fixed one with "auto"."""
    return PUBLISHED_CONSTANT if estimator.c_model == "auto" else estimator.c_model


def step_constant(estimator, facts, release: PlannedRelease) -> float:
    """Constant c of the steps c / sqrt(t): the one given or, with "auto", one that shrinks as the noise grows.

    On Poisson samples too the signal is the mean gradient of all records, which the samples estimate without bias,
    and the planned noise is that on the estimate, the factor one over the probability in it.
    """
    if estimator.c_model != "auto":
        return estimator.c_model
    shape = (facts.n_classes, facts.n_columns)
    return shrinking_step(release.sigma_of_sum(facts.alpha), shape, estimator.data_norm)


def _descent(estimator, facts, objective, plan, batch):
    _, doors = GRADIENT_RELEASE[estimator.aggregation]
    at_client, at_server = doors(GaussianDoor(plan.releases["gradient"], facts.noise))
    algorithm = GradientDescent(
        objective=objective,
        n_classes=facts.n_classes,
        alpha=facts.alpha,
        step=step_constant(estimator, facts, plan.releases["gradient"]),
        data_norm=estimator.data_norm,
        at_client=at_client,
        at_server=at_server,
        batch=batch,
    )
    return Design(plan, algorithm)


def descent_design(estimator, facts, objective):
    """Gradient descent at the broadcast model; one release of a gradient a round."""
    sensitivity, _ = GRADIENT_RELEASE[estimator.aggregation]
    kind = ReleaseKind("gradient", estimator.n_rounds)
    plan = plan_of(estimator, [kind], {"gradient": sensitivity(estimator, facts)})
    return _descent(estimator, facts, objective, plan, FullBatch())


def sampled_descent_design(estimator, facts, objective):
    """The same on Poisson samples of the records, whose terms count one over their probability."""
    sensitivity, _ = GRADIENT_RELEASE[estimator.aggregation]
    sampling = PoissonSampling(float(estimator.sampling_rate))
    plan = poisson_plan(
        [ReleaseKind("gradient", estimator.n_rounds)],
        {"gradient": sensitivity(estimator, facts) / sampling.rate},
        [Batches("rounds", sampling, estimator.n_rounds, {"gradient": 1})],
        epsilon=estimator.epsilon,
        delta=estimator.delta,
        adjacency=ADJACENCIES[estimator.adjacency],
        aggregation=AGGREGATIONS[estimator.aggregation],
        budget=estimator.budget,
    )
    return _descent(estimator, facts, objective, plan, PoissonBatch(sampling, facts.noise))
