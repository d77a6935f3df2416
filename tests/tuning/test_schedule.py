"""When hyperparameters are tuned."""

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor
from streamgp.evaluation import prequential
from streamgp.parameters import Settings
from streamgp.tuning.reservoir import SAMPLE
from streamgp.tuning.schedule import Schedule
from streams import plane


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", []),
        ("continuous", [50, 100, 150, 200, 250, 300, 350, 400]),
        ("initial", [50, 100, 150]),
        ("hybrid", [50, 100, 150]),
        ("doubling", [50, 150, 250]),
    ],
)
def test_hyperparameters_are_tuned_when_the_mode_says(mode, expected):
    X, y = wave(400)
    gp = StreamingGPRegressor(random_state=0, rank=20, tune=mode, initial_batches=3)
    records = list(prequential(gp, X, y, 50))
    assert [r.rows_seen for r in records if r.tuning] == expected
    assert all((r.tuning_seconds > 0) == (r.tuning is not None) for r in records)
    assert gp.tuning_seconds_ == pytest.approx(sum(r.tuning_seconds for r in records))


def test_with_forgetting_hyperparameters_are_tuned_when_half_of_what_counts_is_new():
    """Else a model that has seen much would never learn that other features matter now."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (6000, 2))
    y = np.where(np.arange(6000) < 3000, np.sin(3 * X[:, 0]), np.sin(3 * X[:, 1]))
    y += 0.05 * rng.standard_normal(6000)
    errors, tuned = {}, {}
    for forgetting in (1.0, 0.96):
        gp = StreamingGPRegressor(rank=60, forgetting=forgetting, guard=None, random_state=0)
        records = list(prequential(gp, X, y, 20))
        tuned[forgetting] = [r.rows_seen for r in records if r.tuning]
        errors[forgetting] = np.sqrt(np.mean([r.rmse**2 for r in records[-50:]]))
    assert tuned[1.0] == [120, 180, 300, 720, 1220, 2180, 4100]
    late = np.diff([n for n in tuned[0.96] if n > 2500])
    # What counts is 500 rows; half of it is new after 17 batches of 20, but a new sample takes SAMPLE rows.
    assert (late == SAMPLE).all()
    assert errors[0.96] < 0.1 < 0.5 < errors[1.0]


def test_a_warm_model_can_be_frozen_and_thawed():
    X, y = wave(2100)
    gp = StreamingGPRegressor(rank=20, random_state=0)
    list(prequential(gp, X[:300], y[:300], 50))
    found = gp.kernel_, gp.tuning_seconds_
    gp.set_params(tune="none")
    list(prequential(gp, X[300:1000], y[300:1000], 50))
    assert (gp.kernel_, gp.tuning_seconds_) == found
    gp.set_params(tune="doubling")
    tuned = [r.rows_seen for r in prequential(gp, X[1000:], y[1000:], 50) if r.tuning]
    assert tuned == [1150]  # asked for at row 1,050: its sample had 350 rows
    assert gp.tuning_seconds_ > found[1]


def test_a_stream_that_was_frozen_from_the_start_is_tuned_when_it_has_a_sample():
    X, y = wave(400)
    gp = StreamingGPRegressor(rank=20, random_state=0, tune="none")
    list(prequential(gp, X[:200], y[:200], 20))
    gp.set_params(tune="continuous", bounds=(0.5, 2.0))
    tuned = [r.rows_seen for r in prequential(gp, X[200:], y[200:], 20) if r.tuning]
    assert tuned[0] == 280  # sixty rows of the sample came before this batch, forty before the one before it
    lengths = gp.kernel_.theta
    assert np.isfinite(lengths).all()


def test_too_few_rows_are_not_tuned_on():
    schedule, settings = Schedule(np.zeros(1), tunings=1), Settings(tune="continuous")
    assert not schedule.is_due(settings, 49, 49.0, 49)
    assert schedule.is_due(settings, 50, 50.0, 50)


@pytest.mark.parametrize("batch", [1, 4])
def test_initial_tuning_waits_for_rows_to_tune_on(batch):
    X, y = plane(120)
    gp = StreamingGPRegressor(tune="initial", initial_batches=3, random_state=0)
    for i in range(0, 120, batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    assert gp.learner_.schedule.tunings == 3
