"""CSV: names of columns, labels, numbers."""

import pandas as pd
import pytest

from app.helpers import random_rows, run, write_csv


def test_naming_the_features_equals_ignoring_the_other_columns(tmp_path):
    X, y = random_rows(300)
    frame = pd.DataFrame(X, columns=list("abc")).assign(u=y, v=-y, when="2026-01-01")
    frame.to_csv(tmp_path / "t.csv", index=False)
    outs = []
    for more in (("--features", "a,b", "--features", "c"), ("--ignore", "when")):
        out = tmp_path / "o.csv"
        outcome = run(tmp_path / "t.csv", "--target", "u,v", "--rank", 30, "--output", out, *more)
        assert outcome.exit_code == 0, outcome.output
        outs.append(out.read_text())
    assert outs[0] == outs[1]
    assert outs[0].startswith(
        "line,u_measured,u_mean,u_std,u_low,u_high,v_measured,v_mean,v_std,v_low,v_high\n"
    )


@pytest.mark.parametrize("text", ["1.5,2.5,3.5,4.5\n2,3,4,5\n", ""])
def test_a_first_line_without_names_says_what_to_do(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    outcome = run(tmp_path / "t.csv", "--target", "y")
    assert outcome.exit_code == 1
    assert ("--no-header" in outcome.output) if text else ("empty" in outcome.output)


def test_columns_without_a_header_are_named_by_number_or_by_the_user(tmp_path):
    write_csv(tmp_path / "t.csv", 200)
    body = (tmp_path / "t.csv").read_text().split("\n", 1)[1]
    (tmp_path / "u.csv").write_text(body)
    outs = []
    for path, target, more in (
        ("t", "y", ()),
        ("u", "4", ("--no-header",)),
        ("u", "y", ("--columns", "a,b,c,y")),
    ):
        out = tmp_path / "o.csv"
        assert (
            run(tmp_path / f"{path}.csv", "--target", target, "--rank", 30, "--output", out, *more).exit_code
            == 0
        )
        outs.append([line.split(",")[1:] for line in out.read_text().splitlines()[1:]])
    assert outs[0] == outs[1] == outs[2]


def test_a_blank_label_is_missing_whatever_the_other_columns_hold(tmp_path):
    write_csv(tmp_path / "plain.csv", 100)
    lines = (tmp_path / "plain.csv").read_text().splitlines()
    text = ["name," + lines[0], *(f"sensor_ü{i}," + line for i, line in enumerate(lines[1:]))]
    text[50] = text[50].rsplit(",", 1)[0] + ", "
    (tmp_path / "t.csv").write_text("\n".join(text) + "\n")
    outcome = run(tmp_path / "t.csv", "--target", "y", "--ignore", "name", "--rank", 10)
    assert outcome.exit_code == 0, outcome.output
    assert "1 rows without a label" in outcome.output
