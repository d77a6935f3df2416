"""The page about a run."""

from app.helpers import run, write_csv


def test_the_report_is_one_page_with_five_figures(tmp_path):
    write_csv(tmp_path / "t.csv", 600, l300="x,1,1,1")
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--rank", 30, "--batch", 10, "--on-error", "skip", "--report",
        tmp_path / "r.html",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    text = (tmp_path / "r.html").read_text()
    assert text.count("data:image/png") == 5
    assert "http" not in text
