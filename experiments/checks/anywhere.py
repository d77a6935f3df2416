"""A stream that starts anywhere and goes anywhere, measured: the figures of docs/streams.md.

    python -m experiments.checks.anywhere                     every point
    python -m experiments.checks.anywhere starts bad_labels   some of them

Points: starts, paths, families, outputs, bad_labels, jumps, stationary, late, local, skewed, rank. Nothing is set but
what a row says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.common import command, parts_argument
from streamgp import StreamingGPRegressor
from streamgp.evaluation import prequential

from .zero_configuration import stream

FAMILIES = ("squared_exponential", "matern12", "matern32", "matern52", "rational_quadratic")


def wave(n: int = 3050, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 2) and a smooth target with noise 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)


class Followed:
    """What was predicted of each row before it was learned, (n,) each; the first batch is not predicted."""

    def __init__(self, X: np.ndarray, y: np.ndarray, batch: int = 50, **given: Any) -> None:
        gp = StreamingGPRegressor(random_state=0, **given)
        self.y = y
        self.mean, self.low, self.high = (np.full(y.shape, np.nan) for _ in range(3))
        for i in range(0, len(y), batch):
            now = slice(i, i + batch)
            if i:
                self.mean[now], self.low[now], self.high[now] = gp.predict(X[now], return_interval=0.9)
            gp.partial_fit(X[now], y[now])
        self.gp = gp

    def rmse(self, rows: slice | np.ndarray = slice(None)) -> float:
        """Return the root mean squared error of some rows."""
        return float(np.sqrt(np.nanmean((self.mean[rows] - self.y[rows]) ** 2)))

    def covered(self, rows: slice | np.ndarray = slice(None)) -> float:
        """Return the share of some rows that lies inside their 90 % intervals."""
        inside = (self.low[rows] <= self.y[rows]) & (self.y[rows] <= self.high[rows])
        return float(inside[~np.isnan(self.mean[rows])].mean())


def _first(values: np.ndarray, rows: int, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    out = values.copy()
    out[:rows] = change(out[:rows])
    return out


def starts() -> None:
    """1: first rows unlike all others; error of the last 1,000 of 3,050 rows over the spread of the target."""
    X, y = wave()
    cases = {
        "ordinary": (X, y),
        "a feature fixed for 60 rows": (np.column_stack([_first(X[:, 0], 60, np.zeros_like), X[:, 1]]), y),
        "targets 10 × quieter": (X, _first(y, 50, lambda v: v / 10)),
        "targets 30 × quieter": (X, _first(y, 50, lambda v: v / 30)),
        "targets 300 × quieter": (X, _first(y, 50, lambda v: v / 300)),
        "zero targets, then × 100": (X, _first(100 * y, 50, np.zeros_like)),
        "one input of 1e9": (np.column_stack([_first(X[:, 0], 1, lambda v: v + 1e9), X[:, 1]]), y),
        "inputs ÷ 1000": (_first(X, 50, lambda v: v / 1000), y),
        "inputs × 1000": (_first(X, 50, lambda v: v * 1000), y),
    }
    for method, given in (("pivoted", {"rank": 200}), ("nrmf", {}), ("rgp", {"rank": 200})):
        late = {
            name: Followed(A, b, method=method, **given).rmse(slice(-1000, None)) / b[-1000:].std()
            for name, (A, b) in cases.items()
        }
        print(f"  {method}: " + ", ".join(f"{name} {error:.4f}" for name, error in late.items()))


def paths() -> None:
    """2: inputs that never come back; error of the last 1,000 of 4,000 rows, rank 100."""
    rng = np.random.default_rng(0)
    walk = 0.3 * np.cumsum(rng.standard_normal((4000, 2)), axis=0)
    clock = np.arange(4000.0)[:, None]
    noise = 0.1 * rng.standard_normal(4000)
    streams = {
        "sin(t/8)": (clock, np.sin(clock[:, 0] / 8)),
        "random walk": (walk, np.sin(walk[:, 0]) + np.cos(walk[:, 1])),
    }
    for name, (X, f) in streams.items():
        for batch in (1, 10, 50):
            found = {
                how: Followed(X, f + noise, batch, rank=100, forgetting=how).rmse(slice(-1000, None))
                for how in ("auto", 1.0, 0.99)
            }
            print(
                f"  {name}, batches of {batch}: "
                + ", ".join(f"forgetting {h} {e:.3f}" for h, e in found.items())
            )


def families() -> None:
    """3: kernel="auto" beside each family, RMSE in units of the first 500 targets' spread."""
    for name in ("sarcos_test", "pol", "protein", "elevators"):
        X, y = (values[:4000] for values in stream(name))
        found = {family: _zero(X, y, kernel=family) for family in ("auto", *FAMILIES)}
        best = min(error for family, error in found.items() if family != "auto")
        print(f"  {name}: " + ", ".join(f"{f} {e:.4f}" for f, e in found.items())
              + f"; auto over the best {found['auto'] / best:.3f}")  # fmt: skip


