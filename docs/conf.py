"""Sphinx: Markdown pages, furo, the API from docstrings, a gallery that runs. Warnings are errors (`make docs`)."""

import sys
from pathlib import Path

import matplotlib as mpl

from streamgp import __version__

sys.path.insert(0, str(Path(__file__).parent))  # for mathml
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
    "mathml",
]
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "streamgp"
html_static_path = ["static"]
html_css_files = ["math.css"]
html_extra_path = ["reproduction-figures.html"]
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
