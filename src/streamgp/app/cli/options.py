"""What the commands share on the command line: kinds of options, checks before anything is opened, errors."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ...errors import ParameterError, StreamGPError


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names between commas."""

    name = "name[,name]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """See click."""
        if isinstance(value, tuple):
            return value
        return tuple(part.strip() for part in str(value).split(",") if part.strip())


class Rank(click.ParamType):  # type: ignore[type-arg]
    """A whole number from 1 on, or "auto"."""

    name = "integer|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """See click."""
        if value == "auto":
            return "auto"
        return int(click.IntRange(1).convert(value, param, ctx))


def number(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse what click takes for a number and is none."""
    if value is not None and value != value:
        raise click.BadParameter("nan is not a number")
    return value


def joined(ctx: click.Context, param: click.Parameter, value: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Join the names of an option that is repeated, each once."""
    return tuple(dict.fromkeys(name for part in value for name in part))


FILE = click.Path(dir_okay=False, path_type=Path)
INPUT = [
    click.option(
        "--format", "format_", type=click.Choice(("csv", "jsonl", "parquet")),
        help="What the input is; by default its suffix says so, and standard input is CSV.",
    ),
    click.option("--delimiter", help="What stands between the cells of CSV; by default , or ; or a tab."),
    click.option(
        "--columns", type=Names(), help="Names of the columns, where the first line is a row already."
    ),
    click.option("--no-header", is_flag=True, help="The first line is a row; columns are called 1, 2, 3 and so on."),
    click.option(
        "--on-error", type=click.Choice(("fail", "skip", "quarantine")), default="fail", show_default=True,
        help="What to do with rows that are not finite numbers: stop, leave them out, or keep them in a file.",
    ),
    click.option(
        "--quarantine", type=FILE, help="Where `--on-error quarantine` writes bad rows: JSON with line and reason."
    ),
    click.option(
        "--output", help="Where predictions go: a file ending in .csv or .parquet, or - for standard output."
    ),
    click.option(
        "--level", default=0.9, show_default=True, type=click.FloatRange(0.001, 0.9999), callback=number,
        help="Probability of the intervals.",
    ),
]  # fmt: skip


def with_options(options: list[Any]) -> Callable[[Any], Any]:
    """Give a command several options, in their order."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _is_file(stream: Any) -> bool:
    """Tell whether standard input is a file that was redirected."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):
        return False


def check(options: dict[str, Any], source: str, model: Path | None = None) -> None:
    """Refuse options that do not fit together, before anything is opened."""
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
        for other, same in real.items():
            if other < flag and (
                path == same
                or (os.path.exists(path) and os.path.exists(same) and os.path.samefile(path, same))
            ):
                raise click.UsageError(
                    f"{flag} and {other} are the same file, {named[flag]}; it would be overwritten"
                )
        folder = Path(path).parent
        if flag not in ("INPUT", "MODEL") and not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise click.UsageError(
                f"{flag} {named[flag]} cannot be written: there is no folder {folder} to write in"
            )
    if (options["on_error"] == "quarantine") != (options["quarantine"] is not None):
        raise click.UsageError("--on-error quarantine and --quarantine FILE go together")
    if options.get("resume") and not options["checkpoint"]:
        raise click.UsageError("--resume needs --checkpoint FILE")
    if options.get("replay") and not options["resume"]:
        raise click.UsageError("--replay needs --resume")
    output = options["output"]
    if output not in (None, "-") and Path(output).suffix.lower() not in (".csv", ".parquet"):
        raise click.UsageError(f"--output {output} must end in .csv or .parquet, or be - for standard output")
    if options.get("checkpoint") and output and output.lower().endswith(".parquet"):
        raise click.UsageError("a Parquet file cannot be gone on with; with --checkpoint give a CSV --output")
    if options["delimiter"] is not None and len(options["delimiter"]) != 1:
        raise click.UsageError("--delimiter must be one character")
    if options.get("report_path"):
        if options["report_path"].suffix.lower() not in (".html", ".htm"):
            raise click.UsageError("--report must end in .html")
        try:
            import matplotlib  # noqa: F401  before the run, not after it
        except ImportError:
            raise click.UsageError("--report needs matplotlib: pip install 'streamgp[plot]'") from None


@contextmanager
def errors() -> Iterator[None]:
    """Turn what can go wrong into a message and exit status 1."""
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