def _zero(X: np.ndarray, y: np.ndarray, **given: Any) -> float:
    gp = StreamingGPRegressor(random_state=0, **given)
    records = [r for r in prequential(gp, X, y, first=500) if r.rmse is not None]
    return float(np.sqrt(np.mean([r.rmse**2 for r in records])) / y[:500].std())


def outputs() -> None:
    """4: a precise output beside noisy ones: its error and coverage; and what seven outputs cost beside one."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (2000, 3))
    precise = np.sin(3 * X[:, 0]) * X[:, 1] + 0.01 * rng.standard_normal(2000)
    for n_noisy in (0, 1, 5):
        y = np.column_stack([precise, rng.standard_normal((2000, n_noisy))])
        found = Followed(X, y, rank=200)
        late = (slice(-500, None), 0)
        print(f"  beside {n_noisy} of noise: error {found.rmse(late):.4f}, covered {found.covered(late):.1%}")
    X = rng.standard_normal((6000, 21))
    Y = np.sin(X @ rng.standard_normal((21, 7)) / 4) + 0.1 * rng.standard_normal((6000, 7))
    for q in (1, 7):
        gp = StreamingGPRegressor(rank=500, tune="none", random_state=0).partial_fit(X[:3000], Y[:3000, :q])
        took = []
        for i in range(3000, 6000, 100):
            began = time.perf_counter()
            gp.partial_fit(X[i : i + 100], Y[i : i + 100, :q])
            took.append(time.perf_counter() - began)
        print(f"  {q} outputs: a batch of 100 at rank 500 takes {1e3 * np.median(took):.1f} ms (median)")


def bad_labels() -> None:
    """5: one label off among 2,000: error over that without it, and coverage, of 2,000 other rows."""
    T, b = wave(2000, 1)
    for method in ("pivoted", "nrmf", "rgp"):
        for at in (20, 1000, 1990):
            found = []
            for size in (0.0, 1e2, 1e3, 1e6):
                X, y = wave(2000)
                y[at] += size * 0.1
                gp = StreamingGPRegressor(
                    method=method, random_state=0, **({} if method == "nrmf" else {"rank": 200})
                )
                for i in range(0, 2000, 20):
                    gp.partial_fit(X[i : i + 20], y[i : i + 20])
                mean, low, high = gp.predict(T, return_interval=0.9)
                found.append((np.sqrt(np.mean((mean - b) ** 2)), np.mean((low <= b) & (b <= high))))
            print(f"  {method}, at row {at}, off by 1e2, 1e3, 1e6 deviations: " + ", ".join(
                f"{e / found[0][0]:.3f} × and {c:.1%}" for e, c in found[1:]))  # fmt: skip


def jumps() -> None:
    """5: a level that jumps after 1,500 rows: error of rows 100 to 300 after it, over that of the 500 before."""
    for size in (1.0, 5.0, 100.0):
        for batch in (1, 20, 100):
            X, y = wave(2000)
            y[1500:] += size
            found = Followed(X, y, batch, rank=200)
            ratio = found.rmse(slice(1600, 1800)) / found.rmse(slice(1000, 1500))
            print(f"  jump of {size:g}, batches of {batch}: {ratio:.2f}")


def stationary() -> None:
    """6: benchmark sets, forgetting="auto" over forgetting=1.0 in RMSE."""
    for name in ("sarcos_test", "pol", "protein", "elevators", "abalone", "kin40k"):
        X, y = stream(name)
        auto, never = (_zero(X, y, forgetting=how) for how in ("auto", 1.0))
        print(f"  {name}: {auto:.4f} and {never:.4f}, ratio {auto / never:.4f}")


def late() -> None:
    """7: labels 0, 24 and 168 rows late, a level that wanders: coverage overall and in the worst 500 rows."""
    rng = np.random.default_rng(0)
    t = np.arange(8000)
    level = np.cumsum(0.1 * rng.standard_normal(8000))
    level -= np.linspace(0, level[-1], 8000)
    X = np.column_stack(
        [np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24), rng.standard_normal((8000, 2))]
    )
    y = X[:, 0] + np.sin(X[:, 2]) + level + 0.2 * rng.standard_normal(8000)
    for delay in (0, 24, 168):
        gp, inside = StreamingGPRegressor(rank=200, random_state=0), np.full(8000, np.nan)
        for i in range(0, 8000, 24):
            now, known = slice(i, i + 24), slice(max(0, i - delay), max(0, i + 24 - delay))
            if i > delay:
                _, low, high = gp.predict(X[now], return_interval=0.9)
                inside[now] = (low <= y[now]) & (y[now] <= high)
            if known.stop:
                gp.partial_fit(X[known], y[known])
        inside = inside[1000:]
        worst = np.convolve(inside, np.ones(500) / 500, "valid").min()
        print(
            f"  a level that wanders, {delay} rows late: covered {inside.mean():.1%}, worst 500 rows {worst:.1%}"
        )


def local() -> None:
    """8: noise .05 in one half of the input, .5 in the other: coverage of each after 1,000 rows, and widths."""
    for d in (1, 4):
        rng = np.random.default_rng(0)
        X = rng.uniform(-3, 3, (4000, d))
        deviation = np.where(X[:, 0] < 0, 0.05, 0.5)
        found = Followed(X, np.sin(X[:, 0]) + deviation * rng.standard_normal(4000), rank=200)
        for name, half in (("quiet", X[:, 0] < 0), ("loud", X[:, 0] >= 0)):
            rows = np.flatnonzero(half & (np.arange(4000) >= 1000))
            width = np.mean(found.high[rows] - found.low[rows]) / deviation[rows[0]] / 3.29
            print(
                f"  {d} features, {name} half: covered {found.covered(rows):.1%}, width {width:.2f} × the best"
            )


def skewed() -> None:
    """8: exponential noise: rows below and above their 90 % interval, after 1,000 rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (4000, 2))
    found = Followed(X, np.sin(X[:, 0]) + 0.3 * rng.exponential(size=4000), rank=200)
    below, above = (found.y < found.low)[1000:].mean(), (found.y > found.high)[1000:].mean()
    print(f"  below {below:.1%}, above {above:.1%}")


def rank() -> None:
    """9: rank="auto": error over the noise, and the rank, for four levels of noise."""
    for noise in (0.01, 0.05, 0.14, 0.5):
        rng = np.random.default_rng(0)
        X = rng.uniform(-3, 3, (6000, 3))
        f = np.sin(2 * X[:, 0]) + X[:, 1] * np.cos(X[:, 2])
        y = f + noise * rng.standard_normal(6000)
        found = Followed(X, y, 100, rank="auto")
        error = found.rmse(slice(-1000, None)) / noise
        fixed = Followed(X, y, 100, rank=1000).rmse(slice(-1000, None)) / noise
        print(f"  noise {noise}: error {error:.3f} × with {found.gp.rank_} pivots, {fixed:.3f} × with 1,000")


POINTS = {
    point.__name__: point
    for point in (starts, paths, families, outputs, bad_labels, jumps, stationary, late, local, skewed, rank)
}


@command(__doc__)
@parts_argument(tuple(POINTS))
def main(parts: tuple[str, ...]) -> None:
    """Print the figures of each point."""
    for name in parts:
        print(POINTS[name].__doc__, flush=True)
        POINTS[name]()


if __name__ == "__main__":
    main()
