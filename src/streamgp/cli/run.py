"""``streamgp run``, ``streamgp predict`` and ``streamgp info``: a stream from the shell."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .. import checkpoint
from ..errors import DataError, ParameterError, StreamGPError
from ..outputs import CsvWriter, ParquetWriter, Writer
from ..regressor import StreamingGPRegressor, load_with_more
from ..report import save_run_page, short
from ..session import Quarantine, Session, Tally
from ..tables import Place, Reader, open_table
from ..tuning import FAMILIES
from ..validation import METHODS

# Options that shape what is read and learned: a run that goes on has those it began with.
KEPT = (
    "targets", "features", "ignore", "batch", "method", "rank", "kernel", "seed", "guard", "forgetting", "level",
    "columns", "delimiter", "no_header", "format_",
)  # fmt: skip


class _Names(click.ParamType):  # type: ignore[type-arg]
    name = "name[,name]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(part.strip() for part in str(value).split(",") if part.strip())


class _Rank(click.ParamType):  # type: ignore[type-arg]
    name = "integer|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "auto":
            return "auto"
        return int(click.IntRange(1).convert(value, param, ctx))


def _number(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and value != value:
        raise click.BadParameter("nan is not a number")
    return value


def _joined(ctx: click.Context, param: click.Parameter, value: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in value for name in part))


_FILE = click.Path(dir_okay=False, path_type=Path)
_INPUT = [
    click.option(
        "--format", "format_", type=click.Choice(("csv", "jsonl", "parquet")),
        help="What the input is; by default its suffix says so, and standard input is CSV.",
    ),
    click.option("--delimiter", help="What stands between the cells of CSV; by default , or ; or a tab."),
    click.option(
        "--columns", type=_Names(), help="Names of the columns, where the first line is a row already."
    ),
    click.option("--no-header", is_flag=True, help="The first line is a row; columns are called 1, 2, 3 and so on."),
    click.option(
        "--on-error", type=click.Choice(("fail", "skip", "quarantine")), default="fail", show_default=True,
        help="What to do with rows that are not finite numbers: stop, leave them out, or keep them in a file.",
    ),
    click.option(
        "--quarantine", type=_FILE, help="Where `--on-error quarantine` writes bad rows: JSON with line and reason."
    ),
    click.option(
        "--output", help="Where predictions go: a file ending in .csv or .parquet, or - for standard output."
    ),
    click.option(
        "--level", default=0.9, show_default=True, type=click.FloatRange(0.001, 0.9999), callback=_number,
        help="Probability of the intervals.",
    ),
]  # fmt: skip


def _with(options: list[Any]) -> Callable[[Any], Any]:
    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@click.command()
@click.argument("source", metavar="INPUT")
@click.option(
    "--target", "targets", type=_Names(), multiple=True, callback=_joined, required=False,
    help="The column to predict; several by repeating it or with commas.",
)  # fmt: skip
@click.option(
    "--features", type=_Names(), multiple=True, callback=_joined,
    help="The columns to predict from; by default all others.",
)  # fmt: skip
@click.option(
    "--ignore",
    type=_Names(),
    multiple=True,
    callback=_joined,
    help="Columns that are no features, such as a time stamp.",
)
@click.option(
    "--batch",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="Rows predicted and learned at once.",
)
@click.option("--method", default="pivoted", show_default=True, type=click.Choice(METHODS))
@click.option(
    "--rank", default=500, show_default=True, type=_Rank(), help="Features that the model keeps, or auto."
)
@click.option(
    "--kernel", default="squared_exponential", show_default=True, type=click.Choice(tuple(FAMILIES)),
    help="Its length-scales start at the spread of the first rows and are tuned as the stream goes on.",
)  # fmt: skip
@click.option(
    "--forgetting", default=1.0, show_default=True, type=click.FloatRange(0, 1, min_open=True), callback=_number,
    help="What the past is multiplied by at each batch; below 1 the model follows drift.",
)  # fmt: skip
@click.option(
    "--guard", type=click.FloatRange(0, min_open=True), callback=_number,
    help="Leave rows out that lie more than this many deviations off, as a broken sensor sends them; try 10.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seeds every draw.")
@_with(_INPUT)
@click.option("--checkpoint", type=_FILE, help="Keep the model and the place in the input in this file.")
@click.option(
    "--every", default=10_000, show_default=True, type=click.IntRange(1), help="Rows between two checkpoints."
)
@click.option(
    "--resume", is_flag=True,
    help="Go on from the checkpoint if there is one, with no row lost or learned twice. A pipe goes on where its "
    "writer stands.",
)  # fmt: skip
@click.option(
    "--replay",
    is_flag=True,
    help="With --resume: standard input starts from its beginning again; skip what was passed.",
)
@click.option("--save", "model_path", type=_FILE, help="Write the model here at the end.")
@click.option(
    "--report", "report_path", type=_FILE, help="Write a page with pictures of the run here (.html)."
)
@click.option("--quiet", is_flag=True, help="No live line and no summary.")
@click.pass_context
def run(ctx: click.Context, /, source: str, **options: Any) -> None:
    """Predict each row of INPUT with an interval, then learn it.

    INPUT is a CSV, JSON lines or Parquet file, or - for standard input. Each batch is predicted before it is
    learned, so the errors and the coverage that are shown are those of rows the model had not seen. A row without a
    label is predicted and not learned.

    \b
      streamgp run plant.csv --target yield --output predictions.csv
      tail -n +1 -f log.csv | streamgp run - --target y --batch 1 --output -
      streamgp run big.parquet --target y --checkpoint run.gp --resume

    Exit status: 0 when the input ended, 1 after an error, 2 for wrong options, 130 when interrupted (the batch is
    finished and the checkpoint written first).
    """  # noqa: D301
    console = Console(stderr=True, quiet=options["quiet"])
    _check(options, source)
    stop = _Stop()
    with _errors(), stop.listening():
        try:
            session, reader, about = _start(ctx, source, options, stop)
        except KeyboardInterrupt:
            console.print("interrupted before the first line came")
            sys.exit(130)
        failure: DataError | None = None
        with _live(console, session, reader, about["targets"]) as show:
            try:
                for _ in session.run(
                    reader.batches(about["features"], about["targets"], about["batch"]), stop
                ):
                    show()
            except DataError as error:
                # What was learned before the row that is wrong is not lost.
                failure = error
                if session.save:
                    session.save(session, session.place)
        _finish(session, options, about)
        _summary(console, session, about)
        if reader.left:
            console.print("the last line does not end yet: it is left for the next run with --resume")
        fitted = session.gp.__sklearn_is_fitted__()
        if not fitted and (options["checkpoint"] or options["model_path"]):
            console.print("nothing was learned: no model is written")
        if stop.caught:
            again = ""
            if options["checkpoint"] and fitted:
                again = f"; the same command with --resume goes on after line {session.place.line}"
            console.print(f"interrupted{again}")
        if failure:
            raise failure
    if stop.caught:
        sys.exit(130)


def _is_file(stream: Any) -> bool:
    """Tell whether standard input is a file that was redirected."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):
        return False


