"""The prior mean: what is known of the targets beforehand, a function of the features; the model learns the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ._arrays import Array, asarray_like, double, is_foreign, namespace, to_host
from .errors import InputError
from .kernels.derivatives import central_differences

if TYPE_CHECKING:
    from .checks import Batch

B = TypeVar("B", bound="Batch")


def is_mean_function(value: Any) -> bool:
    """Return whether a value can be the argument `mean_function`."""
    return value is None or callable(value) or callable(getattr(value, "predict", None))


def mean_at(function: Any, X: Array, n_outputs: int) -> Array:
    """Return what a function, or a fitted regressor, says at the rows X (m, d); (m, q) in float64.

    A function gets X as the model has it, in the library, order and dtype of its first batch; a regressor NumPy arrays.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not bool(namespace(X).all(namespace(X).isfinite(X))):
        raise InputError(
            f"mean_function={name} needs every feature, X contains NaN; fill in or drop these rows"
        )
    predict = getattr(function, "predict", None)
    try:
        found = function(X) if predict is None else predict(to_host(X))
        found = np.asarray(to_host(found) if is_foreign(found) else found, dtype=np.float64)
    except Exception as error:  # whatever the user's own function raises
        raise InputError(
            f"mean_function={name} failed: {type(error).__name__}: {error}. A regressor must be fitted, and wrapped in "
            "sklearn.frozen.FrozenEstimator where the model is cloned. The model is unchanged"
        ) from error
    if found.ndim == 1 and n_outputs == 1:
        found = found[:, None]
    if found.shape != (X.shape[0], n_outputs):
        raise InputError(
            f"mean_function={name} returned shape {found.shape} for X of shape {tuple(X.shape)}; return a mean for "
            f"each row and target, {(X.shape[0], n_outputs)}. The model is unchanged"
        )
    if not np.isfinite(found).all():
        raise InputError(f"mean_function={name} returned NaN or infinity. The model is unchanged")
    return asarray_like(found, X, namespace(X).float64)


def without_mean(function: Any, batch: B) -> B:
    """Return a checked batch whose targets are less what the prior mean, if there is one, says of them."""
    if function is None or not batch.X.shape[0]:
        return batch
    return replace(batch, y=batch.y - mean_at(function, batch.X, int(batch.y.shape[1])))


def mean_gradient_at(function: Any, X: Array, n_outputs: int) -> Array:
    """Return the derivatives of a mean by the features at the rows X (m, d), (m, d, q); by central differences.

    A regressor that has `predict_gradient` knows better.
    """
    known = getattr(function, "predict_gradient", None)
    if known is None:
        X = double(X)
        return central_differences(lambda x: mean_at(function, x, n_outputs), X, X)
    found = np.asarray(to_host(known(X)), dtype=np.float64)
    found = found[:, :, None] if found.ndim == 2 else found
    return asarray_like(found, X, namespace(X).float64)
