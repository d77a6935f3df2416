"""``streamgp predict``: predict a table with a saved model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ...errors import DataError
from ...regressor import StreamingGPRegressor, load_with_more
from ..outputs import open_writer
from ..session import Session
from ..tables import Reader, open_table
from ..tally import Tally
from .display import first_names, live_line, print_summary
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
@click.option("--quiet", is_flag=True, help="Show neither the live line nor the summary.")
def predict(model: Path, source: str, **options: Any) -> None:
    """Predict each row of DATA with a MODEL that `run` or `save` wrote; nothing is learned.

    DATA is a CSV, JSON lines or Parquet file, or - for standard input, with the columns that the model learned from, in
    any order. Without --output, predictions go to standard output. If DATA has the targets too, the predictions are
    scored.
    """
    console = Console(stderr=True, quiet=options["quiet"])
    options["output"] = options["output"] or "-"
    check_options(options, source, model)
    stop = Stop()
    with errors_as_messages(), stop.listening():
        gp, more = load_with_more(model)
        try:
            reader = open_table(source, read_options(options, should_stop=stop))
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        targets = target_names(gp, more)
        features = _features(gp, more, reader, source)
        gp.drop_feature_names()  # rows are arrays in the order of `features`
        session = Session(
            gp, targets, options["level"], options["on_error"],
            writer=open_writer(options["output"], targets), quarantine=open_quarantine(options),
            tally=Tally(len(targets)),
        )  # fmt: skip
        with live_line(console, session, reader) as update:
            for _ in session.run(reader.batches(features, targets, options["batch"]), stop, learn=False):
                update()
        session.close()
        if session.tally.scored.any() or session.tally.bad:
            print_summary(console, session, source)
        if session.useless:
            raise session.useless
    if stop.requested:
        sys.exit(INTERRUPTED)


def feature_names(gp: StreamingGPRegressor, more: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the features of a loaded model; empty if it learned from arrays."""
    names = more.get("features") or getattr(gp, "feature_names_in_", None)
    return () if names is None else tuple(str(name) for name in names)


def target_names(gp: StreamingGPRegressor, more: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the targets of a loaded model."""
    return tuple(str(name) for name in more.get("targets") or gp.target_names_)


def _features(gp: StreamingGPRegressor, more: dict[str, Any], reader: Reader, source: str) -> tuple[str, ...]:
    """Return the columns to predict from; raise DataError if the input lacks one."""
    features = feature_names(gp, more)
    if not features:
        targets = target_names(gp, more)
        features = tuple(name for name in reader.columns if name not in targets)
        if len(features) != gp.n_features_in_:
            raise DataError(
                f"{source} has {len(features)} columns besides the targets; the model learned from "
                f"{gp.n_features_in_} without names"
            )
    missing = [name for name in features if name not in reader.columns]
    if missing:
        raise DataError(
            f"{source} lacks the column {missing[0]!r}; the model learned from {first_names(features)}"
        )
    return features
