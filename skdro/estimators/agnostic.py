"""Agnostic federated learning: the worst mixture of the clients' records, without Wasserstein balls."""

from typing import ClassVar

import numpy as np

from ..federation.local_risks import RecordsRisk, UnmovedRecords
from ..losses import squared
from ._mixture_classification import MixtureClassifier
from ._mixture_regression import MixtureRegressor

__all__ = ["AFLClassifier", "AFLRegressor"]


class AFLRegressor(MixtureRegressor):
    """Agnostic federated linear regression: least squares for the worst mixture of the clients.

    Minimises  max over alpha in A of  sum_i alpha_i MSE_i(x)  ([1]_): `BiDROFLRegressor` with radius 0.

    Parameters
    ----------
    mixture : {"simplex", "fixed"}, default="simplex"
        "simplex": any mixture of the clients; "fixed": the mixture `client_weights` (weighted least squares).
    mixture_radius : float in [0, 1] or None, default=None
        Share of the population that may belong to other clients than `client_weights` says.  Overrides `mixture`;
        0 is "fixed", 1 "simplex".
    client_weights : {"uniform", "size"}, array-like of shape (n_clients,) or dict, default="uniform"
        Nominal mixture, normalised to sum one; where the descent starts.
    fit_intercept : bool, default=True
    solver : {"conic", "descent_ascent"}, default="conic"
        Exact, by one conic programme whose size does not depend on the number of records; or rounds of descent in
        the model and ascent in the mixture, in which records stay with their client.
    n_rounds : int, default=1000
        Rounds of the descent.
    step_size : "auto" or float, default="auto"
        Of model and mixture.  "auto" is 1 / sqrt(n_rounds) in standardised coordinates; a number is a step in the
        units of the data.
    batch_size : int or None, default=None
        Records that each client draws afresh in a round of the descent; None takes all.
    average : bool, default=True
        Whether to return the average of the iterates or the last one.
    model_bound : float, default=100.0
        Bound of each coefficient during the descent, in its coordinates.
    random_state : int, RandomState instance or None, default=None
        Determines the samples.
    n_jobs : int, default=None
        Workers for the clients' steps; `joblib.parallel_config` decides on the backend.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    clients_ : ndarray of shape (n_clients,)
        Sorted client labels.
    mixture_weights_ : ndarray of shape (n_clients,)
        The mixture that the model is best against.
    client_risks_ : ndarray of shape (n_clients,)
        Mean squared error of each client's records.
    certificate_ : float
        The worst mixture's mean squared error of the records.
    history_ : dict of str to ndarray of shape (n_iter_, ...)
        As in `BiDROFLRegressor`.
    n_iter_ : int
        Rounds run; 1 if conic.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If `X` has string column names.

    Warns
    -----
    SingleClientWarning
        `groups` was not given.
    ConvergenceWarning
        The descent ended at `model_bound`.

    References
    ----------
    .. [1] Mohri, Sivek, Suresh. Agnostic Federated Learning. ICML 2019.

    Examples
    --------
    Nine records in ten follow y = x, the tenth client y = -x; the worst client fares best with the zero model.

    >>> import numpy as np
    >>> from skdro import AFLRegressor
    >>> x = np.linspace(-1, 1, 1000)
    >>> client = np.arange(1000) % 10 == 0
    >>> model = AFLRegressor().fit(x[:, None], np.where(client, -x, x), groups=client)
    >>> bool(abs(model.coef_[0]) < 0.01), round(model.certificate_, 2)
    (True, 0.33)
    """

    radius: ClassVar[float] = 0.0
    penalty: ClassVar[None] = None
    _parameter_constraints: ClassVar[dict] = MixtureRegressor._parameter_constraints

    def __init__(
        self,
        *,
        mixture="simplex",
        mixture_radius=None,
        client_weights="uniform",
        fit_intercept=True,
        solver="conic",
        n_rounds=1000,
        step_size="auto",
        batch_size=None,
        average=True,
        model_bound=100.0,
        random_state=None,
        n_jobs=None,
    ):
        self.mixture = mixture
        self.mixture_radius = mixture_radius
        self.client_weights = client_weights
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_rounds = n_rounds
        self.step_size = step_size
        self.batch_size = batch_size
        self.average = average
        self.model_bound = model_bound
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _labels_move(self):
        return False

    def _check_conic(self, penalty):
        """All of it exists."""

    def _has_reference(self, problem):
        return True

    def _local_risk(self, frame, radius, penalty):
        return RecordsRisk(UnmovedRecords(squared), self.batch_size)


