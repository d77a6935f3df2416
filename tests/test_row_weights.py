"""Law 16: a row of weight w equals w rows, and equals noise σ²/w."""

import copy
import itertools
import pickle
import warnings

import numpy as np
import pytest
import scipy.stats

from streamgp import StreamingGPRegressor, kernels, load
from streamgp.errors import InputError

METHODS = ("pivoted", "rgp", "nrmf", "srmf", "brmf")
KERNEL = kernels.Matern(0.8, nu=0.5) + 0.3 * kernels.Linear(0.5)
AFFINE = kernels.WeightedSum((kernels.SquaredExponential(0.7), kernels.SquaredExponential(2.0)), (0.6, 0.4))
RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=120)
W = RNG.integers(1, 5, size=120).astype(float)
NEW = RNG.normal(size=(30, 2))


def model(method, kernel=KERNEL, **more):
    """A model without anything that is estimated, so that it is a function of the rows learned."""
    plain = {"kernel": kernel, "noise": 0.05, "tune": "none", "guard": None, "random_state": 0}
    if method == "pivoted":
        plain["members"] = ("gp",)
    if method != "nrmf":
        plain["rank"] = 400
    if method == "rgp":
        plain["basis"] = X[:40]
    return StreamingGPRegressor(method=method, **(plain | more))


def learned(gp, batches):
    for rows in batches:
        gp.partial_fit(*rows)
    return gp


def cut(*arrays, sizes=(50, 69, 1)):
    """The arrays in batches, one of them a single row."""
    ends = np.cumsum(sizes)
    return [[a[end - size : end] for a in arrays] for end, size in zip(ends, sizes, strict=True)]


def same(a, b, rtol=1e-8):
    """Whether two models predict alike; to what conditioning by the noise 0.05 leaves of 1e-16."""
    for mine, theirs in zip(a.predict(NEW, return_std=True), b.predict(NEW, return_std=True), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    ("method", "more"),
    [*((m, {}) for m in METHODS), *((m, {"variant": "literal"}) for m in ("srmf", "brmf"))],
)
def test_a_row_of_weight_w_equals_w_rows(method, more):
    weighted = learned(model(method, **more), cut(X, Y, W))
    repeated = model(method, **more)
    for x, y, w in cut(X, Y, W):
        repeated.partial_fit(np.repeat(x, w.astype(int), axis=0), np.repeat(y, w.astype(int)))
    same(weighted, repeated)
    assert weighted.trace_error_ == pytest.approx(repeated.trace_error_, abs=1e-5 * W.sum())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("two_outputs", [False, True])
def test_a_row_of_weight_w_has_the_noise_over_w(method, two_outputs):
    """Against the dense Gaussian process with its own noise for each row; weights that are no integers."""
    w = RNG.uniform(0.05, 6.0, size=120)
    y = np.stack([Y, np.cos(X[:, 0])], axis=1) if two_outputs else Y
    gp = learned(model(method), cut(X, y, w))
    K, cross = KERNEL.block(X), KERNEL.block(NEW, X)
    if method == "rgp":
        F = gp.learner_.state.features.transform(X)
        G = gp.learner_.state.features.transform(NEW)
        ends = np.cumsum([0, 50, 69, 1])
        whole = F @ F.T
        for a, b in itertools.pairwise(ends):
            whole[a:b, a:b] = K[a:b, a:b]
        K, cross = whole, G @ F.T
    C = K + 0.05 * np.diag(1 / w)
    mean, std = gp.predict(NEW, return_std=True, latent=True)
    np.testing.assert_allclose(
        mean, cross @ np.linalg.solve(C, y), atol=1e-3 if method == "pivoted" else 1e-8
    )
    variance = KERNEL.diag(NEW) - np.sum(cross * np.linalg.solve(C, cross.T).T, axis=1)
    expected = np.stack([variance] * 2, axis=1) if two_outputs else variance
    np.testing.assert_allclose(std**2, expected, atol=1e-4 if method == "pivoted" else 1e-8)
    density = scipy.stats.multivariate_normal(np.zeros(120), C).logpdf(np.atleast_2d(y.T)).sum()
    if method != "pivoted":
        assert gp.log_evidence() == pytest.approx(density, rel=1e-8)
    else:
        assert gp.log_evidence() == pytest.approx(density, rel=1e-3)


