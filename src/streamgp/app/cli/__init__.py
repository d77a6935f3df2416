"""The command line: ``streamgp run | serve | predict | info | export | demo``."""

from __future__ import annotations

import click

from ... import __version__
from .demo import demo
from .export import export
from .info import info
from .predict import predict
from .run import run
from .serve import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="streamgp")
def main() -> None:
    """Gaussian process regression for data streams."""


for _command in (run, serve, predict, info, export, demo):
    main.add_command(_command)
