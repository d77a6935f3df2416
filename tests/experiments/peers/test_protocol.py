"""A method on a stream: each batch predicted, then learned, within its budget."""

import time

import numpy as np
import pytest

from experiments import common
from experiments.common import data_folder, standardised
from experiments.peers import protocol
from experiments.peers.peers import PEERS, Entry
from experiments.peers.protocol import run

DATA = data_folder()
real_data = pytest.mark.skipif(not (DATA / "abalone.data").exists(), reason=f"real data is not there: {DATA}")


class Recorder:
    """A peer that notes what is asked of it, and takes its time."""

    def __init__(self, pause=0.0):
        self.calls, self.pause = [], pause

    def learn(self, X, y):
        self.calls.append(("learn", len(X), float(X[0, 0])))

    def predict(self, X):
        time.sleep(self.pause)
        self.calls.append(("predict", len(X), float(X[0, 0])))
        return np.zeros(len(X)), np.ones(len(X))


def recorded(monkeypatch, budget, pause=0.0):
    made = []
    entry = Entry(lambda given: made.append(Recorder(pause)) or made[-1], "none")
    monkeypatch.setitem(PEERS, "goppy", entry)
    return run(DATA, "abalone", "goppy", budget), made[-1].calls


@real_data
def test_every_batch_is_predicted_before_it_is_learned(monkeypatch):
    found, calls = recorded(monkeypatch, 100.0)
    assert calls[0][:2] == ("learn", 500)
    assert [c[0] for c in calls[1:]] == ["predict", "learn"] * 35
    assert all(a[1:] == b[1:] for a, b in zip(calls[1::2], calls[2::2], strict=True))
    assert found["ended"] is None
    assert found["rows"] == 4000
    _, y = standardised("abalone")
    np.testing.assert_allclose(found["rmse"], np.sqrt(np.mean(y[500:] ** 2)), rtol=1e-12)


@real_data
def test_a_budget_ends_a_peer_and_its_time_is_that_of_its_calls(monkeypatch):
    found, _ = recorded(monkeypatch, 0.2, pause=0.02)
    assert found["ended"] == "budget"
    assert 10 <= len(found["batches"]) - 1 + 1 <= 11
    assert 0.02 <= found["seconds"] < 0.04


@real_data
def test_a_peer_that_breaks_down_is_judged_by_what_it_reached(monkeypatch):

    class Breaks:
        batches = 0

        def learn(self, X, y):
            self.batches += 1
            if self.batches > 10:
                raise MemoryError

        def predict(self, X):
            return np.zeros(len(X)), np.ones(len(X))

    monkeypatch.setitem(PEERS, "goppy", Entry(lambda given: Breaks(), "none"))
    found = run(DATA, "abalone", "goppy", 100.0)
    assert found["ended"] == "MemoryError: "
    assert found["rows"] == 500 + 9 * 100
    assert len(found["batches"]) == 9


@real_data
def test_a_run_beside_other_work_is_repeated(monkeypatch):
    clock = iter([0.0, 1000.0, 2000.0, 2000.0])
    monkeypatch.setattr(common, "busy_seconds", lambda: next(clock))
    found = protocol.run_apart(DATA, "abalone", "pivoted 100", 1.0)
    assert found["tries"] == 2
