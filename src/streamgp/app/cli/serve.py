"""``streamgp serve``: predict and learn over HTTP."""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from ... import checkpoint
from ...columns import StreamColumns
from ...errors import ParameterError
from ...loading import load_with_more
from ...regressor import StreamingGPRegressor
from ..roles import transformer_of
from ..tables.cells import Cells
from .alone import alone
from .models import feature_names, target_names
from .options import (
    COLUMN_OPTIONS,
    FILE,
    LEVEL_OPTION,
    MODEL_OPTIONS,
    Names,
    add_options,
    errors_as_messages,
    join_names,
)
from .resume import new_regressor
from .signals import Stop

if TYPE_CHECKING:
    from ..serve.rows import Columns
    from ..serve.service import Service

# Options that let raw rows be turned into numbers.
_OF_COLUMNS = ("time", "categorical", "lags", "lags_of", "time_as", "time_format", "time_zone")


@click.command()
@click.argument("model", type=FILE)
@click.option("--new", is_flag=True, help="Begin with an empty model if there is none in MODEL yet.")
@click.option(
    "--target", "targets", type=Names(), multiple=True, callback=join_names,
    help="Column to predict, of a new model; for several, repeat the option or separate names by commas.",
)  # fmt: skip
@click.option(
    "--features", type=Names(), multiple=True, callback=join_names,
    help="Columns to predict from, of a new model; by default all others of the first row that is learned.",
)  # fmt: skip
@add_options(COLUMN_OPTIONS)
@add_options(MODEL_OPTIONS)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 for a free one."
)
@click.option(
    "--token", envvar="STREAMGP_TOKEN", show_envvar=True,
    help="What requests must hold as Authorization: Bearer TOKEN; needed unless the host is this machine.",
)  # fmt: skip
@click.option(
    "--durable",
    is_flag=True,
    help="Write rows to a log, and sync it, before they are answered: none is lost when the server is killed.",
)
@click.option(
    "--every", default=10_000, show_default=True, type=click.IntRange(1), help="Rows between two checkpoints."
)
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(0.1),
    help="Seconds between two checkpoints, if anything is new.",
)  # fmt: skip
@click.option(
    "--max-wait", default=5.0, show_default=True, type=click.FloatRange(0, 1000),
    help="Milliseconds that rows wait for others to be learned with them.",
)  # fmt: skip
@click.option(
    "--max-body", default=1 << 20, show_default=True, type=click.IntRange(1000), help="Bytes in a request."
)
@click.option(
    "--max-rows", default=1000, show_default=True, type=click.IntRange(1), help="Rows in a request."
)
@click.option(
    "--max-ids", default=20_000, show_default=True, type=click.IntRange(1),
    help="Rows whose answer is kept for their label, and ids that are remembered as learned.",
)  # fmt: skip
@add_options([LEVEL_OPTION])
@click.option(
    "--alarm", multiple=True, metavar="RULE", default=("coverage", "rmse", "bias", "drift"), show_default=True,
    help="Raise an alarm, on the page and in the metrics, as run does; repeat the option for several.",
)  # fmt: skip
def serve(model: Path, **options: Any) -> None:
    """Serve MODEL over HTTP: predict rows, learn rows when their targets are known.

    MODEL is a file that `run`, `save` or `serve` wrote; what is learned is saved in it. A page at / shows the stream.

    \b
      streamgp serve plant.gp
      streamgp serve plant.gp --new --target yield --durable
      curl localhost:8000/predict -H 'Content-Type: application/json' -d '{"row": {"heat": 1, "load": 2}}'

    Exit status: 0 when stopped by Ctrl-C or SIGTERM (requests are answered and a checkpoint is written first), 1 after
    an error, 2 for wrong options.
    """  # noqa: D301
    with errors_as_messages():
        try:
            from ..serve import web  # noqa: F401
        except ImportError as error:
            raise ParameterError(f"serve needs {error.name}: pip install 'streamgp[serve]'") from error
        _check(model, options)
        with alone(model):
            _serve(model, options)


def _check(model: Path, options: dict[str, Any]) -> None:
    """Raise for options that do not fit together, before anything is opened."""
    from ..serve.server import is_loopback

    folder = model.absolute().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ParameterError(f"MODEL {model} cannot be written: there is no folder {folder} to write in")
    if options["token"] is None and not is_loopback(options["host"]):
        raise ParameterError(
            f"--host {options['host']} lets other machines learn and predict; set a --token, or leave the host out"
        )
    if options["token"] is not None and not (options["token"].isascii() and len(options["token"]) >= 8):
        raise ParameterError("--token must have eight ASCII characters or more")
    for flag in ("features", "time", "categorical"):
        both = sorted(set(options["targets"]) & set(options[flag]))
        if both:
            raise ParameterError(f"{both[0]} cannot be a target and a feature; leave it out of --{flag}")


