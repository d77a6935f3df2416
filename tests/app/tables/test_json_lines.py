"""JSON lines, and nulls of Parquet: which rows are bad."""

import json

import numpy as np
import pandas as pd

from app.helpers import random_rows, run, write_csv


def test_bad_json_is_bad_rows_and_nulls_are_missing_values(tmp_path):
    X, y = random_rows(200)
    lines = [json.dumps({"a": x[0], "b": x[1], "y": t}) for x, t in zip(X.tolist(), y.tolist(), strict=True)]
    lines[30:36] = [
        "{", "[1, 2]", '{"a": true, "b": 1, "y": 2}', '{"a": "3", "b": 1, "y": 2}', '{"b": 1, "y": 2}',
        '{"a": NaN, "b": 1, "y": 2}',
    ]  # fmt: skip
    lines[40] = '{"a": 1, "b": 1, "y": null}'
    lines[41] = f'{{"a": {10**400}, "b": 1, "y": 1}}'
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    outcome = run(tmp_path / "t.jsonl", "--target", "y", "--rank", 30, "--on-error", "skip")
    assert "5 bad rows" in outcome.output, outcome.output
    assert "missing values in 195 rows: a 2, y 1" in outcome.output
    assert "1 rows without a label" in outcome.output
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    frame.loc[3, "a"] = None
    frame.loc[4, "y"] = None
    frame.loc[5, "b"] = np.inf
    frame.to_parquet(tmp_path / "t.parquet")
    outcome = run(tmp_path / "t.parquet", "--target", "y", "--rank", 30, "--on-error", "skip")
    assert "1 bad rows" in outcome.output, outcome.output
    assert "missing values in 199 rows: a 1, y 1" in outcome.output


def test_json_rows_may_lack_the_label_at_first_and_csv_numbers_are_ascii_without_underscores(tmp_path):
    X, y = random_rows(100)
    lines = [json.dumps({"a": x[0], "y": t}) for x, t in zip(X.tolist(), y.tolist(), strict=True)]
    lines[0] = json.dumps({"a": 1.0})
    (tmp_path / "t.jsonl").write_text("\ufeffnot json\n" + "\n".join(lines))
    outcome = run(tmp_path / "t.jsonl", "--target", "y", "--rank", 10, "--on-error", "skip")
    assert outcome.exit_code == 0, outcome.output
    assert "1 bad rows" in outcome.output
    write_csv(tmp_path / "t.csv", 100, l20="1_0,1,1,1", l30="٣,1,1,1")
    assert "2 bad rows" in run(tmp_path / "t.csv", "--target", "y", "--rank", 10, "--on-error", "skip").output
