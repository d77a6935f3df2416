"""The paper's distance kernel, eq. (5), and a positive semi-definite kernel of the same form.

Eq. (5) of the paper sums Hadamard powers of the distance matrix D. D has trace zero, so it is not positive
semi-definite and Schur's theorem does not apply to its powers: `DistancePolynomial` is indefinite and needs a method
that keeps the signs of eigenvalues. `BrownianPolynomial` has the covariance of Lévy's Brownian motion in the place of
D; that is positive semi-definite, and so, by Schur's theorem, are its Hadamard powers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._arrays import Array, asarray_like, namespace
from ..errors import KernelError
from .affine import Affine
from .base import Kernel, non_negative
from .stationary import centred, euclidean


@dataclass(frozen=True)
class _Polynomial(Affine):
    """a₀I + Σᵢ aᵢ·base^i with entrywise powers; a₀ is white noise and only in `nugget`.

    theta holds the logarithms of the nonzero weights a₁, a₂, …; zero weights stay zero.
    """

    weights: Any = (0.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        meaning = "two or more, the first of the identity, the others of the powers 1, 2, …"
        weights = non_negative(type(self).__name__, self.weights, meaning)
        if len(weights) < 2:
            raise KernelError(f"{type(self).__name__}: weights={self.weights!r} must be {meaning}")
        object.__setattr__(self, "weights", weights)

    @property
    def degree(self) -> int:
        """The highest power of the base."""
        return len(self.weights) - 1

    def _used(self) -> list[int]:
        """Return the powers with nonzero weights."""
        return [i for i in super()._used() if i]

    def part_blocks(self, X: Array, Y: Array | None, which: Sequence[int]) -> list[Array]:
        """See Affine; the base is computed once for all powers."""
        base, powers = self._base(X, Y), self._used()
        return [base if powers[i] == 1 else base ** powers[i] for i in which]

    @property
    def nugget(self) -> float:
        """The weight a₀ of the identity."""
        return float(self.weights[0])

    def without_nugget(self) -> Kernel:
        """See Kernel."""
        return replace(self, weights=(0.0, *self.weights[1:]))

    @abstractmethod
    def _base(self, X: Array, Y: Array | None) -> Array:
        """Return the matrix whose powers are summed; a new array, shape (n, m)."""

    def _sum_of_powers(self, base: Array) -> Array:
        """Return Σᵢ aᵢ·base^i for i from 1."""
        out = base * self.weights[-1]  # Horner's rule
        for weight in self.weights[-2:0:-1]:
            out += weight
            out *= base
        return out

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """See Kernel."""
        return self._sum_of_powers(self._base(X, Y))

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        base, xp = self._base(X, Y), namespace(X)
        return np.array([self.weights[i] * float(xp.sum(W * base**i)) for i in self._used()])


@dataclass(frozen=True)
class DistancePolynomial(_Polynomial):
    """The paper's eq. (5): k = a₀δ + Σᵢ aᵢ‖x − x'‖^i, no weight below 0. Not positive semi-definite.

    Parameters
    ----------
    weights : sequence of float, length degree + 1
        a₀, a₁, …, a_degree.
    """

    prior_variance: ClassVar[float] = 0.0

    def _base(self, X: Array, Y: Array | None) -> Array:
        return euclidean(*centred(X, Y, None), itself=Y is None)

    def part_diags(self, X: Array) -> list[Array]:
        """See Affine."""
        return [self.diag(X) for _ in self._used()]

    @property
    def quadratic(self) -> int | None:
        """The number of the part that is the squared distance, whose rank is d + 2; None if its weight is zero."""
        return self._used().index(2) if 2 in self._used() else None

    @property
    def positive_semidefinite(self) -> bool:
        """False: a kernel matrix has trace zero."""
        return False


@dataclass(frozen=True)
class BrownianPolynomial(_Polynomial):
    """k = a₀δ + Σᵢ aᵢ·B^i with B = ‖x − o‖ + ‖x' − o‖ − ‖x − x'‖. Positive semi-definite.

    Parameters
    ----------
    weights : as in DistancePolynomial
    origin : sequence of float, length d, optional
        The point o where the function is zero. Default: the zero vector.
    """

    origin: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.origin is not None:
            try:
                origin = np.asarray(self.origin, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise KernelError(
                    f"BrownianPolynomial: origin={self.origin!r} must be numbers, one per feature"
                ) from error
            if origin.ndim != 1 or not np.isfinite(origin).all():
                raise KernelError(
                    f"BrownianPolynomial: origin={self.origin!r} must be finite numbers, one per feature"
                )
            object.__setattr__(self, "origin", tuple(float(v) for v in origin))

    def _norms(self, X: Array) -> Array:
        """Return ‖x − o‖ for each row of X (n, d); shape (n,)."""
        xp = namespace(X)
        centre = 0.0 if self.origin is None else asarray_like(self.origin, X)
        return xp.sqrt(xp.sum((X - centre) ** 2, axis=1))

    def _base(self, X: Array, Y: Array | None) -> Array:
        out = euclidean(*centred(X, Y, None), itself=Y is None)
        out *= -1.0
        out += self._norms(X)[:, None]
        out += self._norms(X if Y is None else Y)[None, :]
        return out

    def diag(self, X: Array) -> Array:
        """Return Σᵢ aᵢ(2‖x − o‖)^i for each row."""
        return self._sum_of_powers(2.0 * self._norms(X))

    def part_diags(self, X: Array) -> list[Array]:
        """See Affine."""
        return [(2.0 * self._norms(X)) ** i for i in self._used()]

    def check_features(self, n_features: int) -> None:
        """See Kernel."""
        if self.origin is not None and len(self.origin) != n_features:
            raise KernelError(
                f"BrownianPolynomial: origin has {len(self.origin)} numbers, the data has {n_features} features; "
                "use one number for each feature"
            )
