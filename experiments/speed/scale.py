"""What limits a fleet of workers: bytes, operations, how often statistics are summed, how stale they are in between.

    python -m experiments.speed.scale

A small simulator: streams send rows; workers learn them at a rate that is measured on one core of this machine; every
`interval` seconds the statistics of all workers are summed as a tree and the model is sent back. Prints the tables of
docs/scale.md.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np

from experiments.common import command
from experiments.internals import summary
from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm

RANKS = (100, 300, 500)
# Rows a second by rank: of one core in large partitions and one at a time, both measured at the start; and of one
# H200, float64, batches of 10,000.
CORE: dict[int, float] = {}
SINGLE: dict[int, float] = {}
GPU = {500: 6.35e6, 2000: 3.39e6, 8000: 0.314e6}
DAY = 86_400.0


@dataclass(frozen=True)
class Fleet:
    """How many rows come a day and from how many streams, their size, the rank, and the network between machines."""

    rows_a_day: float
    streams: int
    inputs: int = 21
    outputs: int = 7
    rank: int = 300
    network: float = 1.25e9  # bytes a second of one link, 10 Gbit/s
    latency: float = 1e-3

    @property
    def rows(self) -> float:
        """Rows a second."""
        return self.rows_a_day / DAY

    @property
    def input_bytes(self) -> float:
        """Bytes a second of incoming rows, float64."""
        return 8.0 * self.rows * (self.inputs + self.outputs)

    @property
    def flops(self) -> float:
        """Operations a second: kernel, features and gram matrix of every row, symmetric work counted once."""
        return self.rows * (
            2 * self.rank * (self.inputs + 2) + 2 * self.rank**2 + 2 * self.rank * self.outputs
        )

    @property
    def statistics_bytes(self) -> float:
        """Bytes of the statistics of one worker: half of A, which is symmetric, c, and a few numbers."""
        return 8.0 * (self.rank * (self.rank + 1) / 2 + self.rank * self.outputs + self.outputs**2 + 2)

    @property
    def model_bytes(self) -> float:
        """Bytes of the model that is sent back: pivots, V and the Cholesky factor of the weights."""
        return 8.0 * (self.rank * self.inputs + 2 * self.rank**2 + self.rank * self.outputs)

    def workers(self, load: float = 0.5) -> int:
        """Return the number of cores that learn all rows at this load."""
        return max(1, math.ceil(self.rows / (load * CORE[self.rank])))

    def round_seconds(self, workers: int, fan: int = 8) -> float:
        """Return the seconds to sum the statistics of all workers as a tree, factor, and send the model back down."""
        depth = max(1, math.ceil(math.log(workers, fan))) if workers > 1 else 0
        up = depth * (self.latency + fan * self.statistics_bytes / self.network)
        down = depth * (self.latency + fan * self.model_bytes / self.network)
        factor = self.rank**3 / 3 / 20e9
        return up + factor + down

    def simulate(self, workers: int, interval: float, rounds: int = 20) -> tuple[float, float, float]:
        """Return staleness in seconds, bytes a second on the busiest link, and load of a core.

        Staleness is the mean age of a row when it reaches the other workers: at the end of the round after its own.
        """
        took = self.round_seconds(workers)
        ages, time = [], 0.0
        for _ in range(rounds):
            began, ended = time, time + max(interval, took)
            # A row that came in this interval is known to all at ended + took.
            ages.append(ended + took - 0.5 * (began + ended))
            time = ended
        busiest = 8 * (self.statistics_bytes + self.model_bytes) / max(interval, took)
        load = self.rows / workers / CORE[self.rank] + (self.rank**3 / 3 / 20e9) / max(interval, took)
        return sum(ages) / rounds, busiest, load


def measure() -> None:
    """Print the rows a second of one core: the statistics of 50,000 rows at once, and rows one at a time."""
    arm = load_arm(50_000)
    print("| rank | rows/s of one core, partitions of 50,000 | one row at a time |")
    print("|---|---|---|")
    for rank in RANKS:
        gp = StreamingGPRegressor(rank=rank, random_state=0).fit(arm.X[:5000], arm.y[:5000])
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            summary(gp, arm.X, arm.y)
            seconds.append(time.perf_counter() - began)
        CORE[rank] = len(arm.X) / float(np.median(seconds))
        began = time.perf_counter()
        for i in range(5000, 6000):
            gp.partial_fit(arm.X[i : i + 1], arm.y[i : i + 1])
        SINGLE[rank] = 1000 / (time.perf_counter() - began)
        print(f"| {rank} | {CORE[rank]:,.0f} | {SINGLE[rank]:,.0f} |")
    print()


@command(__doc__)
def main() -> None:
    """Measure, then print every table."""
    if os.environ.get("OMP_NUM_THREADS") != "1":
        # One core is measured; BLAS reads the variable only when it is loaded.
        alone = {**os.environ, "OMP_NUM_THREADS": "1"}
        raise SystemExit(
            subprocess.run([sys.executable, "-m", __spec__.name], env=alone, check=False).returncode
        )
    measure()
    costs()
    agreement()
    many_models()


def costs() -> None:
    """Print what a fleet must take in and compute, by rows a day and rank."""
    print(
        "| rows a day | rank | rows/s | in, MB/s | GFLOP/s | cores at half load | H200s at half load, rank 2000 |"
    )
    print("|---|---|---|---|---|---|---|")
    for rows in (1e8, 1e9, 1e10):
        for rank in RANKS:
            fleet = Fleet(rows, 10_000, rank=rank)
            gpus = max(1, math.ceil(fleet.rows / (0.5 * GPU[2000])))
            print(
                f"| {rows:.0e} | {rank} | {fleet.rows:,.0f} | {fleet.input_bytes / 1e6:.1f} | "
                f"{fleet.flops / 1e9:.1f} | {fleet.workers()} | {gpus} |"
            )
    print()


def agreement() -> None:
    """Print how stale workers are and what summing costs, by number of workers and interval."""
    print("| workers | interval, s | round, ms | staleness, s | busiest link, MB/s | load of a core |")
    print("|---|---|---|---|---|---|")
    fleet = Fleet(1e9, 10_000)
    for workers in (2, 16, 128):
        for interval in (0.1, 1.0, 10.0, 60.0):
            stale, bytes_, load = fleet.simulate(workers, interval)
            print(
                f"| {workers} | {interval:g} | {1e3 * fleet.round_seconds(workers):.1f} | {stale:.2f} | "
                f"{bytes_ / 1e6:.2f} | {load:.1%} |"
            )
    print()


def many_models() -> None:
    """Print what 10,000 models take, each of a stream of its own, by rank."""
    print("| 10,000 models, rank | state of one, MB | of all, GB | rows/s of one stream | one core serves |")
    print("|---|---|---|---|---|")
    for rank in RANKS:
        state = 8.0 * (3 * rank**2 + rank * 28 + 500 * (rank + 28) + 1000 * 7 + 500 * 28)
        rows = 1e9 / DAY / 10_000
        served = SINGLE[rank] / rows
        print(
            f"| {rank} | {state / 1e6:.1f} | {1e4 * state / 1e9:.0f} | {rows:.2f} | {served:,.0f} streams |"
        )


if __name__ == "__main__":
    main()
