"""`python -m experiments.paper`: the whole path on the simulated arm."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from experiments.paper import cells
from experiments.paper.__main__ import reproduce


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(cells, "QUICK_ROWS", 300)


def run(folder, *more):
    return CliRunner().invoke(reproduce, ["--set", "arm", "--quick", "--output", str(folder), *more])


def test_the_whole_path_on_the_arm_leaves_results_a_page_and_tables(tmp_path, small):
    outcome = run(tmp_path)
    assert outcome.exit_code == 0, outcome.output
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["runs"]) == len(cells.cells_of("arm", quick=True))
    assert set(results["studies"]) == {
        f"{kind} | arm" for kind in ("theorem", "robustness", "fixed", "chance")
    }
    assert all(np.isfinite(run["seconds"]).all() for run in results["runs"].values())
    text = (tmp_path / "report.html").read_text()
    assert text.count("<figure>") == 2 * 4 + 1 + 3
    assert "http" not in text.replace("https://", "http://").split("<body>")[0]
    assert "simulated seven-joint arm" in text
    tables = (tmp_path / "tables.md").read_text()
    for title in ("Table I,", "Table II,", "Table III,", "Ratios,", "Theorem 1,", "Runaway and chance,"):
        assert title in tables


def test_without_data_the_error_says_what_to_put_where(tmp_path):
    outcome = CliRunner().invoke(
        reproduce, ["--data", str(tmp_path), "--output", str(tmp_path / "out"), "--set", "sarcos"]
    )
    assert outcome.exit_code == 1
    assert "sarcos_inv.mat" in outcome.output
    assert "gaussianprocess.org" in outcome.output
    assert not (tmp_path / "out").exists()
