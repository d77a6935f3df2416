"""The page about a run that an engineer opens first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..parameters import GAUSSIAN
from . import pages, panels
from .report import new_figure, noise_text, score_head, score_rows, short_kernel
from .session import Session
from .trace import Stretch, coarser

# Features that are shown by relevance, and rows of a table.
MOST_FEATURES, MOST_ROWS = 20, 10
# Rows in which coverage is judged, and how far it must be off to be named: standard deviations, and in any case.
JUDGED, DEVIATIONS, OFF = 100, 4.0, 0.05
# A rank is short if what it leaves of the prior variance is more than this share of the noise variance.
SHORT = 0.1


def save_run_page(path: Path, session: Session, source: str) -> None:
    """Write a self-contained page about a run; it loads nothing from elsewhere."""
    new_figure()  # an error about a missing library comes before anything else is done
    tally, targets = session.tally, session.targets
    scored = [j for j in range(len(targets)) if tally.scored[j]]
    parts = [pages.paragraph(line) for line in _summary(session, source)]
    parts += [
        pages.alarm(alarm.text) for alarm in (session.alarms.kept[-MOST_ROWS:] if session.alarms else ())
    ]
    if scored:
        rows = [row for j in scored for row in score_rows(tally, j, targets[j])]
        parts += [pages.heading("How good predictions were"), pages.table(rows, score_head(session.level))]
        parts.append(pages.paragraph(_NOTE))
        parts += [part for j in scored for part in _target(session, j)]
        parts += [*_broken(session, scored), *_model(session), *_times(session)]
    if session.reasons:
        counts = [[reason, f"{n:,}"] for reason, n in session.reasons.most_common(20)]
        parts += [pages.heading("Rows that were not learned"), pages.table(counts, ["reason", "rows"])]
    if scored:
        counts = tally.pit_histogram[scored].sum(axis=0)
        note = (
            "Level: standard deviations are right. High at both ends: too small; low at both ends: too large."
        )
        parts += [pages.heading("Calibration"), pages.grid([pages.picture(note, panels.pit_figure(counts))])]
    path.write_text(pages.page(f"Run over {Path(source).name if source != '-' else 'standard input'}", parts))


_NOTE = (
    "Errors of predictions made before their batch was learned. Beside them those of two baselines that know the same "
    "labels: the last value, and the mean of all so far. A model that is worth its name is better than both."
)


def _summary(session: Session, source: str) -> list[str]:
    tally, gp = session.tally, session.gp
    lines = [
        f"{tally.rows:,} rows of {source}: {tally.learned:,} learned, {tally.unlabelled:,} without a label, "
        f"{tally.bad:,} bad, {tally.refused:,} refused by the guard. {tally.seconds:.1f} s of predicting and learning.",
        *session.sensors.lines(),
        *session.notes,
    ]
    if session.alarms is not None:
        lines.append(
            f"{session.alarms.count:,} alarms raised." if session.alarms.count else "No alarm raised."
        )
    return lines if session.fitted else [*lines, f"Nothing was learned by {gp.method}."]


def _target(session: Session, j: int) -> list[str]:
    """Return the panels of a target."""
    stretches, series, level = session.trace.stretches, session.trace.series[j], session.level
    latest = panels.part_figure("The latest rows", series.latest, level)
    figures = [
        pages.picture(f"The last {len(series.latest.names)} rows with a label", latest),
        pages.picture("Means of consecutive rows", panels.whole_figure(stretches, j, level)),
        pages.picture(
            f"Of at least {panels.AT_LEAST} rows; predictions made before learning",
            panels.error_figure(stretches, j),
        ),
        pages.picture(
            f"Share of at least {panels.AT_LEAST} rows inside their intervals",
            panels.coverage_figure(stretches, j, level),
        ),
    ]
    if series.worst.names:
        worst, title = series.worst, f"The worst {len(series.worst.names)} rows"
        rmse = session.tally.rmse[j]
        words = f"From {worst.names[0]} to {worst.names[-1]}: RMSE {worst.rmse:.4g}, {rmse:.4g} over all"
        figures.insert(1, pages.picture(words, panels.part_figure(title, worst, level)))
    members = session.trace.members
    if len(members) > 1:
        words = "What each member of the panel contributes to the mean"
        figures.append(pages.picture(words, panels.members_figure(stretches, members, j)))
    return [pages.heading(session.targets[j]), pages.grid(figures)]


class Window(NamedTuple):
    """Consecutive rows of a target: names of the first and last, number, share inside the intervals, RMSE."""

    first: str
    last: str
    rows: float
    share: float
    rmse: float


def broken_windows(stretches: Sequence[Stretch], j: int, level: float) -> list[Window]:
    """Return windows of target j, of at least JUDGED rows, in which clearly fewer rows are covered; the worst first."""
    windows = []
    for each in coarser(stretches, j, JUDGED):
        n, inside, squares = each.sums.scored[j], each.sums.inside[j], each.sums.squares[j]
        off = level - inside / n
        if off > max(OFF, DEVIATIONS * np.sqrt(level * (1 - level) / n)):
            windows.append(Window(each.first, each.last, n, inside / n, np.sqrt(squares / n)))
    return sorted(windows, key=lambda window: window.share)


def _broken(session: Session, scored: Sequence[int]) -> list[str]:
    """Return the table of windows where coverage broke."""
    found = [
        (window, session.targets[j])
        for j in scored
        for window in broken_windows(session.trace.stretches, j, session.level)
    ]
    found.sort(key=lambda pair: pair[0].share)
    title = pages.heading("Where coverage broke")
    if not found:
        words = f"In no {JUDGED} rows in a row were clearly fewer than {session.level:.0%} inside their intervals."
        return [title, pages.paragraph(words)]
    rows = [
        [f"{w.first} – {w.last}", name, f"{w.rows:,.0f}", f"{w.share:.0%}", f"{w.rmse:.4g}"]
        for w, name in found[:MOST_ROWS]
    ]
    more = [pages.paragraph(f"{len(found) - MOST_ROWS:,} more.")] if len(found) > MOST_ROWS else []
    return [title, pages.table(rows, ["from – to", "target", "rows", "inside", "RMSE"]), *more]


def relevances(kernel: Any, spread: np.ndarray) -> np.ndarray:
    """Return how much a kernel varies over the spread (d,) of each feature: spread over length-scale, (d,).

    Of several parts, the root of the mean of squares, weighted by their variances. Parts without length-scales, such as
    a linear trend, do not count.
    """
    found = list(_scaled(kernel, 1.0))
    total = sum(variance for variance, _ in found)
    if not total:
        return np.zeros(spread.shape)
    squares = sum(variance * (spread / np.asarray(scale, dtype=float)) ** 2 for variance, scale in found)
    return np.asarray(np.sqrt(squares / total))


def _scaled(kernel: Any, variance: float) -> Any:
    """Yield variance and length-scale of each part of a kernel that has length-scales."""
    if hasattr(kernel, "factor"):
        yield from _scaled(kernel.kernel, variance * float(kernel.factor))
    elif hasattr(kernel, "kernels"):
        weights = np.ravel(getattr(kernel, "weights", np.ones(len(kernel.kernels))))
        for part, weight in zip(kernel.kernels, weights, strict=True):
            yield from _scaled(part, variance * float(weight))
    elif hasattr(kernel, "length_scale"):
        yield variance, kernel.length_scale


def rank_advice(session: Session) -> str:
    """Return what the rank leaves out, compared with the noise, and what to do about it."""
    gp = session.gp
    left = gp.trace_error_ / max(gp.n_samples_seen_, 1) / float(np.min(gp.noise_))
    said = f"Rank {gp.rank_}: what it leaves out of the prior variance is {_plain(left)} times the noise variance"
    if left <= SHORT:
        return f"{said}; a larger rank would change little."
    return f"{said}; a larger --rank may lower the error, at a cost that grows with its square."


def _plain(value: float) -> str:
    """Return a number above 0 without an exponent, as far as one wants to read it."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}" if value >= 0.001 else "less than 0.001"


