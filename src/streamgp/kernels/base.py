"""Kernel, the interface of every covariance function, and the checks of hyperparameters."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard

import numpy as np

from .._arrays import Array, double, namespace
from ..errors import KernelError
from .derivatives import Differentiable

if TYPE_CHECKING:
    from .trend import Trend

Positive = float | tuple[float, ...]


def positive(owner: str, name: str, value: object) -> Positive:
    """Return a hyperparameter as a positive number or a tuple of them, one per feature; raise KernelError otherwise."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise KernelError(
            f"{owner}: {name}={value!r} is not a number; use a positive number, or one per feature"
        ) from error
    if array.ndim > 1 or array.size == 0 or not (np.isfinite(array) & (array > 0)).all():
        raise KernelError(
            f"{owner}: {name}={value!r} must be positive and finite; use a number above 0, or one per feature"
        )
    return float(array) if array.ndim == 0 else tuple(float(v) for v in array)


def positive_number(owner: str, name: str, value: object) -> float:
    """Return a hyperparameter as one positive number; raise KernelError otherwise."""
    number = positive(owner, name, value)
    if isinstance(number, tuple):
        raise KernelError(f"{owner}: {name}={value!r} must be a single number")
    return number


def non_negative(owner: str, weights: Sequence[float], meaning: str) -> tuple[float, ...]:
    """Return the weights of an affine kernel as finite numbers, none below 0; raise KernelError otherwise."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise KernelError(f"{owner}: weights={weights!r} must be a sequence of numbers") from error
    if array.ndim != 1 or not array.size or not (np.isfinite(array) & (array >= 0)).all():
        raise KernelError(f"{owner}: weights={weights!r} must be finite numbers, none below 0: {meaning}")
    return tuple(float(w) for w in array)


class Kernel(Differentiable, ABC):
    """A covariance function k(x, x'). Immutable; every operation returns a new kernel.

    A subclass is a frozen dataclass that defines

    - `block` and `gradient`;
    - `_hyperparameters`, the names of its positive fields, in the order of the entries of `gradient`;
    - `prior_variance` if k(x, x) is the same for every x, as for stationary kernels; otherwise `diag`.

    White noise is never part of `block` or `diag`: it is in `nugget`, and the methods add it to their noise.
    """

    _hyperparameters: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Return k between the rows of X (n, d) and of Y (m, d), or of X itself; a new array, shape (n, m)."""

    @property
    def prior_variance(self) -> float | None:
        """k(x, x) if it is the same for every x, otherwise None."""
        return None

    def diag(self, X: Array) -> Array:
        """Return k(x, x) for each row of X (n, d); a new array, shape (n,)."""
        if self.prior_variance is None:
            raise KernelError(f"{type(self).__name__} must define `diag` or `prior_variance`")
        return self.prior_variance * namespace(X).ones_like(X[:, 0])

    def trace(self, X: Array) -> float:
        """Return Σ k(x, x) over the rows of X (n, d)."""
        if self.prior_variance is not None:
            return float(X.shape[0] * self.prior_variance)
        return float(namespace(X).sum(double(self.diag(X))))

    def against(self, Z: Array) -> Callable[[Array], Array]:
        """Return the function X ↦ block(X, Z), with the part that depends on Z (m, d) alone prepared if that pays."""
        return partial(self.block, Y=Z)

    def blocks(self, X: Array) -> Array:
        """Return k(Xᵢ, Xᵢ) of m sets of n points each, X (m, n, d); shape (m, n, n)."""
        xp = namespace(X)
        return xp.stack([self.block(X[i, :, :]) for i in range(X.shape[0])])

    def nearness(self, n_features: int) -> np.ndarray | None:
        """Return weights (d,) of squared differences: points are the nearer, the smaller the weighted sum.

        None where the kernel is not a falling function of such a sum, nor close to one.
        """
        return None

    @abstractmethod
    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """Return the derivative of Σ W∘block(X, Y) by theta, shape (p,), for W (n, m); O(n m) memory."""

    @property
    def theta(self) -> np.ndarray:
        """The logarithms of the hyperparameters, shape (p,)."""
        values = [np.atleast_1d(getattr(self, name)) for name in self._hyperparameters]
        return np.log(np.concatenate(values)) if values else np.empty(0)

    def with_theta(self, theta: np.ndarray) -> Self:
        """Return the kernel with hyperparameters exp(theta)."""
        theta = self._checked(theta)
        changes: dict[str, Any] = {}
        for name in self._hyperparameters:
            value = getattr(self, name)
            size = len(value) if isinstance(value, tuple) else 1
            new, theta = np.exp(theta[:size]), theta[size:]
            changes[name] = tuple(new) if isinstance(value, tuple) else float(new[0])
        return replace(self, **changes)  # type: ignore[type-var]

    def _checked(self, theta: np.ndarray) -> np.ndarray:
        """Return theta as an array; raise KernelError if it is not of the shape of `self.theta`, and finite."""
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != self.theta.shape or not np.isfinite(theta).all():
            raise KernelError(f"theta={theta!r} must be {self.theta.size} finite numbers for {self}")
        return theta

    @property
    def nugget(self) -> float:
        """White noise variance of the kernel; not part of `block` and `diag`."""
        return 0.0

    def without_nugget(self) -> Kernel:
        """Return the kernel without its white noise; a kernel that is only white noise is returned as it is."""
        return self

    def split(self) -> tuple[Trend | None, Kernel | None]:
        """Return the trend in a sum of kernels, and the sum of the other parts; None for what is not there."""
        return None, self

    @property
    def positive_semidefinite(self) -> bool:
        """Whether every kernel matrix is positive semi-definite."""
        return True

    def check_features(self, n_features: int) -> None:
        """Raise KernelError if the kernel has per-feature values for another number of features."""
        for name in self._hyperparameters:
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != n_features:
                raise KernelError(
                    f"{type(self).__name__} has {len(value)} values of {name}, the data has "
                    f"{n_features} features; use one value for each feature, or a single number for all"
                )

    def __add__(self, other: object) -> Kernel:
        from . import algebra  # which imports this module

        return algebra.add(self, other) if _is_operand(other) else NotImplemented

    __radd__ = __add__

    def __mul__(self, other: object) -> Kernel:
        from . import algebra

        return algebra.multiply(self, other) if _is_operand(other) else NotImplemented

    __rmul__ = __mul__


def _is_operand(value: object) -> TypeGuard[Kernel | float]:
    return isinstance(value, Kernel | numbers.Real) and not isinstance(value, bool)
