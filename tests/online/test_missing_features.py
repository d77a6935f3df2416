"""Missing features: filled in by what the others say; intervals are wider by what they might have been."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils import get_tags

from streamgp import StreamingGPRegressor, load
from streamgp.errors import InputError
from streamgp.methods import Prediction
from streamgp.online.missing import Imputation
from streamgp.parameters import METHODS, used_by

NAN = np.nan


def sensors(n, seed=0, q=1):
    """Rows of four sensors, of which the third is nearly the sum of the first two; targets and the function."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 3))
    X = np.column_stack([Z[:, 0], Z[:, 1], Z[:, 0] + Z[:, 1] + 0.1 * rng.standard_normal(n), Z[:, 2]])
    f = np.sin(1.5 * X[:, 0]) + X[:, 1] + 0.3 * X[:, 3]
    f = f if q == 1 else np.stack([(j + 1) * f + j for j in range(q)], axis=1)
    return X, f + 0.1 * rng.standard_normal(f.shape), f


def holed(X, share=0.1, seed=0):
    """The rows with a share of cells missing, at random; none lacks all."""
    gone = np.random.default_rng(seed).uniform(size=X.shape) < share
    gone[gone.all(axis=1), 0] = False
    return np.where(gone, NAN, X)


def learned(X, y, batch=50, **given):
    gp = StreamingGPRegressor(
        random_state=0, **used_by(given.pop("method", "pivoted"), **({"rank": 80, "neighbours": 0} | given))
    )
    for i in range(0, len(X), batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return gp


def normal_rows(n, d, seed):
    """Rows of a normal distribution, its mean and its covariance."""
    rng = np.random.default_rng(seed)
    root, mean = rng.standard_normal((d, d)), 5.0 * rng.standard_normal(d)
    return mean + rng.standard_normal((n, d)) @ root.T, mean, root @ root.T


@pytest.mark.parametrize("gone", [[0], [1, 3], [0, 2, 4], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_missing_feature_is_filled_in_by_its_conditional_mean(gone, dtype):
    X, _, _ = normal_rows(20_000, 5, seed=1)
    mean, covariance = X.mean(axis=0), np.cov(X.T)
    rows = X[:7].astype(dtype)
    rows[:, gone] = NAN
    there = [j for j in range(5) if j not in gone]
    weights = np.linalg.solve(covariance[np.ix_(there, there)], covariance[np.ix_(there, gone)])
    expected = mean[gone] + (X[:7][:, there] - mean[there]) @ weights
    filled = Imputation.of(X).fill(rows)
    assert filled.dtype == dtype
    assert_array_equal(filled[:, there], rows[:, there])
    # The prior of one row beside 20,000.
    assert_allclose(filled[:, gone], expected, atol=2e-3)


@pytest.mark.parametrize("share", [0.1, 0.4])
@pytest.mark.parametrize("seed", [0, 3])
def test_moments_of_rows_with_gaps_are_those_of_whole_rows(share, seed):
    X, mean, covariance = normal_rows(3000, 4, seed)
    gaps = holed(X, share)
    imputation = Imputation.begun(gaps[:1000])
    for i in range(1000, 3000, 100):
        rows = gaps[i : i + 100]
        imputation = imputation.update(imputation.fill(rows), np.isnan(rows), 1.0)
    moments, scale = imputation.moments, np.sqrt(np.diag(covariance))
    found = moments.scatter / moments.count * np.outer(moments.unit, moments.unit)
    # The standard error of a correlation of 3,000 rows is 0.02; gaps make it larger, and the first look coarser.
    assert_allclose(found / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.12)
    assert_allclose(moments.mean * moments.unit / scale, mean / scale, atol=0.12)


class Quadratic:
    """A state whose mean is a + bᵀx + xᵀCx, of two outputs."""

    def __init__(self, d, seed):
        rng = np.random.default_rng(seed)
        self.b, self.C = rng.standard_normal((d, 2)), rng.standard_normal((d, d))
        self.C = self.C + self.C.T

    def predict(self, X, variance=True):
        return Prediction(X @ self.b + np.einsum("ni,ij,nj->n", X, self.C, X)[:, None])


@pytest.mark.parametrize("gone", [[0], [2]])
def test_the_doubt_of_a_missing_feature_is_exact_for_a_quadratic_function(gone):
    X, _, _ = normal_rows(5000, 3, seed=2)
    imputation, state = Imputation.of(X), Quadratic(3, seed=0)
    rows = X[:5].copy()
    rows[:, gone] = NAN
    filled = imputation.fill(rows)
    doubt = imputation.doubt(state, filled, np.isnan(rows))
    (j,) = gone
    variance = 1.0 / np.linalg.inv(np.cov(X.T))[j, j]
    slope = state.b[j] + 2.0 * (filled @ state.C[:, j])[:, None]
    assert_allclose(doubt, slope**2 * variance + 2.0 * state.C[j, j] ** 2 * variance**2, rtol=1e-2)
    assert (imputation.doubt(state, X[:5], np.zeros((5, 3), dtype=bool)) == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_and_predicts_rows_with_gaps(method):
    n = 300 if method in ("nrmf", "brmf", "srmf") else 600
    X, y, _ = sensors(n)
    gp = learned(holed(X), y, method=method)
    new, _, truth = sensors(300, seed=1)
    mean, std = gp.predict(holed(new, seed=1), return_std=True)
    error = np.sqrt(np.mean((mean - truth) ** 2))
    # The mean of each sensor in the place of gaps leaves an error of 0.4 and more.
    assert error < 0.36
    assert np.isfinite(std).all()


@pytest.mark.parametrize("batch", [1, 40])
@pytest.mark.parametrize("q", [1, 2])
def test_intervals_cover_rows_with_gaps_and_others_and_are_wider_for_gaps(batch, q):
    n = 600 if batch == 1 else 1800
    X, y, _ = sensors(n, q=q)
    gaps = holed(X, 0.1)
    gp, inside, widths = StreamingGPRegressor(random_state=0, rank=60, neighbours=0), [], []
    for i in range(0, n, batch):
        rows, targets = gaps[i : i + batch], y[i : i + batch]
        if i >= 200:
            _, low, high = gp.predict(rows, return_interval=0.9)
            inside.append(((low <= targets) & (targets <= high)).reshape(len(rows), -1).mean(axis=1))
            widths.append((high - low).reshape(len(rows), -1).mean(axis=1))
        gp.partial_fit(rows, targets)
    inside, widths, some = np.concatenate(inside), np.concatenate(widths), np.isnan(gaps[200:]).any(axis=1)
    # Rows of one kind: 140 to 1,000 of them; two standard errors of a coverage of 90 % are 5 % and 1.9 %.
    slack = 0.06 if batch == 1 else 0.035
    assert abs(inside[some].mean() - 0.9) < slack
    assert abs(inside[~some].mean() - 0.9) < slack
    assert widths[some].mean() > 1.3 * widths[~some].mean()


def test_what_matters_more_widens_the_interval_more():
    X, y, _ = sensors(900)
    gp = learned(holed(X), y)
    row = np.zeros((1, 4))
    stds = {}
    for gone in ((), (2,), (3,), (1, 2), (0, 1, 2)):
        asked = row.copy()
        asked[:, list(gone)] = NAN
        stds[gone] = float(gp.predict(asked, return_std=True)[1][0])
    assert stds[()] <= stds[2,] < stds[3,] < stds[1, 2] < stds[0, 1, 2]
    # Without them, all but the fourth sensor's share is unknown.
    assert stds[0, 1, 2] > 0.8
    assert stds[2,] < 1.3 * stds[()]


@pytest.mark.parametrize("tune", ["doubling", "none"])
def test_a_row_without_any_feature_is_answered_with_the_prior_and_not_learned(tune):
    X, y, _ = sensors(600)
    y = y + 7.0
    gp = learned(X, y, tune=tune)
    empty = np.full((3, 4), NAN)
    before = gp.predict(X[:20], return_std=True)
    mean, std, low, high = gp.predict(empty, return_std=True, return_interval=0.9)
    spread = y.std()
    assert_allclose(mean, y.mean(), atol=0.5 * spread)
    assert ((0.7 * spread < std) & (std < 1.5 * spread)).all()
    assert ((low < mean - spread) & (high > mean + spread)).all()
    gp.partial_fit(empty, [1e3, -1e3, 0.0])
    assert (gp.n_empty_, gp.n_samples_seen_) == (3, 600)
    for was, now in zip(before, gp.predict(X[:20], return_std=True), strict=True):
        assert_array_equal(now, was)
    covariance = gp.predict(np.r_[empty[:1], X[:2]], return_cov=True)[1]
    assert covariance[0, 1] == covariance[0, 2] == 0 < covariance[0, 0]
    with pytest.raises(InputError, match="no row of X has a feature"):
        StreamingGPRegressor().fit(empty, [1.0, 2.0, 3.0])


def test_gaps_are_counted_by_column():
    X, y, _ = sensors(400)
    gaps = holed(X, 0.2)
    gaps[[3, 77, 250]] = NAN
    gp = learned(gaps, y)
    assert_array_equal(gp.n_missing_, np.isnan(gaps).sum(axis=0))
    assert gp.n_empty_ == 3
    assert gp.n_samples_seen_ + gp.n_refused_ == 397
    assert_array_equal(learned(X, y).n_missing_, np.zeros(4))


@pytest.mark.parametrize("method", ["pivoted", "nrmf"])
def test_missing_raise_refuses_gaps_and_learns_the_same_bits_of_whole_rows(method):
    X, y, _ = sensors(300)
    a, b = (learned(X, y, method=method, missing=missing) for missing in ("impute", "raise"))
    for one, other in zip(a.predict(X, return_std=True), b.predict(X, return_std=True), strict=True):
        assert_array_equal(one, other)
    bad, before = holed(X), pickle.dumps(b)
    with pytest.raises(InputError, match="NaN"):
        b.partial_fit(bad, y)
    with pytest.raises(InputError, match="NaN"):
        b.predict(bad)
    assert pickle.dumps(b) == before
    with pytest.raises(InputError, match="NaN"):
        StreamingGPRegressor(missing="raise").fit(bad, y)
    assert not get_tags(b).input_tags.allow_nan
    assert get_tags(a).input_tags.allow_nan


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_refused_beside_gaps(bad):
    X, y, _ = sensors(100)
    gp, rows = learned(X, y), holed(X)
    rows[5, 1] = bad
    with pytest.raises(InputError, match="infinity"):
        gp.partial_fit(rows, y)
    with pytest.raises(InputError, match="infinity"):
        gp.predict(rows)


def test_an_error_leaves_counts_and_moments_and_inputs_are_not_written_to(tmp_path):
    X, y, _ = sensors(200)
    gp, rows = learned(holed(X), y), holed(X, seed=1)
    gp.save(tmp_path / "before.gp")
    kept = rows.copy()
    with pytest.raises(InputError):
        gp.partial_fit(rows, np.where(np.arange(200) == 7, NAN, y))
    with pytest.raises(InputError, match="overflow"):
        gp.partial_fit(rows, 1e200 * y)
    gp.save(tmp_path / "after.gp")
    assert (tmp_path / "after.gp").read_bytes() == (tmp_path / "before.gp").read_bytes()
    gp.partial_fit(rows, y)
    gp.predict(rows)
    assert_array_equal(rows, kept)


def test_a_row_is_predicted_alike_alone_and_among_others():
    X, y, _ = sensors(600)
    gp, rows = learned(holed(X), y), holed(sensors(30, seed=1)[0], 0.3)
    together = gp.predict(rows, return_std=True, return_interval=0.8)
    alone = [gp.predict(row[None], return_std=True, return_interval=0.8) for row in rows]
    for one, other in zip(together, zip(*alone, strict=True), strict=True):
        # Products of other sizes round otherwise.
        assert_allclose(one, np.ravel(other), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("copied", ["save", "pickle", "deepcopy"])
def test_going_on_from_a_copy_gives_the_same_bits(copied, tmp_path):
    X, y, _ = sensors(500)
    gaps = holed(X, 0.2)
    gp = learned(gaps[:300], y[:300])
    gp.predict(gaps[300:320], return_std=True)
    if copied == "save":
        gp.save(tmp_path / "m.gp")
        other = load(tmp_path / "m.gp")
    else:
        other = pickle.loads(pickle.dumps(gp)) if copied == "pickle" else copy.deepcopy(gp)
    for i in range(300, 500, 20):
        gp.partial_fit(gaps[i : i + 20], y[i : i + 20])
        other.partial_fit(gaps[i : i + 20], y[i : i + 20])
    for one, two in zip(gp.predict(gaps, return_std=True), other.predict(gaps, return_std=True), strict=True):
        assert_array_equal(one, two)
    assert_array_equal(gp.n_missing_, other.n_missing_)


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
def test_rows_with_gaps_are_unlearned_as_they_were_filled_in(method):
    X, y, _ = sensors(400)
    gaps = holed(X, 0.2)
    gp = learned(gaps[:300], y[:300], 300, method=method, guard=None, tune="none", noise=0.05)
    before = gp.predict(X[:50])
    gp.partial_fit(gaps[300:], y[300:])
    assert np.abs(gp.predict(X[:50]) - before).max() > 1e-3
    after = copy.deepcopy(gp)
    gp.unlearn(gaps[300:], y[300:])
    if method == "rgp":  # pivots are not exchanged: what is left is what was there
        assert_allclose(gp.predict(X[:50]), before, atol=1e-6)
    else:
        kept = learned(gaps[:300], y[:300], 300, method=method, guard=None, tune="none", noise=0.05)
        assert (
            np.abs(gp.predict(X[:50]) - kept.predict(X[:50])).max()
            < 0.3 * np.abs(after.predict(X[:50]) - before).max()
        )
    assert gp.n_samples_seen_ == 300
    strange = np.full((1, 4), 0.5)
    strange[0, 1] = NAN
    with pytest.raises(InputError, match="row 0 lacks features, and is not among the last 2,000"):
        gp.unlearn(strange, y[:1])


def test_merged_regressors_have_the_moments_and_the_counts_of_both():
    X, y, _ = sensors(800)
    gaps = holed(X, 0.2)
    given = {"tune": "none", "noise": 0.05, "guard": None}
    start = learned(gaps[:100], y[:100], 100, **given)
    a, b = copy.deepcopy(start), copy.deepcopy(start)
    for gp, rows in ((a, slice(100, 400)), (b, slice(400, 800))):
        gp.partial_fit(gaps[rows], y[rows])
    total = a.n_missing_ + b.n_missing_
    moments = b.learner_.imputation.moments
    a.merge(b)
    assert_array_equal(a.n_missing_, total)
    assert a.learner_.imputation.moments.count == pytest.approx(400 + moments.count)
    new = holed(sensors(100, seed=3)[0], 0.3)
    assert np.sqrt(np.mean((a.predict(new) - sensors(100, seed=3)[2]) ** 2)) < 0.8


@pytest.mark.parametrize("ids", [True, False])
def test_late_labels_of_rows_with_gaps_are_scored_by_what_was_answered(ids):
    X, y, _ = sensors(400)
    gaps, gp = holed(X, 0.3), learned(holed(X)[:200], y[:200])
    names = [f"row {i}" for i in range(400)]
    for i in range(200, 400, 10):
        gp.predict(gaps[i : i + 10], return_std=True, ids=names[i : i + 10] if ids else None)
        if i >= 240:
            late = slice(i - 40, i - 30)
            gp.partial_fit(gaps[late], y[late], ids=names[late] if ids else None)
    lags = np.asarray(gp.learner_.mixture.scores.lags)
    assert (lags[-100:] > 0).all()


@pytest.mark.parametrize("first", [1, 20, 200])
def test_the_first_rows_may_have_gaps_and_a_sensor_may_begin_later(first):
    X, y, truth = sensors(1200)
    gaps = holed(X, 0.2)
    gaps[:100, 1] = NAN
    gp = StreamingGPRegressor(random_state=0, rank=80, neighbours=0).partial_fit(gaps[:first], y[:first])
    for i in range(first, 1000, 50):
        gp.predict(gaps[i : i + 5])
        gp.partial_fit(gaps[i : i + 50][: 1000 - i], y[i : i + 50][: 1000 - i])
    assert np.sqrt(np.mean((gp.predict(X[1000:]) - truth[1000:]) ** 2)) < 0.25


def test_a_broken_reading_beside_a_gap_neither_moves_the_fill_nor_is_learned():
    X, y, _ = sensors(900)
    gaps = holed(X, 0.2)
    gp = learned(gaps[:600], y[:600])
    gaps[610:613, 0] = 1e9
    gp.partial_fit(gaps[600:650], y[600:650])
    assert gp.n_refused_ >= 3
    rows = np.array([[NAN, 0.1, 0.2, 0.3], [0.1, NAN, 0.3, 1.0]])
    assert (np.abs(gp.learner_.imputation.fill(rows)) < 5).all()


def test_a_frame_with_gaps_is_learned_by_name():
    X, y, _ = sensors(300)
    frame = pd.DataFrame(holed(X), columns=list("abcd"))
    gp, plain = (StreamingGPRegressor(random_state=0, rank=60).fit(rows, y) for rows in (frame, holed(X)))
    assert_array_equal(gp.predict(frame[list("dcba")]), plain.predict(holed(X)))
    nullable = frame.convert_dtypes()
    assert_array_equal(gp.predict(nullable), plain.predict(holed(X)))


@pytest.mark.parametrize("first", [True, False])
def test_refused_tells_of_every_row_of_the_batch_those_without_features_too(first):
    X, y, _ = sensors(300)
    X[[1, 40]], y[20] = NAN, 1e6
    gp = learned(sensors(400, seed=1)[0], sensors(400, seed=1)[1]) if not first else StreamingGPRegressor()
    gp.partial_fit(X[:60], y[:60])
    assert_array_equal(np.flatnonzero(gp.refused_), [20])
    assert gp.refused_.shape == (60,)
    if not first:
        assert not gp.partial_fit(np.full((2, 4), NAN), [1.0, 2.0]).refused_.any()
        assert gp.refused_.shape == (2,)
