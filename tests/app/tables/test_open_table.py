"""Reading a table: every format gives the same rows."""

import numpy as np

import streamgp
from app.helpers import random_rows, read_rows, run, write_formats


def test_every_format_gives_the_predictions_of_the_library(tmp_path):
    X, y = random_rows(300)
    X, y = X.round(6), y.round(6)
    gp = streamgp.StreamingGPRegressor(rank=40, random_state=3)
    expected = []
    for i in range(0, 300, 80):
        if i:
            expected.append(gp.predict(X[i : i + 80]))
        gp.partial_fit(X[i : i + 80], y[i : i + 80])
    for path in write_formats(tmp_path, X, y):
        out = tmp_path / "out.csv"
        outcome = run(path, "--target", "y", "--batch", 80, "--rank", 40, "--seed", 3, "--output", out)
        assert outcome.exit_code == 0, outcome.output
        got = read_rows(out)
        assert [row["y_mean"] for row in got[:80]] == [""] * 80
        np.testing.assert_array_equal([float(r["y_mean"]) for r in got[80:]], np.concatenate(expected))
        first = 2 if path.suffix in (".csv", ".tsv") else 1
        assert [int(r["line"]) for r in got] == list(range(first, first + 300))
        low, mean, high = (np.array([float(r[k]) for r in got[80:]]) for k in ("y_low", "y_mean", "y_high"))
        assert ((low < mean) & (mean < high)).all()
