"""Run the paper's experiments: three tables, eight figures, Theorem III.1, and what its numbers are consistent with.

    python -m experiments.paper [--quick] [--only PART] [--jobs N] [--output FOLDER | --kept] [--data FOLDER]

Both protocols: the paper's, in which only the first batch has labels and the model learns its own predictions, and the
prequential one, in which labels arrive after prediction. Results are saved as they come, and an interrupted run
continues; the report is made of what there is. Times are taken at the end, one run after the other.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import click
import numpy
import scipy
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments import common
from streamgp.errors import StreamGPError

from .confirm import confirm
from .page import write_page
from .results import Results
from .sources import commit
from .store import Store
from .tasks import QUICK_ROWS, ROWS, Task, all_tasks, run_all

KEPT = [
    common.ROOT / "experiments" / "results" / "reproduction.json",
    common.ROOT / "docs" / "reproduction-figures.html",
    common.ROOT / "docs" / "reproduction.md",
]
GROUPS = {
    "tables": "errors of Tables I to III",
    "times": "times of Tables I to III, one run after the other",
    "studies": "ablation, Theorem III.1, step 13",
    "sweep": "settings that are consistent with Table I",
}


def part_of(task: Task) -> str:
    """Return the part of the run that a task belongs to."""
    if task.alone:
        return "times"
    if task.group.startswith("sweep"):
        return "sweep"
    return "studies" if task.group in ("ablation", "constant", "theorem", "step 13") else "tables"


@common.command(__doc__)
@click.option(
    "--output", default="reproduction", show_default=True, type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results.json, report.html and tables.md; an interrupted run continues there.",
)  # fmt: skip
@click.option(
    "--data", "folder", default=None, type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of abalone.data and of sarcos_inv.mat or sarcos_subset.npz.  [default: STREAMGP_DATA, else "
    "../shared/data, else fetched]",
)  # fmt: skip
@click.option(
    "--set", "sets", multiple=True, type=click.Choice(tuple(ROWS)), default=("abalone", "sarcos"),
    show_default=True, help="Data set; may be repeated. The simulated arm needs no file.",
)  # fmt: skip
@click.option(
    "--only", "parts", multiple=True, type=click.Choice(tuple(GROUPS)), default=tuple(GROUPS),
    show_default=True, help="; ".join(f"{name}: {what}" for name, what in GROUPS.items()) + ". May be repeated.",
)  # fmt: skip
@click.option(
    "--kept",
    is_flag=True,
    help="Go on with the kept results, experiments/results/reproduction.json, and write the report to docs/.",
)
@click.option("--quick", is_flag=True, help="The first 1,000 rows of each set only; compared with nothing.")
@click.option(
    "--page",
    "page_only",
    is_flag=True,
    help="Run nothing: write the report of the results there are (the data are needed all the same).",
)
@click.option(
    "--again",
    is_flag=True,
    help="Run again what of the chosen parts was made with code or arguments that have changed.",
)
@click.option(
    "--confirm", "confirmations", default=0, type=click.IntRange(0),
    help="Run nothing else: run so many stale results again, drawn at random, and say on the page how they compare.",
)  # fmt: skip
@click.option(
    "--jobs", default=os.cpu_count() or 1, show_default="the number of cores", type=click.IntRange(1),
    help="Processes for what is not timed, each with one BLAS thread; a job on Sarcos needs up to 3 GB.",
)  # fmt: skip
@click.option("--device", default=None, help="Where PyTorch solves for Table II, 'cuda' say; not for times.")
def reproduce(
    output: Path,
    folder: Path | None,
    sets: Sequence[str],
    parts: Sequence[str],
    kept: bool,
    quick: bool,
    page_only: bool,
    again: bool,
    confirmations: int,
    jobs: int,
    device: str | None,
) -> None:
    """Run what is not in the output folder yet, then write the report."""
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        about = _about(sets, folder, quick)
        tasks = [
            t for name in dict.fromkeys(sets) for t in all_tasks(name, quick=quick) if part_of(t) in parts
        ]
        paths = KEPT if kept else [output / name for name in ("results.json", "report.html", "tables.md")]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        store = Store(paths[0], about)
        store.begin(_made(device))
        known = {task.key for name in sets for task in all_tasks(name, quick=quick)}
        store.remove(key for key in store.content["tasks"] if key not in known)
        if page_only or confirmations:
            tasks = []
        elif again:
            stale, chosen = Results(store.content).stale_tasks(), {task.key for task in tasks}
            store.remove(task.key for task in stale if task.key in chosen)
        with Progress(*columns, console=console) as bars:
            counts = {part: sum(part_of(t) == part for t in tasks) for part in GROUPS if part in parts}
            rows = {part: bars.add_task(GROUPS[part], total=n) for part, n in counts.items()}

            def done(task: Task) -> None:
                bars.advance(rows[part_of(task)])

            try:
                if confirmations:
                    row = bars.add_task("stale results again", total=confirmations)
                    confirm(
                        store,
                        confirmations,
                        folder=str(folder or ""),
                        jobs=jobs,
                        done=lambda task: bars.advance(row),
                    )
                given = {"folder": str(folder or ""), "jobs": jobs, "done": done, "device": device}
                run_all(store, tasks, **given)
            finally:
                store.save()
        write_page(store.content, *paths[1:])
    except StreamGPError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename or output}: {error.strerror}") from error
    console.print("results: {}\nreport:  {}\ntables:  {}".format(*paths))


def _about(sets: Sequence[str], folder: Path | None, quick: bool) -> dict[str, object]:
    """Return what is run, on what data."""
    data = {name: common.load_whole(name, folder) for name in dict.fromkeys(sets)}
    return {
        "quick": quick,
        "rows": {name: min(ROWS[name], QUICK_ROWS) if quick else ROWS[name] for name in data},
        "sources": {name: dataset.source for name, dataset in data.items()},
        "data": {
            name: hashlib.sha256(dataset.X.tobytes() + dataset.y.tobytes()).hexdigest()[:16]
            for name, dataset in data.items()
        },
    }


def _made(device: str | None) -> dict[str, str]:
    """Return the commit, the versions and the machine of this run."""
    machine = f"{common.processor()}, {os.cpu_count()} cores"
    if device:
        import torch

        machine += f", {torch.cuda.get_device_name()} for Table II, PyTorch {torch.__version__}"
    versions = f"NumPy {numpy.__version__}, SciPy {scipy.__version__}, Python {platform.python_version()}"
    return {
        "commit": commit(),
        "date": str(datetime.date.today()),
        "versions": versions,
        "machine": machine,
    }


if __name__ == "__main__":
    reproduce(prog_name="python -m experiments.paper")
