"""Laws of threads: any number of readers, writers in turn, and every answer that of one model."""

import copy
import gc
import multiprocessing
import pickle
import sys
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import wave
from streamgp import StreamingGPRegressor, locking
from streamgp.learner import Learner
from streamgp.locking import writing
from streamgp.methods.base import Prediction
from streamgp.methods.recent import Recent
from streamgp.parameters import used_by


@pytest.fixture
def tiny_switch_interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("asked", [{}, {"return_std": True}, {"return_cov": True}, {"return_interval": 0.8}])
@pytest.mark.parametrize("method", ["pivoted", "nrmf", "srmf"])
def test_an_answer_is_that_of_one_model_whenever_another_is_committed(asked, method, monkeypatch):
    """Another thread's fit, of other units and other columns, falls into the middle of predict."""
    X, y = wave(80)
    gp = StreamingGPRegressor(**used_by(method, rank=30), random_state=0, tune="none").fit(X, y)
    right = gp.predict(X[:5], **asked)
    model = type(gp.learner_.state)
    original = model.predict

    def meddled(self, *args, **kwargs):
        out = original(self, *args, **kwargs)
        monkeypatch.setattr(model, "predict", original)
        gp.fit(np.hstack([X, X]), 1e6 * (1 + np.stack([y, y], axis=1)))
        return out

    gp.learner_.state.recent._last = None  # what was predicted last would be answered from memory
    monkeypatch.setattr(model, "predict", meddled)
    answer = gp.predict(X[:5], **asked)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (answer, right)), strict=True):
        assert_allclose(a, b, rtol=1e-12)
    assert gp.n_features_in_ == 6


def test_readers_never_see_two_models_mixed(tiny_switch_interval):
    X, y = wave(60)
    arguments = {"rank": 30, "random_state": 0, "tune": "none"}
    new = wave(600, seed=1)[0]
    right = [StreamingGPRegressor(**arguments).fit(X, s * (1 + y)).predict(new, True) for s in (1, 1e6)]
    gp = StreamingGPRegressor(**arguments).fit(X, 1 + y)
    done, wrong = threading.Event(), []

    def read():
        while not done.is_set():
            answer = gp.predict(new, return_std=True)
            if not any(all(np.allclose(a, b) for a, b in zip(answer, r, strict=True)) for r in right):
                wrong.append(answer)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    until = time.monotonic() + 2.0
    k = 0
    while time.monotonic() < until:
        k += 1
        gp.fit(X, (1e6 if k % 2 else 1) * (1 + y))
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong


def test_what_was_computed_last_is_looked_at_once():
    """Between two looks another thread may have put its own rows there."""
    mine, other = np.ones((1, 2)), np.zeros((1, 2))

    ours, theirs = (Prediction(np.zeros((1, 1)), np.ones(1), features=np.ones((1, 1))) for _ in range(2))

    class Racing(Recent):
        looks = 0

        @property
        def _last(self):
            Racing.looks += 1
            return (other, theirs) if Racing.looks % 2 else (mine, ours)

        @_last.setter
        def _last(self, value):
            pass

    recent = Racing()
    for _ in range(4):
        assert recent.predict(mine, lambda *_: ours, variance=True) is ours
        assert recent.features(mine, lambda _: ours.features) is ours.features


