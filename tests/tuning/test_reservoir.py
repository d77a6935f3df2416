"""The sample that hyperparameters are tuned on: uniform, and fading with what is forgotten."""

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor
from streamgp.tuning.reservoir import SAMPLE, Reservoir


@pytest.mark.parametrize("batch", [1, 7, 100, 3000])
def test_the_sample_does_not_depend_on_how_rows_were_cut(batch):
    X, y = np.arange(3000.0)[:, None], np.arange(3000.0)[:, None]
    sample = Reservoir.empty(1, 1, 5)
    for i in range(0, 3000, batch):
        sample = sample.add(X[i : i + batch], y[i : i + batch])
    whole = Reservoir.empty(1, 1, 5).add(X, y)
    assert (sample.X == whole.X).all()
    assert sample.X.shape == (SAMPLE, 1)
    assert sample.seen == 3000
    # Uniform: the mean of 500 of 3,000 rows has a standard deviation of about 35.
    assert abs(sample.X.mean() - 1500) < 150


def test_what_is_forgotten_fades_from_the_sample_too():
    X, y = wave(3000)
    gp = StreamingGPRegressor(forgetting=0.5, random_state=0, rank=20)
    for i in range(0, 3000, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    sample = gp.learner_.sample.X
    newest = {tuple(row) for row in X[2000:]}
    assert np.mean([tuple(row) in newest for row in sample]) > 0.95


@pytest.mark.parametrize("later", [1.0, 0.999, 0.5])
def test_a_sample_knows_all_that_was_forgotten_whatever_is_forgotten_now(later):
    sample = Reservoir.empty(1, 1, 0)
    for i in range(200):
        sample = sample.add(np.full((50, 1), i), np.zeros((50, 1)), forgetting=0.9)
    for i in range(200, 400):
        sample = sample.add(np.full((50, 1), i), np.zeros((50, 1)), forgetting=later)
    assert sample.X.min() >= 200 - 60  # rows of 60 batches before count for e⁻⁶ and less
    assert (sample.X >= 200).mean() > 0.9


def test_a_merged_sample_weighs_streams_by_what_they_count_for_now():
    rng = np.random.default_rng(0)
    forgetful, steady = Reservoir.empty(1, 1, 1), Reservoir.empty(1, 1, 2)
    for _ in range(100):
        near = 1e-6 * rng.standard_normal((2, 50, 1))  # rows of equal inputs would be bounded
        forgetful = forgetful.add(near[0], rng.standard_normal((50, 1)), forgetting=0.5)  # counts 100 rows
        steady = steady.add(1.0 + near[1], rng.standard_normal((50, 1)))  # counts 5,000
    for both in (forgetful.merge(steady), steady.merge(forgetful)):
        assert 0.94 < both.X.mean() <= 1.00001
