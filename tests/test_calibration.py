"""Laws of intervals that keep their promise."""

from statistics import NormalDist

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.calibration import FADING, FEWEST, WINDOW, Scores
from streamgp.evaluation import prequential


NOISE = 1.0  # with no variance of the function, scores are the errors themselves


def scored(errors, variance=0.0, noise=NOISE):
    errors = np.asarray(errors, dtype=float)
    errors = errors[:, None] if errors.ndim == 1 else errors
    return Scores.none(errors.shape[1], errors).add(errors, np.full(errors.shape[0], variance), noise)


@pytest.mark.parametrize("probability", [0.5, 0.9, 0.99])
def test_with_few_scores_the_normal_quantile_stands(probability):
    normal = NormalDist().inv_cdf(0.5 + probability / 2)
    assert scored(np.zeros(FEWEST - 1)).reach(probability, NOISE)[0] == pytest.approx(normal)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [100, 999, 1000])
def test_the_interval_reaches_the_conformal_quantile(probability, n):
    errors = np.random.default_rng(0).standard_t(3, size=(n, 2)) * [1.0, 50.0]
    weights = np.exp(np.arange(n) / FADING)
    equal = weights.sum() ** 2 / (weights**2).sum()
    for j, reach in enumerate(scored(errors).reach(probability, NOISE)):
        sizes = np.abs(errors[:, j])
        # The smallest score that, with those below it, has the share asked for, and one score's worth more.
        share = [weights[sizes <= s].sum() / weights.sum() for s in sizes]
        enough = sizes[np.array(share) >= probability * (1 + 1 / equal)]
        assert reach == pytest.approx(enough.min())


def test_a_score_of_the_past_counts_less_than_a_new_one():
    old, new = np.full(500, 1.0), np.full(200, 3.0)
    assert scored(np.r_[old, new]).reach(0.6, NOISE)[0] == 3.0
    assert scored(np.r_[new, old]).reach(0.8, NOISE)[0] == 1.0


def test_beyond_what_scores_can_tell_the_worst_counts():
    assert scored(np.full(60, 9.0)).reach(0.999, NOISE)[0] == 9.0
    assert scored(np.zeros(60)).reach(0.999, NOISE)[0] == pytest.approx(NormalDist().inv_cdf(0.9995))


def test_only_the_last_scores_count():
    errors = np.r_[np.full(5 * WINDOW, 100.0), np.ones(WINDOW)]
    scores = Scores.none(1, errors[:, None])
    for i in range(0, errors.size, 97):
        part = errors[i : i + 97, None]
        scores = scores.add(part, np.zeros(part.shape[0]), 1.0)
    assert scores.errors.shape == (WINDOW, 1)
    assert scores.reach(0.9, NOISE)[0] == 1.0


def test_the_noise_is_found_under_a_variance_that_is_right_and_one_that_claims_too_much():
    rng = np.random.default_rng(0)
    variance = rng.uniform(0, 2, 20_000)
    for claim in (1.0, 4.0):
        errors = rng.standard_normal(20_000) * np.sqrt(variance + 0.5)
        scores = Scores.none(1, errors[:, None])
        for i in range(0, 20_000, 100):
            scores = scores.add(errors[i : i + 100, None], claim * variance[i : i + 100], 0.5)
        assert scores.noise == pytest.approx(0.5, rel=0.4)


@pytest.mark.parametrize("noise", [0.0001, 5.0])
@pytest.mark.parametrize("method", ["pivoted", "rgp", "srmf", "nrmf"])
def test_intervals_of_a_model_that_is_wrong_cover_what_they_promise(noise, method):
    X, y = wave(3000)
    y = y + 0.3 * np.random.default_rng(1).standard_normal(3000)
    kernel = kernels.SquaredExponential(1.0)
    gp = StreamingGPRegressor(kernel, noise=noise, tune="none", method=method, rank=40, random_state=0)
    coverage = [r.coverage for r in prequential(gp, X, y)][10:]
    assert 0.86 < np.mean(coverage) < 0.94
    raw = [gp.predict(X[:500], return_interval=0.9, calibrated=c) for c in (True, False)]
    half = NormalDist().inv_cdf(0.95) * gp.predict(X[:500], return_std=True)[1]
    assert np.allclose(raw[1][2] - raw[1][0], half)
    assert not np.allclose(raw[0][2] - raw[0][0], half, rtol=0.02)


def test_calibration_follows_a_noise_that_grows():
    rng = np.random.default_rng(0)
    X, y = wave(6000)
    y = y + np.linspace(0.05, 2.0, 6000) * rng.standard_normal(6000)
    gp = StreamingGPRegressor(random_state=0, rank=50)
    coverage = np.array([r.coverage for r in list(prequential(gp, X, y))[10:]])
    assert 0.86 < coverage.mean() < 0.93
    assert min(coverage[i : i + 10].mean() for i in range(coverage.size - 10)) > 0.8


def test_latent_intervals_are_the_gaussian_processs_own():
    X, y = wave(500)
    gp = StreamingGPRegressor(random_state=0, rank=50)
    list(prequential(gp, X, y))
    _, std = gp.predict(X, return_std=True, latent=True)
    mean, lower, _ = gp.predict(X, return_interval=0.9, latent=True)
    assert np.allclose(mean - lower, NormalDist().inv_cdf(0.95) * std)


def test_each_output_has_its_own_reach():
    X, y = wave(1500, q=2)
    y = y + np.random.default_rng(0).standard_normal((1500, 2)) * [0.01, 3.0]
    gp = StreamingGPRegressor(random_state=0, rank=50)
    records = list(prequential(gp, X, y))
    reach = gp._stream.reach(0.9, calibrated=True)
    assert reach[1] > 1.3 * reach[0]
    assert 0.86 < np.mean([r.coverage for r in records[5:]]) < 0.94
