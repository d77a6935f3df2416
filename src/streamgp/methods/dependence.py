"""Serial dependence: how many rows of a stream tell as much as one independent row.

On a plant what the inputs do not explain lasts for hours: the errors of neighbouring rows are alike. A model that takes
them for independent learns each disturbance as if it were the function. With rows that count for 1/τ each, which is the
noise τσ² in M = A + τσ²I, it does not; the noise of a new observation stays σ².

τ is found by leaving blocks of consecutive rows out of the window, long enough that a row is predicted as far from the
nearest known label as the stream itself has to predict (h-block cross-validation). No row is learned again: with
H = FM⁻¹Fᵀ of a block, the errors without it are (I − H)⁻¹(y − Fw).

Reference: Burman, Chow & Nolan, A cross-validatory method for dependent data, Biometrika 81 (1994).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from .._arrays import to_host
from ..gp.posterior import Posterior
from .rows import Rows

# What τ is chosen from: half a decade apart, which is as close as a window of 500 rows can tell.
CHOICES = (1.0, 10.0**0.5, 10.0, 10.0**1.5, 100.0)
# Rows at the first look, which then doubles up to EVERY: a look is about as costly as learning 200 rows.
FIRST, EVERY = 200, 1000
# What was seen fades by this at each look: the last ten looks count, 10,000 rows.
FADING = 0.9
# Standard deviation of the log ratio of two errors on one window that was seen on stationary streams: what a single
# look is taken to be uncertain by.
UNCERTAIN = 0.1
# The fewest rows of a block, and the fewest blocks.
SHORTEST, FEWEST = 4, 3


@dataclass(frozen=True)
class Dependence:
    """τ, and how the error changed with it at the looks so far.

    Attributes
    ----------
    factor : float
        τ, 1 for independent rows.
    looks : float
        The number of looks, faded.
    gains, squares : (c,)
        Logarithm of the squared error with each of CHOICES over that with τ = 1, and its square, faded sums.
    next_look : int
        The number of rows at which to look again.
    """

    factor: float = 1.0
    looks: float = 0.0
    gains: np.ndarray = field(default_factory=lambda: np.zeros(len(CHOICES)))
    squares: np.ndarray = field(default_factory=lambda: np.zeros(len(CHOICES)))
    next_look: int = FIRST

    def looked(self, fit: Posterior, window: Rows, horizon: int, rows: int) -> Self:
        """Compare CHOICES on the window, for predictions `horizon` rows ahead; O(W r² + r³) for each.

        Taken is the one whose error is lowest by a standard error: τ = 1 unless another is clearly better.
        """
        after = replace(self, next_look=rows + min(max(rows, FIRST), EVERY))
        blocks = _blocks(window.count, horizon)
        if len(blocks) < FEWEST:
            return after
        single = [(slice(i, i + 1), slice(0, 1)) for i in range(window.count)]
        both = [_errors(replace(fit, dependence=choice), window, [blocks, single]) for choice in CHOICES]
        errors = np.array(both)
        if not (np.isfinite(errors) & (errors > 0)).all():
            return after  # rows that are predicted without error tell nothing
        change = np.log(errors / errors[0])
        # What single rows gain, too, is no dependence: the noise is too low, which is not for this to mend.
        change = change[:, 0] - np.minimum(change[:, 1], 0.0)
        looks = FADING * self.looks + 1.0
        gains, squares = FADING * self.gains + change, FADING * self.squares + change**2
        mean = gains / looks
        spread = np.maximum(squares / looks - mean**2, 0.0)
        uncertain = np.sqrt((spread + UNCERTAIN**2) / looks) * (np.array(CHOICES) > 1)
        factor = CHOICES[int(np.argmin(mean + uncertain))]
        return replace(after, factor=factor, looks=looks, gains=gains, squares=squares)


def _blocks(n: int, horizon: int) -> list[tuple[slice, slice]]:
    """Return consecutive blocks of n rows, each with its middle half, which is far enough from the rest."""
    size = max(2 * horizon, SHORTEST)
    size = min(size, n // FEWEST) if size > n // FEWEST else size
    if size < SHORTEST:
        return []
    ends = range(n, size - 1, -size)
    return [(slice(end - size, end), slice(size // 4, size - size // 4)) for end in ends]


def _errors(fit: Posterior, window: Rows, ways: list[list[tuple[slice, slice]]]) -> list[float]:
    """Return the mean squared error over that of each output, of rows in the middle of blocks that are left out.

    For each of several ways to cut the window into blocks.
    """
    y = to_host(window.y)
    F, weights = to_host(window.F).astype(np.float64), np.sqrt(to_host(window.weights))
    size = np.maximum(y.var(axis=0), 1e-300)
    left, totals = (y - F @ to_host(fit.weights)) * weights[:, None], np.zeros((len(ways), 2))
    for g, M in enumerate(fit.factors):
        G, _ = M.whiten(window.F)
        host, here = to_host(G) * weights[:, None], [j for j, of in enumerate(fit.groups.members) if of == g]
        for way, blocks in enumerate(ways):
            for rows, middle in blocks:
                H = host[rows] @ host[rows].T
                error = np.linalg.solve(np.eye(H.shape[0]) - H, left[rows][:, here])[middle]
                totals[way] += float((error**2 / size[here]).sum()), error.size
    return [float(total / max(count, 1)) for total, count in totals]
