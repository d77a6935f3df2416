"""Laws of the first rows: intervals are honest from the start, and no row waits long."""

import numpy as np
import pytest
from scipy.special import stdtrit

import streamgp
from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.learner import WARM_UP
from streamgp.methods import ExactModel, RecursiveModel


def noise(n, seed, d=5):
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, (n, d)), 10 + 3 * rng.standard_normal(n)


def linear(n, seed, d=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ np.linspace(0.2, 1.0, d)


def smooth(n, seed):
    return wave(n, seed=seed)


@pytest.mark.parametrize("n", [3, 5, 10, 20, 49, 50, 80])
@pytest.mark.parametrize("make", [noise, linear, smooth], ids=lambda f: f.__name__)
@pytest.mark.parametrize("method", ["pivoted", "rgp"])
def test_intervals_are_honest_after_a_few_rows(n, make, method):
    """85 to 97 % over 200 repeats; over 60, three standard errors of a mean more."""
    inside = []
    for seed in range(60):
        X, y = make(n + 50, seed)
        gp = StreamingGPRegressor(method=method, rank=60, random_state=0).fit(X[:n], y[:n])
        _, lower, upper = gp.predict(X[n:], return_interval=0.9)
        inside.append(((lower <= y[n:]) & (y[n:] <= upper)).mean())
    margin = 3 * np.std(inside) / 60**0.5
    assert 0.85 - margin < np.mean(inside) < 0.97 + margin


@pytest.mark.parametrize("kernel", ["matern32", "dictionary", 2.0 * kernels.SquaredExponential(3.0)], ids=str)
def test_other_kernels_are_honest_too(kernel):
    inside = []
    for seed in range(60):
        X, y = noise(60, seed)
        gp = StreamingGPRegressor(kernel, random_state=0).fit(X[:10], y[:10] - 10)
        _, lower, upper = gp.predict(X[10:], return_interval=0.9)
        inside.append(((lower <= y[10:] - 10) & (y[10:] - 10 <= upper)).mean())
    assert 0.82 < np.mean(inside) < 0.98


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e140])
def test_units_do_not_matter_to_the_first_rows(scale):
    X, y = noise(30, 0)
    right = StreamingGPRegressor(random_state=0).fit(X[:7], y[:7]).predict(X, return_interval=0.8)
    found = StreamingGPRegressor(random_state=0).fit(X[:7], scale * y[:7]).predict(X, return_interval=0.8)
    for a, b in zip(found, right, strict=True):
        np.testing.assert_allclose(a / scale, b, rtol=1e-6)


@pytest.mark.parametrize("y", [np.zeros(5), np.full(5, 3.0), np.array([[1.0, 2.0]] * 4), np.ones(1)], ids=str)
def test_targets_that_do_not_vary_give_finite_intervals_of_some_width(y):
    X = np.arange(2.0 * len(y)).reshape(-1, 2)
    _, lower, upper = StreamingGPRegressor(random_state=0).fit(X, y).predict(X + 0.5, return_interval=0.9)
    assert np.isfinite(upper).all()
    assert (upper > lower).all()


def test_few_rows_reach_as_far_as_students_t():
    X, y = noise(60, 0)
    for n in (2, 10, WARM_UP - 1):
        gp = StreamingGPRegressor(random_state=0).fit(X[:n], y[:n])
        mean, std = gp.predict(X, return_std=True)
        upper = gp.predict(X, return_interval=0.9)[2]
        np.testing.assert_allclose(upper - mean, stdtrit(n - 1, 0.95) * std)


def test_a_kernel_and_noise_that_are_given_are_taken_at_their_word():
    X, y = noise(10, 0)
    gp = StreamingGPRegressor(kernels.SquaredExponential(1.0), noise=0.3, tune="none").fit(X, y)
    assert gp.kernel_ == kernels.SquaredExponential(1.0)
    mean, std = gp.predict(X, return_std=True)
    np.testing.assert_allclose(gp.predict(X, return_interval=0.9)[2] - mean, 1.6448536 * std, rtol=1e-6)
    given = StreamingGPRegressor(kernels.SquaredExponential(1.0), tune="none").fit(X, y)
    assert given.kernel_ == kernels.SquaredExponential(1.0)


