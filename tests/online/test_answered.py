"""Laws of late labels: what was answered is what is scored."""

import copy
import pickle
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import streamgp
from conftest import wave
from streamgp import StreamingGPRegressor
from streamgp.errors import InputError
from streamgp.online.answered import ANSWERS_KEPT, WAITING, AnswerMemory, Answers, keys_of
from streamgp.parameters import METHODS, used_by


def regressor(method="pivoted", **given):
    # The Gaussian process alone; test_mixture.py has the panel.
    return StreamingGPRegressor(**used_by(method, rank=40), members=("gp",), random_state=0, **given)


def late(gp, X, y, delay, batch, ask=("return_std",), first=200):
    """Learn the first rows, then predict batches whose labels come `delay` rows later; return what was said."""
    gp.partial_fit(X[:first], y[:first])
    said, done = [], first
    for i in range(first, len(X), batch):
        for what in ask:
            answer = gp.predict(
                X[i : i + batch], **({what: 0.9 if "interval" in what else True} if what else {})
            )
        said.append(answer)
        if i + batch - delay > done:
            gp.partial_fit(X[done : i + batch - delay], y[done : i + batch - delay])
            done = i + batch - delay
    return said, done


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("q", "delay", "batch"), [(None, 60, 20), (2, 33, 10), (1, 100, 50)])
def test_what_was_answered_is_what_is_scored(method, q, delay, batch):
    X, y = wave(500, q=q)
    gp = regressor(method, tune="none", noise=0.02)  # given: the spread that is told is the model's own
    said, done = late(gp, X, y, delay, batch, ask=("return_interval", "return_std"))
    mean, std = (
        np.concatenate(part)[: done - 200].reshape(done - 200, -1) for part in zip(*said, strict=True)
    )
    learner = gp.learner_
    scores, scale = learner.scores, learner.targets.scale
    errors = np.abs(y[200:done].reshape(done - 200, -1) - mean) / scale
    newest = errors.shape[0]
    assert_allclose(np.abs(scores.errors[-newest:]), errors, atol=1e-12)
    spread = np.sqrt(scores.variances[-newest:] + scores.noises[-newest:])
    assert_allclose(spread * scale, std, rtol=1e-9)
    assert (scores.lags[-newest:] > 0).mean() > 0.5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batch", [1, 30])
def test_a_label_that_comes_at_once_changes_no_bit(method, batch):
    X, y = wave(200)
    asked, silent = regressor(method), regressor(method)
    for i in range(0, 200, batch):
        rows = slice(i, i + batch)
        if i:
            asked.predict(X[rows])
            asked.predict(X[rows], return_interval=0.9)
        asked.partial_fit(X[rows], y[rows])
        silent.partial_fit(X[rows], y[rows])
    for a, b in zip(
        asked.predict(X, return_interval=0.9), silent.predict(X, return_interval=0.9), strict=True
    ):
        assert_array_equal(a, b)
    assert asked._answered.kept.keys.size == 200  # of the last question; all others were taken out


@pytest.mark.parametrize("ids", [None, [7, 7], ["a", "a"]])
def test_equal_rows_are_scored_in_the_order_in_which_they_were_answered(ids):
    X, y = wave(300)
    gp = regressor(tune="none", guard=None).partial_fit(X[:100], y[:100])
    row, one = X[299:], None if ids is None else ids[:1]
    answers = []
    for i in (100, 150, 200):
        answers.append(float(gp.predict(row, return_std=True, ids=one)[0][0]))
        gp.predict(row, ids=one)  # asked twice: one answer
        gp.partial_fit(X[i : i + 50], y[i : i + 50])
    assert gp._answered.kept.keys.size == 3
    scale = gp.y_scale_[0]
    gp.partial_fit(np.repeat(row, 2, axis=0), [5.0, 6.0], ids=ids)
    assert_allclose(
        np.abs(gp.learner_.scores.errors[-2:, 0]) * scale, np.abs(np.array([5.0, 6.0]) - answers[:2])
    )
    gp.partial_fit(row, [7.0], ids=one)
    assert_allclose(np.abs(gp.learner_.scores.errors[-1, 0]) * scale, 7.0 - answers[2])
    assert gp._answered.kept.keys.size == 0


