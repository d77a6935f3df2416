"""``python -m streamgp`` is the command ``streamgp``."""

from .cli import main

main(prog_name="streamgp")
