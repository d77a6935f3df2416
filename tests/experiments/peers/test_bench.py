"""`python -m experiments.peers`: our own methods through the whole path."""

import json

import pytest
from click.testing import CliRunner

from experiments import common
from experiments.common import data_folder
from experiments.peers.__main__ import bench

DATA = data_folder()
real_data = pytest.mark.skipif(not (DATA / "abalone.data").exists(), reason=f"real data is not there: {DATA}")


@real_data
def test_the_whole_path_leaves_results_tables_and_a_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "CONTENDED", 99.0)  # tests run beside tests
    command = ["--data", str(DATA), "--set", "abalone", "--budget", "1", "--output", str(tmp_path)]
    for peer in ("pivoted 100", "pivoted 500", "random Fourier 500"):
        command += ["--peer", peer]
    outcome = CliRunner().invoke(bench, command)
    assert outcome.exit_code == 0, outcome.output
    results = json.loads((tmp_path / "bench.json").read_text())["results"]
    assert set(results) == {f"{p} | abalone" for p in ("pivoted 100", "pivoted 500", "random Fourier 500")}
    assert all("failure" not in r for r in results.values())
    assert "ours against it" in (tmp_path / "bench.md").read_text()
    assert (tmp_path / "bench.png").stat().st_size > 10_000
    before = (tmp_path / "bench.json").stat().st_mtime_ns
    assert CliRunner().invoke(bench, command).exit_code == 0  # nothing is run again
    assert (tmp_path / "bench.json").stat().st_mtime_ns == before


def test_without_data_the_error_says_so(tmp_path):
    outcome = CliRunner().invoke(bench, ["--data", str(tmp_path), "--output", str(tmp_path / "o")])
    assert outcome.exit_code == 1
    assert "cannot be read" in outcome.output


@real_data
@pytest.mark.parametrize("text", ["{bad", "", "[]", '{"budget": 1}'])
def test_a_damaged_bench_is_named(tmp_path, text):
    (tmp_path / "bench.json").write_text(text)
    command = ["--data", str(DATA), "--set", "abalone", "--budget", "1", "--output", str(tmp_path)]
    outcome = CliRunner().invoke(bench, command)
    assert outcome.exit_code == 1
    assert "was not written by this benchmark" in " ".join(outcome.output.split())
    assert (tmp_path / "bench.json").read_text() == text


@real_data
def test_another_budget_does_not_wipe_a_bench_and_failures_run_again(tmp_path):
    failed = {"peer": "pivoted 100", "set": "abalone", "settings": "", "failure": "no module"}
    kept = {"budget": 2.0, "lines": ["then"], "results": {"pivoted 100 | abalone": failed}}
    (tmp_path / "bench.json").write_text(json.dumps(kept))
    command = ["--data", str(DATA), "--set", "abalone", "--peer", "pivoted 100", "--output", str(tmp_path)]
    assert CliRunner().invoke(bench, [*command, "--budget", "3"]).exit_code == 1
    assert json.loads((tmp_path / "bench.json").read_text()) == kept
    assert CliRunner().invoke(bench, [*command, "--budget", "2"]).exit_code == 0
    after = json.loads((tmp_path / "bench.json").read_text())
    assert "rmse" in after["results"]["pivoted 100 | abalone"]
    assert after["lines"] == ["then"]
