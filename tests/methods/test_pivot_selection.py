"""Pivot selection: which rows become inducing points, how many, and when they are reviewed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import Counting, wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.evaluation import prequential
from streamgp.methods.pivot_selection import POLICY
from streamgp.methods.pivot_state import WINDOW
from streamgp.parameters import used_by
from streams import (
    KERNEL,
    drifting,
    stream,
)


def test_pivots_follow_a_stream_that_wanders_off():
    X, y = drifting(4000, seed=3)
    errors = {}
    for method in ("pivoted", "rgp"):
        gp = StreamingGPRegressor(KERNEL, tune="none", noise=0.02, **used_by(method, rank=60), random_state=0)
        errors[method] = np.mean([r.rmse for r in prequential(gp, X, y) if r.batch >= 30])
    assert errors["pivoted"] < 0.7 * errors["rgp"]


def test_a_review_takes_as_many_kernel_entries_as_the_formula_says():
    X, y = wave(1200)
    kernel = Counting(KERNEL)
    gp = stream(X[:1000], y[:1000], 100, kernel=kernel, rank=60)
    before = gp.learner_.state
    kernel.taken()
    gp.partial_fit(X[1000:1100], y[1000:1100])
    after = gp.learner_.state
    entries = kernel.taken()
    r, b = 60, 100
    if after.reviews == before.reviews:
        assert entries == b * r
    else:
        swapped = after.changes - before.changes if after.changes >= before.changes else None
        m = swapped or 0
        window = WINDOW + b  # the block has joined, the oldest rows have not left yet
        kept, exchanged = b * r + b * b, b * r + b * b + m * m + min(window, WINDOW) * m
        # The kernel matrix of the pivots is needed where their features are computed from scratch.
        assert entries in {kept, exchanged, exchanged + r * r}


@pytest.mark.parametrize("batch", [10, 50, 99])
def test_pivots_are_reviewed_with_forgetting_and_short_batches(batch):
    X, y = drifting(3000)
    model = stream(X, y, batch, rank=30, forgetting=0.999).learner_.state
    assert model.reviews > 5
    assert model.unreviewed < POLICY.calm_review_every + batch


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


@pytest.mark.parametrize("noise", [0.3, 0.03, 0.003])
@pytest.mark.parametrize("tolerance", [0.5, 0.03])
def test_rank_auto_leaves_a_share_of_the_noise_unexplained(tolerance, noise):
    X, y = wave(3000, d=2)
    given = {"kernel": 2.0 * kernels.SquaredExponential(0.6), "noise": noise, "memory": "rows"}
    gp = stream(X, y, 100, rank="auto", tolerance=tolerance, **given)
    assert gp.trace_error_ / 3000 < 1.5 * tolerance * noise
    fewer = stream(X, y, 100, rank=max(1, int(0.6 * gp.rank_)), **given)
    assert fewer.trace_error_ / 3000 > tolerance * noise
    assert stream(X, y, 100, rank="auto", max_rank=7, **given).rank_ == 7


@pytest.mark.parametrize("noise", [0.3, 0.1, 0.02])
def test_rank_auto_costs_little_error_and_follows_the_noise(noise):
    X, y = wave(2500, d=2)
    y = y + noise * np.random.default_rng(1).standard_normal(2500)
    auto, full = (
        StreamingGPRegressor(rank=r, random_state=0).partial_fit(X[:500], y[:500]) for r in ("auto", 500)
    )
    early = auto.rank_, auto.noise_
    errors = {auto: [], full: []}
    for i in range(500, 2500, 100):
        for gp, left in errors.items():
            left.append(gp.predict(X[i : i + 100]) - y[i : i + 100])
            gp.partial_fit(X[i : i + 100], y[i : i + 100])
    a, b = (np.sqrt(np.mean(np.square(left))) for left in errors.values())
    assert a < 1.03 * b
    assert auto.rank_ < full.rank_
    assert auto.rank_ >= early[0] or auto.noise_ >= early[1]


def test_automatic_rank_of_single_rows_is_near_that_of_batches():
    X, y = wave(600)
    ranks = [stream(X, y, b, rank="auto", tolerance=0.05).rank_ for b in (1, 100)]
    assert ranks[0] <= 1.5 * ranks[1]
