"""The figures of the report as SVG, drawn 3.9 inches wide so that their text is as large on a phone as on a screen."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from streamgp.app.report import STYLES, smooth
from streamgp.errors import ParameterError

from .printed import printed
from .verdicts import NAMES, figure

UNITS = {"abalone": "rings", "sarcos": "N m", "arm": "N m"}
WIDTH, HEIGHT = 3.9, 3.1
_TEXT = {
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "0",
}


class Picture:
    """One panel, drawn under the text sizes above, then written as SVG."""

    def __init__(
        self, title: str, xlabel: str, ylabel: str, height: float = HEIGHT, *, grid: bool = True
    ) -> None:
        self.grid = grid
        try:
            import matplotlib as mpl
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ParameterError("figures need matplotlib: pip install 'streamgp[reproduce]'") from error
        self._settings = mpl.rc_context
        with mpl.rc_context(_TEXT):
            self._figure = Figure(figsize=(WIDTH, height), layout="constrained")
            self.axes = self._figure.subplots()
            self.axes.set(title=title, xlabel=xlabel, ylabel=ylabel)

    def svg(self, legend: str | None = "best", **options: Any) -> str:
        """Return the drawing; `legend` is its place."""
        with self._settings(_TEXT):
            if legend:
                self.axes.legend(frameon=False, loc=legend, **options)
            self.axes.grid(visible=False)
            if self.grid:
                self.axes.grid(visible=True, alpha=0.25)
            out = io.StringIO()
            self._figure.savefig(out, format="svg", metadata={"Date": None})
        return out.getvalue()


def _logarithmic(axes: Any) -> None:
    axes.set_yscale("log")


def times(runs: Mapping[str, Sequence[float]], title: str) -> str:
    """Return seconds a batch against the number of the batch, a line a run (Figures 1, 2, 5 to 8)."""
    picture = Picture(title, "batch", "seconds a batch, median of five")
    for (name, seconds), (colour, dash) in zip(runs.items(), _styles(), strict=False):
        numbers = np.arange(1, len(seconds) + 1)
        picture.axes.plot(numbers, smooth(seconds), color=colour, linestyle=dash, label=name)
    _logarithmic(picture.axes)
    return picture.svg("upper left")


def errors(runs: Mapping[str, Sequence[float | None]], data: str, title: str, *, logarithm: bool) -> str:
    """Return RMSE, or log RMSE, of each batch by mode, the paper's means as marks at the right (Figures 3, 4)."""
    picture = Picture(title, "batch", "log10 RMSE" if logarithm else f"RMSE ({UNITS[data]})")
    for (name, values), (colour, dash) in zip(runs.items(), _styles(), strict=False):
        known = np.array([np.nan if v is None else v for v in values], dtype=float)
        shown = np.log10(known) if logarithm else known
        numbers = np.arange(1, len(values) + 1)
        picture.axes.plot(numbers, shown, color=colour, linestyle=dash, label=name)
        theirs = printed("II", name, data)
        if theirs:
            height = np.log10(theirs[0]) if logarithm else theirs[0]
            picture.axes.plot(1.06 * len(values), height, marker="<", color=colour, clip_on=False)
    return picture.svg("best", title="◂ the paper's mean", title_fontsize=8)


def slope(seconds: Sequence[float]) -> float:
    """Return the fitted power of n that a batch costs, over the last half of the batches."""
    numbers = np.arange(1, len(seconds) + 1)
    late = np.array_split(np.flatnonzero(numbers > len(seconds) / 2), 8)
    n, cost = (np.array([v[i].mean() for i in late if len(i)]) for v in (numbers, np.asarray(seconds)))
    return float(np.polyfit(np.log(n), np.log(cost), 1)[0])


def costs(runs: Mapping[str, Sequence[float]], title: str) -> str:
    """Return seconds against rows on log axes with the fitted slopes (Remark III.1)."""
    picture = Picture(title, "rows", "seconds a batch, median of five")
    for (name, seconds), (colour, dash) in zip(runs.items(), _styles(), strict=False):
        rows = 100 * np.arange(1, len(seconds) + 1)
        label = f"{name}: n^{slope(seconds):.1f}"
        picture.axes.plot(rows, smooth(seconds), color=colour, linestyle=dash, label=label)
    picture.axes.set_xscale("log")
    _logarithmic(picture.axes)
    return picture.svg("upper left")


def heat(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    labels: tuple[str, str],
    low: float | None = None,
    marked: Sequence[tuple[int, int]] = (),
) -> str:
    """Return a table of errors as coloured cells with their numbers; `labels` are those of the axes, x first.

    Colours go from `low`, the least value if it is not given, to 30 times that; cells (row, column) that are `marked`
    have a frame.
    """
    from matplotlib.colors import LogNorm

    picture = Picture(title, labels[0], labels[1], height=0.55 + 0.27 * len(rows) + 0.55, grid=False)
    finite = np.where(np.isfinite(values), values, 1e6)
    low = float(finite.min()) if low is None else low
    clipped = np.clip(finite, low, 30 * low)
    picture.axes.imshow(clipped, norm=LogNorm(low, 30 * low), cmap="cividis_r", aspect="auto", origin="lower")
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            shown = (
                figure(float(value)) if value < 100 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
            )
            shown = shown if np.isfinite(value) else "over"
            colour = "black" if clipped[i, j] < 5 * low else "white"
            picture.axes.text(j, i, shown, ha="center", va="center", color=colour, fontsize=7)
    picture.axes.set_xticks(range(len(columns)), columns, fontsize=8)
    picture.axes.set_yticks(range(len(rows)), rows, fontsize=8)
    for i, j in marked:
        picture.axes.add_patch(_frame(i, j))
    return picture.svg(None)


def _frame(i: int, j: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((j - 0.47, i - 0.44), 0.94, 0.88, fill=False, edgecolor="#D55E00", linewidth=1.6)


def bound(runs: Mapping[int, Mapping[str, Any]], data: str) -> str:
    """Return the largest and the median error over the draws, as a share of the bound, by batch."""
    picture = Picture(f"{NAMES[data]}: error over the bound of Theorem III.1", "rows", "share of the bound")
    for (p, run), (colour, dash) in zip(runs.items(), _styles(), strict=False):
        picture.axes.plot(
            run["rows"], run["largest"], color=colour, linestyle=dash, label=f"p = {p}, largest"
        )
        picture.axes.plot(run["rows"], run["median"], color=colour, linestyle=dash, alpha=0.4, linewidth=1)
    picture.axes.axhline(1.0, color="black", linewidth=1)
    picture.axes.text(runs[next(iter(runs))]["rows"][0], 0.55, "the bound", fontsize=8)
    _logarithmic(picture.axes)
    return picture.svg("center right", title="faint: median", title_fontsize=8)


def degenerate(study: Mapping[str, Any], what: str, title: str, xlabel: str) -> str:
    """Return training and test error as a hyperparameter grows."""
    picture = Picture(title, xlabel, "RMSE")
    train, test = np.array(study[what]).T
    for values, label, (colour, dash) in zip(
        (train, test), ("training, what step 13 minimises", "the next rows"), _styles(), strict=False
    ):
        picture.axes.plot(study["values"], values, color=colour, linestyle=dash, marker=".", label=label)
    picture.axes.axhline(study["spread"], color="black", linewidth=0.8, linestyle=":", label="the mean alone")
    picture.axes.set_xscale("log")
    _logarithmic(picture.axes)
    return picture.svg("best")


def _styles() -> Iterable[tuple[str, Any]]:
    return STYLES
