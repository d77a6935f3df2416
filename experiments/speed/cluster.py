"""A Dask cluster on this machine against one process: time, predictions, memory, and what merging costs.

    python -m experiments.speed.cluster compare [ROWS]          one process, two workers, two with one killed
    python -m experiments.speed.cluster large [GIGABYTES]       an array larger than the workers' memory
    python -m experiments.speed.cluster merge                   two streams merged against one stream of both

Without a command: compare.
"""

import os
import signal
import threading
import time

import click
import dask.array as da
import numpy as np
from distributed import Client

from experiments.common import help_text
from streamgp import StreamingGPRegressor
from streamgp.dask import local_cluster
from streamgp.datasets import load_arm
from streamgp.kernels import SquaredExponential

CHUNK = 50_000


def made(block: np.ndarray) -> np.ndarray:
    """Return the rows of the arm whose numbers are in the block: inputs, then the first torque."""
    arm = load_arm(len(block), start=int(block[0]))
    return np.column_stack([arm.X, arm.y[:, 0]])


def lazily(rows: int) -> tuple[da.Array, da.Array]:
    """Return X (rows, 21) and y (rows,) as lazy arrays that simulate their rows where they are needed."""
    numbers = da.arange(rows, chunks=CHUNK)
    table = numbers.map_blocks(made, dtype=float, chunks=(numbers.chunks[0], (22,)), new_axis=1)
    return table[:, :21], table[:, 21]


def model(rank: int = 300) -> StreamingGPRegressor:
    """Return a regressor with default settings but for its rank."""
    return StreamingGPRegressor(rank=rank, random_state=0)


@click.group(help=help_text(__doc__), invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Run one of the commands."""
    if context.invoked_subcommand is None:
        context.invoke(compare)


@main.command()
@click.argument("rows", default=2_000_000, type=click.IntRange(CHUNK))
def compare(rows: int) -> None:
    """Fit in one process, with two workers, and with two of which one is killed; compare predictions and times."""
    test = load_arm(2000, start=10 * rows).X
    answers, seconds = {}, {}
    # Rows are simulated where they are needed, in every run alike; sending them would take longer than learning.
    X, y = lazily(rows)

    def run(name: str, client: Client, before: object = None) -> None:
        client.wait_for_workers(len(client.scheduler_info(n_workers=-1)["workers"]))
        if before:
            before(client)
        began = time.perf_counter()
        gp = model().fit(X, y)
        seconds[name] = time.perf_counter() - began
        answers[name] = np.concatenate(gp.predict(test, return_std=True))
        print(
            f"{name}: {seconds[name]:.1f} s, {rows / seconds[name]:,.0f} rows/s, rank {gp.rank_}", flush=True
        )

    os.environ["OMP_NUM_THREADS"] = "1"
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        run("one process, one thread", client)
    with local_cluster(2) as cluster, Client(cluster) as client:
        run("two workers", client)

        def kill_later(client: Client) -> None:
            victim = next(iter(client.run(os.getpid).values()))
            threading.Timer(0.4 * seconds["two workers"], os.kill, (victim, signal.SIGKILL)).start()

        run("two workers, one killed with kill -9", client, kill_later)
    first = answers.pop("one process, one thread")
    for name, other in answers.items():
        print(
            f"{name}: largest difference {np.abs(other - first).max() / np.abs(first).max():.1e} of the largest answer"
        )
    print(
        f"time, one process over two workers: {seconds['one process, one thread'] / seconds['two workers']:.2f}"
    )


@main.command()
@click.argument("gigabytes", default=20.0, type=click.FloatRange(0, min_open=True))
def large(gigabytes: float) -> None:
    """Fit an array larger than the memory of both workers, 2 GB each; print the largest worker."""
    rows = int(gigabytes * 1e9 / (22 * 8))
    X, y = lazily(rows)
    print(f"{rows:,} rows, {(X.nbytes + y.nbytes) / 1e9:.1f} GB, {X.npartitions} partitions")
    with local_cluster(2, memory_limit="2GB") as cluster, Client(cluster) as client:
        peaks: list[float] = []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(1.0):
                info = client.scheduler_info(n_workers=-1)["workers"].values()
                peaks.append(max(w["metrics"]["memory"] for w in info) / 1e6)

        thread = threading.Thread(target=watch)
        thread.start()
        began = time.perf_counter()
        gp = model(100).fit(X, y)
        took = time.perf_counter() - began
        done.set()
        thread.join()
    print(f"fitted in {took:.0f} s, {rows / took:,.0f} rows/s; largest worker {max(peaks):.0f} MB of 2,000")
    arm = load_arm(2000, start=rows)
    error = np.sqrt(np.mean((gp.predict(arm.X) - arm.y[:, 0]) ** 2)) / arm.y[:, 0].std()
    print(f"error on the next 2,000 rows: {error:.3f} of the spread; {gp.n_samples_seen_:,} rows learned")


@main.command()
def merge() -> None:
    """Merge two streams of 5,000 rows and compare with one stream of 10,000, for common and separate pivots."""
    rng = np.random.default_rng(0)
    arm = load_arm(12_000)
    order = rng.permutation(12_000)
    X = (arm.X / arm.X.std(axis=0))[order]
    y = ((arm.y[:, 0] - arm.y[:, 0].mean()) / arm.y[:, 0].std())[order]
    test, X, labels, y = X[10_000:], X[:10_000], y[10_000:], y[:10_000]
    given = {"kernel": SquaredExponential(5.0), "noise": 0.05, "tune": "none", "random_state": 0}

    def taught(start: StreamingGPRegressor, rows: np.ndarray, targets: np.ndarray) -> StreamingGPRegressor:
        for i in range(0, len(targets), 100):
            start.partial_fit(rows[i : i + 100], targets[i : i + 100])
        return start

    basis = X[rng.choice(10_000, 200, replace=False)]
    for kind, more in (("common pivots (rgp, one basis)", {"method": "rgp", "rank": 200, "basis": basis}),
                       ("separate pivots (pivoted)", {"rank": 200})):  # fmt: skip
        one = taught(StreamingGPRegressor(**given, **more), X, y)
        left = taught(StreamingGPRegressor(**given, **more), X[:5000], y[:5000])
        right = taught(StreamingGPRegressor(**given, **more), X[5000:], y[5000:])
        left.merge(right)
        a, b = one.predict(test), left.predict(test)
        errors = [float(np.sqrt(np.mean((v - labels) ** 2))) for v in (a, b)]
        print(f"{kind}: error of one stream {errors[0]:.4f}, of two merged {errors[1]:.4f}, largest difference of "
              f"predictions {np.abs(a - b).max():.1e}")  # fmt: skip


if __name__ == "__main__":
    main()
