"""Time of `pivoted`: a batch against its floor, the exact GP, seven outputs, single rows, a million rows.

    python -m experiments.speed.pivoted_speed [batch] [exact] [outputs] [rows] [million]

All parts unless some are named. The floor is the number of operations of a batch over the rate of a matrix product
measured in the same run, on one thread and on all cores, as `pivoted` itself runs. A run is repeated if other
processes used the machine meanwhile.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np

from experiments.common import (
    BATCH,
    command,
    hyperparameters,
    machine,
    memory_mb,
    parts_argument,
    standardised,
    undisturbed,
)
from experiments.internals import no_pivot_exchange, one_blas_thread, product
from streamgp import StreamingGPRegressor, kernels
from streamgp.datasets import load_arm
from streamgp.evaluation import Record, prequential


def product_rate(many: bool) -> float:
    """Return the operations a second of a 2000³ matrix product, on one thread or on all cores."""
    A = np.random.default_rng(0).standard_normal((2000, 2000))
    seconds = []
    with one_blas_thread():
        for _ in range(5):
            start = time.perf_counter()
            product(A, A) if many else A @ A
            seconds.append(time.perf_counter() - start)
    return 2 * 2000**3 / float(np.median(seconds))


def seconds_of(record: Record) -> float:
    """Return the seconds of a batch, predicted and learned."""
    return record.predict_seconds + record.update_seconds


def frozen(rank: int, **arguments: object) -> StreamingGPRegressor:
    """Return a regressor with the hyperparameters of the benchmark for kin40k."""
    given = hyperparameters("kin40k")
    return StreamingGPRegressor(
        given.kernel, tune="none", noise=given.noise, rank=rank, random_state=0, **arguments
    )


def seconds(rank: int, n: int, *, swaps: bool = True, outputs: int = 1, **arguments: object) -> np.ndarray:
    """Return the seconds of each batch, predicted and learned, after the first 2,000 of n rows of kin40k."""
    X, y = standardised("kin40k")
    targets = y if outputs == 1 else np.stack([np.cos(j + y) for j in range(outputs)], axis=1)
    with nullcontext() if swaps else no_pivot_exchange():
        records = list(prequential(frozen(rank, **arguments), X[:n], targets[:n], BATCH, first=2000))[1:]
    return np.array([seconds_of(r) for r in records])


def quiet_seconds(*size: int, **options: object) -> np.ndarray:
    """Return `seconds` of a run during which other processes hardly used the machine."""
    result: np.ndarray = undisturbed(lambda: seconds(*size, **options)).result
    return result


def batch() -> None:
    """Print the time of a batch of 100 by rank, with and without exchange of pivots, against the floor."""
    for rank in (100, 300, 500, 1000):
        r, b = rank, BATCH
        flops = 2 * b * r * r + b * r * r + b * r * r + r**3 / 3  # features, gram, variance, factor
        floors = [1e3 * flops / product_rate(many=many) for many in (False, True)]
        plain, full = (1e3 * quiet_seconds(rank, 6000, swaps=swaps).mean() for swaps in (False, True))
        print(
            f"rank {rank:4}: {flops / 1e6:6.0f} Mflop, floor {floors[0]:6.2f} ms on one thread, {floors[1]:6.2f} on "
            f"all; without swaps {plain:6.2f} ms ({plain / floors[0]:.2f} × and {plain / floors[1]:.2f} ×), with "
            f"{full:6.2f} ms ({full / plain:.2f} × without)",
            flush=True,
        )


def exact() -> None:
    """Print the time of a batch after 10,000 rows beside that of the exact GP."""
    # Forty batches, since pivots are exchanged in every fourth only.
    ours = quiet_seconds(500, 10_000)[-40:].mean()
    theirs = quiet_seconds(500, 10_000, method="nrmf")[-10:].mean()
    print(
        f"n = 10,000: nrmf {1e3 * theirs:.1f} ms a batch, pivoted at rank 500 {1e3 * ours:.2f}: {theirs / ours:.1f} ×"
    )


def outputs() -> None:
    """Print the time of a batch with one and with seven outputs."""
    one, seven = (quiet_seconds(300, 6000, outputs=q).mean() for q in (1, 7))
    print(f"rank 300: one output {1e3 * one:.2f} ms a batch, seven {1e3 * seven:.2f}: {seven / one:.2f} ×")


def rows() -> None:
    """Print the time of rows that come one at a time beside rows in batches."""
    X, y = standardised("kin40k")
    single = {}
    for rank in (300, 600):
        gp = frozen(rank).partial_fit(X[:2000], y[:2000])

        def one_at_a_time(gp: StreamingGPRegressor = gp) -> np.ndarray:
            return np.array([seconds_of(r) for r in prequential(gp, X[2000:3000], y[2000:3000], 1)])

        single[rank] = undisturbed(one_at_a_time).result
        each = single[rank]
        print(
            f"rank {rank}: a row {1e6 * each.mean():.0f} µs on average, median {1e6 * np.median(each):.0f}",
            flush=True,
        )
    per_row = quiet_seconds(300, 6000).mean() / BATCH
    print(
        f"a row in batches of 100 at rank 300: {1e6 * per_row:.0f} µs; alone {single[300].mean() / per_row:.1f} × that"
    )
    print(f"rank 600 / rank 300, single rows: {single[600].mean() / single[300].mean():.2f}")


def million() -> None:
    """Print the time of early and of late batches of a million rows, and peak memory.

    A second model learns the early rows in turn with the last ones, since the machine's own speed drifts over minutes.
    """
    arm = load_arm(2000)
    kernel = kernels.SquaredExponential(arm.X.std(axis=0) * 21**0.5)
    scale = arm.y.std(axis=0)

    def learn(gp: StreamingGPRegressor, start: int) -> list[float]:
        arm = load_arm(10_000, start=start)
        return [seconds_of(r) for r in prequential(gp, arm.X, arm.y / scale, BATCH)]

    gp, again = (
        StreamingGPRegressor(kernel, tune="none", noise=0.01, rank=300, random_state=0) for _ in range(2)
    )
    spans: dict[str, list[float]] = {"early": [], "again": [], "late": []}
    learn(again, 0)
    for start in range(0, 1_000_000, 10_000):
        elapsed = learn(gp, start)
        if 10_000 <= start < 110_000:
            spans["early"] += elapsed
        if start == 110_000:
            before = memory_mb("VmHWM")
        if start >= 900_000:
            spans["late"] += elapsed
            spans["again"] += learn(again, start - 890_000)
    after = memory_mb("VmHWM")
    early, again_, late = (1e3 * float(np.mean(spans[name])) for name in ("early", "again", "late"))
    print(
        f"a million rows, rank 300, seven outputs: {early:.2f} ms a batch early, {late:.2f} late, "
        f"{again_:.2f} for the early rows run again beside the late ones ({late / again_:.3f} ×); peak memory "
        f"{before:.0f} MB at 120,000 rows, {after:.0f} MB at the end"
    )


PARTS: dict[str, Callable[[], None]] = {
    "batch": batch,
    "exact": exact,
    "outputs": outputs,
    "rows": rows,
    "million": million,
}


@command(__doc__)
@parts_argument(list(PARTS))
def main(parts: tuple[str, ...]) -> None:
    """Run the parts."""
    print(machine())
    # Imports, thread pools and the allocator's first page faults are not part of any time.
    seconds(300, 4000)
    for name in parts:
        PARTS[name]()


if __name__ == "__main__":
    main()
