"""Rows as the members of the panel take them, and as the store beside them does: on the host, or on a device."""

from __future__ import annotations

import numpy as np

from .._arrays import Array, asarray_like, double, is_foreign, namespace, to_host


def beside(X: Array, z: Array, weights: Array | None) -> tuple[Array, Array, Array | None]:
    """Return the rows of a store, X (b, d), z (b, q) and weights (b,), in float64 on the device of X."""
    if not is_foreign(X):
        return host(X), host(z), None if weights is None else host(weights)
    here = namespace(X).float64
    return double(X), double(z) if is_foreign(z) else asarray_like(z, X, here), weights


def rows_of(X: Array) -> Array:
    """Return rows for members to predict or to learn: of a library other than NumPy as they are."""
    return X if is_foreign(X) else host(X)


def host(values: Array) -> np.ndarray:
    """Return values in float64 on the host."""
    return np.asarray(to_host(values), dtype=np.float64)
