"""The settings of the documentation site: `make docs` builds it, offline, with warnings as
errors."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fedflat.version import __version__

project = "fedflat"
author = "the fedflat authors"
version = release = __version__
html_title = "fedflat"
copyright = author
smartquotes = False  # straight quotes and dashes can be pasted into a shell

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sitegen",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "sitegen", "drawings"]

default_role = "code"
autosummary_generate = False  # one page for each kind of name: sitegen/api.py
napoleon_numpy_docstring = False
autodoc_typehints = "signature"
autodoc_default_options = {"inherited-members": False}

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css", "drawings.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