def _check(options: dict[str, Any], source: str, model: Path | None = None) -> None:
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
def _errors() -> Iterator[None]:
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


class _Stop:
    """Whether to stop: the first Ctrl-C (or SIGTERM) asks to, the second one stops at once."""

    def __init__(self) -> None:
        self.caught = False

    def __call__(self) -> bool:
        return self.caught

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self.caught:
            sys.exit(130)
        self.caught = True

    @contextmanager
    def listening(self) -> Iterator[None]:
        try:
            before = {n: signal.signal(n, self._catch) for n in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _start(
    ctx: click.Context, source: str, options: dict[str, Any], stop: _Stop
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
        raise DataError(f"{source} has the columns {_few(names)}; those of {path} are {_few(kept['names'])}")
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
        _writer(options["output"], about["targets"], sizes[0], header=not kept),
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
        raise ParameterError(f"say what to predict with --target; the columns are {_few(reader.columns)}")
    known = reader.columns if not reader.open_ended else [*reader.columns, *options["targets"]]
    for flag, names in (
        ("target", options["targets"]),
        ("features", options["features"]),
        ("ignore", options["ignore"]),
    ):
        for name in names:
            if name not in known:
                raise ParameterError(f"--{flag} {name} is none of the columns {_few(reader.columns)}")
    both = set(options["targets"]) & set(options["features"])
    if both:
        raise ParameterError(f"{sorted(both)[0]} cannot be a target and a feature")
    left_out = {*options["targets"], *options["ignore"]}
    names = options["features"] or tuple(name for name in reader.columns if name not in left_out)
    names = tuple(name for name in names if name not in options["ignore"])
    if not names:
        raise ParameterError("no column is left to predict from; name them with --features")
    return tuple(names)


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _writer(
    output: str | None, targets: Sequence[str], size: int = 0, *, header: bool = True
) -> Writer | None:
    if output is None:
        return None
    names = [f"{target}{end}" for target in targets for end in ("", "_std", "_low", "_high")]
    twice = sorted({name for name in ["line", *names] if ["line", *names].count(name) > 1})
    if twice:
        raise ParameterError(
            f"the output would have two columns called {twice[0]}; rename a target in the input"
        )
    if output.lower().endswith(".parquet"):
        return ParquetWriter(output, names)
    return CsvWriter(output, names, size, header=header)


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


@contextmanager
def _live(
    console: Console, session: Session, reader: Reader, targets: Sequence[str]
) -> Iterator[Callable[[], None]]:
    """Show a line that follows the run, with a bar where the end is known."""
    columns = (
        BarColumn(bar_width=8),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    began, rows = time.perf_counter(), session.tally.rows
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("waiting for rows", total=reader.size)
        shown = 0.0

        def show() -> None:
            nonlocal shown
            now = time.perf_counter()
            if now - shown < 0.1:
                return
            shown = now
            rate = (session.tally.rows - rows) / max(now - began, 1e-9)
            bars.update(task, completed=session.place.offset, description=_line(session, rate, targets))

        yield show


def _line(session: Session, rate: float, targets: Sequence[str]) -> str:
    tally, gp = session.tally, session.gp
    parts = [f"{tally.rows:,}", f"{rate:,.0f}/s"]
    lately = tally.lately()
    if lately:
        error = lately[0] * tally.spread[0] if len(targets) == 1 else lately[0]
        parts += [
            f"error {error:.3g}{'' if len(targets) == 1 else ' of spread'}",
            f"in {session.level:.0%}: {lately[1]:.1%}",
        ]
    if gp.__sklearn_is_fitted__():
        parts += [f"rank {gp.rank_}", f"left {gp.trace_error_share_:.1%}"]
    if tally.bad or tally.impossible:
        parts.append(f"{tally.bad + tally.impossible:,} bad")
    return " · ".join(parts)


def _finish(session: Session, options: dict[str, Any], about: dict[str, Any]) -> None:
    """Close what was written, save the model, write the page."""
    if session.writer:
        session.writer.close()
    session.quarantine.flush()
    fitted = session.gp.__sklearn_is_fitted__()
    if options["model_path"] and fitted:
        session.gp.save(options["model_path"], features=about["features"], targets=about["targets"])
    if options["report_path"]:
        save_run_page(options["report_path"], session, about)


def _summary(console: Console, session: Session, about: dict[str, Any]) -> None:
    tally = session.tally
    table = Table(title=escape(f"{about['source']}: {tally.rows:,} rows, {tally.learned:,} learned"))
    for name in ("target", "RMSE", "RMSE / spread", "NLPD", f"in {session.level:.0%}"):
        table.add_column(name, justify="left" if name == "target" else "right")
    for j, target in enumerate(about["targets"]):
        n = tally.scored[j]
        if n:
            shown = [
                f"{tally.rmse[j]:.4g}",
                f"{tally.rmse[j] / tally.spread[j]:.3f}",
                f"{tally.density[j] / n:.3f}",
            ]
            table.add_row(escape(target), *shown, f"{tally.covered[j] / n:.1%}")
        else:
            table.add_row(escape(target), "–", "–", "–", "–")
    console.print(table)
    if tally.unlabelled:
        console.print(f"{tally.unlabelled:,} rows without a label: predicted, not learned")
    if tally.bad or tally.impossible:
        console.print(f"{tally.bad:,} bad rows, {tally.impossible:,} impossible ones; not learned:")
        for row in session.first_bad:
            console.print(f"  line {row.line}: {row.reason}", markup=False, highlight=False)
        if tally.bad + tally.impossible > len(session.first_bad):
            console.print("  …")
    for what in ("output", "quarantine"):
        path = getattr(session.writer if what == "output" else session.quarantine, "path", None)
        if path not in (None, "-"):
            console.print(f"{what}: {path}", markup=False, highlight=False)


@click.command()
@click.argument("model", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("source", metavar="DATA")
@click.option(
    "--batch", default=2000, show_default=True, type=click.IntRange(1), help="Rows predicted at once."
)
@_with(_INPUT)
@click.option("--quiet", is_flag=True, help="No live line and no summary.")
def predict(model: Path, source: str, **options: Any) -> None:
    """Predict each row of DATA with a MODEL that `run` or `save` wrote; nothing is learned.

    DATA is a CSV, JSON lines or Parquet file, or - for standard input, with the columns that the model learned, in any
    order. Without --output, predictions go to standard output. Where the targets stand there, too, the errors
    are summed up.
    """
    console = Console(stderr=True, quiet=options["quiet"])
    options["output"] = options["output"] or "-"
    _check(options, source, model)
    stop = _Stop()
    with _errors(), stop.listening():
        gp, more = load_with_more(model)
        try:
            reader = open_table(
                source, format=options["format_"], delimiter=options["delimiter"], header=not options["no_header"],
                columns=options["columns"], stopped=stop,
            )  # fmt: skip
        except KeyboardInterrupt:
            sys.exit(130)
        features = _learned_from(gp, more)
        # Rows come as arrays in the order of these names.
        gp.__dict__.pop("feature_names_in_", None)
        targets = tuple(more.get("targets") or gp.target_names_)
        if not features:
            features = tuple(name for name in reader.columns if name not in targets)
            if len(features) != gp.n_features_in_:
                raise DataError(
                    f"{source} has {len(features)} columns, the model learned {gp.n_features_in_} without names"
                )
        missing = [str(name) for name in features if name not in reader.columns]
        if missing:
            raise DataError(
                f"{source} lacks the column {missing[0]!r}; the model learned from {_few(features)}"
            )
        session = Session(
            gp, targets, options["level"], options["on_error"], _writer(options["output"], targets),
            Quarantine(None if options["quarantine"] is None else str(options["quarantine"])), Tally(len(targets)),
        )  # fmt: skip
        with _live(console, session, reader, targets) as show:
            for _ in session.run(reader.batches(features, targets, options["batch"]), stop, learn=False):
                show()
        if session.writer:
            session.writer.close()
        session.quarantine.flush()
        if session.tally.scored.any() or session.tally.bad:
            _summary(console, session, {"source": source, "targets": targets})
    if stop.caught:
        sys.exit(130)


@click.command()
@click.argument("model", type=click.Path(dir_okay=False, path_type=Path))
def info(model: Path) -> None:
    """Say what a MODEL that `run` or `save` wrote holds."""
    console = Console()
    with _errors():
        gp, more = load_with_more(model)
    lines = {
        "file": f"{model}, {model.stat().st_size:,} bytes",
        "method": f"{gp.method}, rank {gp.rank_}" + ("" if gp.rank == "auto" else f" of at most {gp.rank}"),
        "rows learned": f"{gp.n_samples_seen_:,}" + (f", {gp.n_refused_:,} refused" if gp.n_refused_ else ""),
        "kernel": short(gp.kernel_),
        "noise": f"{gp.noise_:.4g} of the standardised targets",
        "tr K left": f"{gp.trace_error_share_:.2%}",
        "features": _few(_learned_from(gp, more)) or f"{gp.n_features_in_} without names",
        "targets": _few([str(n) for n in more.get("targets") or gp.target_names_]),
        "tuned": f"tune={gp.tune!r}, {gp.tuning_seconds_:.1f} s in all",
        "90 % interval": f"{_reaches(gp)} standard deviations (a normal one: 1.64)",
    }
    run = more.get("run")
    if run:
        lines["run over"] = f"{run['source']}, up to line {run['place'][1]:,}"
    table = Table(show_header=False, box=None)
    for name, value in lines.items():
        table.add_row(name, escape(value))
    console.print(table)


def _learned_from(gp: StreamingGPRegressor, more: dict[str, Any]) -> tuple[str, ...]:
    """Give the names of the features, where the model knows them."""
    names = more.get("features") or getattr(gp, "feature_names_in_", None)
    return () if names is None else tuple(str(name) for name in names)


def _reaches(gp: StreamingGPRegressor) -> str:
    reach = gp._reach(0.9, True)
    values = [float(reach)] if isinstance(reach, float) else [float(v) for v in reach]
    return ", ".join(f"{v:.2f}" for v in values)
