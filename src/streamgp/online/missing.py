"""Features that are missing: filled in by what the others of the row say, and the doubt that this leaves.

A missing feature is taken as its conditional mean given the features that are there, by the running first and second
moments of all rows learned: normal imputation. A prediction is one at the filled row; what the missing features might
have been otherwise adds to its variance, by differences of the model's mean along the conditional covariance, up to
second order. The moments are estimated as by expectation and maximisation: a filled cell adds its conditional variance.

References: Little & Rubin, Statistical Analysis with Missing Data (2019), chapters 8 and 11.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from .._arrays import to_host
from ..checks import Batch
from ..errors import InputError
from ..methods import State, predict_in_chunks
from .history import fingerprints
from .members import PRIOR_ROWS, VARIES, FadingRidge, Known

# A feature counts as at most so many deviations from its mean while others are filled in: absurd readings tell little.
FARTHEST = 10.0
# Of the first rows, at most FIRST give the moments, estimated ROUNDS times; readings beyond so many times the distance
# of the quartiles count as lying there.
FIRST, ROUNDS, REACH = 1000, 5, 10.0
# Differences are taken along at most so many principal directions of the conditional covariance.
DIRECTIONS = 16
# The last rows that were filled in, which `unlearn` has to know as they were learned.
KEPT = 2000


@dataclass(frozen=True)
class Steps:
    """Where else filled rows may lie: row numbers (p,), and a deviation along a principal direction each, (p, d)."""

    rows: np.ndarray
    away: np.ndarray


@dataclass(frozen=True)
class Imputation:
    """What is known of the features, by which missing ones are filled in.

    Attributes
    ----------
    moments : FadingRidge
        Mean and scatter of the features alone: there are no targets in it.
    cells : (d,) of int64
        How often each feature was missing in the rows that came to be learned.
    rows, empty : int
        Rows of these that lacked some features, and rows that lacked all, which were not learned.
    prints, filled : (k,) of uint64, (k, d)
        Of the last rows that were filled in: fingerprints as they came, and as they were learned.
    """

    moments: FadingRidge
    cells: np.ndarray
    rows: int
    empty: int
    prints: np.ndarray
    filled: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> Self:
        """Return what the rows X (n, d) tell, none of which lacks a feature."""
        none = np.empty(0, dtype=np.uint64)
        return cls(_moments(X), np.zeros(X.shape[1], dtype=np.int64), 0, 0, none, X[:0].copy())

    @classmethod
    def begun(cls, X: np.ndarray) -> Self:
        """Return what the first rows X (n, d) tell, NaN where a feature is missing; every row has some feature."""
        X = X[:FIRST].astype(np.float64)
        lacking = np.isnan(X)
        unseen = lacking.all(axis=0)
        low, middle, high = np.nanquantile(np.where(unseen, 0.0, X), [0.25, 0.5, 0.75], axis=0)
        # Where the quartiles are equal, most readings are: others are then not far from anything that is known.
        reach = np.where(high > low, REACH * (high - low), np.inf)
        X = np.clip(X, low - reach, high + reach)
        now = cls.of(np.where(lacking, middle, X))
        for _ in range(ROUNDS if lacking.any() else 0):
            now = now.learned_from(now.fill(X), lacking)
        return now

    def learned_from(self, X: np.ndarray, lacking: np.ndarray | None) -> Self:
        """Return the imputation by the moments of these rows alone, X (n, d); `lacking` (n, d) were filled in."""
        return replace(self, moments=self._doubted(_moments(X), lacking))

    def cleared(self) -> Self:
        """Return the imputation by the same moments that has counted nothing."""
        none = np.zeros_like(self.cells)
        return replace(self, cells=none, rows=0, empty=0, prints=self.prints[:0], filled=self.filled[:0])

    # Filling in

    @cached_property
    def _standard(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and deviation of the features in their own units, and the precision matrix of standardised ones."""
        m = self.moments
        count = max(m.count, 1e-300)
        deviation = np.sqrt(np.maximum(np.diag(m.scatter) / count, 0.0))
        deviation = np.where(deviation > VARIES * np.abs(m.mean), deviation, 1.0)
        covariance = m.scatter / count / deviation[:, None] / deviation
        precision = np.linalg.inv(covariance + PRIOR_ROWS / max(count, PRIOR_ROWS) * np.eye(deviation.size))
        return m.mean * m.unit, deviation * m.unit, precision

    def fill(self, X: np.ndarray) -> np.ndarray:
        """Return the rows X (m, d) with conditional means in the place of NaN; O(m d² + k³) for k missing of a row."""
        lacking = np.isnan(X)
        mean, deviation, precision = self._standard
        with np.errstate(over="ignore"):
            T = np.clip((X - mean) / deviation, -FARTHEST, FARTHEST)
        for rows, gone in _patterns(lacking):
            there = np.where(gone, 0.0, T[rows])
            away = -np.linalg.solve(precision[np.ix_(gone, gone)], precision[gone] @ there.T).T
            T[np.ix_(rows, gone)] = np.clip(away, -FARTHEST, FARTHEST)
        return np.where(lacking, T * deviation + mean, X).astype(X.dtype)

    def steps(self, lacking: np.ndarray) -> Steps:
        """Return where else rows may lie that lack features, `lacking` (m, d)."""
        _, deviation, precision = self._standard
        numbers, away = [np.zeros(0, dtype=np.int64)], [np.zeros((0, deviation.size))]
        for rows, gone in _patterns(lacking):
            values, vectors = np.linalg.eigh(precision[np.ix_(gone, gone)])
            values, vectors = values[:DIRECTIONS], vectors[:, :DIRECTIONS]  # of the largest variances
            found = np.zeros((values.size, deviation.size))
            found[:, gone] = (vectors / np.sqrt(values)).T
            numbers.append(np.repeat(rows, values.size))
            away.append(np.tile(found * deviation, (rows.size, 1)))
        return Steps(np.concatenate(numbers), np.concatenate(away))

    def doubt(self, state: State, X: np.ndarray, lacking: np.ndarray) -> np.ndarray:
        """Return the variance (m, q) of the state's mean at filled rows X (m, d), for what is `lacking` (m, d).

        Exact where the mean is quadratic in the missing features; two predictions for each of them.
        """
        steps = self.steps(lacking)
        here = X[steps.rows].astype(np.float64)
        both = np.concatenate([here + steps.away, here - steps.away, X]).astype(X.dtype)
        f = to_host(predict_in_chunks(state, both, variance=False).mean)
        p, out = steps.rows.size, np.zeros((X.shape[0], f.shape[1]))
        up, down, middle = f[:p], f[p : 2 * p], f[2 * p :][steps.rows]
        np.add.at(out, steps.rows, 0.25 * (up - down) ** 2 + 0.5 * (up + down - 2.0 * middle) ** 2)
        return out

    # Learning

    def noted(self, batch: Batch, filled: np.ndarray) -> Self:
        """Count what the rows of a batch lack, which is `filled` (b, d)."""
        lacking = np.isnan(batch.X)
        some = lacking.any(axis=1)
        prints = fingerprints(np.where(lacking, np.nan, batch.X)[some], batch.y[some])
        return replace(
            self,
            cells=self.cells + lacking.sum(axis=0),
            rows=self.rows + int(some.sum()),
            prints=np.append(self.prints, prints)[-KEPT:],
            filled=np.concatenate([self.filled, filled[some]])[-KEPT:],
        )

    def emptier(self, n: int) -> Self:
        """Count n rows that lack every feature."""
        return replace(self, cells=self.cells + n, empty=self.empty + n) if n else self

    def update(self, X: np.ndarray, lacking: np.ndarray | None, forgetting: float) -> Self:
        """Add the rows X (b, d), of which `lacking` (b, d) were filled in, after the past is forgotten by its rate."""
        before = self.moments if forgetting == 1 else self.moments.forgotten(forgetting)
        return replace(self, moments=self._doubted(before.update(X, _no_targets(X)), lacking))

    def _doubted(self, moments: FadingRidge, lacking: np.ndarray | None) -> FadingRidge:
        """Return moments with the conditional variance of features that were filled in."""
        if lacking is None or not lacking.any():
            return moments
        away = self.steps(lacking).away / moments.unit
        return replace(moments, scatter=moments.scatter + away.T @ away)

    def recalled(self, batch: Batch) -> Batch:
        """Return rows to unlearn as they were filled in; raise InputError where that is not known any more."""
        lacking = np.isnan(batch.X)
        some = np.flatnonzero(lacking.any(axis=1))
        if not some.size:
            return batch
        prints = fingerprints(np.where(lacking, np.nan, batch.X)[some], batch.y[some])
        X = batch.X.copy()
        for i, row in zip(some, prints, strict=True):
            at = np.flatnonzero(self.prints == row)
            if not at.size:
                raise InputError(
                    f"row {i} lacks features, and is not among the last {KEPT:,} such rows that were learned: what was "
                    "filled in is not known any more. The model is unchanged"
                )
            X[i] = self.filled[at[-1]]
        return replace(batch, X=X, lacking=None)

    def without(self, X: np.ndarray) -> Self:
        """Return the imputation without the rows X (b, d), filled in as they were learned."""
        rest = self.moments.without(Known(X, _no_targets(X)), Known(X[:0], _no_targets(X[:0])))
        return replace(self, moments=rest if rest.count else self.moments)

    def merge(self, other: Self) -> Self:
        """Return the imputation of both streams."""
        return replace(
            self,
            moments=self.moments.merge(other.moments),
            cells=self.cells + other.cells,
            rows=self.rows + other.rows,
            empty=self.empty + other.empty,
            prints=np.append(other.prints, self.prints)[-KEPT:],
            filled=np.concatenate([other.filled, self.filled])[-KEPT:],
        )


