"""What a model holds and what a batch costs, from 200,000 to a million rows: counted, not timed.

    python -m experiments.checks.flat [ROWS,ROWS,...] [RANK]

The simulated arm, one torque, the Gaussian process with 32 neighbours among 20,000 stored rows, learned in batches of
10,000; hyperparameters are sought in the first ten. After each number of ROWS (default 200000,500000,1000000) a line:
bytes of all arrays that the model refers to, those of the stored rows among them, and the counts of a batch of 100
rows, predicted and learned (`experiments.checks.counts`), averaged over eight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
import numpy as np

from experiments.checks.counts import counting
from experiments.common import command
from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm

SIZE, BATCHES, LEARNED_TOGETHER = 100, 8, 10_000


def arrays(value: Any) -> Iterator[np.ndarray]:
    """Yield the memory that a model refers to, each piece once: arrays that are no view of another."""
    seen: set[int] = set()
    left = [value]
    while left:
        one = left.pop()
        while isinstance(one, np.ndarray) and isinstance(one.base, np.ndarray):
            one = one.base
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            yield one
        elif isinstance(one, dict):
            left += one.values()
        elif isinstance(one, tuple | list):
            left += one
        elif type(one).__module__.startswith("streamgp") and hasattr(one, "__dict__"):
            left += vars(one).values()


def held(value: Any) -> int:
    """Return the bytes of all arrays that a model refers to."""
    return sum(array.nbytes for array in arrays(value))


def cost(gp: StreamingGPRegressor, start: int) -> dict[str, int]:
    """Return the counts of a batch that is predicted and learned, from row `start` of the arm on."""
    X, y = rows(start, SIZE * BATCHES)
    found: Counter[str]
    with counting() as found:
        for i in range(0, len(y), SIZE):
            gp.predict(X[i : i + SIZE], return_std=True)
            gp.partial_fit(X[i : i + SIZE], y[i : i + SIZE])
    return {what: round(n / BATCHES) for what, n in sorted(found.items())}


def rows(start: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows of the arm, X (n, 21), and the first torque (n,)."""
    arm = load_arm(n, start=start)
    return arm.X, arm.y[:, 0]


def _counts(_: object, __: object, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 1000,2000") from error


@command(__doc__)
@click.argument("ends", default="200000,500000,1000000", callback=_counts)
@click.argument("rank", default=100, type=click.IntRange(1))
def main(ends: list[int], rank: int) -> None:
    """Print a line for each number of rows."""
    gp = StreamingGPRegressor(rank=rank, tune="initial", members=("gp", "neighbours"), random_state=0)
    done = 0
    for end in ends:
        for start in range(done, end, LEARNED_TOGETHER):
            gp.partial_fit(*rows(start, min(LEARNED_TOGETHER, end - start)))
        counts, done = cost(gp, end), end + SIZE * BATCHES
        store = gp.learner_.mixture.store
        print(
            f"{end:9,} rows: {held(gp):12,} bytes, {held(store):12,} of {store.count:,} stored rows; a batch: "
            + ", ".join(f"{what} {n:,}" for what, n in counts.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()
