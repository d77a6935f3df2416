"""The paper's experiments, run again: tables, figures, its theorem and its claims of cost."""

from .cells import Cell, cells_of, run_all
from .page import write_page

__all__ = ["Cell", "cells_of", "run_all", "write_page"]
