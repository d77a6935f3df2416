"""Figures of a run, small enough to be read on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .baselines import NAMES
from .report import STYLES, new_figure, to_png
from .trace import Part, Stretch, coarser

MEASURED, PREDICTED, OTHER, *_ = ({"color": colour, "linestyle": dash} for colour, dash in STYLES)
_DOTS = {"color": "#000000", "linestyle": "none", "marker": ".", "markersize": 3.5}
# Places on the time axis that are named.
_TICKS = 3
# Letters that there is room for below the axis.
_LETTERS = 48
# Rows of which an error and a share inside the intervals are taken.
AT_LEAST = 100


def _new(title: str) -> tuple[Any, Any]:
    figure, axes = new_figure(5.2, 3.1)
    axes.set_title(title, fontsize=11)
    return figure, axes


def _name_rows(axes: Any, names: Sequence[str]) -> None:
    """Name some places of an axis whose positions are those of the names."""
    last = len(names) - 1
    at = np.unique(np.linspace(0, last, min(_TICKS, len(names))).astype(int))
    if sum(len(names[i]) for i in at) > _LETTERS:
        at = np.unique([0, last])
    axes.set_xticks(at, [names[i] for i in at])
    sides = {0: "left", last: "right"} if last else {}
    for i, label in zip(at, axes.get_xticklabels(), strict=True):
        label.set_horizontalalignment(sides.get(int(i), "center"))
    margin = 0.02 * last if last else 0.5
    axes.set_xlim(-margin, last + margin)


def _legend(axes: Any, columns: int = 3) -> None:
    axes.legend(frameon=False, fontsize=8.5, ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.12))


def _limit(axes: Any, shown: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Show all values and as much of the interval as leaves them visible: that of the first rows may be very wide."""
    margin = 0.6 * max(float(np.ptp(shown)), 1e-12)
    bottom, top = max(low.min(), shown.min() - margin), min(high.max(), shown.max() + margin)
    axes.set_ylim(min(bottom, shown.min()), max(top, shown.max()))


def part_figure(title: str, part: Part, level: float) -> bytes:
    """Return measured against predicted, with the interval, of consecutive rows."""
    figure, axes = _new(title)
    x, (y, mean, low, high) = np.arange(len(part.names)), part.values.T
    axes.fill_between(
        x, low, high, color=STYLES[0][0], alpha=0.22, linewidth=0, label=f"{level:.0%} interval"
    )
    axes.plot(x, mean, color=STYLES[0][0], linewidth=1.1, label="predicted")
    axes.plot(x, y, **_DOTS, label="measured")
    _limit(axes, np.concatenate([y, mean]), low, high)
    _name_rows(axes, part.names)
    _legend(axes)
    return to_png(figure)


def whole_figure(stretches: Sequence[Stretch], j: int, level: float) -> bytes:
    """Return means of measured, predicted and interval of target j along the whole run."""
    kept = [each for each in stretches if each.sums.scored[j]]
    figure, axes = _new("The whole run")
    x, n = np.arange(len(kept)), np.array([each.sums.scored[j] for each in kept])
    y, mean, low, high = (
        np.array([getattr(each.sums, name)[j] for each in kept]) / n for name in ("y", "mean", "low", "high")
    )
    axes.fill_between(
        x, low, high, color=STYLES[0][0], alpha=0.22, linewidth=0, label=f"{level:.0%} interval"
    )
    axes.plot(x, mean, color=STYLES[0][0], linewidth=1.1, label="predicted")
    axes.plot(x, y, **_DOTS, label="measured")
    _limit(axes, np.concatenate([y, mean]), low, high)
    _name_rows(axes, [each.first for each in kept])
    _legend(axes)
    return to_png(figure)