@pytest.mark.parametrize("method", ["srmf", "brmf"])
@pytest.mark.parametrize("variant", ["projected", "literal"])
def test_a_factor_for_each_part_knows_weights(method, variant):
    """Algorithm 5, whose weights are tuned on statistics: at the start both have the same."""
    more = {"kernel": AFFINE, "tune": "doubling", "variant": variant, "bounds": (1.0, 1.0)}
    weighted = learned(model(method, **more), cut(X[:70], Y[:70], W[:70], sizes=(40, 30)))
    repeated = model(method, **more)
    for x, y, w in cut(X[:70], Y[:70], W[:70], sizes=(40, 30)):
        repeated.partial_fit(np.repeat(x, w.astype(int), axis=0), np.repeat(y, w.astype(int)))
    # Squared exponentials: eigenvalues far below the noise are known to fewer digits.
    same(weighted, repeated, 1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_one_change_no_bit_and_weights_of_zero_no_row(method):
    plain = learned(model(method), cut(X, Y))
    ones = learned(model(method), cut(X, Y, np.ones(120)))
    gaps = np.where(np.arange(120) % 3 == 0, 0.0, 1.0)
    without = learned(model(method), [(x[w > 0], y[w > 0]) for x, y, w in cut(X, Y, gaps, sizes=(50, 70))])
    zero = learned(model(method), cut(X, Y, gaps, sizes=(50, 70)))
    assert (plain.predict(NEW) == ones.predict(NEW)).all()
    assert (without.predict(NEW) == zero.predict(NEW)).all()
    assert zero.n_samples_seen_ == 80
    before = zero.learner_.state
    assert zero.partial_fit(X[:3], Y[:3], 0.0).learner_.state is before


@pytest.mark.parametrize("forgetting", [1.0, 0.7])
@pytest.mark.parametrize("method", ["pivoted", "rgp"])
def test_merging_and_forgetting_keep_weights(method, forgetting):
    weighted, repeated = (model(method, forgetting=forgetting) for _ in range(2))
    others = [model(method) for _ in range(2)]
    for x, y, w in cut(X[:80], Y[:80], W[:80], sizes=(40, 40)):
        weighted.partial_fit(x, y, w)
        repeated.partial_fit(np.repeat(x, w.astype(int), axis=0), np.repeat(y, w.astype(int)))
    others[0].partial_fit(X[80:], Y[80:], W[80:])
    n = W[80:].astype(int)
    others[1].partial_fit(np.repeat(X[80:], n, axis=0), np.repeat(Y[80:], n))
    same(weighted.merge(others[0]), repeated.merge(others[1]), 1e-7)


@pytest.mark.parametrize("forgetting", [1.0, 0.7])
def test_unlearning_takes_a_row_away_with_its_weight(forgetting):
    gp = learned(model("pivoted", forgetting=forgetting), cut(X, Y, W))
    evidence = gp.log_evidence()
    before = gp.learner_.state.posterior.statistics
    gp.partial_fit(X[:20] + 0.5, Y[:20], 1.0 + W[:20])
    with pytest.raises(InputError, match="sample_weight"):
        gp.unlearn(X[:20] + 0.5, Y[:20])
    gp.unlearn(X[:20] + 0.5, Y[:20], 1.0 + W[:20])
    after = gp.learner_.state.posterior.statistics
    r = before.rank
    np.testing.assert_allclose(after.count, forgetting * before.count)
    np.testing.assert_allclose(after.rows, forgetting * before.rows)
    np.testing.assert_allclose(np.trace(after.energy), forgetting * np.trace(before.energy))
    if forgetting == 1:
        assert after.rank >= r
        assert gp.log_evidence() == pytest.approx(evidence, abs=1e-3)  # pivots that came with the rows stay


def test_rgp_unlearns_a_batch_with_its_weights():
    gp = learned(model("rgp"), cut(X, Y, W))
    mean = gp.predict(NEW)
    gp.partial_fit(NEW, NEW[:, 0], np.linspace(0.1, 3, 30)).unlearn(NEW, NEW[:, 0], np.linspace(0.1, 3, 30))
    np.testing.assert_allclose(gp.predict(NEW), mean, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_an_output_that_lacks_labels_keeps_the_weights_of_its_rows(method):
    y = np.stack([Y, Y**2], axis=1)
    y[60:90, 1] = np.nan
    both = learned(model(method), cut(X, y, W))
    known = ~np.isnan(y[:, 1])
    alone = model(method)
    for rows in np.array_split(np.arange(120), [50, 119]):
        at = rows[known[rows]]
        alone.partial_fit(X[at], y[at, 1], W[at])
    np.testing.assert_allclose(both.predict(NEW)[:, 1], alone.predict(NEW), atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weights_are_kept_by_checkpoints_pickles_and_copies(method, dtype, tmp_path):
    x, y = X.astype(dtype), Y.astype(dtype)
    gp = learned(StreamingGPRegressor(method=method, random_state=0), cut(x, y, W, sizes=(30, 50)))
    gp.save(tmp_path / "model")
    others = [load(tmp_path / "model"), pickle.loads(pickle.dumps(gp)), copy.deepcopy(gp)]
    expected = gp.partial_fit(x[80:], y[80:], W[80:]).predict(NEW.astype(dtype), return_std=True)
    for other in others:
        found = other.partial_fit(x[80:], y[80:], W[80:]).predict(NEW.astype(dtype), return_std=True)
        assert all((a == b).all() for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_rows_left_out_are_those_of_a_model_without_them(method):
    """Errors times √w, variances times w: in units in which all rows have the same noise."""
    gp, state = learned(model(method), cut(X, Y, W)), None
    state = gp.learner_.state
    at = np.array([3, 40, 100])
    found = state.left_out(X[at], Y[at, None], at, W[at])
    if method == "rgp":  # whose rows of one batch are correlated: an approximation
        return
    for i, k in enumerate(at):
        others = np.arange(120) != k
        rest = model("nrmf").fit(X[others], Y[others], W[others])
        mean, std = rest.predict(X[k : k + 1], return_std=True, latent=True)
        # 1e-3: what pivots leave of a row.
        assert found.error[i, 0] == pytest.approx(np.sqrt(W[k]) * (Y[k] - mean[0]), rel=1e-3)
        assert found.variance[i, 0] == pytest.approx(W[k] * std[0] ** 2, rel=1e-2)


def noisy(n, seed=0):
    """A function with noise 0.05² in most rows, and a hundred times that deviation in a third, of weight 1e-4."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    w = np.where(rng.random(n) < 1 / 3, 1e-4, 1.0)
    f = np.sin(2 * x[:, 0]) + x[:, 1]
    return x, f, f + 0.05 * rng.normal(size=n) / np.sqrt(w), w


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "rgp"])
def test_known_noise_is_used_by_every_estimate_of_the_defaults(method):
    """Tuning, noise, panel, neighbours and calibration: a third of the rows is nearly worthless and is known to be."""
    x, _f, y, w = noisy(900)
    gp = StreamingGPRegressor(method=method, random_state=0, **({} if method == "nrmf" else {"rank": 60}))
    for rows in np.array_split(np.arange(900), 9):
        gp.partial_fit(x[rows], y[rows], w[rows])
    new, truth, _, _ = noisy(500, seed=1)
    labels = truth + 0.05 * np.random.default_rng(2).normal(size=500)
    mean, low, high = gp.predict(new, return_interval=0.9)
    # Measured: 0.02 to 0.04; without weights 0.6 and more.
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.1
    assert 0.02 < np.sqrt(gp.noise_) * gp.y_scale_[0] < 0.12
    assert 0.8 < np.mean((low <= labels) & (labels <= high)) < 0.99


@pytest.mark.parametrize("unit", [1e-8, 1e6])
def test_the_unit_of_weights_does_not_matter_to_means(unit):
    """Weights times a constant are noise over it: tuned hyperparameters follow."""
    x, _f, y, w = noisy(400)
    means = []
    for scale in (1.0, unit):
        gp = StreamingGPRegressor(members=("gp",), rank=60, random_state=0)
        for rows in np.array_split(np.arange(400), 4):
            gp.partial_fit(x[rows], y[rows], scale * w[rows])
        means.append(gp.predict(NEW))
        noise = gp.noise_ * gp.y_scale_[0] ** 2 / scale
        assert 0.02**2 < noise < 0.12**2
    np.testing.assert_allclose(*means, atol=0.05)


def test_a_guard_expects_large_errors_of_rows_of_little_weight():
    x, f, y, w = noisy(600)
    gp = StreamingGPRegressor(rank=50, random_state=0)
    for rows in np.array_split(np.arange(600), 6):
        gp.partial_fit(x[rows], y[rows], w[rows])
    assert gp.n_refused_ == 0
    y[0] = f[0] + 5.0
    gp.partial_fit(x[:1], y[:1], 1.0)
    assert gp.n_refused_ == 1
    gp.partial_fit(x[:1], y[:1], 1e-4)
    assert gp.n_refused_ == 1


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(3), r"shape \(3,\), X has 120 rows"),
        (np.ones((120, 1)), r"shape \(120, 1\)"),
        (np.where(np.arange(120) == 7, -1.0, 1.0), "row 7 is -1"),
        (np.where(np.arange(120) == 7, np.nan, 1.0), "row 7 is nan"),
        (np.where(np.arange(120) == 7, np.inf, 1.0), "row 7 is inf"),
        (["a"] * 120, "not an array of numbers"),
        (1e-40, "row 0 is 1e-40; give one weight for each row, 0 or between 1e-30 and 1e\\+30"),
    ],
)
def test_bad_weights_are_refused_and_change_nothing(weights, words):
    gp = learned(model("pivoted"), cut(X, Y))
    before = gp.learner_
    with pytest.raises(InputError, match=words):
        gp.partial_fit(X, Y, weights)
    assert gp.learner_ is before
    with pytest.raises(InputError, match="sample_weight is zero for every row"):
        model("pivoted").fit(X, Y, np.zeros(120))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gp.partial_fit(X[:2], Y[:2], 2).n_samples_seen_ == 122


def test_weights_of_an_array_library_are_taken(library):
    x, y, w = (library.asarray(v) for v in (X, Y, W))
    gp = model("pivoted").fit(x, y, w)
    np.testing.assert_allclose(
        library.to_numpy(gp.predict(library.asarray(NEW))),
        model("pivoted").fit(X, Y, W).predict(NEW),
        atol=1e-7,
    )
