"""Sites: the pseudo-observations that stand for the rows of a batch, so that a Gaussian process can learn them.

Row i with the label yᵢ is learned as if zᵢ had been observed of the latent function with the noise variance 1/wᵢ. Sites
are sought by expectation propagation, or for Student's t by variational updates, over the rows of a batch together,
given all that was learned before; from then on they are fixed (assumed density filtering, batch by batch).
docs/likelihoods.md has the comparison that chose these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._arrays import cholesky, solve_lower
from .base import Likelihood, Tilted

# Sweeps over a batch, and when they end: no mean has moved by so much of its deviation, and no deviation.
SWEEPS, SETTLED = 50, 1e-3
# From this sweep on, a site moves only so far towards its new value: sites that are updated together may swing.
DAMPED_FROM, DAMPING = 2, 0.7
# The least weight of a site, as a share of what is known of its row already. Without weight it would have no target.
LEAST = 1e-9


@dataclass(frozen=True)
class Sites:
    """Pseudo-observations and what was found with them.

    Attributes
    ----------
    z, w : (n,)
        Targets and weights; of a row of weight k, the sum of k equal ones.
    mean, variance : (n,)
        Of f at the rows, given all of them.
    cavity : (2, n)
        Mean and variance of f at each row without that row.
    """

    z: np.ndarray
    w: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    cavity: np.ndarray

    def left_out(self, likelihood: Likelihood, y: np.ndarray) -> Tilted:
        """Return the log density of each label of y (n,), as predicted from all other rows, and what it makes of f."""
        return likelihood.tilted(y, *self.cavity)


def find_sites(
    likelihood: Likelihood,
    y: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    copies: np.ndarray | None = None,
) -> Sites:
    """Return sites for labels y (n,) where f has this mean (n,) and covariance (n, n) before they are known; O(n³).

    `copies` (n,) are the weights of the rows, one by default: a row of weight k has k equal sites.
    """
    n, variational = y.size, likelihood.variational
    w, wz = np.zeros(n), np.zeros(n)
    now, spread = mean, covariance.diagonal().copy()
    prior = spread.copy()
    count = np.ones(n) if copies is None else copies
    cavity = np.stack([now, spread])
    for sweep in range(SWEEPS):
        seen = np.stack([now, spread]) if variational else cavity
        fresh, fresh_z = likelihood.site(y, *seen)
        least = LEAST / prior
        lacking = fresh < least
        fresh, fresh_z = np.where(lacking, least, fresh), np.where(lacking, least * seen[0], fresh_z)
        step = 1.0 if variational or sweep < DAMPED_FROM else DAMPING
        w, wz = w + step * (fresh - w), wz + step * (fresh_z - wz)
        before, deviation = now, np.sqrt(spread)
        now, spread = _given(mean, covariance, count * w, count * wz)
        precision = np.maximum(1.0 / spread - w, LEAST / spread)
        cavity = np.stack([(now / spread - wz) / precision, 1.0 / precision])
        moved = np.abs(now - before) / deviation + np.abs(np.sqrt(spread) / deviation - 1.0)
        if (n == 1 and not variational) or moved.max(initial=0.0) < SETTLED:
            break
    return Sites(wz / w, count * w, now, spread, cavity)


def _given(
    mean: np.ndarray, covariance: np.ndarray, w: np.ndarray, wz: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (n,) of f given sites; Rasmussen & Williams, eqs. (3.53), (3.67) and (3.68)."""
    if w.size == 1:
        spread = covariance[0] / (1.0 + w * covariance[0])
        return mean + spread * (wz - w * mean), spread
    root = np.sqrt(w)
    B = root[:, None] * covariance * root[None, :]
    B[np.diag_indices_from(B)] += 1.0
    half = np.asarray(solve_lower(cholesky(B, "the matrix of a batch of sites"), root[:, None] * covariance))
    pull = wz - w * mean
    spread = covariance.diagonal() - (half * half).sum(axis=0)
    moved = covariance @ pull - half.T @ (half @ pull)
    return mean + moved, np.maximum(spread, 1e-12 * covariance.diagonal())
