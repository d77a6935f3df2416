"""Models that were saved: their columns, and the options that they bring with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ...columns import StreamColumns
from ...errors import DataError, ParameterError
from ...regressor import StreamingGPRegressor
from ..roles import FLAGS, Roles, first_names, joined
from ..tables import Reader

# How a table is read: what a model brings with it unless the option is given now.
READING = ("columns", "delimiter", "no_header", "missing", "decimal", "encoding")
# The same for a run that goes on with a model.
RUNNING = (*READING, "batch", "level", "delay", "keep", "alarm", "weight")
# What a model has learned with; another value needs another model.
LEARNED_WITH = (
    "features", "ignore", "method", "rank", "kernel", "seed", "guard", "forgetting", "memory_rows", "target_transform",
    "likelihood", "time", "time_as", "time_format", "time_zone", "categorical", "lags", "lags_of", "id",
)  # fmt: skip


def feature_names(gp: StreamingGPRegressor, more: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the columns that a loaded model learned from; empty if it learned from arrays."""
    if more.get("features") is None and more.get("columns"):
        state = StreamColumns.from_dict(more["columns"]).state_
        return (*state.numbers, *state.texts)
    names = more.get("features") or getattr(gp, "feature_names_in_", None)
    return () if names is None else tuple(str(name) for name in names)


def target_names(gp: StreamingGPRegressor, more: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the targets of a loaded model."""
    return tuple(str(name) for name in more.get("targets") or gp.target_names_)


def is_given(ctx: click.Context, name: str) -> bool:
    """Return whether an option stands on the command line."""
    return ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def with_saved(
    ctx: click.Context, options: dict[str, Any], more: Mapping[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    """Return the options with the values that a model was saved with, where none is given now."""
    saved = more.get("options", {})
    return {**options, **{name: saved[name] for name in names if name in saved and not is_given(ctx, name)}}


def roles_of_model(
    gp: StreamingGPRegressor, more: Mapping[str, Any], reader: Reader, source: str, options: Mapping[str, Any]
) -> tuple[Roles, StreamColumns | None]:
    """Return the columns of an input that a model learned from, and what turns them into numbers.

    Raise DataError if the input lacks one, ParameterError if `--keep` names none of them.
    """
    columns = StreamColumns.from_dict(more["columns"]) if more.get("columns") else None
    texts = () if columns is None else columns.state_.texts
    kept = joined(options["keep"], reader.columns)
    weight = options.get("weight")
    for flag, names in (("keep", kept), ("weight", (weight,) if weight else ())):
        for name in names:
            if name not in reader.columns:
                raise ParameterError(f"--{flag} {name} is none of the columns {first_names(reader.columns)}")
    key = options.get("key")
    features, targets = feature_names(gp, more), target_names(gp, more)
    if not features:
        features = tuple(name for name in reader.columns if name not in (*targets, weight))
        if len(features) != gp.n_features_in_:
            raise DataError(
                f"{source} has {len(features)} columns besides the targets; the model learned from "
                f"{gp.n_features_in_} without names"
            )
    missing = [name for name in features if name not in reader.columns]
    # Where rows have keys, a table may bring their labels alone.
    brings_labels = key in reader.columns and any(name in reader.columns for name in targets)
    if missing and not brings_labels:
        raise DataError(
            f"{source} lacks the column {missing[0]!r}; the model learned from {first_names(features)}"
        )
    numbers = tuple(name for name in features if name not in texts)
    return Roles(targets, numbers, texts, kept, key, weight), columns


def continued(
    gp: StreamingGPRegressor,
    more: Mapping[str, Any],
    reader: Reader,
    source: str,
    options: Mapping[str, Any],
    path: Path,
) -> tuple[Roles, StreamColumns | None]:
    """Return the roles of the columns of an input that a model goes on to learn.

    `--target` may name the targets of a model that was saved in Python.
    """
    given = joined(options["targets"], reader.columns)
    if given and not more.get("targets"):
        more = {**more, "targets": given}
    roles, columns = roles_of_model(gp, more, reader, source, options)
    if given and given != roles.targets:
        raise ParameterError(
            f"{path} predicts {', '.join(roles.targets)}; leave --target out, or start another run"
        )
    if len(roles.targets) != len(gp.target_names_):
        raise ParameterError(f"{path} has {len(gp.target_names_)} targets; name as many with --target")
    lacking = [name for name in roles.targets if name not in reader.columns and not reader.open_ended]
    if lacking and roles.key is None:
        raise DataError(f"{source} lacks the target {lacking[0]!r} of {path}; name the column with --target")
    return roles, columns


def check_learned_with(
    ctx: click.Context, options: Mapping[str, Any], more: Mapping[str, Any], path: Path
) -> None:
    """Raise ParameterError if an option is given that the model has learned without."""
    saved = more.get("options", {})
    for name in LEARNED_WITH:
        if is_given(ctx, name) and (name not in saved or saved[name] != options[name]):
            before = f" with --{FLAGS.get(name, name)} {saved[name]}" if name in saved else ""
            raise ParameterError(
                f"--{FLAGS.get(name, name)} cannot be given with --start-from: {path} has learned{before}; leave it "
                "out, or start another run"
            )
