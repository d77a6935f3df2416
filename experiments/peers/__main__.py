"""``python -m experiments.peers``: streamgp beside its peers on the same streams."""

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

from experiments.common import processor
from streamgp import __version__
from streamgp.errors import DataError, StreamGPError

from .outcome import HEAD, draw, markdown, rows_of
from .peers import PEERS
from .protocol import CONTENDED, SETS, run_apart, stream


@click.command()
@click.option(
    "--data", "folder", required=True, envvar="STREAMGP_DATA",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the streams and benchmark_hyperparameters.json; or STREAMGP_DATA.",
)  # fmt: skip
@click.option(
    "--set", "sets", multiple=True, type=click.Choice(tuple(SETS)), help="Only these; may be repeated."
)
@click.option(
    "--peer", "peers", multiple=True, type=click.Choice(tuple(PEERS)), help="Only these; may be repeated."
)
@click.option(
    "--budget", default=60.0, show_default=True, type=click.FloatRange(1, 1e6),
    help="Seconds after which a peer stops, and the table says where.",
)  # fmt: skip
@click.option(
    "--output", default="bench", show_default=True, type=click.Path(file_okay=False, path_type=Path),
    help="Folder for bench.json, bench.md and bench.png; a run that was interrupted goes on there.",
)  # fmt: skip
def bench(folder: Path, sets: Sequence[str], peers: Sequence[str], budget: float, output: Path) -> None:
    """Run streamgp beside the peers that people would pick instead, on the same streams.

    Rows are standardised with the first 500, hyperparameters are the same for all that take them, batches of 100
    are predicted and then learned. Each peer runs in a process of its own, and again where other processes
    were busy meanwhile. Needs the peers: pip install 'streamgp[bench]'.
    """
    console = Console()
    try:
        output.mkdir(parents=True, exist_ok=True)
        kept = output / "bench.json"
        content: dict[str, Any] = {"lines": _about(budget), "budget": budget, "results": {}}
        if kept.exists():
            content = _kept(kept, budget)
        for name in sets or tuple(SETS):
            stream(folder, name)  # is it there, before anything runs
        jobs = [(name, peer) for name in sets or tuple(SETS) for peer in peers or tuple(PEERS)]
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bars:
            task = bars.add_task("", total=len(jobs))
            for name, peer in jobs:
                key = f"{peer} | {name}"
                bars.update(task, description=key)
                if key not in content["results"]:
                    content["results"][key] = run_apart(folder, name, peer, budget)
                    fresh = kept.with_suffix(".tmp")
                    fresh.write_text(json.dumps(content, indent=1))
                    fresh.replace(kept)
                bars.advance(task)
        for name in sets or tuple(SETS):
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


def _kept(path: Path, budget: float) -> dict[str, Any]:
    """Read what an earlier run left; peers that failed, or ran beside other work, run again."""
    try:
        before: dict[str, Any] = json.loads(path.read_text())
        spent, results = float(before["budget"]), dict(before["results"])
        good = {k: r for k, r in results.items() if "failure" not in r and r["others"] < CONTENDED}
        lines = list(before["lines"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not what a bench left; remove it, or name another --output") from error
    if spent != budget:
        raise DataError(f"{path} is a run with --budget {spent:g}; go on with that, or name another --output")
    return {"lines": lines, "budget": budget, "results": good}


def _about(budget: float) -> list[str]:

    return [
        f"streamgp {__version__}, Python {platform.python_version()}, {processor()}, {date.today()}. Batches of 100 "
        f"after a first one of 500; RMSE and NLPD on standardised targets; coverage of normal 90 % intervals, without "
        f"calibration; a method stops after {budget:g} s; the first 500 rows are not timed. "
        "Growth: the power of n of a typical batch's cost, "
        "the first quarter aside. Ours against it: over the rows that it reached.",
    ]


if __name__ == "__main__":
    bench(prog_name="python -m experiments.peers")
