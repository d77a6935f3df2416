"""Errors of rows of the window that are predicted ahead, by which a state adapts; and what several looks say.

Rows are predicted from those before them only, as they came. Left out in blocks (h-block cross-validation) they would
be predicted from both sides: where a disturbance lasts, these know it, and the past looks useless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from .._arrays import cholesky, solve_lower, to_host
from ..gp.posterior import Posterior
from .rows import Rows

# The fewest rows of a half.
SHORTEST = 4
# What was seen fades by this at each look: the last ten looks count.
FADING = 0.9
# Standard deviation of the log ratio of two errors on one window that was seen on stationary streams: what a single
# look is taken to be uncertain by.
UNCERTAIN = 0.1


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
        """Return the choice whose error is lowest by two standard errors: the first unless another is clearly better.

        Errors are alike over `lasting` rows, so that a window is as uncertain as one of so many times fewer rows.
        """
        mean = self.sums / self.count
        spread = np.maximum(self.squares / self.count - mean**2, 0.0)
        uncertain = np.sqrt((spread + UNCERTAIN**2 * lasting) / self.count)
        uncertain[0] = 0.0
        return int(np.argmin(mean + 2.0 * uncertain))
