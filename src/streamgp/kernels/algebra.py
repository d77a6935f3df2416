"""Kernels made from kernels: Scaled, Sum and Product, what + and * return; and Constant and White, their constants."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from .._arrays import Array, namespace, ones, zeros
from ..errors import KernelError
from .base import Kernel, positive_number

if TYPE_CHECKING:
    from .trend import Trend


def add(left: Kernel, right: Kernel | float) -> Kernel:
    """Return left + right, a sum that is not nested."""
    if isinstance(right, Kernel):
        return Sum((*_parts(left, Sum), *_parts(right, Sum)))
    return Sum((*_parts(left, Sum), Constant(right))) if right else left  # 0 is where sum() starts


def multiply(left: Kernel, right: Kernel | float) -> Kernel:
    """Return left · right, a product that is not nested."""
    if not isinstance(right, Kernel):
        return Scaled(right, left)
    if isinstance(right, Constant):
        return Scaled(right.value, left)
    if isinstance(left, Constant):
        return Scaled(left.value, right)
    return Product((*_parts(left, Product), *_parts(right, Product)))


def _parts(kernel: Kernel, kind: type) -> tuple[Kernel, ...]:
    return kernel.kernels if isinstance(kernel, _Composite) and isinstance(kernel, kind) else (kernel,)


@dataclass(frozen=True)
class Constant(Kernel):
    """k(x, x') = value: a common offset of unknown size."""

    value: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("value",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", positive_number("Constant", "value", self.value))

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Return a matrix filled with `value`."""
        return ones((X.shape[0], (X if Y is None else Y).shape[0]), X) * self.value

    def diag(self, X: Array) -> Array:
        """Return a vector filled with `value`."""
        return ones((X.shape[0],), X) * self.value

    def input_gradient(self, X: Array, Z: Array, C: Array) -> Array:
        """Return zeros."""
        return 0.0 * X

    def diag_input_gradient(self, X: Array) -> Array:
        """Return zeros."""
        return 0.0 * X

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        return np.array([self.value * float(namespace(W).sum(W))])


@dataclass(frozen=True)
class White(Kernel):
    """Noise of the given variance on each observation; `block` is zero, see `nugget`."""

    variance: Any = 1.0
    _hyperparameters: ClassVar[tuple[str, ...]] = ("variance",)
    prior_variance: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", positive_number("White", "variance", self.variance))

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Return zeros."""
        return zeros((X.shape[0], (X if Y is None else Y).shape[0]), X)

    def input_gradient(self, X: Array, Z: Array, C: Array) -> Array:
        """Return zeros."""
        return 0.0 * X

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
        object.__setattr__(self, "factor", positive_number("Scaled", "factor", self.factor))
        if not isinstance(self.kernel, Kernel):
            raise KernelError(f"Scaled: {self.kernel!r} is not a kernel of streamgp")
        if isinstance(self.kernel, Scaled):
            object.__setattr__(self, "factor", self.factor * self.kernel.factor)
            object.__setattr__(self, "kernel", self.kernel.kernel)

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Return the inner block, scaled in place."""
        out = self.kernel.block(X, Y)
        out *= self.factor
        return out

    def blocks(self, X: Array) -> Array:
        """Return the inner blocks, scaled in place."""
        out = self.kernel.blocks(X)
        out *= self.factor
        return out

    def nearness(self, n_features: int) -> np.ndarray | None:
        """See Kernel; as the inner kernel's."""
        return self.kernel.nearness(n_features)

    @property
    def prior_variance(self) -> float | None:
        """The inner prior variance, scaled."""
        inner = self.kernel.prior_variance
        return None if inner is None else self.factor * inner

    def diag(self, X: Array) -> Array:
        """Return the inner diagonal, scaled."""
        inner = self.kernel.prior_variance
        if inner is None:
            return self.factor * self.kernel.diag(X)
        return self.factor * inner * namespace(X).ones_like(X[:, 0])

    def trace(self, X: Array) -> float:
        """Return the inner trace, scaled."""
        inner = self.kernel.prior_variance
        return float(self.factor * (self.kernel.trace(X) if inner is None else X.shape[0] * inner))

    def against(self, Z: Array) -> Callable[[Array], Array]:
        """Return the inner function, scaled."""
        return partial(_scaled, self.kernel.against(Z), self.factor)

    @property
    def theta(self) -> np.ndarray:
        """The logarithm of the factor, then the inner theta."""
        return np.concatenate([[math.log(self.factor)], self.kernel.theta])

    def with_theta(self, theta: np.ndarray) -> Self:
        """See Kernel."""
        theta = self._checked(theta)
        return replace(self, factor=math.exp(theta[0]), kernel=self.kernel.with_theta(theta[1:]))

    def input_gradient(self, X: Array, Z: Array, C: Array) -> Array:
        """See Kernel."""
        return self.factor * self.kernel.input_gradient(X, Z, C)

    def diag_input_gradient(self, X: Array) -> Array:
        """See Kernel."""
        return self.factor * self.kernel.diag_input_gradient(X)

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
        """Whether the inner kernel is."""
        return self.kernel.positive_semidefinite

    def check_features(self, n_features: int) -> None:
        """See Kernel."""
        self.kernel.check_features(n_features)


def _scaled(block: Callable[[Array], Array], factor: float, X: Array) -> Array:
    out = block(X)
    out *= factor
    return out


class WithParts(Kernel):
    """A kernel made from other kernels, `kernels`: what it inherits from all of them."""

    kernels: tuple[Kernel, ...]

    @property
    def positive_semidefinite(self) -> bool:
        """Whether all parts are."""
        return all(k.positive_semidefinite for k in self.kernels)

    def check_features(self, n_features: int) -> None:
        """See Kernel."""
        for kernel in self.kernels:
            kernel.check_features(n_features)


@dataclass(frozen=True)
class _Composite(WithParts):
    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", tuple(self.kernels))
        if len(self.kernels) < 2 or not all(isinstance(k, Kernel) for k in self.kernels):
            raise KernelError(f"{type(self).__name__} needs two kernels or more, not {self.kernels!r}")

    @property
    def theta(self) -> np.ndarray:
        """The theta of the parts, concatenated."""
        return np.concatenate([k.theta for k in self.kernels])

    def with_theta(self, theta: np.ndarray) -> Self:
        """See Kernel."""
        cuts = np.cumsum([k.theta.size for k in self.kernels])[:-1]
        pieces = np.split(self._checked(theta), cuts)
        return replace(
            self, kernels=tuple(k.with_theta(t) for k, t in zip(self.kernels, pieces, strict=True))
        )


def _sum_of(blocks: list[Callable[[Array], Array]], X: Array) -> Array:
    out = blocks[0](X)
    for block in blocks[1:]:
        out += block(X)
    return out


@dataclass(frozen=True)
class Sum(_Composite):
    """k₁(x, x') + k₂(x, x') + … ."""

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Return the sum of the parts' blocks, added in place."""
        return _sum_of([partial(kernel.block, Y=Y) for kernel in self.kernels], X)

    def against(self, Z: Array) -> Callable[[Array], Array]:
        """Return the sum of the parts' functions."""
        return partial(_sum_of, [kernel.against(Z) for kernel in self.kernels])

    def blocks(self, X: Array) -> Array:
        """Return the sum of the parts' blocks, added in place."""
        return _sum_of([kernel.blocks for kernel in self.kernels], X)

    def nearness(self, n_features: int) -> np.ndarray | None:
        """See Kernel; of the parts that fall with a distance the mean, None where any other part varies."""
        return _mean_nearness([k for k in self.kernels if not isinstance(k, Constant)], n_features)

    def diag(self, X: Array) -> Array:
        """Return the sum of the parts' diagonals."""
        return reduce(lambda total, k: total + k.diag(X), self.kernels[1:], self.kernels[0].diag(X))

    def input_gradient(self, X: Array, Z: Array, C: Array) -> Array:
        """See Kernel."""
        return reduce(operator.add, (k.input_gradient(X, Z, C) for k in self.kernels))

    def diag_input_gradient(self, X: Array) -> Array:
        """See Kernel."""
        return reduce(operator.add, (k.diag_input_gradient(X) for k in self.kernels))

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        return np.concatenate([k.gradient(W, X, Y) for k in self.kernels])

    def split(self) -> tuple[Trend | None, Kernel | None]:
        """See Kernel; a second trend is not taken apart."""
        trend = next((k for k in self.kernels if k.split()[1] is None), None)
        if trend is None:
            return None, self
        rest = tuple(k for k in self.kernels if k is not trend)
        return trend.split()[0], rest[0] if len(rest) == 1 else Sum(rest)

    @property
    def nugget(self) -> float:
        """The sum of the parts' white noise."""
        return sum(k.nugget for k in self.kernels)

    def without_nugget(self) -> Kernel:
        """See Kernel."""
        rest = tuple(k for k in (part.without_nugget() for part in self.kernels) if not k.nugget)
        if not rest:
            return self.kernels[0].without_nugget()
        return rest[0] if len(rest) == 1 else Sum(rest)


@dataclass(frozen=True)
class Product(_Composite):
    """k₁(x, x') · k₂(x, x') · … ."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(k.nugget > 0 for k in self.kernels):
            raise KernelError("a product with white noise is not supported; add White to the product instead")

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """Return the entrywise product of the parts' blocks, multiplied in place."""
        return _product([k.block(X, Y) for k in self.kernels])

    def blocks(self, X: Array) -> Array:
        """Return the entrywise product of the parts' blocks, multiplied in place."""
        return _product([k.blocks(X) for k in self.kernels])

    def nearness(self, n_features: int) -> np.ndarray | None:
        """See Kernel; as for a sum."""
        return _mean_nearness([k for k in self.kernels if not isinstance(k, Constant)], n_features)

    def diag(self, X: Array) -> Array:
        """Return the product of the parts' diagonals."""
        return _product([k.diag(X) for k in self.kernels])

    def input_gradient(self, X: Array, Z: Array, C: Array) -> Array:
        """See Kernel; of each part in turn, times the others."""
        blocks = [k.block(X, Z) for k in self.kernels]
        parts = (
            k.input_gradient(X, Z, _product([C + 0.0, *blocks[:i], *blocks[i + 1 :]]))
            for i, k in enumerate(self.kernels)
        )
        return reduce(operator.add, parts)

    def diag_input_gradient(self, X: Array) -> Array:
        """See Kernel; of each part in turn, times the others."""
        diagonals, ones_here = [k.diag(X) for k in self.kernels], namespace(X).ones_like(X[:, 0])
        parts = (
            k.diag_input_gradient(X)
            * _product([ones_here + 0.0, *diagonals[:i], *diagonals[i + 1 :]])[:, None]
            for i, k in enumerate(self.kernels)
        )
        return reduce(operator.add, parts)

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        blocks = [k.block(X, Y) for k in self.kernels]
        return np.concatenate(
            [
                k.gradient(_product([W + 0.0, *blocks[:i], *blocks[i + 1 :]]), X, Y)
                for i, k in enumerate(self.kernels)
            ]
        )


def _mean_nearness(kernels: Sequence[Kernel], n_features: int) -> np.ndarray | None:
    """Return the mean of the weights (d,) of `Kernel.nearness`; None where a kernel has none."""
    each = [weights for k in kernels if (weights := k.nearness(n_features)) is not None]
    return np.mean(each, axis=0) if each and len(each) == len(kernels) else None


def _product(blocks: list[Array]) -> Array:
    out = blocks[0]
    for block in blocks[1:]:
        out *= block
    return out
