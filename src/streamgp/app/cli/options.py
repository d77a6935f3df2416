"""What the commands share: types of options, checks before anything is opened, errors as messages."""

from __future__ import annotations

import math
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ...errors import ParameterError, StreamGPError
from ..outputs import Quarantine
from ..tables import ReadOptions


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas."""

    name = "name[,name]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names as a tuple."""
        if isinstance(value, tuple):
            return value
        return tuple(part.strip() for part in str(value).split(",") if part.strip())


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
INPUT_OPTIONS = [
    click.option(
        "--format", "format_", type=click.Choice(("csv", "jsonl", "parquet")),
        help="Format of the input; by default that of its suffix, and CSV for standard input.",
    ),
    click.option("--delimiter", help="Character between the cells of CSV; by default a comma, semicolon or tab."),
    click.option("--columns", type=Names(), help="Names of the columns, if the first line does not hold them."),
    click.option("--no-header", is_flag=True, help="The first line is a row; call the columns 1, 2, 3, …"),
    click.option(
        "--on-error", type=click.Choice(("fail", "skip", "quarantine")), default="fail", show_default=True,
        help="What to do with a bad row: stop, leave it out, or write it to the --quarantine file.",
    ),
    click.option("--quarantine", type=FILE, help="File for bad rows: JSON lines with line, reason and row."),
    click.option("--output", help="File for predictions, ending in .csv or .parquet; - for standard output."),
    click.option(
        "--level", default=0.9, show_default=True, type=click.FloatRange(0.001, 0.9999), callback=refuse_nan,
        help="Probability of the intervals.",
    ),
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
    }
    return ReadOptions(**{**given, **more})


def open_quarantine(options: dict[str, Any], size: int = 0) -> Quarantine:
    """Return the quarantine that the options ask for; a resumed file is first cut to `size` bytes."""
    return Quarantine(None if options["quarantine"] is None else str(options["quarantine"]), size)


def check_options(options: dict[str, Any], source: str, model: Path | None = None) -> None:
    """Raise UsageError for options that do not fit together, before anything is opened."""
    _check_files(options, source, model)
    if (options["on_error"] == "quarantine") != (options["quarantine"] is not None):
        raise click.UsageError("--on-error quarantine and --quarantine FILE must be given together")
    if options.get("resume") and not options["checkpoint"]:
        raise click.UsageError("--resume needs --checkpoint FILE")
    if options.get("replay") and not options["resume"]:
        raise click.UsageError("--replay needs --resume")
    output = options["output"]
    if output not in (None, "-") and Path(output).suffix.lower() not in (".csv", ".parquet"):
        raise click.UsageError(f"--output {output} must end in .csv or .parquet, or be - for standard output")
    if options.get("checkpoint") and output and output.lower().endswith(".parquet"):
        raise click.UsageError("Parquet output cannot be resumed; use a CSV --output with --checkpoint")
    delimiter = options["delimiter"]
    if delimiter is not None and len(delimiter) != 1:
        raise click.UsageError(f"--delimiter {delimiter!r} must be one character")
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
            ("--save", "model_path"), ("--report", "report_path"),
        )
        if options.get(name) is not None
    }  # fmt: skip
    if model is not None:
        named["MODEL"] = str(model)
    real = {flag: os.path.realpath(path) for flag, path in named.items() if path != "-"}
    for flag, path in real.items():
        for other, other_path in real.items():
            if other < flag and _same_file(path, other_path):
                raise click.UsageError(
                    f"{flag} and {other} are the same file, {named[flag]}, which would be overwritten; name another"
                )
        folder = Path(path).parent
        if flag not in ("INPUT", "MODEL") and not (folder.is_dir() and os.access(folder, os.W_OK)):
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
