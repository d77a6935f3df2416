"""Sphinx: Markdown pages, furo, the API from docstrings, a gallery that runs. Warnings are errors (`make docs`)."""

import matplotlib as mpl

from streamgp import __version__

mpl.use("agg")  # or sphinx-gallery warns where there is no screen

project = "streamgp"
author = "The streamgp developers"
copyright = "the streamgp developers"
release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "streamgp"
html_static_path: list[str] = []
html_extra_path = ["reproduction.html"]
exclude_patterns = ["_build", "gallery"]
autodoc_typehints = "none"
napoleon_numpy_docstring = True
napoleon_use_rtype = False
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "download_all_examples": False,
    "show_memory": False,
    "capture_repr": (),
    "min_reported_time": 1e9,
}
