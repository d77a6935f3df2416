"""Laws of intervals that know where they are: local scales, and ends that are calibrated apart."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.evaluation import prequential
from streamgp.online.local import LOCAL_ROWS, TOGETHER, LocalScale, Place
from streamgp.online.weights import conformal_ends, recent_weights
from streamgp.parameters import used_by


def halves(n, d, seed=0, quiet=0.05, loud=0.5):
    """Noise that is small where the first input is negative, and large elsewhere."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    noise = np.where(X[:, 0] < 0, quiet, loud)
    return X, np.sin(2 * X[:, 0]) + X[:, 1:].sum(axis=1) + noise * rng.standard_normal(n)


def answered(gp, X, y, batch=20, first=100, probability=0.9, **asked):
    """Predict each batch and learn it; return mean, standard deviation and ends of the intervals."""
    gp.partial_fit(X[:first], y[:first])
    parts = []
    for i in range(first, len(X), batch):
        parts.append(gp.predict(X[i : i + batch], return_std=True, return_interval=probability, **asked))
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "srmf", "rgp"])
@pytest.mark.parametrize(("d", "seed"), [(1, 0), (2, 1)])
def test_quiet_and_loud_places_are_covered_alike(method, d, seed):
    X, y = halves(1600, d, seed)
    gp = StreamingGPRegressor(**used_by(method, rank=50), random_state=0)
    _, std, low, high = answered(gp, X, y, batch=50)
    X, y, std = X[600:], y[600:], std[500:]
    inside, quiet = (low[500:] <= y) & (y <= high[500:]), X[:, 0] < 0
    assert 0.85 < inside[quiet].mean() < 0.96
    assert 0.84 < inside[~quiet].mean() < 0.95
    # The standard deviation is that of the noise in the middle of either half.
    middle = np.abs(np.abs(X[:, 0]) - 1) < 0.5
    assert 0.7 < np.median(std[middle & ~quiet]) / 0.5 < 1.3
    assert np.median(std[middle & quiet]) < 0.15
    alone = StreamingGPRegressor(**used_by(method, rank=50), members=("gp",), random_state=0)
    plain = answered(alone, *halves(1000, d), calibrated=False)[1]
    assert plain.max() < 1.5 * plain[-500:].min()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("given", [{}, {"tune": "none", "noise": 0.05, "kernel": "matern32"}])
def test_where_noise_is_the_same_everywhere_nothing_changes(seed, given):
    X, y = wave(1500, seed=seed)
    y = y + 0.2 * np.random.default_rng(seed).standard_normal(1500)
    gp = StreamingGPRegressor(rank=50, random_state=0, **given)
    answered(gp, X, y, batch=50)
    assert (gp.learner_.scores.local.chosen == 0).all()
    for asked in ({"return_std": True}, {"return_cov": True}):
        ours, plain = (gp.predict(X[:50], calibrated=c, **asked)[1] for c in (True, False))
        np.testing.assert_array_equal(ours, plain)


def test_noise_that_grows_with_the_level_is_found_by_the_predicted_mean():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3000, 4))
    level = np.exp(0.7 * X[:, 0] + 0.5 * np.sin(2 * X[:, 1]))
    y = level * (1 + 0.3 * rng.standard_normal(3000))
    gp = StreamingGPRegressor(rank=100, random_state=0)
    mean, std, low, high = answered(gp, X, y, batch=100, first=500)
    error, plain = y[500:] - mean, StreamingGPRegressor(rank=100, random_state=0)
    own = answered(plain, X, y, batch=100, first=500, calibrated=False)[1]

    def density(spread):
        return np.mean(np.log(spread[1000:]) + 0.5 * (error / spread)[1000:] ** 2)

    assert density(std) < density(own) - 0.3
    inside = (low <= y[500:]) & (y[500:] <= high)
    for third in np.array_split(np.argsort(level[1500:]), 3):
        assert 0.82 < inside[1000:][third].mean() < 0.98


def test_fit_knows_quiet_places_too():
    X, y = halves(3000, 1)
    gp = StreamingGPRegressor(rank=50, random_state=0).fit(X[:1500], y[:1500])
    _, low, high = gp.predict(X[1500:], return_interval=0.9)
    inside, quiet = (low <= y[1500:]) & (y[1500:] <= high), X[1500:, 0] < 0
    assert 0.82 < inside[quiet].mean() < 0.97
    assert 0.82 < inside[~quiet].mean() < 0.97


