"""One self-contained HTML page, and the same tables as Markdown, from the results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgp.app import pages

from . import figures
from .printed import NOTES, NUMBERS, ONCE, RATIOS, TITLES, UNEXPLAINED, verdict

Row = list[str]


def mean_rmse(run: Mapping[str, Any]) -> float:
    """Return the mean of the batches' RMSE, as the paper averages; infinite where a run failed."""
    values = [v for v in run["rmse"] if v is not None]
    return float(np.mean(values)) if values and not run["failure"] else float("inf")


def mean_seconds(run: Mapping[str, Any]) -> float:
    """Return the mean seconds of a batch."""
    return float(np.mean(run["seconds"])) if run["seconds"] else float("nan")


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "fails"
    return f"{value:.2e}" if value >= 1e5 else f"{value:,.2f}"


def table_rows(results: Mapping[str, Any], table: str, data: str, protocol: str) -> list[Row]:
    """Return the rows of a table: ours beside the paper's, with a verdict."""
    out = []
    most = max((n["rows"] for n in results["runs"].values() if n["data"] == data), default=0)
    for run in results["runs"].values():
        if (run["table"], run["data"], run["protocol"]) != (table, data, protocol):
            continue
        theirs = NUMBERS.get((table, run["row"].removesuffix(ONCE).removesuffix(", as printed"), data))
        notes = [f"{run['rows']:,} rows"] if run["rows"] < most else []
        if run["tunings"]:
            notes.append(f"{run['tunings_taken']} of {run['tunings']} tunings taken")
        rmse = mean_rmse(run)
        said = verdict(table, run["row"], data, protocol, rmse)
        if results["about"]["settings"].get("quick"):
            said = "a quick run: not compared"
        elif said == UNEXPLAINED and run["tunings"] and not run["tunings_taken"]:
            said = "differs: every tuning was refused, since the held-back error would have been worse"
        elif theirs and run["rows"] < most:
            said += f" (ours over {run['rows']:,} of the paper's {most:,} rows)"
        out.append(
            [
                run["row"] + (f" ({', '.join(notes)})" if notes else ""),
                _number(rmse),
                _number(theirs[0]) if theirs else "–",
                f"{mean_seconds(run):.4f}",
                f"{theirs[1]:.2f}" if theirs else "–",
                run["failure"] or said,
            ]
        )
    return out


HEAD = ["method", "RMSE, ours", "the paper's", "s a batch, ours", "the paper's", "verdict"]


def ratio_rows(results: Mapping[str, Any], data: str, protocol: str) -> list[Row]:
    """Return the ratios of times, which hardly depend on the machine, over the batches that both runs have."""
    out = []
    for table, above, below in RATIOS:
        runs = [results["runs"].get(f"{table} | {row} | {data} | {protocol}") for row in (above, below)]
        if any(run is None for run in runs):
            continue
        shared = min(len(run["seconds"]) for run in runs)
        if not shared:
            continue
        ours = np.mean(runs[0]["seconds"][:shared]) / np.mean(runs[1]["seconds"][:shared])
        theirs = [NUMBERS.get((table, row, data)) for row in (above, below)]
        shown, said = "–", "not in the paper"
        if all(theirs):
            said, paper = "", theirs[0][1] / theirs[1][1]  # type: ignore[index]
            shown = f"{paper:.1f}"
            if above == "continuous":
                said = "ours tunes on a sample of 500 rows; the paper inverts the whole matrix at each step"
            elif ours >= paper:
                said = f"better: {below} gains more here"
            else:
                said = "differs: it gains less here"
        out.append([f"{above} / {below}, Table {table}", f"{ours:.1f}", shown, said])
    return out


