"""
From the notebook to Flower
===========================

A model that was tried in a notebook, with all records in one place, is to be trained where records must stay at their
sites.  The estimator stays the same; two apps are made of it, one for the sites and one for the server.  Here they
talk within one process, by Flower's own messages (`LocalGrid`), so that a study can be tried before it meets real
sites; `examples/flower_quickstart` is the same with real processes.  Without the extra
(``pip install "skdro[flower]"``) this page shows the notebook's half only.
"""

from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from skdro import FedDROClassifier
from skdro.inspection import ConvergenceDisplay
from skdro.preprocessing import PublicBoundsScaler

RANGES = (
    [11.0, 0.74, 1.36, 10.6, 70, 0.98, 0.34, 0.13, 0.41, 1.3, 0.48, 1.27, 278],
    [14.8, 5.80, 3.23, 30.0, 162, 3.88, 5.08, 0.66, 3.58, 13.0, 1.71, 4.00, 1680],
)
X, y = load_wine(return_X_y=True)
X = PublicBoundsScaler(RANGES).fit_transform(X)  # by public ranges: each site can do it on its own
site = np.array(["Lyon", "Porto", "Turin"])[np.arange(len(y)) % 3]

# %%
# **In the notebook**, all sites at once.


def make_estimator(run_config):
    """The estimator of the study, as both the sites and the server make it."""
    return FedDROClassifier(radius=run_config["radius"], n_rounds=run_config["n-rounds"], tol=1e-2)


def load_data(node_config):
    """A site's own records; in a real study, from a file that only the site can read."""
    rows = site == node_config["site-name"]
    return X[rows], y[rows]


CONFIG = {"radius": 0.02, "n-rounds": 200, "min-clients": 3}
notebook = make_estimator(CONFIG).fit(X, y, groups=site)
print(f"notebook: {notebook.n_iter_} rounds, worst-case risk {notebook.worst_case_risk_:.6f}")

# %%
# **Between sites**: the same two functions, and three sites that know their own records only.
models = {"in the notebook": notebook}
if find_spec("flwr"):
    from skdro.flower import LocalGrid, make_client_app, make_server_app

    kept = []
    server = make_server_app(make_estimator, out=lambda estimator, run_config: kept.append(estimator))
    grid = LocalGrid(make_client_app(make_estimator, load_data), [{"site-name": s} for s in np.unique(site).tolist()])
    grid.start(server, CONFIG)
    (between,) = kept
    models["between sites, on Flower"] = between
    print(f"Flower: {between.n_iter_} rounds, worst-case risk {between.worst_case_risk_:.6f}")
    print("largest difference of a coefficient:", np.abs(between.coef_ - notebook.coef_).max())
else:
    print('Flower is not installed (pip install "skdro[flower]"): the notebook\'s half only.')

# %%
# The rounds are the same rounds: what differs is who computes them, and that a site which does not answer in time is
# waited for, or done without.
fig, axes = plt.subplots(1, len(models), figsize=(5.5 * len(models), 4), layout="constrained", squeeze=False)
for (name, model), ax in zip(models.items(), axes[0], strict=True):
    display = ConvergenceDisplay.from_estimator(
        model, quantities=["objective", "primal_residual", "dual_residual"], ax=ax
    )
    ax.set_title(name)
fig.savefig("notebook_to_flower.png", dpi=120)
plt.show()
