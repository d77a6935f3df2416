"""Conversion of scikit-learn's kernels, so that those of GaussianProcessRegressor can be used as they are."""

from __future__ import annotations

import math

import numpy as np
from sklearn.gaussian_process import kernels as sk

from ..errors import KernelError
from .algebra import Constant, White
from .base import Kernel
from .families import Linear, Matern, Periodic, RationalQuadratic
from .stationary import SquaredExponential


def as_kernel(kernel: object) -> Kernel:
    """Return the streamgp kernel equal to `kernel`, which is a kernel of streamgp or of scikit-learn."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel | sk.Kernel):
        raise KernelError(f"kernel={kernel.__name__} is a class; use an object: {kernel.__name__}()")
    if isinstance(kernel, sk.Kernel):
        return _read(kernel)
    raise KernelError(
        f"kernel={kernel!r} is a {type(kernel).__name__}; use a kernel of streamgp.kernels or of "
        "sklearn.gaussian_process.kernels, or None"
    )


def _read(kernel: sk.Kernel) -> Kernel:
    # scikit-learn uses the value of an array of one for all features.
    if np.shape(getattr(kernel, "length_scale", 0.0)) == (1,):
        kernel = kernel.clone_with_theta(kernel.theta)
        kernel.length_scale = float(np.ravel(kernel.length_scale)[0])
    match kernel:
        case sk.Sum(k1=a, k2=b):
            return _read(a) + _read(b)
        case sk.Product(k1=a, k2=b):
            return _read(a) * _read(b)
        case sk.ConstantKernel(constant_value=value):
            return Constant(value)
        case sk.WhiteKernel(noise_level=level):
            return White(level)
        case sk.Matern(length_scale=scale, nu=nu):  # before RBF, which is its base class
            return SquaredExponential(scale) if nu == math.inf else Matern(scale, nu)
        case sk.RBF(length_scale=scale):
            return SquaredExponential(scale)
        case sk.RationalQuadratic(length_scale=scale, alpha=alpha):
            return RationalQuadratic(scale, alpha)
        case sk.ExpSineSquared(length_scale=scale, periodicity=period):
            # scikit-learn takes the sine of the Euclidean distance, which is our kernel for one feature only;
            # a tuple of one value makes any other number of features an error.
            return Periodic((scale,), (period,))
        case sk.DotProduct(sigma_0=sigma):
            return Linear(1.0) + Constant(sigma**2) if sigma else Linear(1.0)
        case sk.Exponentiation(kernel=inner, exponent=power) if power == int(power) and power >= 1:
            read = _read(inner)
            out = read
            for _ in range(int(power) - 1):
                out = out * read
            return out
    raise KernelError(
        f"cannot read {kernel!r}; supported: ConstantKernel, WhiteKernel, RBF, Matern (nu 0.5, 1.5, 2.5, inf), "
        "RationalQuadratic, ExpSineSquared, DotProduct, whole powers, sums and products of these"
    )
