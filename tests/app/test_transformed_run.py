"""`--target-transform`: predictions of a run in the units of the target, also after it was resumed."""

import csv

import numpy as np
from helpers import run


def test_a_run_of_positive_targets_predicts_no_negative_end_and_goes_on_with_its_transform(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(300)
    y = np.exp(x + 0.5 * rng.standard_normal(300))
    lines = [f"{a},{b}" for a, b in zip(x, y, strict=True)]
    table, out = tmp_path / "t.csv", tmp_path / "p.csv"
    table.write_text("\n".join(["x,y", *lines[:200], ""]))
    common = (table, "--target", "y", "--rank", 10, "--checkpoint", tmp_path / "c.gp", "--output", out)
    outcome = run(*common, "--target-transform", "log")
    assert outcome.exit_code == 0, outcome.output
    table.write_text("\n".join(["x,y", *lines, ""]))
    outcome = run(*common, "--target-transform", "log", "--resume")
    assert outcome.exit_code == 0, outcome.output
    with out.open() as file:
        rows = list(csv.DictReader(file))
    low, high = (np.array([float(row[f"y_{end}"] or "nan") for row in rows])[100:] for end in ("low", "high"))
    assert len(low) == 200
    assert (low >= 0).all()
    inside = (low <= y[100:]) & (y[100:] <= high)
    assert 0.8 < inside.mean() < 0.98  # 200 rows
    assert "target-transform" in run(*common, "--target-transform", "sqrt", "--resume").output.replace(
        "\n", ""
    )
