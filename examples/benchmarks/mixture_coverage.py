"""Does the certificate hold?  500 draws of three clients' samples, with radii calibrated by simulation.

Each client's distribution is a population of 240 records (x, y) that is known here, so that its radius can be chosen
as the theory asks: eps_i is the 1 - beta_i quantile of W_2(sample, population) over 500 simulated samples, exactly
(an assignment problem).  Then samples are drawn afresh, `BiDROFLRegressor` is fitted with these radii, and its
certificate is compared with the true mean squared error of its model under the least favourable mixture of the
populations, which covers every mixture.  Theorem 5 of arXiv 2609.20501 promises that it holds in at least
prod (1 - beta_i) of the draws.  For comparison: the same with a bootstrap radius, which nothing is promised for, and
with radius 0 (agnostic learning).

    python examples/benchmarks/mixture_coverage.py
"""

import numpy as np

from skdro import BiDROFLRegressor
from skdro.certificates import bootstrap_radius, empirical_wasserstein

ATOMS, SIZES, BETA = 240, (20, 30, 40), 1 - 0.9 ** (1 / 3)  # the product of the confidences is .9
CALIBRATION, DRAWS = 500, 500


def populations(rng):
    """Three clients with slopes of their own."""
    clients = []
    for slope in (1.0, 0.2, -0.5):
        x = rng.normal(size=ATOMS)
        clients.append(np.c_[x, slope * x + 0.3 * rng.normal(size=ATOMS)])
    return clients


def distance(sample, population):
    """W_2; an atom of the sample stands for as many of the population."""
    return empirical_wasserstein(np.repeat(sample, len(population) // len(sample), axis=0), population)


def draw(clients, rng, sizes=SIZES):
    """A sample of each client, with replacement."""
    return [population[rng.integers(ATOMS, size=n)] for population, n in zip(clients, sizes, strict=True)]


def calibrated_radii(clients, rng, n_samples, sizes=SIZES, beta=BETA):
    """1 - beta quantile of W_2(sample, population) for each client."""
    distances = [
        [distance(s, p) for s, p in zip(draw(clients, rng, sizes), clients, strict=True)] for _ in range(n_samples)
    ]
    return np.quantile(distances, 1 - beta, axis=0)


def certificate_and_truth(samples, radius, clients):
    """Certificate of the fitted model, and its true error under the least favourable mixture."""
    rows = np.concatenate(samples)
    groups = np.repeat(np.arange(len(samples)), [len(s) for s in samples])
    model = BiDROFLRegressor(radius=radius).fit(rows[:, :1], rows[:, 1], groups=groups)
    truth = max(np.mean((p[:, 1] - model.predict(p[:, :1])) ** 2) for p in clients)
    return model.certificate_, truth


def main():
    """Print how often the certificate holds."""
    rng = np.random.default_rng(0)
    clients = populations(rng)
    radii = calibrated_radii(clients, rng, CALIBRATION)
    print(f"radii calibrated on {CALIBRATION} samples: {radii.round(3)}; promised {(1 - BETA) ** 3:.2f}")
    rules = {
        "calibrated": lambda samples: radii,
        "radius 0": lambda samples: np.zeros(3),
        "bootstrap": lambda samples: [bootstrap_radius(s, BETA, n_bootstrap=50, random_state=0) for s in samples],
    }
    for name, rule in rules.items():
        draws = np.random.default_rng(1)  # the same samples for each rule
        values = []
        for _ in range(DRAWS):
            samples = draw(clients, draws)
            values.append(certificate_and_truth(samples, rule(samples), clients))
        certificate, truth = np.array(values).T
        print(
            f"{name:12s} holds in {np.mean(truth <= certificate):.3f} of {DRAWS} draws; mean certificate "
            f"{certificate.mean():.3f}, mean true error {truth.mean():.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
