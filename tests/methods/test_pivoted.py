"""What only `pivoted` promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from conftest import Counting, wave
from streamgp import StreamingGPRegressor, kernels, ledger
from streamgp.errors import InputError
from streamgp.evaluation import prequential, state_bytes
from streamgp.methods.pivoted import LULL, REVIEW, WINDOW, PivotedModel

KERNEL = 1.5 * kernels.SquaredExponential([0.5, 0.7, 0.6])


def stream(X, y, batch, rank=60, noise=0.02, kernel=KERNEL, **arguments):
    gp = StreamingGPRegressor(kernel, tune="none", noise=noise, rank=rank, random_state=0, **arguments)
    for i in range(0, len(X), batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return gp


def drifting(n, seed=0):
    """Inputs that wander off, so that pivots must change."""
    rng = np.random.default_rng(seed)
    X = np.cumsum(0.05 * rng.standard_normal((n, 3)), axis=0)
    return X, np.sin(2 * X).sum(axis=1) + 0.1 * rng.standard_normal(n)


def direct(model, X, y):
    """The statistics of rows X, y with the model's present features."""
    F = model.features.transform(X)
    return F.T @ F, F.T @ y.reshape(len(y), -1)


@pytest.mark.parametrize("make", [wave, drifting])
@pytest.mark.parametrize("batch", [100, 37, 250])
def test_with_all_rows_kept_every_row_sees_every_pivot(make, batch):
    X, y = make(1500)
    model = stream(X, y, batch, memory="rows")._stream.model
    assert model.changes or model.reviews > 5
    gram, moment = direct(model, X, y)
    statistics = model._folded.posterior.statistics
    assert_allclose(statistics.gram, gram, atol=1e-9 * np.abs(gram).max())
    assert_allclose(statistics.moment, moment, atol=1e-9 * np.abs(moment).max())


def test_with_bounded_memory_the_last_rows_see_every_pivot():
    X, y = drifting(1500)
    model = stream(X, y, 100)._stream.model
    F = model.features.transform(X[-WINDOW:])
    assert_allclose(model.window.F, F, atol=1e-9)
    assert_allclose(model.window.X, X[-WINDOW:])


def test_features_stay_orthonormal_after_thousands_of_changes():
    X, y = drifting(40_000)
    model = stream(X, y, 100, rank=40)._stream.model
    Z, V = model.features.Z, model.features.V
    assert model.reviews > 100
    assert_allclose(V @ KERNEL.block(Z) @ V.T, np.eye(40), atol=1e-9)


def test_pivots_follow_a_stream_that_wanders_off():
    X, y = drifting(4000, seed=3)
    errors = {}
    for method in ("pivoted", "rgp"):
        gp = StreamingGPRegressor(KERNEL, tune="none", noise=0.02, rank=60, method=method, random_state=0)
        errors[method] = np.mean([r.rmse for r in prequential(gp, X, y) if r.batch >= 30])
    assert errors["pivoted"] < 0.7 * errors["rgp"]


@pytest.mark.parametrize("batch", [1, 3, 20])
def test_rows_a_few_at_a_time_end_where_batches_of_a_hundred_end(batch):
    X, y = wave(800)
    start = StreamingGPRegressor(KERNEL, tune="none", noise=0.02, rank=60, random_state=0).partial_fit(
        X[:200], y[:200]
    )
    few, many = (
        start,
        StreamingGPRegressor(KERNEL, tune="none", noise=0.02, rank=60, random_state=0).partial_fit(
            X[:200], y[:200]
        ),
    )
    for i in range(200, 800, REVIEW):
        many.partial_fit(X[i : i + REVIEW], y[i : i + REVIEW])
        for j in range(i, i + REVIEW, batch):
            few.partial_fit(X[j : min(j + batch, i + REVIEW)], y[j : min(j + batch, i + REVIEW)])
    assert few.rank_ == many.rank_ == 60
    assert_allclose(few.predict(X), many.predict(X), atol=1e-8)


