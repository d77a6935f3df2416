"""State machines: each learns a batch and returns the next state."""

from .affine import AffineModel
from .base import Model, Prediction
from .exact import ExactModel
from .pivoted import PivotedModel
from .recursive import RecursiveModel
from .spectral import SpectralModel

__all__ = [
    "AffineModel",
    "ExactModel",
    "Model",
    "PivotedModel",
    "Prediction",
    "RecursiveModel",
    "SpectralModel",
]
