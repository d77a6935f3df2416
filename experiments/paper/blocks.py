"""Parts of a section of the report, and how numbers are written in them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from .printed import printed
from .results import Estimate
from .verdicts import figure, interval


class Table(NamedTuple):
    """A table under its title, which may be empty."""

    title: str
    head: list[str]
    rows: list[list[str]]


class Figure(NamedTuple):
    """A drawing as SVG with its number in the paper, if it has one, and its caption."""

    number: str
    svg: str
    caption: str


Block: TypeAlias = str | Table | Figure


def shown(found: Estimate | None) -> str:
    """Return an error over seeds with its interval."""
    return "–" if found is None else interval(found)


def number(value: float | None) -> str:
    """Return an error."""
    return "–" if value is None else figure(value)


def seconds(value: float | None) -> str:
    """Return a time."""
    return "–" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def paper(table: str, row: str, data: str, which: int) -> str:
    """Return what the paper prints: RMSE (0) or seconds (1) of a row."""
    theirs = printed(table, row, data)
    return "–" if theirs is None else f"{theirs[which]:.2f}"
