"""One self-contained HTML page and Markdown tables from the results."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import figures
from .paper import NUMBERS, RATIOS, TITLES, verdict

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: auto; padding: 1rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top }
@media (min-width: 40.01rem) { td:last-child { min-width: 14rem } }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
figure { margin: 1.5rem 0 } img { max-width: 100%; height: auto } figcaption { font-size: .9rem; color: #444 }
@media (max-width: 40rem) {
  table, tbody, tr, td { display: block } tr:first-child { display: none }
  tr { border-bottom: 2px solid #999; padding: .4rem 0 } td { border: 0; padding: .1rem .4rem }
  td:first-child { font-weight: 600 } td.n { text-align: left; white-space: normal }
  td:not(:first-child)::before { content: attr(data-head) ": "; color: #555 }
}
"""
Row = list[str]


def mean_rmse(run: Mapping[str, Any]) -> float:
    """Give the average over batches of the batches' RMSE, as the paper does; infinite where a run failed."""
    values = [v for v in run["rmse"] if v is not None]
    return float(np.mean(values)) if values and not run["failure"] else float("inf")


def mean_seconds(run: Mapping[str, Any]) -> float:
    """Give the average time of a batch."""
    return float(np.mean(run["seconds"])) if run["seconds"] else float("nan")


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "fails"
    return f"{value:.2e}" if value >= 1e5 else f"{value:,.2f}"


def table_rows(results: Mapping[str, Any], table: str, data: str, protocol: str) -> list[Row]:
    """Give the rows of a table: ours beside the paper's, with a verdict."""
    out = []
    most = max((n["rows"] for n in results["runs"].values() if n["data"] == data), default=0)
    for run in results["runs"].values():
        if (run["table"], run["data"], run["protocol"]) != (table, data, protocol):
            continue
        theirs = NUMBERS.get((table, run["row"], data))
        notes = [f"{run['rows']:,} rows"] if run["rows"] < most else []
        if run["tunings"]:
            notes.append(f"{run['tunings_taken']} of {run['tunings']} tunings taken")
        rmse = mean_rmse(run)
        said = verdict(table, run["row"], data, protocol, rmse)
        if results["about"]["settings"].get("quick"):
            said = "a quick run: not compared"
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
    """Give the ratios of times that survive a change of machine, over the batches that both runs have."""
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
                said = "ours looks at a sample of 500 rows; the paper inverts the whole matrix at each step"
            elif ours >= paper:
                said = f"better: {below} gains more here"
            else:
                said = "differs: it gains less here"
        out.append([f"{above} / {below}, Table {table}", f"{ours:.1f}", shown, said])
    return out


def _sections(results: Mapping[str, Any]) -> list[tuple[str, list[Row], Row]]:
    """Give every table as title, rows and head."""
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


def _pictures(results: Mapping[str, Any]) -> list[tuple[str, bytes]]:
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

        modes = ("no optimisation", "continuous", "initial")
        for protocol in dict.fromkeys(run["protocol"] for run in runs):
            for table, what, rows, title in (
                ("I", "seconds", (), "time a batch, squared exponential"),
                ("II", "rmse", modes, "error of the three ways to tune, polynomial kernel"),
                ("II", "seconds", modes, "time of the three ways to tune, polynomial kernel"),
                ("III", "seconds", (), "time a batch, tuned polynomial kernel"),
            ):
                caption = f"{name}, {protocol}: {title}"
                picture = figures.lines(pick(table, protocol, *rows), what, caption, data, table)
                out.append((caption, picture))
        known = pick("I", "labels known", "NRMF", "BRMF", "SRMF", "pivoted")
        out.append((f"{name}: cost of a batch against n", figures.cost(known, data)))
    for key, study in results["studies"].items():
        kind, data = key.split(" | ")
        if kind in figures.STUDIES:
            caption, draw = figures.STUDIES[kind]
            out.append((f"{figures.NAMES[data]}: {caption}", draw(study, data)))
    return out


def write_page(results: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write `report.html`, pictures inside, and `tables.md`; give their paths."""
    about = results["about"]
    parts = [f"<p>{html.escape(line)}</p>" for line in about["lines"]]
    markdown = ["# The paper, run again", "", *(f"{line}\n" for line in about["lines"])]
    for title, rows, head in _sections(results):
        parts.append(f"<h2>{html.escape(title)}</h2>{_html_table(rows, head)}")
        markdown += [f"## {title}", "", *_markdown_table(rows, head), ""]
    for caption, png in _pictures(results):
        encoded = base64.b64encode(png).decode()
        alt = html.escape(caption)
        parts.append(
            f'<figure><img alt="{alt}" src="data:image/png;base64,{encoded}"><figcaption>{alt}</figcaption></figure>'
        )
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The paper, run again</title><style>{STYLE}</style></head><body>"
        f"<h1>The paper, run again</h1>{''.join(parts)}</body></html>"
    )
    paths = folder / "report.html", folder / "tables.md"
    paths[0].write_text(page)
    paths[1].write_text("\n".join(markdown))
    return paths


def _html_table(rows: list[Row], head: Row) -> str:
    def cell(tag: str, i: int, value: str) -> str:
        kind = ' class="n"' if 0 < i < len(head) - (head[-1] == "verdict") else ""
        name = f' data-head="{html.escape(head[i])}"' if tag == "td" else ""
        return f"<{tag}{kind}{name}>{html.escape(value)}</{tag}>"

    lines = ["".join(cell("th", i, v) for i, v in enumerate(head))]
    lines += ["".join(cell("td", i, v) for i, v in enumerate(row)) for row in rows]
    return '<div class="wide"><table>' + "".join(f"<tr>{line}</tr>" for line in lines) + "</table></div>"


def _markdown_table(rows: list[Row], head: Row) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
