"""Results are saved as they come, with the code that made them, and an interrupted run continues."""

import json

import pytest

from experiments.paper import tasks
from experiments.paper.store import Store, read
from experiments.paper.tasks import all_tasks, run_all
from streamgp.errors import DataError

ABOUT = {"quick": True, "rows": {"arm": 300}}
CHEAP = ("step 13", "theorem")


@pytest.fixture
def few():
    return [task for task in all_tasks("arm", quick=True) if task.group in CHEAP]


def start(folder, few, done=lambda task: None):
    store = Store(folder / "results.json", ABOUT)
    store.begin({"commit": "abc", "machine": "here"})
    try:
        run_all(store, few, folder="", jobs=1, done=done)
    finally:
        store.save()
    return store.content["tasks"]


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(tmp_path, few):
    seen = []

    def stop(task):
        seen.append(task.key)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, few, stop)
    kept = read(tmp_path / "results.json")["tasks"]
    assert sorted(kept) == sorted(seen)
    after = start(tmp_path, few)
    assert {k: after[k] for k in kept} == kept
    assert sorted(after) == sorted(task.key for task in few)
    assert all(after[task.key]["code"] == task.digest for task in few)


def test_results_of_other_settings_and_damaged_files_are_refused(tmp_path):
    path = tmp_path / "results.json"
    Store(path, ABOUT).save()
    assert Store(path, ABOUT).content["tasks"] == {}
    with pytest.raises(DataError, match="other settings"):
        Store(path, ABOUT | {"quick": False})
    for damaged in ("{", "[1, 2]", '{"about": {}}', '{"about": {}, "made": {}, "tasks": {}}'):
        path.write_text(damaged)
        with pytest.raises(DataError, match="remove it"):
            Store(path, ABOUT)


def test_every_task_has_a_key_of_its_own_and_all_rows_of_its_set():
    for name, rows in (("abalone", 4000), ("sarcos", 10_000)):
        found = all_tasks(name)
        assert len({task.key for task in found}) == len(found)
        short = {task.group for task in found if task.arguments["rows"] != rows}
        assert short == {"theorem", "step 13"}


def test_what_is_kept_is_plain_json():
    found = tasks._short({"a": float("inf"), "b": [1 / 3, None], "c": (True, "x")})
    assert json.loads(json.dumps(found)) == {"a": "diverges", "b": [0.333333, None], "c": [True, "x"]}
