"""What is missing in NumPy arrays: labels, NaN among several outputs, and features."""

from __future__ import annotations

import numpy as np

from ._arrays import Array


def missing(y: Array) -> np.ndarray | None:
    """Return which labels of y (n, q) are missing, (n, q); None where none is, or y has not several outputs."""
    if type(y) is not np.ndarray or y.ndim != 2 or y.shape[1] < 2 or y.dtype.kind != "f":
        return None
    gaps = np.isnan(y)
    return gaps if gaps.any() else None


def without_gaps(y: Array) -> Array:
    """Return y (n, q) with observed labels of the same output, in turn, in the place of missing ones.

    Mean and spread of each output stay what they are; zero for an output without a label. For first estimates.
    """
    gaps = missing(y)
    if gaps is None:
        return y
    out = y.copy()
    for j in np.flatnonzero(gaps.any(axis=0)):
        known = y[~gaps[:, j], j]
        out[gaps[:, j], j] = np.resize(known, int(gaps[:, j].sum())) if known.size else 0.0
    return out


def lacking(X: Array) -> np.ndarray | None:
    """Return which features of X (m, d) are missing, NaN; None where none is, or X is not NumPy's."""
    if type(X) is not np.ndarray or np.isfinite(X).all():
        return None
    return np.isnan(X)
