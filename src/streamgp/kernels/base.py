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


def non_negative(owner: str, weights: Sequence[float]) -> tuple[float, ...]:
    """Check that the weights of an affine kernel are a sequence of finite numbers, none below zero."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise KernelError(f"{owner}: weights={weights!r} must be a sequence of numbers") from error
    if array.ndim != 1 or array.size < 2 or not (np.isfinite(array) & (array >= 0)).all():
        raise KernelError(
            f"{owner}: weights={weights!r} must be two or more finite numbers, none below 0: "
            "the first for the identity, the next for each power in turn"
        )
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


class Affine(Kernel):
    """A kernel Σᵢ wᵢ kᵢ whose parts are fixed: theta is the logarithms of the weights that are not zero.

    A factor of each part's matrix serves all weights, so that they can be tuned without touching a row.
    """

    @property
    @abstractmethod
    def amounts(self) -> np.ndarray:
        """The weights that are not zero, shape (p,)."""

    @abstractmethod
    def with_amounts(self, amounts: np.ndarray) -> Self:
        """Give the same parts with other weights above zero, shape (p,)."""

    @abstractmethod
    def part_blocks(self, X: Array, Y: Array | None, which: Sequence[int]) -> list[Array]:
        """Give the matrix (n, m) of each of the parts numbered so, whose weights are not zero, for a weight of 1."""

    @abstractmethod
    def part_diags(self, X: Array) -> list[Array]:
        """Give kᵢ(x, x) of each part whose weight is not zero, for a weight of 1; shape (n,)."""

    @property
    def theta(self) -> np.ndarray:
        """The logarithms of the weights that are not zero; zero stays zero."""
        return np.asarray(np.log(self.amounts))

    def with_theta(self, theta: np.ndarray) -> Self:
        """See Kernel."""
        return self.with_amounts(np.exp(self._checked(theta)))


@dataclass(frozen=True)
class WeightedSum(Affine):
    """Σᵢ wᵢ kᵢ: fixed kernels, weights to be learned.

    Parameters
    ----------
    kernels : sequence of Kernel
    weights : sequence of float, none below 0; all 1/p unless given
    """

    kernels: tuple[Kernel, ...]
    weights: Any = None

    def __post_init__(self) -> None:
        kernels = tuple(self.kernels)
        if not kernels or not all(isinstance(k, Kernel) for k in kernels):
            raise KernelError(f"WeightedSum: kernels={self.kernels!r} must be kernels of streamgp")
        if any(k.nugget for k in kernels):
            raise KernelError(
                "WeightedSum: white noise is no part of it; add White to the sum, or give noise="
            )
        weights = [1.0 / len(kernels)] * len(kernels) if self.weights is None else self.weights
        try:
            array = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise KernelError(f"WeightedSum: weights={self.weights!r} must be numbers") from error
        valid = array.shape == (len(kernels),) and (np.isfinite(array) & (array >= 0)).all()
        if not valid or not array.any():
            raise KernelError(
                f"WeightedSum: weights={self.weights!r} must be {len(kernels)} finite numbers, none below 0 and not "
                "all 0"
            )
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "weights", tuple(float(w) for w in array))

    def _used(self) -> list[int]:
        return [i for i, w in enumerate(self.weights) if w]

    @property
    def amounts(self) -> np.ndarray:
        """See Affine."""
        return np.array([self.weights[i] for i in self._used()])

    def with_amounts(self, amounts: np.ndarray) -> Self:
        """See Affine."""
        weights = list(self.weights)
        for i, amount in zip(self._used(), amounts, strict=True):
            weights[i] = float(amount)
        return replace(self, weights=tuple(weights))

    def part_blocks(self, X: Array, Y: Array | None, which: Sequence[int]) -> list[Array]:
        """See Affine."""
        used = self._used()
        return [self.kernels[used[i]].block(X, Y) for i in which]

    def part_diags(self, X: Array) -> list[Array]:
        """See Affine."""
        return [self.kernels[i].diag(X) for i in self._used()]

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """See Kernel."""
        return self._sum().block(X, Y)

    def diag(self, X: Array) -> Array:
        """See Kernel."""
        return self._sum().diag(X)

    def _sum(self) -> Kernel:
        parts = [Scaled(self.weights[i], self.kernels[i]) for i in self._used()]
        return parts[0] if len(parts) == 1 else Sum(tuple(parts))

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        xp = namespace(W)
        blocks = self.part_blocks(X, Y, range(len(self._used())))
        return np.array([a * float(xp.sum(W * b)) for a, b in zip(self.amounts, blocks, strict=True)])

    @property
    def positive_semidefinite(self) -> bool:
        """Whether all the parts are."""
        return all(k.positive_semidefinite for k in self.kernels)

    def check_features(self, n_features: int) -> None:
        """See Kernel."""
        for kernel in self.kernels:
            kernel.check_features(n_features)


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
