"""Options about alarms, and what the commands do when one is raised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import click
from rich.console import Console

from ..alarms import Alarm, Alarms, parse_all
from ..hooks import Hook
from ..session import Session

ALARM_OPTIONS = [
    click.option(
        "--alarm", multiple=True, metavar="RULE",
        help="Raise an alarm, a line on standard error: coverage, rmse, bias, missing or drift, or all of them; with a "
        "bound, 'coverage<0.8 over 500' or 'rmse of COLUMN>2x over 200'. Repeat the option for several.",
    ),
    click.option(
        "--alarm-hook", metavar="COMMAND|URL",
        help="Also send each alarm, as JSON, to the standard input of a command or, by POST, to an http address.",
    ),
    click.option(
        "--alarm-exit", type=click.IntRange(1, 255), metavar="STATUS",
        help="Exit status at the end if an alarm was raised.",
    ),
]  # fmt: skip


def alarms_of(
    options: dict[str, Any],
    targets: Sequence[str],
    features: Sequence[str],
    saved: dict[str, Any] | None = None,
) -> Alarms | None:
    """Return the alarms that the options ask for, as they were `saved`; None if they ask for none."""
    if not options["alarm"]:
        return None
    alarms = Alarms.of(parse_all(options["alarm"], options["level"]), targets, features)
    return alarms.restored(saved) if saved else alarms


def alarm_status(session: Session, options: dict[str, Any]) -> int:
    """Return the exit status of a run that came to its end."""
    raised = session.alarms is not None and session.alarms.count > 0
    return options["alarm_exit"] or 0 if raised else 0


@dataclass
class Notifier:
    """Prints alarms and sends them to a hook."""

    console: Console
    hook: Hook | None

    @classmethod
    def of(cls, options: dict[str, Any], console: Console) -> Self:
        """Return what the options ask for; alarms are printed above the live line, also if all else is quiet."""
        console = Console(stderr=True) if console.quiet else console
        notifier = cls(console, None)
        if options["alarm_hook"]:
            notifier.hook = Hook(options["alarm_hook"], notifier.say)
        return notifier

    @contextmanager
    def raising(self, session: Session) -> Iterator[None]:
        """Let a session raise alarms here; at the end, wait for the hooks."""
        session.on_alarm = self.notify
        try:
            yield
        finally:
            if self.hook:
                self.hook.wait()

    def notify(self, alarm: Alarm) -> None:
        """Print an alarm and send it."""
        self.say(f"alarm: {alarm.text}")
        if self.hook:
            self.hook.send(alarm.__dict__)

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
