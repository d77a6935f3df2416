"""State machines: each learns a batch and returns the next state."""

from .affine import AffineModel
from .base import Model, Prediction
from .exact import ExactModel
from .gathering import GatheringModel
from .pivoted import PivotedModel
from .recursive import RecursiveModel
from .spectral import SpectralModel

__all__ = [
    "AffineModel",
    "ExactModel",
    "GatheringModel",
    "Model",
    "PivotedModel",
    "Prediction",
    "RecursiveModel",
    "SpectralModel",
]
