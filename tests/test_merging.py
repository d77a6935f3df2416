"""Merging and unlearning: exact where the inducing points are the same, refused where they cannot be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import InputError
from streamgp.methods.pivoted import PivotedState
from streams import KERNEL, plane, stream


def halves(n=1200, q=None):
    X, y = wave(n, q=q)
    return (X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
@pytest.mark.parametrize("q", [None, 2])
def test_machines_with_the_same_pivots_merge_exactly(method, q, monkeypatch):
    monkeypatch.setattr(PivotedState, "_is_urgent", lambda *_: False)  # pivots stay the same
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
    one, two = (getattr(gp.learner_.state, "folded", gp.learner_.state).predict(X) for gp in (mine, both))
    assert_allclose(one.mean, two.mean, atol=1e-8)
    assert_allclose(one.variance, two.variance, atol=1e-8)
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
        (StreamingGPRegressor().partial_fit(X[:5], y[:5]), "still gathers"),
        (stream(X[:, :2], y, 100, kernel=kernels.SquaredExponential(1.0)), "number of features"),
    ):
        before = gp.predict(X)
        with pytest.raises(InputError, match=words):
            gp.merge(other)
        assert_allclose(gp.predict(X), before, atol=0)


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


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_kernels_that_were_tuned_apart_merge(seed):
    X, y = plane(2000, seed=seed)
    new, truth = plane(300, seed=9 + seed, noise=0.0)
    parts = []
    for start in (0, 1000):
        gp = StreamingGPRegressor(kernels.SquaredExponential(1.0), noise=0.01, random_state=0, rank=150)
        for i in range(start, start + 1000, 100):
            gp.partial_fit(X[i : i + 100], y[i : i + 100])
        parts.append(gp)
    assert parts[0].kernel_ != parts[1].kernel_
    apart = [np.mean((part.predict(new) - truth) ** 2) for part in parts]
    parts[0].merge(parts[1])
    # One of them may have been lucky with these 300 rows: both together are compared with their mean.
    assert np.mean((parts[0].predict(new) - truth) ** 2) < 0.75 * np.mean(apart)
    assert parts[0].learner_.sample.seen == parts[0].n_samples_seen_ == 2000


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


def test_unlearning_takes_away_what_is_left_of_a_row():
    X = np.random.default_rng(0).standard_normal((30, 2))
    y = X[:, 0]
    gp = StreamingGPRegressor(
        kernels.SquaredExponential(1.0), tune="none", noise=0.1, random_state=0, forgetting=0.5
    )
    gp.partial_fit(X, y).partial_fit(X + 0.001, y).partial_fit(X[:20] + 0.001, y[:20]).unlearn(X, y)
    assert gp.learner_.state.count == pytest.approx(35.0)


def test_unlearning_everything_leaves_the_prior_and_strangers_are_refused():
    X, y = wave(60)
    gp = StreamingGPRegressor(KERNEL, tune="none", noise=0.1, random_state=0).partial_fit(X, y)
    with pytest.raises(InputError, match="was not learned"):
        gp.unlearn(X[:40] + 5, y[:40])
    gp.unlearn(X, y)
    assert_allclose(gp.predict(X), 0, atol=1e-6)


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
    before = faded.learner_.state.count
    faded.unlearn(X[400:], y[400:])
    assert faded.learner_.state.count == pytest.approx(before - 100 * (1 + 0.9 + 0.9**2))


def test_what_was_unlearned_is_not_tuned_on():
    X, y = plane(1300)
    gp = StreamingGPRegressor(random_state=0, memory="rows")
    for i in range(0, 400, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    gp.partial_fit(X[400:500], 1000 * y[400:500]).unlearn(X[400:500], 1000 * y[400:500])
    for i in range(500, 1300, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    assert gp.noise_ * gp.y_scale_[0] ** 2 < 0.03
    new, truth = plane(300, seed=9, noise=0.0)
    assert np.sqrt(np.mean((gp.predict(new) - truth) ** 2)) < 0.06
