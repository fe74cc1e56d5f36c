"""Thirteen features of a flow trace: nine of its distribution in time, four of its spectrum.

They are the condition indicators that are customary for this pump; flow is in litres a minute, power in its
square.  The cumulative sum is that of the deviations from the mean, in millilitres: its range grows with slow
swings of the flow.  Spectral features come from one Hann window over the whole trace, the mean removed and
the transform padded to a grid of about 0.1 Hz, so that the peak frequency follows the speed of the crank.
"""

import numpy as np
from scipy import signal, stats

FEATURE_NAMES = (
    "mean",
    "variance",
    "skewness",
    "kurtosis",
    "peak_to_peak",
    "crest_factor",
    "rms",
    "mean_absolute_deviation",
    "cumulative_sum_range",
    "peak_frequency",
    "power_10_20_hz",
    "power_40_60_hz",
    "power_above_100_hz",
)
PADDING = 8


def flow_features(flow: np.ndarray, sampling_rate: float) -> np.ndarray:
    """Features of each trace.

    Parameters
    ----------
    flow : ndarray of shape (n_runs, n_times)
        Litres a minute.
    sampling_rate : float
        Hz.

    Returns
    -------
    features : ndarray of shape (n_runs, 13)
        In the order of `FEATURE_NAMES`.
    """
    mean = flow.mean(axis=1)
    deviation = flow - mean[:, np.newaxis]
    rms = np.sqrt((flow**2).mean(axis=1))
    volume = np.cumsum(deviation, axis=1) * (1000 / 60 / sampling_rate)
    frequency, density = signal.periodogram(
        flow, fs=sampling_rate, window="hann", nfft=PADDING * flow.shape[1], detrend="constant"
    )

    def power(low, high):
        band = (frequency >= low) & (frequency < high)
        return density[:, band].sum(axis=1) * frequency[1]

    return np.column_stack(
        [
            mean,
            flow.var(axis=1),
            stats.skew(flow, axis=1),
            stats.kurtosis(flow, axis=1),
            np.ptp(flow, axis=1),
            np.abs(flow).max(axis=1) / rms,
            rms,
            np.abs(deviation).mean(axis=1),
            np.ptp(volume, axis=1),
            frequency[density.argmax(axis=1)],
            power(10, 20),
            power(40, 60),
            power(100, np.inf),
        ]
    )
