"""What the commands share: types of options, checks before anything is opened, errors as messages."""

from __future__ import annotations

import csv
import math
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ...columns import DEFAULT_KINDS
from ...errors import ParameterError, StreamGPError
from ...kernels import FAMILIES
from ...likelihoods import LIKELIHOODS
from ...parameters import METHODS
from ..brokers import is_address, parse_address
from ..outputs import Quarantine
from ..tables import ReadOptions


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas; a name that holds one is quoted."""

    name = "name[,name]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names as a tuple."""
        if isinstance(value, tuple):
            return value
        rows = list(csv.reader([str(value)], skipinitialspace=True))
        return tuple(part.strip() for part in (rows[0] if rows else []) if part.strip())


class Lags(click.ParamType):  # type: ignore[type-arg]
    """Whole numbers of 1 or more, separated by commas."""

    name = "lag[,lag]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers as a tuple."""
        if isinstance(value, tuple):
            return value
        parts = str(value).split(",")
        number: Any = click.IntRange(1)
        return tuple(int(number.convert(part.strip(), param, ctx)) for part in parts if part.strip())


class LagsOf(click.ParamType):  # type: ignore[type-arg]
    """Names and lags, each separated by commas, with a colon between; the lags may be left out."""

    name = "name[,name][:lag[,lag]]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the names and the lags."""
        if isinstance(value, tuple):
            return value
        names, colon, lags = str(value).rpartition(":")
        if not colon or not lags.replace(",", "").replace(" ", "").isdigit():
            names, lags = str(value), ""
        return Names().convert(names, param, ctx), Lags().convert(lags, param, ctx)


class Rank(click.ParamType):  # type: ignore[type-arg]
    """A whole number of 1 or more, or "auto"."""

    name = "integer|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number or "auto"."""
        if value == "auto":
            return "auto"
        return int(click.IntRange(1).convert(value, param, ctx))


class Share(click.ParamType):  # type: ignore[type-arg]
    """A number above 0 and at most 1, or auto."""

    name = "FLOAT|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Return the number or 'auto'."""
        if value == "auto":
            return "auto"
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 < number <= 1:
            self.fail(f"{value!r} must be above 0 and at most 1, or auto", param, ctx)
        return number


class Guard(click.ParamType):  # type: ignore[type-arg]
    """A number of deviations above 0, "auto" or "none"."""

    name = "auto|none|number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str | None:
        """Return the number, "auto", or None for "none"."""
        if value in ("auto", "none"):
            return None if value == "none" else "auto"
        deviations = float(click.FloatRange(0, min_open=True).convert(value, param, ctx))
        if deviations != deviations:
            self.fail("nan is not a number", param, ctx)
        return deviations


