"""State machines: each learns a batch and returns the next state."""

from .base import Model, Prediction
from .exact import ExactModel
from .pivoted import PivotedModel
from .recursive import RecursiveModel
from .spectral import SpectralModel

__all__ = ["ExactModel", "Model", "PivotedModel", "Prediction", "RecursiveModel", "SpectralModel"]
