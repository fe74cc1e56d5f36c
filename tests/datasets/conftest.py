"""Where the files of the data sets are, if they are: $SKDRO_DATA, or a folder beside the repository."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_home():
    beside = Path(__file__).parents[2].parent / "shared" / "data"
    root = Path(os.environ.get("SKDRO_DATA", beside))
    if not root.is_dir():
        pytest.skip("the files of the data sets are not on this machine")
    return root
