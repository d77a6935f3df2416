"""Prequential evaluation and self-training: data streamed through a regressor, one record per batch."""

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

# The least standard deviation: where a variance was clipped to zero the density would be infinite.
TINY = np.finfo(np.float64).tiny
# Half-width, in standard deviations, of the central 90 % of a normal distribution.
NINETY_PERCENT = 1.6448536269514722


@dataclass(frozen=True)
class Record:
    """Errors, times and the state of the model of one batch.

    Attributes
    ----------
    batch : int
        Number of the batch, from 0.
    rows_seen : int
        Rows learned, this batch included.
    rmse, nlpd, coverage : float or None
        Root mean squared error, mean negative log predictive density and share of targets inside the 90 %
        interval, of predictions made before the batch was learned; None if nothing had been learned yet.
    predict_seconds, update_seconds, tuning_seconds : float
        Times of prediction, of the update without tuning, and of tuning.
    tuning : str or None
        Outcome of a tuning in this batch: "taken", or why the hyperparameters did not change; None without one.
    rank : int
        Rank of the model after the batch.
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
    gp: StreamingGPRegressor,
    X: Any,
    y: Any,
    batch_size: int = 100,
    first: int | None = None,
    *,
    delay: int = 0,
) -> Iterator[Record]:
    """Yield a record for each batch, which is predicted first and then learned with its targets.

    Parameters
    ----------
    gp : StreamingGPRegressor
        Continues from its present state; if it is not fitted, the first batch is learned without being predicted.
    X : (n, d), y : (n,) or (n, q)
    batch_size : int
        Rows per batch.
    first : int, optional
        Rows of the first batch. Default: batch_size.
    delay : int
        Rows until a target is known: when a batch has been predicted, all rows but the last `delay` are learned. A
        first batch that is not predicted is learned at once; targets that come after the last batch are not learned.
    """
    if not isinstance(delay, Integral) or isinstance(delay, bool) or delay < 0:
        raise ParameterError(f"delay={delay!r} must be a whole number, 0 or more")
    return _records(gp, *_checked(X, y, batch_size, first), labelled=True, delay=int(delay))


def self_training(
    gp: StreamingGPRegressor, X: Any, y: Any, batch_size: int = 100, first: int | None = None
) -> Iterator[Record]:
    """Yield a record for each batch; only the first is learned with its targets, later ones with their predictions.

    This is the paper's protocol. A fitted regressor gets no targets at all. Hyperparameters that are not given are
    estimated from the first 50 rows, so the first batch should have at least 50: otherwise predictions enter the
    estimate.
    """
    return _records(gp, *_checked(X, y, batch_size, first), labelled=False)


def _checked(X: Any, y: Any, batch_size: int, first: int | None) -> tuple[Any, Any, list[slice]]:
    """Return X and y as arrays and the rows of each batch; raise ParameterError at once, not at the first record."""
    for name, value in (("batch_size", batch_size), ("first", first)):
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 1):
            raise ParameterError(f"{name}={value!r} must be a whole number, 1 or more")
    X, y = (v if hasattr(v, "shape") else np.asarray(v) for v in (X, y))
    n, start = X.shape[0], first or batch_size
    if n != y.shape[0]:
        raise ParameterError(f"X has {n} rows, y {y.shape[0]}; pass one target for each row")
    later = (slice(i, min(i + batch_size, n)) for i in range(start, n, batch_size))
    return X, y, [slice(0, min(start, n)), *later]


def _records(
    gp: StreamingGPRegressor, X: Any, y: Any, batches: list[slice], *, labelled: bool, delay: int = 0
) -> Iterator[Record]:
    done = 0
    for batch, part in enumerate(batches):
        rows, targets = X[part, ...], y[part, ...]
        rmse = nlpd = coverage = None
        began = time.perf_counter()
        fitted = _is_fitted(gp)
        if fitted:
            mean, std, *ends = gp.predict(rows, return_std=True, return_interval=0.9)
        predicted = time.perf_counter()
        known = slice(done, max(done, part.stop - delay) if fitted else part.stop)
        outcome, done = None, known.stop
        if known.stop > known.start:
            gp.partial_fit(X[known, ...], y[known, ...] if labelled or not fitted else mean)
            outcome = gp.tuning_
        learned = time.perf_counter()
        tuned = outcome.seconds if outcome else 0.0
        if fitted:
            low, high = (_host(end) for end in ends)
            rmse, nlpd, coverage = score(_host(targets), _host(mean), _host(std), (low, high))
        yield Record(
            batch=batch,
            rows_seen=gp.n_samples_seen_,
            rmse=rmse,
            nlpd=nlpd,
            coverage=coverage,
            predict_seconds=predicted - began,
            update_seconds=learned - predicted - tuned,
            tuning_seconds=tuned,
            tuning=outcome.verdict if outcome else None,
            rank=gp.rank_,
            trace_error=gp.trace_error_,
            trace_error_share=gp.trace_error_share_,
        )


def _host(values: Any) -> np.ndarray:
    """Return values of any array library as a NumPy array in float64."""
    return np.asarray(to_host(values) if is_foreign(values) else values, dtype=np.float64)


def score(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, ends: tuple[np.ndarray, np.ndarray] | None = None
) -> tuple[float, float, float]:
    """Return RMSE, mean negative log predictive density and coverage of the intervals with these ends.

    All have one shape, (n,) or (n, q). Without ends, intervals are the normal ones of 90 %. Labels that are missing,
    NaN, are not scored.
    """
    std = np.maximum(std, TINY)
    low, high = (mean - NINETY_PERCENT * std, mean + NINETY_PERCENT * std) if ends is None else ends
    seen = ~np.isnan(y)
    error, inside = (y - mean)[seen], ((low <= y) & (y <= high))[seen]
    mean_loss = float(np.mean(negative_log_density(error, std[seen])))
    return float(np.sqrt(np.mean(error**2))), mean_loss, float(np.mean(inside))


def negative_log_density(error: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Return −log of the normal density of each error, for standard deviations of the same shape, none below TINY."""
    return np.asarray(0.5 * (error / std) ** 2 + np.log(std) + 0.5 * math.log(2 * math.pi))


def state_bytes(gp: StreamingGPRegressor) -> int:
    """Return the number of bytes in the arrays of a fitted regressor."""
    check_is_fitted(gp)
    return _bytes(gp.learner_)


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
