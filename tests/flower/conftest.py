"""A study in one process: four sites, an estimator, and what the server made of them."""

import os
from dataclasses import dataclass, field

import numpy as np
import pytest

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

PATIENCE = {"min-clients": 4, "start-timeout": 2.0, "round-timeout": 1.0}


@dataclass
class Study:
    """The sites' data and node_configs; `run` gives the fitted estimator and leaves the grid behind."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    state_dir: object
    private: dict = field(default_factory=lambda: {"max-epsilon": 20.0, "max-delta": 1e-4})

    def load(self, node_config):
        mine = self.groups == node_config["site-name"]
        return self.X[mine], self.y[mine]

    def configs(self, private):
        names = np.unique(self.groups)[::-1].tolist()  # nodes do not come in the order of the clients
        if not private:
            return [{"site-name": name} for name in names]
        return [{"site-name": name, "state-dir": str(self.state_dir / name), **self.private} for name in names]

    def run(self, make, *, configs=None, grid=None, load=None, run_config=None, classes=None, seeded=False):
        from skdro.flower import LocalGrid, make_server_app
        from skdro.flower._apps import client_app_of
        from skdro.flower._site import Site

        site = Site(make, load or self.load, accept_seed=seeded)
        if configs is None:
            configs = self.configs(make(PATIENCE)._is_private())
        self.grid = (grid or LocalGrid)(client_app_of(site), configs)
        fitted = []
        server = make_server_app(make, lambda estimator, _: fitted.append(estimator), classes=classes)
        self.grid.start(server, {**PATIENCE, **(run_config or {})})
        return fitted[0]


@pytest.fixture
def study(federation, tmp_path):
    return Study(*federation, tmp_path)