@pytest.mark.parametrize(
    "ids", [np.arange(6), list("abcdef"), np.arange(6).astype("M8[h]"), [(1, i) for i in range(6)]]
)
def test_ids_tell_equal_rows_apart(ids):
    X, y = wave(300)
    gp = regressor(tune="none").partial_fit(X[:100], y[:100])
    stuck, said = np.zeros((1, 3)), []
    ids = np.asarray(ids, dtype=object) if isinstance(ids[0], tuple) else np.asarray(ids)
    if ids.ndim == 2:
        ids = np.array([str(value) for value in ids], dtype=object)
    for i in range(6):
        said.append(gp.predict(stuck, ids=ids[i : i + 1])[0])
        gp.partial_fit(X[100 + 10 * i : 110 + 10 * i], y[100 + 10 * i : 110 + 10 * i])
    order = np.array([4, 0, 5, 2])
    gp.partial_fit(np.repeat(stuck, 4, axis=0), np.zeros(4), ids=ids[order])
    assert_allclose(np.abs(gp.learner_.scores.errors[-4:, 0]) * gp.y_scale_[0], np.abs(np.array(said)[order]))
    assert gp._answered.kept.keys.size == 2


def test_ids_of_strings_do_not_depend_on_the_longest_and_large_numbers_differ():
    X = np.zeros((2, 1))
    assert_array_equal(keys_of(X, ["a", "bb"]), keys_of(np.zeros((3, 1)), ["a", "bb", "cccccc"])[:2])
    big = keys_of(X, [2**60, 2**60 + 1])
    assert big[0] != big[1]


@pytest.mark.parametrize("ids", [[1], [[1, 2]], 3])
def test_one_id_for_each_row(ids):
    X, y = wave(100)
    gp = regressor().fit(X, y)
    for call in (lambda: gp.predict(X[:2], ids=ids), lambda: gp.partial_fit(X[:2], y[:2], ids=ids)):
        with pytest.raises(InputError, match="give one id for each row"):
            call()
    assert gp.n_samples_seen_ == 100


@pytest.mark.parametrize("order", [("",), ("", "return_std"), ("return_std", "")])
def test_an_answer_without_a_spread_is_scored_by_the_spread_of_the_model_that_learns_it(order):
    X, y = wave(300)
    gp = regressor(tune="none").partial_fit(X[:100], y[:100])
    for what in order:
        gp.predict(X[200:210], **({what: True} if what else {}))
    _, before = gp.predict(X[200:210], return_std=True) if "return_std" in order else (None, None)
    gp.partial_fit(X[100:200], y[100:200])
    twin = copy.deepcopy(gp)
    _, now = twin.predict(X[200:210], return_std=True)
    gp.partial_fit(X[200:210], y[200:210])
    scores = gp.learner_.scores
    spread = np.sqrt(scores.variances[-10:, 0] + scores.noises[-10:, 0]) * gp.y_scale_[0]
    assert_allclose(spread, now if before is None else before, rtol=1e-9)
    assert not np.allclose(now, gp.predict(X[200:210], return_std=True)[1], rtol=1e-3)


def test_a_batch_that_is_refused_leaves_the_answers():
    X, y = wave(300)
    gp = regressor(tune="none").partial_fit(X[:100], y[:100])
    mean = gp.predict(X[200:210])
    gp.partial_fit(X[100:200], y[100:200])
    with pytest.raises(InputError):
        gp.partial_fit(X[200:210], np.full(10, np.nan))
    with pytest.raises(InputError):
        gp.partial_fit(X[200:210], np.full(10, 1e200))
    gp.partial_fit(X[200:210], y[200:210])
    assert_allclose(np.abs(gp.learner_.scores.errors[-10:, 0]) * gp.y_scale_[0], np.abs(y[200:210] - mean))


