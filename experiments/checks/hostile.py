"""What hostile testing of version 0.1 found, measured: run it on two versions to compare them.

    python -m experiments.checks.hostile              every point
    python -m experiments.checks.hostile merge fit    some of them

Points: merge, unlearn, single_rows, readers, writers, saving, few, stuck, immature, fit, more. The figures in
docs/robustness.md are printed by this script.
"""

import pickle
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import streamgp
from experiments.common import command, parts_argument
from experiments.internals import used_by
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import StreamGPError

from .hostile_streams import SEEDS, coverage, learn, linear, noise, outliers, rmse, smooth
from .hostile_threads import readers, writers


def merge() -> None:
    """1: merging a model of lower rank, then learning 300 rows: share of tr K left, between 0 and 1."""
    kernel = 1.0 * kernels.SquaredExponential([1.0, 1.0, 1.0])
    for low in (300, 100, 50, 20, 5):
        big = learn(
            StreamingGPRegressor(kernel, rank=300, tune="none", noise=0.01, random_state=0),
            *smooth(400, 0, 3, high=0.2),
        )
        small = learn(
            StreamingGPRegressor(kernel, rank=low, tune="none", noise=0.01, random_state=1),
            *smooth(600, 1, 3, low=-0.2),
        )
        X, y = smooth(500, 9, 3)
        big.merge(small)
        merged = big.trace_error_share_, rmse(big, X, y)
        learn(big, *smooth(300, 2, 3))
        print(f"  rank 300 + {low:3d}: merged {merged[0]:8.4f} (RMSE {merged[1]:.3f}), 300 rows later "
              f"{big.trace_error_share_:8.4f} (RMSE {rmse(big, X, y):.3f})")  # fmt: skip


def unlearn() -> None:
    """2: unlearning a batch again and again, an ordinary one and one shifted by 50; rows never learned."""
    test = smooth(2000, 99)
    for method in ("pivoted", "rgp"):
        for shift in (0.0, 50.0):
            gp = StreamingGPRegressor(method=method, rank=100, tune="none", random_state=0)
            learn(gp, *smooth(1000, 0))
            X, y = smooth(50, 1, shift=shift)
            gp.partial_fit(X, y)
            learn(gp, *smooth(600, 2))
            before, accepted = rmse(gp, *test), 0
            for _ in range(7):
                try:
                    gp.unlearn(X, y)
                    accepted += 1
                except StreamGPError:
                    break
            try:
                gp.unlearn(*smooth(50, 3))
                stranger = "accepted"
            except StreamGPError:
                stranger = "refused"
            print(f"  {method}, shift {shift:g}: RMSE {before:.3f}, the batch of 50 unlearned {accepted} times: "
                  f"{rmse(gp, *test):.3f}; never learned: {stranger}")  # fmt: skip


def single_rows() -> None:
    """3: srmf with the distance polynomial, one row at a time: rank and error over the spread of y."""
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((200, 3)), rng.standard_normal((50, 3))
    y, truth = np.sin(X.sum(1)), np.sin(T.sum(1))
    for weights in ((0.0, 1.0), (0.0, 1.0, 1.0)):
        for tune in ("none", "doubling"):
            out = []
            for size in (1, 2, 50):
                gp = StreamingGPRegressor(kernels.DistancePolynomial(weights), method="srmf", rank=100, tune=tune,
                                          noise=0.01, random_state=0)  # fmt: skip
                learn(gp, X, y, size)
                out.append(f"batches of {size}: rank {gp.rank_}, {rmse(gp, T, truth) / truth.std():.3f}")
            print(f"  {weights} {tune}: {'; '.join(out)}")


def saving() -> None:
    """6: saving and loading between predict and partial_fit: difference of interval ends from never stopping."""
    X, y = smooth(600, 0, 3)
    T = smooth(5, 1, 3)[0]
    with tempfile.TemporaryDirectory() as folder:
        for method in ("nrmf", "srmf", "brmf", "rgp", "pivoted"):
            a = StreamingGPRegressor(**used_by(method, rank=60), random_state=0).fit(X[:100], y[:100])
            b = pickle.loads(pickle.dumps(a))
            for i in range(100, 600, 50):
                for gp in (a, b):
                    gp.predict(X[i : i + 50], return_interval=0.9)
                b.save(Path(folder) / "x.gp")
                b = streamgp.load(Path(folder) / "x.gp")
                for gp in (a, b):
                    gp.partial_fit(X[i : i + 50], y[i : i + 50])
            ends = [np.stack(gp.predict(T, return_interval=0.9)) for gp in (a, b)]
            print(f"  {method}: {np.abs(ends[0] - ends[1]).max():g}")


