"""``streamgp demo``: compare the methods on a simulated robot arm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...datasets import load_arm
from ...errors import StreamGPError
from ...evaluation import Record, prequential, state_bytes
from ...parameters import METHODS, used_by
from ...regressor import StreamingGPRegressor
from ..report import save_progress_figure, summary_table
from .options import FILE

_DESCRIPTIONS = {
    "pivoted": "the default: inducing points chosen from the stream, at a cost that does not grow",
    "nrmf": "the exact Gaussian process: keeps every row, O(n²) per batch",
    "brmf": "the paper's batch factorisation, from scratch at each batch",
    "srmf": "the paper's sequential factorisation",
    "rgp": "Huber's recursive GP: fixed inducing points",
}


@click.command()
@click.option(
    "--rows", default=5000, show_default=True, type=click.IntRange(200), help="Rows of the arm to stream."
)
@click.option("--batch", default=100, show_default=True, type=click.IntRange(1), help="Rows per batch.")
@click.option(
    "--rank", default=300, show_default=True, type=click.IntRange(1), help="Number of features of a method."
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0),
    help="Seed of the trajectory and of all random choices.",
)  # fmt: skip
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(METHODS),
    help="Method to run; repeat the option for several, by default all.",
)  # fmt: skip
@click.option(
    "--output", default="streamgp-demo.png", show_default=True, type=FILE, help="File for the figure."
)
def demo(rows: int, batch: int, rank: int, seed: int, methods: Sequence[str], output: Path) -> None:
    """Learn the torques of a simulated seven-joint arm while it moves.

    Each batch is predicted, scored and only then learned. A table and a figure compare the error, calibration, time
    and memory of the methods.
    """
    if rows < 2 * batch:
        raise click.BadParameter(f"{rows} rows are fewer than two batches of {batch}", param_hint="--rows")
    _check_output(output)
    console = Console()
    arm = load_arm(rows, seed=seed)
    # Standardised, so that each joint counts the same and every error is a share of its joint's spread.
    targets = (arm.y - arm.y.mean(axis=0)) / arm.y.std(axis=0)
    methods = methods or METHODS
    runs: dict[str, list[Record]] = {method: [] for method in methods}
    memory: dict[str, int] = {}
    columns = (TextColumn("{task.description:>6}"), BarColumn(), MofNCompleteColumn(), TextColumn("batches"))
    try:
        with Progress(
            *columns, TextColumn("{task.fields[error]}"), TimeElapsedColumn(), console=console
        ) as bars:
            tasks = {m: bars.add_task(m, total=-(-rows // batch), error="", start=False) for m in methods}
            for method, task in tasks.items():
                gp = StreamingGPRegressor(**used_by(method, rank=rank), random_state=seed)
                bars.start_task(task)
                for record in prequential(gp, arm.X, targets, batch_size=batch):
                    runs[method].append(record)
                    error = "" if record.rmse is None else f"RMSE {record.rmse:.3f}"
                    bars.update(task, advance=1, error=error)
                memory[method] = state_bytes(gp)
        console.print(summary_table(f"Seven torques of {arm.source}; rank {rank}", runs, memory))
        for method in methods:
            console.print(f"{method:>8}  {_DESCRIPTIONS[method]}", highlight=False)
        save_progress_figure(output, f"{arm.source}, seven torques, rank {rank}", runs)
    except StreamGPError as error:
        raise click.ClickException(str(error)) from error
    console.print(f"figure: {output}")


def _check_output(output: Path) -> None:
    """Raise BadParameter if the figure could not be written at the end."""
    if output.suffix not in (".png", ".pdf", ".svg"):
        raise click.BadParameter(f"{output} must end in .png, .pdf or .svg", param_hint="--output")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch()
    except OSError as error:
        raise click.BadParameter(f"cannot write {output}: {error.strerror}", param_hint="--output") from error
