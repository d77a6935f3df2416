"""What a report draws: a run as sums over stretches, its last rows, its worst rows and its slowest batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

# Stretches that a run is divided into; neighbouring ones are added up when there are more.
POINTS = 300
# Rows of the latest and of the worst part.
PART = 300
# Slowest batches that are kept.
SLOWEST = 5
# Durations are counted in bins from 10 µs on, 20 for each factor of 10.
_BINS, _FIRST, _A_DECADE = 160, 1e-5, 20


class Sums(NamedTuple):
    """Sums over the scored rows of a stretch, each (q,); of the baselines (2, q)."""

    scored: np.ndarray
    squares: np.ndarray
    absolute: np.ndarray
    inside: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    compared: np.ndarray
    baseline: np.ndarray

    @classmethod
    def none(cls, q: int) -> Sums:
        """Return the sums of no rows."""
        zero = np.zeros(q)
        return cls(zero, zero, zero, zero, zero, zero, zero, zero, zero, np.zeros((2, q)))

    @classmethod
    def of(
        cls, y: np.ndarray, mean: np.ndarray, ends: tuple[np.ndarray, np.ndarray], baselines: np.ndarray
    ) -> Sums:
        """Return the sums of rows (b, q), NaN in y where a row is not scored; baselines (2, q)."""
        known = np.isfinite(y) & np.isfinite(mean)
        compared = known & np.isfinite(baselines).all(axis=0)
        inside = known & (ends[0] <= y) & (y <= ends[1])
        y_sum, mean_sum, low_sum, high_sum = (
            np.where(known, part, 0.0).sum(axis=0) for part in (y, mean, *ends)
        )
        with np.errstate(over="ignore"):
            error = np.where(known, y - mean, 0.0)
            off = np.where(compared, y - baselines[:, None, :], 0.0)
            return cls(
                known.sum(axis=0).astype(float), (error**2).sum(axis=0), np.abs(error).sum(axis=0),
                inside.sum(axis=0).astype(float), y_sum, mean_sum, low_sum, high_sum,
                compared.sum(axis=0).astype(float), (off**2).sum(axis=1),
            )  # fmt: skip


@dataclass(frozen=True)
class Stretch:
    """Consecutive batches.

    Attributes
    ----------
    batches, rows : int
        Number of batches; all rows of the run up to their end.
    first, last : str
        Names of the first and the last row: their time, or their line.
    seconds : float
    sums : Sums
    weights : (m, q)
        Weights of the members of the panel at the end; (0, q) if there is no panel.
    """

    batches: int
    rows: int
    first: str
    last: str
    seconds: float
    sums: Sums
    weights: np.ndarray

    def merge(self, later: Stretch) -> Stretch:
        """Return the stretch of both."""
        return Stretch(
            self.batches + later.batches, later.rows, self.first, later.last, self.seconds + later.seconds,
            Sums(*(a + b for a, b in zip(self.sums, later.sums, strict=True))), later.weights,
        )  # fmt: skip


def coarser(stretches: Sequence[Stretch], j: int, rows: int) -> list[Stretch]:
    """Return stretches added up until each has so many scored rows of target j; what is left at the end is left out."""
    found: list[Stretch] = []
    whole = True
    for stretch in stretches:
        if whole:
            found.append(stretch)
        else:
            found[-1] = found[-1].merge(stretch)
        whole = bool(found[-1].sums.scored[j] >= rows)
    return found if whole else found[:-1]


@dataclass(frozen=True)
class Part:
    """Consecutive scored rows of a target: their names and, (n, 4), measured, predicted and the interval's ends."""

    names: tuple[str, ...] = ()
    values: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))

    @property
    def rmse(self) -> float:
        """Root mean squared error."""
        return float(np.sqrt(np.mean((self.values[:, 0] - self.values[:, 1]) ** 2)))

    def add(self, names: Sequence[str], values: np.ndarray) -> Part:
        """Return the last PART rows with these."""
        return Part((*self.names, *names)[-PART:], np.concatenate([self.values, values])[-PART:])


