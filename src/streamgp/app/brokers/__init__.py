"""Topics of MQTT and streams of Redis, as input and output of a run."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...errors import ParameterError
from ..outputs import Writer
from .address import Address, is_address, parse_address, without_password
from .answers import Answers
from .joined import Joined
from .lines import Identity, MessageLines, Source
from .link import Say
from .mqtt import MqttSource, MqttWriter
from .redis_streams import RedisSource, RedisWriter

__all__ = [
    "Identity",
    "MessageLines",
    "is_address",
    "open_messages",
    "open_sink",
    "parse_address",
    "without_password",
]


def open_messages(
    source: str, *, identity: Identity | None, eager: bool, checkpoint: Path | None, say: Say,
    should_stop: Callable[[], bool], state: dict[str, Any] | None, line: int,
    columns: Sequence[str] = (), targets: Sequence[str] = (),
) -> MessageLines:  # fmt: skip
    """Return the messages at an address, as lines of JSON; with a checkpoint, none is lost while the run is down.

    Topics with one value each are joined into rows of `columns` if the address asks for it.
    """
    address = parse_address(source)
    if address.joins:
        _check_columns(address, columns)
    opened = _source(address, checkpoint, say)
    if address.joins:
        opened = Joined(opened, columns, targets, address.settings.get("row"))
    return MessageLines(opened, identity, eager, should_stop, state, line)


def _check_columns(address: Address, columns: Sequence[str]) -> None:
    """Raise ParameterError if it is not known which values make up a row."""
    row = address.settings.get("row")
    if not columns:
        raise ParameterError(
            f"name the values that make up a row of {address} with --columns, or with --features and --target"
        )
    if row is not None and row not in columns:
        raise ParameterError(f"row={row} is none of the columns {', '.join(columns)}")


def _source(address: Address, checkpoint: Path | None, say: Say) -> Source:
    name = _name_of(checkpoint)
    if address.protocol == "redis":
        group = None if checkpoint is None else address.settings.get("group", name)
        return RedisSource(address, group, say)
    inbox = None if checkpoint is None else checkpoint.with_name(f"{checkpoint.name}.inbox")
    return MqttSource(address, inbox, address.settings.get("client", name), say)


def _name_of(checkpoint: Path | None) -> str:
    """Return the name by which a broker knows a run, the same whenever it is resumed."""
    path = "" if checkpoint is None else str(checkpoint.resolve())
    return f"streamgp-{hashlib.sha256(f'{socket.gethostname()} {path}'.encode()).hexdigest()[:12]}"


def open_sink(
    output: str, names: Sequence[str], run: int, *, id_of: Callable[[int], Any], say: Say,
    should_stop: Callable[[], bool],
) -> Writer:  # fmt: skip
    """Return the writer of predictions to an address; `run` is what its `flush` returned when the run was saved."""
    address, answers = parse_address(output), Answers(names, id_of)
    if address.protocol == "redis":
        return RedisWriter(address, answers, run, say, should_stop)
    return MqttWriter(address, answers, say, should_stop)
