"""Kernels that are affine in their weights, so that these can be tuned from statistics alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from .._arrays import Array, namespace
from ..errors import KernelError
from .base import Kernel, Scaled, Sum, non_negative


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
        given = [1.0 / len(kernels)] * len(kernels) if self.weights is None else self.weights
        weights = non_negative("WeightedSum", given, "one a kernel")
        if len(weights) != len(kernels) or not any(weights):
            raise KernelError(f"WeightedSum: weights={self.weights!r} must be {len(kernels)}, and not all 0")
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "weights", weights)

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
