"""``streamgp run``: a stream from the shell."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Console

from ...checks import METHODS
from ...errors import DataError
from ...tuning.start import FAMILIES
from ..report import save_run_page
from ..session import Session
from .beginning import start
from .options import FILE, INPUT, Names, Rank, check, errors, joined, number, with_options
from .screen import Stop, live, summary


@click.command()
@click.argument("source", metavar="INPUT")
@click.option(
    "--target", "targets", type=Names(), multiple=True, callback=joined, required=False,
    help="The column to predict; several by repeating it or with commas.",
)  # fmt: skip
@click.option(
    "--features", type=Names(), multiple=True, callback=joined,
    help="The columns to predict from; by default all others.",
)  # fmt: skip
@click.option(
    "--ignore",
    type=Names(),
    multiple=True,
    callback=joined,
    help="Columns that are no features, such as a time stamp.",
)
@click.option(
    "--batch",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="Rows predicted and learned at once.",
)
@click.option("--method", default="pivoted", show_default=True, type=click.Choice(METHODS))
@click.option(
    "--rank", default=500, show_default=True, type=Rank(), help="Features that the model keeps, or auto."
)
@click.option(
    "--kernel", default="squared_exponential", show_default=True, type=click.Choice(tuple(FAMILIES)),
    help="Its length-scales start at the spread of the first rows and are tuned as the stream goes on.",
)  # fmt: skip
@click.option(
    "--forgetting", default=1.0, show_default=True, type=click.FloatRange(0, 1, min_open=True), callback=number,
    help="What the past is multiplied by at each batch; below 1 the model follows drift.",
)  # fmt: skip
@click.option(
    "--guard", type=click.FloatRange(0, min_open=True), callback=number,
    help="Leave rows out that lie more than this many deviations off, as a broken sensor sends them; try 10.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seeds every draw.")
@with_options(INPUT)
@click.option("--checkpoint", type=FILE, help="Keep the model and the place in the input in this file.")
@click.option(
    "--every", default=10_000, show_default=True, type=click.IntRange(1), help="Rows between two checkpoints."
)
@click.option(
    "--resume", is_flag=True,
    help="Go on from the checkpoint if there is one, with no row lost or learned twice. A pipe goes on where its "
    "writer stands.",
)  # fmt: skip
@click.option(
    "--replay",
    is_flag=True,
    help="With --resume: standard input starts from its beginning again; skip what was passed.",
)
@click.option("--save", "model_path", type=FILE, help="Write the model here at the end.")
@click.option(
    "--report", "report_path", type=FILE, help="Write a page with pictures of the run here (.html)."
)
@click.option("--quiet", is_flag=True, help="No live line and no summary.")
@click.pass_context
def run(ctx: click.Context, /, source: str, **options: Any) -> None:
    """Predict each row of INPUT with an interval, then learn it.

    INPUT is a CSV, JSON lines or Parquet file, or - for standard input. Each batch is predicted before it is
    learned, so the errors and the coverage that are shown are those of rows the model had not seen. A row without a
    label is predicted and not learned.

    \b
      streamgp run plant.csv --target yield --output predictions.csv
      tail -n +1 -f log.csv | streamgp run - --target y --batch 1 --output -
      streamgp run big.parquet --target y --checkpoint run.gp --resume

    Exit status: 0 when the input ended, 1 after an error, 2 for wrong options, 130 when interrupted (the batch is
    finished and the checkpoint written first).
    """  # noqa: D301
    console = Console(stderr=True, quiet=options["quiet"])
    check(options, source)
    stop = Stop()
    with errors(), stop.listening():
        try:
            session, reader, about = start(ctx, source, options, stop)
        except KeyboardInterrupt:
            console.print("interrupted before the first line came")
            sys.exit(130)
        failure: DataError | None = None
        with live(console, session, reader, about["targets"]) as show:
            try:
                for _ in session.run(
                    reader.batches(about["features"], about["targets"], about["batch"]), stop
                ):
                    show()
            except DataError as error:
                # What was learned before the row that is wrong is not lost.
                failure = error
                if session.save:
                    session.save(session, session.place)
        _finish(session, options, about)
        fitted = session.gp.__sklearn_is_fitted__()
        kept = {"checkpoint": options["checkpoint"], "model": options["model_path"]} if fitted else {}
        summary(console, session, {**about, "written": {**kept, "report": options["report_path"]}})
        if reader.left:
            console.print("the last line does not end yet: it is left for the next run with --resume")
        if not fitted and (options["checkpoint"] or options["model_path"]):
            console.print("nothing was learned: no model is written")
        if stop.caught:
            again = ""
            if options["checkpoint"] and fitted:
                again = f"; the same command with --resume goes on after line {session.place.line}"
            console.print(f"interrupted{again}")
        failure = failure or session.useless
        if failure:
            raise failure
    if stop.caught:
        sys.exit(130)


def _finish(session: Session, options: dict[str, Any], about: dict[str, Any]) -> None:
    """Close what was written, save the model, write the page."""
    if session.writer:
        session.writer.close()
    session.quarantine.flush()
    fitted = session.gp.__sklearn_is_fitted__()
    if options["model_path"] and fitted:
        session.gp.save(options["model_path"], features=about["features"], targets=about["targets"])
    if options["report_path"]:
        save_run_page(options["report_path"], session, about)