@pytest.mark.parametrize("waiting", [1, 30, 99])
def test_rows_that_wait_are_known_to_predictions_evidence_and_certificate(waiting):
    X, y = wave(400, q=2)
    gp = stream(X[:300], y[:300], 100)
    folded = gp._stream.model
    for i in range(300, 300 + waiting):
        gp.partial_fit(X[i : i + 1], y[i : i + 1])
    model = gp._stream.model
    assert model.pending.count == waiting
    F, new = folded.features.transform(X[300 : 300 + waiting]), wave(20, seed=1)[0]
    expected = folded.posterior.statistics.learn(F, y[300 : 300 + waiting], 1.5 * waiting).solve(
        folded.posterior.noise
    )
    features = folded.features.transform(new)
    mean, std = gp.predict(new, return_std=True, latent=True)
    assert_allclose(mean, expected.mean(features), atol=1e-9)
    assert_allclose(std[:, 0] ** 2, expected.variance(features, KERNEL.diag(new)), atol=1e-9)
    assert gp._stream.model.count == 300 + waiting
    assert gp.trace_error_ == pytest.approx(expected.statistics.trace_error, rel=1e-9)
    gp.predict(new, return_cov=True)


def test_the_state_does_not_grow(monkeypatch):
    monkeypatch.setattr(ledger, "KEPT", 1000)
    X, y = drifting(5000)
    sizes = [state_bytes(stream(X[:n], y[:n], 100)) for n in (1500, 5000)]
    assert sizes[0] == sizes[1]


def test_a_review_takes_as_many_kernel_entries_as_the_formula_says():
    X, y = wave(1200)
    kernel = Counting(KERNEL)
    gp = stream(X[:1000], y[:1000], 100, kernel=kernel, rank=60)
    before = gp._stream.model
    kernel.taken()
    gp.partial_fit(X[1000:1100], y[1000:1100])
    after = gp._stream.model
    entries = kernel.taken()
    r, b = 60, 100
    if after.reviews == before.reviews:
        assert entries == b * r
    else:
        swapped = after.changes - before.changes if after.changes >= before.changes else None
        m = swapped or 0
        window = WINDOW + b  # the block has joined, the oldest rows have not left yet
        assert entries in {b * r + b * b + m * m + min(window, WINDOW) * m, b * r + b * b}


def test_a_turned_target_is_learned_again_with_forgetting_and_not_without():
    X, y = wave(16_000)
    y[8000:] *= -1
    errors = {}
    for forgetting in (0.9, 1.0):
        gp = StreamingGPRegressor(
            KERNEL, tune="none", noise=0.02, rank=150, forgetting=forgetting, random_state=0
        )
        errors[forgetting] = np.array([r.rmse or np.nan for r in prequential(gp, X, y)])
    before = {f: np.median(e[60:80]) for f, e in errors.items()}
    assert np.median(errors[0.9][135:145]) < 1.1 * before[0.9]
    assert np.median(errors[1.0][135:145]) > 2 * before[1.0]


@settings(max_examples=200, deadline=None)
@given(
    d=st.integers(1, 8),
    rank=st.integers(1, 60),
    batch=st.sampled_from([1, 7, 60, 130]),
    log_scale=st.floats(-2, 2),
    noise=st.floats(1e-6, 1.0),
    copies=st.integers(1, 4),
    dtype=st.sampled_from([np.float64, np.float32]),
    memory=st.sampled_from(["bounded", "rows"]),
    seed=st.integers(0, 10**6),
)
def test_no_negative_variance_and_no_failed_factor(
    d, rank, batch, log_scale, noise, copies, dtype, memory, seed
):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.standard_normal((60, d)), copies, axis=0)[rng.permutation(60 * copies)].astype(dtype)
    X[::5] += dtype(1e-6)  # nearly equal rows beside equal ones
    y = np.sin(X).sum(axis=1)
    kernel = kernels.SquaredExponential(10.0**log_scale)
    noise = max(noise, 1e-4) if dtype is np.float32 else noise  # below its rounding a warning is right
    gp = stream(X, y, batch, rank=rank, noise=noise, kernel=kernel, memory=memory)  # a warning fails the test
    mean, std = gp.predict(X, return_std=True, latent=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert gp.rank_ <= rank


def halves(n=1200, q=None):
    X, y = wave(n, q=q)
    return (X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
@pytest.mark.parametrize("q", [None, 2])
def test_machines_with_the_same_pivots_merge_exactly(method, q):
    (X, y), (X2, y2) = halves(q=q)
    arguments = {
        "kernel": KERNEL,
        "noise": 0.02,
        "method": method,
        "rank": 300,
        "random_state": 0,
        "tune": "none",
    }
    basis = wave(300, seed=9, q=q)
    both, mine, theirs = (StreamingGPRegressor(**arguments).partial_fit(*basis) for _ in range(3))
    both.partial_fit(X[:45], y[:45]).partial_fit(X2[:45], y2[:45])
    mine.partial_fit(X[:45], y[:45])
    theirs.partial_fit(X2[:45], y2[:45])
    before = theirs.predict(X)
    mine.merge(theirs).unlearn(*basis)
    assert mine.n_samples_seen_ == 390
    folded = [getattr(gp._stream.model, "_folded", gp._stream.model) for gp in (mine, both)]
    for a, b in zip(
        *(m.predict(X, variance=True, covariance=False).__dict__.values() for m in folded), strict=True
    ):
        assert_allclose(np.asarray(a, dtype=float), np.asarray(b, dtype=float), atol=1e-8)
    assert_allclose(theirs.predict(X), before)


def test_machines_with_pivots_of_their_own_merge_to_about_what_one_would_know():
    first, second = halves(4000)
    new, target = wave(500, seed=5)
    one = stream(np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]]), 100, rank=150)
    merged = stream(*first, 100, rank=150).merge(stream(*second, 100, rank=150))
    assert merged.rank_ == 150
    assert merged.n_samples_seen_ == 4000
    errors = [
        np.sqrt(np.mean((gp.predict(new) - target) ** 2))
        for gp in (merged, one, stream(*first, 100, rank=150))
    ]
    assert errors[0] < 1.1 * errors[1]


