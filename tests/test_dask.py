"""The same numbers on a real cluster of processes, whatever happens to its workers."""

import os
import signal
import time

import numpy as np
import pytest

from streamgp import StreamingGPRegressor
from streamgp.errors import InputError, ParameterError
from streamgp.kernels import SquaredExponential
from streamgp.parameters import used_by
from streamgp.tuning.reservoir import SAMPLE

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def data(n=8000, q=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 3))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.5 * X[:, 2] + 0.1 * rng.standard_normal(n)
    return X, y if q == 1 else np.column_stack([y, -2 * y + X[:, 0]])


def lazy(X, y, chunk=1000):
    return da.from_array(X, chunks=(chunk, 2)), da.from_array(y, chunks=2 * chunk)


FIXED = {"kernel": SquaredExponential([1.5, 2.0, 3.0]), "noise": 0.01, "tune": "none"}
KINDS = [
    {"method": "pivoted"},
    {"method": "pivoted", **FIXED},
    {"method": "rgp", **FIXED},
    {"method": "rgp"},
    {"method": "pivoted", "kernel": "matern32", "rank": 300},
]


@pytest.mark.parametrize("given", KINDS, ids=str)
@pytest.mark.parametrize("q", [1, 2])
def test_the_cluster_gives_the_numbers_of_one_process(client, given, q):
    X, y = data(q=q)
    given = {"rank": 80, "random_state": 3, **given}
    there = StreamingGPRegressor(**given).fit(*lazy(X, y))
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        here = StreamingGPRegressor(**given).fit(*lazy(X, y))
    client.as_current()
    assert there.n_samples_seen_ == len(X)
    for a, b in zip(
        there.predict(X[:500], return_std=True), here.predict(X[:500], return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    truth = np.sin(X[:500, 0]) * X[:500, 1] + 0.5 * X[:500, 2]
    mean = there.predict(X[:500]) if q == 1 else there.predict(X[:500])[:, 0]
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.15


def test_the_sum_over_partitions_is_what_one_machine_counts_row_by_row(client):
    """The statistics of the cluster against those of the same pivots, all rows folded here in one piece."""
    X, y = data()
    gp = StreamingGPRegressor(rank=60, random_state=0, **FIXED).fit(*lazy(X, y))
    model = gp.learner_.state
    F = model.features.transform(X)
    statistics = model.posterior.statistics
    np.testing.assert_allclose(statistics.gram, F.T @ F, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(statistics.moment[:, 0], F.T @ y, rtol=1e-9, atol=1e-9)
    assert statistics.count == len(X)


def test_intervals_keep_their_promise_on_new_rows(client):
    X, y = data()
    gp = StreamingGPRegressor(rank=100, random_state=0).fit(*lazy(X, y))
    new_X, new_y = data(2000, seed=5)
    _, low, high = gp.predict(new_X, return_interval=0.9)
    assert 0.87 < np.mean((low <= new_y) & (new_y <= high)) < 0.93


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
def test_a_stream_goes_on_after_a_collection_and_a_collection_after_a_stream(client, method):
    X, y = data(12_000)
    gp = StreamingGPRegressor(rank=80, method=method, random_state=0, **FIXED)
    gp.fit(*lazy(X[:4000], y[:4000])).partial_fit(X[4000:4300], y[4000:4300])
    gp.partial_fit(*lazy(X[4300:8000], y[4300:8000]))
    assert gp.n_samples_seen_ == 8000
    gp.partial_fit(X[8000:8100], y[8000:8100])
    error = np.sqrt(np.mean((gp.predict(X[9000:]) - y[9000:]) ** 2))
    alone = StreamingGPRegressor(rank=80, method=method, random_state=0, **FIXED)
    for i in range(0, 8100, 100):
        alone.partial_fit(X[i : i + 100], y[i : i + 100])
    assert error < 1.1 * np.sqrt(np.mean((alone.predict(X[9000:]) - y[9000:]) ** 2))


def test_predictions_are_lazy_and_those_of_the_rows(client):
    X, y = data(q=2)
    gp = StreamingGPRegressor(rank=60, random_state=0, **FIXED).fit(*lazy(X, y))
    rows = da.from_array(X, chunks=(700, 3))
    mean = gp.predict(rows)
    assert isinstance(mean, da.Array)
    assert mean.shape == (8000, 2)
    np.testing.assert_allclose(mean.compute(), gp.predict(X), rtol=1e-9, atol=1e-12)
    for one, other in zip(
        gp.predict(rows, return_interval=0.8), gp.predict(X, return_interval=0.8), strict=True
    ):
        np.testing.assert_allclose(one.compute(), other, rtol=1e-9, atol=1e-12)
    with pytest.raises(ParameterError, match="covariance"):
        gp.predict(rows, return_cov=True)


def test_data_frames_are_matched_by_name(client):
    import pandas as pd

    X, y = data(4000)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    table = dd.from_pandas(frame, npartitions=5)
    gp = StreamingGPRegressor(rank=60, random_state=0, **FIXED).fit(table[["a", "b", "c"]], table["y"])
    assert list(gp.feature_names_in_) == ["a", "b", "c"]
    assert gp.target_names_ == ["y"]
    turned = gp.predict(table[["c", "b", "a"]]).compute()
    np.testing.assert_allclose(turned, gp.predict(frame[["a", "b", "c"]]), rtol=1e-9)
    gp.partial_fit(table[["c", "a", "b"]], table["y"])
    assert gp.n_samples_seen_ == 8000
    with pytest.raises(InputError, match="columns"):
        gp.partial_fit(table[["a", "b"]].assign(d=0.0), table["y"])


# Faults


def slowly(block, pause=0.15):
    time.sleep(pause)
    return block


def pids(client):
    return list(client.run(os.getpid).values())


def test_a_worker_killed_in_the_middle_costs_nothing_but_time(client):
    X, y = data(20_000)
    given = {"rank": 80, "random_state": 0, **FIXED}
    expected = StreamingGPRegressor(**given).fit(*lazy(X, y)).predict(X[:300])
    rows, targets = lazy(X, y)
    rows = rows.rechunk((1000, 3)).map_blocks(slowly, dtype=float)
    victim = pids(client)[0]
    from threading import Timer

    timer = Timer(1.2, os.kill, (victim, signal.SIGKILL))
    timer.start()
    gp = StreamingGPRegressor(**given).fit(rows, targets)
    timer.join()
    np.testing.assert_allclose(gp.predict(X[:300]), expected, rtol=1e-9, atol=1e-12)
    client.wait_for_workers(2, timeout=30)
    assert victim not in pids(client)


def test_a_worker_that_is_added_and_one_that_is_slow_change_nothing(client):
    X, y = data(20_000)
    given = {"rank": 80, "random_state": 0, **FIXED}
    expected = StreamingGPRegressor(**given).fit(*lazy(X, y)).predict(X[:300])
    rows, targets = lazy(X, y)
    home = pids(client)[0]

    def held_up(block):
        time.sleep(0.5 if os.getpid() == home else 0.02)
        return block

    from threading import Timer

    timer = Timer(0.5, client.cluster.scale, (3,))
    timer.start()
    gp = StreamingGPRegressor(**given).fit(rows.rechunk((1000, 3)).map_blocks(held_up, dtype=float), targets)
    timer.join()
    np.testing.assert_allclose(gp.predict(X[:300]), expected, rtol=1e-9, atol=1e-12)
    client.cluster.scale(2)


def test_a_partition_that_raises_is_one_clear_error_and_nothing_is_learned(client):
    X, y = data(6000)

    def broken(block, block_info=None):
        if block_info and block_info[0]["chunk-location"][0] == 4:
            raise OSError("the disk is gone")
        return block

    gp = StreamingGPRegressor(rank=60, random_state=0, **FIXED)
    rows, targets = lazy(X, y)
    bad = rows.rechunk((1000, 3)).map_blocks(broken, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(InputError, match="the disk is gone"):
        gp.fit(bad, targets)
    assert not gp.__sklearn_is_fitted__()
    gp.fit(rows, targets)
    before = gp.predict(X[:20])
    with pytest.raises(InputError, match=r"the disk is gone.*Nothing was learned"):
        gp.partial_fit(bad, targets)
    X[3500, 1] = np.inf
    with pytest.raises(InputError, match="partition 3 contains NaN or infinity"):
        gp.partial_fit(*lazy(X, y))
    np.testing.assert_array_equal(gp.predict(X[:20]), before)
    assert gp.n_samples_seen_ == 6000


# What does not fit


@pytest.mark.parametrize("method", ["srmf", "brmf", "nrmf"])
def test_other_methods_say_that_they_are_for_one_machine(client, method):
    with pytest.raises(ParameterError, match="use 'pivoted' or 'rgp'"):
        StreamingGPRegressor(**used_by(method, rank=20)).fit(*lazy(*data(2000)))


def test_shapes_that_do_not_fit_are_refused(client):
    X, y = data(3000)
    gp = StreamingGPRegressor(rank=20, random_state=0, **FIXED)
    with pytest.raises(InputError, match="give both alike"):
        gp.fit(lazy(X, y)[0], y)
    with pytest.raises(InputError, match="a target for each row"):
        gp.fit(*lazy(X, y[:-5]))
    with pytest.raises(InputError, match="dimensions"):
        gp.fit(da.from_array(y), da.from_array(y))
    gp.fit(*lazy(X, y))
    with pytest.raises(InputError, match="features"):
        gp.partial_fit(*lazy(X[:, :2], y))
    with pytest.raises(InputError, match="other targets"):
        gp.partial_fit(*lazy(X, np.column_stack([y, y])))


# Streams


def test_streams_on_many_workers_merge_into_a_model_of_all(client):
    X, y = data(9000)
    gp = StreamingGPRegressor(rank=100, random_state=0, **FIXED).fit(X[:1000], y[:1000])
    one = StreamingGPRegressor(rank=100, random_state=0, **FIXED)
    for i in range(0, 9000, 500):
        one.partial_fit(X[i : i + 500], y[i : i + 500])
    gp.learn_streams([lazy(X[1000:5000], y[1000:5000]), lazy(X[5000:], y[5000:])])
    assert gp.n_samples_seen_ == 9000
    new_X, new_y = data(2000, seed=7)
    mine, alone = (np.sqrt(np.mean((g.predict(new_X) - new_y) ** 2)) for g in (gp, one))
    assert mine < 1.05 * alone


def test_streams_bring_their_own_rows_to_the_sample_that_is_tuned_on(client):
    X, y = data(9000)
    gp = StreamingGPRegressor(rank=60, random_state=0).fit(X[:1000], y[:1000])
    gp.learn_streams([lazy(X[i : i + 2000], y[i : i + 2000]) for i in (1000, 3000, 5000, 7000)])
    rows = gp.learner_.sample.X
    assert len(np.unique(rows, axis=0)) == len(rows) == SAMPLE
    new = np.isin(rows[:, 0], X[1000:, 0]).mean()
    assert 0.8 < new < 0.97  # eight of nine rows
    assert gp.learner_.settings.tune == "doubling"


def test_without_a_client_a_local_cluster_does_it(tmp_path):
    """In a process of its own: here there is a client."""
    import subprocess
    import sys

    script = tmp_path / "alone.py"
    script.write_text(
        "import dask.array as da, numpy as np\n"
        "from streamgp import StreamingGPRegressor\n"
        "if __name__ == '__main__':\n"
        "    X = np.random.default_rng(0).standard_normal((4000, 2))\n"
        "    gp = StreamingGPRegressor(rank=40, random_state=0)\n"
        "    gp.fit(da.from_array(X, chunks=(1000, 2)), da.from_array(X[:, 0], chunks=1000))\n"
        "    print(gp.n_samples_seen_, float(np.abs(gp.predict(X) - X[:, 0]).max()))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows, error = done.stdout.split()
    assert int(rows) == 4000
    assert float(error) < 0.1


# What a reader found


def test_small_partitions_are_all_learned(client):
    X, y = data(1000)
    assert StreamingGPRegressor(rank=20, random_state=0).fit(*lazy(X, y, 5)).n_samples_seen_ == 1000
    gp = StreamingGPRegressor(method="rgp", rank=300, random_state=0).fit(*lazy(X, y, 40))
    assert gp.n_samples_seen_ == 1000


def test_answers_are_not_those_of_before(client):
    X, y = data(3000)
    gp = StreamingGPRegressor(rank=40, random_state=0, **FIXED).fit(*lazy(X[:500], y[:500], 250))
    before = gp.predict(X[:5], return_std=True)[0]
    gp.partial_fit(*lazy(X[500:], y[500:]))
    after = gp.predict(X[:5], return_std=True)[0]
    assert (before != after).all()
    np.testing.assert_array_equal(after, gp.predict(X[:5]))


@pytest.mark.parametrize("given", [{"guard": 10}, {"memory": "rows"}])
def test_what_looks_at_rows_in_order_is_refused(client, given):
    with pytest.raises(ParameterError, match="with Dask"):
        StreamingGPRegressor(rank=20, **given).fit(*lazy(*data(1000)))


def test_targets_are_matched_by_name(client):
    import pandas as pd

    X, y = data(2000)
    table = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, z=1 - y), npartitions=4)
    rows = table[["a", "b", "c"]]
    gp = StreamingGPRegressor(rank=40, random_state=0, **FIXED).fit(rows, table[["y", "z"]])
    before = gp.predict(rows).compute()
    after = gp.partial_fit(rows, table[["z", "y"]]).predict(rows).compute()
    assert np.abs(after - before).max() < 0.2
    with pytest.raises(InputError, match="columns"):
        StreamingGPRegressor(rank=40, **FIXED).fit(rows, table["y"]).partial_fit(rows, table["z"])
    numbered = dd.from_pandas(pd.DataFrame(X), npartitions=4)
    gp = StreamingGPRegressor(rank=40, random_state=0, **FIXED).fit(numbered, lazy(X, y, 500)[1].rechunk(500))
    np.testing.assert_allclose(gp.predict(numbered).compute(), gp.predict(X), rtol=1e-9)


def test_empty_partitions_and_columns_in_chunks_are_no_trouble(client):
    X, y = data(2000)
    rows, targets = (
        da.from_array(X, chunks=(500, 1)),
        da.from_array(np.column_stack([y, -y]), chunks=(500, 1)),
    )
    few = da.from_array(np.arange(2000), chunks=500) < 1200
    gp = StreamingGPRegressor(rank=40, random_state=0, **FIXED).fit(rows[few], targets[few])
    assert gp.n_samples_seen_ == 1200
    assert gp.predict(rows[few]).compute().shape == (1200, 2)


def test_forgetting_keeps_count_and_says_that_it_forgot(client):
    X, y = data(2000)
    gp = StreamingGPRegressor(rank=40, random_state=0, forgetting=0.5, **FIXED).fit(
        *lazy(X[:1000], y[:1000], 500)
    )
    gp.partial_fit(*lazy(X[1000:], y[1000:], 500))
    assert gp.n_samples_seen_ == 2000
    assert gp.learner_.state.faded


def test_wrong_arguments_are_the_documented_errors(client):
    X, y = data(1000)
    gp = StreamingGPRegressor(rank=20, random_state=0, **FIXED).fit(X, np.column_stack([y, -y]))
    rows, targets = lazy(X, y, 500)
    for call in (
        lambda: gp.learn_streams([(rows, targets)]),
        lambda: gp.learn_streams([]),
        lambda: gp.learn_streams([(X, y)]),
        lambda: gp.unlearn(rows, targets),
        lambda: gp.fit(rows, None),
        lambda: gp.fit(rows, targets[:, None, None]),
        lambda: gp.fit(rows.astype(str), targets),
        lambda: gp.fit(rows + 1j, targets),
    ):
        with pytest.raises(InputError):
            call()
    assert gp.n_samples_seen_ == 1000


def test_single_precision_comes_back_as_it_came(client):
    X, y = data(2000)
    rows, targets = lazy(X.astype(np.float32), y.astype(np.float32), 500)
    gp = StreamingGPRegressor(rank=40, random_state=0, **FIXED).fit(rows, targets)
    assert gp.predict(rows).dtype == gp.predict(rows).compute().dtype == np.float32


def test_gaps_are_filled_in_and_counted_on_every_worker(client):
    X, y = data(6000)
    gaps = np.where(np.random.default_rng(0).uniform(size=X.shape) < 0.1, np.nan, X)
    gaps[[10, 4000]] = np.nan
    gp = StreamingGPRegressor(rank=80, random_state=0).fit(*lazy(gaps, y))
    assert gp.n_samples_seen_ + gp.n_empty_ == 6000
    np.testing.assert_array_equal(gp.n_missing_, np.isnan(gaps).sum(axis=0))
    gp.partial_fit(*lazy(gaps, y))
    np.testing.assert_array_equal(gp.n_missing_, 2 * np.isnan(gaps).sum(axis=0))
    new, truth = data(500, seed=1)
    mean, std = (v.compute() for v in gp.predict(da.from_array(new, chunks=100), return_std=True))
    # Sensors that are independent cannot be filled in well: a tenth of the cells costs a third of the spread, 1.5.
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.7
    lost = np.where(np.arange(3) == 1, np.nan, new)
    wider = gp.predict(da.from_array(lost, chunks=100), return_std=True)[1].compute()
    assert (wider > 1.5 * std).mean() > 0.8
    np.testing.assert_allclose(gp.predict(lost, return_std=True)[1], wider, rtol=1e-9)
    with pytest.raises(InputError, match=r"partition \d contains NaN"):
        StreamingGPRegressor(rank=80, missing="raise").fit(*lazy(gaps, y))
