"""What this study is about: the estimator, and how a site loads its data."""

import pandas as pd

from skdro import DPFedDROClassifier, FedDROClassifier

CLASSES = [0, 1, 2]
BOX = ([-3.0] * 4, [3.0] * 4)  # public bounds of the features: known beforehand, never computed from records


def make_estimator(run_config):
    if not run_config["private"]:
        return FedDROClassifier(radius=run_config["radius"], n_rounds=run_config["n-rounds"])
    return DPFedDROClassifier(
        epsilon=run_config["epsilon"],
        delta=run_config["delta"],
        radius=run_config["radius"],
        n_rounds=run_config["n-rounds"],
        classes=CLASSES,
        feature_bounds=BOX,
    )


def load_data(node_config):
    table = pd.read_csv(node_config["data"])
    return table.drop(columns="label"), table["label"]
