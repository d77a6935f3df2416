"""The uses of streamgp's internals by experiments and figures, all in one place.

Everything else here uses the public interface, apart from `checks/counts.py`, which watches calls of
`streamgp._arrays`, and `checks/walk.py`, which watches all calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgp import StreamingGPRegressor
from streamgp._arrays import gram, library, linear, one_blas_thread, product, product_lower
from streamgp.checkpoint import read
from streamgp.kernels import BrownianPolynomial
from streamgp.methods import factory, pivot_selection
from streamgp.methods.pivot_state import PivotedConfig
from streamgp.methods.spectral import SpectralConfig
from streamgp.methods.weighted import WeightedState
from streamgp.online.weights import recent_weights
from streamgp.parameters import OBJECTIVES, used_by
from streamgp.tuning.objectives import StatisticsObjective

__all__ = [
    "PivotExchange",
    "all_blas_threads",
    "checkpoint_content",
    "fresh_memory",
    "gram",
    "learned_objectives",
    "no_pivot_exchange",
    "one_blas_thread",
    "pivot_exchange",
    "product",
    "product_lower",
    "recent_weights",
    "summary",
    "used_by",
]


def summary(gp: StreamingGPRegressor, X: np.ndarray, y: np.ndarray) -> object:
    """Return the statistics of rows X (n, d), y (n, q) for a fitted regressor, which a cluster would sum."""
    return gp.learner_.mergeable().summary(X, y)


@contextmanager
def fresh_memory() -> Iterator[None]:
    """Allocate every array anew."""
    before, library.MIN_RECYCLED_BYTES = library.MIN_RECYCLED_BYTES, sys.maxsize
    try:
        yield
    finally:
        library.MIN_RECYCLED_BYTES = before


@contextmanager
def all_blas_threads() -> Iterator[None]:
    """Leave the number of threads of every BLAS library as it is."""
    before, linear._blas_libraries = linear._blas_libraries, list
    try:
        yield
    finally:
        linear._blas_libraries = before


@contextmanager
def no_pivot_exchange() -> Iterator[None]:
    """Keep models of `pivoted` that begin in this block from exchanging pivots."""
    never = pivot_selection.SelectionPolicy(candidates_per_review=0)
    factory.PivotedConfig = partial(PivotedConfig, policy=never)  # type: ignore[misc]
    try:
        yield
    finally:
        factory.PivotedConfig = PivotedConfig  # type: ignore[misc]


def learned_objectives(
    kernel: BrownianPolynomial, X: np.ndarray, y: np.ndarray, rank: int
) -> dict[str, StatisticsObjective]:
    """Return the objectives by which `srmf` tunes the weights of an affine kernel, after rows X (n, d), y (n, 1)."""
    state = WeightedState.empty(SpectralConfig(rank, 10, 0, sequential=True), kernel, 0.1, X, y)
    for i in range(0, len(X), 1000):
        state = state.update(X[i : i + 1000], y[i : i + 1000])
    return {kind: StatisticsObjective(*state.weight_statistics, kind) for kind in OBJECTIVES}


class PivotExchange(NamedTuple):
    """What candidates would gain, largest first, what pivots would lose, smallest first, and the factor between."""

    gains: np.ndarray
    losses: np.ndarray
    margin: float


def pivot_exchange(gp: StreamingGPRegressor, X: np.ndarray) -> PivotExchange:
    """Return what `pivoted` compares when rows X (n, d) offer themselves as pivots."""
    state, kernel = gp.learner_.mergeable(), gp.kernel_
    posterior, features = state.posterior, state.features
    left = pivot_selection.residual(kernel, X, features.transform(X))
    chosen, columns = pivot_selection.draw(left, kernel.diag(X), 30, 1e-4, (0, 1))
    losses = pivot_selection.losses(posterior.statistics, features)
    losses = losses * pivot_selection.learned(features, posterior.weights)
    gains = pivot_selection.gains(columns, chosen)
    return PivotExchange(np.sort(gains)[::-1], np.sort(losses), pivot_selection.POLICY.margin)


def checkpoint_content(path: Path) -> Any:
    """Return what a checkpoint holds as plain values that compare equal bit for bit, without times and histories."""
    return _plain(read(path))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        left_out = ("history", "files")
        return {k: _plain(v) for k, v in value.items() if "seconds" not in str(k) and k not in left_out}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if hasattr(value, "__dataclass_fields__"):
        return _plain({k: getattr(value, k) for k in value.__dataclass_fields__ if k != "recent"})
    return repr(value)
