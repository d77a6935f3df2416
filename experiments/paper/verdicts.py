"""What a verdict is, how errors are written, and what several claims need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .results import Estimate, Results

HOLDS, PARTLY, FAILS, OPEN = "holds", "holds in part", "fails", "cannot be told"
NAMES = {"abalone": "Abalone", "sarcos": "Sarcos subset", "arm": "simulated arm"}
# A number agrees with the paper's if it is within this share of it; patterns are judged by it, not by single digits.
CLOSE = 0.10


class Pattern(NamedTuple):
    """A claim of the paper, where it is made, what was found here, and the verdict."""

    claim: str
    where: str
    found: str
    verdict: str


def known(results: Results, read: Callable[[str], Any]) -> dict[str, Any]:
    """Return what `read` finds for each set of the paper; LookupError where something is missing."""
    out = {data: read(data) for data in results.sets if data in ("abalone", "sarcos")}
    if not out or any(value is None for value in out.values()):
        raise LookupError
    return out


def both(held: list[bool]) -> str:
    """Return whether a claim holds everywhere, nowhere, or in part."""
    return HOLDS if all(held) else FAILS if not any(held) else PARTLY


def times(results: Results, table: str, rows: tuple[str, ...], data: str) -> list[float] | None:
    """Return the mean seconds of a batch of each row; None where one was not timed."""
    found = [results.time(table, row, data) for row in rows]
    return None if None in found else [float(t) for t in found if t is not None]


def figure(value: float) -> str:
    """Return an error as text: two digits after the point, two digits and the power of ten beyond 10,000."""
    if not np.isfinite(value):
        return "overflows"
    if value >= 1e4:
        digits, _, power = f"{value:.1e}".partition("e")
        return f"{digits}e{int(power)}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def interval(found: Estimate) -> str:
    """Return mean ± half the 95 % interval."""
    half = (found.high - found.low) / 2
    if found.seeds < 2 or not np.isfinite(half) or found.mean >= 1e4:
        return figure(found.mean)
    return f"{figure(found.mean)} ± {figure(half)}"
