"""Kernels that are weighted sums of fixed kernels, so that the weights can be tuned from statistics alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from .._arrays import Array, namespace
from ..errors import KernelError
from .algebra import Scaled, Sum, WithParts
from .base import Kernel, non_negative


class Affine(Kernel):
    """A kernel Σᵢ wᵢ kᵢ with fixed parts kᵢ: theta holds the logarithms of the nonzero weights; zero stays zero.

    The parts do not depend on the weights. A factor of each part's matrix therefore serves all weights, and they can be
    tuned without the rows.
    """

    weights: Any

    def _used(self) -> list[int]:
        """Return the places of the nonzero weights of the parts in `weights`."""
        return [i for i, w in enumerate(self.weights) if w]

    @property
    def amounts(self) -> np.ndarray:
        """The nonzero weights, shape (p,)."""
        return np.array([self.weights[i] for i in self._used()])

    def with_amounts(self, amounts: np.ndarray) -> Self:
        """Return the kernel with other nonzero weights, shape (p,), all above 0."""
        weights = list(self.weights)
        for i, amount in zip(self._used(), amounts, strict=True):
            weights[i] = float(amount)
        return replace(self, weights=tuple(weights))  # type: ignore[type-var]

    @abstractmethod
    def part_blocks(self, X: Array, Y: Array | None, which: Sequence[int]) -> list[Array]:
        """Return kᵢ(X, Y), shape (n, m), for each i in `which`; parts with nonzero weights are numbered from 0."""

    @abstractmethod
    def part_diags(self, X: Array) -> list[Array]:
        """Return kᵢ(x, x), shape (n,), of each part with a nonzero weight."""

    @property
    def quadratic(self) -> int | None:
        """The number of the part that is ‖x − x'‖², whose features are known in closed form; None without one."""
        return None

    @property
    def theta(self) -> np.ndarray:
        """The logarithms of the nonzero weights, shape (p,)."""
        return np.asarray(np.log(self.amounts))

    def with_theta(self, theta: np.ndarray) -> Self:
        """See Kernel."""
        return self.with_amounts(np.exp(self._checked(theta)))


@dataclass(frozen=True)
class WeightedSum(WithParts, Affine):
    """Σᵢ wᵢ kᵢ: fixed kernels whose weights are learned.

    Parameters
    ----------
    kernels : sequence of Kernel
    weights : sequence of float, optional
        One per kernel, none below 0. Default: 1/p for each of p kernels.
    """

    kernels: tuple[Kernel, ...]
    weights: Any = None

    def __post_init__(self) -> None:
        kernels = tuple(self.kernels)
        if not kernels or not all(isinstance(k, Kernel) for k in kernels):
            raise KernelError(
                f"WeightedSum: kernels={self.kernels!r} must be one or more kernels of streamgp"
            )
        if any(k.nugget for k in kernels):
            raise KernelError(
                "WeightedSum: a kernel with white noise is not supported; add White to the sum, or set noise="
            )
        given = [1.0 / len(kernels)] * len(kernels) if self.weights is None else self.weights
        weights = non_negative("WeightedSum", given, "one per kernel")
        if len(weights) != len(kernels) or not any(weights):
            raise KernelError(
                f"WeightedSum: weights={self.weights!r} must be {len(kernels)} numbers, not all 0"
            )
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "weights", weights)

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

    def blocks(self, X: Array) -> Array:
        """See Kernel."""
        return self._sum().blocks(X)

    def nearness(self, n_features: int) -> np.ndarray | None:
        """See Kernel."""
        return self._sum().nearness(n_features)

    def diag(self, X: Array) -> Array:
        """See Kernel."""
        return self._sum().diag(X)

    def input_gradient(self, X: Array, Z: Array, C: Array) -> Array:
        """See Kernel."""
        return self._sum().input_gradient(X, Z, C)

    def diag_input_gradient(self, X: Array) -> Array:
        """See Kernel."""
        return self._sum().diag_input_gradient(X)

    def _sum(self) -> Kernel:
        parts = [Scaled(self.weights[i], self.kernels[i]) for i in self._used()]
        return parts[0] if len(parts) == 1 else Sum(tuple(parts))

    def gradient(self, W: Array, X: Array, Y: Array | None = None) -> np.ndarray:
        """See Kernel."""
        xp = namespace(W)
        blocks = self.part_blocks(X, Y, range(len(self._used())))
        return np.array([a * float(xp.sum(W * b)) for a, b in zip(self.amounts, blocks, strict=True)])
