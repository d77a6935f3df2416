"""`pivoted`: pending rows, the estimated noise, and a state that does not grow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.evaluation import prequential, state_bytes
from streamgp.gp.posterior import Posterior
from streamgp.methods.pivot_selection import POLICY
from streamgp.methods.pivoted import PivotedState
from streamgp.online import history
from streams import (
    KERNEL,
    drifting,
    stream,
)


@pytest.mark.parametrize("batch", [1, 3, 20])
def test_rows_a_few_at_a_time_end_where_batches_of_a_hundred_end(batch, monkeypatch):
    monkeypatch.setattr(
        PivotedState, "_is_urgent", lambda *_: False
    )  # a row that is taken at once is not reviewed
    X, y = wave(800)
    start = StreamingGPRegressor(
        KERNEL, tune="none", noise=0.02, rank=60, random_state=0, members=("gp",)
    ).partial_fit(X[:200], y[:200])
    few, many = (
        start,
        StreamingGPRegressor(
            KERNEL, tune="none", noise=0.02, rank=60, random_state=0, members=("gp",)
        ).partial_fit(X[:200], y[:200]),
    )
    for i in range(200, 800, POLICY.review_every):
        many.partial_fit(X[i : i + POLICY.review_every], y[i : i + POLICY.review_every])
        for j in range(i, i + POLICY.review_every, batch):
            few.partial_fit(
                X[j : min(j + batch, i + POLICY.review_every)], y[j : min(j + batch, i + POLICY.review_every)]
            )
    assert few.rank_ == many.rank_ == 60
    assert_allclose(few.predict(X), many.predict(X), atol=1e-8)


@pytest.mark.parametrize("waiting", [1, 30, 99])
def test_rows_that_wait_are_known_to_predictions_evidence_and_certificate(waiting, monkeypatch):
    monkeypatch.setattr(
        PivotedState, "_is_urgent", lambda *_: False
    )  # a row that is taken at once does not wait
    X, y = wave(400, q=2)
    gp = stream(X[:300], y[:300], 100)
    folded = gp.learner_.state
    for i in range(300, 300 + waiting):
        gp.partial_fit(X[i : i + 1], y[i : i + 1])
    model = gp.learner_.state
    assert model.pending.count == waiting
    F, new = folded.features.transform(X[300 : 300 + waiting]), wave(20, seed=1)[0]
    expected = Posterior(
        folded.fit.statistics.add(F, y[300 : 300 + waiting], 1.5 * waiting), folded.fit.effective_noise
    )
    features = folded.features.transform(new)
    mean, std = gp.predict(new, return_std=True, latent=True)
    assert_allclose(mean, expected.mean(features), atol=1e-9)
    assert_allclose(std**2, expected.variance(features, KERNEL.diag(new)), atol=1e-9)
    assert gp.learner_.state.count == 300 + waiting
    assert gp.trace_error_ == pytest.approx(expected.statistics.trace_error, rel=1e-9)
    gp.predict(new, return_cov=True)


def test_spread_and_covariance_agree_while_rows_wait():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    gp = stream(X, np.sin(2 * X[:, 0]), 400, rank=20, noise=0.001, kernel=kernels.SquaredExponential(0.5))
    gp.partial_fit(rng.standard_normal((99, 2)) + 4, np.full(99, 3.0))
    mean, cov = gp.predict(X, return_cov=True)
    other_mean, std = gp.predict(X, return_std=True)
    assert_allclose(mean, other_mean, atol=1e-9)
    assert_allclose(np.sqrt(np.diag(cov)), std, atol=1e-9)


def test_single_rows_with_intervals_do_not_fold_the_rows_that_wait():
    X, y = wave(400)
    gp = stream(X[:300], y[:300], 100, rank=60)
    folds = []
    original = PivotedState.fold
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PivotedState, "fold", lambda self, block: folds.append(1) or original(self, block))
        for i in range(300, 380):
            gp.predict(X[i : i + 1], return_interval=0.9)
            gp.partial_fit(X[i : i + 1], y[i : i + 1])
    assert len(folds) <= 2


def test_the_state_does_not_grow(monkeypatch):
    monkeypatch.setattr(history, "LEDGER_ROWS", 1000)
    X, y = drifting(5000)
    sizes = [state_bytes(stream(X[:n], y[:n], 100)) for n in (2200, 5000)]
    assert abs(sizes[0] - sizes[1]) <= 8 * 60  # what idle pivots are worth is known, or to be looked at


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


def test_noise_that_was_not_given_is_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (6000, 2))
    for size in (0.05, 0.5):
        y = np.sin(2 * X).sum(axis=1) + size * rng.standard_normal(6000)
        gp = stream(X, y, 100, rank=200, noise="auto", kernel=kernels.SquaredExponential(0.7))
        assert gp.noise_ == pytest.approx(size**2, rel=0.15)


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
