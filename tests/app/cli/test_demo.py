"""`streamgp demo`."""

from app.helpers import invoke


def test_the_demo_prints_a_table_and_writes_a_figure(tmp_path):
    figure = tmp_path / "deep" / "demo.png"
    result = invoke("demo", "--rows", 600, "--rank", 40, "--output", figure)
    assert result.exit_code == 0, result.output
    assert all(method in result.output for method in ("pivoted", "srmf", "brmf", "nrmf", "rgp"))
    assert figure.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert figure.stat().st_size > 20_000


def test_the_demo_runs_only_the_methods_asked_for(tmp_path):
    result = invoke("demo", "--rows", 300, "--rank", 20, "--method", "rgp", "--output", tmp_path / "a.png")
    assert result.exit_code == 0, result.output
    assert "rgp" in result.output
    assert "srmf" not in result.output


def test_a_wrong_option_ends_with_status_2_and_is_named():
    result = invoke("demo", "--rows", 3)
    assert result.exit_code == 2
    assert "--rows" in result.output


def test_the_demo_refuses_what_it_could_not_finish():
    for arguments in (("--rows", 200, "--batch", 200), ("--output", "a.xyz"), ("--output", "/proc/no/a.png")):
        result = invoke("demo", *arguments)
        assert result.exit_code == 2, result.output
        assert arguments[0] in result.output
