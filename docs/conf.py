"""Sphinx configuration: `make docs` builds the site into build/docs."""

from __future__ import annotations

import os
import warnings

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
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

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
    "filename_pattern": r"\.py$",
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
