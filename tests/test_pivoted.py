"""What only `pivoted` promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from conftest import Counting, wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.evaluation import prequential, state_bytes
from streamgp.models.pivoted import REVIEW, WINDOW

KERNEL = 1.5 * kernels.SquaredExponential([0.5, 0.7, 0.6])


def stream(X, y, batch, rank=60, noise=0.02, kernel=KERNEL, **arguments):
    gp = StreamingGPRegressor(kernel, noise=noise, rank=rank, random_state=0, **arguments)
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
    X, y = drifting(20_000)
    model = stream(X, y, 100, rank=40)._stream.model
    Z, V = model.features.Z, model.features.V
    assert model.reviews > 100
    assert_allclose(V @ KERNEL.block(Z) @ V.T, np.eye(40), atol=1e-9)


def test_pivots_follow_a_stream_that_wanders_off():
    X, y = drifting(4000, seed=3)
    errors = {}
    for method in ("pivoted", "rgp"):
        gp = StreamingGPRegressor(KERNEL, noise=0.02, rank=60, method=method, random_state=0)
        errors[method] = np.mean([r.rmse for r in prequential(gp, X, y) if r.batch >= 30])
    assert errors["pivoted"] < 0.7 * errors["rgp"]


@pytest.mark.parametrize("batch", [1, 3, 20])
def test_rows_a_few_at_a_time_end_where_batches_of_a_hundred_end(batch):
    X, y = wave(800)
    start = StreamingGPRegressor(KERNEL, noise=0.02, rank=60, random_state=0).partial_fit(X[:200], y[:200])
    few, many = (
        start,
        StreamingGPRegressor(KERNEL, noise=0.02, rank=60, random_state=0).partial_fit(X[:200], y[:200]),
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


def test_the_state_does_not_grow():
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
        gp = StreamingGPRegressor(KERNEL, noise=0.02, rank=150, forgetting=forgetting, random_state=0)
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
