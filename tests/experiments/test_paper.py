"""The paper's experiments, run again: the whole path on the simulated arm, and the theorem."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from experiments.paper import cells as module
from experiments.paper import page, studies
from experiments.paper.__main__ import reproduce
from experiments.paper.cells import Store, cells_of, run_all
from experiments.paper.printed import NUMBERS, REASONS, verdict
from streamgp.datasets import load_arm
from streamgp.errors import DataError


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(module, "QUICK_ROWS", 300)


def run(folder, *more):
    return CliRunner().invoke(reproduce, ["--set", "arm", "--quick", "--output", str(folder), *more])


def test_the_whole_path_on_the_arm_leaves_results_a_page_and_tables(tmp_path, small):
    outcome = run(tmp_path)
    assert outcome.exit_code == 0, outcome.output
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["runs"]) == len(cells_of("arm", quick=True))
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


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(tmp_path, small, monkeypatch):
    done = []
    original = module.run_cell

    def counted(cell, *rest):
        if len(done) == 5:
            raise KeyboardInterrupt
        done.append(cell.key)
        return original(cell, *rest)

    data = {"arm": load_arm(400)}
    monkeypatch.setattr(module, "run_cell", counted)
    monkeypatch.setattr(studies, "STUDIES", {})
    about = {"settings": {"seed": 0}, "lines": []}

    def start():
        store = Store(tmp_path / "results.json", about)
        run_all(store, data, quick=True, seed=0, started=lambda *_: lambda: None)
        return store.content

    with pytest.raises(KeyboardInterrupt):
        start()
    kept = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert list(kept) == done
    monkeypatch.setattr(module, "run_cell", original)
    after = start()["runs"]
    assert {k: after[k] for k in kept} == kept
    assert len(after) == len(cells_of("arm", quick=True))


def test_results_of_other_settings_are_not_mixed_in(tmp_path):
    path = tmp_path / "results.json"
    store = Store(path, {"settings": {"seed": 0}, "lines": []})
    names = ("table", "row", "data", "protocol", "rows", "rmse", "seconds", "rows_seen", "failure")
    names += ("tuning_seconds", "tunings", "tunings_taken")
    store.content["runs"]["a"] = dict.fromkeys(names)
    store.save()
    assert Store(path, {"settings": {"seed": 0}, "lines": []}).content["runs"]
    with pytest.raises(DataError, match="other settings"):
        Store(path, {"settings": {"seed": 1}, "lines": []})
    for damaged in ("{", "[1, 2]", '{"about": {}}', '{"about": {}, "runs": {"a": {}}, "studies": {}}'):
        path.write_text(damaged)
        with pytest.raises(DataError, match="remove it"):
            Store(path, {"settings": {}, "lines": []})


@pytest.mark.parametrize("rank", [10, 30])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_bound_of_theorem_1_holds(rank, seed):
    study = studies.theorem(load_arm(1500, seed=seed), quick=True, seed=seed, rank=rank)
    for kind in ("literal", "projected"):
        assert (np.array(study[kind]) <= np.array(study["bound"])).all()
    # No factor of this rank is better than the next singular value.
    assert (np.array(study["projected"]) >= 0.999 * np.array(study["best"])).all()


def test_the_printed_algorithm_diverges_where_rank_and_noise_are_small_and_the_projected_one_does_not():
    study = studies.robustness(load_arm(1500), quick=True, seed=0)
    projected = np.array(study["projected"], dtype=float)
    literal = np.array([[np.inf if v is None else v for v in row] for row in study["literal"]])
    assert (projected < 2).all()
    assert literal[0, 0] > 10 * projected[0, 0]


def test_verdicts_follow_the_numbers_and_every_difference_has_a_reason():
    assert verdict("I", "SRMF", "abalone", "self-training", 2.9) == "better"
    assert verdict("I", "SRMF", "abalone", "self-training", 3.25) == "agrees"
    assert verdict("I", "SRMF, tuned once", "sarcos", "self-training", 12.0).startswith("differs: these are")
    assert verdict("I", "SRMF", "sarcos", "self-training", np.inf).startswith("diverges")
    assert verdict("I", "SRMF, as printed", "sarcos", "self-training", np.inf).startswith(
        "diverges: the algorithm"
    )
    assert verdict("I", "pivoted", "sarcos", "self-training", 1.0) == "not in the paper"
    assert set(REASONS) <= set(NUMBERS)


def test_a_failed_run_shows_as_such():
    run = {"rmse": [None, 1.0], "seconds": [], "failure": "stopped after 1 batches: no"}
    assert page.mean_rmse(run) == np.inf


def test_without_data_the_error_says_what_to_put_where(tmp_path):
    outcome = CliRunner().invoke(
        reproduce, ["--data", str(tmp_path), "--output", str(tmp_path / "out"), "--set", "sarcos"]
    )
    assert outcome.exit_code == 1
    assert "sarcos_inv.mat" in outcome.output
    assert "gaussianprocess.org" in outcome.output
    assert not (tmp_path / "out").exists()
