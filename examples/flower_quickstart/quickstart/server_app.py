"""What the server runs."""

import joblib

from skdro.flower import make_server_app

from .task import make_estimator


def save(estimator, run_config):
    joblib.dump(estimator, run_config["out"])


app = make_server_app(make_estimator, out=save)
