"""The paper's experiments run again, tables, figures, Theorem 1 and cost: `make reproduce`."""

from .cells import Cell, cells_of, run_all
from .page import write_page

__all__ = ["Cell", "cells_of", "run_all", "write_page"]