class AFLClassifier(MixtureClassifier):
    """Agnostic federated linear classification: the least loss for the worst mixture of the clients.

    Minimises  max over alpha in A of  sum_i alpha_i (mean loss of client i)  ([1]_): `BiDROFLClassifier` with
    radius 0.

    Parameters
    ----------
    loss : {"crammer_singer", "softmax"}, default="crammer_singer"
        Multiclass hinge loss, or the multinomial log-likelihood.
    mixture : {"simplex", "fixed"}, default="simplex"
        "simplex": any mixture of the clients; "fixed": the mixture `client_weights`.
    mixture_radius : float in [0, 1] or None, default=None
        Share of the population that may belong to other clients than `client_weights` says.  Overrides `mixture`;
        0 is "fixed", 1 "simplex".
    client_weights : {"uniform", "size"}, array-like of shape (n_clients,) or dict, default="uniform"
        Nominal mixture, normalised to sum one; where the descent starts.
    fit_intercept : bool, default=True
    solver : {"auto", "conic", "bundle", "descent_ascent"}, default="auto"
        Exact, by one conic programme that holds all records, or by cutting planes (Crammer-Singer); or rounds of
        descent in the model and ascent in the mixture, in which records stay with their client.  "auto": conic for
        Crammer-Singer, rounds for softmax.
    n_rounds : int, default=1000
        Rounds of the descent.
    step_size : "auto" or float, default="auto"
        Of model and mixture.  "auto" is 1 / sqrt(n_rounds) in standardised coordinates; a number is a step in the
        units of the data.
    batch_size : int or None, default=None
        Records that each client draws afresh in a round of the descent; None takes all.
    average : bool, default=True
        Whether to return the average of the iterates or the last one.
    model_bound : float, default=100.0
        Bound of each coefficient during the descent, in its coordinates.
    random_state : int, RandomState instance or None, default=None
        Determines the samples.
    n_jobs : int, default=None
        Workers for the clients' steps; `joblib.parallel_config` decides on the backend.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) if binary
    intercept_ : ndarray of shape (n_classes,), or (1,) if binary
    classes_ : ndarray of shape (n_classes,)
    clients_ : ndarray of shape (n_clients,)
        Sorted client labels.
    mixture_weights_ : ndarray of shape (n_clients,)
        The mixture that the model is best against.
    client_risks_ : ndarray of shape (n_clients,)
        Mean loss of each client's records.
    certificate_ : float
        The worst mixture's mean loss of the records.
    history_ : dict of str to ndarray of shape (n_iter_, ...)
        As in `BiDROFLClassifier`.
    n_iter_ : int
        Rounds run; 1 if conic.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If `X` has string column names.

    Warns
    -----
    SingleClientWarning
        `groups` was not given.
    ConstantModelWarning
        The model gives every training record the same label.
    ConvergenceWarning
        The descent ended at `model_bound`.

    References
    ----------
    .. [1] Mohri, Sivek, Suresh. Agnostic Federated Learning. ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skdro import AFLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AFLClassifier().fit(X, y, groups=np.arange(150) % 3)
    >>> model.score(X, y) > 0.9
    True
    """

    radius: ClassVar[float] = 0.0
    penalty: ClassVar[None] = None
    kappa: ClassVar[float] = np.inf  # without a radius nothing can be flipped
    norm: ClassVar[str] = "linf"
    _parameter_constraints: ClassVar[dict] = MixtureClassifier._parameter_constraints

    def __init__(
        self,
        *,
        loss="crammer_singer",
        mixture="simplex",
        mixture_radius=None,
        client_weights="uniform",
        fit_intercept=True,
        solver="auto",
        n_rounds=1000,
        step_size="auto",
        batch_size=None,
        average=True,
        model_bound=100.0,
        random_state=None,
        n_jobs=None,
    ):
        self.loss = loss
        self.mixture = mixture
        self.mixture_radius = mixture_radius
        self.client_weights = client_weights
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_rounds = n_rounds
        self.step_size = step_size
        self.batch_size = batch_size
        self.average = average
        self.model_bound = model_bound
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_combination(self, solver, radius, penalty):
        if self.loss == "softmax" and solver != "descent_ascent":
            raise ValueError(
                f"solver={solver!r} has no softmax; use solver='descent_ascent' or loss='crammer_singer'."
            )