@dataclass(frozen=True)
class Series:
    """The rows of a target: the latest, and the worst of those cut into parts of PART rows; the first part is left out.

    `cut` is the number of scored rows.
    """

    latest: Part = Part()
    worst: Part = Part()
    cut: int = 0

    def add(self, names: Sequence[str], values: np.ndarray) -> Series:
        """Return the series with more rows (b, 4)."""
        series, i = self, 0
        while i < len(values):
            n = min(PART - series.cut % PART, len(values) - i)
            latest, cut = series.latest.add(names[i : i + n], values[i : i + n]), series.cut + n
            worse = (
                cut % PART == 0 and cut > PART and (not series.worst.names or latest.rmse > series.worst.rmse)
            )
            series, i = Series(latest, latest if worse else series.worst, cut), i + n
        return series

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, texts, arrays and tuples."""
        parts = {
            name: (part.names, part.values) for name, part in (("latest", self.latest), ("worst", self.worst))
        }
        return {**parts, "cut": self.cut}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Series:
        """Return the series of which `to_dict` returned `content`."""
        return cls(Part(*content["latest"]), Part(*content["worst"]), content["cut"])


@dataclass(frozen=True)
class Durations:
    """How long batches took: counts in logarithmic bins, and the slowest ones as (seconds, name of the first row)."""

    counts: np.ndarray = field(default_factory=lambda: np.zeros(_BINS, dtype=np.int64))
    slowest: tuple[tuple[float, str], ...] = ()

    def add(self, seconds: float, name: str) -> Durations:
        """Return the durations with one more batch."""
        counts = self.counts.copy()
        counts[int(np.clip(np.log10(max(seconds, _FIRST) / _FIRST) * _A_DECADE, 0, _BINS - 1))] += 1
        slowest = sorted((*self.slowest, (seconds, name)), key=lambda each: -each[0])[:SLOWEST]
        return Durations(counts, tuple(slowest))

    def quantile(self, share: float) -> float:
        """Return the seconds that this share of the batches took at most, to about 10 %."""
        if not self.counts.any():
            return 0.0
        upto = np.cumsum(self.counts)
        found = int(np.searchsorted(upto, share * upto[-1]))
        return float(_FIRST * 10 ** ((found + 1) / _A_DECADE))


@dataclass(frozen=True)
class Trace:
    """A run in bounded memory; immutable.

    Attributes
    ----------
    stretches : tuple of Stretch
        At most POINTS, each of `stride` batches.
    series : tuple of Series
        One for each target.
    durations : Durations
    members : tuple of str
        Of the panel; empty if there is none.
    """

    series: tuple[Series, ...]
    stretches: tuple[Stretch, ...] = ()
    stride: int = 1
    durations: Durations = field(default_factory=Durations)
    members: tuple[str, ...] = ()

    @classmethod
    def none(cls, q: int) -> Trace:
        """Return the trace of a run of q targets before its first row."""
        return cls(tuple(Series() for _ in range(q)))

    def add(self, stretch: Stretch, members: Sequence[str] = ()) -> Trace:
        """Return the trace with one more batch; stretches are added up in pairs when there are more than POINTS."""
        kept, stride = list(self.stretches), self.stride
        durations = self.durations.add(stretch.seconds, stretch.first)
        if kept and kept[-1].batches < stride:
            stretch = kept.pop().merge(stretch)
        kept.append(stretch)
        if len(kept) > POINTS:
            pairs = [kept[i : i + 2] for i in range(0, len(kept), 2)]
            kept = [pair[0].merge(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
            stride *= 2
        return Trace(self.series, tuple(kept), stride, durations, tuple(members))

    def scored(
        self, names: Sequence[str], y: np.ndarray, mean: np.ndarray, ends: tuple[np.ndarray, np.ndarray]
    ) -> Trace:
        """Return the trace with rows (b, q) of these names, NaN in y where a row is not scored."""
        series = []
        for j, each in enumerate(self.series):
            rows = np.flatnonzero(np.isfinite(y[:, j]) & np.isfinite(mean[:, j]))
            values = np.stack([part[rows, j] for part in (y, mean, *ends)], axis=1)
            series.append(each.add([names[i] for i in rows.tolist()], values))
        return replace(self, series=tuple(series))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, texts, arrays and tuples, for a checkpoint: one array for all stretches."""
        kept, most = self.stretches, max((len(each.weights) for each in self.stretches), default=0)
        weights = [
            np.pad(each.weights, ((0, most - len(each.weights)), (0, 0)), constant_values=np.nan)
            for each in kept
        ]
        sums = zip(*(each.sums for each in kept), strict=True)
        return {
            "series": tuple(each.to_dict() for each in self.series), "stride": self.stride, "members": self.members,
            "batches": np.array([(each.batches, each.rows) for each in kept], dtype=np.int64).reshape(-1, 2),
            "names": tuple((each.first, each.last) for each in kept),
            "seconds": np.array([each.seconds for each in kept]),
            "sums": tuple(np.array(parts) for parts in sums), "weights": np.array(weights),
            "seconds_of_batches": (self.durations.counts, self.durations.slowest),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Trace:
        """Return the trace of which `to_dict` returned `content`."""
        batches, names, seconds = content["batches"].tolist(), content["names"], content["seconds"].tolist()
        stretches = (
            Stretch(
                batches[i][0], batches[i][1], names[i][0], names[i][1], seconds[i],
                Sums(*(part[i] for part in content["sums"])), content["weights"][i],
            )
            for i in range(len(names))
        )  # fmt: skip
        return cls(
            tuple(map(Series.from_dict, content["series"])), tuple(stretches), content["stride"],
            Durations(*content["seconds_of_batches"]), content["members"],
        )  # fmt: skip
