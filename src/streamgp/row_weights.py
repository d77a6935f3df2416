"""Weights of rows: a row of weight w has the noise variance σ²/w, and so tells as much as w equal rows.

Multiplied by √w, its features, its target and its error are those of a row with the noise σ²: every use of weights is
this whitening. None stands for weights of one, which are never multiplied with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._arrays import Array, asarray_like, double, index, is_foreign, joined, namespace, to_host
from .errors import InputError

# Weights other than zero lie between these, so that no square leaves the range of numbers.
SMALLEST, LARGEST = 1e-30, 1e30


def checked_weights(given: Any, X: Array) -> Array | None:
    """Return the weights (b,) that were given for the rows X (b, d), in float64; None where all of them are one."""
    if given is None:
        return None
    rule = f"give one weight for each row, 0 or between {SMALLEST:g} and {LARGEST:g}. The model is unchanged"
    try:
        weights = np.asarray(to_host(given) if is_foreign(given) else given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight is not an array of numbers ({error}); {rule}") from error
    weights = np.full(X.shape[0], float(weights)) if weights.ndim == 0 else weights
    if weights.shape != (X.shape[0],):
        raise InputError(f"sample_weight has shape {weights.shape}, X has {X.shape[0]} rows; {rule}")
    if (weights == 1.0).all():
        return None
    wrong = ~((weights == 0) | ((weights >= SMALLEST) & (weights <= LARGEST)))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise InputError(f"sample_weight of row {at} is {weights[at]:g}; {rule}")
    return asarray_like(weights, X, namespace(X).float64)


def whitened(values: Array, weights: Array | None) -> Array:
    """Return √w times the rows of values (n, ·), in double precision where there are weights (n,)."""
    return values if weights is None else double(values) * namespace(weights).sqrt(weights)[:, None]


def times(values: Array, weights: Array | None) -> Array:
    """Return w times the rows of values (n, ·)."""
    return values if weights is None else double(values) * weights[:, None]


def summed(values: Array, weights: Array | None) -> float:
    """Return the sum of w times values (n,)."""
    return float(namespace(values).sum(values if weights is None else double(values) * weights))


def taken(weights: Array | None, at: Array | None) -> Array | None:
    """Return the weights of the rows with the numbers `at`, None for all."""
    return weights if weights is None or at is None else namespace(weights).take(weights, at, axis=0)


def taken_where(weights: Array | None, rows: np.ndarray) -> Array | None:
    """Return the weights of the rows for which `rows` (b,) is true."""
    return None if weights is None else taken(weights, index(np.flatnonzero(rows).tolist(), weights))


def part_of(weights: Array | None, rows: slice) -> Array | None:
    """Return the weights of a slice of the rows."""
    return None if weights is None else weights[rows]


def joined_weights(parts: Sequence[tuple[Array | None, Array]]) -> Array | None:
    """Return the weights of rows that follow each other, from the weights of each part and its rows (n, d)."""
    if all(weights is None for weights, _ in parts):
        return None
    return joined([ones_for(X) if weights is None else weights for weights, X in parts])


def ones_for(X: Array) -> Array:
    """Return weights of one for the rows X (n, d)."""
    return asarray_like(np.ones(X.shape[0]), X, namespace(X).float64)


def typical_weight(weights: np.ndarray | None) -> float:
    """Return the geometric mean of weights (n,), 1 for none."""
    return 1.0 if weights is None or not weights.size else float(np.exp(np.log(weights).mean()))
