"""Backends of a cluster run the same rounds, bit for bit."""

import numpy as np
import pytest
from joblib import parallel_config

from skdro import FedDROClassifier

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the clusters' own code
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def fitted(data):
    X, y, groups = data
    return FedDROClassifier(radius=0.05, n_rounds=4, n_jobs=2).fit(X, y, groups=groups).coef_


def test_dask(federation):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        parallel_config(backend="dask"),
    ):
        on_cluster = fitted(federation)
    np.testing.assert_array_equal(on_cluster, fitted(federation))


def test_ray(federation):
    ray = pytest.importorskip("ray")
    register = pytest.importorskip("ray.util.joblib").register_ray
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    try:
        register()
        with parallel_config(backend="ray"):
            on_cluster = fitted(federation)
    finally:
        ray.shutdown()
    np.testing.assert_array_equal(on_cluster, fitted(federation))
