"""Kernels of the distance in length-scales, and the linear kernel.

References: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), chapter 4.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._arrays import Array, clip_below, in_place, is_foreign, namespace, ones, to_host
from ..errors import KernelError
from .affine import WeightedSum
from .base import Constant, Kernel, positive, vector
from .distances import Beforehand, centred, euclidean, squared


def _fold(per_feature: np.ndarray, value: object) -> np.ndarray:
    """One derivative a feature, or their sum where all features share one value."""
    return per_feature if isinstance(value, tuple) else per_feature.sum(keepdims=True)


def _bilinear(V: Array, A: Array, B: Array) -> np.ndarray:
    """Give Σ_ab V_ab A_aj B_bj for each feature j; shape (d,)."""
    return to_host(namespace(V).sum(A * (V @ B), axis=0)).astype(np.float64)


def _spread(V: Array, A: Array, B: Array) -> np.ndarray:
    """Give Σ_ab V_ab (A_aj − B_bj)² for each feature j; shape (d,)."""
    xp = namespace(V)
    rows, columns = xp.sum(V, axis=1), xp.sum(V, axis=0)
    own = to_host(rows @ (A * A) + columns @ (B * B)).astype(np.float64)
    return own - 2.0 * _bilinear(V, A, B)


@dataclass(frozen=True)
class _Stationary(Kernel):
    """A function of s = Σ_j (x_j − x'_j)²/ℓ_j², equal to 1 at s = 0."""

    length_scale: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("length_scale",)

    def __post_init__(self) -> None:
        value = positive(type(self).__name__, "length_scale", self.length_scale)
        object.__setattr__(self, "length_scale", value)

    def _inputs(self, X: Array, Y: Array | None) -> tuple[Array, Array]:
        return centred(X, Y, vector(self.length_scale, X.shape[1], X))

    def _squared(self, A: Array, B: Array, itself: bool) -> Array:
        return clip_below(squared(A, B, itself=itself), 0.0)

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """See Kernel."""
        A, B = self._inputs(X, Y)
        return self._of(self._squared(A, B, Y is None))

    def diag(self, X: Array) -> Array:
        """Give ones."""
        return ones((X.shape[0],), X)

    def trace(self, X: Array) -> float:
        """Give the number of rows."""
        return float(X.shape[0])

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel; dk/dlog ℓ_j = slope(s)·(x_j − x'_j)²/ℓ_j² with slope = −2 dk/ds."""
        A, B = self._inputs(X, Y)
        sq = self._squared(A, B, Y is None)
        extra = self._other_gradients(W, sq)
        return np.concatenate([_fold(_spread(W * self._slope(sq), A, B), self.length_scale), extra])

    def _other_gradients(self, W: Array, sq: Array) -> np.ndarray:
        return np.empty(0)

    @abstractmethod
    def _of(self, sq: Array) -> Array:
        """Turn squared distances into k, reusing their memory."""

    @abstractmethod
    def _slope(self, sq: Array) -> Array:
        """Give −2 dk/ds."""


@dataclass(frozen=True)
class SquaredExponential(_Stationary):
    """k = exp(−s/2), s the squared distance in length-scales; one length-scale or one a feature."""

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """See Kernel; −s/2 comes straight out of the product, so only the exponential is left."""
        A, B = self._inputs(X, Y)
        return in_place("exp", squared(A, B, itself=Y is None, factor=-0.5))

    def against(self, Z: Array) -> Callable[[Array], Array]:
        """See Kernel; for other libraries, where the host's part of small steps takes longer than the device's."""
        if not is_foreign(Z) or not Z.shape[0]:
            return super().against(Z)
        return partial(_exp_of, self, Beforehand.of(Z, vector(self.length_scale, Z.shape[1], Z), -0.5))

    def _of(self, sq: Array) -> Array:
        sq *= -0.5
        return in_place("exp", sq)

    def _slope(self, sq: Array) -> Array:
        return namespace(sq).exp(-0.5 * sq)


def _exp_of(kernel: SquaredExponential, beforehand: Beforehand, X: Array) -> Array:
    exponents = beforehand.squared(X)
    return kernel.block(X, beforehand.Z) if exponents is None else in_place("exp", exponents)


@dataclass(frozen=True)
class Matern(_Stationary):
    """The Matérn kernel of order nu = 1/2, 3/2 or 5/2; one length-scale or one a feature."""

    nu: float = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise KernelError(
                f"Matern: nu={self.nu!r} must be 0.5, 1.5 or 2.5; SquaredExponential is the limit of large nu"
            )

    def _squared(self, A: Array, B: Array, itself: bool) -> Array:
        if self.nu > 0.5:
            return super()._squared(A, B, itself)
        distance = euclidean(A, B, itself=itself)  # k is linear in the distance near 0
        distance *= distance
        return distance

    def _of(self, sq: Array) -> Array:
        r = in_place("sqrt", sq)
        if self.nu == 0.5:
            r *= -1.0
            return in_place("exp", r)
        r *= math.sqrt(2 * self.nu)
        polynomial = 1.0 + r
        if self.nu == 2.5:
            polynomial += r * r / 3.0
        r *= -1.0
        polynomial *= in_place("exp", r)
        return polynomial

    def _slope(self, sq: Array) -> Array:
        xp = namespace(sq)
        r = xp.sqrt(sq)
        if self.nu == 0.5:
            safe = xp.where(r > 0, r, xp.ones_like(r))  # at r = 0 the slope meets a difference of 0
            return xp.exp(-r) / safe
        if self.nu == 1.5:
            return 3.0 * xp.exp(-math.sqrt(3.0) * r)
        r *= math.sqrt(5.0)
        return (5.0 / 3.0) * (1.0 + r) * xp.exp(-r)


@dataclass(frozen=True)
class RationalQuadratic(_Stationary):
    """k = (1 + s/2α)^−α: a mixture of squared exponentials of many length-scales."""

    alpha: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("length_scale", "alpha")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", Constant(self.alpha).value)

    def _log_base(self, sq: Array) -> Array:
        return namespace(sq).log1p(sq * (0.5 / self.alpha))

    def _of(self, sq: Array) -> Array:
        out = self._log_base(sq)
        out *= -self.alpha
        return in_place("exp", out)

    def _slope(self, sq: Array) -> Array:
        return namespace(sq).exp(-(self.alpha + 1.0) * self._log_base(sq))

    def _other_gradients(self, W: Array, sq: Array) -> np.ndarray:
        xp = namespace(sq)
        log_base = self._log_base(sq)
        share = 1.0 - xp.exp(-log_base)  # (s/2α)/(1 + s/2α)
        return np.array([self.alpha * float(xp.sum(W * xp.exp(-self.alpha * log_base) * (share - log_base)))])


@dataclass(frozen=True)
class Periodic(_Stationary):
    """k = exp(−2 Σ_j sin²(π(x_j − x'_j)/p_j)/ℓ_j²): exactly repeating in every feature.

    On the circle (cos 2πx/p, sin 2πx/p) it is a squared exponential, and is computed as one.
    """

    period: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("length_scale", "period")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "period", positive("Periodic", "period", self.period))

    def _circle(self, X: Array) -> tuple[Array, Array]:
        xp = namespace(X)
        angle = X * (2.0 * math.pi / vector(self.period, X.shape[1], X))
        return xp.cos(angle), xp.sin(angle)

    def _inputs(self, X: Array, Y: Array | None) -> tuple[Array, Array]:
        xp = namespace(X)
        scale = vector(self.length_scale, X.shape[1], X)
        A = xp.concat([part / scale for part in self._circle(X)], axis=1)
        return A, A if Y is None else xp.concat([part / scale for part in self._circle(Y)], axis=1)

    def _of(self, sq: Array) -> Array:
        sq *= -0.5
        return in_place("exp", sq)

    def _slope(self, sq: Array) -> Array:
        return namespace(sq).exp(-0.5 * sq)

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        n_features, other = X.shape[1], X if Y is None else Y
        A, B = self._inputs(X, Y)
        V = W * self._slope(self._squared(A, B, Y is None))
        both = _spread(V, A, B)
        by_length = both[:n_features] + both[n_features:]
        # dk/dlog p = k·2(πΔ/p)·sin(2πΔ/p)/ℓ², and sin of a difference is a sum of products.
        origin = namespace(X).mean(other, axis=0)
        x, y = X - origin, other - origin
        (cx, sx), (cy, sy) = self._circle(X), self._circle(other)
        forms = _bilinear(V, x * sx, cy) - _bilinear(V, x * cx, sy) - _bilinear(V, sx, y * cy)
        forms = forms + _bilinear(V, cx, y * sy)
        by_period = forms * 2.0 * math.pi / np.asarray(self.period) / np.asarray(self.length_scale) ** 2
        return np.concatenate([_fold(by_length, self.length_scale), _fold(by_period, self.period)])


@dataclass(frozen=True)
class Linear(Kernel):
    """k = Σ_j x_j x'_j/ℓ_j²: Bayesian linear regression; add Constant for an intercept."""

    length_scale: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("length_scale",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_scale", positive("Linear", "length_scale", self.length_scale))

    def _scaled(self, X: Array) -> Array:
        return X / vector(self.length_scale, X.shape[1], X)

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """See Kernel."""
        A = self._scaled(X)
        return A @ namespace(X).matrix_transpose(A if Y is None else self._scaled(Y))

    def diag(self, X: Array) -> Array:
        """Give Σ_j x_j²/ℓ_j²."""
        A = self._scaled(X)
        return namespace(X).sum(A * A, axis=1)

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        A = self._scaled(X)
        per_feature = -2.0 * _bilinear(W, A, A if Y is None else self._scaled(Y))
        return _fold(per_feature, self.length_scale)


def dictionary(length_scale: Any = 1.0, n: int = 8, low: float = 0.03125, high: float = 4.0) -> WeightedSum:
    """Give a sum of n squared exponentials to learn the weights of, and no length-scale.

    Their length-scales are `length_scale`, one or one a feature, times a geometric range from low to high. By
    Schoenberg's theorem mixtures of these are all the isotropic kernels that are valid in every dimension.
    """
    if not (isinstance(n, int) and n >= 1 and 0 < low <= high < math.inf):
        raise KernelError(
            f"dictionary: n={n!r}, low={low!r}, high={high!r} must be 1 or more, and 0 < low <= high"
        )
    given = np.asarray(positive("dictionary", "length_scale", length_scale))
    return WeightedSum(tuple(SquaredExponential(given * factor) for factor in np.geomspace(low, high, n)))
