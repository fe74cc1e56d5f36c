"""What a private search may claim: the report of all trials together, shown or not."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt

from .random_stopping import TruncatedNegativeBinomial, search_epsilon
from .report import Event

__all__ = ["SearchReport", "search_report", "trial_mu"]

TRUST = (
    "whoever runs the search and sees all trials (for local aggregation that includes the server); everybody else "
    "sees the returned model and its noisy score only"
)


@dataclass(frozen=True, repr=False)
class SearchReport:
    """The guarantee of one private search, with what it rests on.

    The fields that it shares with `PrivacyReport` mean the same.

    Parameters
    ----------
    adjacency : str
    epsilon : float or None
        Total epsilon of the whole search at `delta`; None if it is not private.
    nominal_epsilon : float or None
        The same number if the search is not private.
    delta : float
    mu_model, mu_score : float
        Gaussian-DP parameters of the model and of the score of one trial.
    disjoint : bool
        Whether models and scores use disjoint rows, so that a trial costs the larger of both and not their root sum
        of squares.
    law : TruncatedNegativeBinomial
        Law of the secret number of trials.
    n_candidates : int
    events : tuple of Event
        One for a trial; it is no full-batch Gaussian event and does not add up like one.
    public : tuple of str
    assumes : list of str
    noise : str
    why_not_private : tuple of str
    """

    adjacency: str
    epsilon: float | None
    nominal_epsilon: float | None
    delta: float
    mu_model: float
    mu_score: float
    disjoint: bool
    law: TruncatedNegativeBinomial
    n_candidates: int
    events: tuple[Event, ...]
    public: tuple[str, ...]
    assumes: list[str]
    noise: str
    why_not_private: tuple[str, ...]
    unit: str = "record"
    trust: str = TRUST

    @property
    def private(self) -> bool:
        """Whether the search may claim `epsilon`."""
        return not self.why_not_private

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of one trial, model and score."""
        return trial_mu(self.mu_model, self.mu_score, self.disjoint)

    def rederive_epsilon(self) -> float:
        """Epsilon recomputed from the trial's mu, the law of the number of trials, and `delta`.

        Returns
        -------
        epsilon : float
        """
        return search_epsilon(self.mu, self.delta, self.law)

    def to_dict(self) -> dict:
        """All fields and `private` as plain types that `json.dumps` takes.

        Returns
        -------
        fields : dict
        """
        fields = asdict(self)
        fields["private"] = self.private
        for name in ("events", "public", "why_not_private"):
            fields[name] = list(fields[name])
        return fields

    def __repr__(self):
        pair = f"(epsilon, delta) = ({self.epsilon or self.nominal_epsilon or 0.0:.6g}, {self.delta:g})"
        unit = f"one {self.unit}, {self.adjacency.replace('_', '-')}"
        claim = f"{pair} for {unit}"
        if not self.private:
            claim = f"NOT PRIVATE ({'; '.join(self.why_not_private)}), nominal {claim}"
        together = "on disjoint rows" if self.disjoint else "on the same rows"
        lines = [
            f"SearchReport: {claim}",
            f"  trusted     : {self.trust}",
            f"  one trial   : model mu = {self.mu_model:.4g}, score mu = {self.mu_score:.4g}, {together}: "
            f"mu = {self.mu:.4g}",
            f"  trials      : a secret number, {self.law.mean:.4g} on average (eta = {self.law.eta:g}, "
            f"gamma = {self.law.gamma:.4g}), of {self.n_candidates} candidates; the best is shown",
            "  accountant  : Renyi bound of Papernot & Steinke (2022), Theorem 2",
            f"  noise       : {self.noise}",
            f"  public      : {', '.join(self.public) or 'nothing'}",
        ]
        if self.assumes:
            lines.append(f"  read from the data although assumed public: {', '.join(self.assumes)}")
        return "\n".join(lines)


def trial_mu(mu_model: float, mu_score: float, disjoint: bool) -> float:
    """Gaussian-DP parameter of a trial that releases a model and a score.

    A record on one side of a public split moves the model or, given the model, the score; never both.

    Parameters
    ----------
    mu_model, mu_score : float
    disjoint : bool

    Examples
    --------
    >>> trial_mu(3.0, 4.0, disjoint=False), trial_mu(3.0, 4.0, disjoint=True)
    (5.0, 4.0)
    """
    return max(mu_model, mu_score) if disjoint else sqrt(mu_model**2 + mu_score**2)


def search_report(
    law: TruncatedNegativeBinomial,
    mu_model: float,
    mu_score: float,
    *,
    disjoint: bool,
    delta: float,
    adjacency: str,
    n_candidates: int,
    noise: str,
    public: Sequence[str],
    assumes: Sequence[str] = (),
    why_not_private: Sequence[str] = (),
) -> SearchReport:
    """Report of a search whose trials cost `mu_model` and `mu_score`.

    Parameters
    ----------
    law, mu_model, mu_score, disjoint, delta, adjacency, n_candidates, noise, public, assumes, why_not_private
        See `SearchReport`.

    Returns
    -------
    report : SearchReport

    Examples
    --------
    >>> law = TruncatedNegativeBinomial.with_mean(10.0, eta=0.0)
    >>> report = search_report(law, 0.3, 0.1, disjoint=False, delta=1e-6, adjacency="replace_one", n_candidates=5,
    ...                        noise="os.urandom", public=["candidates"])
    >>> round(report.epsilon, 3), report.private
    (2.42, True)
    """
    mu = trial_mu(mu_model, mu_score, disjoint)
    epsilon = search_epsilon(mu, delta, law)
    return SearchReport(
        adjacency=adjacency,
        epsilon=None if why_not_private else epsilon,
        nominal_epsilon=epsilon if why_not_private else None,
        delta=delta,
        mu_model=mu_model,
        mu_score=mu_score,
        disjoint=disjoint,
        law=law,
        n_candidates=n_candidates,
        events=(Event("trial of a search", 1.0, mu, 1.0, 1, "model and score", None),),
        public=tuple(public),
        assumes=list(assumes),
        noise=noise,
        why_not_private=tuple(why_not_private),
    )
