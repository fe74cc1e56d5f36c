"""Sphinx configuration; `python -m sphinx -W doc doc/_build` builds the site."""

import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from _tables import write_tables  # noqa: E402

import skdro  # noqa: E402

project = "skdro"
author = "The skdro developers"
copyright = author
version = release = skdro.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a content network: hospitals read these pages too
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = [
    "_build",
    "_stories",
    "gallery/**/*.ipynb",
    "gallery/**/*.py",
    "gallery/**/*.md5",
    "gallery/**/*.json",
]
# the gallery's own list of computation times is of no use to a reader
exclude_patterns += ["sg_execution_times.rst", "gallery/sg_execution_times.rst"]

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc states the types
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = "skdro"
html_static_path = ["_static"]
html_css_files = ["skdro.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"getting_started": [], "which_estimator": [], "results": []}

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# only the stories: the other folders of examples have READMEs of their own, which would become sections
STORIES = HERE / "_stories"
shutil.rmtree(STORIES, ignore_errors=True)
STORIES.mkdir()
for path in [*(HERE.parent / "examples").glob("plot_*.py"), HERE.parent / "examples" / "GALLERY_HEADER.rst"]:
    shutil.copy(path, STORIES)

sphinx_gallery_conf = {
    "examples_dirs": str(STORIES),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("skdro",),
    "matplotlib_animations": False,
    "abort_on_example_error": True,
    "min_reported_time": 10_000,
    "nested_sections": False,
}

write_tables(HERE / "generated_tables")


def _quote_shapes(app, what, name, obj, options, lines):
    """Shapes such as (n_iter_,) end in an underscore, which reStructuredText would take for a link."""
    lines[:] = [re.sub(r"(?<![`\w])(\([^()`]*\w_\b[^()`]*\))", r"``\1``", line) for line in lines]


def setup(app):
    """Hooks of this site."""
    app.connect("autodoc-process-docstring", _quote_shapes, priority=900)
