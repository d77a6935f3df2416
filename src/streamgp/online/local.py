"""Local scales: where in the input errors are larger, in units of the standard deviation that was predicted.

The noise of a Gaussian process is the same everywhere. Where it is not, scores |y − mean|/std are large in some places
and small in others. Their local mean λ(x), a kernel smoother (Nadaraya and Watson), scales standard deviations and
intervals. What is near is not known beforehand: it is judged by powers of the model's own correlation, or by the
predicted mean, with which noise often grows. Each way is tried out on every row before it is scored, and one is used
where the log density of past rows is clearly better with it; otherwise λ = 1, and nothing changes.

References: Fan & Yao, Efficient estimation of conditional variance functions, Biometrika 85 (1998). Tukey, Exploratory
Data Analysis (1977), for twicing. Papadopoulos, Gammerman & Vovk, Normalized nonconformity measures (2008).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._arrays import Array, asarray_like, on_host, to_host
from ..kernels import Kernel
from .tails import Tails
from .weights import recent_weights

# The last rows whose scale is kept.
LOCAL_ROWS = 1000
# Powers of the correlation: near are rows within the length-scale, within half of it, within a quarter of it.
POWERS = (1, 4, 16)
# Standard deviation of the smoother over predicted means, in their own standard deviations.
MEAN_WIDTH = 0.3
WAYS = len(POWERS) + 1
# Each way in two manners: smoothed once, with the weight of CAUTIOUS rows of scale 1 added; and smoothed twice (the
# second time what the first leaves: its bias next to a step is of second order), with the weight of one.
CAUTIOUS, SHARP = 10.0, 1.0
# A way is used if the log density of the last rows, MEMORY of them, is better by so much than without. 10 would be
# enough for the best of 2 WAYS if rows were independent; errors of neighbouring rows are alike.
CLEARLY = 30.0
# The age in rows at which the weight of a log density, and of a squared score, is 1/e.
MEMORY = 1000.0
# Share of a gain that counts where standard deviations are scaled: these must be right about rare errors, too, which
# may be far larger than any seen. 1,000 rows tell as much of them as ten.
RARE = 0.01
# Scores count as at most this many times their mean: one outlier must not scale a neighbourhood.
LARGEST = 5.0
# Rows scaled together: bounds memory.
CHUNK = 2000
# Rows that are added together, and how many of the last rows a scale is smoothed over: bounds time.
TOGETHER, SMOOTHED = 20, 250


@dataclass(frozen=True)
class Place:
    """Where rows lie: inputs X (b, d), predicted means (b, q), rows learned since (b,), and the kernel of the model."""

    X: Array
    means: Array
    lags: Array
    kernel: Kernel


@dataclass(frozen=True)
class _Places:
    """Rows to smooth over: X (l, d), means (l, q), `once` (l, q, WAYS), relative scores and weights (l, q)."""

    X: np.ndarray
    means: np.ndarray
    once: np.ndarray
    sizes: np.ndarray
    mass: np.ndarray


@dataclass(frozen=True)
class FrozenScale:
    """The scale λ(x) of one output until it learns again: a ratio of weighted sums over places that are near.

    With w_i how near place i is, and s the `prior`, λ = (s + Σ w_i first_i)/(s + Σ w_i mass_i), times the same with
    `second` in the place of `first` where it is smoothed twice.

    Attributes
    ----------
    X : (l, d), means : (l,)
        The places.
    power : int or None
        Near by the correlation to this power; None: by the predicted mean, w_i = exp(−(mean − means_i)²/2 width²).
    width : float
        Not positive where every place is as near.
    prior : float
    mass, first : (l,)
    second : (l,) or None
    """

    X: np.ndarray
    means: np.ndarray
    power: int | None
    width: float
    prior: float
    mass: np.ndarray
    first: np.ndarray
    second: np.ndarray | None


@dataclass(frozen=True)
class LocalScale:
    """Rows that were scored, and how well each way of scaling them did. On the host.

    Attributes
    ----------
    X : (l, d), means : (l, q)
        Inputs and predicted means of the last rows.
    once : (l, q, WAYS)
        The sharp scale of each row smoothed once, known before the row was scored.
    scales : (l, q, 1 + 2 WAYS)
        The scale of each row by each way and manner, known before the row was scored; the first is 1.
    gains : (q, 1 + 2 WAYS)
        Decayed sums of the log density of each.
    squares : (q, 1 + 2 WAYS), weight : (q,)
        Decayed mean of (score/scale)², and the number of labels in it. Of the first it stays 1: where nothing is
        scaled the spread is the model's own.
    tails : Tails
        By how much rare errors are larger than that tells.
    waiting_inputs : (p, d), waiting_means : (p, q), waiting_lags : (p,)
        Rows that came after these and are not added yet.
    used : bool
        Whether rows are added at all: where the noise was given, it is the same everywhere.
    """

    X: np.ndarray
    means: np.ndarray
    once: np.ndarray
    scales: np.ndarray
    gains: np.ndarray
    squares: np.ndarray
    weight: np.ndarray
    tails: Tails
    waiting_inputs: np.ndarray
    waiting_means: np.ndarray
    waiting_lags: np.ndarray
    used: bool = True

    @classmethod
    def none(cls, n_features: int, n_outputs: int, *, used: bool = True) -> Self:
        """Return the scale of no rows, which is 1."""
        q, k = n_outputs, 1 + 2 * WAYS
        rows = (np.empty((0, n_features)), np.empty((0, q)), np.empty((0, q, WAYS)), np.empty((0, q, k)))
        # A squared score of 1 counts as 50 rows: what the model says of its own spread.
        judged = (np.zeros((q, k)), np.ones((q, k)), np.full(q, 50.0), Tails.none(q, k))
        return cls(*rows, *judged, np.empty((0, n_features)), np.empty((0, q)), np.empty(0), used)

    def emptied(self) -> Self:
        """Return the scale of no rows."""
        return type(self).none(self.X.shape[1], self.means.shape[1], used=self.used)

    def without_last(self, n: int) -> Self:
        """Return the scale without the last n rows."""
        p = self.waiting
        waiting, kept = slice(0, max(p - n, 0)), slice(0, max(self.count - max(n - p, 0), 0))
        return replace(
            self,
            X=self.X[kept],
            means=self.means[kept],
            once=self.once[kept],
            scales=self.scales[kept],
            waiting_inputs=self.waiting_inputs[waiting],
            waiting_means=self.waiting_means[waiting],
            waiting_lags=self.waiting_lags[waiting],
        )

    def moved(self, shift: np.ndarray) -> Self:
        """Return the scale of targets that are smaller by `shift` (q,)."""
        return replace(self, means=self.means - shift, waiting_means=self.waiting_means - shift)

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    @property
    def waiting(self) -> int:
        """The number of rows that came after these and are not added yet."""
        return int(self.waiting_inputs.shape[0])

    @property
    def chosen(self) -> np.ndarray:
        """The number of the way and manner in use for each output, (q,); 0 where λ = 1."""
        bar = np.full(self.gains.shape[1], CLEARLY)
        bar[0] = 0.0
        return np.asarray(np.argmax(self.gains - bar, axis=1))

    @property
    def of_rows(self) -> np.ndarray:
        """The scale in use of each row, (l, q)."""
        return np.take_along_axis(self.scales, self.chosen[None, :, None], axis=2)[:, :, 0]

    def honest(self, scale: np.ndarray | None, *, trusting: bool) -> np.ndarray:
        """Return what standard deviations are multiplied by, (m, q) or (1, q), to be right on average.

        `scale` (m, q) is λ, None where it is 1. Unless `trusting`, it is followed only as far as it has earned.
        """
        excess = self.tails.excess
        if scale is None:
            return np.asarray(np.sqrt(excess[None, :, 0]))
        used, tail = (
            np.take_along_axis(v, self.chosen[:, None], axis=1)[:, 0] for v in (self.squares, excess)
        )
        trusted = (self.chosen > 0) if trusting else self._trusted
        return np.asarray(np.sqrt((1.0 - trusted) * excess[:, 0] + trusted * tail * used * scale**2))

    @property
    def _trusted(self) -> np.ndarray:
        """How far the scale in use is trusted in standard deviations, from 0 to 1, (q,)."""
        gain = np.take_along_axis(self.gains, self.chosen[:, None], axis=1)[:, 0] - self.gains[:, 0]
        return np.asarray(np.where(self.chosen > 0, 1.0 / (1.0 + np.exp(-RARE * gain)), 0.0))

    def at(self, kernel: Kernel, X: Array, means: Array, sizes: np.ndarray) -> np.ndarray | None:
        """Return λ at the rows X (m, d) with predicted means (m, q); None where it is 1 everywhere.

        `sizes` (l, q) are the scores of the rows, NaN where a label is missing.
        """
        chosen = self.chosen
        if not chosen.any() or not on_host(X):
            return None
        means, out = to_host(means), np.ones(means.shape)
        for start in range(0, out.shape[0], CHUNK):
            rows = slice(start, start + CHUNK)
            _, scales = self._smoothed(kernel, X[rows, :], means[rows], sizes, wanted=chosen)
            out[rows] = np.take_along_axis(scales, chosen[None, :, None], axis=2)[:, :, 0]
        return out

    def frozen(self, sizes: np.ndarray) -> tuple[FrozenScale | None, ...]:
        """Return λ of each output; None where it is 1. `sizes` as in `at`."""
        places = self._places(sizes)

        def of_output(j: int, chosen: int) -> FrozenScale | None:
            if not chosen:
                return None
            way, twice = divmod(chosen - 1, 2)
            mass = places.mass[:, j]
            left = _relative(places.sizes[:, j] / places.once[:, j, way], mass)
            power = POWERS[way] if way < len(POWERS) else None
            width = MEAN_WIDTH * float(places.means[:, j].std())
            means, first = places.means[:, j], mass * places.sizes[:, j]
            prior, second = (SHARP, mass * left) if twice else (CAUTIOUS, None)
            return FrozenScale(places.X, means, power, width, prior, mass, first, second)

        return tuple(of_output(j, int(chosen)) for j, chosen in enumerate(self.chosen))

    def _places(self, sizes: np.ndarray, *, all_of_them: bool = False) -> _Places:
        """Return the rows that a scale is smoothed over, of these scores (l, q): some of them, for speed."""
        step = 1 if all_of_them else max(1, sizes.shape[0] // SMOOTHED)
        # Each of these stands for `step` rows.
        known = ~np.isnan(sizes[::step])
        mass = (step * recent_weights(sizes.shape[0])[::step])[:, None] * known
        relative = _relative(np.where(known, sizes[::step], 0.0), mass)
        return _Places(self.X[::step], self.means[::step], self.once[::step], relative, mass)

    def add(self, at: Place, sizes: np.ndarray) -> Self:
        """Add rows; `sizes` (l + p + b, q) are the scores of the rows here, of those that wait, and of these."""
        if not self.used or not on_host(at.X):
            return self
        X = np.concatenate([self.waiting_inputs, to_host(at.X)])[-LOCAL_ROWS:]
        # Means of rows left out whose label is missing are NaN.
        means = np.concatenate([self.waiting_means, np.nan_to_num(to_host(at.means))])[-LOCAL_ROWS:]
        lags, n = np.concatenate([self.waiting_lags, to_host(at.lags)])[-LOCAL_ROWS:], X.shape[0]
        if n < TOGETHER:
            return replace(self, waiting_inputs=X, waiting_means=means, waiting_lags=lags)
        before, new = sizes[: self.count], sizes[-n:]
        if self.count:
            found = self._known_then(at.kernel, X, means, before, lags)
        else:
            # The first rows scale each other, each left out in turn.
            found = replace(self, X=X, means=means)._smoothed(at.kernel, X, means, new, left_out=True)
        none = replace(self, waiting_inputs=X[:0], waiting_means=means[:0], waiting_lags=lags[:0])
        return none._judged(new, found[1])._joined(X, means, *found)

    def _known_then(
        self, kernel: Kernel, X: np.ndarray, means: np.ndarray, sizes: np.ndarray, lags: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `once` and `scales` of rows X (b, d) by the rows that were scored when they were answered.

        Since then so many as `lags` (b,) says were learned: with labels that come late, what lies near a row in the
        input has often come with it.
        """
        shape = means.shape
        once, scales = np.ones((*shape, WAYS)), np.ones((*shape, 1 + 2 * WAYS))
        since = np.maximum(lags - np.arange(lags.size), 0)  # of the rows here, scored after it was answered
        for lag in np.unique(since):
            rows, known = since == lag, self.count - int(lag)
            if known > 0:
                then = replace(self, X=self.X[:known], means=self.means[:known], once=self.once[:known])
                once[rows], scales[rows] = then._smoothed(kernel, X[rows], means[rows], sizes[:known])
        return once, scales

    def _joined(self, X: np.ndarray, means: np.ndarray, once: np.ndarray, scales: np.ndarray) -> Self:
        kept = max(0, self.count + X.shape[0] - LOCAL_ROWS)
        return replace(
            self,
            X=np.concatenate([self.X[kept:], X]),
            means=np.concatenate([self.means[kept:], means]),
            once=np.concatenate([self.once[kept:], once]),
            scales=np.concatenate([self.scales[kept:], scales]),
        )

    def _judged(self, sizes: np.ndarray, scales: np.ndarray) -> Self:
        """Return the log densities with those of rows of scores (b, q) under the scales (b, q, 1 + 2 WAYS)."""
        known = ~np.isnan(sizes)
        b = known.sum(axis=0)
        fading = np.exp(-b / MEMORY)
        ratio = np.where(known, sizes, 0.0)[:, :, None] / scales
        tails = self.tails.after(ratio**2, b)
        squared = np.minimum(ratio**2, LARGEST**2 * self.squares)
        density = -np.log(scales) - 0.5 * np.log(self.squares) - 0.5 * squared / self.squares
        density, squared = (np.where(known[:, :, None], v, 0.0).sum(axis=0) for v in (density, squared))
        before = fading * self.weight
        weight = before + b
        squares = (before[:, None] * self.squares + squared) / weight[:, None]
        squares[:, 0] = 1.0
        gains = fading[:, None] * self.gains + density
        return replace(self, gains=gains, squares=squares, weight=weight, tails=tails)

    def _smoothed(
        self,
        kernel: Kernel,
        X: Array,
        means: np.ndarray,
        sizes: np.ndarray,
        *,
        left_out: bool = False,
        wanted: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `once` and `scales` at the rows X (m, d) with predicted means (m, q), from the scores (l, q).

        `left_out`: these are the rows of the scores themselves. `wanted` (q,): of which scales; all by default.
        """
        places, (m, q) = self._places(sizes, all_of_them=left_out), means.shape
        v, mass_of = places.sizes, places.mass
        once, scales = np.ones((m, q, WAYS)), np.ones((m, q, 1 + 2 * WAYS))
        ways = range(WAYS) if wanted is None else np.unique((wanted[wanted > 0] - 1) // 2)
        near = _correlation(kernel, X, places.X) if min(ways, default=WAYS) < len(POWERS) else None
        for way in ways:
            for j in range(q):
                if way < len(POWERS) and near is not None:
                    W = _power(near, POWERS[way]) * mass_of[:, j]
                else:
                    W = _near_in_mean(means[:, j], places.means[:, j]) * mass_of[:, j]
                if left_out:
                    np.fill_diagonal(W, 0.0)
                total, mass = W @ v[:, j], W.sum(axis=1)
                first = (SHARP + total) / (SHARP + mass)
                # In the first rows, where no scale was known before, what is left is that of the same smoother.
                before = first if left_out else places.once[:, j, way]
                left = _relative(v[:, j] / before, mass_of[:, j])
                once[:, j, way] = first
                scales[:, j, 1 + 2 * way] = (CAUTIOUS + total) / (CAUTIOUS + mass)
                scales[:, j, 2 + 2 * way] = first * (SHARP + W @ left) / (SHARP + mass)
        return once, scales


def _relative(sizes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return scores over their weighted mean, at most LARGEST; ones where all are zero."""
    for _ in range(2):
        total, mass = (weights * sizes).sum(axis=0), weights.sum(axis=0)
        mean = np.where(total > 0, total / np.where(mass > 0, mass, 1.0), 0.0)
        sizes = (
            np.minimum(sizes / np.where(mean > 0, mean, 1.0), LARGEST) if np.any(mean > 0) else sizes + 1.0
        )
    return np.asarray(sizes)


def _correlation(kernel: Kernel, X: Array, Y: np.ndarray) -> np.ndarray:
    """Return the correlation of the kernel between the rows of X (m, d) and Y (l, d), not below zero."""
    there = asarray_like(Y, X)
    a, b = (np.abs(to_host(kernel.diag(rows))) for rows in (X, there))
    scale = np.sqrt(a)[:, None] * np.sqrt(b)
    return np.clip(to_host(kernel.block(X, there)) / np.where(scale > 0, scale, 1.0), 0.0, 1.0)


def _power(values: np.ndarray, exponent: int) -> np.ndarray:
    """Return a power whose exponent is one of two, by squaring: far cheaper than `**`."""
    while exponent > 1:
        values, exponent = values * values, exponent // 2
    return values


def _near_in_mean(mean: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the weights (m, l) of rows by the distance of their predicted means (l,) from these (m,)."""
    width = MEAN_WIDTH * float(means.std())
    if not width > 0:
        return np.ones((mean.size, means.size))
    return np.asarray(np.exp(-0.5 * ((mean[:, None] - means) / width) ** 2))
