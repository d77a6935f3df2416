"""The other families: Matérn, rational quadratic, periodic, linear; and a dictionary of squared exponentials.

References: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._arrays import Array, asarray_like, in_place, namespace
from ..errors import KernelError
from .affine import WeightedSum
from .base import Kernel, positive, positive_number
from .stationary import SquaredExponential, Stationary, bilinear, euclidean, sum_if_shared, weighted_squares


@dataclass(frozen=True)
class Matern(Stationary):
    """The Matérn kernel of order nu = 1/2, 3/2 or 5/2; one length-scale or one per feature."""

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
            safe = xp.where(r > 0, r, xp.ones_like(r))  # at r = 0 the slope is multiplied by 0
            return xp.exp(-r) / safe
        if self.nu == 1.5:
            return 3.0 * xp.exp(-math.sqrt(3.0) * r)
        r *= math.sqrt(5.0)
        return (5.0 / 3.0) * (1.0 + r) * xp.exp(-r)


@dataclass(frozen=True)
class RationalQuadratic(Stationary):
    """k = (1 + s/2α)^−α: a mixture of squared exponentials of many length-scales."""

    alpha: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("length_scale", "alpha")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", positive_number("RationalQuadratic", "alpha", self.alpha))

    def _log_base(self, sq: Array) -> Array:
        """Return log(1 + s/2α)."""
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
class Periodic(Stationary):
    """k = exp(−2 Σ_j sin²(π(x_j − x'_j)/p_j)/ℓ_j²): exactly periodic in every feature.

    On the circle (cos 2πx/p, sin 2πx/p) it is a squared exponential, and is computed as one.
    """

    period: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("length_scale", "period")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "period", positive("Periodic", "period", self.period))

    def _circle(self, X: Array) -> tuple[Array, Array]:
        """Return cos 2πx/p and sin 2πx/p, each (n, d)."""
        xp = namespace(X)
        angle = X * (2.0 * math.pi / asarray_like(self.period, X))
        return xp.cos(angle), xp.sin(angle)

    def on_circles(self, X: Array) -> Array:
        """Return the points (n, 2d) on circles whose squared distances are s."""
        scale = asarray_like(self.length_scale, X)
        return namespace(X).concat([part / scale for part in self._circle(X)], axis=1)

    def _inputs(self, X: Array, Y: Array | None) -> tuple[Array, Array]:
        self.check_features(X.shape[1])
        A = self.on_circles(X)
        return A, A if Y is None else self.on_circles(Y)

    def _by_inputs(self, X: Array, by_points: Array) -> Array:
        """See Stationary: the points are on circles."""
        d, (c, s) = X.shape[1], self._circle(X)
        turn = 2.0 * math.pi / asarray_like(self.period, X) / asarray_like(self.length_scale, X)
        return (by_points[:, d:] * c - by_points[:, :d] * s) * turn

    def blocks(self, X: Array) -> Array:
        """See Kernel; set by set."""
        return Kernel.blocks(self, X)

    def nearness(self, n_features: int) -> np.ndarray | None:
        """None: points a period apart are near."""
        return None

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
        both = weighted_squares(V, A, B)
        by_length = both[:n_features] + both[n_features:]
        # dk/dlog p = k·2(πΔ/p)·sin(2πΔ/p)/ℓ², and sin of a difference is a sum of products.
        origin = namespace(X).mean(other, axis=0)
        x, y = X - origin, other - origin
        (cx, sx), (cy, sy) = self._circle(X), self._circle(other)
        forms = bilinear(V, x * sx, cy) - bilinear(V, x * cx, sy) - bilinear(V, sx, y * cy)
        forms = forms + bilinear(V, cx, y * sy)
        by_period = forms * 2.0 * math.pi / np.asarray(self.period) / np.asarray(self.length_scale) ** 2
        return np.concatenate(
            [sum_if_shared(by_length, self.length_scale), sum_if_shared(by_period, self.period)]
        )


@dataclass(frozen=True)
class Linear(Kernel):
    """k = Σ_j x_j x'_j/ℓ_j²: Bayesian linear regression; add Constant for an intercept."""

    length_scale: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("length_scale",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_scale", positive("Linear", "length_scale", self.length_scale))

    def _scaled(self, X: Array) -> Array:
        """Return X (n, d) in length-scales."""
        self.check_features(X.shape[1])
        return X / asarray_like(self.length_scale, X)

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """See Kernel."""
        A = self._scaled(X)
        return A @ namespace(X).matrix_transpose(A if Y is None else self._scaled(Y))

    def diag(self, X: Array) -> Array:
        """Return Σ_j x_j²/ℓ_j² for each row."""
        A = self._scaled(X)
        return namespace(X).sum(A * A, axis=1)

    def input_gradient(self, X: Array, Z: Array, C: Array) -> Array:
        """See Kernel."""
        return (C @ self._scaled(Z)) / asarray_like(self.length_scale, X)

    def diag_input_gradient(self, X: Array) -> Array:
        """See Kernel."""
        return 2.0 * self._scaled(X) / asarray_like(self.length_scale, X)

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        A = self._scaled(X)
        per_feature = -2.0 * bilinear(W, A, A if Y is None else self._scaled(Y))
        return sum_if_shared(per_feature, self.length_scale)


def dictionary(length_scale: Any = 1.0, n: int = 8, low: float = 0.03125, high: float = 4.0) -> WeightedSum:
    """Return a sum of n squared exponentials of fixed length-scales, whose weights are learned.

    The length-scales are `length_scale`, one or one per feature, times a geometric range from low to high. By
    Schoenberg's theorem, mixtures of squared exponentials are all isotropic kernels that are valid in every dimension.
    """
    if not (isinstance(n, int) and n >= 1 and 0 < low <= high < math.inf):
        raise KernelError(
            f"dictionary: n={n!r} must be a whole number, 1 or more; low={low!r} and high={high!r} must be finite, "
            "with 0 < low <= high"
        )
    given = np.asarray(positive("dictionary", "length_scale", length_scale))
    return WeightedSum(tuple(SquaredExponential(given * factor) for factor in np.geomspace(low, high, n)))


# Families by name, made from one length-scale per feature.
FAMILIES: dict[str, Callable[[np.ndarray], Kernel]] = {
    "squared_exponential": SquaredExponential,
    "matern12": lambda lengths: Matern(lengths, nu=0.5),
    "matern32": lambda lengths: Matern(lengths, nu=1.5),
    "matern52": lambda lengths: Matern(lengths, nu=2.5),
    "rational_quadratic": RationalQuadratic,
    "dictionary": dictionary,
}
