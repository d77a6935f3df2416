"""Sphinx: Markdown pages, furo, the API from docstrings. Warnings are errors (`make docs`)."""

from streamgp import __version__

project = "streamgp"
author = "The streamgp developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "streamgp"
html_static_path: list[str] = []
html_extra_path = ["reproduction.html"]
exclude_patterns = ["_build"]
autodoc_typehints = "none"
napoleon_numpy_docstring = True
napoleon_use_rtype = False
