"""The two ends of a run: where rows come from, and where predictions go; files or brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..brokers import (
    Identity,
    MessageLines,
    is_address,
    open_messages,
    open_sink,
    parse_address,
    without_password,
)
from ..outputs import Writer, open_writer, prediction_names
from ..roles import Roles
from ..tables import JsonReader, Reader, ReadOptions, open_table

Say = Callable[[str], None]


def open_input(
    source: str, options: dict[str, Any], saved: dict[str, Any], given: ReadOptions, say: Say
) -> tuple[Reader, MessageLines | None]:
    """Return the reader of an input, and the messages that it reads if that is a broker.

    `saved` is the run in a checkpoint, empty for a new one.
    """
    if not is_address(source):
        return open_table(source, given), None
    identity = Identity(options["id"], options["targets"]) if options["id"] else None
    if given.columns is None and parse_address(source).joins:
        given = replace(given, columns=_named(options))
    messages = open_messages(
        source, identity=identity, eager=options["max_wait"] is None, checkpoint=options["checkpoint"], say=say,
        should_stop=given.should_stop, state=saved.get("messages"), line=given.position.line,
        columns=given.columns or (), targets=options["targets"],
    )  # fmt: skip
    if given.columns is None:
        say(f"{without_password(source)}: connected; the first message tells the columns")
    return JsonReader(messages, given), messages


def _named(options: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the columns that options name, None if they leave open which those are."""
    if not options["features"]:
        return None
    lagged = [name for names, _ in options["lags_of"] for name in names]
    parts = (
        options["features"],
        options["time"],
        options["categorical"],
        lagged,
        options["keep"],
        options["targets"],
    )
    return tuple(dict.fromkeys(name for part in parts for name in part))


def open_output(
    options: dict[str, Any], roles: Roles, saved: dict[str, Any], messages: MessageLines | None,
    should_stop: Callable[[], bool], say: Say,
) -> Writer | None:  # fmt: skip
    """Return the writer of predictions, None without an output; `saved` is the run in a checkpoint, empty for none."""
    output, size = options["output"], saved.get("sizes", (0, 0))[0]
    if not is_address(output):
        return open_writer(output, roles.targets, roles.kept, size, begin=not saved)
    id_of = messages.id_of if messages else _no_id
    return open_sink(
        output,
        prediction_names(roles.targets, roles.kept),
        size,
        id_of=id_of,
        say=say,
        should_stop=should_stop,
    )


def _no_id(line: int) -> None:
    """Return None: the rows of a file have no id."""
