"""Gaussian process regression and classification for data streams."""

from . import kernels
from .classifier import StreamingGPClassifier
from .loading import load
from .regressor import StreamingGPRegressor

__version__ = "0.1.0"
__all__ = ["StreamingGPClassifier", "StreamingGPRegressor", "__version__", "kernels", "load"]
