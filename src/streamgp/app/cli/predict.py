"""``streamgp predict``: predict a table with a saved model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ...loading import load_with_more
from ..brokers import is_address
from ..outputs import open_writer
from ..sensors import Sensors
from ..session import Session
from ..tables import open_table
from ..tally import Tally
from .alarming import ALARM_OPTIONS, Notifier, alarm_status, alarms_of
from .display import live_line, print_summary
from .models import READING, roles_of_model, with_saved
from .options import (
    FILE,
    INPUT_OPTIONS,
    add_options,
    check_options,
    errors_as_messages,
    open_quarantine,
    read_options,
)
from .signals import INTERRUPTED, Stop


@click.command()
@click.argument("model", type=FILE)
@click.argument("source", metavar="DATA")
@click.option(
    "--batch", default=2000, show_default=True, type=click.IntRange(1), help="Rows predicted at once."
)
@add_options(INPUT_OPTIONS)
@add_options(ALARM_OPTIONS)
@click.option("--quiet", is_flag=True, help="Show neither the live line nor the summary.")
@click.pass_context
def predict(ctx: click.Context, /, model: Path, source: str, **options: Any) -> None:
    """Predict each row of DATA with a MODEL that `run` or `save` wrote; nothing is learned.

    DATA is read with the --missing, --decimal, --encoding and --delimiter of the run, unless others are given.

    DATA is a CSV, JSON lines or Parquet file, or - for standard input, with the columns that the model learned from, in
    any order. Without --output, predictions go to standard output. If DATA has the targets too, the predictions are
    scored. A model with --lags takes the rows to follow those that it has learned.
    """
    console = Console(stderr=True, quiet=options["quiet"])
    options["output"] = options["output"] or "-"
    if is_address(source) or is_address(options["output"]):
        raise click.UsageError(
            "predict reads and writes files; `streamgp run` with --start-from MODEL answers the messages of a broker, "
            "and learns those that have a label"
        )
    check_options(options, source, model)
    stop = Stop()
    with errors_as_messages(), stop.listening():
        gp, more = load_with_more(model)
        options = with_saved(ctx, options, more, READING)
        try:
            reader = open_table(source, read_options(options, should_stop=stop))
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        roles, columns = roles_of_model(gp, more, reader, source, options)
        targets = roles.targets
        gp.drop_feature_names()  # rows are arrays in the order of `features`
        present = targets if set(targets) <= set(reader.columns) else ()
        learned_from = roles.numbers if columns is None else columns.state_.features
        session = Session(
            gp, targets, options["level"], options["on_error"],
            writer=open_writer(options["output"], targets, roles.kept), quarantine=open_quarantine(options),
            tally=Tally(len(targets)), sensors=Sensors.none([*roles.inputs, *present]),
            columns=columns, alarms=alarms_of(options, targets, learned_from),
        )  # fmt: skip
        batches = reader.batches(roles.numbers, targets, options["batch"], (*roles.texts, *roles.kept))
        with Notifier.of(options, console).raising(session), live_line(console, session, reader) as update:
            for _ in session.run(batches, stop, learn=False):
                update()
        session.close()
        if session.tally.scored.any() or session.tally.bad:
            print_summary(console, session, source)
        if session.useless:
            raise session.useless
    if stop.requested:
        sys.exit(INTERRUPTED)
    sys.exit(alarm_status(session, options))