def test_a_row_gets_its_own_prediction_whoever_else_asks(tiny_switch_interval):
    X, y = wave(100)
    gp = StreamingGPRegressor(rank=30, random_state=0, tune="none").fit(X, y)
    rows = [X[i : i + 1] for i in range(3)]
    right = [float(gp.predict(row, return_std=True)[0][0]) for row in rows]
    done, wrong = threading.Event(), []

    def read(seed):
        rng = np.random.default_rng(seed)
        while not done.is_set():
            i = int(rng.integers(3))
            if abs(float(gp.predict(rows[i], return_std=True)[0][0]) - right[i]) > 1e-9:
                wrong.append(i)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for reader in readers:
        reader.start()
    time.sleep(2.0)
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "rgp"])
def test_writers_wait_for_each_other_and_no_row_is_lost(method, monkeypatch):
    X, y = wave(240)
    gp = StreamingGPRegressor(**used_by(method, rank=30), random_state=0, tune="none").fit(X[:60], y[:60])
    original = Learner.update

    def slow(self, *args):
        time.sleep(0.005)  # time for another writer to read the model that this one is about to replace
        return original(self, *args)

    monkeypatch.setattr(Learner, "update", slow)

    def write(start):
        for i in range(start, start + 60, 10):
            gp.partial_fit(X[i : i + 10], y[i : i + 10])

    writers = [threading.Thread(target=write, args=(start,)) for start in (60, 120, 180)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert gp.n_samples_seen_ == 240
    assert gp.learner_.state.count == 240


def test_merging_and_unlearning_take_their_turn_too():
    X, y = wave(200)
    gp, other = (StreamingGPRegressor(random_state=0, noise=0.1, kernel="matern32") for _ in range(2))
    for g in (gp, other):
        g.fit(X, y)
    with writing(gp):
        threads = [
            threading.Thread(target=task, daemon=True)
            for task in (lambda: gp.merge(other), lambda: gp.unlearn(X[:9], y[:9]))
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        assert gp.n_samples_seen_ == 200  # both wait
    for thread in threads:
        thread.join()
    assert gp.n_samples_seen_ == 391


def test_a_reader_does_not_wait_for_a_writer(monkeypatch):
    X, y = wave(100)
    gp = StreamingGPRegressor(rank=30, random_state=0, tune="none").fit(X, y)
    answered, original = threading.Event(), Learner.update

    def waiting(self, *args):
        assert answered.wait(timeout=30)
        return original(self, *args)

    monkeypatch.setattr(Learner, "update", waiting)
    writer = threading.Thread(target=gp.partial_fit, args=(X[:10], y[:10]))
    writer.start()
    gp.predict(X[:10], return_std=True)
    answered.set()
    writer.join(timeout=60)
    assert gp.n_samples_seen_ == 110


def test_arguments_that_are_set_while_rows_are_learned_stay_set(monkeypatch):
    X, y = wave(100)
    gp = StreamingGPRegressor(rank=30, random_state=0).fit(X, y)
    original = Learner.update

    def setting(self, *args):
        gp.set_params(tune="none")
        return original(self, *args)

    monkeypatch.setattr(Learner, "update", setting)
    assert gp.partial_fit(X[:10], y[:10]).tune == "none"


def test_copies_and_pickles_carry_no_lock():
    X, y = wave(60)
    gp = StreamingGPRegressor(random_state=0, tune="none").fit(X, y)
    with writing(gp):
        for other in (copy.copy(gp), copy.deepcopy(gp), pickle.loads(pickle.dumps(gp))):
            thread = threading.Thread(target=other.partial_fit, args=(X[:5], y[:5]), daemon=True)
            thread.start()
            thread.join(timeout=30)
            assert other.n_samples_seen_ == 65
    assert gp.n_samples_seen_ == 60


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system has no fork")
def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent():
    X, y = wave(60)
    gp = StreamingGPRegressor(random_state=0, tune="none").fit(X, y)
    context = multiprocessing.get_context("fork")
    held, release = threading.Event(), threading.Event()

    def hold():
        with writing(gp):
            held.set()
            release.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    child = context.Process(target=gp.partial_fit, args=(X[:5], y[:5]))
    child.start()
    child.join(timeout=60)
    release.set()
    holder.join()
    alive = child.is_alive()
    child.kill()
    assert not alive
    assert child.exitcode == 0


def test_a_subclass_with_an_equality_of_its_own_can_learn():
    class Equal(StreamingGPRegressor):
        def __eq__(self, other):
            return isinstance(other, Equal)

    X, y = wave(60)
    assert Equal(random_state=0).fit(X, y).n_samples_seen_ == 60


def test_locks_go_with_their_owners():
    X, y = wave(10)
    before = len(locking._locks)
    for _ in range(5):
        StreamingGPRegressor(random_state=0).fit(X, y)
    gc.collect()
    assert len(locking._locks) <= before
