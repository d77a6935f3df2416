"""``streamgp export``: write a saved model as ONNX or C."""

from __future__ import annotations

import warnings
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from ...columns import StreamColumns
from ...errors import ExportWarning
from ...export import SUFFIXES
from ...export import export as export_model
from ...loading import load_with_more
from .models import feature_names, target_names
from .options import FILE, errors_as_messages


@click.command()
@click.argument("model", type=FILE)
@click.option(
    "--to", "path", required=True, metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
    help="What to write: FILE.c, one file of C99 without dependencies, or FILE.onnx.",
)  # fmt: skip
@click.option(
    "--dtype", default="float64", show_default=True, type=click.Choice(["float64", "float32"]),
    help="The type that it computes in. The rounding error of float32 is measured and shown.",
)  # fmt: skip
@click.option(
    "--level", default=0.9, show_default=True, type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Probability of the interval.",
)  # fmt: skip
@click.option("--prefix", default="streamgp", show_default=True, help="What the names in C begin with.")
def export(model: Path, path: Path, dtype: str, level: float, prefix: str) -> None:
    """Write a MODEL that `run` or `save` wrote so that it predicts without this library; it learns nothing more.

    Its answers are those of `predict`: mean, standard deviation and interval, calibrated, in the units of the targets.
    All of the panel is exported but the neighbours, which need the stored rows; the summary says what they had gained.
    """
    console = Console(stderr=True)
    if path.suffix not in SUFFIXES:
        raise click.UsageError(f"--to {path} must end in .c or .onnx, which says what to write")
    with errors_as_messages(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ExportWarning)  # the summary says the same
        gp, more = load_with_more(model)
        names, made = feature_names(gp, more), more.get("columns")
        if made:
            names = tuple(StreamColumns.from_dict(made).get_feature_names_out())
        done = export_model(
            gp, path, dtype=dtype, interval=level, prefix=prefix,  # type: ignore[arg-type]
            features=names, targets=target_names(gp, more),
        )  # fmt: skip
    console.print(escape(f"wrote {path}, {path.stat().st_size:,} bytes, {done.dtype}"))
    if dtype == "float32":
        console.print(
            f"rounding: mean {done.mean_error:.1g}, std {done.std_error:.1g} standard deviations at most, at "
            f"{done.rows} rows of the stream"
        )
    if made:
        console.print(
            escape(
                f"its features are numbers that `run` made of the columns; compute them first: {', '.join(names)}"
            )
        )
    for part in done.left_out:
        console.print(escape(f"left out: {part}"))
