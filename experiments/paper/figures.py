"""The figures of the reproduction: the paper's eight, Theorem 1, cost against n, and where methods diverge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from streamgp.app.report import STYLES, new_figure, smooth, to_png
from streamgp.errors import ParameterError

from .printed import NUMBERS

NAMES = {"abalone": "Abalone", "sarcos": "Sarcos", "arm": "Simulated arm"}
UNITS = {"abalone": "rings", "sarcos": "N m", "arm": "N m"}
# The power of n that a batch costs, according to the paper's remark on cost.
SLOPES = {"NRMF": "3 (2 incremental)", "BRMF": "2", "SRMF": "1", "pivoted": "0"}


def _logarithmic(axes: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def lines(runs: Iterable[Mapping[str, Any]], what: str, title: str, data: str, table: str) -> bytes:
    """Return a picture of seconds or RMSE a batch against rows seen, a line for each run.

    The paper's averages are ticks at the right end.
    """
    figure, axes = new_figure()
    for run, (colour, dash) in zip(runs, STYLES, strict=False):
        known = [(n, min(v, 1e6)) for n, v in zip(run["rows_seen"], run[what], strict=True) if v is not None]
        if not known:
            continue
        rows, values = np.array(known).T
        shown = smooth(values) if what == "seconds" else values
        axes.plot(rows, shown, color=colour, linestyle=dash, linewidth=1.8, label=run["row"])
        theirs = NUMBERS.get((table, run["row"], data))
        if theirs is not None:
            axes.axhline(
                theirs[what == "seconds"], xmin=0.94, color=colour, linestyle=dash, linewidth=3, alpha=0.6
            )
    axes.set(
        title=title,
        xlabel="rows seen",
        ylabel="seconds a batch, running median of five"
        if what == "seconds"
        else f"RMSE of the batch ({UNITS[data]})",
    )
    _logarithmic(axes)
    axes.legend(
        frameon=False, fontsize=8, title="thick ends at the right: the paper's mean", title_fontsize=7
    )
    return to_png(figure)


def theorem(study: Mapping[str, Any], data: str) -> bytes:
    """Return a picture of the measured errors of the factor and the bound of Theorem 1."""
    figure, axes = new_figure()
    labels = {
        "bound": "bound of Theorem 1",
        "literal": "Algorithm 3 as printed",
        "projected": "projected variant",
        "best": "best possible at this rank, σ of K after the rank",
    }
    for (kind, label), (colour, dash) in zip(labels.items(), STYLES, strict=False):
        axes.plot(study["rows"], study[kind], color=colour, linestyle=dash, linewidth=1.8, label=label)
    _logarithmic(axes)
    axes.set(
        title=f"{NAMES[data]}: error of the factor, rank {study['rank']}, oversampling {study['oversampling']}",
        xlabel="rows",
        ylabel="spectral norm of K − U S Uᵀ (K has ones on its diagonal)",
    )
    axes.legend(frameon=False, fontsize=8)
    return to_png(figure)


def slope(run: Mapping[str, Any]) -> float | None:
    """Return the fitted power of n that a batch costs, without tuning, over the last half of the rows."""
    rows, seconds = np.array(run["rows_seen"], dtype=float), without_tuning(run)
    late = rows > rows.max() / 2
    if late.sum() < 8:
        return None
    # Means over stretches of batches: those in which pivots are exchanged cost more than the others.
    stretches = np.array_split(np.flatnonzero(late), min(8, int(late.sum()) // 2))
    n, cost = (np.array([v[i].mean() for i in stretches]) for v in (rows, seconds))
    return float(np.polyfit(np.log(n), np.log(cost), 1)[0])


def without_tuning(run: Mapping[str, Any]) -> np.ndarray:
    """Return the seconds of each batch without those of tuning."""
    return np.asarray(np.array(run["seconds"]) - np.array(run["tuning_seconds"]))


def cost(runs: Iterable[Mapping[str, Any]], data: str) -> bytes:
    """Return a picture of time a batch against n on log axes, with the fitted slopes."""
    figure, axes = new_figure()
    for run, (colour, dash) in zip(runs, STYLES, strict=False):
        fitted = slope(run)
        shown = "" if fitted is None else f": slope {fitted:.1f}, said {SLOPES[run['row']]}"
        axes.plot(
            run["rows_seen"], smooth(without_tuning(run)), color=colour, linestyle=dash, linewidth=1.8,
            label=run["row"] + shown,
        )  # fmt: skip
    axes.set_xscale("log")
    _logarithmic(axes)
    axes.set(
        title=f"{NAMES[data]}: cost of a batch against n",
        xlabel="rows seen",
        ylabel="seconds a batch, tuning aside, median of five",
    )
    axes.legend(frameon=False, fontsize=8)
    return to_png(figure)


def robustness(study: Mapping[str, Any], data: str) -> bytes:
    """Return a picture of the error of literal and projected `srmf` by rank and noise."""
    try:
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ParameterError("figures need matplotlib: pip install 'streamgp[reproduce]'") from error
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    image: Any = None
    for axes, variant in zip(figure.subplots(1, 2, sharey=True), ("literal", "projected"), strict=True):
        table = np.array([[np.nan if v is None else v for v in row] for row in study[variant]], dtype=float)
        clipped = np.clip(np.where(np.isfinite(table), table, 1e3), 0.1, 1e3)
        image = axes.imshow(clipped, norm=LogNorm(0.1, 1e3), cmap="cividis", origin="lower", aspect="auto")
        for i, row in enumerate(table):
            for j, value in enumerate(row):
                shown = f"{value:.2f}" if value < 10 else (f"{value:.0e}" if np.isfinite(value) else "fails")
                colour = "black" if clipped[i, j] > 10 else "white"
                axes.text(j, i, shown, ha="center", va="center", color=colour, fontsize=8)
        axes.set_xticks(range(len(study["noises"])), [f"{v:g}" for v in study["noises"]])
        axes.set_yticks(range(len(study["ranks"])), [str(r) for r in study["ranks"]])
        axes.set(xlabel="noise variance (targets have 1)", title=f"srmf, {variant}")
        axes.set_ylabel("rank" if variant == "literal" else "")
    figure.colorbar(image, ax=figure.axes, label="mean RMSE of batches (1: as the mean)")
    figure.suptitle(f"{NAMES[data]}, first {study['rows']} rows: where the printed algorithm diverges")
    return to_png(figure)


def fixed(study: Mapping[str, Any], data: str) -> bytes:
    """Return a picture of the error of the exact GP of the first batch by length-scale and noise."""
    figure, axes = new_figure()
    axes.grid(visible=False)
    table = np.array(study["rmse"])
    best = table.min()
    image = axes.imshow(table, cmap="cividis_r", origin="lower", aspect="auto", vmax=2 * best)
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            weight = "bold" if value == best else "normal"
            colour = "black" if value < 1.5 * best else "white"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=8, weight=weight)
    axes.set_xticks(range(len(study["noises"])), [f"{v:g}" for v in study["noises"]])
    axes.set_yticks(range(len(study["lengths"])), [f"{v:g}" for v in study["lengths"]])
    theirs = {row: n[0] for (table, row, name), n in NUMBERS.items() if (table, name) == ("I", data)}
    said = ", ".join(f"{row} {value:.2f}" for row, value in theirs.items())
    axes.set(
        xlabel="noise variance (first targets have 1)",
        ylabel="length-scale / √d (units of the first batch)",
        title=f"{NAMES[data]}: the GP of the first 100 labels" + (f"\nthe paper: {said}" if said else ""),
    )
    figure.colorbar(image, ax=axes, label=f"mean RMSE of batches ({UNITS[data]})")
    return to_png(figure)


STUDIES: dict[str, tuple[str, Callable[[Mapping[str, Any], str], bytes]]] = {
    "theorem": ("error of the factor against the bound of Theorem 1", theorem),
    "robustness": ("where the printed algorithm diverges, over rank and noise", robustness),
    "fixed": ("what fixed hyperparameters can reach with the paper's 100 labels, seen in hindsight", fixed),
}
