"""What the process-wide state of `streamgp._arrays` buys: recycled buffers and one thread per BLAS library.

    python -m experiments.speed.process_state [--repeats N]

Two steady streams are learned with both, without recycled buffers, and without the limit on BLAS threads. The three
variants learn the same rows from the same state, in turn, many times over in one process; a ratio is taken within each
round and the medians are printed. Page faults are counted too: they do not depend on what else the machine does.
"""

from __future__ import annotations

import copy
import resource
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import click
import numpy as np
from threadpoolctl import threadpool_info

from experiments.common import Contention, command, machine
from experiments.internals import all_blas_threads, fresh_memory
from streamgp import StreamingGPRegressor
from streamgp.kernels import SquaredExponential

# Rows learned before anything is timed.
WARM_ROWS = 3000


@dataclass(frozen=True)
class Stream:
    """A steady stream: `batches` of `batch_size` rows at full rank are timed together."""

    name: str
    rank: int
    batch_size: int
    batches: int


# 800 rows are two intervals between reviews of the pivots.
STREAMS = (Stream("100 rows, rank 500", 500, 100, 8), Stream("single rows, rank 300", 300, 1, 800))


VARIANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "with both": nullcontext,
    "without recycled buffers": fresh_memory,
    "without the limit on BLAS threads": all_blas_threads,
}


def fitted(stream: Stream) -> tuple[StreamingGPRegressor, np.ndarray, np.ndarray]:
    """Return a regressor of full rank, and the rows (n, 8) and targets (n,) that it learns next."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((WARM_ROWS + stream.batch_size * stream.batches, 8))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(len(X))
    gp = StreamingGPRegressor(
        SquaredExponential(3.0), tune="none", noise=0.01, rank=stream.rank, random_state=0
    )
    for i in range(0, WARM_ROWS, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    if gp.rank_ < stream.rank:
        raise RuntimeError(f"the model has rank {gp.rank_}, not {stream.rank}: not a steady stream")
    return gp, X[WARM_ROWS:], y[WARM_ROWS:]


def learn(gp: StreamingGPRegressor, X: np.ndarray, y: np.ndarray, batch_size: int) -> tuple[float, float]:
    """Return seconds and page faults per batch of learning the rows."""
    faults, began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
    for i in range(0, len(X), batch_size):
        gp.partial_fit(X[i : i + batch_size], y[i : i + batch_size])
    seconds = time.perf_counter() - began
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    return seconds * batch_size / len(X), faults * batch_size / len(X)


def measure(stream: Stream, repeats: int) -> dict[str, np.ndarray]:
    """Return (repeats, 2) seconds and page faults per batch of each variant."""
    base, X, y = fitted(stream)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in VARIANTS}
    names = list(VARIANTS)
    for repeat in range(-1, repeats):
        turn = repeat % len(names)  # each variant comes first as often as the others
        for name in names[turn:] + names[:turn]:
            gp = copy.deepcopy(base)
            with VARIANTS[name]():
                one = learn(gp, X, y, stream.batch_size)
            if repeat >= 0:  # the round before warms caches and thread pools
                found[name].append(one)
    return {name: np.array(values) for name, values in found.items()}


def report(stream: Stream, found: dict[str, np.ndarray]) -> None:
    """Print the table of a stream."""
    both = found["with both"]
    print(f"\n{stream.name}, {len(both)} rounds")
    print(f"  {'':34} {'ms per batch':>12} {'ratio':>7} {'quartiles':>13} {'page faults':>12}")
    for name, values in found.items():
        low, ratio, high = np.quantile(values[:, 0] / both[:, 0], [0.25, 0.5, 0.75])
        ms, faults = 1e3 * np.median(values[:, 0]), np.median(values[:, 1])
        print(f"  {name:34} {ms:12.3f} {ratio:7.2f} {low:6.2f} {high:6.2f} {faults:12.1f}", flush=True)


@command(__doc__)
@click.option(
    "--repeats", default=15, show_default=True, type=click.IntRange(1), help="Rounds of all variants."
)
def main(repeats: int) -> None:
    """Measure both streams and print a table for each."""
    pools = ", ".join(
        f"{p['internal_api']} {p['num_threads']}" for p in threadpool_info() if p["user_api"] == "blas"
    )
    print(f"{machine()}; BLAS libraries and their threads: {pools}")
    for stream in STREAMS:
        with Contention() as use:
            found = measure(stream, repeats)
        report(stream, found)
        print(f"  other processes used {use.others:.2f} cores meanwhile")


if __name__ == "__main__":
    main()
