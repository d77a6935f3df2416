"""Runs are saved as they end, and an interrupted job continues."""

import json

import pytest

from experiments.paper import cells as module
from experiments.paper import studies
from experiments.paper.cells import Store, cells_of, run_all
from streamgp.datasets import load_arm
from streamgp.errors import DataError


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "QUICK_ROWS", 300)
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
