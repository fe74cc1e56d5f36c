"""Private stochastic gradients on full batches or Poisson samples: a baseline."""

from numbers import Real
from typing import ClassVar

from ..federation.steps.objectives import RidgeRisk
from ._base import Interval, StrOptions
from ._private import PrivateFederatedClassifier
from ._private_designs import HOLDING, check_accountant, descent_design, sampled_descent_design

__all__ = ["DPFedSGDClassifier"]

# whether records are sampled -> the design
DESIGNS = {False: descent_design, True: sampled_descent_design}


class DPFedSGDClassifier(PrivateFederatedClassifier):
    """Differentially private federated stochastic gradient descent for a linear multiclass model; the baseline.

    In every round each client sends the mean Crammer-Singer subgradient of its records, or of a Poisson sample of
    them, at the broadcast model, and the server takes one step ("DP-Fed SGD" of [1]_, after [2]_).  The total cost
    is at most (`epsilon`, `delta`) for each record.

    Parameters
    ----------
    epsilon : float, default=1.0
        Total budget of one fit, > 0.
    delta : float, default=1e-5
        Total budget of one fit, in (0, 1); should be well below one over the rows of a client.
    reg : float, default=1e-6
        Weight of the squared norm of the coefficients, >= 0.  Public: its gradient needs no noise.
    sampling_rate : float, default=1.0
        Probability with which each record takes part in a round, in (0, 1].  Below one the records are drawn by
        coins that nobody but their client sees, sums are divided by the *expected* size of the batch, and the rounds
        are accounted by privacy loss distributions: ``pip install "skdro[subsampling]"``.
    aggregation : {"local", "trusted"}, default="local"
        Each client adds its own noise, or it is added once to the weighted sum by whoever computes that.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What one record more or less means.
    data_norm : float, default=1.0
        Rows, constant column included, are clipped to this l2 norm, > 0.  Public.
    feature_bounds : pair (lo, hi) of float or array-like of shape (n_features,), default=None
        Public box of the features, in their units; features are clipped to it and mapped to [-1, 1].
        Recommended.  None takes the features as given, and `data_norm` cuts every row that is longer.
    classes : array-like of shape (n_classes,), default=None
        Public list of possible labels.  None reads them from `y`, with a warning.
    client_weights : {"uniform", "size"}, array-like of shape (n_clients,) or dict, default="size"
        Public weights of the clients, normalised to sum one.
    budget : {"total", "per_round"}, default="total"
        "per_round" takes (epsilon, delta) as a pair of one round, which fixes the noise by the classical formula;
        what may be claimed is the total in `privacy_`.
    accountant : {"auto", "gdp", "moments", "pld"}, default="auto"
        Exact composition "gdp" or the papers' looser bound "moments" of full batches, "pld" of sampled ones;
        "auto" takes "gdp" or "pld".
    n_rounds : int, default=20
        Rounds, all of them charged.
    c_model : float or "auto", default="auto"
        Step-size constant, > 0: steps are c_model / sqrt(t).  "auto" makes it the smaller the larger the public noise
        is.
    fit_intercept : bool, default=True
    noise : {"os", "opendp"}, default="os"
        Where unseeded noise comes from: the operating system's entropy, or OpenDP's measurement in exact arithmetic,
        for releases of at most 10 000 numbers (extra ``opendp``).
    diagnostics : "not-private" or None, default=None
        "not-private" adds the exact objective to `history_` and takes the privacy claim away.
    random_state : None, int or numpy.random.Generator, default=None
        None draws the noise from operating-system entropy.  Anything else is reproducible, hence **not private**.
    n_jobs : int, default=None
        Workers; clients are stacked, so more than one rarely helps.

    Attributes
    ----------
    privacy_ : PrivacyReport
        The guarantee, its events, and what it assumes.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) if binary
        In the user's units; agrees with `decision_function` up to the norm clip of each row.
    intercept_ : ndarray of shape (n_classes,), or (1,) if binary
    classes_ : ndarray of shape (n_classes,)
    clients_ : ndarray of shape (n_clients,)
    history_ : dict of str to ndarray of shape (n_iter_,)
        Functions of the releases only: "model_norm".
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Warns
    -----
    PrivacyLeakWarning
        `random_state` is set, `classes` is read from `y`, or `delta` is large for the smallest client.
    SingleClientWarning
        `groups` was not given.

    Raises
    ------
    ImportError
        `sampling_rate` is below one and the extra is not installed; nothing has been released.

    See Also
    --------
    DPFedERMClassifier : The full batch with a stronger penalty, or by DP-ADMM.

    Notes
    -----
    Choosing parameters by ``GridSearchCV`` on private records is not private at any epsilon: its scores are exact
    functions of the labels.  Fix them beforehand, or tune on public or simulated data.

    `n_rounds` and the rule ``c_model="auto"``, which is that of `DPFedDROClassifier`, were chosen on simulated data
    for full batches (``examples/benchmarks/choose_private_steps.py``), where the scores of fixed steps are flat from
    10 to 30 rounds.

    References
    ----------
    .. [1] Hernandez, Ibrahim, Gebraeel. Private and Distributionally Robust Federated Multiclass
       Classification. arXiv 2610.13631, section 7.
    .. [2] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang. Deep Learning with Differential Privacy.
       CCS 2016, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import DPFedSGDClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DPFedSGDClassifier(
    ...     epsilon=5.0, delta=1e-4, classes=[0, 1, 2], feature_bounds=([4, 2, 1, 0], [8, 4.5, 7, 2.5]),
    ...     aggregation="trusted")
    >>> model = model.fit(X, y, groups=np.arange(150) % 3)
    >>> model.privacy_
    PrivacyReport: (epsilon, delta) = (5, 0.0001) for one record, replace-one...
    """

    _parameter_constraints: ClassVar[dict] = {
        **PrivateFederatedClassifier._parameter_constraints,
        "reg": [Interval(Real, 0, None, closed="left")],
        "sampling_rate": [Interval(Real, 0, 1, closed="right")],
        "accountant": [StrOptions({name for names in HOLDING.values() for name in names})],
    }

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        reg=1e-6,
        *,
        sampling_rate=1.0,
        aggregation="local",
        adjacency="replace_one",
        data_norm=1.0,
        feature_bounds=None,
        classes=None,
        client_weights="size",
        budget="total",
        accountant="auto",
        n_rounds=20,
        c_model="auto",
        fit_intercept=True,
        noise="os",
        diagnostics=None,
        random_state=None,
        n_jobs=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.reg = reg
        self.sampling_rate = sampling_rate
        self.aggregation = aggregation
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.feature_bounds = feature_bounds
        self.classes = classes
        self.client_weights = client_weights
        self.budget = budget
        self.accountant = accountant
        self.n_rounds = n_rounds
        self.c_model = c_model
        self.fit_intercept = fit_intercept
        self.noise = noise
        self.diagnostics = diagnostics
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _design(self, facts):
        sampled = self.sampling_rate < 1
        check_accountant(self, sampled)
        return DESIGNS[sampled](self, facts, RidgeRisk(float(self.reg), facts.n_features))
