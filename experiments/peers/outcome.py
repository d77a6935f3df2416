"""Tables and a figure of the benchmark: error against seconds a row, a point for each method, a curve for our ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.app.report import new_figure

from .peers import PEERS
from .protocol import SETS

RANKS = ("pivoted 100", "pivoted 200", "pivoted 500", "pivoted 1000")
OURS = (*RANKS, "streamgp, nothing set", "exact (nrmf)")
# The first of these that is as accurate as a peer and faster is the one that is named.
PREFERRED = (
    "pivoted 500",
    "pivoted 200",
    "pivoted 100",
    "pivoted 1000",
    "exact (nrmf)",
    "streamgp, nothing set",
)
# Relative difference of errors below which they count as equal: about what another seed changes.
ALIKE = 0.005
HEAD = ("method", "RMSE", "NLPD", "in 90 %", "ms a batch", "growth", "memory, MB", "ours against it")
_MARKS = "osD^vP*X<>hd8p"


def rows_of(results: Mapping[str, Mapping[str, Any]], name: str) -> list[list[str]]:
    """Return the table of a stream, a row for each method."""
    found = [result for result in results.values() if result["set"] == name]
    ours = {r["peer"]: r for r in found if r["peer"] in OURS and "failure" not in r}
    out = []
    for result in found:
        if "failure" in result:
            out.append([result["peer"], "fails", "", "", "", "", "", str(result["failure"])])
            continue
        growth = "–" if result["growth"] is None else f"n^{result['growth']:.1f}"
        out.append(
            [
                result["peer"] + _where_it_stopped(result), _short(result["rmse"], 4), _short(result["nlpd"], 3),
                f"{result['coverage']:.1%}", f"{1e3 * result['seconds']:.1f}", growth, f"{result['memory_mb']:.0f}",
                "" if result["peer"] in OURS else verdict(result, ours),
            ]
        )  # fmt: skip
    return out


def _where_it_stopped(result: Mapping[str, Any]) -> str:
    if result["ended"] is None:
        return ""
    why = "" if result["ended"] == "budget" else f": {result['ended']}"
    return f" (stopped at {result['rows']:,} rows{why})"


def _short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if abs(value) < 1e3 else f"{value:.1e}"


def verdict(result: Mapping[str, Any], ours: Mapping[str, Mapping[str, Any]]) -> str:
    """Return which of ours is as accurate as a peer and faster, over the rows the peer reached, or what is missing."""
    compared = {peer: _compared(result, ours[peer]) for peer in PREFERRED if peer in ours}
    found = _chosen(compared)
    said = "; ".join(f"{peer}: {_in_words(*found[peer])}" for peer in found)
    if any(more <= ALIKE and faster >= 1.0 for more, faster in found.values()) or not compared:
        return said
    return f"not both: {said or 'no streamgp is as accurate or as fast'} ({PEERS[result['peer']].why})"


def _chosen(compared: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return the preferred one of ours that is as accurate and faster, else the fastest accurate and best fast one."""
    for peer, (more, faster) in compared.items():
        if more <= ALIKE and faster >= 1.0:
            return {peer: (more, faster)}
    accurate = [peer for peer, (more, _) in compared.items() if more <= ALIKE]
    quick = [peer for peer, (_, faster) in compared.items() if faster >= 1.0]
    best = [max(accurate, key=lambda peer: compared[peer][1])] if accurate else []
    best += [min(quick, key=lambda peer: compared[peer][0])] if quick else []
    return {peer: compared[peer] for peer in best}


def _compared(result: Mapping[str, Any], mine: Mapping[str, Any]) -> tuple[float, float]:
    """Return how much more error ours has, as a share of the peer's, and how many times faster it is."""
    shared = min(len(result["batches"]), len(mine["batches"]))
    (theirs, their_seconds), (own, seconds) = (np.array(r["batches"][:shared]).T for r in (result, mine))
    return float(np.sqrt((own**2).mean() / (theirs**2).mean())) - 1.0, float(
        their_seconds.sum() / seconds.sum()
    )


def _in_words(more: float, faster: float) -> str:
    error = "as accurate" if abs(more) <= ALIKE else f"{abs(more):.1%} {'more' if more > 0 else 'less'} error"
    times = max(faster, 1.0 / faster)
    return f"{error}, {times:.{0 if times >= 10 else 1}f} × {'faster' if faster >= 1 else 'slower'}"


def short_table(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one Markdown table of all streams: error of ours against each peer, how much faster, and which of ours."""
    names = [name for name in SETS if any(r["set"] == name for r in results.values())]
    out = [
        "| against | " + " | ".join(SETS[name] for name in names) + " |",
        "|" + " --- |" * (len(names) + 1),
    ]
    for peer in (peer for peer in PEERS if peer not in OURS):
        cells = []
        for name in names:
            theirs = results.get(f"{peer} | {name}")
            if theirs is None or "failure" in theirs:
                cells.append("–" if theirs is None else "it fails")
                continue
            mine = {o: results.get(f"{o} | {name}", {"failure": "not run"}) for o in PREFERRED}
            found = _chosen({o: _compared(theirs, r) for o, r in mine.items() if "failure" not in r})
            cells.append("; ".join(_cell(o, more, faster) for o, (more, faster) in found.items()))
        out.append(f"| {peer} | " + " | ".join(cells) + " |")
    return out


def _cell(ours: str, more: float, faster: float) -> str:
    error = "same" if abs(more) <= ALIKE else f"{more:+.1%}".replace("-", "−")
    said = f"{error}, {faster:.{0 if faster >= 10 else 1 if faster >= 1 else 2}f} ×"
    which = {"exact (nrmf)": "exact", "streamgp, nothing set": "tuned"}.get(ours, ours.split()[-1])
    return f"**{said}** ({which})" if more <= ALIKE and faster >= 1 else f"{said} ({which})"


def markdown(results: Mapping[str, Mapping[str, Any]], lines: Sequence[str]) -> str:
    """Return every table as Markdown."""
    out = ["# streamgp and its peers", "", *(f"{line}\n" for line in lines)]
    out += [
        "Error of ours against each peer, and how many times faster; in brackets which of ours: the rank of `pivoted`, "
        "the exact method, or `tuned`, with default settings. Bold where ours is worse in neither; else "
        "those that come closest.",
        "",
    ]
    out += [*short_table(results), ""]
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
    """Write a figure of error against seconds a row, a panel for each stream."""
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