def test_what_cannot_merge_says_why():
    X, y = wave(200)
    gp = stream(X, y, 100)
    for other, words in (
        (stream(X, y, 100, noise=0.5), "the same kernel, noise"),
        (stream(X, y, 100, method="nrmf"), "method='pivoted'"),
        (StreamingGPRegressor().partial_fit(X[:5], y[:5]), "still waits"),
        (stream(X[:, :2], y, 100, kernel=kernels.SquaredExponential(1.0)), "number of features"),
    ):
        before = gp.predict(X)
        with pytest.raises(InputError, match=words):
            gp.merge(other)
        assert_allclose(gp.predict(X), before, atol=0)


@pytest.mark.parametrize("memory", ["bounded", "rows"])
def test_unlearning_rows_equals_never_having_learned_them(memory):
    X, y = wave(300)
    gp, never = (stream(X[:200], y[:200], 100, rank=400, memory=memory) for _ in range(2))
    assert never.rank_ == 200
    extra = X[50:120] + 1e-9, y[50:120]  # explained already: no new pivot
    gp.partial_fit(*extra).unlearn(*extra)
    assert gp.n_samples_seen_ == 200
    for a, b in zip(gp.predict(X, return_std=True), never.predict(X, return_std=True), strict=True):
        assert_allclose(a, b, atol=1e-7)
    with pytest.raises(InputError, match="more than"):
        gp.unlearn(np.repeat(X, 2, axis=0), np.repeat(y, 2))


@pytest.mark.parametrize("tolerance", [0.3, 0.05, 0.002])
def test_rank_auto_takes_the_pivots_that_the_tolerance_asks_for(tolerance):
    X, y = wave(3000, d=2)
    kernel = kernels.SquaredExponential(0.6)
    gp = stream(X, y, 100, rank="auto", tolerance=tolerance, kernel=kernel, memory="rows")
    assert gp.trace_error_share_ < 1.5 * tolerance
    fewer = stream(X, y, 100, rank=max(1, int(0.6 * gp.rank_)), kernel=kernel, memory="rows")
    assert fewer.trace_error_share_ > tolerance
    assert stream(X, y, 100, rank="auto", max_rank=7, kernel=kernel).rank_ == 7


def test_noise_that_was_not_given_is_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (6000, 2))
    for size in (0.05, 0.5):
        y = np.sin(2 * X).sum(axis=1) + size * rng.standard_normal(6000)
        gp = stream(X, y, 100, rank=200, noise="auto", kernel=kernels.SquaredExponential(0.7))
        assert gp.noise_ == pytest.approx(size**2, rel=0.15)


@pytest.mark.parametrize("batch", [1, 20, 100])
def test_a_caller_may_reuse_its_buffer_after_the_rank_is_full(batch):
    X, y = wave(400)
    gps = [StreamingGPRegressor(KERNEL, tune="none", noise=0.02, rank=40, random_state=0) for _ in range(2)]
    buffer = np.empty((batch, 3))
    for i in range(0, 400, batch):
        buffer[:] = X[i : i + batch]
        gps[0].partial_fit(buffer, y[i : i + batch])
        gps[1].partial_fit(X[i : i + batch].copy(), y[i : i + batch])
    assert_allclose(gps[0].predict(X), gps[1].predict(X), atol=0)


