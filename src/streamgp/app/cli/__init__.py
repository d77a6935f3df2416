"""The command line: ``streamgp run | predict | info | demo``."""

from __future__ import annotations

import click

from ... import __version__
from .demo import demo
from .info import info
from .predict import predict
from .run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="streamgp")
def main() -> None:
    """Gaussian process regression for data streams."""


for _command in (run, predict, info, demo):
    main.add_command(_command)
