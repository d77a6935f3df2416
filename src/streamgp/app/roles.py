"""Which column of an input is what: targets, numbers, times, categories, lags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..columns import DEFAULT_KINDS, StreamColumns
from ..errors import ParameterError
from .tables import Reader, TableRows

# Options whose flag is spelled in another way.
FLAGS = {
    "targets": "target", "no_header": "no-header", "format_": "format", "memory_rows": "memory-rows",
    "target_transform": "target-transform",
    "time_as": "time-as", "time_format": "time-format", "time_zone": "time-zone", "lags_of": "lags-of",
}  # fmt: skip
# Column names that a message lists before it only counts them.
_MOST_NAMES = 20


@dataclass(frozen=True)
class Roles:
    """The columns that a run reads.

    Attributes
    ----------
    targets : tuple of str
    numbers : tuple of str
        Read as numbers, to predict from.
    texts : tuple of str
        Read as text, to predict from: times and categories.
    kept : tuple of str
        Read as text, to be written beside the predictions.
    key : str or None
        Read as text: by which a later line with a label knows its row.
    weight : str or None
        Read as a number: how much a row counts.
    """

    targets: tuple[str, ...]
    numbers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    key: str | None = None
    weight: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """All columns that are read as labels; the weight comes last."""
        return (*self.targets, *(() if self.weight is None else (self.weight,)))

    @property
    def all_texts(self) -> tuple[str, ...]:
        """All columns that are read as text; the key comes last."""
        return (*self.texts, *self.kept, *(() if self.key is None else (self.key,)))

    @property
    def inputs(self) -> tuple[str, ...]:
        """All columns to predict from."""
        return (*self.numbers, *self.texts)


def roles_of(reader: Reader, options: Mapping[str, Any]) -> tuple[Roles, StreamColumns | None]:
    """Return the roles that options give to the columns of an input, and what turns them into numbers, if any must be.

    By default features are all columns that have a name and no other role. `options` has `targets`, `features` and
    `ignore`, and may have `time`, `time_as`, `time_format`, `time_zone`, `categorical`, `lags`, `lags_of` and `delay`.
    `id` is no feature; `key` is the same where labels come on later lines; nor is `weight`. Raise ParameterError for
    options that do not fit the columns.
    """
    options = {"keep": (), "time": (), "categorical": (), "lags": (), "lags_of": (), "delay": 0, **options}
    named = ("targets", "features", "ignore", "time", "categorical", "keep")
    given = {name: joined(options[name], reader.columns) for name in named}
    identity, weight = ((options[name],) if options.get(name) else () for name in ("id", "weight"))
    targets, ignored = given["targets"], (*given["ignore"], *identity, *weight)
    columns = first_names(reader.columns)
    if not targets:
        raise ParameterError(f"name the column to predict with --target; the columns are {columns}")
    known = {*reader.columns, *targets} if reader.open_ended else set(reader.columns)
    lags_of = {name: lags for group, lags in options["lags_of"] for name in joined(group, reader.columns)}
    for flag, names in (*given.items(), ("lags-of", lags_of), ("id", identity), ("weight", weight)):
        for name in names:
            if name not in known:
                raise ParameterError(f"--{FLAGS.get(flag, flag)} {name} is none of the columns {columns}")
    texts = tuple(dict.fromkeys([*given["time"], *given["categorical"]]))
    for role, names in (
        ("a feature", given["features"]),
        ("a time or a category", texts),
        ("a weight", weight),
    ):
        both = sorted(set(targets) & set(names))
        if both:
            raise ParameterError(f"{both[0]} cannot be a target and {role}; leave it out of one")
    key = check_key(options.get("key"), targets, options["delay"])
    left = [name for name in reader.columns if name not in targets and name not in reader.unnamed]
    numbers = tuple(name for name in given["features"] or left if name not in ignored and name not in texts)
    check_lags(options["lags"], options["delay"])
    if not (numbers or texts or options["lags"] or lags_of):
        raise ParameterError("no column is left to predict from; name some with --features")
    if not (texts or options["lags"] or lags_of):
        return Roles(targets, numbers, kept=given["keep"], key=key, weight=options.get("weight")), None
    columns_ = transformer_of({**options, **given}, targets, numbers, lags_of)
    state = columns_.begin([*numbers, *texts, *lags_of]).state_
    roles = Roles(targets, state.numbers, state.texts, given["keep"], key, options.get("weight"))
    return roles, columns_


def transformer_of(
    options: Mapping[str, Any], targets: tuple[str, ...], numbers: tuple[str, ...] | None,
    lags_of: Mapping[str, tuple[int, ...]],
) -> StreamColumns:  # fmt: skip
    """Return what turns columns into numbers, as the options say; raise ParameterError for lags without numbers.

    `numbers` are given as they are, None for all that have no other role.
    """
    lags = tuple(options["lags"])
    bare = [name for name, own in lags_of.items() if not own and not lags]
    if bare:
        raise ParameterError(f"--lags-of {bare[0]} needs lags: --lags-of {bare[0]}:1,2, or --lags")
    return StreamColumns(
        options["time"], options["categorical"], lags, {name: own or lags for name, own in lags_of.items()},
        numeric=numbers, targets=targets, time_as=options.get("time_as", DEFAULT_KINDS),
        time_format=options.get("time_format"), time_zone=options.get("time_zone"),
    )  # fmt: skip


def check_key(key: str | None, targets: Sequence[str], delay: int) -> str | None:
    """Return the column of keys, None without one; raise ParameterError if it cannot be one."""
    if key is not None and key in targets:
        raise ParameterError(f"--id {key} must be a column that is no target")
    if key is not None and delay:
        raise ParameterError("--id and --delay are two ways to say when labels come; give one")
    return key


def check_lags(lags: Sequence[int], delay: int) -> None:
    """Raise ParameterError for a lag of the target whose label is never known in time."""
    wrong = [lag for lag in lags if lag < max(delay, 1)]
    if wrong:
        known = f"labels come {delay} lines after their row" if delay else "a row does not know its own label"
        raise ParameterError(
            f"--lags {wrong[0]} is never known, since {known}; give lags of {max(delay, 1)} or more"
        )


def joined(names: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Return names, with parts that together are the name of a column with commas in it put together again."""
    spelled = {column.replace(" ", ""): column for column in columns if "," in column}
    out, i = [], 0
    while i < len(names):
        whole = {
            n: spelled.get(",".join(names[i : i + n]).replace(" ", "")) for n in range(len(names) - i, 1, -1)
        }
        n, name = next(((n, name) for n, name in whole.items() if name), (1, names[i]))
        out.append(name)
        i += n
    return tuple(out)


def first_names(names: Sequence[str]) -> str:
    """Return the names with commas, cut short after the first ones."""
    shown = ", ".join(names[:_MOST_NAMES])
    return shown + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")


def row_names(batch: TableRows, columns: StreamColumns | None) -> list[str]:
    """Return names of the rows for a person: their time, or their line where no column is a time."""
    lines = [f"line {line:,}" for line in batch.line_numbers]
    if columns is None or not batch.texts.size:
        return lines
    texts = columns.state_.texts
    times = batch.texts[:, [texts.index(name) for name in columns.time]]
    return [" ".join(row).strip() or line for row, line in zip(times, lines, strict=True)]
