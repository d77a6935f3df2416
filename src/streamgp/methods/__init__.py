"""State machines: each learns a batch and returns the next state."""

from .base import Model, Prediction
from .exact import ExactModel
from .pivoted import PivotedModel
from .recursive import RecursiveModel
from .spectral import SpectralModel
from .weighted import AffineModel

__all__ = [
    "AffineModel",
    "ExactModel",
    "Model",
    "PivotedModel",
    "Prediction",
    "RecursiveModel",
    "SpectralModel",
]
