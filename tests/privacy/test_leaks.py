import warnings

import pytest

from skdro.exceptions import PrivacyLeakWarning
from skdro.privacy.leaks import warn_classes_from_labels, warn_large_delta, warn_seeded_noise


@pytest.mark.parametrize(
    ("warn", "parameter", "remedy"),
    [
        (warn_seeded_noise, "random_state", "random_state=None"),
        (warn_classes_from_labels, "classes", r"classes=\["),
        (lambda: warn_large_delta(0.5, 60), "delta", r"delta <= "),
    ],
)
def test_each_warning_names_the_parameter_and_the_remedy(warn, parameter, remedy):
    with pytest.warns(PrivacyLeakWarning, match=f"{parameter}.*{remedy}"):
        warn()


def test_delta_is_judged_by_the_smallest_client():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_large_delta(0.01, 100)
    with pytest.warns(PrivacyLeakWarning, match=r"\(101\)"):
        warn_large_delta(0.01, 101)


def test_warnings_point_at_the_caller():
    with pytest.warns(PrivacyLeakWarning) as caught:
        warn_seeded_noise(stacklevel=1)
    assert caught[0].filename == __file__
