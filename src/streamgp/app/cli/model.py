"""``streamgp predict`` and ``streamgp info``: a model that was kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...errors import DataError
from ...regressor import StreamingGPRegressor, load_with_more
from ..outputs import open_writer
from ..report import short
from ..session import Quarantine, Session, Tally
from ..tables import open_table
from .options import INPUT, check, errors, with_options
from .screen import Stop, few, live, summary


@click.command()
@click.argument("model", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("source", metavar="DATA")
@click.option(
    "--batch", default=2000, show_default=True, type=click.IntRange(1), help="Rows predicted at once."
)
@with_options(INPUT)
@click.option("--quiet", is_flag=True, help="No live line and no summary.")
def predict(model: Path, source: str, **options: Any) -> None:
    """Predict each row of DATA with a MODEL that `run` or `save` wrote; nothing is learned.

    DATA is a CSV, JSON lines or Parquet file, or - for standard input, with the columns that the model learned, in any
    order. Without --output, predictions go to standard output. Where the targets stand there, too, the errors
    are summed up.
    """
    console = Console(stderr=True, quiet=options["quiet"])
    options["output"] = options["output"] or "-"
    check(options, source, model)
    stop = Stop()
    with errors(), stop.listening():
        gp, more = load_with_more(model)
        try:
            reader = open_table(
                source, format=options["format_"], delimiter=options["delimiter"], header=not options["no_header"],
                columns=options["columns"], stopped=stop,
            )  # fmt: skip
        except KeyboardInterrupt:
            sys.exit(130)
        features = _learned_from(gp, more)
        # Rows come as arrays in the order of these names.
        gp.__dict__.pop("feature_names_in_", None)
        targets = tuple(more.get("targets") or gp.target_names_)
        if not features:
            features = tuple(name for name in reader.columns if name not in targets)
            if len(features) != gp.n_features_in_:
                raise DataError(
                    f"{source} has {len(features)} columns, the model learned {gp.n_features_in_} without names"
                )
        missing = [str(name) for name in features if name not in reader.columns]
        if missing:
            raise DataError(
                f"{source} lacks the column {missing[0]!r}; the model learned from {few(features)}"
            )
        session = Session(
            gp, targets, options["level"], options["on_error"], open_writer(options["output"], targets),
            Quarantine(None if options["quarantine"] is None else str(options["quarantine"])), Tally(len(targets)),
        )  # fmt: skip
        with live(console, session, reader, targets) as show:
            for _ in session.run(reader.batches(features, targets, options["batch"]), stop, learn=False):
                show()
        if session.writer:
            session.writer.close()
        session.quarantine.flush()
        if session.tally.scored.any() or session.tally.bad:
            summary(console, session, {"source": source, "targets": targets})
        if session.useless:
            raise session.useless
    if stop.caught:
        sys.exit(130)


@click.command()
@click.argument("model", type=click.Path(dir_okay=False, path_type=Path))
def info(model: Path) -> None:
    """Say what a MODEL that `run` or `save` wrote holds."""
    console = Console()
    with errors():
        gp, more = load_with_more(model)
    lines = {
        "file": f"{model}, {model.stat().st_size:,} bytes",
        "method": f"{gp.method}, rank {gp.rank_}" + ("" if gp.rank == "auto" else f" of at most {gp.rank}"),
        "rows learned": f"{gp.n_samples_seen_:,}" + (f", {gp.n_refused_:,} refused" if gp.n_refused_ else ""),
        "kernel": short(gp.kernel_),
        "noise": f"variance {gp.noise_:.4g}, of standardised targets",
        "tr K left": f"{gp.trace_error_share_:.2%}",
        "features": few(_learned_from(gp, more)) or f"{gp.n_features_in_} without names",
        "targets": few([str(n) for n in more.get("targets") or gp.target_names_]),
        "tuned": f"tune={gp.tune!r}, {gp.tuning_seconds_:.1f} s in all",
        "90 % interval": f"{_reaches(gp)} standard deviations (a normal one: 1.64)",
    }
    run = more.get("run")
    if run:
        lines["run over"] = f"{run['source']}, up to line {run['place'][1]:,}"
    table = Table(show_header=False, box=None)
    for name, value in lines.items():
        table.add_row(name, escape(value))
    console.print(table)


def _learned_from(gp: StreamingGPRegressor, more: dict[str, Any]) -> tuple[str, ...]:
    """Give the names of the features, where the model knows them."""
    names = more.get("features") or getattr(gp, "feature_names_in_", None)
    return () if names is None else tuple(str(name) for name in names)


def _reaches(gp: StreamingGPRegressor) -> str:
    reach = gp._reach(0.9, True)
    values = [float(reach)] if isinstance(reach, float) else [float(v) for v in reach]
    return ", ".join(f"{v:.2f}" for v in values)
