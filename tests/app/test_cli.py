import subprocess
import sys

from click.testing import CliRunner

from streamgp import __version__
from streamgp.app.cli import main


def test_the_demo_prints_a_table_and_draws_a_picture(tmp_path):
    picture = tmp_path / "deep" / "demo.png"
    result = CliRunner().invoke(main, ["demo", "--rows", "600", "--rank", "40", "--output", str(picture)])
    assert result.exit_code == 0, result.output
    assert all(method in result.output for method in ("pivoted", "srmf", "brmf", "nrmf", "rgp"))
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 20_000


def test_the_demo_can_be_asked_for_some_methods_only(tmp_path):
    arguments = [
        "demo",
        "--rows",
        "300",
        "--rank",
        "20",
        "--method",
        "rgp",
        "--output",
        str(tmp_path / "a.png"),
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "rgp" in result.output
    assert "srmf" not in result.output


def test_a_wrong_option_ends_with_status_2_and_says_which():
    result = CliRunner().invoke(main, ["demo", "--rows", "3"])
    assert result.exit_code == 2
    assert "--rows" in result.output


def output_of(*arguments):
    command = [sys.executable, "-m", "streamgp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_module_is_the_command():
    assert "Usage: streamgp" in output_of("--help")
    assert "Usage: streamgp demo" in output_of("demo", "--help")
    assert __version__ in output_of("--version")


def test_the_demo_refuses_what_it_could_not_finish(tmp_path):
    for arguments in (
        ["--rows", "200", "--batch", "200"],
        ["--output", "a.xyz"],
        ["--output", "/proc/no/a.png"],
    ):
        result = CliRunner().invoke(main, ["demo", *arguments])
        assert result.exit_code == 2, result.output
        assert arguments[0] in result.output
