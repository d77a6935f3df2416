"""Cost of `pivoted`: flops, floor and time; against the exact GP; seven outputs; single rows; a million rows.

    python -m experiments.speed.pivoted_speed [batch] [exact] [outputs] [rows] [million]

The floor is the flops of the batch over the rate of a matrix product measured in the same run, on one thread
and on all that SciPy's BLAS has, as `pivoted` itself runs. A contended run is repeated.
"""

import resource
import sys
import time
from collections.abc import Callable

import numpy as np

import streamgp.methods.pivoted as implementation
from experiments.common import Contention, hyperparameters, machine, standardised
from streamgp import StreamingGPRegressor, kernels
from streamgp._arrays import one_blas_thread, product
from streamgp.datasets import load_arm
from streamgp.evaluation import prequential

BATCH = 100


def product_rate(many: bool) -> float:
    """Flops a second of a 2000³ product, on one thread or on all that SciPy's BLAS has."""
    A = np.random.default_rng(0).standard_normal((2000, 2000))
    seconds = []
    with one_blas_thread():
        for _ in range(5):
            start = time.perf_counter()
            product(A, A) if many else A @ A
            seconds.append(time.perf_counter() - start)
    return 2 * 2000**3 / float(np.median(seconds))


def quiet(run: Callable[[], np.ndarray]) -> np.ndarray:
    """Repeat a run until nobody else used the machine, three times at the most."""
    for _ in range(3):
        with Contention() as use:
            result = run()
        if use.others < 0.1:
            break
    return result


def seconds(rank: int, n: int, *, swaps: bool = True, outputs: int = 1, **arguments: object) -> np.ndarray:
    """Give predict and update seconds of each batch after the first 2,000 rows of kin40k."""
    X, y = standardised("kin40k")
    kernel, noise = hyperparameters("kin40k")
    targets = y if outputs == 1 else np.stack([np.cos(j + y) for j in range(outputs)], axis=1)
    kept = implementation.SWAPS
    implementation.SWAPS = kept if swaps else 0
    gp = StreamingGPRegressor(kernel, tune="none", noise=noise, rank=rank, random_state=0, **arguments)
    records = list(prequential(gp, X[:n], targets[:n], batch_size=BATCH, first=2000))[1:]
    implementation.SWAPS = kept
    return np.array([(r.predict_seconds, r.update_seconds) for r in records])


def batch() -> None:
    for rank in (100, 300, 500, 1000):
        r, b = rank, BATCH
        flops = 2 * b * r * r + b * r * r + b * r * r + r**3 / 3  # features, gram, variance, factor
        floors = [1e3 * flops / product_rate(many=many) for many in (False, True)]
        plain, full = (
            1e3 * quiet(lambda s=s, r=rank: seconds(r, 6000, swaps=s)).sum(axis=1).mean()
            for s in (False, True)
        )
        print(
            f"rank {rank:4}: {flops / 1e6:6.0f} Mflop, floor {floors[0]:6.2f} ms on one thread, {floors[1]:6.2f} on "
            f"all; without swaps {plain:6.2f} ms ({plain / floors[0]:.2f} × and {plain / floors[1]:.2f} ×), with "
            f"{full:6.2f} ms ({full / plain:.2f} × without)",
            flush=True,
        )


def exact() -> None:
    # Forty batches: pivots are reviewed in every fourth.
    ours = quiet(lambda: seconds(500, 10_000))[-40:].sum(axis=1).mean()
    theirs = quiet(lambda: seconds(500, 10_000, method="nrmf"))[-10:].sum(axis=1).mean()
    print(
        f"n = 10,000: nrmf {1e3 * theirs:.1f} ms a batch, pivoted at rank 500 {1e3 * ours:.2f}: {theirs / ours:.1f} ×"
    )


def outputs() -> None:
    one, seven = (quiet(lambda q=q: seconds(300, 6000, outputs=q)).sum(axis=1).mean() for q in (1, 7))
    print(f"rank 300: one output {1e3 * one:.2f} ms a batch, seven {1e3 * seven:.2f}: {seven / one:.2f} ×")


def rows() -> None:
    X, y = standardised("kin40k")
    kernel, noise = hyperparameters("kin40k")
    single = {}
    for rank in (300, 600):
        gp = StreamingGPRegressor(kernel, tune="none", noise=noise, rank=rank, random_state=0).partial_fit(
            X[:2000], y[:2000]
        )

        def one_at_a_time(gp: StreamingGPRegressor = gp) -> np.ndarray:
            return np.array(
                [
                    (r.predict_seconds, r.update_seconds)
                    for r in prequential(gp, X[2000:3000], y[2000:3000], 1)
                ]
            )

        single[rank] = quiet(one_at_a_time).sum(axis=1)
        each = single[rank]
        print(
            f"rank {rank}: a row {1e6 * each.mean():.0f} µs on average, median {1e6 * np.median(each):.0f}",
            flush=True,
        )
    per_row = quiet(lambda: seconds(300, 6000)).sum(axis=1).mean() / BATCH
    print(
        f"a row in batches of 100 at rank 300: {1e6 * per_row:.0f} µs; alone {single[300].mean() / per_row:.1f} × that"
    )
    print(f"rank 600 / rank 300, single rows: {single[600].mean() / single[300].mean():.2f}")


def million() -> None:
    """Run the early rows again in turn with the last ones: the machine's own speed drifts over minutes."""
    arm = load_arm(2000)
    kernel = kernels.SquaredExponential(arm.X.std(axis=0) * 21**0.5)
    scale = arm.y.std(axis=0)

    def learn(gp: StreamingGPRegressor, start: int) -> list[float]:
        arm = load_arm(10_000, start=start)
        return [r.predict_seconds + r.update_seconds for r in prequential(gp, arm.X, arm.y / scale, BATCH)]

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
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if start >= 900_000:
            spans["late"] += elapsed
            spans["again"] += learn(again, start - 890_000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    early, again_, late = (1e3 * float(np.mean(spans[name])) for name in ("early", "again", "late"))
    print(
        f"a million rows, rank 300, seven outputs: {early:.2f} ms a batch early, {late:.2f} late, "
        f"{again_:.2f} for the early rows run again beside the late ones ({late / again_:.3f} ×); peak memory "
        f"{before:.0f} MB at 120,000 rows, {after:.0f} MB at the end"
    )


def main() -> None:
    print(machine())
    # Imports, thread pools and the allocator's first page faults belong to nobody.
    seconds(300, 4000)
    parts = {"batch": batch, "exact": exact, "outputs": outputs, "rows": rows, "million": million}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