def test_each_output_has_its_own_scale():
    X, y = halves(2000, 1)
    rng = np.random.default_rng(5)
    both = np.column_stack([y, np.cos(X[:, 0]) + 0.2 * rng.standard_normal(2000)])
    gp = StreamingGPRegressor(rank=50, random_state=0)
    answered(gp, X, both, batch=50)
    chosen = gp.learner_.scores.local.chosen
    assert chosen[0] > 0
    assert chosen[1] == 0
    ours, plain = (gp.predict(X[:90], return_std=True, calibrated=c)[1] for c in (True, False))
    assert_allclose(ours[:, 1], plain[:, 1])
    assert ours[:, 0].max() > 4 * ours[:, 0].min()


@pytest.mark.parametrize("q", [None, 2])
def test_std_interval_factor_and_covariance_agree_where_scales_are_in_use(q):
    X, y = halves(1500, 1)
    gp = StreamingGPRegressor(rank=50, members=("gp",), random_state=0)
    answered(gp, X, y if q is None else np.column_stack([y, 2 * y]), batch=50)
    assert gp.learner_.scores.local.chosen.all()
    _, std, low, high = gp.predict(X[:40], return_std=True, return_interval=0.8)
    assert_allclose((high - low) / 2, gp.interval_factor(0.8) * std, rtol=1e-10)
    assert_allclose(gp.predict(X[:40], return_std=True)[1], std)
    covariance = gp.predict(X[:40], return_cov=True)[1]
    diagonal = np.diagonal(covariance, axis1=0, axis2=1).T
    assert_allclose(np.sqrt(diagonal) if q else np.sqrt(np.diagonal(covariance)), std, rtol=1e-7)
    latent = gp.predict(X[:40], return_std=True, latent=True)[1]
    assert (latent < gp.predict(X[:40], return_std=True, calibrated=False)[1]).all()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("probability", [0.8, 0.9])
def test_skewed_errors_miss_as_often_below_as_above(sign, probability):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3000, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + sign * 0.3 * (rng.exponential(size=3000) - 1)
    gp = StreamingGPRegressor(rank=50, random_state=0)
    _, _, low, high = answered(gp, X, y, batch=50, first=500, probability=probability)
    share = (1 - probability) / 2
    assert 0.4 * share < (y[500:] < low).mean() < 1.6 * share
    assert 0.4 * share < (y[500:] > high).mean() < 1.6 * share


@pytest.mark.parametrize("distribution", ["standard_normal", "standard_cauchy", "uniform"])
def test_symmetric_scores_have_symmetric_intervals(distribution):
    for seed in range(20):
        draw = getattr(np.random.default_rng(seed), distribution)
        scores = draw(size=700) - (0.5 if distribution == "uniform" else 0.0)
        for probability in (0.5, 0.9):
            below, above = conformal_ends(scores, recent_weights(700), probability, 1.0)
            assert below == above


def test_ends_are_the_quantiles_of_skewed_scores_and_grow_with_the_probability():
    scores = np.random.default_rng(0).exponential(size=1000) - 0.7
    weights, before = recent_weights(1000), (0.0, 0.0)
    for probability in (0.3, 0.5, 0.8, 0.9, 0.95):
        below, above = conformal_ends(scores, weights, probability, 1.0)
        assert below >= before[0]
        assert above >= before[1]
        before = (below, above)
        for side, end in ((scores, above), (-scores, below)):
            beyond = weights[side > end].sum() / weights.sum()
            assert beyond == pytest.approx((1 - probability) / 2, abs=0.01)


def test_the_last_rows_lengthen_intervals_where_they_show_that_errors_have_grown():
    rng = np.random.default_rng(0)
    calm = rng.standard_normal(1500)
    before = conformal_ends(calm, recent_weights(1500), 0.9, 1.0)
    grown = np.r_[calm[60:], 4 * rng.standard_normal(60)]
    after = conformal_ends(grown, recent_weights(1500), 0.9, 1.0)
    assert after[0] > 2.5 * before[0]
    outside = np.abs(4 * rng.standard_normal(500)) > after[0]
    assert outside.mean() < 0.3


