"""Derivatives of kernels by their inputs: central differences, which kernels replace by formulae."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from .._arrays import Array, eps, namespace

if TYPE_CHECKING:
    from .base import Kernel


def central_differences(f: Callable[[Array], Array], X: Array, others: Array) -> Array:
    """Return ∂f(x)/∂x_j for each row of X (n, d), f (n, ·), along a new second axis; (n, d, ·).

    The step is the cube root of eps in units of the spread of a column among X and `others`: errors of rounding and
    of truncation are then both of order eps^⅔.
    """
    xp, columns = namespace(X), []
    both = xp.concat([X, others], axis=0)
    spread = xp.max(both, axis=0) - xp.min(both, axis=0)
    size = xp.where(
        spread > 0, spread, xp.where(xp.max(xp.abs(both), axis=0) > 0, xp.max(xp.abs(both), axis=0), 1.0)
    )
    for j in range(X.shape[1]):
        step = X * 0.0
        step[:, j] = float(eps(X) ** (1 / 3)) * size[j]
        above, below = X + step, X - step
        apart = above[:, j] - below[:, j]
        change = f(above) - f(below)
        columns.append(change / xp.reshape(apart, (-1, *(1 for _ in change.shape[1:]))))
    return xp.stack(columns, axis=1)


class Differentiable:
    """What a kernel can do that does not know its derivatives by the inputs."""

    def input_gradient(self, X: Array, Z: Array, C: Array) -> Array:
        """Return Σⱼ Cᵢⱼ ∂k(xᵢ, zⱼ)/∂xᵢ for the rows of X (n, d), Z (m, d) and C (n, m); shape (n, d).

        By central differences of `block`, unless a kernel knows better: n·m·2d kernel entries.
        """
        xp, kernel = namespace(X), cast("Kernel", self)

        def total(x: Array) -> Array:
            return xp.sum(kernel.block(x, Z) * C, axis=1)

        return central_differences(total, X, Z)

    def diag_input_gradient(self, X: Array) -> Array:
        """Return ∂k(x, x)/∂x for each row of X (n, d); shape (n, d)."""
        kernel = cast("Kernel", self)
        return 0.0 * X if kernel.prior_variance is not None else central_differences(kernel.diag, X, X)
