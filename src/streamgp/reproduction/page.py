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
td:last-child { min-width: 14rem }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
figure { margin: 1.5rem 0 } img { max-width: 100%; height: auto } figcaption { font-size: .9rem; color: #444 }
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
    for run in results["runs"].values():
        if (run["table"], run["data"], run["protocol"]) != (table, data, protocol):
            continue
        theirs = NUMBERS.get((table, run["row"], data))
        fewer = {n["rows"] for n in results["runs"].values() if n["data"] == data}
        note = f" ({run['rows']:,} rows)" if run["rows"] < max(fewer) else ""
        rmse = mean_rmse(run)
        out.append(
            [
                run["row"] + note,
                _number(rmse),
                _number(theirs[0]) if theirs else "–",
                f"{mean_seconds(run):.4f}",
                f"{theirs[1]:.2f}" if theirs else "–",
                run["failure"] or verdict(table, run["row"], data, protocol, rmse) or "not in the paper",
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
        shown = f"{theirs[0][1] / theirs[1][1]:.1f}" if all(theirs) else "–"  # type: ignore[index]
        out.append([f"{above} / {below}, Table {table}", f"{ours:.1f}", shown])
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
            head = ["ratio of times a batch", "ours", "the paper's"]
            out.append((f"Ratios, {figures.NAMES[data]}, {protocol}", ratios, head))
    for key, study in results["studies"].items():
        kind, data = key.split(" | ")
        if kind == "theorem":
            rows = [
                [name, f"{max(np.array(study[name]) / np.array(study['bound'])):.1e}"]
                for name in ("literal", "projected")
            ]
            head = ["variant", "largest ratio of error to bound"]
            out.append((f"Theorem 1, {figures.NAMES[data]}", rows, head))
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
        draw = {"theorem": figures.theorem, "robustness": figures.robustness}[kind]
        out.append((f"{figures.NAMES[data]}: {kind}", draw(study, data)))
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
        kind = ' class="n"' if 0 < i < 5 else ""
        return f"<{tag}{kind}>{html.escape(value)}</{tag}>"

    lines = ["".join(cell("th", i, v) for i, v in enumerate(head))]
    lines += ["".join(cell("td", i, v) for i, v in enumerate(row)) for row in rows]
    return '<div class="wide"><table>' + "".join(f"<tr>{line}</tr>" for line in lines) + "</table></div>"


def _markdown_table(rows: list[Row], head: Row) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
