"""The start of a stream: intervals are honest after a few rows, whatever the units and the kernel."""

import numpy as np
import pytest
from scipy.special import stdtrit

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.parameters import used_by
from streamgp.tuning.start import MIN_ROWS


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
        gp = StreamingGPRegressor(**used_by(method, rank=60), random_state=0).fit(X[:n], y[:n])
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
    for n in (2, 10, MIN_ROWS - 1):
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
