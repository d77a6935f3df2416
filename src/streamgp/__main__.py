"""``python -m streamgp`` runs the command ``streamgp``."""

from .app.cli import main

main(prog_name="streamgp")
