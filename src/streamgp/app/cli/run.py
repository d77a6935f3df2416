"""``streamgp run``: predict and learn a stream."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

import click
from rich.console import Console

from ...errors import DataError, ParameterError
from ..run_page import save_run_page
from ..session import Session
from ..tables import Reader
from .alarming import ALARM_OPTIONS, Notifier, alarm_status
from .alone import alone
from .display import live_line, print_summary
from .options import (
    COLUMN_OPTIONS,
    FILE,
    INPUT_OPTIONS,
    MODEL_OPTIONS,
    Names,
    add_options,
    check_options,
    errors_as_messages,
    join_names,
    refuse_nan,
)
from .resume import Plan, kept_in_model, start_or_resume
from .signals import INTERRUPTED, Stop

BATCH = 100


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
@add_options(COLUMN_OPTIONS)
@click.option(
    "--batch", type=click.IntRange(1),
    help=f"Rows predicted and learned at once; by default {BATCH}, or the shortest of the --lags if that is less.",
)  # fmt: skip
@click.option(
    "--id",
    metavar="COLUMN",
    help="Column that identifies a row. A later line with the same id brings its label: the row is predicted when it "
    "comes, and learned when its label comes. A message of a broker that comes again is left out.",
)
@click.option(
    "--max-ids", default=10_000, show_default=True, type=click.IntRange(1),
    help="Rows of a file or pipe that are kept for their labels; the oldest makes place.",
)  # fmt: skip
@click.option(
    "--delay", default=0, show_default=True, type=click.IntRange(0),
    help="Lines between a row and its label: a row is learned when so many have come after it.",
)  # fmt: skip
@click.option(
    "--weight", metavar="COLUMN",
    help="Column with the weight of each row: a row of weight 4 counts as four. It is no feature.",
)  # fmt: skip
@add_options(MODEL_OPTIONS)
@add_options(INPUT_OPTIONS)
@add_options(ALARM_OPTIONS)
@click.option(
    "--max-wait", type=click.FloatRange(1), callback=refuse_nan, metavar="MS",
    help="Milliseconds in which a row on a pipe is predicted, however few there are for a batch (by default 1000), "
    "or that a message of a broker waits for others (by default it does not).",
)  # fmt: skip
@click.option(
    "--start-from", type=FILE,
    help="Model that goes on learning: a --save or --checkpoint of another run, or one saved in Python. It brings its "
    "columns and its options with it.",
)  # fmt: skip
@click.option("--checkpoint", type=FILE, help="File for the model and the position in the input.")
@click.option(
    "--every", default=10_000, show_default=True, type=click.IntRange(1), help="Rows between two checkpoints."
)
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(0.1), callback=refuse_nan,
    help="Seconds after which a checkpoint is written in any case, if there are new rows.",
)  # fmt: skip
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
@click.option(
    "--live",
    is_flag=True,
    help="Show the run in a browser, at http://127.0.0.1:PORT; at the end of the input the page stays until Ctrl-C.",
)
@click.option(
    "--live-port",
    default=8000,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="PORT of --live; 0 for any.",
)
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
      streamgp run tuesday.csv --start-from plant.gp --save plant.gp

    Exit status: 0 at the end of the input, 1 after an error, 2 for wrong options, 130 when interrupted (the batch is
    finished and the checkpoint written first); with --alarm-exit, its status if an alarm was raised and none of these.
    """  # noqa: D301
    console = Console(stderr=True, quiet=options["quiet"])
    # That a broker is away is said even if nothing else is to be shown.
    say = partial(_say, Console(stderr=True) if options["quiet"] else console)
    stop = Stop()
    # Where a row is given the label of one so many lines before, that label can have been learned, too.
    options["batch"] = options["batch"] or min((BATCH, *options["lags"]))
    with errors_as_messages(), stop.listening(), ExitStack() as held:
        check_options(options, source)
        held.enter_context(alone(options["checkpoint"], options["model_path"]))
        try:
            session, reader, plan = start_or_resume(ctx, source, options, stop, say)
        except KeyboardInterrupt:
            console.print("interrupted before the first line came")
            sys.exit(INTERRUPTED)
        with closing(reader), _page(console, session, plan.source, options) as stay:
            with Notifier.of(options, console).raising(session):
                failure = _run_to_end(console, session, reader, plan, stop)
            interrupted = stop.requested
            _write_results(session, options, plan)
            _print_end(console, session, reader, plan.source, options)
            if failure is None:
                stay(stop)
        if interrupted:
            resumable = options["checkpoint"] and session.fitted
            hint = f"; the same command with --resume continues after line {session.position.line}"
            console.print(f"interrupted{hint if resumable else ''}")
        failure = failure or session.useless
        if failure:
            raise failure
    if interrupted:
        sys.exit(INTERRUPTED)
    sys.exit(alarm_status(session, options))


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _page(
    console: Console, session: Session, source: str, options: dict[str, Any]
) -> Iterator[Callable[[Stop], None]]:
    """Show the run in a browser if that is asked for; yield what lets the page stay until the stop."""
    if not options["live"]:
        yield lambda stop: None
        return
    try:
        from ..serve.live import shown
    except ImportError as error:
        raise ParameterError(f"--live needs {error.name}: pip install 'streamgp[serve]'") from error

    def stay(stop: Stop) -> None:
        if not stop.requested:
            _say(console, f"the input has ended; {address} stays until Ctrl-C")
        while not stop.requested:
            time.sleep(0.1)

    with shown(session, source, options["live_port"]) as address:
        _say(console, f"see {address}")
        yield stay


def _run_to_end(
    console: Console, session: Session, reader: Reader, plan: Plan, stop: Stop
) -> DataError | None:
    """Process the input; return the error that ended it before its end, None without one."""
    batches = reader.batches(
        plan.roles.numbers, plan.roles.labels, plan.options["batch"], plan.roles.all_texts
    )
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
        session.gp.save(options["model_path"], **kept_in_model(session, plan))
    if options["report_path"]:
        save_run_page(options["report_path"], session, plan.source)


def _print_end(
    console: Console, session: Session, reader: Reader, source: str, options: dict[str, Any]
) -> None:
    fitted = session.fitted
    models = {"checkpoint": options["checkpoint"], "model": options["model_path"]}
    written = {**(models if fitted else {}), "report": options["report_path"]}
    print_summary(console, session, source, written)
    for remark in reader.remarks:
        _say(console, remark)
    if not fitted and any(models.values()):
        console.print("nothing was learned: no model is written")
