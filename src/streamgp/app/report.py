"""Tables and figures of recorded runs."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from .._arrays import to_host
from ..errors import ParameterError
from ..evaluation import Record
from . import pages
from .session import Session

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
    table = Table(title=title, caption=_CAPTION, caption_justify="left")
    table.add_column("method", no_wrap=True, min_width=7)
    for column in ("RMSE", "at the end", "NLPD", "in 90 %", "ms a batch", "of it tuning", "MB", "tr K left"):
        table.add_column(column, justify="right")
    for name, records in runs.items():
        seconds, tuning = (1e3 * np.mean(v) for v in zip(*(_seconds(r) for r in records), strict=True))
        table.add_row(
            name,
            f"{_rms(records):.3f}",
            f"{_rms(records[3 * len(records) // 4 :]):.3f}",
            f"{np.mean([r.nlpd for r in records if r.nlpd is not None]):.2f}",
            f"{np.mean([r.coverage for r in records if r.coverage is not None]):.1%}",
            f"{seconds:.1f}",
            f"{tuning:.1f}",
            f"{memory[name] / 1e6:.1f}",
            f"{records[-1].trace_error_share:.1%}",
        )
    return table


_CAPTION = (
    "RMSE: error of predictions made before their batch was learned, in units of each target's spread, over all "
    "batches and over the last quarter. NLPD: mean negative log density, lower is better. In 90 %: targets inside "
    "their 90 % intervals. MB: the model. tr K left: prior variance that the method does not explain."
)


def _seconds(record: Record) -> tuple[float, float]:
    """Give what a batch took in all, and what of it tuning took."""
    return record.predict_seconds + record.update_seconds + record.tuning_seconds, record.tuning_seconds


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
    times.set(
        title="Time to predict and learn a batch, tuning aside", xlabel="rows seen", ylabel="milliseconds"
    )
    for axes in (errors, times):
        axes.set_yscale("log")
        axes.grid(visible=True, which="both", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    times.legend(frameon=False)
    figure.suptitle(f"{title}; running medians of five batches")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def smooth(values: Sequence[float] | np.ndarray, width: int = 5) -> np.ndarray:
    """Give the running median, so that single slow batches do not hide the course."""
    padded = np.pad(np.asarray(values, dtype=float), width // 2, mode="edge")
    out: np.ndarray = np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
    return out


def save_run_page(path: Path, session: Session, about: Mapping[str, Any]) -> None:
    """Write one self-contained page about a run: what came of it, and five pictures."""
    tally, gp, targets = session.tally, session.gp, about["targets"]
    lines = [
        f"{tally.rows:,} rows of {about['source']}: {tally.learned:,} learned, {tally.unlabelled:,} without a label, "
        f"{tally.bad:,} bad, {tally.impossible:,} impossible. {tally.seconds:.1f} s of predicting and learning.",
    ]
    if gp.__sklearn_is_fitted__():
        lines.append(
            f"{gp.method}, rank {gp.rank_}; kernel {short(gp.kernel_)} of standardised targets, noise {gp.noise_:.4g}; "
            f"{gp.trace_error_share_:.2%} of tr K is left unexplained."
        )
    scored = [j for j in range(len(targets)) if tally.scored[j]]
    rows = [
        [
            targets[j], f"{tally.rmse[j]:.4g}", f"{tally.rmse[j] / tally.spread[j]:.3f}",
            f"{tally.density[j] / tally.scored[j]:.3f}", f"{tally.covered[j] / tally.scored[j]:.1%}",
        ]
        for j in scored
    ]  # fmt: skip
    head = ["target", "RMSE", "RMSE / spread", "NLPD", f"inside {session.level:.0%} intervals"]
    parts = [pages.paragraph(line) for line in lines]
    if rows:
        parts += [pages.heading("Errors before learning"), pages.table(rows, head)]
    if session.reasons:
        counts = [[reason, f"{n:,}"] for reason, n in session.reasons.most_common(20)]
        parts += [pages.heading("Rows that were not learned"), pages.table(counts, ["reason", "rows"])]
    if scored:
        parts += [pages.picture(caption, png) for caption, png in _run_pictures(session, scored)]
    path.write_text(pages.page("A run of streamgp", parts))


def _run_pictures(session: Session, scored: Sequence[int]) -> list[tuple[str, bytes]]:
    tally, level = session.tally, session.level
    history = np.array(tally.history)
    known = history[history[:, 2] > 0]
    at, blue, red = known[:, 1], STYLES[0], STYLES[1]
    out = []

    figure, axes = new_figure()
    axes.plot(at, np.sqrt(known[:, 3] / known[:, 2]), color=blue[0])
    axes.set(xlabel="rows", ylabel="RMSE / spread of the target", title="Error before learning")
    axes.set_ylim(bottom=0)
    out.append(("Error of each stretch of rows, before they were learned", to_png(figure)))

    figure, axes = new_figure()
    axes.plot(at, known[:, 4] / known[:, 2], color=blue[0], label="inside the interval")
    axes.axhline(level, color=red[0], linestyle=red[1], label=f"promised: {level:.0%}")
    axes.set(xlabel="rows", ylabel="share of targets", ylim=(0, 1.02), title="Calibration along the stream")
    axes.legend(frameon=False)
    out.append(("Share of targets inside their calibrated intervals", to_png(figure)))

    figure, axes = new_figure()
    counts = tally.uniform[list(scored)].sum(axis=0)
    bins = len(counts)
    axes.bar((np.arange(bins) + 0.5) / bins, counts / counts.sum() * bins, width=0.9 / bins, color=blue[0])
    axes.axhline(1.0, color=red[0], linestyle=red[1], label="a perfect normal distribution")
    axes.set_ylim(top=1.25 * max(1.0, float(counts.max() / counts.sum() * bins)))
    axes.set(
        xlabel="where the target fell in its predicted distribution (0 below, 1 above)", ylabel="density",
        title="Residuals: low at both ends means too wide, high at both ends too narrow",
    )  # fmt: skip
    axes.legend(frameon=False)
    out.append(("Residuals of the Gaussian process itself, before calibration", to_png(figure)))

    if session.latest:
        out.append(_spectrum(session))

    figure, axes = new_figure()
    axes.plot(history[:, 1], smooth(1e3 * history[:, 5] / history[:, 0]), color=blue[0])
    axes.set(xlabel="rows", ylabel="milliseconds a batch", title="Time to predict and learn a batch")
    axes.set_ylim(bottom=0)
    out.append(("Time of a batch, running median", to_png(figure)))
    return out


def _spectrum(session: Session) -> tuple[str, bytes]:
    blue, red = STYLES[0], STYLES[1]
    figure, axes = new_figure()
    X = np.concatenate(list(session.latest))[-500:]
    values = np.linalg.eigvalsh(to_host(session.gp.kernel_.block(X)))[::-1]
    values = np.maximum(values, values[0] * 1e-17)
    axes.plot(
        np.arange(len(values)) + 1, values, color=blue[0], label=f"kernel matrix of the last {len(X)} rows"
    )
    axes.axhline(
        session.gp.noise_, color=red[0], linestyle=red[1], label="noise: below it nothing can be learned"
    )
    if session.gp.rank_ <= len(values):
        axes.axvline(session.gp.rank_, color="black", linestyle=":", label=f"rank {session.gp.rank_}")
    axes.set(xlabel="eigenvalue number", ylabel="eigenvalue", xscale="log", yscale="log", title="Spectrum")
    axes.set_ylim(max(values[-1], session.gp.noise_ * 1e-4), values[0] * 2)
    axes.legend(frameon=False)
    return "How fast the kernel's eigenvalues fall: what rank is needed", to_png(figure)


def short(kernel: object) -> str:
    """Write a kernel with four digits a number."""
    return re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda m: f"{float(m.group()):.4g}", str(kernel))


def new_figure(width: float = 7.2, height: float = 4.2) -> tuple[Any, Any]:
    """Give an empty figure and its axes, with a light grid."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ParameterError("pictures need matplotlib: pip install 'streamgp[plot]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def to_png(figure: Any) -> bytes:
    """Give a figure as the bytes of a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=120, format="png")
    return buffer.getvalue()
