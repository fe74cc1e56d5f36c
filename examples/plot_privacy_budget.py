"""
A privacy budget, from plan to audit
====================================

Three sites want one classifier.  Their lawyers have agreed on a total of epsilon = 3 at delta = 1e-5 for each record,
whatever is fitted, and on a separate epsilon = 1 of it for one private search.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from skdro import DPFedDROClassifier, plan_noise
from skdro.exceptions import BudgetExceededError
from skdro.inspection import AuditDisplay
from skdro.model_selection import PrivateSearchCV
from skdro.privacy import BudgetAccountant, audit, membership_inference

X, y = load_breast_cancer(return_X_y=True)
X = X[:, :10]  # the ten means
sites = np.array(["Lyon", "Porto", "Turin"])[np.arange(len(y)) % 3]
bounds = ([5, 8, 40, 100, 0, 0, 0, 0, 0, 0], [30, 40, 200, 2500, 0.2, 0.4, 0.5, 0.25, 0.4, 0.1])  # public ranges
model = DPFedDROClassifier(delta=1e-6, classes=[0, 1], feature_bounds=bounds, aggregation="trusted")

# %%
# **Before the data are touched**: what will a budget of 1 do to the signal, with noise at each site or once?
rows = {site: int(np.sum(sites == site)) for site in np.unique(sites)}
for aggregation in ("local", "trusted"):
    print(plan_noise(1.0, 1e-6, 30, rows, n_features=10, n_classes=2, estimator=model, aggregation=aggregation))

# %%
# **A ledger with a ceiling.**  It asks each estimator for its plan, and only then lets it see the data.
accountant = BudgetAccountant(epsilon=3.0, delta=1e-5, declared={"search": (1.0, 1e-6)})
first = accountant.fit(model.set_params(epsilon=1.0), X, y, groups=sites)
print(f"first fit, epsilon 1: accuracy {first.score(X, y):.3f} (on private rows: for this page only)")
second = accountant.fit(DPFedDROClassifier(**{**model.get_params(), "radius": 0.1}), X, y, groups=sites)
try:
    accountant.fit(DPFedDROClassifier(**{**model.get_params(), "epsilon": 2.0}), X, y, groups=sites)
except BudgetExceededError as refusal:
    print(refusal)

# %%
# **Tuning inside the budget.**  A grid search would not be private at any epsilon: it shows exact functions of
# private labels.  The private search makes a secret number of trials and shows one.
search = PrivateSearchCV(model, {"c_model": [0.1, 1.0, 3.0, 10.0]}, epsilon=1.0, delta=1e-6)
accountant.fit(search, X, y, groups=sites, declared="search")
print(search.best_params_, search.privacy_, accountant, sep="\n")

# %%
# **Does the code keep its word?**  Canaries in the training data, and a membership attack.  Both are statements about
# the code: they see the data without a budget, and stay where the data are.
canaries = audit(model.set_params(epsilon=3.0), X, y, sites, n_canaries=50, n_runs=10, random_state=0)
members = membership_inference(model, X, y, sites, random_state=0)
print(canaries, members, sep="\n")

figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
AuditDisplay.from_result(canaries, ax=axes[0])
AuditDisplay.from_result(members, ax=axes[1])
figure.savefig("privacy_budget.png", dpi=120)
plt.show()
