"""Laws of intervals that keep their promise."""

from statistics import NormalDist

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.evaluation import prequential
from streamgp.methods.rows import STILL, moving
from streamgp.online.calibration import MIN_SCORES, SCORES_KEPT, Scores
from streamgp.online.weights import HALF_AGE
from streamgp.parameters import used_by

NOISE = np.ones(1)  # with no variance of the function, scores are the errors themselves


def scored(errors, variance=0.0, noise=NOISE):
    errors = np.asarray(errors, dtype=float)
    errors = errors[:, None] if errors.ndim == 1 else errors
    noise = np.full(errors.shape[1], noise)
    return Scores.none(1, errors.shape[1], errors).add(errors, np.full(errors.shape, variance), noise)


@pytest.mark.parametrize("probability", [0.5, 0.9, 0.99])
def test_with_few_scores_the_normal_quantile_stands(probability):
    normal = NormalDist().inv_cdf(0.5 + probability / 2)
    assert scored(np.zeros(MIN_SCORES - 1)).reach(probability, NOISE)[0] == pytest.approx(normal)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [100, 999, 1000])
def test_the_interval_reaches_the_conformal_quantile(probability, n):
    errors = np.random.default_rng(0).standard_t(3, size=(n, 2)) * [1.0, 50.0]
    weights = 1 / (1 + np.arange(n)[::-1] / HALF_AGE)
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
    errors = np.r_[np.full(5 * SCORES_KEPT, 100.0), np.ones(SCORES_KEPT)]
    scores = Scores.none(1, 1, errors[:, None])
    for i in range(0, errors.size, 97):
        part = errors[i : i + 97, None]
        scores = scores.add(part, np.zeros(part.shape), NOISE)
    assert scores.errors.shape == (SCORES_KEPT, 1)
    assert scores.reach(0.9, NOISE)[0] == 1.0


def test_the_noise_is_found_under_a_variance_that_is_right_and_one_that_claims_too_much():
    rng = np.random.default_rng(0)
    variance = rng.uniform(0, 2, 20_000)
    for claim in (1.0, 4.0):
        errors = rng.standard_normal(20_000) * np.sqrt(variance + 0.5)
        scores = Scores.none(1, 1, errors[:, None])
        for i in range(0, 20_000, 100):
            scores = scores.add(errors[i : i + 100, None], claim * variance[i : i + 100, None], 0.5 * NOISE)
        assert scores.noise == pytest.approx(0.5, rel=0.4)


@pytest.mark.parametrize("noise", [0.0001, 5.0])
@pytest.mark.parametrize("method", ["pivoted", "rgp", "srmf", "nrmf"])
def test_intervals_of_a_model_that_is_wrong_cover_what_they_promise(noise, method):
    X, y = wave(3000)
    y = y + 0.3 * np.random.default_rng(1).standard_normal(3000)
    kernel = kernels.SquaredExponential(1.0)
    gp = StreamingGPRegressor(kernel, noise=noise, tune="none", **used_by(method, rank=40), random_state=0)
    coverage = [r.coverage for r in prequential(gp, X, y)][10:]
    assert 0.86 < np.mean(coverage) < 0.94
    raw = [gp.predict(X[:500], return_interval=0.9, calibrated=c) for c in (True, False)]
    half = NormalDist().inv_cdf(0.95) * gp.predict(X[:500], return_std=True, calibrated=False)[1]
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
    gp = StreamingGPRegressor(noise=0.3, tune="none", random_state=0, rank=50)
    records = list(prequential(gp, X, y))
    reach = gp.learner_.scores.reach(0.9, gp.learner_.state.noise)
    assert reach[1] > 1.3 * reach[0]
    assert 0.86 < np.mean([r.coverage for r in records[5:]]) < 0.94


def inside(gp, X, y, **how):
    _, lower, upper = gp.predict(X, return_interval=0.9, **how)
    return ((lower <= y) & (y <= upper)).mean()


