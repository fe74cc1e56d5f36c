"""What each site runs."""

from skdro.flower import make_client_app

from .task import load_data, make_estimator

app = make_client_app(make_estimator, load_data)
