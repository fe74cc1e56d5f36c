"""From public numbers to a planned private fit: what each divergence solver releases, and the algorithm that does it.

How an estimator uses this, after it has validated its parameters and before it looks at a record:

    budget, descent = Budget(...), Descent(...)                      from `divergence_settings`
    (with batches=PoissonBatches(p1, p2) from `divergence_batches`, iterations see samples)
    problem  = Ambiguity(...) for DESIGNS, KLBallSettings(...) for KL_DESIGNS
    facts    = Facts(model, n_classes, start, n_records, alpha, noise)
    design   = DESIGNS[solver](budget, descent, problem, facts)      ValueError for a budget that means nothing
    result   = in_process.run(design.algorithm, block, (model.n_parameters,), descent.n_rounds, n_jobs,
                              exchanges=design.algorithm.exchanges, monitor=...)
    check_ledger(design.plan, design.algorithm.ledger(result.server, result.states), stopped=...)

`block` is a `ClientBlock` of clipped rows, constant column included, without sample weights; of its settings nothing
is read.  `result.server.model` are the parameters, as `model.scores(parameters, X)` takes them; `result.history` has
one entry an iteration, functions of the releases only; `design.caution` is None or a text to warn with.

The noise multipliers follow from the list of releases alone.  With z for sums of gradients afresh, those of changes
get r z, those of weights kappa z and kappa r z (`difference_noise_ratio`, `eta_noise_ratio`), so that a full-batch
fit with `a` means of weights beside the mean of gradients costs

    mu^2 = (1 + a / kappa^2) (n_ref + n_dif / r^2) / z^2.

On samples all releases of an iteration share one, so that the accountant gets n_ref rounds with the multiplier
z / sqrt(1 + a / kappa^2) and n_dif with r times that, whatever the solver takes afresh beside changes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, log
from typing import Any

from ..privacy.plan import PrivacyPlan
from .divergence_plan import (
    exponential_means,
    feedback_caution,
    gradient_mean,
    noise_feedback,
    planned,
    step_size,
    weight_mean,
)
from .divergence_settings import Ambiguity, Budget, Descent, Facts, KLBallSettings
from .steps.dual_weights import DualWeights
from .steps.iterates import ModelStep
from .steps.recursive import RecursiveDescent
from .steps.reweighted import ReweightedDescent
from .steps.tracking import Spider, Storm
from .steps.weighting import EqualWeights, Weighting

__all__ = ["DESIGNS", "KL_DESIGNS", "Design"]

ALWAYS_AFRESH = Spider(1)


@dataclass(frozen=True)
class Design:
    """A plan, the algorithm that keeps to it, and a caution to warn with (None if there is none)."""

    plan: PrivacyPlan
    algorithm: Any
    caution: str | None = None


def _plain_step(plan, descent, facts):
    """Heavy ball and the average of the last half, where each iteration sums all afresh."""
    size = step_size(plan, descent, facts)
    return ModelStep(size, descent.momentum, _ridge(descent, facts), ceil(descent.n_rounds / 2))


def _changing_step(plan, descent, facts):
    """Plain steps and the last iterate, where estimates follow the iterates."""
    return ModelStep(step_size(plan, descent, facts), 0.0, _ridge(descent, facts), descent.n_rounds - 1)


def _ridge(descent, facts):
    return descent.ridge * facts.model.penalised()


def _reweighted(weights_rule, gradients_rule, step, budget, descent, problem, facts, n_shift_steps=1):
    """Design of a descent on (x, eta) that follows both means by these rules."""
    weights = weight_mean(weights_rule, descent.n_rounds * n_shift_steps, problem, budget)
    plan, tracked = planned([weights, gradient_mean(gradients_rule, descent, budget)], descent, budget, facts)
    algorithm = ReweightedDescent(
        weighting=Weighting(problem.divergence, problem.penalty),
        weights=tracked["weight"],
        gradients=tracked["gradient"],
        step=step(plan, descent, facts),
        n_shift_steps=n_shift_steps,
        **_common(budget, descent, facts, gradients_rule),
        **_shift(problem, facts),
        shift_scale=problem.shift_scale,
    )
    return Design(plan, algorithm)


def _common(budget, descent, facts, rule=ALWAYS_AFRESH):
    return {
        "model": facts.model,
        "alpha": facts.alpha,
        "start": facts.start,
        "clip_norm": descent.clip_norm,
        "batch": budget.batches.batch(rule, facts.noise),
    }


def _shift(problem, facts):
    """At zero scores every record loses log K."""
    return {
        "shift_step": problem.shift_step,
        "shift_start": min(log(facts.n_classes), problem.shift_max),
        "shift_max": problem.shift_max,
    }


def _cautious(designed, descent, facts):
    """The design for `descent`, with a caution if its noise feeds back."""

    def of_fit(figure, n_rounds):
        shorter = replace(descent, n_rounds=n_rounds)
        return figure(designed(shorter).plan, shorter, facts)

    caution = feedback_caution(partial(of_fit, noise_feedback), partial(of_fit, step_size), descent.n_rounds)
    return replace(designed(descent), caution=caution)


def dpgd(budget: Budget, descent: Descent, problem: Ambiguity, facts: Facts) -> Design:
    """Plain private descent on (x, eta)."""
    return _reweighted(ALWAYS_AFRESH, ALWAYS_AFRESH, _plain_step, budget, descent, problem, facts)


def double_spider(budget: Budget, descent: Descent, problem: Ambiguity, facts: Facts) -> Design:
    """Double-SPIDER: both means afresh every q-th iteration, by changes in between."""
    rule = Spider(descent.refresh_every)

    def designed(descent):
        return _reweighted(rule, rule, _changing_step, budget, descent, problem, facts)

    return _cautious(designed, descent, facts)


def storm(budget: Budget, descent: Descent, problem: Ambiguity, facts: Facts) -> Design:
    """Both means by STORM."""
    rule = Storm(descent.mixing)
    return _reweighted(rule, rule, _changing_step, budget, descent, problem, facts)


def privatediff(budget: Budget, descent: Descent, problem: Ambiguity, facts: Facts) -> Design:
    """Several steps of eta, all afresh, for each step of the model by SPIDER."""
    rules = ALWAYS_AFRESH, Spider(descent.refresh_every)

    def designed(descent):
        return _reweighted(*rules, _changing_step, budget, descent, problem, facts, problem.n_shift_steps)

    return _cautious(designed, descent, facts)


def dpsgda(budget: Budget, descent: Descent, problem: Ambiguity, facts: Facts) -> Design:
    """Descent in (x, eta), ascent in a weight of each record's own."""
    means = [
        weight_mean(ALWAYS_AFRESH, descent.n_rounds, problem, budget),
        gradient_mean(ALWAYS_AFRESH, descent, budget),
    ]
    plan, tracked = planned(means, descent, budget, facts)
    algorithm = DualWeights(
        weighting=Weighting(problem.divergence, problem.penalty),
        weights=tracked["weight"],
        gradients=tracked["gradient"],
        step=_plain_step(plan, descent, facts),
        dual_step=problem.dual_step,
        **_common(budget, descent, facts),
        **_shift(problem, facts),
    )
    return Design(plan, algorithm)


