"""Protocols that stream data through a regressor, one record a batch."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ._arrays import is_foreign, to_host
from .errors import ParameterError
from .regressor import StreamingGPRegressor

# Half-width, in standard deviations, of the central 90 % of a normal distribution.
NINETY_PERCENT = 1.6448536269514722


@dataclass(frozen=True)
class Record:
    """What one batch showed.

    Attributes
    ----------
    batch : int
        From 0.
    rows_seen : int
        Rows learned, this batch included.
    rmse, nlpd, coverage : float or None
        Root mean squared error, mean negative log predictive density and share of targets inside the 90 %
        interval, all before the batch was learned; None where nothing had been learned yet.
    predict_seconds, update_seconds, tuning_seconds : float
        Tuning is not part of the update.
    tuning : str or None
        What a tuning after this batch came to: "taken", or why the hyperparameters stayed as they were.
    rank : int
    trace_error, trace_error_share : float
        tr(K − K̂) over the rows learned, and as a share of tr K.
    """

    batch: int
    rows_seen: int
    rmse: float | None
    nlpd: float | None
    coverage: float | None
    predict_seconds: float
    update_seconds: float
    tuning_seconds: float
    tuning: str | None
    rank: int
    trace_error: float
    trace_error_share: float


def prequential(
    gp: StreamingGPRegressor, X: Any, y: Any, batch_size: int = 100, first: int | None = None
) -> Iterator[Record]:
    """Predict each batch, then learn it with its targets: each row is tested before it is learned.

    Parameters
    ----------
    gp : StreamingGPRegressor
        Goes on from where it stands; if it knows nothing yet, the first batch is only learned.
    X : (n, d), y : (n,) or (n, q)
    batch_size : int
    first : int, optional
        Rows of the first batch, where it should be another number.
    """
    return _stream(gp, X, y, batch_size, first, labelled=True)


def self_training(
    gp: StreamingGPRegressor, X: Any, y: Any, batch_size: int = 100, first: int | None = None
) -> Iterator[Record]:
    """Learn only the first batch with its targets, each later one with its own predictions: the paper's protocol.

    A regressor that knows something already gets no targets at all. Hyperparameters that were not given are
    taken from the first 50 rows, so make the first batch that long: its own predictions would shape them.
    """
    return _stream(gp, X, y, batch_size, first, labelled=False)


def _stream(
    gp: StreamingGPRegressor, X: Any, y: Any, batch_size: int, first: int | None, labelled: bool
) -> Iterator[Record]:
    for name, value in (("batch_size", batch_size), ("first", first)):
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 1):
            raise ParameterError(f"{name}={value!r} must be a whole number, 1 or more")
    X, y = (v if hasattr(v, "shape") else np.asarray(v) for v in (X, y))
    if X.shape[0] != y.shape[0]:
        raise ParameterError(f"X has {X.shape[0]} rows, y {y.shape[0]}; give a target for each row")
    return _records(gp, X, y, batch_size, first or batch_size, labelled)


def _records(
    gp: StreamingGPRegressor, X: Any, y: Any, batch_size: int, first: int, labelled: bool
) -> Iterator[Record]:
    n = X.shape[0]
    cuts = [slice(0, min(first, n)), *(slice(i, min(i + batch_size, n)) for i in range(first, n, batch_size))]
    for batch, cut in enumerate(cuts):
        rows, targets = X[cut, ...], y[cut, ...]
        metrics: tuple[float | None, float | None, float | None] = (None, None, None)
        began = time.perf_counter()
        known = _is_fitted(gp)
        if known:
            reach = _host(gp._reach(0.9, True))
            mean, std = gp.predict(rows, return_std=True)
        predicted = time.perf_counter()
        gp.partial_fit(rows, targets if labelled or not known else mean)
        learned = time.perf_counter()
        outcome = gp.tuning_
        tuned = outcome.seconds if outcome else 0.0
        if known:
            metrics = score(_host(targets), _host(mean), _host(std), reach)
        yield Record(
            batch,
            gp.n_samples_seen_,
            *metrics,
            predicted - began,
            learned - predicted - tuned,
            tuned,
            outcome.verdict if outcome else None,
            gp.rank_,
            gp.trace_error_,
            gp.trace_error_share_,
        )


def _host(values: Any) -> np.ndarray:
    return np.asarray(to_host(values) if is_foreign(values) else values, dtype=np.float64)


def score(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, reach: float | np.ndarray = NINETY_PERCENT
) -> tuple[float, float, float]:
    """Give RMSE, mean negative log predictive density and coverage of the interval mean ± reach·std.

    Arrays of one shape; `reach` may be one for each output.
    """
    error = y - mean
    # A variance that was clipped to zero in a model without noise would give an infinite density.
    std = np.maximum(std, np.finfo(np.float64).tiny)
    density = 0.5 * (error / std) ** 2 + np.log(std) + 0.5 * math.log(2 * math.pi)
    inside = np.abs(error) <= reach * std
    return float(np.sqrt(np.mean(error**2))), float(np.mean(density)), float(np.mean(inside))


def state_bytes(gp: StreamingGPRegressor) -> int:
    """Count the bytes of the arrays that a fitted regressor holds."""
    check_is_fitted(gp)
    return _bytes(gp._stream)


def _bytes(value: object) -> int:
    if is_dataclass(value):
        return sum(_bytes(getattr(value, f.name)) for f in fields(value))
    if isinstance(value, tuple):
        return sum(_bytes(v) for v in value)
    return int(getattr(value, "nbytes", 0))


def _is_fitted(gp: StreamingGPRegressor) -> bool:
    try:
        check_is_fitted(gp)
    except NotFittedError:
        return False
    return True
