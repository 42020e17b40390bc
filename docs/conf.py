"""Sphinx configuration: `make docs` builds the site into build/docs."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import gpexperts

# Examples are built without a screen, and on one thread per library.
os.environ.setdefault("MPLBACKEND", "Agg")

project = "gpexperts"
author = "The gpexperts developers"
copyright = author
version = release = gpexperts.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.zip", "_templates"]
suppress_warnings = ["config.cache"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_mock_imports = ["flwr", "cryptography"]  # Flower is installed in an environment of its own
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

toc_object_entries_show_parents = "hide"
html_theme = "pydata_sphinx_theme"
html_title = "gpexperts"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "use_edit_page_button": False,
}
html_sidebars = {"index": [], "quickstart": []}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_(?!federated)\w+\.py$",  # that one needs Flower; tests/federated runs it
    "ignore_pattern": r"__init__\.py|examples/federated/",
    "doc_module": ("gpexperts",),
    "backreferences_dir": "gallery/backreferences",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 10_000,
    "within_subsection_order": "ExampleTitleSortKey",
    "reset_modules": ("matplotlib",),
    "show_signature": False,
}
# A bound that a hyperparameter has reached is no fault of an example.
warnings.filterwarnings("ignore", message="These hyperparameters ended at a bound")


_BAR = re.compile(r"(?<!`)\|(?!`)")


def _plain_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Bars of docstrings are absolute values; reStructuredText would substitute what is between them."""
    lines[:] = [_BAR.sub(r"\\|", line) if not line.lstrip().startswith(">>>") else line for line in lines]


def _skipped(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn generates for every estimator, with links into its own site."""
    return True if re.fullmatch(r"get_metadata_routing|set_\w+_request", name) else None


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _plain_bars)
    app.connect("autodoc-skip-member", _skipped)
