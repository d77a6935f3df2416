"""What the report says, section by section, from the kept results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from . import studies, tables
from .blocks import Block, Figure, Table
from .confirm import confirmed
from .printed import TITLES
from .results import Results
from .verdicts import NAMES


class Section(NamedTuple):
    """A part of the report."""

    anchor: str
    title: str
    blocks: list[Block]


def sections(results: Results, *, with_figures: bool) -> list[Section]:
    """Return the report; without figures nothing is drawn."""
    parts = (
        ("patterns", "Which patterns of the paper hold", tables.claims),
        ("table-1", f"Table I: {TITLES['I']}", tables.table_one),
        ("table-2", f"Table II: {TITLES['II']}", tables.table_two),
        ("table-3", f"Table III: {TITLES['III']}", tables.table_three),
        ("divergence", "Why the printed prediction diverges", studies.ablation),
        ("settings", "Which settings are consistent with Table I", studies.settings),
        ("theorem", "Theorem III.1 over many draws", studies.theorem),
        ("step-13", "Step 13 of Algorithm 5 has its minimum at infinity", studies.step_13),
        ("cost", "What a batch costs as rows pass", studies.cost),
        ("ablation", "Factor and cross-covariance over ranks and noises", studies.whole_ablation),
        ("protocol", "Protocol, data, machine, state of the results", _protocol),
    )
    out = []
    for anchor, title, make in parts:
        blocks = [b for b in make(results, with_figures) if with_figures or not isinstance(b, Figure)]
        if blocks:
            out.append(Section(anchor, title, blocks))
    return out


# Protocol


def _protocol(results: Results, _: bool) -> Iterator[Block]:
    yield (
        "Batches of 100; only the first batch has labels. 'Self-training', the paper's protocol: each later batch "
        "is predicted, then learned with its predictions. 'Labels known': each batch is predicted, then learned "
        "with its labels. Inputs and targets are in units of the first batch; errors are in units of the target. "
        "Every cell of a table has the rows in its title."
    )
    yield (
        "The exact GP that learns its own predicted mean does not change: with fixed hyperparameters NRMF is the GP "
        "of its first 100 labels. The paper's 3.22 on Abalone is the standard deviation of the target over all "
        "4,177 rows of the set. D has trace zero, so the distance kernel is not positive semi-definite; D∘D has at "
        "most rank d + 2."
    )
    yield (
        "The Sarcos rows are the first 10,000 of a subset that has about every second row of the original: not the "
        "paper's. Data: "
        + "; ".join(f"{NAMES[name]}: {source}" for name, source in results.about["sources"].items())
        + "."
    )
    machines = [
        f"{m['machine']}; {m['versions']}; commit {m['commit'] or 'unknown'}, {m['date']}"
        for m in results.made
    ]
    yield "Made with: " + ". ".join(machines) + ". Times are those of the machine with 2 cores."
    missing, stale = results.missing(), results.stale()
    hours: dict[str, float] = {}
    for key, kept in results.tasks.items():
        group = key.split(" | ")[0].removeprefix("time ").removeprefix("ours ").partition(" ")[0]
        part = f"Table {group}" if group in ("I", "II", "III") else group
        hours[part] = hours.get(part, 0.0) + kept["seconds"] / 3600
    shares = ", ".join(f"{part} {value:.2f}" for part, value in sorted(hours.items()) if value > 0.01)
    yield (
        f"{len(results.tasks):,} runs took {results.seconds() / 3600:.1f} hours, each task on one core of the "
        f"machine it ran on, or on the GPU (hours: {shares})"
        + (f"; {missing:,} were not run." if missing else ".")
    )
    if stale:
        named = ", ".join(f"{group} ({n})" for group, n in sorted(stale.items()))
        again = confirmed(results)
        checked = (
            f" Of the stale ones {again.drawn}, drawn at random, were run again with commit "
            f"{', '.join(again.commits)}: {again.same} are the same to three digits"
            + "".join(f"; {key}: {_changed(by)}" for key, by in again.others.items())
            + "."
        )
        yield (
            f"**Stale**, made with code that has changed since: {named}. Every other result is of the present code."
            + (checked if again.drawn else "")
        )
    else:
        yield "Every result was made with the present code (digests of its source, comments and docstrings aside)."


def _changed(by: float | None) -> str:
    return "one of the two diverges" if by is None else f"{by:.1%} apart"


__all__ = ["Figure", "Section", "Table", "sections"]
