"""Start a run, or resume one from its checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from ... import checkpoint
from ...columns import StreamColumns
from ...errors import DataError, ParameterError
from ...loading import load_with_more
from ...regressor import StreamingGPRegressor
from ..baselines import Baselines
from ..brokers import MessageLines, is_address, without_password
from ..late import LateLabels
from ..roles import FLAGS, Roles, check_lags, first_names, roles_of
from ..sensors import Sensors
from ..session import Session
from ..tables import Position, Reader, TableRows
from ..tally import Tally
from ..trace import Trace
from .alarming import alarms_of
from .ends import open_input, open_output
from .models import LEARNED_WITH, RUNNING, check_learned_with, continued, is_given, with_saved
from .options import open_quarantine, read_options
from .signals import Stop

# Options that decide what is read and learned: a resumed run keeps those that it started with.
DEFINING = (
    "targets", "features", "ignore", "batch", "method", "rank", "kernel", "seed", "guard", "forgetting", "level",
    "memory_rows", "target_transform", "likelihood", "weight", "delay", "id", "time", "time_as", "time_format",
    "time_zone", "categorical", "lags", "lags_of", "keep", "columns", "delimiter", "no_header", "format_", "missing",
    "decimal", "encoding", "alarm",
)  # fmt: skip
# Bytes at the beginning and the end of what was read by which an input is recognised.
_FINGERPRINTED = 4096


@dataclass(frozen=True)
class Plan:
    """What defines a run, as its checkpoint holds it.

    `columns` are those of the input, `options` the values of the DEFINING options, `files` the names of the output and
    quarantine files.
    """

    source: str
    columns: tuple[str, ...]
    roles: Roles
    options: dict[str, Any]
    files: dict[str, str | None]


def start_or_resume(
    ctx: click.Context, source: str, options: dict[str, Any], stop: Stop, say: Callable[[str], None]
) -> tuple[Session, Reader, Plan]:
    """Return the session, the reader and the plan of a run that starts or is resumed; `say` shows a message."""
    path = options["checkpoint"]
    gp, saved = _load(path, options) if path is not None else (None, {})
    if saved:
        options = _options_as_saved(ctx, options, saved, path)
    position = Position(*saved["position"]) if saved else Position()
    more: dict[str, Any] = {}
    if options["start_from"] is not None and not saved:
        gp, more, options = _brought(ctx, options)
    # A broker leaves out a message that comes again; a line of a file brings a label.
    options = {**options, "key": None if is_address(source) else options["id"]}
    given = read_options(
        options, position=position, replay=options["replay"], whole_lines=path is not None, should_stop=stop,
        columns=options["columns"] or (saved["columns"] if saved and not Path(source).is_file() else None),
    )  # fmt: skip
    reader, messages = open_input(source, options, saved, given, say)
    source = without_password(source)
    if saved:
        _check_same_input(source, tuple(reader.columns), position, saved, path)
        roles = Roles(**saved["roles"])
        columns = StreamColumns.from_dict(saved["transformer"]) if saved["transformer"] else None
    elif gp is not None:
        roles, columns = continued(gp, more, reader, source, options, options["start_from"])
        check_lags(() if columns is None else columns.lags, options["delay"])
        gp.drop_feature_names()  # rows are arrays in the order of the roles
    else:
        roles, columns = roles_of(reader, options)
    defining = {name: options[name] for name in DEFINING}
    plan = Plan(source, tuple(reader.columns), roles, defining, _files(options))
    targets = roles.targets
    learned_from = roles.numbers if columns is None else columns.state_.features
    session = Session(
        new_regressor(options) if gp is None else gp, targets, options["level"], options["on_error"],
        writer=open_output(options, roles, saved, messages, stop, say),
        quarantine=open_quarantine(options, saved.get("sizes", (0, 0))[1]),
        tally=Tally.from_dict(saved["tally"]) if saved else Tally(len(targets)),
        sensors=Sensors.from_dict(saved["sensors"]) if saved else Sensors.none([*roles.inputs, *targets]),
        columns=columns, save=_saver(path, plan, messages) if path is not None else None,
        every=options["every"], seconds=options["seconds"],
        position=position, delay=options["delay"],
        weighted=roles.weight is not None,
        waiting=_still_waiting(saved or more, position), late=_late(roles, options, saved or more),
        alarms=alarms_of(options, targets, learned_from, saved.get("alarms")), notes=_notes(reader, roles),
    )  # fmt: skip
    if saved:
        session.baselines, session.trace = Baselines(**saved["baselines"]), Trace.from_dict(saved["trace"])
    return session, reader, plan


def _notes(reader: Reader, roles: Roles) -> list[str]:
    """Return what the summary says of columns that are left out."""
    left_out = [name for name in reader.unnamed if name not in roles.numbers]
    return [f"left out, since they have no name: {first_names(left_out)}"] if left_out else []


def _brought(
    ctx: click.Context, options: dict[str, Any]
) -> tuple[StreamingGPRegressor, dict[str, Any], dict[str, Any]]:
    """Return the model to start from, what was kept beside it, and the options with those that it brings."""
    gp, more = load_with_more(options["start_from"])
    check_learned_with(ctx, options, more, options["start_from"])
    return gp, more, with_saved(ctx, options, more, (*RUNNING, *LEARNED_WITH))


def _load(path: Path, options: dict[str, Any]) -> tuple[StreamingGPRegressor | None, dict[str, Any]]:
    """Return the model and the run of a checkpoint; None and nothing if there is no checkpoint yet."""
    checkpoint.clean(path)
    if not path.exists():
        return None, {}
    if not options["resume"]:
        raise ParameterError(f"{path} exists; continue from it with --resume, or remove it")
    gp, more = load_with_more(path)
    saved: dict[str, Any] = (
        {**more["run"], "transformer": more["columns"], "waiting": more["waiting"], "late": more["late"]}
        if more.get("run")
        else {}
    )
    if not saved:
        raise ParameterError(f"{path} holds a model, but no run to resume; name another --checkpoint")
    return gp, saved


def new_regressor(options: dict[str, Any]) -> StreamingGPRegressor:
    """Return the regressor that the options of a model ask for."""
    return StreamingGPRegressor(
        options["kernel"], method=options["method"], rank=options["rank"], forgetting=options["forgetting"],
        memory_rows=options["memory_rows"], guard=options["guard"], random_state=options["seed"],
        target_transform=options["target_transform"], likelihood=options["likelihood"],
    )  # fmt: skip


def _files(options: dict[str, Any]) -> dict[str, str | None]:
    given = {name: options[name] for name in ("output", "quarantine")}
    return {name: None if value is None else without_password(str(value)) for name, value in given.items()}


def _options_as_saved(
    ctx: click.Context, options: dict[str, Any], saved: dict[str, Any], path: Path
) -> dict[str, Any]:
    """Return the options with the DEFINING ones as saved; raise ParameterError if one is given differently now."""
    for name in DEFINING:
        before = saved["options"][name]
        if is_given(ctx, name) and options[name] != before:
            shown = ",".join(before) if isinstance(before, tuple) else str(before)
            raise ParameterError(
                f"{path} is a run with --{FLAGS.get(name, name)} {shown}; leave the option out, or start another run"
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
    if is_address(source) and source.rpartition("/")[2] != saved["source"].rpartition("/")[2]:
        raise DataError(
            f"{path} is a run on {saved['source']}; resume it with the same, or start another run"
        )
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


def kept_in_model(session: Session, plan: Plan) -> dict[str, Any]:
    """Return what a model keeps beside it to take raw rows and to go on: names, options, rows without their labels."""
    waiting, line = session.waiting, session.position.line
    return {
        "late": session.late and session.late.to_dict(),
        "features": plan.roles.inputs, "targets": session.targets, "options": plan.options,
        "columns": None if session.columns is None else session.columns.to_dict(),
        "waiting": waiting
        and (waiting.X, waiting.y, [n - line for n in waiting.line_numbers], waiting.weights),
    }  # fmt: skip


def _late(roles: Roles, options: Mapping[str, Any], more: Mapping[str, Any]) -> LateLabels | None:
    """Return the rows that wait for labels on later lines, those of an earlier run too; None without keys."""
    if roles.key is None:
        return None
    late = LateLabels.from_dict(more["late"]) if more.get("late") else LateLabels(options["max_ids"])
    return replace(late, most=options["max_ids"])


def _still_waiting(more: Mapping[str, Any], position: Position) -> TableRows | None:
    """Return the rows of an earlier run whose labels are not learned yet, by their lines before this one."""
    if not more.get("waiting"):
        return None
    X, y, before, weights = more["waiting"]
    return TableRows(X, y, [position.line + n for n in before], weights=weights)


def _saver(path: Path, plan: Plan, messages: MessageLines | None) -> Callable[[Session], None]:
    """Return the function that writes the checkpoint of a session, once it has learned something."""

    def save(session: Session) -> None:
        if not session.fitted:
            return
        position = session.position
        sizes = (session.writer.flush() if session.writer else 0, session.quarantine.flush())
        run = {
            **plan.__dict__, "roles": plan.roles.__dict__, "position": (position.offset, position.line),
            "fingerprint": _fingerprint(plan.source, position), "sizes": sizes, "tally": session.tally.to_dict(),
            "sensors": session.sensors.to_dict(),
            "baselines": session.baselines.__dict__, "trace": session.trace.to_dict(),
            "alarms": session.alarms.to_dict() if session.alarms is not None else None,
        }  # fmt: skip
        if messages is not None:
            run["messages"] = messages.state(position.line)
        session.gp.save(path, run=run, **kept_in_model(session, plan))
        if messages is not None:
            messages.saved()

    return save
