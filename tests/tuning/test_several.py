"""The evidence of several outputs: dense densities, exact gradients, and no say for units."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from conftest import wave
from streamgp import kernels
from streamgp.tuning.on_rows import tune_on_rows
from streamgp.tuning.optimise import Search
from streamgp.tuning.several import SeveralOutputs

KERNELS = [
    kernels.Scaled(1.3, kernels.SquaredExponential([0.6, 0.9, 1.4])),
    kernels.Scaled(0.4, kernels.Matern(0.8, nu=1.5)) + kernels.Linear(0.3),
]
NOISE = np.array([0.01, 0.4, 3.0])


def objective(kernel, seed=0, m=60):
    X, y = wave(m, q=3, seed=seed)
    y = y + np.array([0.0, 1.0, 3.0]) * np.random.default_rng(seed).standard_normal((m, 3))
    return SeveralOutputs(X, y, float(np.mean(kernel.diag(X))))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_value_is_the_greatest_density_over_the_amplitude_of_each_output(kernel):
    given = objective(kernel)
    found, total, held_out = given(kernel, NOISE), 0.0, []
    for j in range(3):
        C = kernel.block(given.X) + NOISE[j] * np.eye(60)
        y = given.y[:, j]
        density = [multivariate_normal(cov=v * found.amplitudes[j] * C).logpdf(y) for v in (1.0, 0.99, 1.01)]
        assert density[0] > max(density[1:])
        total += density[0]
        inverse = np.linalg.inv(found.amplitudes[j] * C)
        residual, variance = inverse @ y / np.diag(inverse), 1 / np.diag(inverse)
        held_out.append(-0.5 * (residual**2 / variance + np.log(2 * np.pi * variance)))
    assert found.value * given.observations == pytest.approx(total, rel=1e-9)
    assert found.held_out == pytest.approx(np.mean(held_out), rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_gradient_is_that_of_differences(kernel):
    given, step = objective(kernel), 1e-5
    place = np.append(kernel.theta, np.log(NOISE))

    def value(at):
        return given(kernel.with_theta(at[:-3]), np.exp(at[-3:])).value

    differences = [
        (value(place + step * e) - value(place - step * e)) / (2 * step) for e in np.eye(place.size)
    ]
    assert_allclose(given(kernel, NOISE).gradient, differences, rtol=1e-5, atol=1e-8)


def test_the_units_of_an_output_have_no_say():
    kernel = KERNELS[0]
    given, factors = objective(kernel), np.array([1e-4, 1.0, 1e5])
    other = SeveralOutputs(given.X, given.y * factors, given.prior)
    a, b = given(kernel, NOISE), other(kernel, NOISE)
    assert b.value == pytest.approx(a.value - np.log(factors).mean(), rel=1e-12)
    assert_allclose(b.gradient, a.gradient, rtol=1e-9, atol=1e-13)
    assert_allclose(b.amplitudes, a.amplitudes * factors**2, rtol=1e-9)
    assert_allclose(other.best_noises(kernel, NOISE), given.best_noises(kernel, NOISE))


def test_an_output_that_does_not_vary_changes_nothing_for_the_others():
    kernel = KERNELS[0]
    given = objective(kernel)
    still = SeveralOutputs(given.X, np.c_[given.y, np.full(60, 7.0)], given.prior)
    a, b = given(kernel, NOISE), still(kernel, np.append(NOISE, 0.3))
    assert_allclose(
        b.gradient[:-1] * still.observations, a.gradient * given.observations, rtol=1e-9, atol=1e-9
    )
    assert b.gradient[-1] == 0.0
    assert_allclose(b.amplitudes, [*a.amplitudes, 1.0], rtol=1e-12)
    assert still.best_noises(kernel, np.full(4, 0.3))[-1] == 0.3


@pytest.mark.parametrize("seed", range(3))
def test_a_tuning_finds_noise_and_amplitude_of_each_output(seed):
    """Drawn from the model itself, with noises that differ by four decades of variance."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (300, 2))
    truth = kernels.Scaled(1.0, kernels.SquaredExponential([0.7, 1.0]))
    f = np.linalg.cholesky(truth.block(X) + 1e-9 * np.eye(300)) @ rng.standard_normal((300, 3))
    noises, scales = np.array([1e-4, 0.05, 1.0]), np.array([1e-3, 1.0, 50.0])
    y = scales * (f + np.sqrt(noises) * rng.standard_normal((300, 3)))
    start = kernels.Scaled(1.0, kernels.SquaredExponential([1.5, 1.5]))
    search = Search(start.theta, (1e-3, 1e3), tune_noise=True)
    tuned = tune_on_rows(start, 0.1, X, y / y.std(axis=0), kind="evidence", search=search)
    assert tuned.verdict == "taken"
    found = tuned.noise * tuned.amplitudes * y.var(axis=0) / scales**2
    assert_allclose(np.log(found / noises), 0.0, atol=0.4)
    assert_allclose(tuned.factors, tuned.amplitudes**-0.5)


def test_a_noise_that_is_given_and_other_objectives_have_one_noise_for_all_outputs():
    X, y = wave(100, q=2)
    start = kernels.Scaled(1.0, kernels.SquaredExponential(1.0))
    for kind, tune_noise in (("loo", True), ("training_error", True), ("evidence", False)):
        search = Search(start.theta, (1e-3, 1e3), tune_noise=tune_noise)
        tuned = tune_on_rows(start, 0.3, X, y, kind=kind, search=search)
        assert tuned.noise.shape == (2,)
        assert tuned.noise[0] == tuned.noise[1]
        assert tuned.factors is None
        assert tune_noise or tuned.noise[0] == pytest.approx(0.3)
