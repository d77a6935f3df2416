"""Which rows become pivots, and which pivots could go: what a row would explain, what a pivot does.

Every pivot's direction is u = V eⱼ/‖V eⱼ‖ in the features V k(Z, ·).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._arrays import (
    Array,
    asarray_like,
    clip_below,
    double,
    eye,
    less_product,
    namespace,
    one_blas_thread,
    product,
    solve_lower,
    to_host,
)
from ..gp.statistics import NormalEquations
from ..kernels import Kernel
from ..lowrank import pivoted_cholesky


def residual(kernel: Kernel, X: Array, F: Array) -> Array:
    """Give k(x, x') − φᵀφ' between rows X (n, d) of features F (n, r), in double precision; (n, n)."""
    F = double(F)
    return less_product(double(kernel.block(X)), F, namespace(F).matrix_transpose(F))


def draw(
    left: Array, prior: Array, n_most: int, threshold: float, seed: Sequence[int]
) -> tuple[list[int], Array]:
    """Draw rows in proportion to the share of their prior variance (n,) that is not explained, above a threshold.

    Their columns of the factor of what is left, (n, n), are (n, m).
    """
    xp = namespace(left)
    # In units of each row's prior deviation, so that one far row does not hide what the others lack.
    scale = xp.sqrt(prior)
    scale = xp.where(scale > 0, scale, xp.ones_like(scale))
    relative = left / (scale[:, None] * scale[None, :])
    diagonal = clip_below(xp.linalg.diagonal(relative) + 0.0, 0.0)
    largest = float(xp.max(diagonal)) if diagonal.shape[0] else 0.0
    if not largest > threshold:
        return [], left[:, :0]
    # One row after another: on the host, whose small steps are quicker than a device's.
    host, start = to_host(relative), to_host(diagonal)
    with one_blas_thread():
        factor = pivoted_cholesky(lambda i: host[:, i], start, n_most, threshold / largest, seed)
    return list(factor.pivots), asarray_like(factor.U, scale) * scale[:, None]


def gains(columns: Array, chosen: list[int]) -> np.ndarray:
    """Give what each row that was drawn explains of another row of its block, on average; (m,)."""
    squares: np.ndarray = to_host(columns) ** 2
    return np.asarray(
        (squares.sum(axis=0) - squares[chosen, np.arange(len(chosen))]) / (squares.shape[0] - 1)
    )


def losses(statistics: NormalEquations, V: Array) -> Array:
    """Give what each pivot explains of a row, on average and its own row aside: (uᵀAu − 1/‖V eⱼ‖²)/n, (r,)."""
    V, xp = double(V), namespace(V)
    squares = xp.vecdot(V, V, axis=-2)
    explained = xp.vecdot(product(statistics.gram, V), V, axis=-2) / squares
    return clip_below(explained - 1.0 / squares, 0.0) / max(statistics.count, 1.0)


def first_losses(G: Array, L: Array) -> Array:
    """Give what new pivots explain of the rows with features G (W, m), summed: their loss until the next count."""
    xp = namespace(G)
    taken = xp.matrix_transpose(solve_lower(L, xp.matrix_transpose(G), transpose=True))  # G L⁻¹
    spread = 1.0 / xp.sum(solve_lower(L, eye(L.shape[0], L)) ** 2, axis=0)
    return xp.sum(taken * taken, axis=0) * spread


def learned(V: Array, weights: Array) -> np.ndarray:
    """Give (uᵀw)² of each pivot, averaged over the outputs of the weights (r, q); its prior mean is one. (r,)."""
    V, xp = double(V), namespace(V)
    along = product(xp.matrix_transpose(V), weights)
    return to_host(xp.mean(along * along, axis=1) / xp.vecdot(V, V, axis=-2))
