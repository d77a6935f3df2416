"""``streamgp demo``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...checks import METHODS
from ...datasets import load_arm
from ...errors import StreamGPError
from ...evaluation import Record, prequential, state_bytes
from ...regressor import StreamingGPRegressor
from ..report import save_progress_figure, summary_table

_WHAT = {
    "pivoted": "the default: pivots taken from the stream, a cost that does not grow",
    "nrmf": "the exact Gaussian process: keeps every row, O(n²) a batch",
    "brmf": "the paper's batch factorisation, from scratch at each batch",
    "srmf": "the paper's sequential factorisation",
    "rgp": "Huber's recursive GP: a basis that never changes",
}


@click.command()
@click.option(
    "--rows", default=5000, show_default=True, type=click.IntRange(200), help="Rows of the arm to stream."
)
@click.option("--batch", default=100, show_default=True, type=click.IntRange(1), help="Rows a batch.")
@click.option(
    "--rank", default=300, show_default=True, type=click.IntRange(1), help="Features kept by a method."
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Chooses trajectory and draws."
)
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(METHODS), help="Only these; may be repeated."
)
@click.option(
    "--output",
    default="streamgp-demo.png",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the picture goes.",
)
def demo(rows: int, batch: int, rank: int, seed: int, methods: Sequence[str], output: Path) -> None:
    """Learn the torques of a simulated seven-joint arm while it moves.

    Each batch is predicted, scored and only then learned. The methods run side by side; a table and a
    picture compare their error, calibration, time and memory.
    """
    if rows < 2 * batch:
        raise click.BadParameter(f"{rows} rows are less than two batches of {batch}", param_hint="--rows")
    if output.suffix not in (".png", ".pdf", ".svg"):
        raise click.BadParameter(f"{output} must end in .png, .pdf or .svg", param_hint="--output")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch()
    except OSError as error:
        raise click.BadParameter(f"cannot write {output}: {error.strerror}", param_hint="--output") from error
    console = Console()
    arm = load_arm(rows, seed=seed)
    # Each joint counts the same, and every error is a share of that joint's spread.
    targets = (arm.y - arm.y.mean(axis=0)) / arm.y.std(axis=0)
    methods = methods or METHODS
    runs: dict[str, list[Record]] = {}
    memory: dict[str, int] = {}
    columns = (TextColumn("{task.description:>6}"), BarColumn(), MofNCompleteColumn(), TextColumn("batches"))
    try:
        with Progress(
            *columns, TextColumn("{task.fields[error]}"), TimeElapsedColumn(), console=console
        ) as bars:
            tasks = {m: bars.add_task(m, total=-(-rows // batch), error="", start=False) for m in methods}
            for method in methods:
                gp = StreamingGPRegressor(method=method, rank=rank, random_state=seed)  # type: ignore[arg-type]
                runs[method] = []
                bars.start_task(tasks[method])
                for record in prequential(gp, arm.X, targets, batch_size=batch):
                    runs[method].append(record)
                    shown = "" if record.rmse is None else f"error {record.rmse:.3f}"
                    bars.update(tasks[method], advance=1, error=shown)
                memory[method] = state_bytes(gp)
        console.print(summary_table(f"Seven torques of {arm.source}; rank {rank}", runs, memory))
        for method in methods:
            console.print(f"{method:>8}  {_WHAT[method]}", highlight=False)
        save_progress_figure(output, f"{arm.source}, seven torques, rank {rank}", runs)
    except StreamGPError as error:
        raise click.ClickException(str(error)) from error
    console.print(f"picture: {output}")
