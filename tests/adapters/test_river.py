"""The River adapter gives the numbers of StreamingGPRegressor and passes River's own checks."""

import doctest

import numpy as np
import pandas as pd
import pytest

from conftest import wave
from streamgp import StreamingGPClassifier, StreamingGPRegressor
from streamgp.parameters import METHODS

river = pytest.importorskip("river", reason="river is not installed")

from river import checks, compose, preprocessing  # noqa: E402

from streamgp.adapters import river as adapter  # noqa: E402
from streamgp.adapters.river import GPClassifier, GPRegressor  # noqa: E402


def test_the_example_of_the_docstring_runs():
    assert doctest.testmod(adapter).failed == 0


def test_rivers_own_checks_pass():
    checks.check_estimator(GPRegressor(rank=20, seed=0))


def test_rivers_own_checks_of_classifiers_pass():
    checks.check_estimator(GPClassifier(rank=10, tune="none", seed=0))


def test_classes_are_added_as_they_come_and_frames_give_the_same_as_arrays():
    X, target = wave(120)
    y = np.array(["low", "high", "middle"])[np.digitize(target, [-0.3, 0.3])]
    rows = [dict(zip("abc", row, strict=True)) for row in X]
    one, many = GPClassifier(rank=30, seed=0), GPClassifier(rank=30, seed=0)
    plain = StreamingGPClassifier(rank=30, random_state=0)
    assert one.predict_proba_one(rows[0]) == {}
    for i in range(0, 120, 40):
        plain.partial_fit(X[i : i + 40], y[i : i + 40])
        many.learn_many(pd.DataFrame(rows[i : i + 40])[["c", "a", "b"]], pd.Series(y[i : i + 40]))
    assert (many.predict_proba_many(pd.DataFrame(rows)).to_numpy() == plain.predict_proba(X)).all()
    for x, label in zip(rows, y, strict=True):
        one.learn_one(x, label)
    assert set(one.predict_proba_one(rows[0])) == {"low", "high", "middle"}
    assert np.mean([one.predict_one(x) == label for x, label in zip(rows, y, strict=True)]) > 0.8


def test_counts_are_learned_by_the_likelihood_that_is_named():
    X, target = wave(80)
    model = GPRegressor(rank=30, likelihood="poisson", seed=0)
    for row, y in zip(X, np.round(np.exp(target + 1)), strict=True):
        model.learn_one(dict(zip("abc", row, strict=True)), y)
    lower, upper = model.predict_interval_one(dict(zip("abc", X[0], strict=True)))
    assert lower == np.floor(lower) >= 0
    assert upper > lower


def test_dictionaries_and_frames_give_the_same_predictions_as_arrays():
    X, y = wave(150)
    rows = [dict(zip("abc", row, strict=True)) for row in X]
    one, many = GPRegressor(rank=30, seed=0), GPRegressor(rank=30, seed=0)
    plain = StreamingGPRegressor(rank=30, random_state=0)
    for i in range(0, 150, 50):
        plain.partial_fit(X[i : i + 50], y[i : i + 50])
        many.learn_many(pd.DataFrame(rows[i : i + 50])[["c", "a", "b"]], pd.Series(y[i : i + 50]))
    for x, target in zip(rows, y, strict=True):
        one.learn_one(x, target)
    assert (many.predict_many(pd.DataFrame(rows)).to_numpy() == plain.predict(X)).all()
    assert np.abs([one.predict_one(x) for x in rows] - y).mean() < 0.3
    lower, upper = one.predict_interval_one(rows[0])
    assert lower < one.predict_one(rows[0]) < upper


def test_missing_features_are_filled_in_and_new_ones_are_ignored():
    model = GPRegressor(seed=0)
    assert model.predict_one({"a": 1.0}) == 0.0
    assert model.predict_interval_one({"a": 1.0}) == (-np.inf, np.inf)
    for i in range(60):
        model.learn_one({"a": float(i), "b": 1.0}, float(i))
    assert model.predict_one({"a": 3.0}) == pytest.approx(model.predict_one({"a": 3.0, "b": 1.0}), abs=1e-6)
    assert model.predict_one({}) == pytest.approx(29.5, abs=1.0)  # the mean of all targets
    assert model.predict_one({"b": 1.0, "a": 3.0, "c": 9.0}) == model.predict_one({"a": 3.0, "b": 1.0})


def test_a_pipeline_with_a_scaler_reduces_its_error():
    X, y = wave(300)
    model = compose.Pipeline(preprocessing.StandardScaler(), GPRegressor(rank=50, seed=0))
    errors = []
    for row, target in zip(X * [1e3, 1.0, 1e-3], y, strict=True):
        x = dict(zip("abc", row, strict=True))
        errors.append(abs(model.predict_one(x) - target))
        model.learn_one(x, target)
    assert np.mean(errors[150:]) < 0.5 * np.mean(errors[:50])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_with_the_adapters_own_defaults(method):
    gp = GPRegressor(method=method, seed=0)
    for i in range(5):
        gp.learn_one({"a": float(i), "b": 1.0}, float(i))
    assert np.isfinite(gp.predict_one({"a": 2.0, "b": 1.0}))