@pytest.mark.parametrize(
    "kernel", [kernels.DistancePolynomial((0.0, 0.7, 0.4)), kernels.Linear(1.0), "dictionary"]
)
@pytest.mark.filterwarnings("ignore::streamgp.errors.NegativeVarianceWarning")  # of the polynomial
def test_scales_are_finite_and_positive_for_any_kernel(kernel):
    X, y = halves(700, 2)
    X[350:360] = 0.0  # k(0, 0) = 0 for the linear kernel
    gp = StreamingGPRegressor(kernel, method="srmf", rank=20, random_state=0, noise=0.1)
    with np.errstate(all="raise", under="ignore"):
        for record in prequential(gp, X, y, batch_size=50):
            assert record.nlpd is None or np.isfinite(record.nlpd)
    scales = gp.learner_.scores.local.scales
    assert np.isfinite(scales).all()
    assert (scales > 0).all()


@pytest.mark.parametrize("q", [1, 3])
def test_a_scale_is_known_before_its_row_is_scored(q):
    """The scores of a batch do not change the scales of its own rows, and memory is bounded."""
    rng = np.random.default_rng(0)
    kernel, local, sizes = kernels.SquaredExponential(1.0), LocalScale.none(2, q), np.empty((0, q))
    for _ in range(20):
        new, before = rng.exponential(size=(60, q)), sizes[-local.count :] if local.count else sizes[:0]
        place = Place(rng.standard_normal((60, 2)), rng.standard_normal((60, q)), np.zeros(60), kernel)
        other = local.add(place, np.concatenate([before, rng.exponential(size=(60, q))]))
        known, local = local.count, local.add(place, np.concatenate([before, new]))
        if known:
            np.testing.assert_array_equal(local.scales[-60:], other.scales[-60:])
        sizes = np.concatenate([sizes, new])
    assert local.count == LOCAL_ROWS < sizes.shape[0]


def test_rows_that_come_one_by_one_are_added_together():
    rng = np.random.default_rng(0)
    kernel, X, sizes = (
        kernels.SquaredExponential(1.0),
        rng.standard_normal((47, 2)),
        rng.exponential(size=(47, 1)),
    )
    one = LocalScale.none(2, 1)
    for i in range(47):
        assert one.count + one.waiting == i
        one = one.add(Place(X[i : i + 1], X[i : i + 1, :1], np.zeros(1), kernel), sizes[: i + 1])
    many = LocalScale.none(2, 1)
    for i in (0, TOGETHER, 2 * TOGETHER):
        rows = slice(i, min(i + TOGETHER, 47))
        many = many.add(Place(X[rows], X[rows, :1], np.zeros(rows.stop - i), kernel), sizes[: rows.stop])
    assert (one.count, one.waiting) == (many.count, many.waiting) == (40, 7)
    np.testing.assert_array_equal(one.scales, many.scales)
    np.testing.assert_array_equal(one.gains, many.gains)
    assert (one.without_last(10).count, one.without_last(10).waiting) == (37, 0)


@pytest.mark.parametrize("lag", [0, 20, 60, 140, 300])
def test_a_late_row_is_scaled_by_the_rows_that_were_scored_when_it_was_answered(lag):
    rng = np.random.default_rng(0)
    kernel, X = kernels.SquaredExponential(1.0), rng.standard_normal((240, 2))
    sizes = rng.exponential(size=(240, 1))

    def added(local, rows, lag=0):
        n = rows.stop - rows.start
        scores = np.concatenate([sizes[: local.count], sizes[rows]])
        return local.add(Place(X[rows], X[rows, :1], np.full(n, lag), kernel), scores)

    stages = [LocalScale.none(2, 1)]
    for n in range(0, 200, TOGETHER):
        stages.append(added(stages[-1], slice(n, n + TOGETHER)))
    now = slice(200, 200 + TOGETHER)
    found = added(stages[-1], now, lag).scales[-TOGETHER:]
    # Of the first row: those after it were answered when the ones before them had not been scored either.
    then = (
        added(stages[(200 - lag) // TOGETHER], now).scales[-TOGETHER:] if lag < 200 else np.ones_like(found)
    )
    assert_allclose(found[0], then[0], rtol=1e-12)


def test_outliers_do_not_scale_their_neighbourhood_and_missing_labels_count_for_nothing():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (900, 1))
    sizes = np.abs(rng.standard_normal((900, 2)))
    sizes[100] = 1e6
    sizes[rng.random(900) < 0.3, 1] = np.nan
    place = Place(X, np.zeros((900, 2)), np.zeros(900), kernels.SquaredExponential(1.0))
    local = LocalScale.none(1, 2).add(place, sizes)
    assert local.scales.max() < 3
    assert (local.chosen == 0).all()
