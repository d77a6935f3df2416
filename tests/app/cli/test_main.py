"""`python -m streamgp` and `streamgp` are the same command."""

import subprocess
import sys

from streamgp import __version__


def output_of(*arguments):
    command = [sys.executable, "-m", "streamgp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_module_is_the_command():
    assert "Usage: streamgp" in output_of("--help")
    assert "Usage: streamgp demo" in output_of("demo", "--help")
    assert __version__ in output_of("--version")
