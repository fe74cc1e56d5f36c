"""
What a smaller epsilon costs
============================

Three clinics learn to tell benign from malignant tumours.  How much accuracy does each epsilon leave, and how much
depends on where the noise is added?  `PrivacyUtilityDisplay.from_estimators` runs the sweep.  **It is not private**:
its fits would cost budget, and the scores are exact functions of the labels.  It is for public data, as here, on
which one learns what to expect before the budget of the private data is spent.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdro import DPFedDROClassifier, DPMomentDROClassifier
from skdro.inspection import PrivacyUtilityDisplay

X, y = load_breast_cancer(return_X_y=True)
X = X[:, :10]  # the ten means
clinics = np.array(["Lyon", "Porto", "Turin"])[np.arange(len(y)) % 3]
public = {
    "delta": 1e-6,
    "classes": [0, 1],
    "feature_bounds": ([5, 8, 40, 100, 0, 0, 0, 0, 0, 0], [30, 40, 200, 2500, 0.2, 0.4, 0.5, 0.25, 0.4, 0.1]),
}

# %%
# Eight splits for each epsilon, a quarter of each clinic's records for the test.
_, means = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
display = PrivacyUtilityDisplay.from_estimators(
    {
        "rounds, noise at each clinic": DPFedDROClassifier(**public),
        "rounds, noise on the sum": DPFedDROClassifier(aggregation="trusted", **public),
        "one release, noise at each clinic": DPMomentDROClassifier(**public),
        "one release, noise on the sum": DPMomentDROClassifier(aggregation="trusted", **public),
    },
    X, y, clinics,
    epsilons=[0.1, 0.3, 1.0, 3.0, 10.0],
    references={"not private, pooled": make_pipeline(StandardScaler(), LogisticRegression())},
    scoring="balanced_accuracy",
    n_repeats=8,
    random_state=0,
    ax=means,
)  # fmt: skip
for name, table in display.scores.items():
    print(f"{name:34s}", *(f"{row.mean():.3f} (sd {row.std(ddof=1):.3f})" for row in table))
means.set_title("mean and its standard error")
print("not private:", {name: round(value, 3) for name, value in display.references.items()})

# %%
# No private model reaches the pooled one.  Noise on the sum, not at each clinic, is worth about three times the
# epsilon at small budgets, and nothing any more at 10.  One release is behind the rounds, but for the smallest budget
# with noise at each clinic.
#
# The band above is the standard error of a mean of eight; a budget pays for one fit.  Below each dot is one fit: at
# small epsilon the same method gives a useful model or a useless one, by chance.
fig, fits = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
for k, (name, table) in enumerate(display.scores.items()):
    places = display.epsilons * 1.12 ** (k - 1.5)
    fits.semilogx(places, table, "o", ms=4, alpha=0.6, color=display.lines_[name].get_color())
fits.set_xticks(display.epsilons, [f"{epsilon:g}" for epsilon in display.epsilons])
fits.minorticks_off()
fits.set_xlabel("total epsilon; single fits")
fits.set_ylabel("balanced accuracy")
fits.set_title("what one gets: one fit (colours as above)")
fig.savefig("privacy_utility.png", dpi=120)
plt.show()
