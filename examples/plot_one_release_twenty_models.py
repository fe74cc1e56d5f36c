"""
One release, twenty models
==========================

Four clinics may send one message and no more.  Each sends the noisy second moments of its records, once, under a
total budget of epsilon = 3.73.  An analyst then tries twenty radii: all of them are post-processing of that message,
so they cost no further budget and need no data.  The default radius is the size of the noise, a public number.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from skdro import DPMomentDROClassifier
from skdro.datasets import flip_labels, split_clients_by_share
from skdro.exceptions import PrivacyLeakWarning
from skdro.inspection import RadiusPathDisplay

# a fixed seed makes this page reproducible and its epsilon nominal; leave it out on private records
warnings.simplefilter("ignore", PrivacyLeakWarning)
SEEDS = range(15)
NOISE_RADII = np.geomspace(0.03, 10, 20)
RANGES = (
    [11.0, 0.74, 1.36, 10.6, 70, 0.98, 0.34, 0.13, 0.41, 1.3, 0.48, 1.27, 278],
    [14.8, 5.80, 3.23, 30.0, 162, 3.88, 5.08, 0.66, 3.58, 13.0, 1.71, 4.00, 1680],
)
X, y = load_wine(return_X_y=True)

# %%
# For each place of the noise: fifteen splits, one release each, twenty models from it.
scores = {}
for aggregation in ("local", "trusted"):
    table = np.empty((len(SEEDS), len(NOISE_RADII)))
    for seed in SEEDS:
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
        model = DPMomentDROClassifier(
            3.73, 1e-6, aggregation=aggregation, feature_bounds=RANGES, classes=[0, 1, 2], random_state=seed
        ).fit(
            X_train,
            flip_labels(y_train, 0.1, random_state=seed),
            groups=split_clients_by_share(y_train, random_state=seed),
        )
        # no data from here on
        twenty = [model.refit(noise_radius=radius) for radius in NOISE_RADII]
        table[seed] = [f1_score(y_test, each.predict(X_test), average="macro", zero_division=0.0) for each in twenty]
        assert all(each.privacy_ is model.privacy_ for each in twenty)
    scores[aggregation] = table

print(model.privacy_)
for aggregation, table in scores.items():
    means = table.mean(axis=0)
    default = np.interp(np.log(0.7), np.log(NOISE_RADII), means)
    print(f"{aggregation:8s} macro-F1: hardly robust {means[0]:.3f}, default {default:.3f}, best {means.max():.3f}")

# %%
# The certificate of each model bounds its mean squared error on the clinics' records, with probability .95 over the
# noise; like everything else it is computed from the message.  The model that predicts nothing has error 1 - 1/3: a
# certificate above this says that a model cannot be much worse, not that it is better.
certificates = [each.certificate_ for each in twenty]

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
RadiusPathDisplay.from_results(
    NOISE_RADII,
    {f"noise {aggregation}": table.T for aggregation, table in scores.items()},
    default=0.7,
    score_name="macro-F1, clean test labels",
    ax=left,
)
left.set_xlabel("noise_radius: radius of the moments' ball over the edge of the noise")
left.set_title("Twenty models of one release (mean and standard error)", pad=22)

right.loglog(NOISE_RADII, certificates, "-o", ms=4, color="C1")
right.axhline(2 / 3, color="0.4", lw=1)
right.text(NOISE_RADII[0], 0.63, "error of the zero model, known without data", color="0.4", va="top")
right.set_ylim(bottom=0.4)
right.axvline(0.7, color="0.4", ls="--", lw=1)
right.set_xlabel("noise_radius")
right.set_ylabel("certified mean squared error")
right.set_title("What the message proves (last split, trusted)", pad=22)
fig.savefig("one_release_twenty_models.png", dpi=130)
print("figure saved as one_release_twenty_models.png")
plt.show()