def linear(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ np.linspace(0.2, 1.0, d) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("batch", [1, 50])
def test_a_stuck_sensor_does_not_shrink_intervals(batch):
    X, y = wave(1450)
    X[600:1200], y[600:1200] = X[600], y[600]
    gp = StreamingGPRegressor(rank=60, random_state=0)
    for i in range(0, 1200, batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    assert 0.82 < inside(gp, X[1200:], y[1200:]) < 0.96  # 250 rows: ± .04 is two standard errors
    assert gp.learner_.scores.count <= 601 + STILL
    kept = gp.learner_.sample.X
    assert (kept == X[600]).all(axis=1).sum() <= STILL


def test_rows_are_no_news_once_inputs_have_stood_still_for_long():
    X = np.r_[np.zeros(3), np.ones(STILL + 20), np.full(2, 5.0)][:, None]
    fresh, still = moving(X)
    assert fresh.tolist() == [*range(3 + STILL), len(X) - 2, len(X) - 1]
    assert still == 2
    stuck = np.full((10, 1), 5.0)
    assert moving(stuck, stuck[:1], 2) == (None, 12)
    fresh, still = moving(stuck, stuck[:1], STILL - 4)
    assert (fresh.tolist(), still) == ([0, 1, 2, 3], STILL + 6)
    assert moving(stuck, stuck[:1], STILL, alone=True) == (None, STILL + 10)  # there are no others
    assert moving(np.arange(9.0)[:, None], stuck[:1], 7) == (None, 1)
    fresh, still = moving(np.r_[stuck, X], stuck[:1], STILL, alone=True)
    assert fresh.tolist() == [*range(10, 13 + STILL), len(X) + 8, len(X) + 9]


def test_a_batch_as_large_as_the_past_is_scored_by_the_model_that_it_makes():
    found = []
    for seed in range(4):
        X, y = linear(4050, 20, seed)
        gp = StreamingGPRegressor(rank=200, random_state=0).partial_fit(X[:50], y[:50])
        found.append(inside(gp.partial_fit(X[50:1050], y[50:1050]), X[1050:], y[1050:]))
    assert min(found) > 0.85
    assert np.mean(found) < 0.97


def test_after_everything_was_unlearned_the_next_rows_are_scored_by_the_model_that_they_make():
    X, y = wave(2600)
    # Of the Gaussian process alone: with its neighbours .835 are inside.
    given = {"rank": 100, "memory": "rows", "members": ("gp",)}
    gp = StreamingGPRegressor(random_state=0, **given).fit(X[:300], y[:300])
    gp.unlearn(X[:300], y[:300]).partial_fit(X[300:600], y[300:600])
    assert 0.85 < inside(gp, X[600:], y[600:]) < 0.96


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "srmf", "brmf", "rgp"])
def test_fit_calibrates(method):
    """Outliers make the Gaussian process's own intervals far too wide."""
    X, y = wave(4000)
    rng = np.random.default_rng(3)
    hit = rng.random(4000) < 0.02
    y[hit] += 20 * rng.standard_normal(int(hit.sum()))
    gp = StreamingGPRegressor(**used_by(method, rank=80), guard=None, random_state=0)
    gp.fit(X[:1000], y[:1000])
    assert inside(gp, X[1000:], y[1000:], calibrated=False) > 0.94
    # The basis of a spectral method depends on the row that is left out: scores are too large, not too small.
    assert 0.86 < inside(gp, X[1000:], y[1000:]) < (0.98 if method in ("srmf", "brmf") else 0.93)


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "srmf", "brmf", "rgp"])
@pytest.mark.parametrize("q", [1, 2])
def test_rows_left_out_are_predicted_as_if_they_had_not_been_learned(method, q):
    """At full rank every method is the exact Gaussian process, whose rows can really be left out."""
    X, y = wave(70, q=q)
    given = {"noise": 0.05, "tune": "none", "random_state": 0}
    kernel = 1.5 * kernels.SquaredExponential(0.8)
    gp = StreamingGPRegressor(kernel, **used_by(method, rank=70), **given).fit(X, y)
    at = np.array([0, 13, 69])
    found = gp.learner_.state.left_out(X[at], y[at], at)
    for i, error, variance in zip(at, found.error, found.variance, strict=True):
        rest = np.delete(np.arange(70), i)
        gp = StreamingGPRegressor(kernel, method="nrmf", **given).fit(X[rest], y[rest])
        mean, std = gp.predict(X[i : i + 1], return_std=True, latent=True)
        np.testing.assert_allclose(error, y[i] - mean[0], atol=1e-7)
        np.testing.assert_allclose(variance, std[0] ** 2, atol=1e-7)


def test_scores_follow_a_noise_that_falls_and_a_tuning():
    errors = np.random.default_rng(0).standard_normal(500)
    scores = scored(errors, variance=3.0, noise=13.0)
    before = scores.reach(0.9, 13.0 * NOISE)[0]
    assert scores.reach(0.9, NOISE)[0] == pytest.approx(2.0 * before)
    assert scores.reach(0.9, 100.0 * NOISE)[0] == pytest.approx(before)
    for errors, variances, noises, ratio in ((3, 1, 1, 3.0), (1, 17, 1, 0.5), (1, 17, 4, 4 / 103**0.5)):
        retuned = scores.retuned(errors * np.ones(1), variances * np.ones(1), noises * np.ones(1))
        assert retuned.reach(0.9, 13.0 * noises * NOISE)[0] == pytest.approx(ratio * before)


