"""Noise that lasts: its evidence is a dense density, its gradient exact; it is found where it is and not elsewhere."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.tuning.disturbances import likely_disturbance
from streamgp.tuning.objectives import SampleObjective
from streamgp.tuning.reservoir import Reservoir
from streamgp.tuning.several import SeveralOutputs

KERNEL = kernels.Scaled(1.3, kernels.SquaredExponential([0.6, 0.9, 1.4]))
NUMBERS = np.sort(np.random.default_rng(0).choice(200, 50, replace=False))
R = 0.8 * np.exp(-np.abs(NUMBERS[:, None] - NUMBERS[None, :]) / 7.0) + 0.2 * np.eye(50)


def slopes(value, place, step=1e-5):
    return [(value(place + step * e) - value(place - step * e)) / (2 * step) for e in np.eye(place.size)]


def test_the_evidence_of_a_sample_is_the_density_of_its_targets_under_correlated_noise():
    X, y = wave(50, q=2)
    given = SampleObjective(X, y, "evidence", R)
    C = KERNEL.block(X) + 0.2 * R
    dense = sum(multivariate_normal(cov=C).logpdf(y[:, j]) for j in range(2))
    assert given(KERNEL, 0.2).value * 100 == pytest.approx(dense, rel=1e-9)
    share = 0.2 / given.noise_size
    assert given.most_evidence(KERNEL, [share]) == pytest.approx(dense, rel=1e-9)
    assert given.most_evidence(KERNEL, [1e-3, share]) >= dense - 1e-9
    place = np.append(KERNEL.theta, np.log(0.2))
    expected = slopes(lambda at: given(KERNEL.with_theta(at[:-1]), np.exp(at[-1])).value, place)
    assert_allclose(given(KERNEL, 0.2).gradient, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("gaps", [False, True])
def test_the_evidence_of_several_outputs_is_the_density_of_each_under_correlated_noise(gaps):
    X, y = wave(50, q=3)
    if gaps:
        y[3:20, 1] = np.nan
    noise, given = np.array([0.01, 0.4, 3.0]), SeveralOutputs(X, y, 1.3, R)
    found, total = given(KERNEL, noise), 0.0
    for j in range(3):
        known = ~np.isnan(y[:, j])
        C = KERNEL.block(X[known]) + noise[j] * R[np.ix_(known, known)]
        total += multivariate_normal(cov=found.amplitudes[j] * C).logpdf(y[known, j])
    assert found.value * given.observations == pytest.approx(total, rel=1e-8)
    place = np.append(KERNEL.theta, np.log(noise))
    expected = slopes(lambda at: given(KERNEL.with_theta(at[:-3]), np.exp(at[-3:])).value, place)
    assert_allclose(found.gradient, expected, rtol=1e-4, atol=1e-7)


def test_families_that_share_hyperparameters_do_not_share_a_spectrum():
    X, y = wave(50, q=2)
    both, noise = SeveralOutputs(X, y, 1.0), np.array([0.1, 0.1])
    families = [kernels.Scaled(1.0, kernels.Matern([1.0, 1.0, 1.0], nu=nu)) for nu in (0.5, 2.5)]
    for kernel in families:
        assert both(kernel, noise).value == SeveralOutputs(X, y, 1.0)(kernel, noise).value


def stream(n, length, seed=0):
    """Return slow inputs (n, 2), and targets whose noise lasts for about so many rows; 0 for independent noise."""
    rng, t = np.random.default_rng(seed), np.arange(n)
    X = np.column_stack([np.sin(t / 23.0), np.cos(t / 37.0)]) + 0.3 * rng.standard_normal((n, 2))
    noise = rng.standard_normal(n)
    if length:
        fading = np.exp(-1.0 / length)
        for i in range(1, n):
            noise[i] = fading * noise[i - 1] + (1 - fading**2) ** 0.5 * noise[i]
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * noise


@pytest.mark.parametrize("q", [1, 2])
def test_a_disturbance_is_found_where_there_is_one(q):
    for length in (10.0, 30.0):
        X, y = stream(400, length)
        y = np.column_stack([y, y + 0.1 * np.random.default_rng(1).standard_normal(400)])[:, :q]
        objective = SampleObjective(X, y, "evidence") if q == 1 else SeveralOutputs(X, y, 1.0)
        found = likely_disturbance(objective, np.arange(400.0))
        assert found.length in (length / 3, length, 3 * length)
        assert found.share == 0.9


def test_independent_noise_along_slow_inputs_is_no_disturbance():
    for seed in range(3):
        X, y = stream(800, 0, seed)
        gp = StreamingGPRegressor(rank=100, random_state=0)
        for i in range(0, 800, 50):
            gp.partial_fit(X[i : i + 50], y[i : i + 50])
        assert gp.learner_.state.adaptation.lasting == 1


@pytest.mark.parametrize("q", [1, 2])
def test_the_noise_of_a_stream_with_disturbances_is_that_of_the_disturbances(q):
    X, y = stream(1600, 30.0)
    targets = np.column_stack([y, -y])[:, :q] if q > 1 else y
    gp = StreamingGPRegressor(rank=100, random_state=0)
    for i in range(0, 1600, 50):
        gp.partial_fit(X[i : i + 50], targets[i : i + 50])
    noise = np.sqrt(np.atleast_1d(gp.noise_)) * gp.y_scale_
    assert ((noise > 0.4) & (noise < 1.2)).all()  # 0.7; next to none where noise counts as independent
    assert gp.learner_.state.adaptation.dependence > 2


def test_the_sample_knows_the_places_of_its_rows_and_gives_up_old_ones_first():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 2)), rng.standard_normal((3000, 1))
    sample = Reservoir.empty(2, 1, 0)
    for i in range(0, 3000, 100):
        sample = sample.add(X[i : i + 100], y[i : i + 100])
    assert (X[sample.numbers.astype(int)] == sample.X).all()
    recent = int((sample.numbers >= 2900).sum())
    assert sample.faded(0.01, 100).keys.size == recent
    tenth = sample.faded(0.1, 100)
    assert tenth.keys.size == recent + (500 - recent) // 10
    assert (X[tenth.numbers.astype(int)] == tenth.X).all()
