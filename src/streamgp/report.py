"""Tables and figures of recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from .errors import ParameterError
from .evaluation import Record

# Okabe & Ito's colours, told apart by everyone, each with a dash of its own for print.
STYLES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#000000", ":"),
    ("#CC79A7", (0, (5, 1, 1, 1))),
)


def summary_table(title: str, runs: Mapping[str, Sequence[Record]], memory: Mapping[str, int]) -> Table:
    """Make the table of methods side by side: error, calibration, time, memory and what of tr K is not explained."""
    table = Table(title=title)
    table.add_column("method", no_wrap=True, min_width=7)
    for column in (
        "RMSE",
        "last quarter",
        "NLPD",
        "in 90 %",
        "ms a batch",
        "last batch",
        "model, MB",
        "tr K left",
    ):
        table.add_column(column, justify="right")
    for name, records in runs.items():
        seconds = [r.predict_seconds + r.update_seconds for r in records]
        table.add_row(
            name,
            f"{_rms(records):.3f}",
            f"{_rms(records[3 * len(records) // 4 :]):.3f}",
            f"{np.mean([r.nlpd for r in records if r.nlpd is not None]):.3f}",
            f"{np.mean([r.coverage for r in records if r.coverage is not None]):.1%}",
            f"{1e3 * np.mean(seconds):.1f}",
            f"{1e3 * np.median(seconds[-3:]):.1f}",
            f"{memory[name] / 1e6:.1f}",
            f"{records[-1].trace_error_share:.2%}",
        )
    return table


def _rms(records: Sequence[Record]) -> float:
    return float(np.sqrt(np.mean([r.rmse**2 for r in records if r.rmse is not None])))


def save_progress_figure(path: Path, title: str, runs: Mapping[str, Sequence[Record]]) -> None:
    """Draw error and time a batch against rows seen, one line a method, and save the picture."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator, NullFormatter
    except ImportError as error:
        raise ParameterError("pictures need matplotlib: pip install 'streamgp[plot]'") from error
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    errors, times = figure.subplots(1, 2)
    for (name, records), (colour, dash) in zip(runs.items(), STYLES, strict=False):
        style = {"color": colour, "linestyle": dash, "linewidth": 1.8, "label": name}
        scored = [r for r in records if r.rmse is not None]
        errors.plot([r.rows_seen for r in scored], smooth([r.rmse or 0.0 for r in scored]), **style)
        milliseconds = [1e3 * (r.predict_seconds + r.update_seconds) for r in records]
        times.plot([r.rows_seen for r in records], smooth(milliseconds), **style)
    errors.set(title="Error before learning the batch", xlabel="rows seen", ylabel="RMSE (torque / its std)")
    times.set(title="Time to predict and learn a batch", xlabel="rows seen", ylabel="milliseconds")
    for axes in (errors, times):
        axes.set_yscale("log")
        axes.grid(visible=True, which="both", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    times.legend(frameon=False)
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def smooth(values: Sequence[float] | np.ndarray, width: int = 5) -> np.ndarray:
    """Give the running median, so that single slow batches do not hide the course."""
    padded = np.pad(np.asarray(values, dtype=float), width // 2, mode="edge")
    out: np.ndarray = np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
    return out