def test_rgp_is_the_exact_gaussian_process_until_its_basis_is_complete():
    X, y = wave(130)
    arguments = {"kernel": kernels.SquaredExponential(1.0), "noise": 0.05, "tune": "none", "random_state": 0}
    gp = StreamingGPRegressor(method="rgp", rank=100, **arguments)
    exact = StreamingGPRegressor(method="nrmf", **arguments)
    kinds = set()
    for i in range(0, 130, 10):
        for g in (gp, exact):
            g.partial_fit(X[i : i + 10], y[i : i + 10])
        kinds.add(type(gp._stream.model))
        if i < 100:
            for a, b in zip(*(g.predict(X, return_std=True) for g in (gp, exact)), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-7)
    assert kinds == {ExactModel, RecursiveModel}
    assert gp.pivots_.shape == (100, 3)


def test_rgp_is_tuned_while_its_basis_is_gathered_and_saved_bit_for_bit(tmp_path):
    X, y = wave(260)
    gp = StreamingGPRegressor(method="rgp", rank=240, random_state=0)
    for i in range(0, 200, 10):
        gp.partial_fit(X[i : i + 10], y[i : i + 10])
    assert isinstance(gp._stream.model, ExactModel)
    assert gp._stream.tunings >= 2
    assert gp.rank_ == 200
    np.testing.assert_array_equal(gp.pivots_, X[:200])
    gp.save(tmp_path / "model")
    again = streamgp.load(tmp_path / "model")
    tunings, seconds = gp._stream.tunings, gp.tuning_seconds_
    for g in (gp, again):
        g.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(gp.predict(X), again.predict(X))
    assert gp._stream.tunings == tunings + 1
    assert gp.tuning_seconds_ > seconds


def test_a_row_of_rgp_is_appended_and_not_all_rows_anew(monkeypatch):
    X, y = wave(150)
    gp = StreamingGPRegressor(method="rgp", rank=400, random_state=0).fit(X[:100], y[:100])
    seen = []
    original = ExactModel._append
    monkeypatch.setattr(ExactModel, "_append", lambda self, X, y: seen.append(len(X)) or original(self, X, y))
    for i in range(100, 150):
        gp.partial_fit(X[i : i + 1], y[i : i + 1])
    assert seen == [1] * 50


def test_a_constant_output_does_not_spoil_the_others():
    inside = []
    for seed in range(60):
        X, y = noise(30, seed)
        both = np.stack([y, np.full(30, 7.0)], axis=1)
        _, lower, upper = (
            StreamingGPRegressor(random_state=0).fit(X[:10], both[:10]).predict(X[10:], return_interval=0.9)
        )
        inside.append(((lower <= both[10:]) & (both[10:] <= upper))[:, 0].mean())
    assert 0.82 < np.mean(inside) < 0.97


@pytest.mark.parametrize("n", [3, 10, 49])
def test_the_noise_beside_a_kernel_that_stays_is_estimated(n):
    inside = []
    for seed in range(40):
        X, y = noise(n + 30, seed)
        gp = StreamingGPRegressor(kernels.SquaredExponential(1.0), tune="none", random_state=0).fit(
            X[:n], y[:n] - 10
        )
        _, lower, upper = gp.predict(X[n:], return_interval=0.9)
        inside.append(((lower <= y[n:] - 10) & (y[n:] - 10 <= upper)).mean())
    assert gp.kernel_ == kernels.SquaredExponential(1.0)
    assert np.mean(inside) > 0.85


def test_rgp_forgets_nothing_while_its_basis_is_gathered():
    X, y = wave(90)
    gp, never = (
        StreamingGPRegressor(method="rgp", rank=100, random_state=0, forgetting=f) for f in (0.5, 1.0)
    )
    for g in (gp, never):
        g.fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    np.testing.assert_array_equal(gp.predict(X), never.predict(X))
    assert gp._stream.sample.favour == 0.0
