"""Laws of tuning beside the stream: the same bits with and without a thread, and no thread outlives its model."""

import copy
import gc
import multiprocessing
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor, load
from streamgp.parameters import used_by
from streamgp.tuning import background

X, Y = wave(800)
SETTINGS = {
    "single rows": (1, {"rank": 30, "method": "pivoted"}),
    "batches of 37": (37, {"rank": 60, "method": "pivoted"}),
    "a kernel and forgetting": (20, {"rank": 40, "method": "pivoted", "forgetting": 0.98}),
    "srmf": (25, {"rank": 30, "method": "srmf"}),
    "rgp": (10, {"rank": 25, "method": "rgp"}),
}
every_setting = pytest.mark.parametrize("setting", SETTINGS)


def searches():
    """The threads that search at this moment."""
    return [thread for thread in threading.enumerate() if thread.name == "streamgp-tuning"]


def regressor(given, **more):
    return StreamingGPRegressor(**used_by(**given), random_state=0, **more)


def streamed(gp, batch, start=0, stop=600):
    """Learn rows start to stop, and answer for others after each batch."""
    answers = []
    for i in range(start, stop, batch):
        gp.partial_fit(X[i : min(i + batch, stop)], Y[i : min(i + batch, stop)])
        if (i // batch) % 10 == 0:
            answers.append(np.array(gp.predict(X[700:], return_std=True)))
    return np.array(answers)


@pytest.fixture
def slow(monkeypatch):
    """A machine on which a search is slow: every evaluation of a thread sleeps."""
    step = background.Running._step
    monkeypatch.setattr(background.Running, "_step", lambda self: (time.sleep(0.003), step(self))[1])


@pytest.fixture
def begun():
    """A model whose search is under way, for a hundred rows still."""
    gp = regressor({"rank": 40, "method": "pivoted"})
    streamed(gp, 50, stop=400)
    assert gp.learner_.asked is not None
    return gp


@every_setting
def test_what_is_learned_is_the_same_with_and_without_a_thread_bit_for_bit(setting):
    batch, given = SETTINGS[setting]
    beside, within = (streamed(regressor(given, background=on), batch) for on in (True, False))
    np.testing.assert_array_equal(beside, within)


@every_setting
def test_a_slow_machine_learns_the_same_bit_for_bit(setting, request):
    batch, given = SETTINGS[setting]
    fast = streamed(regressor(given), batch, stop=300)
    request.getfixturevalue("slow")
    np.testing.assert_array_equal(streamed(regressor(given), batch, stop=300), fast)


@every_setting
def test_a_run_that_is_saved_while_a_search_is_under_way_goes_on_bit_for_bit(setting, tmp_path):
    batch, given = SETTINGS[setting]
    killed, stop = regressor(given), 0
    while stop < 200 or killed.learner_.asked is None:
        stop += batch
        streamed(killed, batch, start=stop - batch, stop=stop)
    whole = regressor(given)
    streamed(whole, batch, stop=stop)
    killed.save(tmp_path / "model")
    resumed = load(tmp_path / "model")
    again = [streamed(gp, batch, start=stop) for gp in (whole, killed, resumed)]
    np.testing.assert_array_equal(again[1], again[0])
    np.testing.assert_array_equal(again[2], again[0])


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda gp: pickle.loads(pickle.dumps(gp))])
def test_a_copy_made_while_a_search_is_under_way_goes_on_bit_for_bit(begun, copied):
    other = copied(begun)
    np.testing.assert_array_equal(streamed(other, 50, start=400), streamed(begun, 50, start=400))


def test_no_thread_outlives_the_model(begun):
    assert searches()
    del begun
    gc.collect()
    for thread in searches():
        thread.join(10)
    assert searches() == []


def test_a_fit_that_begins_anew_stops_the_search(begun):
    begun.fit(X[:40], Y[:40])
    gc.collect()
    for thread in searches():
        thread.join(10)
    assert searches() == []


def test_without_background_there_is_no_thread():
    gp = regressor({"rank": 40, "method": "pivoted"}, background=False)
    streamed(gp, 50, stop=400)
    assert gp.learner_.asked is not None
    assert searches() == []


def test_background_may_be_switched_within_a_stream(begun):
    other = copy.deepcopy(begun).set_params(background=False)
    np.testing.assert_array_equal(streamed(other, 50, start=400), streamed(begun, 50, start=400))


def test_a_search_is_given_rows_in_proportion_to_its_cost():
    """Fifty at least; 250 for a sample of 500 rows."""
    gp, seen = regressor({"rank": 30, "method": "pivoted"}), set()
    for i in range(0, 700, 10):
        gp.partial_fit(X[i : i + 10], Y[i : i + 10])
        asked = gp.learner_.asked
        seen |= set() if asked is None else {(asked.at, asked.due)}
    assert len(seen) > 2
    assert all(due - at == max(50, round(min(250 * min(at / 500, 1) ** 3, at))) for at, due in seen), seen


@pytest.mark.parametrize("on", [True, False])
def test_a_failure_in_a_search_is_its_verdict_and_the_stream_goes_on(on, monkeypatch):
    def fails(*args, **kwargs):
        raise RuntimeError("out of luck")

    gp = regressor({"rank": 40, "method": "pivoted"}, background=on)
    streamed(gp, 50, stop=50)
    kernel, verdicts = gp.kernel_, []
    monkeypatch.setattr(background, "tune_on_rows", fails)
    for i in range(50, 700, 50):
        gp.partial_fit(X[i : i + 50], Y[i : i + 50])
        outcome = gp.learner_.schedule.outcome
        verdicts += [] if outcome is None else [outcome.verdict]
    assert len(verdicts) > 1
    assert set(verdicts) == {"failed: out of luck"}
    assert gp.kernel_ == kernel
    assert np.isfinite(gp.predict(X[:5])).all()


@pytest.mark.parametrize("change", ["unlearn", "merge", "tune none"])
def test_a_search_on_rows_that_no_longer_count_is_given_up(begun, change):
    if change == "unlearn":
        begun.unlearn(X[:50], Y[:50])
    elif change == "merge":
        begun.merge(copy.deepcopy(begun))
    else:
        begun.set_params(tune="none").partial_fit(X[400:410], Y[400:410])
    assert begun.learner_.asked is None
    if change != "tune none":
        begun.partial_fit(X[400:410], Y[400:410])
        assert begun.learner_.asked.at == begun.learner_.rows_seen


def go_on(gp, results):
    """In a forked child: the search of the parent's thread is not there, and begins again."""
    results.put(streamed(gp, 50, start=400))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_goes_on_bit_for_bit(begun):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=go_on, args=(begun, results))
    child.start()
    theirs = results.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(theirs, streamed(begun, 50, start=400))


def test_the_interpreter_ends_at_once_while_a_search_is_under_way():
    code = """
import numpy as np
from streamgp import StreamingGPRegressor
rng = np.random.default_rng(0)
X = rng.standard_normal((400, 8)); y = np.sin(X.sum(1))
gp = StreamingGPRegressor(rank=50, random_state=0)
for i in range(0, 400, 50):
    gp.partial_fit(X[i:i + 50], y[i:i + 50])
assert gp.learner_.asked is not None
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_readers_are_answered_while_a_search_holds_up_the_writer(begun, slow):
    """The stream waits where a search is late; whoever predicts does not."""
    writer = threading.Thread(target=streamed, args=(begun, 50, 400))
    writer.start()
    answers = 0
    while writer.is_alive():
        assert np.isfinite(begun.predict(X[:3])).all()
        answers += 1
    assert answers > 20