def _sections(results: Mapping[str, Any]) -> list[tuple[str, list[Row], Row]]:
    """Return every table as title, rows and head."""
    out = []
    sets = sorted({run["data"] for run in results["runs"].values()})
    protocols = dict.fromkeys(run["protocol"] for run in results["runs"].values())
    for data in sets:
        for protocol in protocols:
            for table, title in TITLES.items():
                rows = table_rows(results, table, data, protocol)
                out.append((f"Table {table}, {figures.NAMES[data]}, {protocol}: {title}", rows, HEAD))
            ratios = ratio_rows(results, data, protocol)
            head = ["ratio of times a batch", "ours", "the paper's", "verdict"]
            out.append((f"Ratios, {figures.NAMES[data]}, {protocol}", ratios, head))
    for key, study in results["studies"].items():
        kind, data = key.split(" | ")
        if kind == "theorem":
            rows = [
                # The first batch is not a sequential step.
                [name, f"{max(np.array(study[name])[1:] / np.array(study['bound'])[1:]):.1e}"]
                for name in ("literal", "projected")
            ]
            head = ["variant", "largest ratio of error to bound over the sequential steps"]
            out.append((f"Theorem 1, {figures.NAMES[data]}", rows, head))
        if kind == "chance":
            rows = [
                [f"SRMF, tune={tune!r}", *(_number(np.inf if v is None else v) for v in study[tune])]
                for tune in ("none", "continuous", "hybrid")
            ]
            head = ["polynomial kernel", *(f"seed {i}" for i in range(len(rows[0]) - 1))]
            title = (
                f"Runaway and chance, {figures.NAMES[data]}: RMSE of self-training, {study['rows']:,} rows"
            )
            out.append((title, rows, head))
    return out


class Chart(NamedTuple):
    """A figure of the paper: seconds or RMSE a batch of some rows of a table, all rows if none is named."""

    table: str
    what: str
    rows: tuple[str, ...]
    title: str


_METHODS = ("NRMF", "RGP", "BRMF", "SRMF", "pivoted")
_MODES = ("no optimisation", "continuous", "initial")
CHARTS = (
    Chart("I", "seconds", _METHODS, "time a batch, squared exponential"),
    Chart("II", "rmse", _MODES, "error of the three ways to tune, polynomial kernel"),
    Chart("II", "seconds", _MODES, "time of the three ways to tune, polynomial kernel"),
    Chart("III", "seconds", (), "time a batch, tuned polynomial kernel"),
)


def _pictures(results: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """Return every picture as caption and PNG."""
    out = []
    runs = results["runs"].values()
    for data in sorted({run["data"] for run in runs}):
        name = figures.NAMES[data]

        def pick(table: str, protocol: str, *rows: str, data: str = data) -> list[Mapping[str, Any]]:
            return [
                r
                for r in runs
                if (r["table"], r["data"], r["protocol"]) == (table, data, protocol)
                and (not rows or r["row"] in rows)
            ]

        for protocol in dict.fromkeys(run["protocol"] for run in runs):
            for chart in CHARTS:
                caption = f"{name}, {protocol}: {chart.title}"
                shown = pick(chart.table, protocol, *chart.rows)
                out.append((caption, figures.lines(shown, chart.what, caption, data, chart.table)))
        known = pick("I", "labels known", "NRMF", "BRMF", "SRMF", "pivoted")
        out.append((f"{name}: cost of a batch against n, labels known", figures.cost(known, data)))
    for key, study in results["studies"].items():
        kind, data = key.split(" | ")
        if kind in figures.STUDIES:
            caption, draw = figures.STUDIES[kind]
            out.append((f"{figures.NAMES[data]}: {caption}", draw(study, data)))
    return out


def write_page(results: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write `report.html`, with its pictures inside, and `tables.md`; return their paths."""
    about = results["about"]
    lines = [*about["lines"], *NOTES]
    if about.get("seconds"):
        lines.append(f"All runs together took {about['seconds'] / 60:.1f} minutes.")
    parts = [pages.paragraph(line) for line in lines]
    markdown = ["# The paper, run again", "", *(f"{line}\n" for line in lines)]
    for title, rows, head in _sections(results):
        parts += [pages.heading(title), pages.table(rows, head)]
        markdown += [f"## {title}", "", *_markdown_table(rows, head), ""]
    for caption, png in _pictures(results):
        parts.append(pages.picture(caption, png))
    paths = folder / "report.html", folder / "tables.md"
    paths[0].write_text(pages.page("The paper, run again", parts))
    paths[1].write_text("\n".join(markdown))
    return paths


def _markdown_table(rows: list[Row], head: Row) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
