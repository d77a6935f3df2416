"""Members of the panel beside the Gaussian process that need next to no time: a ridge regression and a local level.

A member predicts standardised targets and learns rows; how far it can be trusted is known to the mixture, from what it
predicted. On plants in time order a linear function of all that was seen often predicts better than anything else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from .._arrays import Array, asarray_like, clipped, double, is_foreign, namespace, to_host

# Weight of the prior of a ridge regression, in rows.
PRIOR_ROWS = 1.0
# A feature counts as at most so many deviations from its mean, and a prediction as so many of the targets': a reading
# that is absurd must not become a prediction that is.
FARTHEST, FARTHEST_TARGET = 100.0, 10.0
# Features and targets count as at most so large, in units of the first ones: their squares stay numbers.
LARGEST = 1e60
# A feature varies if its deviation is more than this share of its size.
VARIES = 1e-9
# Of the difference between a target and the level before it, a level takes over so much with each row.
RATES = np.array([1.0, 0.3, 0.1, 0.03])
# The age in rows at which the weight of a squared error of a level is 1/e.
LEVEL_MEMORY = 500.0


@dataclass(frozen=True)
class Known:
    """Rows that were learned: X (n, d), standardised targets z (n, q) and weights (n,), None for ones."""

    X: Array
    z: Array
    weights: Array | None = None

    def on_host(self) -> Known:
        """Return the rows as NumPy arrays in float64."""
        values = (self.X, self.z, self.weights)
        return Known(*(None if v is None else np.asarray(to_host(v), dtype=np.float64) for v in values))


@dataclass(frozen=True)
class Affine:
    """What a member says until it learns again: level + clip(clip((x − centre)·scale, ±FARTHEST) @ slopes, ±reach).

    Attributes
    ----------
    level, reach : (q,)
    slopes : (d, q)
    centre, scale : (d,)
    """

    level: np.ndarray
    slopes: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    reach: np.ndarray

    def at(self, X: Array) -> np.ndarray:
        """Return what is said at the rows X (m, d), on a device or not; (m, q) on the host."""
        xp, rows = namespace(X), double(X)
        slopes, centre, scale, reach = (
            asarray_like(v, rows) for v in (self.slopes, self.centre, self.scale, self.reach)
        )
        away = clipped((rows - centre) * scale, -FARTHEST, FARTHEST) @ slopes
        away = xp.minimum(xp.maximum(away, -1.0 * reach[None, :]), reach[None, :])
        return np.asarray(self.level + to_host(away))


class Member(ABC):
    """Predicts standardised targets of q outputs; immutable. On the host, in float64; X may be on a device."""

    @abstractmethod
    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the means (m, q) at the rows of X (m, d)."""

    @abstractmethod
    def frozen(self, n_features: int) -> Affine:
        """Return what is predicted now."""

    @abstractmethod
    def left_out(self, X: np.ndarray, z: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the means (m, q) of the last rows learned, X (m, d), z (m, q), each as if it had not been."""

    @abstractmethod
    def update(self, X: np.ndarray, z: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Return the member that has also learned the rows X (b, d), z (b, q), as often as their weights (b,) say."""

    @abstractmethod
    def without(self, rows: Known, others: Known) -> Self:
        """Return the member that has not learned these rows; `others` are some that it has learned."""

    @abstractmethod
    def jumped(self, shift: np.ndarray, rows: Known) -> Self:
        """Return the member for which the last rows learned are smaller by `shift` (q,)."""

    @abstractmethod
    def merge(self, other: Self) -> Self:
        """Return the member that has learned the rows of both."""

    @abstractmethod
    def rescaled(self, factors: np.ndarray) -> Self:
        """Return the member of targets that are multiplied by `factors` (q,)."""

    @abstractmethod
    def moved(self, shift: np.ndarray) -> Self:
        """Return the member of targets that are smaller by `shift` (q,)."""

    @abstractmethod
    def blank(self) -> Self:
        """Return the member that has learned nothing."""

    def _begun_again(self, rows: Known) -> Self:
        """Return the member that has learned these rows alone."""
        return self.blank().update(rows.X, rows.z, rows.weights) if rows.X.shape[0] else self.blank()

    def forgotten(self, rate: float) -> Self:
        """Return the member for which the weight of all rows so far is multiplied by `rate`."""
        return self


@dataclass(frozen=True)
class FadingRidge(Member):
    """Ridge regression from second moments of features and targets, standardised by these moments.

    Attributes
    ----------
    unit : (d,)
        What features are divided by, so that no square overflows; chosen once.
    fading : float
        What the weight of a row is multiplied by with each row that follows.
    count : float
        The sum of weights.
    mean : (d + q,), scatter : (d + q, d + q)
        Of features and targets: weighted mean, and weighted sum of products of differences from it.
    """

    unit: np.ndarray
    fading: float
    count: float
    mean: np.ndarray
    scatter: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, n_outputs: int, fading: float) -> Self:
        """Return the member that has learned nothing, of features as large as those of X (n, d)."""
        size = np.abs(X).max(axis=0)
        p = X.shape[1] + n_outputs
        return cls(np.where(size > 0, size, 1.0), fading, 0.0, np.zeros(p), np.zeros((p, p)))

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.unit.size)

    @cached_property
    def _deviation(self) -> np.ndarray:
        """Standard deviation of each feature, infinite where it does not vary."""
        d = self.n_features
        spread = np.sqrt(np.maximum(np.diag(self.scatter)[:d] / max(self.count, 1e-300), 0.0))
        return np.where(spread > VARIES * np.abs(self.mean[:d]), spread, np.inf)

    @cached_property
    def _fit(self) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients (d, q) of standardised features, and the matrix (d, d) whose inverse they come from."""
        d, s = self.n_features, self._deviation
        normal = self.scatter[:d, :d] / s[:, None] / s + PRIOR_ROWS * np.eye(d)
        return np.linalg.solve(normal, self.scatter[:d, d:] / s[:, None]), normal

    def _standardised(self, X: np.ndarray) -> np.ndarray:
        t = (X / self.unit - self.mean[: self.n_features]) / self._deviation
        return np.asarray(np.clip(t, -FARTHEST, FARTHEST))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """See Member; O(m d q), and O(d³) after an update."""
        d = self.n_features
        if is_foreign(X):
            return self.frozen(d).at(X)
        away = self._standardised(X) @ self._fit[0]
        reach = _reach(self)
        return np.asarray(self.mean[d:] + np.clip(away, -reach, reach))

    def frozen(self, n_features: int) -> Affine:
        """See Member."""
        d, mean = self.n_features, self.mean
        scale = 1.0 / (self.unit * self._deviation)
        return Affine(mean[d:], self._fit[0], self.unit * mean[:d], scale, _reach(self))

    def left_out(self, X: np.ndarray, z: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """See Member; by the leverage of each row."""
        t = self._standardised(X)
        least = 1.0 if weights is None else 1e-300
        leverage = 1.0 / max(self.count, least) + np.sum(t * np.linalg.solve(self._fit[1], t.T).T, axis=1)
        leverage = leverage if weights is None else leverage * weights
        error = (z - self.predict(X)) / np.maximum(1.0 - leverage, 0.1)[:, None]
        return np.asarray(z - error)

    def update(self, X: np.ndarray, z: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """See Member; O(b (d + q)²). A row ages the others as one row, whatever its weight."""
        b = X.shape[0]
        left = self.fading ** np.arange(b - 1, -1, -1.0)
        left = left if weights is None else left * weights
        if is_foreign(X):
            return self._joined(self.fading**b, *_moments_on_device(self.unit, X, z, left))
        return self._joined(self.fading**b, *_moments(self._rows(X, z), left))

    def _rows(self, X: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return features in their units beside targets, (b, d + q)."""
        return np.asarray(np.clip(np.column_stack([X / self.unit, z]), -LARGEST, LARGEST))

    def _joined(self, rate: float, count: float, mean: np.ndarray, scatter: np.ndarray) -> Self:
        """Return these moments, faded by `rate`, and others together."""
        before = rate * self.count
        total, apart = before + count, mean - self.mean
        both = rate * self.scatter + scatter + np.outer(apart, apart) * (before * count / total)
        return replace(self, count=total, mean=self.mean + apart * (count / total), scatter=both)

    def without(self, rows: Known, others: Known) -> Self:
        """See Member; exact where nothing has faded. Otherwise all but the other rows are forgotten."""
        after = self._parted(rows, np.ones(rows.X.shape[0])) if self.fading == 1.0 else None
        return self._begun_again(others) if after is None else after

    def jumped(self, shift: np.ndarray, rows: Known) -> Self:
        """See Member."""
        n, moved = rows.X.shape[0], replace(rows, z=rows.z - shift)
        before = self._parted(rows, self.fading ** np.arange(n - 1, -1, -1.0))
        if before is None:
            return self._begun_again(moved)
        return before.forgotten(self.fading**-n).update(moved.X, moved.z, moved.weights)

    def _parted(self, rows: Known, left: np.ndarray) -> Self | None:
        """Return the member without rows of which fading has `left` so much; None where they are more than all."""
        left = left if rows.weights is None else left * rows.weights
        count, mean, scatter = _moments(self._rows(rows.X, rows.z), left)
        others = self.count - count
        if others < 1e-6 * self.count:
            return None
        before = (self.count * self.mean - count * mean) / others
        apart = mean - before
        rest = self.scatter - scatter - np.outer(apart, apart) * (others * count / self.count)
        possible = (np.diag(rest) >= -1e-6 * np.diag(self.scatter)).all()
        return replace(self, count=others, mean=before, scatter=rest) if possible else None

    def merge(self, other: Self) -> Self:
        """See Member."""
        ratio = np.append(other.unit / self.unit, np.ones(self.mean.size - self.n_features))
        if not other.count:
            return self
        return self._joined(1.0, other.count, ratio * other.mean, np.outer(ratio, ratio) * other.scatter)

    def rescaled(self, factors: np.ndarray) -> Self:
        """See Member."""
        both = np.append(np.ones(self.n_features), factors)
        return replace(self, mean=self.mean * both, scatter=self.scatter * np.outer(both, both))

    def moved(self, shift: np.ndarray) -> Self:
        """See Member."""
        return replace(self, mean=self.mean - np.append(np.zeros(self.n_features), shift))

    def blank(self) -> Self:
        """See Member."""
        return replace(self, count=0.0, mean=0.0 * self.mean, scatter=0.0 * self.scatter)

    def forgotten(self, rate: float) -> Self:
        """See Member."""
        return replace(self, count=rate * self.count, scatter=rate * self.scatter)


