"""Tables and figures of recorded runs."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ..errors import ParameterError
from ..evaluation import Record
from ..parameters import GAUSSIAN
from .baselines import NAMES
from .tally import Tally

# Colours of Okabe and Ito, which colour-blind readers can tell apart, each with a dash of its own for print.
STYLES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#000000", ":"),
    ("#CC79A7", (0, (5, 1, 1, 1))),
)

_CAPTION = (
    "RMSE: error of predictions made before their batch was learned, in units of each target's spread, over all "
    "batches and over the last quarter. NLPD: mean negative log predictive density, lower is better. In 90 %: targets "
    "inside their 90 % intervals. MB: memory of the model. tr K left: share of the prior variance that the low-rank "
    "approximation leaves out, tr(K − K̂)/tr K."
)


def summary_table(title: str, runs: Mapping[str, Sequence[Record]], memory: Mapping[str, int]) -> Table:
    """Return a table that compares methods: error, calibration, time, memory and tr(K − K̂)/tr K."""
    table = Table(title=title, caption=_CAPTION, caption_justify="left")
    table.add_column("method", no_wrap=True, min_width=7)
    for column in ("RMSE", "at the end", "NLPD", "in 90 %", "ms a batch", "of it tuning", "MB", "tr K left"):
        table.add_column(column, justify="right")
    for name, records in runs.items():
        tuning = [r.tuning_seconds for r in records]
        seconds = [r.predict_seconds + r.update_seconds + r.tuning_seconds for r in records]
        cells = [
            f"{_rms(records):.3f}",
            f"{_rms(records[3 * len(records) // 4 :]):.3f}",
            f"{np.mean([r.nlpd for r in records if r.nlpd is not None]):.2f}",
            f"{np.mean([r.coverage for r in records if r.coverage is not None]):.1%}",
            f"{1e3 * np.mean(seconds):.1f}",
            f"{1e3 * np.mean(tuning):.1f}",
            f"{memory[name] / 1e6:.1f}",
            f"{records[-1].trace_error_share:.1%}",
        ]
        table.add_row(name, *cells)
    return table


def _rms(records: Sequence[Record]) -> float:
    return float(np.sqrt(np.mean([r.rmse**2 for r in records if r.rmse is not None])))


def save_progress_figure(path: Path, title: str, runs: Mapping[str, Sequence[Record]]) -> None:
    """Write a figure of error and time per batch against rows seen, with one line for each method."""
    figure, (errors, times) = new_figure(11, 4.4, columns=2)
    from matplotlib.ticker import LogLocator, NullFormatter

    for (name, records), (colour, dash) in zip(runs.items(), STYLES, strict=False):
        style = {"color": colour, "linestyle": dash, "linewidth": 1.8, "label": name}
        scored = [r for r in records if r.rmse is not None]
        errors.plot([r.rows_seen for r in scored], smooth([r.rmse or 0.0 for r in scored]), **style)
        milliseconds = [1e3 * (r.predict_seconds + r.update_seconds) for r in records]
        times.plot([r.rows_seen for r in records], smooth(milliseconds), **style)
    errors.set(title="Error before learning the batch", xlabel="rows seen", ylabel="RMSE (torque / its std)")
    times.set(
        title="Time to predict and learn a batch, without tuning", xlabel="rows seen", ylabel="milliseconds"
    )
    for axes in (errors, times):
        axes.set_yscale("log")
        axes.grid(visible=True, which="both", alpha=0.25)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    times.legend(frameon=False)
    figure.suptitle(f"{title}; running medians of five batches")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def smooth(values: Sequence[float] | np.ndarray, width: int = 5) -> np.ndarray:
    """Return the running median, in which single slow batches do not show."""
    padded = np.pad(np.asarray(values, dtype=float), width // 2, mode="edge")
    out: np.ndarray = np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
    return out


def score_head(level: float) -> list[str]:
    """Return the heads of the columns that `score_rows` fills."""
    return ["target", "predicted by", "RMSE", "MAE", "NLPD", f"in {level:.0%}"]


def score_rows(tally: Tally, j: int, target: str) -> list[list[str]]:
    """Return the scores of target j and below them those of the baselines, as rows of a table."""
    n = tally.scored[j]
    if not n:
        return [[target, "the model", *["–"] * 4]]
    density, covered = f"{tally.negative_log_density[j] / n:.3f}", f"{tally.covered[j] / n:.1%}"
    own = [target, "the model", f"{tally.rmse[j]:.4g}", f"{tally.mae[j]:.4g}", density, covered]
    if not tally.compared[j]:
        return [own]
    return [own] + [
        ["", name, f"{rmse:.4g}", f"{mae:.4g}", "", ""]
        for name, rmse, mae in zip(NAMES, tally.baseline_rmse[:, j], tally.baseline_mae[:, j], strict=True)
    ]


def noise_text(gp: Any) -> str:
    """Return how the targets of a fitted regressor are distributed about their functions."""
    if gp.likelihood != GAUSSIAN:
        return f"likelihood {', '.join(map(short_kernel, np.ravel(np.array(gp.likelihood_, dtype=object))))}"
    return "noise variance " + ", ".join(f"{value:.4g}" for value in np.ravel(gp.noise_))


def short_kernel(kernel: object) -> str:
    """Return a kernel as text, with four digits for each number."""
    return re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda m: f"{float(m.group()):.4g}", str(kernel))


def new_figure(width: float = 7.2, height: float = 4.2, columns: int = 1) -> tuple[Any, Any]:
    """Return an empty figure and its axes (an array if there are several columns), with a light grid."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ParameterError("figures need matplotlib: pip install 'streamgp[plot]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns)
    for each in np.ravel(axes):
        each.grid(visible=True, which="both", alpha=0.25)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def to_png(figure: Any) -> bytes:
    """Return a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=150, format="png")
    return buffer.getvalue()
