"""Errors of rows of the window that are held back, by which a state adapts to its stream; and what several looks say.

`held_back`: blocks of consecutive rows are left out, long enough that a row is predicted as far from the nearest known
label as the stream itself has to predict (h-block cross-validation). No row is learned again: with H = FM⁻¹Fᵀ of a
block, the errors without it are (I − H)⁻¹(y − Fw).

`ahead`: rows are predicted from those before them only, as they came. Where a disturbance lasts, rows on both sides of
a block know it, and the past looks useless; rows before it know less.

Reference: Burman, Chow & Nolan, A cross-validatory method for dependent data, Biometrika 81 (1994).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from .._arrays import cholesky, solve_lower, to_host
from ..gp.posterior import Posterior
from .rows import Rows

# The fewest rows of a block, and the fewest blocks.
SHORTEST, FEWEST = 4, 3
# What was seen fades by this at each look: the last ten looks count.
FADING = 0.9
# Standard deviation of the log ratio of two errors on one window that was seen on stationary streams: what a single
# look is taken to be uncertain by.
UNCERTAIN = 0.1


class Errors(NamedTuple):
    """Mean squared errors, over the variance of each output, of rows left out in blocks and one by one."""

    blocks: float
    single: float


def held_back(fit: Posterior, window: Rows, horizon: int) -> Errors | None:
    """Return the errors of the window for predictions `horizon` rows ahead; None for too few rows. O(W r²)."""
    blocks = _blocks(window.count, horizon)
    if len(blocks) < FEWEST:
        return None
    y, weights = to_host(window.y), np.sqrt(to_host(window.weights))[:, None]
    size = np.maximum(y.var(axis=0), 1e-300)
    left = (y - to_host(window.F).astype(np.float64) @ to_host(fit.weights)) * weights
    of_blocks, of_single = [], []
    for g, M in enumerate(fit.factors):
        G = to_host(M.whiten(window.F)[0]) * weights
        here = [j for j, group in enumerate(fit.groups.members) if group == g]
        scaled = left[:, here] / np.sqrt(size[here])
        of_single.append((scaled / (1.0 - (G * G).sum(axis=1))[:, None]) ** 2)
        for rows, middle in blocks:
            H = G[rows] @ G[rows].T
            of_blocks.append(np.linalg.solve(np.eye(H.shape[0]) - H, scaled[rows])[middle] ** 2)
    mean = [
        float(np.concatenate([part.ravel() for part in parts]).mean()) for parts in (of_blocks, of_single)
    ]
    return Errors(*mean)


def ahead(past: Posterior, window: Rows, horizon: int) -> float | None:
    """Return the mean squared error, over the variance of each output, of the second half of the window.

    Each row is predicted from `past`, which does not know the window, and from the rows of the window that are at least
    `horizon` rows older. None for too few rows. With the Cholesky factor L of I + GGᵀ, G the rows in the coordinates in
    which M of the past is the identity, L[i, :m] and the first m entries of L⁻¹(y − Fw) condition row i on the first m
    rows: one factorisation serves all of them. O(W r² + W³).
    """
    n = window.count
    gap = min(horizon, n // 4)
    if n < 2 * SHORTEST:
        return None
    y, weights = to_host(window.y), np.sqrt(to_host(window.weights))[:, None]
    left = (y - to_host(past.mean(window.F))) * weights / np.sqrt(np.maximum(y.var(axis=0), 1e-300))
    known = np.tril(np.ones((n, n)), -gap)
    errors = []
    for g, M in enumerate(past.factors):
        G = to_host(M.whiten(window.F)[0]) * weights
        L = cholesky(G @ G.T, "I + GGᵀ", 1.0)
        here = [j for j, group in enumerate(past.groups.members) if group == g]
        explained = (L * known) @ solve_lower(L, left[:, here])
        errors.append((left[:, here] - explained)[n // 2 :] ** 2)
    return float(np.concatenate([part.ravel() for part in errors]).mean())


def _blocks(n: int, horizon: int) -> list[tuple[slice, slice]]:
    """Return consecutive blocks of n rows, each with its middle half, which is far enough from the rest."""
    size = min(max(2 * horizon, SHORTEST), n // FEWEST)
    if size < SHORTEST:
        return []
    ends = range(n, size - 1, -size)
    return [(slice(end - size, end), slice(size // 4, size - size // 4)) for end in ends]


@dataclass(frozen=True)
class Looks:
    """Log ratios of errors with each of some choices to that with the first, over several looks.

    Attributes
    ----------
    count : float
        The number of looks, faded.
    sums, squares : (c,)
        Of the log ratios, faded.
    """

    count: float
    sums: np.ndarray
    squares: np.ndarray

    @classmethod
    def none(cls, n_choices: int) -> Self:
        """Return no looks."""
        return cls(0.0, np.zeros(n_choices), np.zeros(n_choices))

    def add(self, change: np.ndarray) -> Self:
        """Add a look, (c,)."""
        sums, squares = FADING * self.sums + change, FADING * self.squares + change**2
        return type(self)(FADING * self.count + 1.0, sums, squares)

    def best(self, lasting: float = 1.0) -> int:
        """Return the choice whose error is lowest by a standard error: the first unless another is clearly better.

        Errors are alike over `lasting` rows, so that a window is as uncertain as one of so many times fewer rows.
        """
        mean = self.sums / self.count
        spread = np.maximum(self.squares / self.count - mean**2, 0.0)
        uncertain = np.sqrt((spread + UNCERTAIN**2 * lasting) / self.count)
        uncertain[0] = 0.0
        return int(np.argmin(mean + uncertain))