def erm(budget: Budget, descent: Descent, problem: Ambiguity, facts: Facts) -> Design:
    """Plain private descent on the mean loss, whatever the problem: the baseline."""
    plan, tracked = planned([gradient_mean(ALWAYS_AFRESH, descent, budget)], descent, budget, facts)
    algorithm = ReweightedDescent(
        weighting=EqualWeights(),
        weights=tracked["gradient"],
        gradients=tracked["gradient"],
        step=_plain_step(plan, descent, facts),
        n_shift_steps=0,
        shift_step=0.0,
        shift_start=0.0,
        shift_max=0.0,
        shift_scale=0.0,
        **_common(budget, descent, facts),
    )
    return Design(plan, algorithm)


def _recursive(rule, step, budget, descent, problem, facts):
    """Design of a descent on (x, lam) that follows all three means by this rule."""
    means = [*exponential_means(rule, descent.n_rounds, problem, budget), gradient_mean(rule, descent, budget)]
    plan, tracked = planned(means, descent, budget, facts)
    algorithm = RecursiveDescent(
        radius=problem.radius,
        max_weight=problem.max_weight,
        tracked=tracked,
        step=step(plan, descent, facts),
        temperature_step=problem.temperature_step,
        temperatures=problem.temperatures,
        temperature_start=problem.temperature_start,
        shift_start=log(facts.n_classes),
        **_common(budget, descent, facts, rule),
    )
    return Design(plan, algorithm)


def recursive_spider(budget: Budget, descent: Descent, problem: KLBallSettings, facts: Facts) -> Design:
    """Recursive-SPIDER."""
    rule = Spider(descent.refresh_every)

    def designed(descent):
        return _recursive(rule, _changing_step, budget, descent, problem, facts)

    return _cautious(designed, descent, facts)


def kl_dpgd(budget: Budget, descent: Descent, problem: KLBallSettings, facts: Facts) -> Design:
    """Plain private descent on (x, lam)."""
    return _recursive(ALWAYS_AFRESH, _plain_step, budget, descent, problem, facts)


DESIGNS: dict[str, Callable[[Budget, Descent, Ambiguity, Facts], Design]] = {
    "dpgd": dpgd,
    "dpsgda": dpsgda,
    "storm": storm,
    "double_spider": double_spider,
    "privatediff": privatediff,
    "erm": erm,
}
"""Solvers of the penalised problem, and the baseline without ambiguity."""

KL_DESIGNS: dict[str, Callable[[Budget, Descent, KLBallSettings, Facts], Design]] = {
    "dpgd": kl_dpgd,
    "recursive_spider": recursive_spider,
}
"""Solvers of the problem with a Kullback-Leibler ball."""
