"""Random features of kernels: ψ(x) with E ψ(x)ᵀψ(x') = k(x, x'), so that ψ(x)ᵀa with normal a is a draw of the prior.

Stationary kernels have waves of random frequency (Bochner's theorem): normal for the squared exponential, Student's t
for Matérn, a gamma mixture of normals for the rational quadratic. The expectation is over frequencies and a.

References: Rahimi & Recht, Random features for large-scale kernel machines (2007). Rasmussen & Williams (2006), ch. 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from .._arrays import Array, asarray_like, namespace, ones, zeros
from ..errors import KernelError
from .affine import WeightedSum
from .algebra import Constant, Product, Scaled, Sum, White
from .base import Kernel
from .families import Linear, Matern, Periodic, RationalQuadratic
from .stationary import SquaredExponential, Stationary
from .trend import Trend

# ψ: rows (m, d) to features (m, n).
Features = Callable[[Array], Array]


@singledispatch
def random_features(kernel: Kernel, rng: np.random.Generator, n: int, Z: Array) -> Features:
    """Return ψ for a kernel, n features of a stationary one; Z (m, d) are points near which it is wanted.

    Of a kernel of your own: register a function for its class (`random_features.register`).
    """
    raise KernelError(
        f"{type(kernel).__name__} has no random features, so that functions cannot be drawn from it; use another "
        "kernel, or streamgp.kernels.random_features.register for one of your own"
    )


@dataclass(frozen=True)
class Waves:
    """Cosine and sine of `frequencies` (n/2, p) at the points of a stationary kernel, about an origin (d,)."""

    kernel: Stationary
    origin: np.ndarray
    frequencies: np.ndarray

    def __call__(self, X: Array) -> Array:
        """Return the features (m, n) of the rows of X (m, d)."""
        xp, X = namespace(X), X - asarray_like(self.origin, X)
        if isinstance(self.kernel, Periodic):
            points = self.kernel.on_circles(X)
        else:
            points = X / asarray_like(self.kernel.length_scale, X)
        angles = points @ asarray_like(self.frequencies.T, X)
        return xp.concat([xp.cos(angles), xp.sin(angles)], axis=1) / len(self.frequencies) ** 0.5


@random_features.register
def _waves(kernel: Stationary, rng: np.random.Generator, n: int, Z: Array) -> Features:
    d = Z.shape[1]
    size = (math.ceil(n / 2), 2 * d if isinstance(kernel, Periodic) else d)
    frequencies = rng.standard_normal(size)
    if isinstance(kernel, Matern):
        freedom = 2.0 * kernel.nu
        frequencies *= np.sqrt(freedom / rng.chisquare(freedom, (size[0], 1)))
    elif isinstance(kernel, RationalQuadratic):
        frequencies *= np.sqrt(rng.gamma(kernel.alpha, 1.0 / kernel.alpha, (size[0], 1)))
    elif not isinstance(kernel, SquaredExponential | Periodic):
        raise KernelError(f"{type(kernel).__name__} has no known spectrum; functions cannot be drawn from it")
    origin = np.zeros(d) if isinstance(kernel, Periodic) else _mean(Z)
    return Waves(kernel, origin, frequencies)


def _mean(Z: Array) -> np.ndarray:
    """Return the mean (d,) of the rows of Z (m, d), zero for none."""
    return np.array([float(v) for v in namespace(Z).mean(Z, axis=0)]) if Z.shape[0] else np.zeros(Z.shape[1])


@dataclass(frozen=True)
class Exact:
    """Features that a kernel has in closed form."""

    kernel: Kernel

    def __call__(self, X: Array) -> Array:
        """Return the features of the rows of X (m, d)."""
        if isinstance(self.kernel, Constant):
            return self.kernel.value**0.5 * ones((X.shape[0], 1), X)
        if isinstance(self.kernel, Linear):
            return X / asarray_like(self.kernel.length_scale, X)
        if isinstance(self.kernel, Trend):
            return self.kernel.basis(X) * asarray_like(np.sqrt(self.kernel.coefficients), X)
        return zeros((X.shape[0], 0), X)  # white noise is no part of the function


@random_features.register(Constant)
@random_features.register(White)
@random_features.register(Linear)
@random_features.register(Trend)
def _exact(kernel: Kernel, rng: np.random.Generator, n: int, Z: Array) -> Features:
    return Exact(kernel)


@dataclass(frozen=True)
class Joined:
    """The features of several parts, each times a factor, side by side."""

    parts: tuple[Features, ...]
    factors: tuple[float, ...]

    def __call__(self, X: Array) -> Array:
        """Return the features of the rows of X (m, d)."""
        each = [factor * part(X) for part, factor in zip(self.parts, self.factors, strict=True)]
        return namespace(X).concat(each, axis=1)


@random_features.register
def _of_scaled(kernel: Scaled, rng: np.random.Generator, n: int, Z: Array) -> Features:
    return Joined((random_features(kernel.kernel, rng, n, Z),), (kernel.factor**0.5,))


@random_features.register
def _of_sum(kernel: Sum, rng: np.random.Generator, n: int, Z: Array) -> Features:
    parts = tuple(random_features(part, rng, n, Z) for part in kernel.kernels)
    return Joined(parts, (1.0,) * len(parts))


@random_features.register
def _of_weighted(kernel: WeightedSum, rng: np.random.Generator, n: int, Z: Array) -> Features:
    used = [(part, weight) for part, weight in zip(kernel.kernels, kernel.weights, strict=True) if weight]
    parts = tuple(random_features(part, rng, n, Z) for part, _ in used)
    return Joined(parts, tuple(weight**0.5 for _, weight in used))


@dataclass(frozen=True)
class Multiplied:
    """Products of n features of each part, which are random mixtures, by `signs` (n_part, n) = ±1, of all it has."""

    parts: tuple[Features, ...]
    signs: tuple[np.ndarray, ...]

    def __call__(self, X: Array) -> Array:
        """Return the features (m, n) of the rows of X (m, d)."""
        out = None
        for part, signs in zip(self.parts, self.signs, strict=True):
            mixed = part(X) @ asarray_like(signs, X)
            out = mixed if out is None else out * mixed
        assert out is not None
        return out / self.signs[0].shape[1] ** 0.5


@random_features.register
def _of_product(kernel: Product, rng: np.random.Generator, n: int, Z: Array) -> Features:
    parts = tuple(random_features(part, rng, n, Z) for part in kernel.kernels)
    signs = tuple(rng.choice([-1.0, 1.0], (part(Z[:1, :]).shape[1], n)) for part in parts)
    return Multiplied(parts, signs)
