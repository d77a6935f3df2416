"""Exponential weights with a fixed share: how far each member of the panel is trusted, from its losses.

References: Herbster & Warmuth, Tracking the best expert (1998). Cesa-Bianchi & Lugosi, Prediction, Learning, and Games
(2006), chapter 5.
"""

from __future__ import annotations

import numpy as np

# The member that is the Gaussian process with what its neighbours tell.
NEIGHBOURS = "neighbours"
# Weight that is shared out again with each row: one change of the best member in a thousand rows.
SHARE = 1e-3
# The weight of the Gaussian process at first, alone and with its neighbours; the others share the rest. With neighbours
# it is nearly always as good or better, and has most of it.
FIRST_WEIGHT, OF_NEIGHBOURS = 0.5, 0.9
# Squared errors count as at most so many variances.
LARGEST_RATIO = 25.0
# No variance is below this share of a typical squared error, or of a squared error over a variance.
LEAST = 1e-12


def first_weights(names: tuple[str, ...], n_outputs: int) -> np.ndarray:
    """Return the logarithms of the first weights of the members with these names, (K, q)."""
    gaussian = (1.0 - OF_NEIGHBOURS, OF_NEIGHBOURS) if NEIGHBOURS in names else (1.0,)
    n_others = len(names) - len(gaussian)
    first = FIRST_WEIGHT if n_others else 1.0
    weights = [first * share for share in gaussian] + [(1.0 - first) / max(n_others, 1)] * n_others
    return np.asarray(np.log(np.tile(np.array(weights)[:, None], (1, n_outputs))))


def weighted(log_weights: np.ndarray, losses: np.ndarray, rows: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return the logarithms of the weights (K, q) after so many rows (q,) with these losses (K, q) in all.

    With each row a share of the weight is shared out by the prior (K, q). What a member got by that at an earlier
    row, it has lost again with the rows since, as if each had the same part in its loss.
    """
    weights = np.exp(log_weights - losses - (log_weights - losses).max(axis=0))
    excess = (losses - losses.min(axis=0)) / np.maximum(rows, 1.0)
    since = np.where(excess > 1e-9, np.expm1(-rows * excess) / np.expm1(-np.maximum(excess, 1e-9)), rows)
    kept, shared = (1.0 - SHARE) ** rows, SHARE * prior * since
    mixed = kept * weights / weights.sum(axis=0) + shared
    return np.asarray(np.log(np.maximum(mixed / mixed.sum(axis=0), 1e-300)))


def capped(errors: np.ndarray, variances: np.ndarray, typical: np.ndarray | None = None) -> np.ndarray:
    """Return squared errors over variances, (b, K, q), at most LARGEST_RATIO times what is `typical` (K, q)."""
    ratio = errors**2 / np.maximum(variances, 1e-300)
    typical = np.median(ratio, axis=0) if typical is None else typical
    return np.asarray(np.minimum(ratio, LARGEST_RATIO * np.maximum(typical, LEAST)))
