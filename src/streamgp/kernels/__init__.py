"""Covariance functions and their algebra: ``2.0 * SquaredExponential([1.0, 3.0]) + Linear()``."""

from .affine import Affine, WeightedSum
from .base import Constant, Kernel, Product, Scaled, Sum, White
from .polynomials import BrownianPolynomial, DistancePolynomial
from .reading import as_kernel
from .stationary import Linear, Matern, Periodic, RationalQuadratic, SquaredExponential, dictionary

__all__ = [
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
    "WeightedSum",
    "White",
    "as_kernel",
    "dictionary",
]