def refuse_nan(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Return the value; raise BadParameter for NaN, which click accepts in every range."""
    if value is not None and value != value:
        raise click.BadParameter("nan is not a number")
    return value


def join_names(
    ctx: click.Context, param: click.Parameter, value: Sequence[tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the names of an option that may be repeated, each once."""
    return tuple(dict.fromkeys(name for part in value for name in part))


FILE = click.Path(dir_okay=False, path_type=Path)
MODEL_OPTIONS = [
    click.option(
        "--method", default="pivoted", show_default=True, type=click.Choice(METHODS),
        help="Method of the Gaussian process.",
    ),
    click.option(
        "--rank", default=500, show_default=True, type=Rank(),
        help="Number of features (for pivoted: inducing points) of the model, or auto.",
    ),
    click.option(
        "--kernel", default="auto", show_default=True, type=click.Choice(("auto", *FAMILIES)),
        help="Kernel family; auto chooses it on the stream. Its hyperparameters are tuned as the stream grows.",
    ),
    click.option(
        "--forgetting", default="auto", show_default=True, type=Share(),
        help="Factor on the weight of the past at each batch, above 0 and at most 1; auto forgets what the last rows "
        "contradict.",
    ),
    click.option(
        "--target-transform", type=click.Choice(("log", "sqrt", "logit", "auto")),
        help="What is learned in the place of the target: log or sqrt for targets of 0 or more, logit for shares "
        "between 0 and 1; auto chooses from the first rows. Predictions stay in the target's units.",
    ),
    click.option(
        "--likelihood", default="gaussian", show_default=True, type=click.Choice(("gaussian", *LIKELIHOODS)),
        help="How targets are distributed about their function: student for far outliers, poisson or negative_binomial "
        "for counts.",
    ),
    click.option(
        "--memory-rows", type=click.FloatRange(1), callback=refuse_nan,
        help="Rows after which the weight of a row is 1/e, instead of --forgetting and whatever --batch.",
    ),
    click.option(
        "--guard", default="auto", show_default=True, type=Guard(),
        help="Rows not to learn: auto, those that errors so far do not explain, unless many follow; a number, those so "
        "many standard deviations off; none, no row.",
    ),
    click.option(
        "--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of all random choices.",
    ),
]  # fmt: skip
COLUMN_OPTIONS = [
    click.option(
        "--time", type=Names(), multiple=True, callback=join_names,
        help="Columns that hold the time together, such as Date,Clock or year,month,day,hour.",
    ),
    click.option(
        "--time-as", type=Names(), default=",".join(DEFAULT_KINDS), show_default=True,
        help="What a time becomes: its place in a day, a week, a year; trend, the days since the first row.",
    ),
    click.option("--time-format", help="Format of times, such as '%d/%m/%Y %H.%M'; by default any usual one."),
    click.option(
        "--time-zone", help="Zone of times, such as Europe/Rome; by default clocks as they are written."
    ),
    click.option(
        "--categorical", type=Names(), multiple=True, callback=join_names,
        help="Columns of categories: each of the first twelve becomes a feature, others share four.",
    ),
    click.option(
        "--lags", type=Lags(), default=(), help="Rows before, such as 1,2,144, whose targets become features."
    ),
    click.option(
        "--lags-of", type=LagsOf(), multiple=True,
        help="Columns whose earlier values become features: COL[,COL]:LAG[,LAG], or COL alone with the --lags.",
    ),
]  # fmt: skip
LEVEL_OPTION = click.option(
    "--level", default=0.9, show_default=True, type=click.FloatRange(0.001, 0.9999), callback=refuse_nan,
    help="Probability of the intervals.",
)  # fmt: skip
INPUT_OPTIONS = [
    click.option(
        "--format", "format_", type=click.Choice(("csv", "jsonl", "parquet")),
        help="Format of the input; by default that of its suffix, and CSV for standard input.",
    ),
    click.option("--delimiter", help="Character between the cells of CSV; by default a comma, semicolon or tab."),
    click.option("--columns", type=Names(), help="Names of the columns, if the first line does not hold them."),
    click.option("--no-header", is_flag=True, help="The first line is a row; call the columns 1, 2, 3, …"),
    click.option(
        "--missing", type=Names(), multiple=True, callback=join_names,
        help="Values that mean that there is none, such as -200 or n/a, beside an empty cell, NA, NaN and null.",
    ),
    click.option(
        "--decimal", type=click.Choice((".", ",")), default=".", show_default=True,
        help="Decimal sign of numbers in CSV.",
    ),
    click.option(
        "--encoding", default="utf-8", show_default=True, help="Encoding of text, such as latin-1 or cp1252."
    ),
    click.option(
        "--on-error", type=click.Choice(("fail", "skip", "quarantine")), default="fail", show_default=True,
        help="What to do with a bad row: stop, leave it out, or write it to the --quarantine file.",
    ),
    click.option("--quarantine", type=FILE, help="File for bad rows: JSON lines with line, reason and row."),
    click.option(
        "--output", help="File for predictions, ending in .csv, .jsonl or .parquet; - for CSV on standard output."
    ),
    click.option(
        "--keep", type=Names(), multiple=True, callback=join_names,
        help="Columns, such as a time stamp or a key, to be written beside the predictions.",
    ),
    LEVEL_OPTION,
]  # fmt: skip


def add_options(options: list[Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command, in their order."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def read_options(options: dict[str, Any], **more: Any) -> ReadOptions:
    """Return the options that concern reading the input."""
    given = {
        "format": options["format_"],
        "delimiter": options["delimiter"],
        "header": not options["no_header"],
        "columns": options["columns"],
        "missing": options["missing"],
        "decimal": options["decimal"],
        "encoding": options["encoding"],
        "max_wait": (options.get("max_wait") or 1000.0) / 1000.0,
    }
    return ReadOptions(**{**given, **more})


def open_quarantine(options: dict[str, Any], size: int = 0) -> Quarantine:
    """Return the quarantine that the options ask for; a resumed file is first cut to `size` bytes."""
    return Quarantine(None if options["quarantine"] is None else str(options["quarantine"]), size)


def check_options(options: dict[str, Any], source: str, model: Path | None = None) -> None:
    """Raise UsageError for options that do not fit together, before anything is opened."""
    for text in (source, options["output"] or ""):
        if "://" in text and not is_address(text):
            scheme = text.partition("://")[0]
            raise click.UsageError(
                f"{scheme}:// is not known; the address of a broker is mqtt://host/topic or redis://host/stream, and "
                "for others a small program can write lines to standard input (see 'Brokers' in the documentation)"
            )
    _check_files(options, source, model)
    if (options["on_error"] == "quarantine") != (options["quarantine"] is not None):
        raise click.UsageError("--on-error quarantine and --quarantine FILE must be given together")
    if options.get("resume") and not options["checkpoint"]:
        raise click.UsageError("--resume needs --checkpoint FILE")
    if options.get("replay") and not options["resume"]:
        raise click.UsageError("--replay needs --resume")
    output = options["output"]
    is_file = output not in (None, "-") and not is_address(output)
    if is_file and Path(output).suffix.lower() not in (".csv", ".jsonl", ".ndjson", ".parquet"):
        raise click.UsageError(
            f"--output {output} must end in .csv, .jsonl or .parquet, be - for CSV on standard output, or the address "
            "of a broker (mqtt://host/topic, redis://host/stream)"
        )
    if options.get("checkpoint") and output and output.lower().endswith(".parquet"):
        raise click.UsageError(
            "Parquet output cannot be resumed; use CSV or JSON lines as --output with --checkpoint"
        )
    delimiter = options["delimiter"]
    if delimiter is not None and len(delimiter) != 1:
        raise click.UsageError(f"--delimiter {delimiter!r} must be one character")
    if delimiter == "," == options["decimal"]:
        raise click.UsageError("--delimiter and --decimal cannot both be a comma")
    if options.get("report_path"):
        if options["report_path"].suffix.lower() not in (".html", ".htm"):
            raise click.UsageError(f"--report {options['report_path']} must end in .html")
        try:
            import matplotlib  # noqa: F401  missing: to be said before the run, not after it
        except ImportError:
            raise click.UsageError("--report needs matplotlib: pip install 'streamgp[plot]'") from None


def _check_files(options: dict[str, Any], source: str, model: Path | None) -> None:
    """Raise UsageError if two files are the same, or a folder to write in does not exist."""
    named = {"INPUT": "/dev/stdin" if source == "-" and _is_file(sys.stdin) else source} | {
        flag: str(options[name])
        for flag, name in (
            ("--output", "output"), ("--quarantine", "quarantine"), ("--checkpoint", "checkpoint"),
            ("--save", "model_path"), ("--start-from", "start_from"), ("--report", "report_path"),
        )
        if options.get(name) is not None
    }  # fmt: skip
    addresses = [parse_address(text) for text in named.values() if is_address(text)]
    if len(addresses) == 2 and str(addresses[0]) == str(addresses[1]):
        raise click.UsageError(
            f"INPUT and --output are the same, {addresses[0]}; predictions would be read as rows"
        )
    named = {flag: text for flag, text in named.items() if not is_address(text)}
    if model is not None:
        named["MODEL"] = str(model)
    real = {flag: os.path.realpath(path) for flag, path in named.items() if path != "-"}
    for flag, path in real.items():
        for other, other_path in real.items():
            # Yesterday's model may be replaced by today's: it is read first, and replaced as a whole.
            replaced = {flag, other} == {"--start-from", "--save"}
            if other < flag and not replaced and _same_file(path, other_path):
                raise click.UsageError(
                    f"{flag} and {other} are the same file, {named[flag]}, which would be overwritten; name another"
                )
        folder = Path(path).parent
        if flag not in ("INPUT", "MODEL", "--start-from") and not (
            folder.is_dir() and os.access(folder, os.W_OK)
        ):
            raise click.UsageError(
                f"{flag} {named[flag]} cannot be written: there is no folder {folder} to write in"
            )


def _same_file(path: str, other: str) -> bool:
    return path == other or (os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other))


def _is_file(stream: Any) -> bool:
    """Return whether standard input is redirected from a regular file."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):
        return False


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Turn errors into a message and exit status 1, or 2 for a wrong parameter; a closed pipe is left to click."""
    try:
        yield
    except ParameterError as error:
        raise click.UsageError(str(error)) from error
    except StreamGPError as error:
        raise click.ClickException(str(error)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'a file'}: {error.strerror or error}") from error
