"""Gaussian process regression for data streams."""

from . import kernels
from .regressor import StreamingGPRegressor, load

__version__ = "0.1.0"
__all__ = ["StreamingGPRegressor", "__version__", "kernels", "load"]
