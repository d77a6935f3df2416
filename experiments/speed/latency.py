"""Latency of single rows and of batches: median, 99th and 99.9th percentile and the worst call, tuning included.

    python -m experiments.speed.latency [--rows N] [--batch B] [--rank R] [--outputs Q] [--members A,B] [--warm N]

The simulated arm (21 inputs) with default arguments but the rank; each batch is predicted with its standard deviation,
then learned, and both calls together are one latency. The first `partial_fit`, which is tuned on at once, is left
out. `--warm` rows are learned before, in batches of 1,000, so that all rows are stored that will ever be.
"""

from __future__ import annotations

import time

import click
import numpy as np

from experiments.common import Contention, command, machine
from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm

WARM_BATCH = 1000
PERCENTILES = {"median": 50.0, "99 %": 99.0, "99.9 %": 99.9, "worst": 100.0}


def latencies(
    gp: StreamingGPRegressor, X: np.ndarray, y: np.ndarray, batch: int, warm: int = 0
) -> np.ndarray:
    """Return the milliseconds (2, n) of predicting and of learning each batch after the first `warm` rows."""
    found, warm = [], max(warm, batch)
    for i in range(0, warm, WARM_BATCH):
        rows = slice(i, min(i + WARM_BATCH, warm))
        gp.partial_fit(X[rows], y[rows])
    for i in range(warm, len(X), batch):
        rows = slice(i, i + batch)
        began = time.perf_counter()
        gp.predict(X[rows], return_std=True)
        middle = time.perf_counter()
        gp.partial_fit(X[rows], y[rows])
        found.append((middle - began, time.perf_counter() - middle))
    return 1e3 * np.array(found).T


def row(name: str, values: np.ndarray) -> str:
    """Return a line of a table: percentiles of latencies in milliseconds."""
    numbers = " ".join(f"{np.percentile(values, p):9.2f}" for p in PERCENTILES.values())
    return f"{name:18s} {numbers}"


@command(__doc__)
@click.option("--rows", default=20_000, show_default=True)
@click.option("--batch", default=1, show_default=True)
@click.option("--rank", default=300, show_default=True)
@click.option("--outputs", default=1, show_default=True)
@click.option(
    "--members", default="auto", show_default=True, help="Members of the panel: gp, or gp,neighbours, …"
)
@click.option("--warm", default=0, show_default=True, help="Rows learned before.")
def main(rows: int, batch: int, rank: int, outputs: int, members: str, warm: int) -> None:
    """Print percentiles of the latency of a stream."""
    arm = load_arm(warm + rows)
    y = arm.y[:, 0] if outputs == 1 else arm.y[:, :outputs]
    named = members if members == "auto" else tuple(members.split(","))
    gp = StreamingGPRegressor(rank=rank, random_state=0, members=named)
    with Contention() as contention:
        predict, learn = latencies(gp, arm.X, y, batch, warm)
    print(machine())
    print(
        f"{rows} rows in batches of {batch} after {warm}, rank {rank}, {outputs} outputs, members {members}; "
        f"others: {contention.others:.2f}"
    )
    print(f"{'milliseconds':18s} " + " ".join(f"{name:>9s}" for name in PERCENTILES))
    for name, values in (("predict", predict), ("learn", learn), ("predict + learn", predict + learn)):
        print(row(name, values))
    at = np.argsort(learn)[-5:][::-1]
    print("slowest learned at rows " + ", ".join(f"{warm + (i + 1) * batch} ({learn[i]:.1f} ms)" for i in at))
    print(f"tuning held the stream up for {gp.tuning_seconds_:.2f} s")


if __name__ == "__main__":
    main()