def _serve(model: Path, options: dict[str, Any]) -> None:
    from ..serve import gate, server, web, writer
    from ..serve.metrics import Metrics
    from ..serve.watch import Watch

    service, host = _service(model, options), options["host"]
    pace = writer.Pace(options["max_wait"] / 1000, every=options["every"], seconds=options["seconds"])
    learning = writer.start(service, model, pace, durable=options["durable"])
    metrics = Metrics(service, lambda: learning.saved_at)
    # Between the loop of events and the thread that learns: with the usual 5 ms an answer would wait that long.
    sys.setswitchinterval(0.0005)
    watch = Watch(service, metrics, model.stem, lambda: learning.failure, learning.told)
    limits = web.Limits(options["max_body"], options["max_rows"])
    names = (*gate.LOOPBACK, host) if server.is_loopback(host) and options["token"] is None else None
    app = web.application(service, learning, watch, limits, hosts=names, token=options["token"])
    listening, running = server.bound(host, options["port"]), server.server_of(app)
    watch.closing = lambda: running.should_exit
    learned = f"{service.gp.n_samples_seen_:,} rows learned" if service.fitted else "an empty model"
    with Stop(lambda: setattr(running, "should_exit", True)).listening():
        learning.start()
        Console(stderr=True, highlight=False).print(
            f"{model.name}, {learned}, at {server.address(listening)}; Ctrl-C ends",
            markup=False,
            soft_wrap=True,
        )
        try:
            running.run(sockets=[listening])
        finally:
            learning.stop()


def _service(model: Path, options: dict[str, Any]) -> Service:
    """Return the service of a saved model, or of a new one."""
    from ..serve.service import Service

    checkpoint.clean(model)
    if not model.exists():
        if not options["new"]:
            raise ParameterError(f"there is no {model}; begin an empty model with --new --target NAME")
        return _new_service(options)
    gp, more = load_with_more(model)
    transformer = StreamColumns.from_dict(more["columns"]) if more.get("columns") else None
    columns = _columns(
        gp, transformer,
        feature_names(gp, more) or tuple(f"x{i + 1}" for i in range(gp.n_features_in_)),
        target_names(gp, more), more.get("options", {}).get("missing", ()),
    )  # fmt: skip
    for flag, given, known in (
        ("target", options["targets"], columns.targets), ("features", options["features"], columns.features),
    ):  # fmt: skip
        if given and given != known:
            raise ParameterError(f"{model} has --{flag} {','.join(known)}; leave the option out")
    wanted = _transformer(options, ())
    if wanted is not None and (transformer is None or _roles(wanted) != _roles(transformer)):
        raise ParameterError(f"{model} has other times, categories or lags; leave these options out")
    gp.drop_feature_names()  # rows are arrays in the order of the features
    service = Service.new(
        gp, columns, options["level"], options["max_ids"], options["alarm"], transformer=transformer
    )
    service.brought = {name: more[name] for name in ("options",) if name in more}
    if "service" in more:
        service.restore(more["service"])
    return service


def _new_service(options: dict[str, Any]) -> Service:
    """Return the service of a new model; raise ParameterError for options that do not fit."""
    from ..serve.service import Service

    if not options["targets"]:
        raise ParameterError("name what to predict with --target")
    gp, transformer = new_regressor(options), _transformer(options, options["features"])
    columns = _columns(gp, transformer, options["features"], options["targets"], ())
    service = Service.new(
        gp, columns, options["level"], options["max_ids"], options["alarm"], transformer=transformer
    )
    if transformer is not None and columns.features:
        service.begin(columns.features)
    return service


def _transformer(options: dict[str, Any], features: tuple[str, ...]) -> StreamColumns | None:
    """Return what turns raw rows into numbers as the options say, None where none is given."""
    lags_of = {name: lags for group, lags in options["lags_of"] for name in group}
    texts = (*options["time"], *options["categorical"])
    if not (texts or lags_of or options["lags"]):
        return None
    numbers = tuple(name for name in features if name not in texts) or None
    transformer = transformer_of(options, options["targets"], numbers, lags_of)
    copy.copy(transformer).begin([*texts, *lags_of])  # what does not fit is said now, not at the first row
    return transformer


def _roles(transformer: StreamColumns) -> list[Any]:
    return [getattr(transformer, name) for name in _OF_COLUMNS]


def _columns(
    gp: StreamingGPRegressor, transformer: StreamColumns | None, features: tuple[str, ...], targets: tuple[str, ...],
    missing: tuple[str, ...],
) -> Columns:  # fmt: skip
    """Return the columns of a service: names of inputs and targets, and what may be missing."""
    from ..serve.rows import Columns

    texts: tuple[str, ...] = ()
    if transformer is not None:
        texts = tuple(dict.fromkeys([*transformer.time, *transformer.categorical]))
        rest = (name for name in features if name not in texts)
        features = (*rest, *texts) if features else ()
    gaps = bool(gp.__sklearn_tags__().input_tags.allow_nan)
    return Columns(features, targets, texts, gaps, Cells(missing=missing))
