"""Outliers: rows too far from all that was seen, as a broken sensor sends them, are not learned (`guard=`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from .._arrays import to_host
from ..checks import Batch
from ..errors import InputError
from ..labels import without_gaps
from ..methods import State, predict_in_chunks
from ..targets import TargetScaling
from ..tuning.families import spread

# With fewer rows distances cannot be judged.
MIN_TO_JUDGE = 20
# A normal distribution's standard deviation over its median absolute deviation.
_ROBUST = 1.4826


@dataclass(frozen=True)
class InputMoments:
    """Mean and spread of the inputs that were learned, in units of the first rows, so that no square overflows.

    Attributes
    ----------
    unit, mean, squares : (d,)
        `squares` is the sum of squared deviations from the mean.
    count : float
    """

    unit: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    count: float = 0.0

    @classmethod
    def none(cls, unit: np.ndarray) -> Self:
        """Return the moments of no rows; `unit` (d,) is the spread to measure in."""
        return cls(unit, np.zeros_like(unit), np.zeros_like(unit))

    def add(self, X: np.ndarray) -> Self:
        """Add the rows X (b, d)."""
        scaled = X / self.unit
        mean = scaled.mean(axis=0)
        other = replace(self, mean=mean, squares=((scaled - mean) ** 2).sum(axis=0), count=float(len(X)))
        return self.merge(other)

    def merge(self, other: Self) -> Self:
        """Add the rows of another stream; its unit may be another."""
        ratio = other.unit / self.unit
        theirs, count = other.mean * ratio, self.count + other.count
        gap, share = theirs - self.mean, other.count / max(count, 1.0)
        return replace(
            self,
            mean=self.mean + share * gap,
            squares=self.squares + other.squares * ratio**2 + self.count * share * gap**2,
            count=count,
        )

    def far(self, X: np.ndarray, deviations: float) -> np.ndarray:
        """Return which rows of X (b, d) lie more than `deviations` from the mean in some feature."""
        if self.count < MIN_TO_JUDGE:
            return np.zeros(len(X), dtype=bool)
        size = np.sqrt(self.squares / self.count)
        # A feature that never varied may vary by its own size.
        size = np.where(size > 1e-12, size, 1.0)
        with np.errstate(over="ignore"):
            away = np.abs(X / self.unit - self.mean)
        return np.asarray(~(away <= deviations * size).all(axis=1))


def far_from_median(values: np.ndarray, deviations: float) -> np.ndarray:
    """Return which rows of (n, d) lie more than `deviations` from the median in some column."""
    if len(values) < MIN_TO_JUDGE:
        return np.zeros(len(values), dtype=bool)
    values = without_gaps(values)
    size = np.abs(np.median(values, axis=0))
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.abs(values - np.median(values, axis=0))
        robust = _ROBUST * np.median(away, axis=0)
        # Where most rows are equal the spread is zero: their size takes its place.
        robust = np.where(robust > 1e-12 * size, robust, np.where(size > 0, size, np.inf))
        return np.asarray(~(away <= deviations * robust).all(axis=1))


@dataclass(frozen=True)
class Outliers:
    """The guard: which rows were refused, and the inputs that others are compared with.

    Attributes
    ----------
    limit : float or None
        Deviations beyond which a row is refused; None refuses none.
    inputs : InputMoments or None
        Of the rows learned; None without a limit.
    refused : (b,)
        Which rows of the last batch were refused.
    total : int
        How many in all.
    """

    limit: float | None
    inputs: InputMoments | None = None
    refused: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    total: int = 0

    @classmethod
    def first(cls, limit: float | None, batch: Batch) -> tuple[Self, Batch]:
        """Screen the first rows by their distance from the median; return the guard and the rows to learn."""
        if limit is None:
            return cls(None), batch
        table = np.hstack([to_host(batch.X).astype(np.float64), to_host(batch.y)])
        refused = far_from_median(table, limit)
        if refused.all():
            raise InputError(f"guard={limit:g} rejected every row of the first batch; increase it")
        X = table[~refused, : batch.X.shape[1]]
        inputs = InputMoments.none(spread(X)).add(X)
        return cls(limit, inputs, refused, int(refused.sum())), batch.only(~refused)

    def screen(self, batch: Batch, state: State, targets: TargetScaling) -> tuple[Self, Batch]:
        """Screen rows: inputs by their distance from the mean, targets by that from their prediction."""
        if self.limit is None or self.inputs is None:
            return self, batch
        refused = self.inputs.far(to_host(batch.X).astype(np.float64), self.limit)
        if not refused.all():
            refused[~refused] = self._surprising(batch.only(~refused), state, targets)
        kept, inputs = batch.only(~refused), self.inputs
        if kept.X.shape[0]:
            inputs = inputs.add(to_host(kept.X).astype(np.float64))
        return replace(self, inputs=inputs, refused=refused, total=self.total + int(refused.sum())), kept

    def _surprising(self, batch: Batch, state: State, targets: TargetScaling) -> np.ndarray:
        """Return whether each target lies more than `limit` prior deviations from its prediction; (b,)."""
        # Of the prior: a precise model is easily surprised, and may be so by a change that it ought to learn.
        prior = np.sqrt(np.abs(to_host(state.kernel.diag(batch.X)))[:, None] + state.noise[None, :])
        with np.errstate(over="ignore"):
            away = np.abs(to_host(targets.scaled(batch.y) - predict_in_chunks(state, batch.X).mean))
        # A label that is missing surprises nobody.
        return np.asarray(~((away <= (self.limit or 0.0) * prior) | np.isnan(to_host(batch.y))).all(axis=1))

    def merge(self, other: Self) -> Self:
        """Return the guard of both streams."""
        both = self.inputs.merge(other.inputs) if self.inputs and other.inputs else self.inputs
        return replace(self, inputs=both, total=self.total + other.total)
