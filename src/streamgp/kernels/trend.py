"""Trend: a constant plus a linear function of the features, a kernel of finitely many features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from .._arrays import Array, asarray_like, clipped, empty, namespace
from ..errors import KernelError
from .base import Kernel, positive, positive_number

# A feature counts as at most so many units from the origin: a reading of 1e9 must not decide the trend, and the
# squares of the features (1e4) leave twelve digits to what the trend does not explain.
FARTHEST = 100.0


@dataclass(frozen=True)
class Trend(Kernel):
    """k = level + slope/d · Σ_j t_j t'_j with t_j = (x_j − origin_j)/unit_j, held constant beyond 100 units.

    The prior of a Bayesian linear regression on standardised features. Its d + 1 features are known in closed form
    (`basis`), so that inducing points are not spent on it and nothing of it is lost when they are exchanged.

    Parameters
    ----------
    origin, unit : (d,)
        Centre and spread of the features; not tuned.
    level, slope : float
        Prior variances of the constant and, summed over the features, of the linear part one unit away.
    """

    origin: Any
    unit: Any
    level: Any = 1.0
    slope: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("level", "slope")

    def __post_init__(self) -> None:
        origin = np.asarray(self.origin, dtype=np.float64)
        unit = np.asarray(positive("Trend", "unit", self.unit), dtype=np.float64)
        if origin.ndim != 1 or origin.shape != unit.shape or not np.isfinite(origin).all():
            raise KernelError(
                f"Trend: origin={self.origin!r} and unit={self.unit!r} must be as many finite numbers as features"
            )
        object.__setattr__(self, "origin", tuple(map(float, origin)))
        object.__setattr__(self, "unit", tuple(map(float, unit)))
        for name in self._hyperparameters:
            object.__setattr__(self, name, positive_number("Trend", name, getattr(self, name)))

    @cached_property
    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and spread as arrays (d,)."""
        return np.array(self.origin), np.array(self.unit)

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Prior variances of the constant and of each coefficient, shape (d + 1,)."""
        d = len(self.unit)
        return np.append(self.level, np.full(d, self.slope / d))

    def basis(self, X: Array) -> Array:
        """Return 1 and t for each row of X (n, d); shape (n, d + 1)."""
        self.check_features(X.shape[1])
        out = empty((X.shape[0], X.shape[1] + 1), X)
        out[:, 0] = 1.0
        origin, unit = (asarray_like(v, X) for v in self._units)
        out[:, 1:] = clipped((X - origin) / unit, -FARTHEST, FARTHEST)
        return out

    def against_coefficients(self, X: Array) -> Array:
        """Return the covariance of the function at X (n, d) with its coefficients; shape (n, d + 1)."""
        return self.basis(X) * asarray_like(self.coefficients, X)

    def coefficients_in(self, other: Self) -> np.ndarray:
        """Return B (d + 1, d + 1) that turns coefficients of this trend into those of `other`, the same function.

        Exact within FARTHEST units.
        """
        unit, theirs = np.array(self.unit), np.array(other.unit)
        B = np.diag(np.append(1.0, theirs / unit))
        B[0, 1:] = (np.array(other.origin) - np.array(self.origin)) / unit
        return B

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """See Kernel."""
        xp = namespace(X)
        other = self.basis(X) if Y is None else self.basis(Y)
        return self.against_coefficients(X) @ xp.matrix_transpose(other)

    def against(self, Z: Array) -> Callable[[Array], Array]:
        """See Kernel."""
        prepared = namespace(Z).matrix_transpose(self.basis(Z))
        return lambda X: self.against_coefficients(X) @ prepared

    def diag(self, X: Array) -> Array:
        """See Kernel."""
        xp, t = namespace(X), self.basis(X)
        return xp.sum(t * t * asarray_like(self.coefficients, X), axis=1)

    def by_coefficients(self, X: Array, C: Array) -> Array:
        """Return the derivative by x of basis(x)·C for the rows of X (n, d) and C (n, d + 1); shape (n, d)."""
        xp, (origin, unit) = namespace(X), (asarray_like(v, X) for v in self._units)
        inside = xp.abs((X - origin) / unit) < FARTHEST
        return xp.where(inside, C[:, 1:] / unit, 0.0 * X)

    def input_gradient(self, X: Array, Z: Array, C: Array) -> Array:
        """See Kernel."""
        return self.by_coefficients(X, C @ self.against_coefficients(Z))

    def diag_input_gradient(self, X: Array) -> Array:
        """See Kernel."""
        return self.by_coefficients(X, 2.0 * self.against_coefficients(X))

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        xp = namespace(X)
        A = self.basis(X)
        B = A if Y is None else self.basis(Y)
        products = xp.sum(A * (W @ B), axis=0)
        linear = self.slope / len(self.unit) * float(xp.sum(products[1:]))
        return np.array([self.level * float(products[0]), linear])

    def split(self) -> tuple[Trend | None, Kernel | None]:
        """See Kernel."""
        return self, None

    def check_features(self, n_features: int) -> None:
        """See Kernel."""
        if len(self.unit) != n_features:
            raise KernelError(f"Trend is of {len(self.unit)} features, the data has {n_features}")

    def moved(self, origin: np.ndarray, unit: np.ndarray) -> Self:
        """Return the trend about another origin and in other units, with the same variances."""
        return replace(self, origin=tuple(map(float, origin)), unit=tuple(map(float, unit)))
