"""``streamgp run``: predict and learn a stream."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Console

from ...errors import DataError
from ...kernels import FAMILIES
from ...parameters import METHODS
from ..report import save_run_page
from ..session import Session
from ..tables import Reader
from .display import live_line, print_summary
from .options import (
    FILE,
    INPUT_OPTIONS,
    Guard,
    Names,
    Rank,
    Share,
    add_options,
    check_options,
    errors_as_messages,
    join_names,
    refuse_nan,
)
from .resume import Plan, start_or_resume
from .signals import INTERRUPTED, Stop


@click.command()
@click.argument("source", metavar="INPUT")
@click.option(
    "--target", "targets", type=Names(), multiple=True, callback=join_names,
    help="Column to predict; for several, repeat the option or separate names by commas.",
)  # fmt: skip
@click.option(
    "--features", type=Names(), multiple=True, callback=join_names,
    help="Columns to predict from; by default all others.",
)  # fmt: skip
@click.option(
    "--ignore", type=Names(), multiple=True, callback=join_names,
    help="Columns to leave out, such as a time stamp.",
)  # fmt: skip
@click.option(
    "--batch", default=100, show_default=True, type=click.IntRange(1),
    help="Rows predicted and learned at once.",
)  # fmt: skip
@click.option(
    "--delay", default=0, show_default=True, type=click.IntRange(0),
    help="Lines between a row and its label: a row is learned when so many have come after it.",
)  # fmt: skip
@click.option(
    "--method", default="pivoted", show_default=True, type=click.Choice(METHODS),
    help="Method of the Gaussian process.",
)  # fmt: skip
@click.option(
    "--rank", default=500, show_default=True, type=Rank(),
    help="Number of features (for pivoted: inducing points) of the model, or auto.",
)  # fmt: skip
@click.option(
    "--kernel", default="auto", show_default=True, type=click.Choice(("auto", *FAMILIES)),
    help="Kernel family; auto chooses it on the stream. Its hyperparameters are tuned as the stream grows.",
)  # fmt: skip
@click.option(
    "--forgetting", default="auto", show_default=True, type=Share(),
    help="Factor on the weight of the past at each batch, above 0 and at most 1; auto forgets what the last rows "
    "contradict.",
)  # fmt: skip
@click.option(
    "--memory-rows", type=click.FloatRange(1), callback=refuse_nan,
    help="Rows after which the weight of a row is 1/e, instead of --forgetting and whatever --batch.",
)  # fmt: skip
@click.option(
    "--guard", default="auto", show_default=True, type=Guard(),
    help="Rows not to learn: auto, those that errors so far do not explain, unless many follow; a number, those so "
    "many standard deviations off; none, no row.",
)  # fmt: skip
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of all random choices."
)
@add_options(INPUT_OPTIONS)
@click.option("--checkpoint", type=FILE, help="File for the model and the position in the input.")
@click.option(
    "--every", default=10_000, show_default=True, type=click.IntRange(1), help="Rows between two checkpoints."
)
@click.option(
    "--resume", is_flag=True,
    help="Continue from the checkpoint if there is one; no row is lost or learned twice. A pipe continues with what "
    "its writer sends next.",
)  # fmt: skip
@click.option(
    "--replay", is_flag=True,
    help="With --resume: standard input starts from its beginning; skip the rows read before.",
)  # fmt: skip
@click.option("--save", "model_path", type=FILE, help="File for the final model.")
@click.option("--report", "report_path", type=FILE, help="File (.html) for a page with figures of the run.")
@click.option("--quiet", is_flag=True, help="Show neither the live line nor the summary.")
@click.pass_context
def run(ctx: click.Context, /, source: str, **options: Any) -> None:
    """Predict each row of INPUT with an interval, then learn it.

    INPUT is a CSV, JSON lines or Parquet file, or - for standard input. Each batch is predicted before it is
    learned, so the errors and the coverage shown are those of rows that the model had not seen. A row without a
    label is predicted and not learned; when it comes again with its label, intervals are calibrated on the first
    prediction.

    \b
      streamgp run plant.csv --target yield --output predictions.csv
      tail -n +1 -f log.csv | streamgp run - --target y --batch 1 --output -
      streamgp run big.parquet --target y --checkpoint run.gp --resume

    Exit status: 0 at the end of the input, 1 after an error, 2 for wrong options, 130 when interrupted (the batch is
    finished and the checkpoint written first).
    """  # noqa: D301
    console = Console(stderr=True, quiet=options["quiet"])
    check_options(options, source)
    stop = Stop()
    with errors_as_messages(), stop.listening():
        try:
            session, reader, plan = start_or_resume(ctx, source, options, stop)
        except KeyboardInterrupt:
            console.print("interrupted before the first line came")
            sys.exit(INTERRUPTED)
        failure = _run_to_end(console, session, reader, plan, stop)
        _write_results(session, options, plan)
        _print_end(console, session, reader, source, options)
        if stop.requested:
            resumable = options["checkpoint"] and session.fitted
            hint = f"; the same command with --resume continues after line {session.position.line}"
            console.print(f"interrupted{hint if resumable else ''}")
        failure = failure or session.useless
        if failure:
            raise failure
    if stop.requested:
        sys.exit(INTERRUPTED)


def _run_to_end(
    console: Console, session: Session, reader: Reader, plan: Plan, stop: Stop
) -> DataError | None:
    """Process the input; return the error that ended it before its end, None without one."""
    batches = reader.batches(plan.features, session.targets, plan.options["batch"])
    with live_line(console, session, reader) as update:
        try:
            for _ in session.run(batches, stop):
                update()
        except DataError as error:
            # The batches before the bad row are learned: save them.
            if session.save:
                session.save(session)
            return error
    return None


def _write_results(session: Session, options: dict[str, Any], plan: Plan) -> None:
    """Close the outputs, save the model, write the page."""
    session.close()
    if options["model_path"] and session.fitted:
        session.gp.save(options["model_path"], features=plan.features, targets=session.targets)
    if options["report_path"]:
        save_run_page(options["report_path"], session, plan.source)


def _print_end(
    console: Console, session: Session, reader: Reader, source: str, options: dict[str, Any]
) -> None:
    fitted = session.fitted
    models = {"checkpoint": options["checkpoint"], "model": options["model_path"]}
    written = {**(models if fitted else {}), "report": options["report_path"]}
    print_summary(console, session, source, written)
    if reader.incomplete_line:
        console.print("the last line has no line end yet: it is left for the next run with --resume")
    if not fitted and any(models.values()):
        console.print("nothing was learned: no model is written")