def few() -> None:
    """7: coverage of 90 % intervals after few rows, five features, 200 repeats; one row at a time with rgp."""
    counts = (2, 3, 5, 10, 20, 49, 50)
    for name, make in (("pure noise", lambda s: noise(249, s)), ("linear", lambda s: linear(249, s, 5))):
        for method in ("pivoted", "rgp"):
            inside = {n: [] for n in counts}
            for seed in range(200):
                X, y = make(seed)
                for n in counts:
                    gp = StreamingGPRegressor(method=method, rank=50, random_state=0).fit(X[:n], y[:n])
                    inside[n].append(coverage(gp, X[n : n + 50], y[n : n + 50])[0])
            print(f"  {name}, {method}: " + ", ".join(f"n={n} {np.mean(v):.2f}" for n, v in inside.items()))
    for n in (200, 499, 500):
        found = []
        for seed in SEEDS:
            X, y = noise(n + 500, seed, 3)
            gp = StreamingGPRegressor(method="rgp", random_state=0).fit(X[:n], y[:n])
            found.append(coverage(gp, X[n:], y[n:])[0])
        print(f"  pure noise, rgp of rank 500, n={n}: {np.mean(found):.2f}")
    X, y = smooth(620, 0, 8)
    gp, spent = StreamingGPRegressor(method="rgp", rank=500, random_state=0), []
    for i in range(620):
        began = time.process_time()
        gp.partial_fit(X[i : i + 1], y[i : i + 1])
        spent.append(1e3 * (time.process_time() - began))
    parts = ((0, 49), (50, 100), (200, 300), (400, 499), (510, 620))
    print("  rgp, one row at a time, median ms (worst): "
          + ", ".join(f"rows {a}-{b} {np.median(spent[a:b]):.1f} ({max(spent[a:b]):.0f})" for a, b in parts)
          + f"; the 500th {spent[499]:.0f}; tuning {1e3 * gp.tuning_seconds_:.0f} in all")  # fmt: skip


def stuck() -> None:
    """8: 1,500 identical rows among 4,000: intervals of the next rows, calibrated and the GP's own."""
    for size in (50, 1):
        parts = {"before": [], "next 50": [], "next 200": []}
        for seed in SEEDS if size > 1 else (0,):
            X, y = smooth(4000, seed, 3)
            X[2000:3500], y[2000:3500] = X[2000], y[2000]
            gp = StreamingGPRegressor(rank=200, random_state=0)
            for i in range(0, 4000, size):
                if i:
                    own, mine = (
                        coverage(gp, X[i : i + size], y[i : i + size], calibrated=c) for c in (False, True)
                    )
                    for name, low, high in (
                        ("before", 1000, 2000),
                        ("next 50", 3500, 3550),
                        ("next 200", 3550, 3750),
                    ):
                        if low <= i < high:
                            parts[name].append((*mine, *own))
                gp.partial_fit(X[i : i + size], y[i : i + size])
        for name, rows in parts.items():
            c, w, oc, ow = np.mean(rows, axis=0)
            print(
                f"  batches of {size}, {name}: {c:.2f} inside, {w:.3f} wide; the GP's own {oc:.2f}, {ow:.3f}"
            )


def immature() -> None:
    """9: large batches on little: 50 rows, then 1,000 at once; all unlearned, then 300 at once."""
    both, own, again = [], [], []
    for seed in range(8):
        X, y = linear(4050, seed)
        gp = StreamingGPRegressor(rank=200, random_state=0).partial_fit(X[:50], y[:50])
        gp.partial_fit(X[50:1050], y[50:1050])
        both.append(coverage(gp, X[1050:], y[1050:])[0])
        own.append(coverage(gp, X[1050:], y[1050:], calibrated=False)[0])
        X, y = smooth(3600, seed)
        gp = learn(StreamingGPRegressor(rank=200, random_state=0, memory="rows"), X[:300], y[:300])
        gp.unlearn(X[:300], y[:300]).partial_fit(X[300:600], y[300:600])
        again.append(coverage(gp, X[600:], y[600:])[0])
    for name, found in (("50, then 1,000", both), ("its GP's own", own), ("unlearned, then 300", again)):
        print(f"  {name}: {min(found):.2f} to {max(found):.2f}, mean {np.mean(found):.2f}")


