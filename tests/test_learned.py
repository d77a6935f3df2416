"""The learned attributes of a fitted regressor, each of one learner."""

from dataclasses import FrozenInstanceError, fields, is_dataclass

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor
from streamgp.answers import Question, answer
from streamgp.errors import ParameterError
from streamgp.learned import LearnedAttributes
from streamgp.parameters import used_by
from streams import KERNEL, X0, every_method, fitted


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
def test_pivots_are_rows_of_the_stream_and_a_copy(method):
    X = np.random.default_rng(0).standard_normal((300, 2))
    gp = StreamingGPRegressor(**used_by(method, rank=20), random_state=0).fit(X, X[:, 0])
    assert gp.pivots_.shape == (gp.rank_, 2)
    assert {tuple(row) for row in gp.pivots_} <= {tuple(row) for row in X}
    before, other = gp.predict(X), gp.predict(X[:7])  # what is predicted last is remembered
    gp.pivots_[:] = 0.0
    np.testing.assert_array_equal(gp.predict(X), before)
    np.testing.assert_array_equal(gp.predict(X[:7]), other)


def test_methods_without_pivots_say_so():
    X = np.random.default_rng(0).standard_normal((60, 2))
    gp = StreamingGPRegressor(method="nrmf", random_state=0).fit(X, X[:, 0])
    assert not hasattr(gp, "pivots_")
    with pytest.raises(AttributeError, match="'pivoted' and 'rgp' have"):
        gp.pivots_  # noqa: B018


def leaves(value):
    """The numbers of all that a learner holds, arrays as bytes: what may not change."""
    if is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value.tobytes() if isinstance(value, np.ndarray) else value]


@every_method
def test_a_learner_taken_before_a_batch_gives_the_answers_of_before(method):
    X, y = wave(200)
    gp = StreamingGPRegressor(**used_by(method, rank=30), random_state=0).fit(X[:60], y[:60])
    taken, questions = gp.learner_, (Question(std=True), Question(cov=True), Question(interval=0.9))
    before = [answer(taken, X0, question) for question in questions]
    evidence, held = taken.state.log_evidence(), leaves(taken)
    np.testing.assert_array_equal(before[0][1], gp.predict(X0, return_std=True)[1])
    for i in range(60, 200, 35):
        gp.partial_fit(X[i : i + 35], y[i : i + 35])  # tunes, exchanges pivots, begins again
    assert gp.learner_ is not taken
    assert not np.array_equal(gp.predict(X0), before[0][0])
    answer(taken, X[:7], Question())  # what was predicted last is remembered
    for question, old in zip(questions, before, strict=True):
        for a, b in zip(answer(taken, X0, question), old, strict=True):
            np.testing.assert_array_equal(a, b)
    assert taken.state.log_evidence() == evidence
    assert leaves(taken) == held


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
@pytest.mark.parametrize(
    "n", [60, 61]
)  # with the 61st row waiting to be folded into the statistics of pivoted
def test_a_learner_taken_before_rows_are_unlearned_or_merged_gives_the_answers_of_before(method, n):
    X, y = wave(120)
    given = {"kernel": KERNEL, "noise": 0.1, "tune": "none", "random_state": 0, **used_by(method, rank=30)}
    given |= {"basis": X[:30]} if method == "rgp" else {}
    gp, other = (StreamingGPRegressor(**given).fit(X[:60], y[:60]) for _ in range(2))
    if n > 60:
        gp.partial_fit(X[60:n], y[60:n])
    taken = gp.learner_
    before, held = answer(taken, X0, Question(std=True)), leaves(taken)
    theirs = leaves(other.learner_)
    gp.merge(other).unlearn(X[:60], y[:60])
    assert gp.learner_ is not taken
    answer(taken, X[:7], Question())
    for a, b in zip(answer(taken, X0, Question(std=True)), before, strict=True):
        np.testing.assert_array_equal(a, b)
    assert leaves(taken) == held
    assert leaves(other.learner_) == theirs


@every_method
def test_nothing_that_was_learned_can_be_assigned_to(method):
    gp = fitted(method)
    learner = gp.learner_
    with pytest.raises(AttributeError):
        gp.learner_ = learner
    for part in (learner, *(getattr(learner, f.name) for f in fields(learner))):
        if is_dataclass(part):
            for field in fields(part):
                with pytest.raises(FrozenInstanceError):
                    setattr(part, field.name, None)


@every_method
@pytest.mark.parametrize("n", [20, 150])
@pytest.mark.parametrize("outputs", [None, 2])
def test_the_interval_factor_times_the_deviation_is_half_an_interval(method, n, outputs):
    X, y = wave(n + 40, q=outputs)
    gp = StreamingGPRegressor(**used_by(method, rank=40), random_state=0).fit(X[:n], y[:n])
    gp.partial_fit(X[n:], y[n:])
    mean, std = gp.predict(X0, return_std=True)
    for probability in (0.5, 0.9, 0.99):
        for calibrated in (True, False):
            factor = gp.interval_factor(probability, calibrated=calibrated)
            assert np.shape(factor) == (() if outputs is None else (outputs,))
            _, lower, upper = gp.predict(X0, return_interval=probability, calibrated=calibrated)
            np.testing.assert_allclose(upper - mean, factor * std, rtol=1e-10, atol=1e-13)
            np.testing.assert_allclose(mean - lower, factor * std, rtol=1e-10, atol=1e-13)
    factors = np.array([gp.interval_factor(p) for p in (0.5, 0.8, 0.9, 0.99)])
    assert (np.diff(factors, axis=0) >= 0).all()


@pytest.mark.parametrize("probability", [0, 1, 2.0, -1, None, float("nan"), "0.9"])
def test_an_interval_factor_of_no_probability_is_refused(probability):
    X, y = wave(60)
    gp = StreamingGPRegressor(rank=10, random_state=0).fit(X, y)
    with pytest.raises(ParameterError, match="must lie between 0 and 1"):
        gp.interval_factor(probability)


def test_every_attribute_reads_the_learner_once(monkeypatch):
    X, y = wave(60)
    gp = StreamingGPRegressor(rank=10, random_state=0).fit(X, y)
    learner, reads = gp.learner_, []
    monkeypatch.setattr(LearnedAttributes, "learner_", property(lambda self: reads.append(1) or learner))
    names = [n for n, v in vars(LearnedAttributes).items() if isinstance(v, property) and n != "learner_"]
    for name in names:
        reads.clear()
        getattr(gp, name, None)
        assert len(reads) == 1, name
    for call in (gp.log_evidence, gp.interval_factor, lambda: gp.predict(X, return_interval=0.9)):
        reads.clear()
        call()
        assert len(reads) == 1
