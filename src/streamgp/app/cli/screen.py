"""What a run shows while it goes on and at its end, and how it is asked to stop."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..session import Session
from ..tables import Reader


class Stop:
    """Whether to stop: the first Ctrl-C (or SIGTERM) asks to, the second one stops at once."""

    def __init__(self) -> None:
        self.caught = False

    def __call__(self) -> bool:
        """Tell whether to stop."""
        return self.caught

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self.caught:
            sys.exit(130)
        self.caught = True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Catch signals meanwhile."""
        try:
            before = {n: signal.signal(n, self._catch) for n in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def live(
    console: Console, session: Session, reader: Reader, targets: Sequence[str]
) -> Iterator[Callable[[], None]]:
    """Show a line that follows the run, with a bar where the end is known."""
    columns = (
        BarColumn(bar_width=8),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    began, rows = time.perf_counter(), session.tally.rows
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("waiting for rows", total=reader.size)
        shown = 0.0

        def show() -> None:
            nonlocal shown
            now = time.perf_counter()
            if now - shown < 0.1:
                return
            shown = now
            rate = (session.tally.rows - rows) / max(now - began, 1e-9)
            bars.update(task, completed=session.place.offset, description=_line(session, rate, targets))

        yield show


def _line(session: Session, rate: float, targets: Sequence[str]) -> str:
    tally, gp = session.tally, session.gp
    parts = [f"{tally.rows:,}", f"{rate:,.0f}/s"]
    lately = tally.lately()
    if lately:
        error = lately[0] * tally.spread[0] if len(targets) == 1 else lately[0]
        parts += [
            f"error {error:.3g}{'' if len(targets) == 1 else ' of spread'}",
            f"in {session.level:.0%}: {lately[1]:.1%}",
        ]
    if gp.__sklearn_is_fitted__():
        parts += [f"rank {gp.rank_}", f"left {gp.trace_error_share_:.1%}"]
    if tally.bad or tally.impossible:
        parts.append(f"{tally.bad + tally.impossible:,} bad")
    return " · ".join(parts)


def summary(console: Console, session: Session, about: dict[str, Any]) -> None:
    """Say at the end how it went."""
    tally = session.tally
    table = Table(title=escape(f"{about['source']}: {tally.rows:,} rows, {tally.learned:,} learned"))
    for name in ("target", "RMSE", "RMSE / spread", "NLPD", f"in {session.level:.0%}"):
        table.add_column(name, justify="left" if name == "target" else "right")
    for j, target in enumerate(about["targets"]):
        n = tally.scored[j]
        if n:
            shown = [
                f"{tally.rmse[j]:.4g}",
                f"{tally.rmse[j] / tally.spread[j]:.3f}",
                f"{tally.density[j] / n:.3f}",
            ]
            table.add_row(escape(target), *shown, f"{tally.covered[j] / n:.1%}")
        else:
            table.add_row(escape(target), "–", "–", "–", "–")
    console.print(table)
    if tally.unlabelled:
        console.print(f"{tally.unlabelled:,} rows without a label: predicted, not learned")
    if tally.bad or tally.impossible:
        console.print(f"{tally.bad:,} bad rows, {tally.impossible:,} impossible ones; not learned:")
        for row in session.first_bad:
            console.print(f"  line {row.line}: {row.reason}", markup=False, highlight=False)
        if tally.bad + tally.impossible > len(session.first_bad):
            console.print("  …")
    written = {"output": getattr(session.writer, "path", None), "quarantine": session.quarantine.path}
    for what, path in (written | about.get("written", {})).items():
        if path not in (None, "-"):
            console.print(f"{what}: {path}", markup=False, highlight=False, soft_wrap=True)


def few(names: Sequence[str]) -> str:
    """Name the first ones."""
    shown = ", ".join(names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
