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
from . import pages
from .session import Session
from .tally import Tally

# Colours of Okabe and Ito, which colour-blind readers can tell apart, each with a dash of its own for print.
STYLES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#000000", ":"),
    ("#CC79A7", (0, (5, 1, 1, 1))),
)
_BLUE, _RED = ({"color": colour, "linestyle": dash} for colour, dash in STYLES[:2])

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


def save_run_page(path: Path, session: Session, source: str) -> None:
    """Write a self-contained page about a run: counts, scores of each target, reasons of bad rows, five figures."""
    tally, targets = session.tally, session.targets
    parts = [pages.paragraph(line) for line in _description(session, source)]
    scored = [j for j in range(len(targets)) if tally.scored[j]]
    if scored:
        head = ["target", "RMSE", "RMSE / spread", "NLPD", f"inside {session.level:.0%} intervals"]
        rows = [[targets[j], *score_cells(tally, j)] for j in scored]
        parts += [pages.heading("Errors before learning"), pages.table(rows, head)]
    if session.reasons:
        counts = [[reason, f"{n:,}"] for reason, n in session.reasons.most_common(20)]
        parts += [pages.heading("Rows that were not learned"), pages.table(counts, ["reason", "rows"])]
    if scored:
        parts += [_error_figure(tally), _coverage_figure(tally, session.level), _pit_figure(tally, scored)]
        parts += [_spectrum_figure(session)] if session.latest else []
        parts.append(_time_figure(tally))
    path.write_text(pages.page("A run of streamgp", parts))


def _description(session: Session, source: str) -> list[str]:
    tally, gp = session.tally, session.gp
    lines = [
        f"{tally.rows:,} rows of {source}: {tally.learned:,} learned, {tally.unlabelled:,} without a label, "
        f"{tally.bad:,} bad, {tally.refused:,} refused by the guard. {tally.seconds:.1f} s of predicting and learning.",
    ]
    if session.fitted:
        lines.append(
            f"{gp.method}, rank {gp.rank_}; kernel {short_kernel(gp.kernel_)} of standardised targets, noise variance "
            f"{noise_text(gp.noise_)}; the approximation leaves out {gp.trace_error_share_:.2%} of tr K."
        )
    return lines


def score_cells(tally: Tally, j: int) -> list[str]:
    """Return RMSE, RMSE over spread, NLPD and coverage of target j as text; nothing before it was scored."""
    n = tally.scored[j]
    if not n:
        return []
    return [
        f"{tally.rmse[j]:.4g}",
        f"{tally.rmse[j] / tally.spread[j]:.3f}",
        f"{tally.negative_log_density[j] / n:.3f}",
        f"{tally.covered[j] / n:.1%}",
    ]


def _error_figure(tally: Tally) -> str:
    points = [p for p in tally.history if p.scored > 0]
    figure, axes = new_figure()
    axes.plot([p.rows for p in points], [np.sqrt(p.squared_error / p.scored) for p in points], **_BLUE)
    axes.set(xlabel="rows", ylabel="RMSE / spread of the target", title="Error before learning")
    axes.set_ylim(bottom=0)
    return pages.picture("Error of consecutive rows, before they were learned", to_png(figure))


def _coverage_figure(tally: Tally, level: float) -> str:
    points = [p for p in tally.history if p.scored > 0]
    figure, axes = new_figure()
    axes.plot(
        [p.rows for p in points], [p.covered / p.scored for p in points], **_BLUE, label="inside the interval"
    )
    axes.axhline(level, **_RED, label=f"nominal: {level:.0%}")
    axes.set(xlabel="rows", ylabel="share of targets", ylim=(0, 1.02), title="Coverage along the stream")
    axes.legend(frameon=False)
    return pages.picture("Share of targets inside their calibrated intervals", to_png(figure))


def _pit_figure(tally: Tally, scored: Sequence[int]) -> str:
    figure, axes = new_figure()
    counts = tally.pit_histogram[list(scored)].sum(axis=0)
    bins = len(counts)
    density = counts / counts.sum() * bins
    axes.bar((np.arange(bins) + 0.5) / bins, density, width=0.9 / bins, color=STYLES[0][0])
    axes.axhline(1.0, **_RED, label="normal distribution with the right mean and variance")
    axes.set_ylim(top=1.25 * max(1.0, float(density.max())))
    axes.set(
        xlabel="predictive distribution function at the target (0 below, 1 above)", ylabel="density",
        title="Low at both ends: intervals too wide; high at both ends: too narrow",
    )  # fmt: skip
    axes.legend(frameon=False)
    caption = "Probability integral transform of the Gaussian process itself, before calibration"
    return pages.picture(caption, to_png(figure))


def _spectrum_figure(session: Session) -> str:
    gp = session.gp
    X = np.concatenate(list(session.latest))[-500:]
    values = np.linalg.eigvalsh(gp.kernel_.block(X))[::-1]
    values = np.maximum(values, values[0] * 1e-17)
    figure, axes = new_figure()
    numbers = np.arange(len(values)) + 1
    axes.plot(numbers, values, **_BLUE, label=f"kernel matrix of the last {len(X)} rows")
    noise = float(np.min(gp.noise_))
    axes.axhline(noise, **_RED, label="noise variance: smaller eigenvalues cannot be learned")
    if gp.rank_ <= len(values):
        axes.axvline(gp.rank_, color="black", linestyle=":", label=f"rank {gp.rank_}")
    axes.set(xlabel="eigenvalue number", ylabel="eigenvalue", xscale="log", yscale="log", title="Spectrum")
    axes.set_ylim(max(values[-1], noise * 1e-4), values[0] * 2)
    axes.legend(frameon=False)
    return pages.picture("Eigenvalues of the kernel matrix: the rank that is needed", to_png(figure))


def _time_figure(tally: Tally) -> str:
    figure, axes = new_figure()
    milliseconds = smooth([1e3 * p.seconds / p.batches for p in tally.history])
    axes.plot([p.rows for p in tally.history], milliseconds, **_BLUE)
    axes.set(xlabel="rows", ylabel="milliseconds per batch", title="Time to predict and learn a batch")
    axes.set_ylim(bottom=0)
    return pages.picture("Time per batch, running median", to_png(figure))


def noise_text(noise: Any) -> str:
    """Return the noise variance of each target as text."""
    return ", ".join(f"{value:.4g}" for value in np.ravel(noise))


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
    figure.savefig(buffer, dpi=120, format="png")
    return buffer.getvalue()
