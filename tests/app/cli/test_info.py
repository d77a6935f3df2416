"""`streamgp info`."""

from app.helpers import invoke, run, write_csv


def test_info_says_what_a_model_holds(tmp_path):
    write_csv(tmp_path / "t.csv", 300)
    run(tmp_path / "t.csv", "--target", "y", "--rank", 30, "--checkpoint", tmp_path / "m.gp")
    outcome = invoke("info", tmp_path / "m.gp")
    assert outcome.exit_code == 0, outcome.output
    for part in ("pivoted, rank 30", "300", "a, b, c", "y", "up to line 301"):
        assert part in outcome.output
    assert invoke("info", tmp_path / "t.csv").exit_code == 1
