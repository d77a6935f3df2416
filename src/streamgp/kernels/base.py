"""Kernel, what every kernel can do, and the algebra that builds kernels from kernels."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from typing import Any, ClassVar, Self

import numpy as np

from .._arrays import Array, asarray_like, double, namespace, ones, zeros
from ..errors import KernelError

Positive = float | tuple[float, ...]


def positive(owner: str, name: str, value: object) -> Positive:
    """Check that a hyperparameter is a positive number, or a sequence of them, one a feature."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise KernelError(
            f"{owner}: {name}={value!r} is not a number; give a positive number or one a feature"
        ) from error
    if array.ndim > 1 or array.size == 0 or not (np.isfinite(array) & (array > 0)).all():
        raise KernelError(
            f"{owner}: {name}={value!r} must be positive and finite; give a number above 0 or one a feature"
        )
    return float(array) if array.ndim == 0 else tuple(float(v) for v in array)


def non_negative(owner: str, weights: Sequence[float], meaning: str) -> tuple[float, ...]:
    """Check that the weights of an affine kernel are a sequence of finite numbers, none below zero."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise KernelError(f"{owner}: weights={weights!r} must be a sequence of numbers") from error
    if array.ndim != 1 or not array.size or not (np.isfinite(array) & (array >= 0)).all():
        raise KernelError(f"{owner}: weights={weights!r} must be finite numbers, none below 0: {meaning}")
    return tuple(float(w) for w in array)


class Kernel(ABC):
    """A covariance function k(x, x'), immutable; an operation returns a new kernel.

    A subclass is a frozen dataclass that gives `block` and `diag`, names its positive fields in
    `_hyperparameters` and gives `gradient` for them in the same order. White noise is never part of
    `block` or `diag`: it is in `nugget`, and the models add it to their noise.
    """

    _hyperparameters: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Evaluate k between the rows of X (n, d) and of Y (m, d), or of X itself; shape (n, m)."""

    @abstractmethod
    def diag(self, X: Array) -> Array:
        """Evaluate k(x, x) for each row of X (n, d); shape (n,)."""

    def trace(self, X: Array) -> float:
        """Give Σ k(x, x) over the rows of X (n, d)."""
        return float(namespace(X).sum(double(self.diag(X))))

    def against(self, Z: Array) -> Callable[[Array], Array]:
        """Give the function X ↦ block(X, Z), with what hangs on Z (m, d) alone done beforehand where that pays."""
        return partial(self.block, Y=Z)

    @abstractmethod
    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """Differentiate Σ W∘block(X, Y) by theta, shape (p,), in O(n m) memory for W (n, m)."""

    @property
    def theta(self) -> np.ndarray:
        """The logarithms of the hyperparameters, shape (p,)."""
        values = [np.atleast_1d(getattr(self, name)) for name in self._hyperparameters]
        return np.log(np.concatenate(values)) if values else np.empty(0)

    def with_theta(self, theta: np.ndarray) -> Self:
        """Give the same kernel with the hyperparameters exp(theta)."""
        theta = self._checked(theta)
        changes: dict[str, Any] = {}
        for name in self._hyperparameters:
            value = getattr(self, name)
            size = len(value) if isinstance(value, tuple) else 1
            new, theta = np.exp(theta[:size]), theta[size:]
            changes[name] = tuple(new) if isinstance(value, tuple) else float(new[0])
        return replace(self, **changes)  # type: ignore[type-var]

    def _checked(self, theta: np.ndarray) -> np.ndarray:
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != self.theta.shape or not np.isfinite(theta).all():
            raise KernelError(f"theta={theta!r} must be {self.theta.size} finite numbers for {self}")
        return theta

    @property
    def nugget(self) -> float:
        """White noise variance carried by the kernel; not part of `block` and `diag`."""
        return 0.0

    def without_nugget(self) -> Kernel:
        """Give the kernel less its white noise; a kernel that is nothing else comes back as it is."""
        return self

    @property
    def positive_semidefinite(self) -> bool:
        """Whether every kernel matrix is positive semi-definite."""
        return True

    def check_features(self, n_features: int) -> None:
        """Raise KernelError where the kernel has per-feature values for another number of features."""
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name in self._hyperparameters and isinstance(value, tuple) and len(value) != n_features:
                raise KernelError(
                    f"{type(self).__name__} has {len(value)} values of {field.name}, the data has "
                    f"{n_features} features; give one value for each feature, or a single number for all"
                )

    def __add__(self, other: object) -> Kernel:
        if isinstance(other, Kernel):
            return Sum((*_parts(self, Sum), *_parts(other, Sum)))
        if not _is_number(other):
            return NotImplemented
        return Sum((*_parts(self, Sum), Constant(other))) if other else self  # so that sum() works

    __radd__ = __add__

    def __mul__(self, other: object) -> Kernel:
        if isinstance(other, Constant):
            return Scaled(other.value, self)
        if isinstance(other, Kernel):
            if isinstance(self, Constant):
                return Scaled(self.value, other)
            return Product((*_parts(self, Product), *_parts(other, Product)))
        return Scaled(other, self) if _is_number(other) else NotImplemented

    __rmul__ = __mul__


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _parts(kernel: Kernel, kind: type) -> tuple[Kernel, ...]:
    return kernel.kernels if isinstance(kernel, _Composite) and isinstance(kernel, kind) else (kernel,)


@dataclass(frozen=True)
class Constant(Kernel):
    """k(x, x') = value: a common offset of unknown size."""

    value: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("value",)

    def __post_init__(self) -> None:
        value = positive("Constant", "value", self.value)
        if isinstance(value, tuple):
            raise KernelError(f"Constant: value={self.value!r} must be a single number")
        object.__setattr__(self, "value", value)

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Give a matrix of `value`."""
        return ones((X.shape[0], (X if Y is None else Y).shape[0]), X) * self.value

    def diag(self, X: Array) -> Array:
        """Give a vector of `value`."""
        return ones((X.shape[0],), X) * self.value

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        return np.array([self.value * float(namespace(W).sum(W))])


@dataclass(frozen=True)
class White(Kernel):
    """Noise of the given variance on each observation; `block` is zero, see `nugget`."""

    variance: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("variance",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", Constant(self.variance).value)

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Give zeros."""
        return zeros((X.shape[0], (X if Y is None else Y).shape[0]), X)

    def diag(self, X: Array) -> Array:
        """Give zeros."""
        return zeros((X.shape[0],), X)

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        return np.zeros(1)

    @property
    def nugget(self) -> float:
        """The variance."""
        return float(self.variance)


@dataclass(frozen=True)
class Scaled(Kernel):
    """factor · k(x, x')."""

    factor: Any
    kernel: Kernel

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", Constant(self.factor).value)
        if not isinstance(self.kernel, Kernel):
            raise KernelError(f"Scaled: {self.kernel!r} is not a kernel")
        if isinstance(self.kernel, Scaled):
            object.__setattr__(self, "factor", self.factor * self.kernel.factor)
            object.__setattr__(self, "kernel", self.kernel.kernel)

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Scale the inner block in place."""
        out = self.kernel.block(X, Y)
        out *= self.factor
        return out

    def diag(self, X: Array) -> Array:
        """Scale the inner diagonal."""
        return self.factor * self.kernel.diag(X)

    def trace(self, X: Array) -> float:
        """Scale the inner trace."""
        return float(self.factor * self.kernel.trace(X))

    def against(self, Z: Array) -> Callable[[Array], Array]:
        """Scale the inner block."""
        return partial(_scaled, self.kernel.against(Z), self.factor)

    @property
    def theta(self) -> np.ndarray:
        """The logarithm of the factor, then the inner theta."""
        return np.concatenate([[math.log(self.factor)], self.kernel.theta])

    def with_theta(self, theta: np.ndarray) -> Self:
        """See Kernel."""
        theta = self._checked(theta)
        return replace(self, factor=math.exp(theta[0]), kernel=self.kernel.with_theta(theta[1:]))

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        own = float(namespace(W).sum(W * self.block(X, Y)))
        return np.concatenate([[own], self.factor * self.kernel.gradient(W, X, Y)])

    @property
    def nugget(self) -> float:
        """The inner white noise, scaled."""
        return float(self.factor * self.kernel.nugget)

    def without_nugget(self) -> Kernel:
        """See Kernel."""
        return replace(self, kernel=self.kernel.without_nugget())

    @property
    def positive_semidefinite(self) -> bool:
        """As the inner kernel."""
        return self.kernel.positive_semidefinite

    def check_features(self, n_features: int) -> None:
        """See Kernel."""
        self.kernel.check_features(n_features)


@dataclass(frozen=True)
class _Composite(Kernel):
    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", tuple(self.kernels))
        if len(self.kernels) < 2 or not all(isinstance(k, Kernel) for k in self.kernels):
            raise KernelError(f"{type(self).__name__} needs two kernels or more, got {self.kernels!r}")

    @property
    def theta(self) -> np.ndarray:
        """The parts' theta, one after another."""
        return np.concatenate([k.theta for k in self.kernels])

    def with_theta(self, theta: np.ndarray) -> Self:
        """See Kernel."""
        cuts = np.cumsum([k.theta.size for k in self.kernels])[:-1]
        pieces = np.split(self._checked(theta), cuts)
        return replace(
            self, kernels=tuple(k.with_theta(t) for k, t in zip(self.kernels, pieces, strict=True))
        )

    @property
    def positive_semidefinite(self) -> bool:
        """Whether all the parts are."""
        return all(k.positive_semidefinite for k in self.kernels)

    def check_features(self, n_features: int) -> None:
        """See Kernel."""
        for kernel in self.kernels:
            kernel.check_features(n_features)


@dataclass(frozen=True)
class Sum(_Composite):
    """k₁(x, x') + k₂(x, x') and so on."""

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Add the parts' blocks in place."""
        out = self.kernels[0].block(X, Y)
        for kernel in self.kernels[1:]:
            out += kernel.block(X, Y)
        return out

    def diag(self, X: Array) -> Array:
        """Add the parts' diagonals."""
        return reduce(lambda total, k: total + k.diag(X), self.kernels[1:], self.kernels[0].diag(X))

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        return np.concatenate([k.gradient(W, X, Y) for k in self.kernels])

    @property
    def nugget(self) -> float:
        """The parts' white noise together."""
        return sum(k.nugget for k in self.kernels)

    def without_nugget(self) -> Kernel:
        """See Kernel."""
        rest = tuple(k for k in (part.without_nugget() for part in self.kernels) if not k.nugget)
        if not rest:
            return self.kernels[0].without_nugget()
        return rest[0] if len(rest) == 1 else Sum(rest)


@dataclass(frozen=True)
class Product(_Composite):
    """k₁(x, x') · k₂(x, x') and so on."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(k.nugget > 0 for k in self.kernels):
            raise KernelError("a product with white noise is not supported; add White to the product instead")

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Multiply the parts' blocks in place."""
        return _product([k.block(X, Y) for k in self.kernels])

    def diag(self, X: Array) -> Array:
        """Multiply the parts' diagonals."""
        return _product([k.diag(X) for k in self.kernels])

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        blocks = [k.block(X, Y) for k in self.kernels]
        return np.concatenate(
            [
                k.gradient(_product([W + 0.0, *blocks[:i], *blocks[i + 1 :]]), X, Y)
                for i, k in enumerate(self.kernels)
            ]
        )


def _scaled(block: Callable[[Array], Array], factor: float, X: Array) -> Array:
    out = block(X)
    out *= factor
    return out


def _product(blocks: list[Array]) -> Array:
    out = blocks[0]
    for block in blocks[1:]:
        out *= block
    return out


def vector(values: Positive, n_features: int, like: Array) -> Array:
    """Spread one value or one a feature to shape (d,) beside `like`."""
    if isinstance(values, tuple) and len(values) != n_features:
        raise KernelError(f"the kernel has {len(values)} values, one a feature; X has {n_features} features")
    return asarray_like(np.broadcast_to(np.asarray(values), (n_features,)), like)