def begun(batch: Batch) -> tuple[Imputation, Batch]:
    """Return the imputation by the first rows, and these filled in, without those that lack every feature."""
    if batch.lacking is None:
        return Imputation.of(batch.X[:FIRST]), batch
    empty = batch.empty
    if empty.all():
        raise InputError("no row of X has a feature: all are NaN; give some rows with features first")
    rest = batch.only(~empty)
    return filled(Imputation.begun(rest.X).emptier(int(empty.sum())), rest)


def filled(imputation: Imputation, batch: Batch) -> tuple[Imputation, Batch]:
    """Return the imputation that has counted what a batch lacks, and the batch filled in."""
    X = imputation.fill(batch.X)
    return imputation.noted(batch, X), replace(batch, X=X)


def alone(imputation: Imputation, batch: Batch) -> tuple[Imputation, Batch]:
    """Return the imputation by the rows of a batch alone, which are filled in by that of others; without empty rows."""
    now, n = imputation.cleared(), batch.X.shape[0]
    if batch.lacking is not None:
        batch = batch.only(~batch.empty)
        now, batch = filled(now.emptier(n - batch.X.shape[0]), batch)
        # Fingerprints would travel with every task; a model that has learned on a cluster knows none anyway.
        now = replace(now, prints=now.prints[:0], filled=now.filled[:0])
    if not batch.X.shape[0]:
        return replace(now, moments=now.moments.blank()), batch
    return now.learned_from(batch.X, batch.lacking), batch


def _no_targets(X: np.ndarray) -> np.ndarray:
    return np.zeros((X.shape[0], 0))


def _moments(X: np.ndarray) -> FadingRidge:
    return FadingRidge.of(X, 0, 1.0).update(X, _no_targets(X))


def _patterns(lacking: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the numbers of rows that lack the same features, some, and which these are, (d,)."""
    some = np.flatnonzero(lacking.any(axis=1))
    if some.size == 1:  # one row at a time cannot wait for a sort
        yield some, lacking[some[0]]
    elif some.size:
        patterns, which = np.unique(lacking[some], axis=0, return_inverse=True)
        order = np.argsort(np.ravel(which), kind="stable")
        ends = np.cumsum(np.bincount(np.ravel(which)))
        for pattern, start, end in zip(patterns, [0, *ends[:-1]], ends, strict=True):
            yield some[order[start:end]], pattern
