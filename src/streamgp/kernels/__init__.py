"""Covariance functions and their algebra: ``2.0 * SquaredExponential([1.0, 3.0]) + Linear()``."""

from .base import Constant, Kernel, Product, Scaled, Sum, White
from .polynomials import BrownianPolynomial, DistancePolynomial
from .reading import as_kernel
from .stationary import Linear, Matern, Periodic, RationalQuadratic, SquaredExponential

__all__ = [
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
    "White",
    "as_kernel",
]
