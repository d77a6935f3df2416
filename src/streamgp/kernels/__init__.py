"""Covariance functions and their algebra: ``2.0 * SquaredExponential([1.0, 3.0]) + Linear()``."""

from .affine import Affine, WeightedSum
from .algebra import Constant, Product, Scaled, Sum, White
from .base import Kernel
from .families import FAMILIES, Linear, Matern, Periodic, RationalQuadratic, dictionary
from .polynomials import BrownianPolynomial, DistancePolynomial
from .random_features import random_features
from .reading import as_kernel
from .stationary import SquaredExponential
from .trend import Trend

__all__ = [
    "FAMILIES",
    "Affine",
    "BrownianPolynomial",
    "Constant",
    "DistancePolynomial",
    "Kernel",
    "Linear",
    "Matern",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "SquaredExponential",
    "Sum",
    "Trend",
    "WeightedSum",
    "White",
    "as_kernel",
    "dictionary",
    "random_features",
]
