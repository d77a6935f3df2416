"""The outcome as tables and a figure: error against seconds a row, one point a method, our ranks as a curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..report import new_figure
from .protocol import SETS

RANKS = ("pivoted 100", "pivoted 200", "pivoted 500", "pivoted 1000")
OURS = (*RANKS, "streamgp, nothing set", "exact (nrmf)", "Huber's RGP 200")
HEAD = ("method", "RMSE", "NLPD", "in 90 %", "ms a batch", "growth", "memory, MB", "against pivoted 500")
_MARKS = "osD^vP*X<>hd8p"


def rows_of(results: Mapping[str, Mapping[str, Any]], name: str) -> list[list[str]]:
    """Give the table of a stream, a row a method."""
    ours = results.get(f"pivoted 500 | {name}")
    out = []
    for result in results.values():
        if result["set"] != name:
            continue
        if "failure" in result:
            out.append([result["peer"], "fails", "", "", "", "", "", str(result["failure"])])
            continue
        stopped = "" if result["rows"] >= result["all_rows"] else f" (stopped at {result['rows']:,} rows)"
        growth = "–" if result["growth"] is None else f"n^{result['growth']:.1f}"
        out.append(
            [
                result["peer"] + stopped, f"{result['rmse']:.4f}", f"{result['nlpd']:.3f}", f"{result['coverage']:.1%}",
                f"{1e3 * result['seconds']:.1f}", growth, f"{result['memory_mb']:.0f}", _verdict(result, ours),
            ]
        )  # fmt: skip
    return out


def _verdict(result: Mapping[str, Any], ours: Mapping[str, Any] | None) -> str:
    """Say in a few words how a peer stands against `pivoted 500`, over the rows that it reached."""
    if ours is None or "failure" in ours or result["peer"] in OURS:
        return ""
    shared = min(len(result["batches"]), len(ours["batches"]))
    theirs, mine = (np.array(r["batches"][:shared]) for r in (result, ours))
    faster = theirs[:, 1].mean() / mine[:, 1].mean()
    worse = float(np.sqrt((theirs[:, 0] ** 2).mean() / (mine[:, 0] ** 2).mean())) - 1.0
    time = f"{faster:.0f} × slower" if faster >= 1 else f"{1 / faster:.1f} × faster"
    error = "as accurate" if abs(worse) < 0.005 else f"{abs(worse):.1%} {'worse' if worse > 0 else 'better'}"
    return f"{error}, {time}"


def markdown(results: Mapping[str, Mapping[str, Any]], lines: Sequence[str]) -> str:
    """Give every table as Markdown."""
    out = ["# streamgp and its peers", "", *(f"{line}\n" for line in lines)]
    for name, title in SETS.items():
        rows = rows_of(results, name)
        if rows:
            out += [
                f"## {title}",
                "",
                *("| " + " | ".join(r) + " |" for r in (HEAD, ["---"] * len(HEAD), *rows)),
                "",
            ]
    settings = {r["peer"]: r["settings"] for r in results.values()}
    out += ["## Settings", "", *(f"- {peer}: {said}." for peer, said in settings.items()), ""]
    return "\n".join(out)


def draw(results: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Draw error against seconds a row, a panel a stream."""
    names = [name for name in SETS if any(r["set"] == name and "rmse" in r for r in results.values())]
    figure, axes = new_figure(11.0, 3.2 + 3.6 * ((len(names) + 1) // 2))
    axes.remove()
    panels = figure.subplots((len(names) + 1) // 2, 2, squeeze=False).ravel()
    peers = list(dict.fromkeys(r["peer"] for r in results.values()))
    handles: dict[str, Any] = {}
    for panel, name in zip(panels, names, strict=False):
        found = {r["peer"]: r for r in results.values() if r["set"] == name and "rmse" in r}
        curve = [found[p] for p in RANKS if p in found]
        at = [r["seconds"] / 100 for r in curve], [r["rmse"] for r in curve]
        (handles["streamgp, ranks 100 to 1000"],) = panel.plot(*at, "-o", color="#0072B2", linewidth=2)
        for i, peer in enumerate(p for p in peers if p not in RANKS):
            if peer in found:
                ours = peer in OURS
                handles[peer] = panel.scatter(
                    found[peer]["seconds"] / 100, found[peer]["rmse"], marker=_MARKS[i % len(_MARKS)], s=55,
                    color="#0072B2" if ours else "#D55E00", facecolors="none" if ours else None,
                )  # fmt: skip
        panel.set(
            title=SETS[name],
            xscale="log",
            xlabel="seconds a row, predicted and learned",
            ylabel="RMSE / spread",
        )
        lowest = min(r["rmse"] for r in found.values())
        panel.set_ylim(0.9 * lowest, min(2.5 * lowest, 1.1 * max(r["rmse"] for r in found.values())))
        panel.grid(visible=True, which="both", alpha=0.25)
    for panel in panels[len(names) :]:
        panel.remove()
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=3, frameon=False, fontsize=9
    )
    figure.savefig(path, dpi=120)
