"""The means that a private divergence fit follows, the plan of their releases, and the doors that keep to it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import e, hypot, log, sqrt

from ..privacy.plan import PrivacyPlan, ReleaseKind
from ..privacy.reweighting_sensitivity import clipped_sum
from .divergence_batches import Iterations
from .divergence_settings import Ambiguity, Budget, Descent, Facts, KLBallSettings
from .doors import GaussianDoor, pass_through
from .steps.tracking import Doors, Rule, Tracked

__all__ = [
    "Mean",
    "exponential_means",
    "feedback_caution",
    "gradient_mean",
    "noise_feedback",
    "planned",
    "step_size",
    "weight_mean",
]

FEEDBACK_LIMIT = 0.3
"""Above this value of `noise_feedback` the noise of a change raises the clip of the next, and so on."""

# aggregation -> how much a record's term weighs in what gets the noise, and who adds it: client, server
ENDS = {
    "local": (lambda facts: 1.0 / facts.n_records, lambda noisy, exact: (noisy, exact)),
    "trusted": (lambda facts: facts.alpha / facts.n_records, lambda noisy, exact: (exact, noisy)),
}


@dataclass(frozen=True)
class Mean:
    """A mean that a solver wants to follow, before its noise is known.

    Parameters
    ----------
    name : str
        Of its releases afresh; those of changes are called "<name> change".
    rule : Rule
    count : int
        How often it is released.
    ratio : float
        Its noise multiplier over z.
    bound, widest, slope, sensitivity, unit_sensitivity : float
        As in `Tracked`.
    """

    name: str
    rule: Rule
    count: int
    ratio: float
    bound: float
    widest: float
    slope: float
    sensitivity: float
    unit_sensitivity: float

    @property
    def n_afresh(self) -> int:
        """How many of its releases hold no change."""
        return sum(self.rule.mix(t).changed == 0.0 for t in range(self.count))

    def kind(self, t: int) -> str:
        """Name of what iteration t releases."""
        return _changed(self.name) if self.rule.mix(t).changed else self.name


def _of_numbers(name, rule, count, problem, bound, sensitivity, widest, slope, budget):
    unit = clipped_sum(1.0, budget.adjacency)
    return Mean(name, rule, count, problem.eta_noise_ratio, bound, widest, slope, sensitivity, unit)


def weight_mean(rule: Rule, count: int, problem: Ambiguity, budget: Budget) -> Mean:
    """Of the weights, in [0, S0]."""
    S0 = problem.divergence.max_weight
    sensitivity = budget.batches.capped_sum(S0, budget.adjacency)
    return _of_numbers("weight", rule, count, problem, S0, sensitivity, S0, problem.weight_slope, budget)


def exponential_means(rule: Rule, count: int, problem: KLBallSettings, budget: Budget) -> list[Mean]:
    """Of the exponentials in [0, S0], and of their entropies."""
    S0, slope = problem.max_weight, problem.weight_slope
    H0 = max(1.0 / e, S0 * log(S0))
    capped = budget.batches.capped_sum(S0, budget.adjacency)
    entropy = budget.batches.entropy_sum(S0, budget.adjacency)
    return [
        _of_numbers("exponential", rule, count, problem, S0, capped, S0, slope, budget),
        _of_numbers("entropy", rule, count, problem, H0, entropy, 2.0 * H0, 2.0 * slope, budget),
    ]


def gradient_mean(rule: Rule, descent: Descent, budget: Budget) -> Mean:
    """Of the clipped gradients."""
    C, unit = descent.clip_norm, clipped_sum(1.0, budget.adjacency)
    return Mean("gradient", rule, descent.n_rounds, 1.0, C, 2.0 * C, descent.difference_slope, C * unit, unit)


def _changed(name):
    return f"{name} change"


def planned(
    means: Sequence[Mean], descent: Descent, budget: Budget, facts: Facts
) -> tuple[PrivacyPlan, dict[str, Tracked]]:
    """The plan of these means, and each of them by name with the doors that keep to it.

    Raises
    ------
    ValueError
        If the budget is out of range, or a release would see batches of two rates.
    ImportError
        If samples are asked for and their accountant is not installed.
    """
    weigh, _ = ENDS[budget.aggregation.name]
    unit, sensitivity, releases = weigh(facts), {}, []
    for mean in means:
        n_changed = mean.count - mean.n_afresh
        sensitivity[mean.name] = unit * mean.sensitivity / budget.batches.afresh
        releases.append((mean.name, mean.n_afresh, mean.ratio, False))
        if n_changed:
            name = _changed(mean.name)
            sensitivity[name] = unit / budget.batches.changed
            releases.append((name, n_changed, mean.ratio * descent.difference_noise_ratio, True))
    total = sum(ratio**-2 for _, _, ratio, _ in releases)
    kinds = [ReleaseKind(name, count, ratio**-2 / total, relative) for name, count, ratio, relative in releases]
    iterations = _iterations(means, descent.n_rounds)
    _check_rates(iterations, means, budget.batches)
    plan = budget.batches.plan(kinds, sensitivity, iterations, budget)
    doors = {name: GaussianDoor(planned, facts.noise) for name, planned in plan.releases.items()}
    return plan, {mean.name: _tracked(mean, doors, budget.aggregation) for mean in means}


def _iterations(means, n_rounds):
    """The iterations by what they release."""
    each = Counter(tuple((mean.kind(t), mean.count // n_rounds) for mean in means) for t in range(n_rounds))
    fresh = {mean.name for mean in means}
    return [
        Iterations(not fresh.issuperset(dict(releases)), count, dict(releases)) for releases, count in each.items()
    ]


def _check_rates(iterations, means, batches):
    """A kind of release has one sensitivity, and so batches of one rate."""
    mixed = any(each.changing and mean.name in each.releases for each in iterations for mean in means)
    if mixed and batches.afresh != batches.changed:
        raise ValueError(
            "sampling_rate must be a single number for a solver that sums weights afresh beside changes of gradients."
        )


def _tracked(mean, doors, aggregation):
    noisy = Doors(doors[mean.name], doors.get(_changed(mean.name), _unplanned))
    _, place = ENDS[aggregation.name]
    at_client, at_server = place(noisy, Doors(pass_through, pass_through))
    return Tracked(
        mean.rule, mean.bound, mean.widest, mean.slope, mean.sensitivity, mean.unit_sensitivity, at_client, at_server
    )


def step_size(plan: PrivacyPlan, descent: Descent, facts: Facts) -> float:
    """Step of the model, shorter where the public noise is large:  step / sqrt(1 + (noise / knee)^2).

    `noise` is the norm of what is left of the noise in the mean of all T gradients, sigma sqrt(d / T), in units of
    the clip norm.  A way of given length picks up T step times that, in however many steps it is gone.

    Parameters
    ----------
    plan : PrivacyPlan
    descent : Descent
    facts : Facts

    Returns
    -------
    float
    """
    noise = plan.releases["gradient"].sigma_of_sum(facts.alpha) * sqrt(facts.model.n_parameters / descent.n_rounds)
    return descent.step / hypot(1.0, noise / (descent.clip_norm * descent.knee))


def noise_feedback(plan: PrivacyPlan, descent: Descent, facts: Facts) -> float:
    """Growth of the noise of changed gradients between two refreshes,  g sqrt(q).

    The clip of a change is C1 lr ||v||, and the noise of the change before it is in v: of norm about
    r z Delta sqrt(d), so that the clip grows by g = r z Delta C1 lr sqrt(d) of itself from one change to the next.

    Parameters
    ----------
    plan : PrivacyPlan
    descent : Descent
    facts : Facts

    Returns
    -------
    float
        Zero if there are no changes.
    """
    planned = plan.releases.get(_changed("gradient"))
    if planned is None:
        return 0.0
    sigma = planned.sigma_of_sum(facts.alpha) * clipped_sum(1.0, plan.adjacency)
    per_step = descent.difference_slope * step_size(plan, descent, facts) * sqrt(facts.model.n_parameters) * sigma
    return per_step * sqrt(descent.refresh_every)


def feedback_caution(growth: Callable[[int], float], step: Callable[[int], float], n_rounds: int) -> str | None:
    """What to warn with if the noise feeds back, and the number of iterations that would cure it.

    Parameters
    ----------
    growth : callable
        `noise_feedback` of the fit with this many iterations; increasing.
    step : callable
        `step_size` of that fit.
    n_rounds : int
        As asked for.

    Returns
    -------
    str or None
    """
    if growth(n_rounds) <= FEEDBACK_LIMIT:
        return None
    sound, unsound = 1, n_rounds  # a single iteration has no change
    while unsound - sound > 1:
        middle = (sound + unsound) // 2
        sound, unsound = (middle, unsound) if growth(middle) <= FEEDBACK_LIMIT else (sound, middle)
    # an automatic step would grow as the iterations become fewer: the cure names the step that it holds for
    cure = f"n_rounds={sound} with step_size={step(sound):.6g} keeps it below"
    if sound == 1:
        cure = "no number of iterations keeps it below with these steps"
    return (
        "The noise of the changed gradients feeds back through their clip: it grows by the factor "
        f"{growth(n_rounds):.2g} between two refreshes, where {FEEDBACK_LIMIT:g} is the limit; {cure}. "
        'Smaller steps, a smaller difference slope, a larger epsilon, or solver="dpgd" help as well.'
    )


def _unplanned(*args, **kwargs):
    raise RuntimeError("A release of changes was not planned.")
