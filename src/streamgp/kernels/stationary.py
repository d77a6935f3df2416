"""Squared distances in length-scales, and the kernels that are functions of them: Stationary, SquaredExponential.

A squared distance comes from one matrix product; where that is not accurate enough, from differences.

References: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), chapter 4.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._arrays import (
    Array,
    asarray_like,
    clip_below,
    empty,
    eps,
    fetch,
    in_place,
    is_foreign,
    namespace,
    product,
    to_host,
)
from ..errors import InputError, KernelError
from .base import Kernel, Positive, positive

# Pairs closer than this share of their squared norm lose digits that show after a square root.
NEAR = 1e-6


# Distances


def centred(X: Array, Y: Array | None, scale: Positive | None) -> tuple[Array, Array]:
    """Return X (n, d) and Y (m, d), or X twice, minus the mean of the smaller set and divided by `scale`.

    Distances do not change, and near the mean fewer digits are lost to cancellation.
    """
    xp = namespace(X)
    other = X if Y is None else Y
    smaller = other if 0 < other.shape[0] <= X.shape[0] or X.shape[0] == 0 else X
    origin = xp.mean(smaller, axis=0) if smaller.shape[0] else 0.0
    A = X - origin
    B = A if Y is None else Y - origin
    if scale is not None:
        if isinstance(scale, tuple) and len(scale) != X.shape[1]:
            raise KernelError(f"the kernel has {len(scale)} length-scales, X has {X.shape[1]} features")
        inverse = 1.0 / asarray_like(scale, X)
        A *= inverse
        if Y is not None:
            B *= inverse
    return A, B


def squared(A: Array, B: Array, *, itself: bool, factor: float = 1.0) -> Array:
    """Return factor · ‖a − b‖² between the rows of A (n, d) and B (m, d), shape (n, m); `itself`: B is A.

    The augmented product [A, ‖A‖², 1]·[−2B, 1, ‖B‖²]ᵀ writes the result once. Its error is about
    eps·(‖a‖² + ‖b‖²); where that would reach √eps/10 the differences are taken one feature at a time.
    """
    xp, (n, d), m = namespace(A, B), A.shape, B.shape[0]
    a2, b2 = xp.vecdot(A, A), xp.vecdot(B, B)
    largest = float(xp.max(a2) + xp.max(b2)) if n and m else 0.0
    precision = xp.finfo(A.dtype)
    if not largest < float(precision.max) / 4:
        raise InputError(
            f"the squared distance in length-scales reaches {largest:g}, beyond the range of {A.dtype}; "
            "scale X down or use longer length-scales"
        )
    if float(precision.eps) * largest > 0.1 * float(precision.eps) ** 0.5:
        out = _by_differences(A, B)
        out *= factor
    else:
        left, right = empty((n, d + 2), A), empty((m, d + 2), B)
        left[:, :d], left[:, d], left[:, d + 1] = A, a2, 1.0
        right[:, :d], right[:, d], right[:, d + 1] = -2.0 * factor * B, factor, factor * b2
        out = product(left, xp.matrix_transpose(right))
    if not itself:
        return out
    flat = xp.reshape(out, (-1,))
    flat[:: n + 1] = 0.0  # the diagonal
    return xp.reshape(flat, out.shape)


def _by_differences(A: Array, B: Array) -> Array:
    out = (A[:, 0][:, None] - B[:, 0][None, :]) ** 2
    for j in range(1, A.shape[1]):
        out += (A[:, j][:, None] - B[:, j][None, :]) ** 2
    return out


@dataclass(frozen=True)
class FixedPoints:
    """The half of `squared` that depends on one of the two sets only: the points Z (m, d).

    Attributes
    ----------
    Z : (m, d)
    origin : (d,)
        Mean of Z.
    inverse : () or (d,)
        Inverse length-scales.
    right : (d + 2, m)
        The augmented Z of `squared`, centred and scaled.
    largest : float
        Largest squared norm of a centred and scaled point.
    """

    Z: Array
    origin: Array
    inverse: Array
    right: Array
    largest: float

    @classmethod
    def of(cls, Z: Array, scale: Array, factor: float) -> FixedPoints:
        """Prepare factor · ‖(x − z)/scale‖² for the points Z (m, d) and any x."""
        xp = namespace(Z)
        origin, inverse = xp.mean(Z, axis=0), 1.0 / scale
        B = (Z - origin) * inverse
        b2 = xp.sum(B * B, axis=1)
        columns = [-2.0 * factor * B, (factor * xp.ones_like(b2))[:, None], (factor * b2)[:, None]]
        return cls(Z, origin, inverse, xp.matrix_transpose(xp.concat(columns, axis=1)), float(xp.max(b2)))

    def squared(self, X: Array) -> Array | None:
        """Return the squared distances from the rows of X (n, d), shape (n, m); None if they need differences."""
        xp = namespace(X)
        A = (X - self.origin) * self.inverse
        a2 = xp.sum(A * A, axis=1)
        if not eps(A) * (fetch(xp.max(a2)) + self.largest) <= 0.1 * eps(A) ** 0.5:
            return None
        return xp.concat([A, a2[:, None], xp.ones_like(a2)[:, None]], axis=1) @ self.right


def euclidean(A: Array, B: Array, *, itself: bool) -> Array:
    """Return ‖a − b‖ between the rows of A (n, d) and B (m, d), accurate for close pairs too; shape (n, m)."""
    xp = namespace(A, B)
    sq = squared(A, B, itself=itself)
    rows, columns = xp.nonzero(sq < NEAR * xp.vecdot(A, A)[:, None])
    if rows.shape[0]:
        # A square root turns an error of eps in the square into √eps, so these few come from differences.
        difference = xp.take(A, rows, axis=0) - xp.take(B, columns, axis=0)
        sq = _with_entries(sq, rows, columns, xp.sum(difference * difference, axis=1))
    return in_place("sqrt", clip_below(sq, 0.0))


def _with_entries(matrix: Array, rows: Array, columns: Array, values: Array) -> Array:
    """Return the matrix with these values at these rows and columns, in the memory of the matrix if possible."""
    xp = namespace(matrix)
    flat = xp.reshape(matrix, (-1,))
    index = rows * matrix.shape[1] + columns
    try:
        flat[index] = values
    except IndexError:  # the array API standard has no assignment by an index array
        for i in range(index.shape[0]):
            flat[int(index[i])] = values[i]
    return xp.reshape(flat, matrix.shape)


# Derivatives by length-scales


def sum_if_shared(per_feature: np.ndarray, value: object) -> np.ndarray:
    """Return one derivative per feature, or their sum if all features share one value."""
    return per_feature if isinstance(value, tuple) else per_feature.sum(keepdims=True)


def bilinear(V: Array, A: Array, B: Array) -> np.ndarray:
    """Return Σ_ab V_ab A_aj B_bj for each feature j; shape (d,)."""
    return to_host(namespace(V).sum(A * (V @ B), axis=0)).astype(np.float64)


def weighted_squares(V: Array, A: Array, B: Array) -> np.ndarray:
    """Return Σ_ab V_ab (A_aj − B_bj)² for each feature j; shape (d,)."""
    xp = namespace(V)
    rows, columns = xp.sum(V, axis=1), xp.sum(V, axis=0)
    own = to_host(rows @ (A * A) + columns @ (B * B)).astype(np.float64)
    return own - 2.0 * bilinear(V, A, B)


# Kernels


@dataclass(frozen=True)
class Stationary(Kernel):
    """A function of s = Σ_j (x_j − x'_j)²/ℓ_j², equal to 1 at s = 0; one length-scale ℓ or one per feature."""

    length_scale: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("length_scale",)
    prior_variance: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        value = positive(type(self).__name__, "length_scale", self.length_scale)
        object.__setattr__(self, "length_scale", value)

    def _inputs(self, X: Array, Y: Array | None) -> tuple[Array, Array]:
        """Return the two sets of points whose squared distances are s."""
        return centred(X, Y, self.length_scale)

    def _squared(self, A: Array, B: Array, itself: bool) -> Array:
        """Return s, none below 0."""
        return clip_below(squared(A, B, itself=itself), 0.0)

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """See Kernel."""
        A, B = self._inputs(X, Y)
        return self._of(self._squared(A, B, Y is None))

    def blocks(self, X: Array) -> Array:
        """See Kernel; distances are taken about the last point of each set."""
        xp, n = namespace(X), X.shape[1]
        A = (X - X[:, -1:, :]) / asarray_like(self.length_scale, X)
        a2 = xp.vecdot(A, A)
        sq = A @ xp.matrix_transpose(A)
        sq *= -2.0
        sq += a2[:, :, None]
        sq += a2[:, None, :]
        flat = xp.reshape(clip_below(sq, 0.0), (X.shape[0], n * n))
        flat[:, :: n + 1] = 0.0  # the diagonals
        return self._of(xp.reshape(flat, (X.shape[0], n, n)))

    def nearness(self, n_features: int) -> np.ndarray | None:
        """See Kernel; one over the squared length-scale of each feature."""
        return np.array(np.broadcast_to(np.asarray(self.length_scale) ** -2.0, (n_features,)))

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel; dk/dlog ℓ_j = slope(s)·(x_j − x'_j)²/ℓ_j² with slope = −2 dk/ds."""
        A, B = self._inputs(X, Y)
        sq = self._squared(A, B, Y is None)
        extra = self._other_gradients(W, sq)
        return np.concatenate(
            [sum_if_shared(weighted_squares(W * self._slope(sq), A, B), self.length_scale), extra]
        )

    def input_gradient(self, X: Array, Z: Array, C: Array) -> Array:
        """See Kernel; ∂k/∂x_j = −slope(s)·(x_j − z_j)/ℓ_j². O(n m d)."""
        A, B = self._inputs(X, Z)
        V = C * self._slope(self._squared(A, B, itself=False))
        inward = product(V, B) - namespace(V).sum(V, axis=1)[:, None] * A
        return self._by_inputs(X, inward)

    def _by_inputs(self, X: Array, by_points: Array) -> Array:
        """Return derivatives by the rows of X (n, d) from those by the points of `_inputs`."""
        return by_points / asarray_like(self.length_scale, X)

    def _other_gradients(self, W: Array, sq: Array) -> np.ndarray:
        """Return the derivatives by hyperparameters other than length-scales."""
        return np.empty(0)

    @abstractmethod
    def _of(self, sq: Array) -> Array:
        """Return k for the squared distances s, in their memory."""

    @abstractmethod
    def _slope(self, sq: Array) -> Array:
        """Return −2 dk/ds."""


@dataclass(frozen=True)
class SquaredExponential(Stationary):
    """k = exp(−s/2), s the squared distance in length-scales; one length-scale or one per feature."""

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """See Kernel; the product gives −s/2 itself, so that only the exponential is left."""
        A, B = centred(X, Y, self.length_scale)
        return in_place("exp", squared(A, B, itself=Y is None, factor=-0.5))

    def against(self, Z: Array) -> Callable[[Array], Array]:
        """See Kernel; for libraries other than NumPy, whose small steps are bound by the host, not the device."""
        if not is_foreign(Z) or not Z.shape[0]:
            return super().against(Z)
        self.check_features(Z.shape[1])
        return partial(_exponential, self, FixedPoints.of(Z, asarray_like(self.length_scale, Z), -0.5))

    def _of(self, sq: Array) -> Array:
        sq *= -0.5
        return in_place("exp", sq)

    def _slope(self, sq: Array) -> Array:
        return namespace(sq).exp(-0.5 * sq)


def _exponential(kernel: SquaredExponential, points: FixedPoints, X: Array) -> Array:
    exponents = points.squared(X)
    return kernel.block(X, points.Z) if exponents is None else in_place("exp", exponents)
