"""Start a run, or resume one from its checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ... import checkpoint
from ...errors import DataError, ParameterError
from ...regressor import StreamingGPRegressor, load_with_more
from ..outputs import open_writer
from ..session import Session
from ..tables import Position, Reader, TableRows, open_table
from ..tally import Tally
from .display import first_names
from .options import open_quarantine, read_options
from .signals import Stop

# Options that decide what is read and learned: a resumed run keeps those that it started with.
DEFINING = (
    "targets", "features", "ignore", "batch", "method", "rank", "kernel", "seed", "guard", "forgetting", "level",
    "memory_rows", "delay", "columns", "delimiter", "no_header", "format_",
)  # fmt: skip
_FLAGS = {"targets": "target", "no_header": "no-header", "format_": "format", "memory_rows": "memory-rows"}
# Bytes at the beginning and the end of what was read by which an input is recognised.
_FINGERPRINTED = 4096


@dataclass(frozen=True)
class Plan:
    """What defines a run, as its checkpoint holds it.

    `columns` are those of the input, `features` those that the model learns from, `options` the values of the DEFINING
    options, `files` the names of the output and quarantine files.
    """

    source: str
    columns: tuple[str, ...]
    features: tuple[str, ...]
    options: dict[str, Any]
    files: dict[str, str | None]


def start_or_resume(
    ctx: click.Context, source: str, options: dict[str, Any], stop: Stop
) -> tuple[Session, Reader, Plan]:
    """Return the session, the reader and the plan of a run that starts or is resumed."""
    path = options["checkpoint"]
    gp, saved = _load(path, options) if path is not None else (None, {})
    if saved:
        options = _options_as_saved(ctx, options, saved, path)
    position = Position(*saved["position"]) if saved else Position()
    reader = open_table(
        source,
        read_options(
            options, position=position, replay=options["replay"], whole_lines=path is not None, should_stop=stop,
            columns=options["columns"] or (saved["columns"] if saved and not Path(source).is_file() else None),
        ),
    )  # fmt: skip
    if saved:
        _check_same_input(source, tuple(reader.columns), position, saved, path)
    features = saved["features"] if saved else _features(reader, options)
    defining = {name: options[name] for name in DEFINING}
    plan = Plan(source, tuple(reader.columns), features, defining, _files(options))
    output_size, quarantine_size = saved.get("sizes", (0, 0))
    targets = options["targets"]
    session = Session(
        _new_regressor(options) if gp is None else gp, targets, options["level"], options["on_error"],
        writer=open_writer(options["output"], targets, output_size, header=not saved),
        quarantine=open_quarantine(options, quarantine_size),
        tally=Tally.from_dict(saved["tally"]) if saved else Tally(len(targets)),
        save=_saver(path, plan) if path is not None else None, every=options["every"], position=position,
        delay=options["delay"], waiting=TableRows(*saved["waiting"]) if saved and saved["waiting"] else None,
    )  # fmt: skip
    return session, reader, plan


def _load(path: Path, options: dict[str, Any]) -> tuple[StreamingGPRegressor | None, dict[str, Any]]:
    """Return the model and the run of a checkpoint; None and nothing if there is no checkpoint yet."""
    checkpoint.clean(path)
    if not path.exists():
        return None, {}
    if not options["resume"]:
        raise ParameterError(f"{path} exists; continue from it with --resume, or remove it")
    gp, more = load_with_more(path)
    saved: dict[str, Any] = more.get("run") or {}
    if not saved:
        raise ParameterError(f"{path} holds a model, but no run to resume; name another --checkpoint")
    return gp, saved


def _new_regressor(options: dict[str, Any]) -> StreamingGPRegressor:
    return StreamingGPRegressor(
        options["kernel"], method=options["method"], rank=options["rank"], forgetting=options["forgetting"],
        memory_rows=options["memory_rows"], guard=options["guard"], random_state=options["seed"],
    )  # fmt: skip


def _files(options: dict[str, Any]) -> dict[str, str | None]:
    return {name: None if options[name] is None else str(options[name]) for name in ("output", "quarantine")}


def _options_as_saved(
    ctx: click.Context, options: dict[str, Any], saved: dict[str, Any], path: Path
) -> dict[str, Any]:
    """Return the options with the DEFINING ones as saved; raise ParameterError if one is given differently now."""
    command_line = click.core.ParameterSource.COMMANDLINE
    for name in DEFINING:
        before = saved["options"][name]
        if ctx.get_parameter_source(name) == command_line and options[name] != before:
            shown = ",".join(before) if isinstance(before, tuple) else str(before)
            raise ParameterError(
                f"{path} is a run with --{_FLAGS.get(name, name)} {shown}; leave the option out, or start another run"
            )
    for name, before in saved["files"].items():
        # A quarantine may be added to a run that had none.
        if _files(options)[name] != before and not (name == "quarantine" and before is None):
            given = f"--{name} {before}" if before else f"no --{name}"
            raise ParameterError(f"{path} is a run with {given}; resume it with the same")
    return {**options, **{name: saved["options"][name] for name in DEFINING}}


def _check_same_input(
    source: str, columns: tuple[str, ...], position: Position, saved: dict[str, Any], path: Path
) -> None:
    """Raise DataError if the input is not the one that the checkpoint was made with."""
    if columns != saved["columns"]:
        before = first_names(saved["columns"])
        raise DataError(f"{source} has the columns {first_names(columns)}; those of {path} are {before}")
    if saved["fingerprint"] and _fingerprint(source, position) != saved["fingerprint"]:
        raise DataError(
            f"{source} is not the input of {path}: what was read up to line {position.line} has changed; resume "
            "with the same input, or start another run"
        )


def _fingerprint(source: str, position: Position) -> str:
    """Return a hash of the first and last bytes that were read; empty for a pipe, which cannot be recognised."""
    if source == "-" or not Path(source).is_file():
        return ""
    n = min(_FINGERPRINTED, position.offset)
    with open(source, "rb") as file:
        first = file.read(n)
        if Path(source).stat().st_size >= position.offset:
            file.seek(max(0, position.offset - _FINGERPRINTED))
        return hashlib.sha256(first + file.read(n)).hexdigest()


def _features(reader: Reader, options: dict[str, Any]) -> tuple[str, ...]:
    """Return the columns to learn from; raise ParameterError for options that do not fit the columns."""
    targets, ignored = options["targets"], options["ignore"]
    columns = first_names(reader.columns)
    if not targets:
        raise ParameterError(f"name the column to predict with --target; the columns are {columns}")
    known = {*reader.columns, *targets} if reader.open_ended else set(reader.columns)
    for flag, names in (("target", targets), ("features", options["features"]), ("ignore", ignored)):
        for name in names:
            if name not in known:
                raise ParameterError(f"--{flag} {name} is none of the columns {columns}")
    both = sorted(set(targets) & set(options["features"]))
    if both:
        raise ParameterError(f"{both[0]} cannot be a target and a feature; leave it out of --features")
    names = options["features"] or [name for name in reader.columns if name not in targets]
    features = tuple(name for name in names if name not in ignored)
    if not features:
        raise ParameterError("no column is left to predict from; name some with --features")
    return features


def _saver(path: Path, plan: Plan) -> Callable[[Session], None]:
    """Return the function that writes the checkpoint of a session, once it has learned something."""

    def save(session: Session) -> None:
        if not session.fitted:
            return
        position, waiting = session.position, session.waiting
        sizes = (session.writer.flush() if session.writer else 0, session.quarantine.flush())
        run = {
            **plan.__dict__, "position": (position.offset, position.line),
            "fingerprint": _fingerprint(plan.source, position), "sizes": sizes, "tally": session.tally.to_dict(),
            "waiting": (waiting.X, waiting.y, waiting.line_numbers) if waiting is not None else None,
        }  # fmt: skip
        session.gp.save(path, run=run, features=plan.features, targets=session.targets)

    return save
