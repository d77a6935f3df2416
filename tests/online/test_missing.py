"""Missing labels: an output does not learn a row whose label is NaN, the others do."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from conftest import wave
from streamgp import StreamingGPRegressor, kernels, load
from streamgp.errors import InputError
from streamgp.evaluation import prequential
from streamgp.labels import missing, without_gaps
from streamgp.online.calibration import Scores
from streamgp.parameters import METHODS, OBJECTIVES, used_by
from streams import KERNEL

NAN = np.nan


def outputs(n, seed=0, noise=(0.05, 0.3, 0.02)):
    """Three functions of the same inputs, and what they are without noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    f = np.stack([np.sin(2 * X[:, 0] + j) * X[:, 1] + 0.3 * X[:, 2] for j in range(3)], axis=1)
    return X, f + np.array(noise) * rng.standard_normal((n, 3)), f


def gaps(y, share, seed=0):
    """Labels (n, q), a share of each output at random missing; no row loses all."""
    lost = np.random.default_rng(seed).uniform(size=y.shape) < share
    lost[lost.all(axis=1), 0] = False
    return np.where(lost, NAN, y)


def learned(X, y, batch=50, **given):
    gp = StreamingGPRegressor(
        random_state=0, **used_by(given.pop("method", "pivoted"), **({"rank": 100} | given))
    )
    for i in range(0, len(X), batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return gp


def fixed(method, rank):
    return StreamingGPRegressor(KERNEL, noise=0.05, tune="none", random_state=0, **used_by(method, rank=rank))


@pytest.mark.parametrize(("method", "n"), [("pivoted", 1200), ("nrmf", 500), ("rgp", 600), ("srmf", 500)])
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_an_output_with_missing_labels_is_learned_like_one_of_the_rows_it_has(method, n, share):
    X, y, _ = outputs(n)
    y = gaps(y, share)
    new, _, truth = outputs(400, seed=1)
    errors = np.sqrt(((learned(X, y, method=method).predict(new) - truth) ** 2).mean(axis=0))
    for j in range(3):
        known = ~np.isnan(y[:, j])
        alone = learned(X[known], y[known, j], method=method)
        # Kernels are tuned on other evidence, and rgp keeps the basis of its first rows.
        assert errors[j] <= 1.15 * np.sqrt(((alone.predict(new) - truth[:, j]) ** 2).mean())


@pytest.mark.parametrize("method", ["pivoted", "nrmf"])
@pytest.mark.parametrize("batch", [7, 60, 130])
def test_the_mean_of_an_output_does_not_move_by_rows_where_its_label_is_missing(method, batch):
    X, y, _ = outputs(260)
    new = outputs(40, seed=1)[0]
    gp = fixed(method, 300).partial_fit(X[:130], y[:130])
    before = gp.predict(new)
    y[130:, 1] = NAN
    for i in range(130, 260, batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    after = gp.predict(new)
    assert_allclose(after[:, 1], before[:, 1], atol=1e-13)
    assert np.abs(after[:, [0, 2]] - before[:, [0, 2]]).max() > 0.01


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "srmf", "brmf"])
@pytest.mark.parametrize("batch", [10, 50, 200])
def test_at_full_rank_an_output_is_the_exact_gp_of_the_labels_it_has(method, batch):
    X, y, _ = outputs(200)
    y = gaps(y, 0.4)
    y[:60] = y[:60] if batch == 200 else outputs(60)[1]  # split at once, or after some batches
    new = outputs(40, seed=1)[0]
    gp = fixed(method, 300)
    for i in range(0, 200, batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    mean, covariance = gp.predict(new, return_cov=True)
    std, evidence = gp.predict(new, return_std=True)[1], 0.0
    for j in range(3):
        known = ~np.isnan(y[:, j])
        alone = fixed("nrmf", 300).fit(X[known], y[known, j])
        assert_allclose(mean[:, j], alone.predict(new), atol=1e-7)
        assert_allclose(covariance[:, :, j], alone.predict(new, return_cov=True)[1], atol=1e-7)
        assert_allclose(std[:, j], alone.predict(new, return_std=True)[1], atol=1e-7)
        evidence += alone.log_evidence()
    assert gp.log_evidence() == pytest.approx(evidence, rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_outputs_that_have_every_label_learn_as_if_no_other_lacked_one(method):
    X, y, _ = outputs(220)
    a, b = fixed(method, 40), fixed(method, 40)
    for i in range(0, 220, 40):
        other = gaps(y[i : i + 40, :1], 0.6, seed=i)
        a.partial_fit(X[i : i + 40], y[i : i + 40])
        b.partial_fit(X[i : i + 40], np.c_[other, y[i : i + 40, 1:]])
    if method == "pivoted":  # pivots are exchanged by what was learned of every output
        assert_allclose(b.predict(X)[:, 1:], a.predict(X)[:, 1:], atol=0.2)
    else:
        assert_allclose(b.predict(X)[:, 1:], a.predict(X)[:, 1:], atol=1e-9)


def test_intervals_of_an_output_with_missing_labels_cover_what_they_promise():
    X, y, _ = outputs(2000)
    gp = learned(X[:1400], gaps(y[:1400], 0.5))
    _, lower, upper = gp.predict(X[1400:], return_interval=0.9)
    inside = ((lower <= y[1400:]) & (y[1400:] <= upper)).mean(axis=0)
    assert (inside > 0.85).all()
    assert (inside < 0.95).all()
    assert_allclose(gp.noise_ * gp.y_scale_**2, np.array([0.05, 0.3, 0.02]) ** 2, rtol=0.7)


def test_a_missing_label_is_neither_scored_nor_counted_for_the_noise():
    rng = np.random.default_rng(0)
    errors, variance, noise = rng.standard_normal((300, 2)), rng.uniform(0, 1, (300, 2)), np.array([1.0, 2.0])
    lost = rng.uniform(size=300) < 0.4
    holes = errors.copy()
    holes[lost, 1] = NAN
    scores = Scores.none(1, 2, errors).add(holes, variance, noise)
    alone = Scores.none(1, 1, errors).add(errors[~lost, 1:], variance[~lost, 1:], noise[1:])
    whole = Scores.none(1, 1, errors).add(errors[:, :1], variance[:, :1], noise[:1])
    for probability in (0.5, 0.9, 0.999):
        reach = scores.reach(probability, noise)
        assert reach[0] == whole.reach(probability, noise[:1])[0]
        assert reach[1] == alone.reach(probability, noise[1:])[0]
    assert scores.noise[0] == pytest.approx(whole.noise[0], rel=1e-12)
    assert scores.noise[1] == pytest.approx(
        alone.noise[0], rel=0.1
    )  # weights are of the mean variance of all rows
    few = Scores.none(1, 2, errors).add(np.where([[False, True]] * 300, NAN, errors), variance, noise)
    assert few.noise[0] == pytest.approx(whole.noise[0], rel=1e-12)
    assert np.isnan(few.noise[1])


def test_a_row_without_any_label_is_not_learned_and_counted():
    X, y, _ = outputs(200)
    a, b = fixed("pivoted", 50).fit(X[:100], y[:100]), fixed("pivoted", 50).fit(X[:100], y[:100])
    y[100:150:2] = NAN
    a.partial_fit(X[100:150], y[100:150])
    b.partial_fit(X[101:150:2], y[101:150:2])
    assert_array_equal(a.predict(X), b.predict(X))
    assert (a.n_samples_seen_, a.n_unlabelled_, b.n_unlabelled_) == (125, 25, 0)
    a.partial_fit(X[150:], np.full((50, 3), NAN))
    assert_array_equal(a.predict(X), b.predict(X))
    assert (a.n_samples_seen_, a.n_unlabelled_) == (125, 75)


def test_the_first_batch_must_have_a_label():
    with pytest.raises(InputError, match="no row of y has a label"):
        StreamingGPRegressor().partial_fit(np.ones((5, 2)), np.full((5, 2), NAN))


@pytest.mark.parametrize(
    "bad", [np.array([1.0, NAN, 2.0]), np.array([[1.0], [NAN], [2.0]])], ids=["(n,)", "(n, 1)"]
)
def test_a_missing_label_of_the_only_output_is_an_error(bad):
    X = np.arange(6.0).reshape(3, 2)
    with pytest.raises(InputError, match="NaN"):
        StreamingGPRegressor().partial_fit(X, bad)
    gp = StreamingGPRegressor().partial_fit(X, np.where(np.isnan(bad), 0.0, bad))
    with pytest.raises(InputError, match="NaN"):
        gp.partial_fit(X, bad)


@pytest.mark.parametrize("first", [True, False])
def test_infinity_is_an_error_beside_missing_labels_too(first):
    X, y, _ = outputs(60)
    gp = StreamingGPRegressor(random_state=0) if first else StreamingGPRegressor(random_state=0).fit(X, y)
    y[3, 0], y[5, 1] = NAN, np.inf
    with pytest.raises(InputError, match="infinity"):
        gp.partial_fit(X, y)


@pytest.mark.parametrize(
    "given", [{}, {"guard": 10.0}, *({"objective": o} for o in OBJECTIVES), {"noise": 0.1}], ids=str
)
@pytest.mark.parametrize("batch", [1, 40])
def test_streams_with_missing_labels_stay_finite_in_every_mode(given, batch):
    X, y, f = outputs(240)
    y = gaps(y, 0.5)
    y[:60, 2] = NAN  # an output that has no label for a while
    gp = learned(X, y, batch, rank=30, **given)
    found = gp.predict(X, return_interval=0.9)
    assert all(np.isfinite(v).all() for v in found)
    assert gp.n_refused_ == 0
    assert np.corrcoef(found[0][:, 0], f[:, 0])[0, 1] > 0.8


@pytest.mark.parametrize("method", METHODS)
def test_going_on_from_a_checkpoint_with_missing_labels_is_bit_for_bit(method, tmp_path):
    X, y, _ = outputs(300)
    y = gaps(y, 0.4)
    gp = learned(X[:180], y[:180], 30, method=method, rank=40)
    gp.save(tmp_path / "model")
    other = load(tmp_path / "model")
    for each in (gp, other):
        each.partial_fit(X[180:], y[180:])
    for a, b in zip(gp.predict(X, return_interval=0.9), other.predict(X, return_interval=0.9), strict=True):
        assert_array_equal(a, b)
    assert gp.n_unlabelled_ == other.n_unlabelled_


def test_the_evidence_of_missing_labels_is_in_the_units_of_each_output():
    X, y, _ = outputs(120)
    y = gaps(y, 0.4) * [1.0, 1e3, 1e-3]
    gp = StreamingGPRegressor(method="nrmf", random_state=0).fit(X, y)
    expected = 0.0
    for j in range(3):
        known = ~np.isnan(y[:, j])
        C = gp.kernel_.block(X[known]) + gp.noise_[j] * np.eye(known.sum())
        mean, scale = np.full(known.sum(), gp.y_offset_[j]), gp.y_scale_[j] ** 2
        expected += multivariate_normal(mean, scale * C).logpdf(y[known, j])
    assert gp.log_evidence() == pytest.approx(expected, rel=1e-9)


def test_frames_lists_and_float32_may_lack_labels():
    X, y, _ = outputs(80)
    y = gaps(y, 0.3)
    expected = learned(X, y, 40).predict(X)
    assert_array_equal(learned(X, pd.DataFrame(y, columns=list("abc")), 40).predict(X), expected)
    assert_array_equal(learned(X, y.tolist(), 40).predict(X), expected)
    assert_allclose(learned(X, y.astype(np.float32), 40).predict(X), expected, atol=1e-3)


def test_after_missing_labels_nothing_is_unlearned_or_merged():
    X, y, _ = outputs(100)
    holes = gaps(y, 0.3)
    gp, whole = fixed("pivoted", 50).fit(X, holes), fixed("pivoted", 50).fit(X, y)
    before = gp.predict(X)
    for act in (lambda: gp.unlearn(X[:3], y[:3]), lambda: gp.merge(whole), lambda: whole.merge(gp)):
        with pytest.raises(InputError, match="labels were missing"):
            act()
    with pytest.raises(InputError, match="a row without a label was not learned"):
        whole.unlearn(X[:20], holes[:20])
    assert_array_equal(gp.predict(X), before)
    assert gp.pivots_.shape == (50, 3)


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
def test_outputs_with_missing_labels_forget(method):
    X, y, _ = outputs(400)
    changed = gaps(np.where(np.arange(400)[:, None] < 200, -y, y), 0.5)
    kernel = kernels.SquaredExponential([1.0, 2.0, 4.0])
    error = {}
    for forgetting in (1.0, 0.8):
        gp = StreamingGPRegressor(
            kernel, noise=0.05, tune="none", forgetting=forgetting, random_state=0, rank=60, method=method
        )
        for i in range(0, 400, 25):
            gp.partial_fit(X[i : i + 25], changed[i : i + 25])
        error[forgetting] = np.abs(gp.predict(X) - y).mean()
    assert error[0.8] < 0.7 * error[1.0]


def test_missing_labels_are_not_scored_in_an_evaluation():
    X, y, _ = outputs(300)
    records = list(prequential(StreamingGPRegressor(rank=40, random_state=0), X, gaps(y, 0.5), 60))
    assert all(np.isfinite([r.rmse, r.nlpd, r.coverage]).all() for r in records[1:])


def test_first_estimates_take_observed_labels_in_turn():
    y = np.array([[1.0, NAN, NAN], [NAN, 5.0, NAN], [3.0, NAN, NAN], [NAN, 7.0, NAN], [9.0, NAN, NAN]])
    assert without_gaps(y).T.tolist() == [[1, 1, 3, 3, 9], [5, 5, 7, 7, 5], [0, 0, 0, 0, 0]]
    assert missing(y).sum() == 10
    whole = wave(5, q=2)[1]
    assert missing(whole) is None
    assert without_gaps(whole) is whole
