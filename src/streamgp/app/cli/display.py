"""What a run shows: a live line meanwhile, a summary at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..report import score_head, score_rows
from ..session import EMPTY, Session
from ..tables import Reader

# Seconds between two updates of the live line.
_REFRESH = 0.1


@contextmanager
def live_line(console: Console, session: Session, reader: Reader) -> Iterator[Callable[[], None]]:
    """Show a line about the run, with a bar if the size of the input is known; yield the function that updates it."""
    columns = (BarColumn(bar_width=8), TextColumn("{task.description}"), TimeElapsedColumn())
    began, rows_before = time.perf_counter(), session.tally.rows
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("waiting for rows", total=reader.size)
        updated = 0.0

        def update() -> None:
            nonlocal updated
            now = time.perf_counter()
            if now - updated < _REFRESH:
                return
            updated = now
            rate = (session.tally.rows - rows_before) / max(now - began, 1e-9)
            bars.update(task, completed=session.position.offset, description=_line(session, rate))

        yield update


def _line(session: Session, rate: float) -> str:
    tally, gp = session.tally, session.gp
    parts = [f"{tally.rows:,}", f"{rate:,.0f}/s"]
    recent = tally.recent_score()
    if recent:
        error, coverage = recent
        single = len(session.targets) == 1
        parts.append(f"RMSE {error * tally.spread[0]:.3g}" if single else f"RMSE / spread {error:.3g}")
        parts.append(f"in {session.level:.0%}: {coverage:.1%}")
    if session.fitted:
        parts += [f"rank {gp.rank_}", f"tr K left {gp.trace_error_share_:.1%}"]
    if tally.rejected:
        parts.append(f"{tally.rejected:,} bad")
    return " · ".join(parts)


def print_summary(
    console: Console, session: Session, source: str, written: Mapping[str, Path | None] | None = None
) -> None:
    """Print the scores of each target, the number of bad rows, and the files written."""
    tally = session.tally
    console.print(_score_table(session, source))
    if tally.unlabelled:
        console.print(f"{tally.unlabelled:,} rows without a label: predicted, not learned")
    if tally.rejected:
        console.print(f"{tally.bad:,} bad rows, {tally.refused:,} refused by the guard; not learned:")
        for row in session.first_bad:
            console.print(f"  line {row.line}: {row.reason}", markup=False, highlight=False)
        if tally.rejected > len(session.first_bad):
            console.print("  …")
    if session.reasons[EMPTY]:
        console.print(f"{session.reasons[EMPTY]:,} rows without any feature: not learned")
    late = () if session.late is None else session.late.lines()
    for line in (*session.sensors.lines(), *late, *session.notes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if session.alarms is not None:
        count = session.alarms.count
        console.print("no alarm raised" if not count else f"{count:,} alarm{'s' * (count > 1)} raised")
    files = {"output": session.writer and session.writer.path, "quarantine": session.quarantine.path}
    for name, path in {**files, **(written or {})}.items():
        if path not in (None, "-"):
            console.print(f"{name}: {path}", markup=False, highlight=False, soft_wrap=True)


def _score_table(session: Session, source: str) -> Table:
    tally = session.tally
    table = Table(title=escape(f"{source}: {tally.rows:,} rows, {tally.learned:,} learned"))
    for i, name in enumerate(score_head(session.level)):
        table.add_column(name, justify="left" if i < 2 else "right")
    for j, target in enumerate(session.targets):
        for row in score_rows(tally, j, target):
            table.add_row(*map(escape, row))
    return table
