"""Begin a run, or go on with one from its checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ... import checkpoint
from ...errors import DataError, ParameterError
from ...regressor import StreamingGPRegressor, load_with_more
from ..outputs import open_writer
from ..session import Quarantine, Session, Tally
from ..tables import Place, Reader, open_table
from .screen import Stop, few

# Options that shape what is read and learned: a run that goes on has those it began with.
KEPT = (
    "targets", "features", "ignore", "batch", "method", "rank", "kernel", "seed", "guard", "forgetting", "level",
    "columns", "delimiter", "no_header", "format_",
)  # fmt: skip


def start(
    ctx: click.Context, source: str, options: dict[str, Any], stop: Stop
) -> tuple[Session, Reader, dict[str, Any]]:
    """Begin a run, or go on with one."""
    path = options["checkpoint"]
    kept: dict[str, Any] = {}
    if path is not None:
        checkpoint.clean(path)
    if path is not None and path.exists():
        if not options["resume"]:
            raise ParameterError(f"{path} is there already; go on from it with --resume, or remove it")
        gp, more = load_with_more(path)
        kept = more.get("run") or {}
        if not kept:
            raise ParameterError(f"{path} holds a model, but no run to go on with")
        options = _as_before(ctx, options, kept, path)
    asked = {name: options[name] for name in KEPT}
    place = Place(*kept["place"]) if kept else Place()
    reader = open_table(
        source, place, format=options["format_"], delimiter=options["delimiter"], header=not options["no_header"],
        columns=options["columns"] or (kept["names"] if kept and not Path(source).is_file() else None),
        replay=options["replay"],
        whole_lines=path is not None, stopped=stop,
    )  # fmt: skip
    names = tuple(reader.columns)
    if kept and names != kept["names"]:
        raise DataError(f"{source} has the columns {few(names)}; those of {path} are {few(kept['names'])}")
    if kept and kept["mark"] and _mark(source, place) != kept["mark"]:
        raise DataError(
            f"{source} is not the input that {path} is about: it begins otherwise, or goes on otherwise"
        )
    features = kept["learned_from"] if kept else _features(reader, options)
    about = {**asked, "names": names, "source": source, "asked": asked, "features": features}
    about |= {"learned_from": features, "files": _files(options)}
    if not kept:
        gp = StreamingGPRegressor(
            options["kernel"], method=options["method"], rank=options["rank"], forgetting=options["forgetting"],
            guard=options["guard"], random_state=options["seed"],
        )  # fmt: skip
    sizes = kept.get("sizes", (0, 0))
    session = Session(
        gp, about["targets"], about["level"], options["on_error"],
        open_writer(options["output"], about["targets"], sizes[0], header=not kept),
        Quarantine(None if options["quarantine"] is None else str(options["quarantine"]), sizes[1]),
        Tally.of(kept["tally"]) if kept else Tally(len(about["targets"])),
        _saver(path, about) if path is not None else None, options["every"], place=place,
    )  # fmt: skip
    return session, reader, about


def _files(options: dict[str, Any]) -> dict[str, str | None]:
    return {name: None if options[name] is None else str(options[name]) for name in ("output", "quarantine")}


def _as_before(
    ctx: click.Context, options: dict[str, Any], kept: dict[str, Any], path: Path
) -> dict[str, Any]:
    """Take the options that a run began with; others that are given now would be another run."""
    asked = click.core.ParameterSource.COMMANDLINE
    for name in KEPT:
        if ctx.get_parameter_source(name) == asked and options[name] != kept["asked"][name]:
            flag = {"targets": "target", "no_header": "no-header", "format_": "format"}.get(name, name)
            raise ParameterError(
                f"{path} is a run with --{flag} {_shown(kept['asked'][name])}; leave the option out, or start another"
            )
    for name, before in kept["files"].items():
        # A quarantine may be added to a run that had none.
        if _files(options)[name] != before and not (name == "quarantine" and before is None):
            raise ParameterError(
                f"{path} is a run with {f'--{name} {before}' if before else f'no --{name}'}; go on with the same"
            )
    return {**options, **{name: kept["asked"][name] for name in KEPT}}


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _mark(source: str, place: Place) -> str:
    """Know an input again by the first and the last bytes of those that were passed; a pipe cannot be known."""
    if source == "-" or not Path(source).is_file():
        return ""
    with open(source, "rb") as file:
        begin = file.read(min(4096, place.offset))
        if Path(source).stat().st_size >= place.offset:
            file.seek(max(0, place.offset - 4096))
        return hashlib.sha256(begin + file.read(min(4096, place.offset))).hexdigest()


def _features(reader: Reader, options: dict[str, Any]) -> tuple[str, ...]:
    if not options["targets"]:
        raise ParameterError(f"say what to predict with --target; the columns are {few(reader.columns)}")
    known = reader.columns if not reader.open_ended else [*reader.columns, *options["targets"]]
    for flag, names in (
        ("target", options["targets"]),
        ("features", options["features"]),
        ("ignore", options["ignore"]),
    ):
        for name in names:
            if name not in known:
                raise ParameterError(f"--{flag} {name} is none of the columns {few(reader.columns)}")
    both = set(options["targets"]) & set(options["features"])
    if both:
        raise ParameterError(f"{sorted(both)[0]} cannot be a target and a feature")
    left_out = {*options["targets"], *options["ignore"]}
    names = options["features"] or tuple(name for name in reader.columns if name not in left_out)
    names = tuple(name for name in names if name not in options["ignore"])
    if not names:
        raise ParameterError("no column is left to predict from; name them with --features")
    return tuple(names)


def _saver(path: Path, about: dict[str, Any]) -> Callable[[Session, Place], None]:
    def save(session: Session, place: Place) -> None:
        if not session.gp.__sklearn_is_fitted__():
            return
        sizes = (session.writer.flush() if session.writer else 0, session.quarantine.flush())
        run = {
            **about, "place": (place.offset, place.line), "mark": _mark(about["source"], place),
            "sizes": sizes, "tally": session.tally.state(),
        }  # fmt: skip
        session.gp.save(path, run=run, features=about["features"], targets=about["targets"])

    return save
