"""Panels and colours of the documentation's figures, and its two diagrams, which need no run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

# The colours of Okabe & Ito, which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, PINK, SKY, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#777777"


def panels(columns: int, height: float, *, width: float = 9.0, **more: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes, one row of them, with a light grid."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, **more)
    for panel in np.atleast_1d(axes):
        panel.grid(visible=True, alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


class Box(NamedTuple):
    """Where a box has its centre, its text and its colour."""

    x: float
    y: float
    text: str
    colour: str = "white"


def _boxes(panel: Any, boxes: dict[str, Box]) -> None:
    for x, y, text, colour in boxes.values():
        panel.add_patch(
            FancyBboxPatch(
                (x - 0.85, y - 0.3), 1.7, 0.6, boxstyle="round,pad=0.04", facecolor=colour, edgecolor="black"
            )
        )
        panel.text(x, y, text, ha="center", va="center", fontsize=9)


def _arrow(panel: Any, start: tuple[float, float], end: tuple[float, float], text: str = "") -> None:
    panel.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "black"})
    if text:
        slanted = end[1] != start[1]
        middle = (start[0] + end[0]) / 2 + 0.05 * slanted, (start[1] + end[1]) / 2 + 0.08 + 0.2 * slanted
        panel.text(*middle, text, ha="center", va="bottom", fontsize=8)


def run() -> Figure:
    """Return a figure: how a batch passes through `streamgp run`."""
    figure, panel = panels(1, 2.9, width=10.0)
    panel.axis("off")
    panel.set(xlim=(-1, 10.7), ylim=(-1.75, 1.65))
    way = {
        "input": Box(0, 0, "CSV, JSON lines,\nParquet, a pipe", "#EEEEEE"),
        "read": Box(2.4, 0, "read a batch"),
        "predict": Box(4.8, 0, "predict", "#CFE5F3"),
        "score": Box(7.2, 0, "score it against\nits labels"),
        "learn": Box(9.6, 0, "learn", "#CFE5F3"),
        "bad": Box(2.4, -1.3, "bad row: stop,\nskip, quarantine", "#F7D9C4"),
        "output": Box(4.8, -1.3, "mean, std,\nlow, high", "#EEEEEE"),
        "calibrate": Box(7.2, 1.2, "intervals: how far\nthey must reach"),
        "guard": Box(9.6, -1.3, "guard: impossible\nrow, left out", "#F7D9C4"),
        "keep": Box(9.6, 1.2, "checkpoint:\nmodel, place, scores", "#D5EFE3"),
    }
    _boxes(panel, way)
    order = ("input", "read", "predict", "score", "learn")
    for a, b in pairwise(order):
        _arrow(panel, (way[a][0] + 0.9, 0), (way[b][0] - 0.9, 0))
    for a, b in (("read", "bad"), ("predict", "output"), ("learn", "guard")):
        _arrow(panel, (way[a][0], -0.33), (way[b][0], -0.97))
    for a, b in (("score", "calibrate"), ("learn", "keep")):
        _arrow(panel, (way[a][0], 0.33), (way[b][0], 0.87))
    _arrow(panel, (6.3, 1.2), (4.9, 0.38))
    return figure


def cluster() -> Figure:
    """Return a figure: what is sent within a cluster."""
    figure, panel = panels(1, 2.7, width=9.0)
    panel.axis("off")
    panel.set(xlim=(-1.2, 9.8), ylim=(-1.6, 1.7))
    way = {f"p{i}": Box(0.0, 1.2 - 0.8 * i, f"partition {i + 1}", "#EEEEEE") for i in range(4)}
    way |= {f"s{i}": Box(2.8, 1.2 - 0.8 * i, "A, c, s, n, κ", "#CFE5F3") for i in range(4)}
    way |= {
        "t0": Box(5.65, 0.8, "sum"),
        "t1": Box(5.65, -0.8, "sum"),
        "model": Box(8.6, 0.0, "the model", "#D5EFE3"),
    }
    _boxes(panel, way)
    for i in range(4):
        _arrow(panel, (0.85, 1.2 - 0.8 * i), (1.95, 1.2 - 0.8 * i), "n rows" if i == 0 else "")
        _arrow(panel, (3.7, 1.2 - 0.8 * i), (4.7, 0.8 if i < 2 else -0.8), "r² numbers" if i == 0 else "")
    for y in (0.8, -0.8):
        _arrow(panel, (6.6, y), (7.65, 0.12 if y > 0 else -0.12), "r² numbers" if y > 0 else "")
    return figure
