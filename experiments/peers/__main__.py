"""Run streamgp beside the methods that people would pick instead, on the same streams.

    python -m experiments.peers [--set NAME] [--peer NAME] [--budget SECONDS] [--output FOLDER]

Streams are standardised by their first 500 rows, hyperparameters are the same for all methods that take them, batches
of 100 are predicted and then learned. Each method runs in a process of its own, and again where other processes were
busy meanwhile. Needs the other libraries: pip install 'streamgp[bench]'.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from experiments import common
from streamgp import __version__
from streamgp.errors import DataError, StreamGPError

from .outcome import HEAD, draw, markdown, rows_of
from .peers import PEERS
from .protocol import SETS, run_apart


@common.command(__doc__)
@click.option(
    "--data", "folder", envvar="STREAMGP_DATA",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the streams and benchmark_hyperparameters.json.  [default: STREAMGP_DATA, else ../shared/data]",
)  # fmt: skip
@click.option(
    "--set", "sets", multiple=True, type=click.Choice(tuple(SETS)), default=tuple(SETS),
    help="Only this stream; may be repeated.",
)  # fmt: skip
@click.option(
    "--peer", "peers", multiple=True, type=click.Choice(tuple(PEERS)), default=tuple(PEERS),
    help="Only this method; may be repeated.",
)  # fmt: skip
@click.option(
    "--budget", default=60.0, show_default=True, type=click.FloatRange(1, 1e6),
    help="Seconds after which a method stops; the table says at which row.",
)  # fmt: skip
@click.option(
    "--output", default="bench", show_default=True, type=click.Path(file_okay=False, path_type=Path),
    help="Folder for bench.json, bench.md and bench.png; an interrupted run continues there.",
)  # fmt: skip
def bench(
    folder: Path | None, sets: Sequence[str], peers: Sequence[str], budget: float, output: Path
) -> None:
    """Run what is not in the output folder yet, then write and print the tables."""
    folder = folder or common.data_folder()
    console = Console()
    kept = output / "bench.json"
    try:
        output.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {"lines": _about(budget), "budget": budget, "results": {}}
        if kept.exists():
            content = _kept(kept, budget)
        for name in sets:  # missing data is an error before anything runs
            common.hyperparameters(name, folder)
            common.load(name, folder)
        jobs = [(name, peer) for name in sets for peer in peers]
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bars:
            task = bars.add_task("", total=len(jobs))
            for name, peer in jobs:
                key = f"{peer} | {name}"
                bars.update(task, description=key)
                if key not in content["results"]:
                    content["results"][key] = run_apart(folder, name, peer, budget)
                    _save(content, kept)
                bars.advance(task)
        for name in sets:
            table = Table(*HEAD, title=SETS[name])
            for row in rows_of(content["results"], name):
                table.add_row(*row)
            console.print(table)
        (output / "bench.md").write_text(markdown(content["results"], content["lines"]))
        if any("rmse" in result for result in content["results"].values()):
            draw(content["results"], output / "bench.png")
    except StreamGPError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or output}: {error.strerror}") from error
    console.print(f"results: {kept}\ntables:  {output / 'bench.md'}\nfigure:  {output / 'bench.png'}")


def _save(content: dict[str, Any], path: Path) -> None:
    """Write the results whole, then rename, so that an interruption leaves the file as it was."""
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(content, indent=1))
    fresh.replace(path)


def _kept(path: Path, budget: float) -> dict[str, Any]:
    """Return the results of an earlier run, without those that failed or were disturbed: these run again."""
    try:
        before: dict[str, Any] = json.loads(path.read_text())
        spent, results = float(before["budget"]), dict(before["results"])
        good = {k: r for k, r in results.items() if "failure" not in r and r["others"] < common.CONTENDED}
        lines = list(before["lines"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} was not written by this benchmark; remove it, or give another --output"
        ) from error
    if spent != budget:
        raise DataError(
            f"{path} holds a run with --budget {spent:g}, not {budget:g}; give that budget or another --output"
        )
    return {"lines": lines, "budget": budget, "results": good}


def _about(budget: float) -> list[str]:
    """Return the paragraph that says what was run, on what machine, when."""
    return [
        f"streamgp {__version__}, Python {platform.python_version()}, {common.processor()}, {date.today()}. Batches "
        "of 100 after a first one of 500; RMSE and NLPD on standardised targets; coverage of normal 90 % intervals, "
        f"without calibration; a method stops after {budget:g} s; the first 500 rows are not timed. "
        "Growth: the power of n of a typical batch's cost, the first quarter aside. "
        "Ours against it: over the rows that it reached.",
    ]


if __name__ == "__main__":
    bench(prog_name="python -m experiments.peers")