def _reach(ridge: FadingRidge) -> np.ndarray:
    """Return how far a prediction lies from the mean of the targets at most, (q,)."""
    variance = np.diag(ridge.scatter)[ridge.n_features :] / max(ridge.count, 1e-300)
    return np.asarray(FARTHEST_TARGET * np.sqrt(variance))


def _moments(rows: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the sum of weights (n,), the mean and the scatter of some rows (n, p)."""
    count = float(weights.sum())
    mean = weights @ rows / count
    apart = rows - mean
    return count, mean, (apart * weights[:, None]).T @ apart


def _moments_on_device(
    unit: np.ndarray, X: Array, z: np.ndarray, left: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return `_moments` of rows X (b, d), on a device, beside z (b, q): of size (d + q)² on the host."""
    xp, X = namespace(X), double(X)
    rows = xp.concat([X / asarray_like(unit, X), asarray_like(z, X)], axis=1)
    weights, rows, count = asarray_like(left, X), clipped(rows, -LARGEST, LARGEST), float(left.sum())
    mean = weights @ rows / count
    apart = rows - mean
    return count, to_host(mean), to_host(xp.matrix_transpose(apart * weights[:, None]) @ apart)


@dataclass(frozen=True)
class Level(Member):
    """The last targets, averaged over as many rows as predicted best so far: what comes next is as what came last.

    Attributes
    ----------
    levels, squares : (RATES, q)
        Averages by each rate, and decayed means of their squared errors.
    """

    levels: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, n_outputs: int) -> Self:
        """Return the member that has learned nothing."""
        return cls(np.zeros((RATES.size, n_outputs)), np.zeros((RATES.size, n_outputs)))

    @property
    def _level(self) -> np.ndarray:
        best = np.argmin(self.squares, axis=0)
        return np.asarray(np.take_along_axis(self.levels, best[None, :], axis=0)[0])

    def predict(self, X: np.ndarray) -> np.ndarray:
        """See Member."""
        return np.tile(self._level, (X.shape[0], 1))

    def frozen(self, n_features: int) -> Affine:
        """See Member; the same everywhere."""
        level, nothing = self._level, np.zeros(n_features)
        return Affine(level, np.zeros((n_features, level.size)), nothing, nothing, 0.0 * level)

    def left_out(self, X: np.ndarray, z: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """See Member; by the row before, since there is no better way to know what a level was."""
        return np.concatenate([z[:1], z[:-1]])

    def update(self, X: np.ndarray, z: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """See Member; a row of weight w takes over what w rows would."""
        b, error = z.shape[0], (z[None, :, :] - self.levels[:, None, :]) ** 2
        fading = np.exp(-b / LEVEL_MEMORY)
        if weights is None:
            shares = RATES[:, None] * (1.0 - RATES[:, None]) ** np.arange(b - 1, -1, -1.0)
            levels, error = (1.0 - RATES[:, None]) ** b * self.levels + shares @ z, error.mean(axis=1)
        else:
            later = np.append(np.cumsum(weights[::-1])[::-1][1:], 0.0)
            shares = (1.0 - (1.0 - RATES[:, None]) ** weights) * (1.0 - RATES[:, None]) ** later
            levels = (1.0 - RATES[:, None]) ** weights.sum() * self.levels + shares @ z
            error = np.average(error, axis=1, weights=weights)
        return replace(self, levels=levels, squares=fading * self.squares + (1.0 - fading) * error)

    def without(self, rows: Known, others: Known) -> Self:
        """See Member; a level does not know its rows, and begins again with the others."""
        return self._begun_again(others)

    def jumped(self, shift: np.ndarray, rows: Known) -> Self:
        """See Member."""
        return self.moved(shift)

    def merge(self, other: Self) -> Self:
        """See Member; this stream is taken as the newer."""
        return self

    def rescaled(self, factors: np.ndarray) -> Self:
        """See Member."""
        return replace(self, levels=self.levels * factors, squares=self.squares * factors**2)

    def blank(self) -> Self:
        """See Member."""
        return replace(self, levels=0.0 * self.levels, squares=0.0 * self.squares)

    def moved(self, shift: np.ndarray) -> Self:
        """See Member."""
        return replace(self, levels=self.levels - shift)
