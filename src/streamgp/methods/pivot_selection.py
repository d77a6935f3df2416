"""Pivot selection: the variance gained by candidates, the variance lost by removals, and when to look.

The direction of pivot j in the features V k(Z, ·) is u = V eⱼ/‖V eⱼ‖. References: Chen, Epperly, Tropp & Webber,
Randomly pivoted Cholesky (2022), for the draw; docs/pivots.md for the comparison that chose the exchange rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from ..gp.features import Pivots
from ..gp.normal_equations import NormalEquations
from ..gp.posterior import Conditioned, Posterior
from ..kernels import Kernel
from ..lowrank import pivoted_cholesky


@dataclass(frozen=True)
class SelectionPolicy:
    """The constants of pivot selection, each with the origin of its value.

    Attributes
    ----------
    review_every : int
        Rows between reviews where the stream has moved, and rows that are folded into the statistics together. A fold
        is O(r³): a hundred rows keep its share of a row at O(r²) for the ranks in use; the batch of every benchmark.
    calm_review_every : int
        Rows between reviews where it has not moved; for speed. docs/pivots.md has what reviews cost at this value.
    novelty : float
        A row can become a pivot if more than this share of its prior variance is unexplained: below it two pivots
        differ by 0.8 % of the prior deviation. Set in version 0.1; no dependence on it was measured since.
    novelty_of_noise : float
        Or more than this share of the noise, where that is less: an unexplained 3 % of the noise changes a predicted
        standard deviation by 1.5 %.
    margin : float
        A candidate replaces a pivot if it explains this many times more: gains are measured on one block, losses on all
        rows. The value of the prototypes compared in docs/pivots.md; others were not compared.
    candidates_per_review : int
        Candidates drawn for every `review_every` rows of a stationary stream; the value of the same prototypes.
    worth_of_noise : float
        A row is taken at once only if more of its variance is unexplained than this share of the noise: less changes a
        predicted standard deviation by less than 5 %.
    moved : float
        A block that is this many times worse explained than the past on average is reviewed at once. Set in
        version 0.1; other values were not compared.
    most_moved : float
        The number of candidates grows with that ratio up to this; bounds the cost of a review.
    device_reviews, device_checks : int
        On a device, where a small step takes as long as a large one: a review every n/100 batches of n rows and a
        check whether the stream has moved every n/2000; measured on one H200 (docs/scale.md).
    """

    review_every: int = 100
    calm_review_every: int = 400
    novelty: float = 6e-5
    novelty_of_noise: float = 0.03
    margin: float = 10.0
    candidates_per_review: int = 10
    worth_of_noise: float = 0.1
    moved: float = 1.2
    most_moved: float = 6.0
    device_reviews: int = 100
    device_checks: int = 2000

    def threshold(self, prior: float, noise: float, eps: float) -> float:
        """Return the unexplained share of its prior variance, `prior` on average, above which a row can be a pivot.

        `noise` is that of the most precise output.
        """
        share = self.novelty_of_noise * noise / prior if prior > 0 else self.novelty
        return max(min(self.novelty, share), 1e4 * eps)

    def device_intervals(self, n_new: int) -> tuple[int, int]:
        """Return the rows between reviews and between checks whether the stream has moved, on a device."""
        calm = max(self.calm_review_every, n_new**2 // self.device_reviews)
        return calm, max(1, n_new**2 // self.device_checks)


POLICY = SelectionPolicy()


def residual(kernel: Kernel, X: Array, F: Array) -> Array:
    """Return k(x, x') − φᵀφ' between rows X (n, d) with features F (n, r), in double precision; (n, n)."""
    F = double(F)
    return less_product(double(kernel.block(X)), F, namespace(F).matrix_transpose(F))


def draw(
    left: Array, prior: Array, n_most: int, threshold: float, seed: Sequence[int]
) -> tuple[list[int], Array]:
    """Draw rows in proportion to the unexplained share of their prior variance (n,), above a threshold.

    Returns their numbers and their columns (n, m) of the Cholesky factor of the residual `left` (n, n).
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


def enough(left: Array, columns: Array, most_left: float) -> int:
    """Return how many of the pivots drawn, in their order, leave at most the variance `most_left` of a row."""
    rest = np.trace(to_host(left)) - np.cumsum((to_host(columns) ** 2).sum(axis=0))
    return 1 + int((rest > most_left * left.shape[0]).sum())


def gains(columns: Array, chosen: list[int]) -> np.ndarray:
    """Return the variance that each candidate explains of another row of its block, on average; (m,)."""
    squares: np.ndarray = to_host(columns) ** 2
    return np.asarray(
        (squares.sum(axis=0) - squares[chosen, np.arange(len(chosen))]) / (squares.shape[0] - 1)
    )


def losses(statistics: NormalEquations, features: Pivots) -> Array:
    """Return the variance that each pivot explains of another row, on average: (uᵀAu − 1/‖V eⱼ‖²)/n, (r,)."""
    xp = namespace(features.V)
    V = double(features.V)[:, features.n_trend :]
    squares = xp.vecdot(V, V, axis=-2)
    explained = xp.vecdot(product(statistics.gram, V), V, axis=-2) / squares
    return clip_below(explained - 1.0 / squares, 0.0) / statistics.at_least_one


def gains_with_own(columns: Array, n_recent: int) -> np.ndarray:
    """Return what each candidate explains of a recent row: of its own block, itself included; (m,)."""
    return np.asarray((to_host(columns) ** 2).sum(axis=0) / max(n_recent, 1))


def first_losses(G: Array, L: Array) -> Array:
    """Return the variance that new pivots explain of the rows with features G (W, m), summed; (m,).

    Stands for their `losses` until these are computed again.
    """
    xp = namespace(G)
    along = xp.matrix_transpose(solve_lower(L, xp.matrix_transpose(G), transpose=True))  # G L⁻¹
    spread = 1.0 / xp.sum(solve_lower(L, eye(L.shape[0], L)) ** 2, axis=0)
    return xp.sum(along * along, axis=0) * spread


def learned(features: Pivots, weights: Array) -> np.ndarray:
    """Return (uᵀw)² of each pivot, averaged over the outputs of the weights (·, q); its prior mean is one. (r,)."""
    xp = namespace(features.V)
    V = double(features.V)[:, features.n_trend :]
    along = product(xp.matrix_transpose(V), weights)
    return to_host(xp.mean(along * along, axis=1) / xp.vecdot(V, V, axis=-2))


def present_weights(before: Posterior, F: Array, y: Array, moved: bool) -> Array:
    """Return the weights to judge pivots by: a stationary stream has them before the block F (n, r), y (n, q), too."""
    return Conditioned.on(before, F, y).weights if moved else before.weights


def pairs(gain: np.ndarray, loss: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Match the best candidates with the weakest pivots while gain > margin · loss; numbers of both, (s,) each."""
    best, weakest = np.argsort(-gain), np.argsort(loss)[: gain.size]
    n_pairs = int(np.cumprod(gain[best] > margin * loss[weakest]).sum())
    return best[:n_pairs], weakest[:n_pairs]
