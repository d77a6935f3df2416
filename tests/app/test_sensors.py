"""What a run has seen of each column."""

import numpy as np
import pytest

from app.helpers import random_rows, run
from streamgp.app.sensors import Sensors


def seen(X, batch, names="abcdefgh"):
    """The counts of rows given in batches, saved and restored in between."""
    sensors = Sensors.none(names[: X.shape[1]])
    for i in range(0, len(X), batch):
        sensors.add(X[i : i + batch])
        sensors = Sensors.from_dict(sensors.to_dict())
    return sensors


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("code", [-200.0, 9999.0, -999.0, 65535.0])
def test_a_frequent_code_far_from_the_other_values_is_pointed_out(batch, code):
    rng = np.random.default_rng(0)
    X = rng.uniform(10, 100, (500, 3))
    X[rng.permutation(500)[:20], 1] = code
    X[::50, 0] = np.nan
    sensors = seen(X, batch)
    assert list(sensors.suspicious()) == [("b", code, 20)]
    assert sensors.missing.tolist() == [10, 0, 0]
    np.testing.assert_array_equal(sensors.lowest.value, np.nanmin(X, axis=0))
    np.testing.assert_array_equal(-sensors.highest.value, np.nanmax(X, axis=0))
    said = list(sensors.lines())
    assert said[0] == "missing values in 500 rows: a 10"
    assert f"--missing {code:g}" in said[1]


@pytest.mark.parametrize("batch", [1, 100])
def test_ordinary_columns_are_not_suspected(batch):
    rng = np.random.default_rng(1)
    n = 1000
    X = np.stack(
        [
            rng.standard_normal(n) * 1000,  # noise
            np.minimum(rng.gamma(2, 500, n), 1023.0),  # at the limit of a converter
            rng.integers(0, 2, n) * 100.0,  # on or off
            np.where(rng.random(n) < 0.9, 0.0, rng.gamma(2, 3, n)),  # rain
            rng.choice([1.0, 2.0, 50.0], n),  # codes of products
            np.full(n, 999.0),  # constant
            np.arange(n, dtype=float),  # time
            np.where(np.arange(n) == 5, -999.0, rng.standard_normal(n)),  # one outlier
        ],
        axis=1,
    )
    assert list(seen(X, batch).suspicious()) == []


def test_a_run_points_out_a_code_in_features_and_targets(tmp_path):
    X, y = random_rows(300)
    X[5:25, 1], y[100:110] = -200, 9999
    lines = [f"{a},{b},{t}" for (a, b, _), t in zip(X, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *lines]))
    common = (tmp_path / "t.csv", "--target", "y", "--rank", 10, "--on-error", "skip")
    output = run(*common).output
    assert "-200 is far from all other values of b (20 rows)" in output
    assert "9999 is far from all other values of y (10 rows)" in output
    output = run(*common, "--missing", "-200", "--missing", "9999").output
    assert "missing values in 300 rows: b 20, y 10" in output
    assert "is far from" not in output


def test_a_row_of_which_one_target_is_known_is_learned(tmp_path):
    X, y = random_rows(300)
    lines = [f"{a},{b},{'' if i % 3 else t},{-t}" for i, ((a, b, _), t) in enumerate(zip(X, y, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,u,v", *lines]))
    outcome = run(tmp_path / "t.csv", "--target", "u,v", "--rank", 10)
    assert "300 rows, 300 learned" in " ".join(outcome.output.split()), outcome.output
    assert "missing values in 300 rows: u 200" in outcome.output


def test_a_run_learns_rows_with_gaps_and_counts_rows_without_any_feature(tmp_path):
    X, y = random_rows(300)
    cells = [[f"{v}" for v in row[:2]] for row in X]
    for i in range(10, 40):
        cells[i][i % 2] = ""
    cells[100] = cells[200] = ["", "NA"]
    lines = [f"{a},{b},{t}" for (a, b), t in zip(cells, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *lines]))
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 10, "--output", tmp_path / "p.csv")
    text = " ".join(outcome.output.split())
    assert "300 rows, 298 learned" in text, outcome.output
    assert (
        "missing values in 300 rows: b 17, a 17" in text or "missing values in 300 rows: a 17, b 17" in text
    )
    predictions = (tmp_path / "p.csv").read_text().splitlines()
    assert len(predictions) == 301
    assert all(predictions[101].split(","))