def fit() -> None:
    """10: one fit against the same rows streamed: coverage and width of 90 % intervals."""
    for name, make in (("2 % outliers", outliers), ("smooth", smooth), ("linear", linear)):
        for n in (200, 2000, 20_000):
            X, y = make(n + 3000, 1)
            at_once = StreamingGPRegressor(random_state=0).fit(X[:n], y[:n])
            streamed = learn(StreamingGPRegressor(random_state=0), X[:n], y[:n], 100)
            a, b = (coverage(gp, X[n:], y[n:]) for gp in (at_once, streamed))
            print(
                f"  {name}, {n} rows: fit {a[0]:.2f} inside, {a[1]:.3f} wide; streamed {b[0]:.2f}, {b[1]:.3f}"
            )
    for method in ("nrmf", "srmf", "brmf", "rgp"):
        X, y = outliers(4000, 1)
        gp = StreamingGPRegressor(**used_by(method, rank=100), random_state=0).fit(X[:1000], y[:1000])
        share, width = coverage(gp, X[1000:], y[1000:])
        print(f"  2 % outliers, 1,000 rows, {method}: {share:.2f} inside, {width:.3f} wide")


def more() -> None:
    """11: small pivots of an indefinite kernel, y near 1e100, masked rows, noise after bad rows were unlearned."""
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((60, 3)), rng.standard_normal((50, 3))
    X = X[np.arange(60) % 30]
    y, kernel = np.sin(X.sum(1)) + 0.1 * rng.standard_normal(60), kernels.DistancePolynomial((0.0, 1.0))
    for level in (1e-8, 1e-4):
        gp = learn(StreamingGPRegressor(kernel, method="nrmf", noise=level, tune="none"), X, y, 1)
        dense = kernel.block(T, X) @ np.linalg.solve(kernel.block(X) + level * np.eye(60), y)
        print(
            f"  nrmf, distance, duplicates, noise {level:g}: off by {np.abs(gp.predict(T) - dense).max():.2g}"
        )
    X, y = smooth(300, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learn(StreamingGPRegressor(noise=1e198, random_state=0), X, 1e100 * y).predict(X, return_interval=0.9)
    print(f"  y near 1e100: {len(caught)} warnings")
    try:
        StreamingGPRegressor().fit(np.ma.masked_greater(X, 1.5), y)
        print("  masked rows: learned")
    except StreamGPError as error:
        print(f"  masked rows: {error}")
    for tune in ("doubling", "none"):
        ratios = []
        for seed in SEEDS:
            X, y = smooth(1000, seed)
            bad = smooth(100, seed + 50, shift=50.0)
            gp = learn(StreamingGPRegressor(rank=100, random_state=0, tune=tune), X, y)
            before = coverage(gp, *smooth(1000, 99))
            learn(gp, *bad)
            for i in (50, 0):
                gp.unlearn(bad[0][i : i + 50], bad[1][i : i + 50])
            after = coverage(gp, *smooth(1000, 99))
            ratios.append(after[1] / before[1])
        print(
            f"  100 bad rows learned and unlearned, tune={tune!r}: intervals {np.mean(ratios):.2f} times as wide"
        )


POINTS: dict[str, Callable[[], None]] = {
    f.__name__: f
    for f in (merge, unlearn, single_rows, readers, writers, saving, few, stuck, immature, fit, more)
}


@command(__doc__)
@parts_argument(list(POINTS))
def main(parts: tuple[str, ...]) -> None:
    """Print the title and the figures of each point."""
    for point in parts:
        print((POINTS[point].__doc__ or "").strip().splitlines()[0], flush=True)
        POINTS[point]()


if __name__ == "__main__":
    main()
