"""The stories of the gallery run to their figure, with warnings as errors; a slow lane, since they are studies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
STORIES = sorted(EXAMPLES.glob("plot_*.py"))
FILES = {"plot_four_hospitals": "heart"}  # stories that have nothing to tell without a data set that must be fetched


def test_there_are_stories_and_each_has_a_title_and_a_figure():
    assert len(STORIES) >= 12
    for story in STORIES:
        text = story.read_text()
        _, title, underline = text.split("\n")[:3]
        assert text.startswith('"""\n') and set(underline) == {"="} and len(underline) >= len(title), story.name
        assert ".savefig(" in text and "plt.show()" in text, story.name


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_a_story_ends_with_its_figure_and_without_a_warning(story, tmp_path):
    if story.stem in FILES and not list(Path(os.environ.get("SKDRO_DATA", tmp_path)).glob(f"*{FILES[story.stem]}*")):
        pytest.skip("the story needs a data set that is not here; set SKDRO_DATA")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(story)],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert list(tmp_path.glob("*.png"))