@pytest.mark.parametrize("method", ["pivoted", "nrmf"])
def test_a_tuning_rescales_the_scores_of_the_model_before_it(method):
    """The prior is a hundred times too wide until the tuning: scores of before are far too small after it."""
    X, y = wave(1300)
    kernel = 100.0 * kernels.SquaredExponential(0.3) + kernels.White(0.01)
    # Of the Gaussian process alone: with its neighbours .783 are inside.
    used = used_by(method, rank=100, members=("gp",))
    gp = StreamingGPRegressor(kernel, tune="none", **used, random_state=0)
    for i in range(0, 300, 50):
        gp.partial_fit(X[i : i + 50], y[i : i + 50])
    gp.set_params(tune="continuous")
    for i in range(300, 400, 5):
        gp.partial_fit(X[i : i + 5], y[i : i + 5])
    assert inside(gp, X[400:], y[400:]) > 0.8


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "srmf", "rgp"])
def test_repeats_in_a_large_batch_do_not_shrink_intervals(method):
    X, y = wave(1300)
    stuck, target = np.repeat(X[:1], 600, axis=0), np.repeat(y[0], 600)
    arguments = {**used_by(method, rank=60), "random_state": 0}
    later = StreamingGPRegressor(**arguments).partial_fit(X[:300], y[:300]).partial_fit(stuck, target)
    at_once = StreamingGPRegressor(**arguments).fit(np.r_[X[:300], stuck], np.r_[y[:300], target])
    for gp in (later, at_once):
        assert 0.8 < inside(gp, X[300:], y[300:]) < 0.97


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "rgp"])
@pytest.mark.parametrize("level", [0.0, 1.0])
def test_inputs_that_stand_still_do_not_shrink_intervals_though_targets_tremble(method, level):
    X, y = wave(1300)
    rng = np.random.default_rng(0)
    gp = StreamingGPRegressor(**used_by(method, rank=60), random_state=0)
    for i in range(0, 300, 50):
        gp.partial_fit(X[i : i + 50], y[i : i + 50])
    for _ in range(16):
        gp.partial_fit(np.full((50, 3), level), 3 * np.sin(level) + 1e-3 * rng.standard_normal(50))
    assert 0.8 < inside(gp, X[300:], y[300:]) < 0.97


@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, 2.0), (3.0,)])
def test_few_distinct_inputs_are_scored_as_they_come(values):
    """One value is common and noisy, another rare and quiet; and a single value is all there is."""
    rng = np.random.default_rng(0)
    k = (rng.random(1600) < 0.1).astype(int) % len(values)
    X = np.array(values)[k][:, None]
    y = X[:, 0] + np.array([1.0, 0.1])[k] * rng.standard_normal(1600) * np.where(
        np.arange(1600) < 800, 1.0, 0.3
    )
    gp = StreamingGPRegressor(rank=20, random_state=0)
    covered = np.array([r.coverage for r in prequential(gp, X, y, batch_size=20) if r.coverage is not None])
    assert 0.85 < covered[20:40].mean() < 0.95
    # Of noise that was three times as large 800 rows ago, something is still remembered.
    assert 0.85 < covered[-20:].mean() < 0.98


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "rgp"])
def test_targets_that_never_varied_say_nothing_of_the_next(method):
    X = wave(80)[0]
    gp = StreamingGPRegressor(**used_by(method, rank=40), random_state=0).fit(X[:60], np.full(60, 5.0))
    _, lower, upper = gp.predict(X, return_interval=0.9)
    assert (upper - lower > 1.0).all()


@pytest.mark.parametrize("method", ["pivoted", "srmf", "rgp"])
@pytest.mark.parametrize("batch", [20, 100])
def test_a_function_that_drifts_is_covered(method, batch):
    """Rows left out lie between others; those that come next do not."""
    rng = np.random.default_rng(0)
    X, t = rng.uniform(-2, 2, (1200, 3)), np.linspace(0, 6, 1200)
    y = np.sin(X[:, 0] + t) + X[:, 1] + 0.1 * rng.standard_normal(1200)
    gp = StreamingGPRegressor(**used_by(method, rank=100), random_state=0)
    covered = [r.coverage for r in prequential(gp, X, y, batch_size=batch) if r.coverage is not None]
    assert np.mean(covered) > 0.8


def test_a_score_of_a_model_of_few_rows_counts_less():
    errors = np.r_[np.full(300, 1.0), np.full(300, 3.0)]
    assert scored(errors).reach(0.2, NOISE)[0] == 1.0
    assert scored(errors).reach(0.2, NOISE, rows=600)[0] == 3.0