def test_rows_that_the_guard_refuses_are_not_scored_by_the_answers_to_others():
    X, y = wave(300)
    gp = regressor(tune="none", guard=8.0).partial_fit(X[:100], y[:100])
    rows, targets = X[200:210].copy(), y[200:210].copy()
    rows[3] = 1e4
    mean = gp.predict(rows)
    gp.partial_fit(X[100:200], y[100:200]).partial_fit(rows, targets)
    assert gp.refused_.tolist() == [i == 3 for i in range(10)]
    kept = np.arange(10) != 3
    assert_allclose(np.abs(gp.learner_.scores.errors[-9:, 0]) * gp.y_scale_[0], np.abs(targets - mean)[kept])


def test_a_fit_forgets_the_answers():
    X, y = wave(200)
    gp = regressor().fit(X, y)
    gp.predict(X, return_std=True)
    assert gp._answered.kept.keys.size == 200
    assert gp.fit(X, y)._answered.kept.keys.size == 0


@pytest.mark.parametrize("asked", [1, 700])
def test_memory_is_bounded_and_keeps_the_newest(asked):
    memory = AnswerMemory(Answers.none(2))
    rng, n = np.random.default_rng(0), 30 * ANSWERS_KEPT // 20 if asked > 1 else 5 * WAITING
    keys = rng.integers(0, 2**63, n).astype(np.uint64)
    values = rng.standard_normal((n, 2))
    for i in range(0, n, asked):
        part = slice(i, i + asked)
        memory.add(keys[part], values[part], values[part], values[part], rows=3)
    kept = memory.kept
    assert_array_equal(kept.keys, keys[-ANSWERS_KEPT:])
    assert_array_equal(kept.mean, values[-ANSWERS_KEPT:])
    found, numbers = memory.find(keys[[-1, -3]], 5)
    assert_array_equal(found.mean, values[[-1, -3]])
    memory.drop(numbers)
    assert memory.kept.keys.size == min(n, ANSWERS_KEPT) - 2


def copies(gp, tmp_path):
    gp.save(tmp_path / "model")
    return [
        copy.copy(gp),
        copy.deepcopy(gp),
        pickle.loads(pickle.dumps(gp)),
        streamgp.load(tmp_path / "model"),
    ]


@pytest.mark.parametrize("q", [None, 2])
@pytest.mark.parametrize("delay", [24, 168])
def test_copies_and_checkpoints_go_on_with_the_answers_bit_for_bit(tmp_path, q, delay):
    X, y = wave(900, q=q)
    gp = regressor()
    late(gp, X[:600], y[:600], delay, 8)
    others = copies(gp, tmp_path)
    waiting = gp._answered.kept.keys.size
    assert waiting == delay
    for other in others:
        other.partial_fit(X[600 - delay : 600], y[600 - delay : 600])
        assert gp._answered.kept.keys.size == waiting  # a copy takes none of the original's
    gp.partial_fit(X[600 - delay : 600], y[600 - delay : 600])
    for other in others:
        assert_array_equal(gp.learner_.scores.errors, other.learner_.scores.errors)
        for a, b in zip(*(g.predict(X[600:], return_interval=0.9) for g in (gp, other)), strict=True):
            assert_array_equal(a, b)


def test_answers_of_many_threads_are_all_remembered():
    X, y = wave(1700)
    gp = regressor(tune="none").partial_fit(X[:100], y[:100])

    def ask(start):
        for i in range(start, start + 200, 4):
            gp.predict(X[i : i + 4], return_std=True)

    readers = [threading.Thread(target=ask, args=(100 + 200 * k,)) for k in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert_array_equal(np.sort(gp._answered.kept.keys), np.sort(keys_of(X[100:], None)))
    assert np.unique(gp._answered.kept.numbers).size == 1600