def _model(session: Session) -> list[str]:
    """Return what matters to the model, and its state."""
    gp = session.gp
    lines = [f"{gp.method}; kernel {short_kernel(gp.kernel_)} of standardised targets, {noise_text(gp)}."]
    if gp.likelihood == GAUSSIAN and (gp.trace_error_share_ or gp.method == "pivoted"):
        lines.append(rank_advice(session))
    parts = [pages.heading("What matters")]
    X = np.concatenate(list(session.latest)) if session.latest else np.zeros((0, 0))
    with np.errstate(all="ignore"):
        spread = np.nanstd(X, axis=0) if X.size else np.zeros(0)
    values = relevances(gp.kernel_, spread) if spread.shape == (gp.n_features_in_,) else np.zeros(0)
    if values.size and values.any():
        order = np.argsort(-values)[:MOST_FEATURES]
        known = session.sensors.names if session.columns is None else session.columns.state_.features
        names = [known[i] for i in order]
        words = (
            "Relevance: how many length-scales of the kernel the last rows span. It is about what bends; what is "
            "linear is in the trend and in the members that are ridge regressions."
        )
        parts.append(
            pages.grid([pages.picture(words, panels.relevance_figure(names, values[order].tolist()))])
        )
    return [*parts, *(pages.paragraph(line) for line in lines)]


def _times(session: Session) -> list[str]:
    """Return how long batches took, and the slowest ones."""
    durations = session.trace.durations
    median, most = (f"{1e3 * durations.quantile(share):,.1f}" for share in (0.5, 0.99))
    words = f"median {median} ms, 99 % within {most} ms"
    rows = [[name, f"{1e3 * seconds:,.1f}"] for seconds, name in durations.slowest]
    figure = pages.picture("Means of consecutive batches", panels.time_figure(session.trace.stretches))
    return [
        pages.heading("Latency"), pages.paragraph(f"To predict and learn a batch: {words}. The slowest:"),
        pages.table(rows, ["batch from", "milliseconds"]), pages.grid([figure]),
    ]  # fmt: skip
