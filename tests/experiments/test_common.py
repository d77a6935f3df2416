"""What the experiments share: data in the units of its first rows, pooled scores, undisturbed measurements."""

import numpy as np
import pytest

from conftest import wave
from experiments import common
from experiments.common import data_folder
from streamgp import StreamingGPRegressor
from streamgp.errors import DataError
from streamgp.evaluation import prequential, score

DATA = data_folder()
real_data = pytest.mark.skipif(
    not (DATA / "elevators.npz").exists(), reason=f"real data is not there: {DATA}"
)


@real_data
def test_a_feature_that_is_constant_but_for_rounding_is_not_blown_up():
    X, y = common.standardised("elevators")
    assert np.abs(X).max() < 20
    np.testing.assert_allclose(y[:500].std(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("first", [100, 500])
@pytest.mark.parametrize("outputs", [None, 3])
def test_standardised_data_have_the_units_of_their_first_rows(first, outputs):
    X, y = wave(800, seed=1, q=outputs)
    X[:, 1] = 7.0  # a constant feature keeps its scale
    scaled = common.standardise(X, y, first)
    np.testing.assert_allclose(scaled.X[:first].mean(axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(scaled.X[:first].std(axis=0), [1.0, 0.0, 1.0], rtol=1e-13)
    np.testing.assert_allclose(scaled.scale * scaled.y + y[:first].mean(axis=0), y, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("first", [100, 500])
@pytest.mark.parametrize("name", ["abalone", "sarcos", "arm"])
def test_data_of_the_paper_are_standardised_to_the_bits_of_the_plain_formula(name, first):
    if name != "arm" and not DATA.is_dir():
        pytest.skip(f"real data is not there: {DATA}")
    data = common.load_whole(name)
    mean, std = data.X[:first].mean(axis=0), data.X[:first].std(axis=0)
    np.testing.assert_array_equal(common.standardise(data.X, data.y[:, 0], first).X, (data.X - mean) / std)


def test_pooled_scores_are_those_of_all_rows_at_once():
    rng = np.random.default_rng(0)
    y, mean, std = rng.standard_normal(70), rng.standard_normal(70), rng.uniform(0.5, 2.0, 70)
    cuts = [slice(0, 10), slice(10, 50), slice(50, 70)]
    pooled = common.pool([score(y[c], mean[c], std[c]) for c in cuts], [10, 40, 20])
    np.testing.assert_allclose(pooled, score(y, mean, std), rtol=1e-13)


def test_records_of_a_stream_are_pooled_by_rows_and_the_first_batch_does_not_count():
    X, y = wave(330)
    gp = StreamingGPRegressor(rank=30, tune="none", random_state=0)
    records = list(prequential(gp, X, y, 100, first=150))
    assert records[0].rmse is None
    scores = [(r.rmse, r.nlpd, r.coverage) for r in records]
    assert common.pool_records(records) == common.pool(scores[1:], [100, 80])
    assert common.pool_records(records, after=250) == common.pool(scores[2:], [80])


def test_intervals_of_single_rows_add_up_to_the_coverage_of_the_regressor():
    X, y = wave(400)
    gp = StreamingGPRegressor(rank=30, random_state=0).fit(X[:300], y[:300])
    inside, width = common.in_intervals(gp, X[300:], y[300:])
    _, low, high = gp.predict(X[300:], return_interval=0.9)
    assert inside.shape == width.shape == (100,)
    assert 0.7 < inside.mean() <= 1.0
    np.testing.assert_array_equal(width, high - low)


@pytest.mark.parametrize("name", ["kin40k", "sarcos_test", "no_such_set"])
def test_a_stream_that_is_not_there_is_named_with_its_folder(tmp_path, name):
    with pytest.raises(DataError, match=f"the stream {name} cannot be read from .*{tmp_path.name}"):
        common.load(name, tmp_path)
    with pytest.raises(
        DataError, match=f"the hyperparameters of {name} cannot be read from .*{tmp_path.name}"
    ):
        common.hyperparameters(name, tmp_path)


def test_the_variable_names_the_folder_of_data(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMGP_DATA", str(tmp_path))
    assert common.data_folder() == tmp_path
    monkeypatch.delenv("STREAMGP_DATA")
    assert common.data_folder() == common.ROOT.parent / "shared" / "data"


@pytest.mark.parametrize(("busy", "tries"), [([0, 0], 1), ([0, 9, 9, 9], 2), ([0, 9, 9, 18, 18, 27], 3)])
def test_a_measurement_is_repeated_while_other_processes_are_busy_three_times_at_most(
    monkeypatch, busy, tries
):
    clock = iter(busy)
    monkeypatch.setattr(common, "busy_seconds", lambda: float(next(clock)))
    runs = []
    measured = common.undisturbed(lambda: runs.append(None) or len(runs))
    assert measured.result == measured.tries == len(runs) == tries
    assert (measured.others > common.CONTENDED) == (tries == 3)
