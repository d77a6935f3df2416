"""``streamgp info``: describe a saved model."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...loading import load_with_more
from ...parameters import GAUSSIAN
from ..report import noise_text, short_kernel
from ..roles import first_names
from .models import feature_names, target_names
from .options import FILE, errors_as_messages


@click.command()
@click.argument("model", type=FILE)
def info(model: Path) -> None:
    """Show what a MODEL that `run` or `save` wrote has learned."""
    console = Console()
    with errors_as_messages():
        gp, more = load_with_more(model)
    interval = "between quantiles of the likelihood"
    if gp.likelihood == GAUSSIAN:
        factors = ", ".join(f"{factor:.2f}" for factor in np.ravel(gp.interval_factor(0.9)))
        interval = f"{factors} standard deviations (normal distribution: 1.64)"
    lines = {
        "file": f"{model}, {model.stat().st_size:,} bytes",
        "method": f"{gp.method}, rank {gp.rank_}" + ("" if gp.rank == "auto" else f" of at most {gp.rank}"),
        "rows learned": f"{gp.n_samples_seen_:,}" + (f", {gp.n_refused_:,} refused" if gp.n_refused_ else ""),
        "kernel": short_kernel(gp.kernel_),
        "noise": f"{noise_text(gp)}, of standardised targets",
        "tr K left": f"{gp.trace_error_share_:.2%}",
        "features": first_names(feature_names(gp, more)) or f"{gp.n_features_in_} without names",
        "targets": first_names(target_names(gp, more)),
        "tuned": f"tune={gp.tune!r}, {gp.tuning_seconds_:.1f} s in all",
        "90 % interval": interval,
    }
    run = more.get("run")
    if run:
        lines["run over"] = f"{run['source']}, up to line {run['position'][1]:,}"
    table = Table(show_header=False, box=None)
    for name, value in lines.items():
        table.add_row(name, escape(value))
    console.print(table)