def error_figure(stretches: Sequence[Stretch], j: int) -> bytes:
    """Return the RMSE of target j along the run, beside that of the baselines."""
    kept = coarser(stretches, j, AT_LEAST) or [each for each in stretches if each.sums.scored[j]]
    figure, axes = _new("Error (RMSE) along the run")
    x = np.arange(len(kept))
    own = [np.sqrt(each.sums.squares[j] / each.sums.scored[j]) for each in kept]
    axes.plot(x, own, **MEASURED, linewidth=1.6, label="predicted")
    for i, (name, style) in enumerate(zip(NAMES, (PREDICTED, OTHER), strict=True)):
        with np.errstate(divide="ignore", invalid="ignore"):
            others = [np.sqrt(each.sums.baseline[i, j] / each.sums.compared[j]) for each in kept]
        axes.plot(x, others, **style, linewidth=1.1, label=name)
    axes.set_ylim(bottom=0)
    _name_rows(axes, [each.first for each in kept])
    _legend(axes)
    return to_png(figure)


def coverage_figure(stretches: Sequence[Stretch], j: int, level: float) -> bytes:
    """Return the share of target j inside its intervals along the run."""
    kept = coarser(stretches, j, AT_LEAST) or [each for each in stretches if each.sums.scored[j]]
    figure, axes = _new("Inside the intervals")
    shares = [each.sums.inside[j] / each.sums.scored[j] for each in kept]
    axes.plot(np.arange(len(kept)), shares, **MEASURED, linewidth=1.1, label="share of rows")
    axes.axhline(level, **PREDICTED, label=f"as it should be: {level:.0%}")
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    _name_rows(axes, [each.first for each in kept])
    _legend(axes)
    return to_png(figure)


def members_figure(stretches: Sequence[Stretch], members: Sequence[str], j: int) -> bytes:
    """Return the weights of the panel's members in the mean of target j along the run."""
    kept = [
        each for each in stretches if len(each.weights) == len(members) and np.isfinite(each.weights).all()
    ]
    figure, axes = _new("Members of the panel: weights in the mean")
    weights = np.array([each.weights[:, j] for each in kept])
    colours = [colour for colour, _ in STYLES] + ["#E69F00", "#56B4E9", "#999999"]
    axes.stackplot(
        np.arange(len(kept)), weights.T, labels=list(members), alpha=0.75,
        colors=[colours[i % len(colours)] for i in range(len(members))],
    )  # fmt: skip
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    _name_rows(axes, [each.first for each in kept])
    _legend(axes)
    return to_png(figure)


def relevance_figure(names: Sequence[str], values: Sequence[float]) -> bytes:
    """Return bars of the relevance of features, given from the most to the least."""
    figure, axes = new_figure(5.2, 0.9 + 0.26 * len(names))
    axes.barh(np.arange(len(names)), values, color=STYLES[0][0], height=0.7)
    axes.set_yticks(np.arange(len(names)), [name if len(name) <= 22 else f"{name[:21]}…" for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("spread of the feature / length-scale")
    axes.grid(visible=False, axis="y")
    return to_png(figure)


def time_figure(stretches: Sequence[Stretch]) -> bytes:
    """Return the time per batch along the run."""
    figure, axes = _new("Milliseconds for a batch: predict and learn")
    values = [1e3 * each.seconds / each.batches for each in stretches]
    axes.plot(np.arange(len(values)), values, **MEASURED, linewidth=1.1)
    axes.set_ylim(bottom=0)
    _name_rows(axes, [each.first for each in stretches])
    return to_png(figure)


def pit_figure(counts: np.ndarray) -> bytes:
    """Return the histogram (bins,) of the probability integral transform."""
    figure, axes = _new("Predictive distribution at the targets")
    bins = len(counts)
    density = counts / max(counts.sum(), 1) * bins
    axes.bar((np.arange(bins) + 0.5) / bins, density, width=0.9 / bins, color=STYLES[0][0])
    axes.axhline(1.0, **PREDICTED)
    axes.set_xlabel("0: measured far below, 1: far above the prediction", fontsize=9)
    return to_png(figure)
