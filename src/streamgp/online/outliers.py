"""Outliers: rows too far from all that was seen, as a broken sensor sends them, are not learned (`guard=`).

With "auto", rows that the stream's own errors do not explain are held back, and learned late where more of them follow
(`suspects`); with a number of deviations they are refused for good.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from .._arrays import Array, index, joined, namespace, to_host
from ..checks import Batch
from ..errors import InputError
from ..gp.outputs import typical
from ..labels import without_gaps
from ..methods import State, predict_in_chunks
from ..parameters import AUTO
from ..row_weights import joined_weights, taken, times, whitened
from ..targets import TargetScaling
from ..tuning.families import spread
from .calibration import MIN_SCORES, Scores
from .history import LEDGER_ROWS, fingerprints
from .suspects import (
    ABSURD,
    ABSURD_INPUT,
    LEAST,
    LEVEL,
    REMEMBERED,
    WINDOW,
    absurd,
    believed,
    limits,
    surprising,
)

# With fewer rows distances cannot be judged.
MIN_TO_JUDGE = 20
# Distinguishes the draw of the rows that judge the first batch from other draws with the same seed.
JUDGING_DRAW = 41
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
class Waiting:
    """Suspects that may be the first of a jump: X (k, d), y (k, q), and how many rows came since, ages (k,).

    `weights` (k,) are those of the rows, None for ones.
    """

    X: Array
    y: Array
    ages: np.ndarray
    weights: Array | None = None

    def aged(self, rows: int) -> Self:
        """Return those that still wait after so many more rows."""
        return self.only(self.ages + rows < WINDOW, rows)

    def only(self, kept: np.ndarray, rows: int = 0) -> Self:
        """Return those for which `kept` (k,) is true, older by so many rows."""
        xp, at = namespace(self.X), index(np.flatnonzero(kept).tolist(), self.X)
        return replace(
            self,
            X=xp.take(self.X, at, axis=0),
            y=xp.take(self.y, at, axis=0),
            ages=self.ages[kept] + rows,
            weights=taken(self.weights, at),
        )

    def join(self, batch: Batch, suspect: np.ndarray) -> Self:
        """Add the rows of a batch for which `suspect` (b,) is true."""
        new = batch.only(suspect)
        return replace(
            self,
            X=joined([self.X, new.X]),
            y=joined([self.y, new.y]),
            ages=np.append(self.ages, len(suspect) - 1 - np.flatnonzero(suspect)),
            weights=joined_weights([(self.weights, self.X), (new.weights, new.X)]),
        )


@dataclass(frozen=True)
class Outliers:
    """The guard: which rows were refused, and what others are compared with.

    Attributes
    ----------
    limit : float, "auto" or None
        Deviations beyond which a row is refused, whatever follows; "auto": see `suspects`; None refuses none.
    inputs : InputMoments or None
        Of the rows learned; None without a limit.
    refused : (b,)
        Which rows of the last batch were refused.
    total : int
        How many in all, less those that were learned later.
    recent : (m,)
        Which of the last rows were suspect ("auto").
    waiting : Waiting or None
        Suspects that later rows may show to be the first of a jump ("auto").
    prints : (k,) of uint64
        Fingerprints of the last rows refused.
    """

    limit: float | str | None
    inputs: InputMoments | None = None
    refused: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    total: int = 0
    recent: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    waiting: Waiting | None = None
    prints: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    # The first rows

    @classmethod
    def first(cls, limit: float | str | None, batch: Batch) -> tuple[Self, Batch]:
        """Screen the first rows by their distance from the median; return the guard and the rows to learn."""
        if limit is None:
            return cls(None), batch
        table = np.hstack([to_host(batch.X).astype(np.float64), without_gaps(to_host(batch.y))])
        return cls(limit).without(batch, _far_among_first(table, batch.X.shape[1], limit))

    def without(self, batch: Batch, refused: np.ndarray) -> tuple[Self, Batch]:
        """Return the guard of the first rows of which `refused` (n,) are, and the others."""
        if refused.all():
            raise InputError(f"guard={self.limit} rejected every row of the first batch; increase it")
        kept = batch.only(~refused)
        X = to_host(kept.X).astype(np.float64)
        waiting = None
        if self.limit == AUTO:
            last = np.arange(refused.size) > refused.size - WINDOW
            waiting = Waiting(batch.X[:0, :], batch.y[:0, :], np.zeros(0, dtype=int)).join(
                batch, refused & last
            )
        inputs = InputMoments.none(spread(X)).add(X)
        recent = refused[-REMEMBERED:] if self.limit == AUTO else self.recent
        return replace(
            self,
            inputs=inputs,
            refused=refused,
            total=int(refused.sum()),
            recent=recent,
            waiting=waiting,
            prints=_prints(batch.only(refused)),
        ), kept

    def reconsidered(
        self, batch: Batch, state: State, targets: TargetScaling, *, seed: int, strictness: float
    ) -> tuple[Self, Batch]:
        """Judge the first rows again by the model that was learned from some; see `suspects.surprising`."""
        kernel, noise = state.kernel, typical(state.noise)
        if len(self.refused) < MIN_TO_JUDGE or not kernel.positive_semidefinite:
            return self, batch.only(~self.refused)
        X, y = to_host(batch.X).astype(np.float64), without_gaps(to_host(batch.y))
        far = absurd(X, ABSURD_INPUT)
        with np.errstate(over="ignore"):
            z = (y - to_host(targets.offset)) / to_host(targets.scale)
        kept = ~(self.refused | far)
        weights = None if batch.weights is None else to_host(batch.weights)
        draw = (seed, JUDGING_DRAW)
        suspect = surprising(kernel, noise, X, z, kept, seed=draw, strictness=strictness, weights=weights)
        refused = far | (suspect if strictness > 1 else ~believed(suspect))
        if (refused == self.refused).all():
            return self, batch.only(~refused)
        return self.without(batch, refused)

    def after_first(self, before: Self, n: int, again: bool) -> Self:
        """Return the guard at the last n of the first rows; `again`: it judged all that the one before had seen."""
        now = replace(self, refused=self.refused[-n:])
        return now if again else now.merge(before)

    # The rows that follow

    def screen(
        self, batch: Batch, state: State, targets: TargetScaling, scores: Scores
    ) -> tuple[Self, Batch]:
        """Screen rows: inputs by their distance from the mean, targets by that from their prediction.

        With "auto" the rows to learn may begin with earlier ones, that the later ones showed to be a jump.
        """
        if self.limit is None or self.inputs is None:
            return self, batch
        rows = to_host(batch.X).astype(np.float64)
        suspect = self.inputs.far(rows, ABSURD_INPUT if self.limit == AUTO else float(self.limit))
        if not suspect.all():
            near = batch.only(~suspect)
            suspect[~suspect] = (
                self._unlikely(near, state, targets, scores)
                if self.limit == AUTO
                else self._far(near, state, targets)
            )
        after, kept = self._judged(batch, suspect) if self.limit == AUTO else self._refusing(batch, suspect)
        if kept.X.shape[0]:
            after = replace(after, inputs=self.inputs.add(to_host(kept.X).astype(np.float64)))
        return after, kept

    def _refusing(self, batch: Batch, refused: np.ndarray) -> tuple[Self, Batch]:
        """Return the guard that has refused some rows of a batch, and the others."""
        if not refused.any():
            return replace(self, refused=refused), batch
        prints = np.append(self.prints, _prints(batch.only(refused)))[-LEDGER_ROWS:]
        total = self.total + int(refused.sum())
        return replace(self, refused=refused, total=total, prints=prints), batch.only(~refused)

    def _judged(self, batch: Batch, suspect: np.ndarray) -> tuple[Self, Batch]:
        """Refuse suspects that are rare; learn, late, those that turned out not to be."""
        assert self.waiting is not None
        b, both = suspect.size, np.append(self.recent, suspect)
        if not suspect.any():
            waiting = self.waiting.aged(b) if self.waiting.ages.size else self.waiting
            return replace(self, refused=suspect, recent=both[-REMEMBERED:], waiting=waiting), batch
        taken = believed(both)
        refused, released = ~taken[-b:], taken[self.recent.size - 1 - self.waiting.ages]
        after, kept = self._refusing(batch, refused)
        if released.any():
            late = self.waiting.only(released)
            kept = kept.behind(late.X, late.y, late.weights)
        last = np.arange(b) > b - WINDOW
        waiting = self.waiting.only(~released).aged(b).join(batch, refused & last)
        total = after.total - int(released.sum())
        return replace(after, recent=both[-REMEMBERED:], waiting=waiting, total=total), kept

    def _unlikely(self, batch: Batch, state: State, targets: TargetScaling, scores: Scores) -> np.ndarray:
        """Return whether each target lies further from its prediction than earlier errors explain; (b,)."""
        if scores.count < MIN_SCORES or not state.kernel.positive_semidefinite:
            return np.zeros(batch.X.shape[0], dtype=bool)
        found = predict_in_chunks(state, batch.X)
        # Of a row of weight w, whose noise is σ²/w, both are multiplied by w.
        variance = np.maximum(to_host(found.variance), 0.0)
        variance = variance if batch.doubt is None else variance + batch.doubt
        variance = to_host(times(variance, batch.weights)) + state.noise
        with np.errstate(over="ignore"):
            error = whitened(targets.scaled(batch.y) - found.mean, batch.weights)
            away = np.abs(to_host(error)) / np.sqrt(variance)
        if not (away > LEAST).any():
            return np.zeros(len(away), dtype=bool)
        limit = limits(to_host(scores.reach(LEVEL, state.noise)))
        return np.asarray((away > limit).any(axis=1))  # a label that is missing is not suspect

    def _far(self, batch: Batch, state: State, targets: TargetScaling) -> np.ndarray:
        """Return whether each target lies more than `limit` prior deviations from its prediction; (b,)."""
        # Of the prior: a precise model is easily surprised, and may be so by a change that it ought to learn.
        noise = state.noise[None, :] / (1.0 if batch.weights is None else to_host(batch.weights)[:, None])
        prior = np.sqrt(np.abs(to_host(state.kernel.diag(batch.X)))[:, None] + noise)
        with np.errstate(over="ignore"):
            away = np.abs(to_host(targets.scaled(batch.y) - predict_in_chunks(state, batch.X).mean))
        return np.asarray((away > float(self.limit or 0.0) * prior).any(axis=1))

    def check_learned(self, batch: Batch, learned: np.ndarray) -> None:
        """Raise InputError where a row was refused; `learned` (m,) are the fingerprints of the last rows learned."""
        if not self.prints.size:
            return
        rows = _prints(batch)
        never = np.flatnonzero(np.isin(rows, self.prints) & ~np.isin(rows, learned))
        if never.size:
            raise InputError(
                f"row {never[0]} was refused by the guard (refused_) and never learned; unlearn the others. "
                "The model is unchanged"
            )

    def merge(self, other: Self) -> Self:
        """Return the guard of both streams; suspects of the other that wait are refused."""
        both = self.inputs.merge(other.inputs) if self.inputs and other.inputs else self.inputs
        prints = np.append(other.prints, self.prints)[-LEDGER_ROWS:]
        return replace(self, inputs=both, total=self.total + other.total, prints=prints)


def _prints(batch: Batch) -> np.ndarray:
    weights = None if batch.weights is None else to_host(batch.weights)
    return fingerprints(to_host(batch.X), to_host(batch.y), weights)


def _far_among_first(table: np.ndarray, n_features: int, limit: float | str) -> np.ndarray:
    if len(table) < MIN_TO_JUDGE:
        return np.zeros(len(table), dtype=bool)
    if limit != AUTO:
        return far_from_median(table, float(limit))
    return np.asarray(absurd(table[:, :n_features], ABSURD_INPUT) | absurd(table[:, n_features:], ABSURD))
