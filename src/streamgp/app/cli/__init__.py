"""The command line: ``streamgp run | predict | info | demo``."""

from __future__ import annotations

import click

from ... import __version__
from .demo import demo
from .model import info, predict
from .run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="streamgp")
def main() -> None:
    """Gaussian process regression for data that never stops coming."""


for _command in (run, predict, info, demo):
    main.add_command(_command)
