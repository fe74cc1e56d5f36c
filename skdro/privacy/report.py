"""What a private fit may claim: the `privacy_` attribute of an estimator.

The report holds plain numbers and words only, so it can be pickled, written as JSON, and checked by somebody
who has nothing else: `PrivacyReport.rederive_epsilon` recomputes epsilon from the listed events.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from .accounting import ACCOUNTANTS, Accountant
from .noise import NoiseSource
from .plan import PrivacyPlan
from .subsampling import PLD, SubsampledAccountant
from .words import html_table, sentence

__all__ = ["ClientGuarantee", "Event", "PrivacyReport", "privacy_report"]

BY_NAME: dict[str, Accountant | SubsampledAccountant] = {**ACCOUNTANTS, PLD.name: PLD}


@dataclass(frozen=True)
class Event:
    """`count` equal releases that the records of one client are exposed to.

    Parameters
    ----------
    type : str
        "gaussian", or "poisson_gaussian" if records take part by a coin.
    q : float
        Probability with which a record takes part; 1 for the full batch.
    sensitivity : float
        How far one record of this client, if it takes part, moves the release, in l2.
    sigma : float
        Standard deviation of the noise on it.
    count : int
    name : str
        Kind of release.
    client : object
        Label of the client.
    relative : bool
        Sensitivity and sigma are those for a unit of a public number that each round determines, such as its clip;
        their ratio, which is what counts, was fixed beforehand.
    batch : str
        Events of a client with the same name see the same samples: they compose within a batch before the batches
        do.  Empty for the full batch.
    n_batches : int
        Over how many samples the `count` releases are spread; 0 for the full batch.
    """

    type: str
    q: float
    sensitivity: float
    sigma: float
    count: int
    name: str
    client: Hashable
    relative: bool = False
    batch: str = ""
    n_batches: int = 0


@dataclass(frozen=True)
class ClientGuarantee:
    """Gaussian-DP parameter of one client's records (None if sampled), and its epsilon at the report's delta."""

    mu: float | None
    epsilon: float


@dataclass(frozen=True, repr=False)
class PrivacyReport:
    """The guarantee of one private fit, with what it rests on.

    Parameters
    ----------
    unit : str
        What is protected: "record".  A person with rows at several clients is not covered by `epsilon`: the
        mu^2 of these clients add.
    adjacency : str
        "replace_one" or "zero_out".
    trust : str
        Who has to be trusted, in words.
    epsilon : float or None
        Total epsilon of the fit at `delta`, the largest over clients; None if the fit is not private.
    nominal_epsilon : float or None
        The same number if the fit is not private, otherwise None: it is what the releases would cost if
        nothing else were known.
    delta : float
    mu : float or None
        Gaussian-DP parameter, the largest over clients; None for Poisson-sampled releases, which have a privacy
        loss distribution instead.
    per_client : dict of ClientGuarantee
        By client label.  Nominal as well if the fit is not private.
    events : tuple of Event
        Every release charged, including those that an early stop left out.
    accountant, accountant_version : str
    public : tuple of str
        Inputs that were declared public and that the guarantee takes as such.
    assumes : list of str
        Inputs that were read from the data although the guarantee takes them as public.
    noise : str
        Source of the noise, in words.
    why_not_private : tuple of str
        Reasons why nothing can be claimed; empty for a private fit.
    """

    unit: str
    adjacency: str
    trust: str
    epsilon: float | None
    nominal_epsilon: float | None
    delta: float
    mu: float | None
    per_client: dict[Hashable, ClientGuarantee]
    events: tuple[Event, ...]
    accountant: str
    accountant_version: str
    public: tuple[str, ...]
    assumes: list[str]
    noise: str
    why_not_private: tuple[str, ...]

    @property
    def private(self) -> bool:
        """Whether the fit may claim `epsilon`."""
        return not self.why_not_private

    def rederive_epsilon(self) -> float:
        """Epsilon recomputed from `events` and `delta` alone: the largest over clients.

        Returns
        -------
        epsilon : float
        """
        by_client = defaultdict(list)
        for event in self.events:
            by_client[event.client].append(event)
        return BY_NAME[self.accountant].largest_epsilon(by_client.values(), self.delta, self.adjacency)

    def to_dict(self) -> dict:
        """All fields and `private` as plain types that `json.dumps` takes; `per_client` becomes a list.

        Returns
        -------
        fields : dict
        """
        fields = asdict(self)
        fields["private"] = self.private
        fields["events"] = list(fields["events"])
        fields["public"], fields["why_not_private"] = list(self.public), list(self.why_not_private)
        fields["per_client"] = [
            {"client": client, "mu": guarantee.mu, "epsilon": guarantee.epsilon}
            for client, guarantee in self.per_client.items()
        ]
        return fields

    def in_words(self) -> str:
        """The guarantee in a sentence, for people who have not read the table.

        Returns
        -------
        sentence : str
        """
        return sentence(self)

    def _repr_html_(self):
        return html_table(self.in_words(), repr(self))

    def __repr__(self):
        words = BY_NAME[self.accountant].words + ("" if self.mu is None else f", mu = {self.mu:.4g}")
        lines = [
            _headline(self),
            f"  trusted     : {self.trust}",
            f"  releases    : {_releases(self.events)}",
            f"  accountant  : {words} ({self.accountant}, version {self.accountant_version})",
            f"  clients     : {_clients(self.per_client)}",
            f"  noise       : {self.noise}",
            f"  public      : {', '.join(self.public) or 'nothing'}",
        ]
        if self.assumes:
            lines.append(f"  read from the data although assumed public: {', '.join(self.assumes)}")
        return "\n".join(lines)


def _headline(report):
    pair = f"(epsilon, delta) = ({report.epsilon or report.nominal_epsilon or 0.0:.6g}, {report.delta:g})"
    unit = f"one {report.unit}, {report.adjacency.replace('_', '-')}"
    if report.private:
        return f"PrivacyReport: {pair} for {unit}"
    return f"PrivacyReport: NOT PRIVATE ({'; '.join(report.why_not_private)}), nominal {pair} for {unit}"


def _releases(events):
    kinds = defaultdict(list)
    for event in events:
        kinds[event.name, event.batch].append(event)
    return "; ".join(
        f"{max(e.count for e in group)} x {name!r} with Gaussian noise of at least "
        f"{min(e.sigma / e.sensitivity for e in group if e.sensitivity > 0):.4g} times the sensitivity"
        + (" (relative to the round's public clip)" if group[0].relative else "")
        + (f", each record in with probability {group[0].q:g}" if group[0].q < 1 else "")
        + (f" (batches {group[0].batch!r})" if group[0].batch else "")
        for (name, _), group in kinds.items()
    )


def _clients(per_client):
    if len(per_client) == 1:
        return "1"
    epsilons = [guarantee.epsilon for guarantee in per_client.values()]
    return f"{len(per_client)}, disjoint; epsilon from {min(epsilons):.4g} to {max(epsilons):.4g}"


def privacy_report(
    plan: PrivacyPlan,
    *,
    clients: Sequence[Hashable],
    noise: NoiseSource,
    public: Sequence[str],
    assumes: Sequence[str] = (),
    why_not_private: Sequence[str] = (),
) -> PrivacyReport:
    """Report of a fit that kept to `plan`; the plan is charged in full, stopped early or not.

    Parameters
    ----------
    plan : PrivacyPlan
    clients : sequence of shape (n_clients,)
        Client labels, in the order of the plan's arrays.
    noise : NoiseSource
        A seeded source makes the fit not private.
    public, assumes : sequence of str
        See `PrivacyReport`.
    why_not_private : sequence of str
        Reasons beside a seeded source, such as diagnostics on the private data.

    Returns
    -------
    report : PrivacyReport

    Examples
    --------
    >>> import numpy as np
    >>> from skdro.privacy.noise import OSNoise
    >>> from skdro.privacy.plan import AGGREGATIONS, ReleaseKind, gaussian_plan
    >>> from skdro.privacy.sensitivity import ADJACENCIES, mean_gradient
    >>> adjacency = ADJACENCIES["replace_one"]
    >>> plan = gaussian_plan(
    ...     [ReleaseKind("gradient", 50)], {"gradient": mean_gradient(1.0, np.array([40, 60]), adjacency)},
    ...     epsilon=1.0, delta=1e-5, adjacency=adjacency, aggregation=AGGREGATIONS["local"])
    >>> privacy_report(plan, clients=["a", "b"], noise=OSNoise(), public=["rows per client", "classes"])
    PrivacyReport: (epsilon, delta) = (1, 1e-05) for one record, replace-one
      trusted     : only the record's own client; the server and all other clients together may be hostile
      releases    : 50 x 'gradient' with Gaussian noise of at least 26.38 times the sensitivity
      accountant  : exact Gaussian-DP composition, mu = 0.2681 (gdp, version 1)
      clients     : 2, disjoint; epsilon from 1 to 1
      noise       : operating-system entropy (os.urandom)
      public      : rows per client, classes
    """
    labels = [_plain(label) for label in clients]
    reasons = (("random_state is set, the noise is known",) if noise.seeded else ()) + tuple(why_not_private)
    return PrivacyReport(
        unit="record",
        adjacency=plan.adjacency.name,
        trust=plan.aggregation.trust,
        epsilon=None if reasons else plan.epsilon,
        nominal_epsilon=plan.epsilon if reasons else None,
        delta=plan.delta,
        mu=None if plan.mu is None else float(plan.mu.max()),
        per_client=_guarantees(plan, labels),
        events=_events(plan, labels),
        accountant=plan.accountant.name,
        accountant_version=plan.accountant.version,
        public=tuple(public),
        assumes=list(assumes),
        noise=noise.description,
        why_not_private=reasons,
    )


def _plain(label):
    """The Python value of a numpy scalar: the report holds no numpy objects."""
    return label.item() if isinstance(label, np.generic) else label


def _guarantees(plan, labels):
    mu = [None] * len(labels) if plan.mu is None else plan.mu.tolist()
    pairs = zip(mu, plan.client_epsilons.tolist(), strict=True)
    return {label: ClientGuarantee(*pair) for label, pair in zip(labels, pairs, strict=True)}


def _events(plan, labels):
    return tuple(
        Event(
            plan.mechanism,
            exposure.rate,
            float(sensitivity),
            float(sigma),
            exposure.count,
            exposure.planned.name,
            label,
            exposure.planned.relative,
            exposure.batch,
            exposure.n_batches,
        )
        for exposure in plan.exposures()
        for label, sensitivity, sigma in zip(
            labels,
            exposure.planned.sensitivity,
            np.broadcast_to(exposure.planned.sigma, exposure.planned.sensitivity.shape),
            strict=True,
        )
    )