def test_noise_recovers_after_a_clean_stretch():
    rng = np.random.default_rng(0)
    gp = StreamingGPRegressor(random_state=0, rank=50, tune="none")
    for size, batches in ((0.0, 100), (0.3, 60)):
        for _ in range(batches):
            X = rng.standard_normal((100, 1))
            gp.partial_fit(X, np.sin(X[:, 0]) + size * rng.standard_normal(100))
        assert gp.noise_ >= 1e-5
        assert np.isfinite(gp.log_evidence())
    X = rng.standard_normal((500, 1))
    _, lower, upper = gp.predict(X, return_interval=0.9)
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(500)
    assert np.mean((lower < y) & (y < upper)) > 0.6  # most rows so far were clean


@pytest.mark.parametrize("batch", [10, 50, 99])
def test_pivots_are_reviewed_with_forgetting_and_short_batches(batch):
    X, y = drifting(3000)
    model = stream(X, y, batch, rank=30, forgetting=0.999)._stream.model
    assert model.reviews > 5
    assert model.unreviewed < LULL + batch


@pytest.mark.parametrize("kernel", [kernels.Linear(), kernels.BrownianPolynomial((0.0, 1.0))], ids=str)
@pytest.mark.parametrize("memory", ["bounded", "rows"])
def test_one_far_row_does_not_stop_the_others_from_becoming_pivots(kernel, memory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    X[0] = [1e4, 0, 0]
    y = X @ [0.0, 1.0, -1.0]
    ours, exact = (
        stream(X, y, 50, rank=300, noise=0.01, kernel=kernel, **a)
        for a in ({"memory": memory}, {"method": "nrmf"})
    )
    new = rng.standard_normal((50, 3))
    assert_allclose(ours.predict(new), exact.predict(new), atol=0.02)


@pytest.mark.parametrize("memory", ["bounded", "rows"])
def test_a_merge_of_other_pivots_keeps_the_gram_matrix_semidefinite(memory):
    rng = np.random.default_rng(0)
    X0, X, X2 = (rng.standard_normal((n, 2)) * s for n, s in ((100, 2), (400, 2), (100, 2.5)))
    kernel = kernels.SquaredExponential(1.0)

    def learn(rank, rows):
        gp = StreamingGPRegressor(kernel, tune="none", noise=0.001, rank=rank, random_state=1, memory=memory)
        return gp.partial_fit(rows, np.sin(2 * rows[:, 0]))

    gp = learn(300, X0).merge(learn(8, X))
    gp.partial_fit(X2, np.sin(2 * X2[:, 0]))
    gram = gp._stream.model._folded.posterior.statistics.gram
    assert np.linalg.eigvalsh(gram).min() > -1e-9 * np.trace(gram)


def test_unlearning_takes_away_what_is_left_of_a_row():
    X = np.random.default_rng(0).standard_normal((30, 2))
    y = X[:, 0]
    gp = StreamingGPRegressor(
        kernels.SquaredExponential(1.0), tune="none", noise=0.1, random_state=0, forgetting=0.5
    )
    gp.partial_fit(X, y).partial_fit(X + 0.001, y).partial_fit(X[:20] + 0.001, y[:20]).unlearn(X, y)
    assert gp._stream.model.count == pytest.approx(35.0)


def test_unlearning_everything_leaves_the_prior_and_strangers_are_refused():
    X, y = wave(60)
    gp = StreamingGPRegressor(KERNEL, tune="none", noise=0.1, random_state=0).partial_fit(X, y)
    with pytest.raises(InputError, match="was not learned"):
        gp.unlearn(X[:40] + 5, y[:40])
    gp.unlearn(X, y)
    assert_allclose(gp.predict(X), 0, atol=1e-6)


def test_spread_and_covariance_agree_while_rows_wait():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    gp = stream(X, np.sin(2 * X[:, 0]), 400, rank=20, noise=0.001, kernel=kernels.SquaredExponential(0.5))
    gp.partial_fit(rng.standard_normal((99, 2)) + 4, np.full(99, 3.0))
    mean, cov = gp.predict(X, return_cov=True)
    other_mean, std = gp.predict(X, return_std=True)
    assert_allclose(mean, other_mean, atol=1e-9)
    assert_allclose(np.sqrt(np.diag(cov)), std, atol=1e-9)


def test_machines_that_estimate_their_noise_merge_although_they_found_other_values():
    X, y = wave(800)
    one, two = (stream(X[i : i + 400], y[i : i + 400], 100, noise="auto") for i in (0, 400))
    assert one.noise_ != two.noise_
    assert one.merge(two).n_samples_seen_ == 800
    assert np.isfinite(one.predict(X)).all()


def test_a_machine_without_pivots_can_be_merged():
    kernel, X = kernels.Linear(), np.random.default_rng(0).standard_normal((5, 2))
    gp = StreamingGPRegressor(kernel, tune="none", noise=0.01).partial_fit(X, X[:, 0])
    before = gp.predict(X)
    gp.merge(StreamingGPRegressor(kernel, tune="none", noise=0.01).partial_fit(np.zeros((1, 2)), np.zeros(1)))
    assert_allclose(gp.predict(X), before, atol=1e-9)


def test_unlearning_what_was_not_learned_is_refused_where_that_can_be_known():
    X, y = wave(700)
    rows = stream(X, y, 100, rank=60, memory="rows")
    rows.unlearn(X[:50], y[:50])
    for bad in (y[:50], y[:50] + 5):
        with pytest.raises(InputError, match="not learned"):
            rows.unlearn(X[:50], bad)
    faded = stream(X, y, 100, rank=60, forgetting=0.9)
    with pytest.raises(InputError, match="after forgetting only the last 500"):
        faded.unlearn(X[:50], y[:50])
    before = faded._stream.model.count
    faded.unlearn(X[400:], y[400:])
    assert faded._stream.model.count == pytest.approx(before - 100 * (1 + 0.9 + 0.9**2))


def test_estimated_noise_does_not_collapse_where_the_rank_is_short():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 4))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(4000)
    kernel = 2.0 * kernels.SquaredExponential(1.0) + kernels.White(0.01)
    gp = StreamingGPRegressor(kernel, tune="none", rank=100, random_state=0)
    coverage = [r.coverage for r in prequential(gp, X, y)][10:]
    assert gp.noise_ > 1e-4  # the prior claims more for the function than it needs, so less is left for noise
    assert 0.87 < np.mean(coverage) < 0.93
    _, lower, upper = gp.predict(X[:2000], return_interval=0.9, calibrated=False)
    assert np.mean((lower < y[:2000]) & (y[:2000] < upper)) > 0.85


