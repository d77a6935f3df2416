"""What a report draws is kept in bounded memory, and is what happened."""

import numpy as np
import pytest

from streamgp import checkpoint
from streamgp.app.baselines import Baselines
from streamgp.app.tally import Tally
from streamgp.app.trace import PART, POINTS, SLOWEST, Durations, Stretch, Sums, Trace, coarser


def rows(n, q=2, seed=0):
    """Targets (n, q), some missing, means, ends of intervals and names."""
    rng = np.random.default_rng(seed)
    y, mean = rng.standard_normal((2, n, q))
    y[rng.random((n, q)) < 0.2] = np.nan
    return y, mean, (mean - 1.0, mean + 1.5), [f"row {i}" for i in range(n)]


def traced(n, batch, seed=0):
    y, mean, ends, names = rows(n, seed=seed)
    trace, baselines = Trace.none(2), Baselines.none(2)
    for i in range(0, n, batch):
        part = slice(i, i + batch)
        cut = tuple(end[part] for end in ends)
        trace = trace.scored(names[part], y[part], mean[part], cut)
        sums = Sums.of(y[part], mean[part], cut, baselines.values)
        last = min(i + batch, n)
        weights = np.full((3, 2), i / n)
        trace = trace.add(Stretch(1, last, names[i], names[last - 1], 0.001 * (i % 7), sums, weights), "abc")
        baselines = baselines.add(y[part])
    return trace


@pytest.mark.parametrize("batch", [1, 7, 250])
def test_a_long_run_is_summed_up_in_few_stretches_without_losing_a_row(batch):
    n = 2500
    y, mean, (low, high), names = rows(n)
    trace, known = traced(n, batch), np.isfinite(y)
    assert len(trace.stretches) <= POINTS
    assert trace.stretches[0].first == names[0]
    assert trace.stretches[-1].last == names[-1]
    assert sum(each.batches for each in trace.stretches) == -(-n // batch)
    total = {name: sum(getattr(each.sums, name) for each in trace.stretches) for name in Sums._fields}
    np.testing.assert_array_equal(total["scored"], known.sum(axis=0))
    np.testing.assert_array_equal(total["inside"], (known & (low <= y) & (y <= high)).sum(axis=0))
    error = np.where(known, y - mean, 0)
    np.testing.assert_allclose(total["squares"], (error**2).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(total["absolute"], np.abs(error).sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("batch", [1, 13, 700, 2500])
def test_the_latest_and_the_worst_rows_do_not_depend_on_how_rows_are_batched(batch):
    y, mean, (low, high), names = rows(2500)
    for j, series in enumerate(traced(2500, batch).series):
        known = np.flatnonzero(np.isfinite(y[:, j]))
        all_rows = np.stack([y, mean, low, high], axis=-1)[known, j]
        np.testing.assert_array_equal(series.latest.values, all_rows[-PART:])
        assert series.latest.names == tuple(names[i] for i in known[-PART:])
        cuts = [slice(i, i + PART) for i in range(PART, len(known) - PART + 1, PART)]
        worst = max(cuts, key=lambda cut: np.mean((all_rows[cut, 0] - all_rows[cut, 1]) ** 2))
        np.testing.assert_array_equal(series.worst.values, all_rows[worst])
        assert series.worst.names[0] == names[known[worst.start]]


def test_a_trace_comes_back_from_a_checkpoint_as_it_was(tmp_path):
    for trace in (Trace.none(2), traced(1000, 3)):
        checkpoint.write(tmp_path / "c", trace.to_dict())
        again = Trace.from_dict(checkpoint.read(tmp_path / "c"))
        checkpoint.write(tmp_path / "d", again.to_dict())
        assert (tmp_path / "c").read_bytes() == (tmp_path / "d").read_bytes()
        assert len(again.stretches) == len(trace.stretches)


def test_coarser_stretches_have_enough_rows_and_leave_only_the_end_out():
    stretches = traced(2500, 10).stretches
    for rows_of_each in (1, 40, 100):
        found = coarser(stretches, 1, rows_of_each)
        assert all(each.sums.scored[1] >= rows_of_each for each in found)
        left = sum(each.sums.scored[1] for each in stretches) - sum(each.sums.scored[1] for each in found)
        assert left < rows_of_each
    assert coarser(stretches, 1, 10_000) == []


def test_durations_know_their_quantiles_to_one_bin_and_the_slowest_batches():
    seconds = np.random.default_rng(0).lognormal(-6, 1, 5000)
    durations = Durations()
    for i, each in enumerate(seconds):
        durations = durations.add(float(each), str(i))
    for share in (0.1, 0.5, 0.99):
        # A bin is a twentieth of a decade: a factor of 1.122.
        assert 1 <= durations.quantile(share) / np.quantile(seconds, share) < 1.13
    assert [int(name) for _, name in durations.slowest] == list(np.argsort(-seconds)[:SLOWEST])


@pytest.mark.parametrize("batch", [1, 9, 100])
def test_baselines_are_the_last_label_and_the_mean_of_those_known(batch):
    y = rows(100)[0] * 1e3 + 1e9
    y[:20, 1] = np.nan
    baselines = Baselines.none(2)
    for i in range(0, 100, batch):
        known = y[:i]
        for j in range(2):
            labels = known[np.isfinite(known[:, j]), j]
            expected = [labels[-1], labels.mean()] if labels.size else [np.nan, np.nan]
            # The mean is updated by each batch: its rounding adds up.
            np.testing.assert_allclose(baselines.values[:, j], expected, rtol=1e-13)
        baselines = baselines.add(y[i : i + batch])


def test_a_tally_scores_the_baselines_on_the_rows_of_the_model():
    y, mean, ends, _ = rows(50)
    tally = Tally(2)
    baselines = np.array([[0.5, np.nan], [0.1, 0.2]])
    tally.score(y, mean, np.ones_like(mean), ends, baselines)
    known = np.isfinite(y)
    np.testing.assert_array_equal(tally.compared, [known[:, 0].sum(), 0])
    np.testing.assert_allclose(
        tally.baseline_rmse[:, 0], [np.sqrt(np.nanmean((y[:, 0] - v) ** 2)) for v in (0.5, 0.1)]
    )
    np.testing.assert_allclose(
        tally.baseline_mae[:, 0], [np.nanmean(np.abs(y[:, 0] - v)) for v in (0.5, 0.1)]
    )
    np.testing.assert_allclose(tally.mae, np.nanmean(np.abs(y - mean), axis=0))
    assert np.isnan(tally.baseline_rmse[:, 1]).all()