def test_single_rows_with_intervals_do_not_fold_the_rows_that_wait():
    X, y = wave(400)
    gp = stream(X[:300], y[:300], 100, rank=60)
    folds = []
    original = PivotedModel._fold
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PivotedModel, "_fold", lambda self, block: folds.append(1) or original(self, block))
        for i in range(300, 380):
            gp.predict(X[i : i + 1], return_interval=0.9)
            gp.partial_fit(X[i : i + 1], y[i : i + 1])
    assert len(folds) <= 2


def test_automatic_rank_of_single_rows_is_near_that_of_batches():
    X, y = wave(600)
    ranks = [stream(X, y, b, rank="auto", tolerance=0.05).rank_ for b in (1, 100)]
    assert ranks[0] <= 1.5 * ranks[1]


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
def test_pivots_are_rows_of_the_stream_and_a_copy(method):
    X = np.random.default_rng(0).standard_normal((300, 2))
    gp = StreamingGPRegressor(method=method, rank=20, random_state=0).fit(X, X[:, 0])
    assert gp.pivots_.shape == (gp.rank_, 2)
    assert {tuple(row) for row in gp.pivots_} <= {tuple(row) for row in X}
    before, other = gp.predict(X), gp.predict(X[:7])  # what is predicted last is remembered
    gp.pivots_[:] = 0.0
    np.testing.assert_array_equal(gp.predict(X), before)
    np.testing.assert_array_equal(gp.predict(X[:7]), other)


def test_methods_without_pivots_say_so():
    X = np.random.default_rng(0).standard_normal((60, 2))
    gp = StreamingGPRegressor(method="nrmf", random_state=0).fit(X, X[:, 0])
    assert not hasattr(gp, "pivots_")
    with pytest.raises(AttributeError, match="'pivoted' and 'rgp' have"):
        gp.pivots_  # noqa: B018
