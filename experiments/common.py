"""Data, protocol and timing that the benchmarks share."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler

from streamgp import kernels

DATA = Path(os.environ.get("STREAMGP_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the order of the peers' benchmark, not standardised."""
    if name == "abalone":
        lines = [line.split(",") for line in (DATA / "abalone.data").read_text().split()][:4000]
        sex = {"M": 0.0, "F": 1.0, "I": 2.0}
        table = np.array([[sex[row[0]], *map(float, row[1:])] for row in lines])
        return table[:, :-1], table[:, -1]
    if name.startswith("sarcos"):
        data = np.load(DATA / "sarcos_subset.npz")
        rows = np.flatnonzero(data["source"] == 1)[:4400] if name == "sarcos_test" else np.arange(10_000)
        return data["X"][rows].astype(float), data["Y"][rows, 0].astype(float)
    data = np.load(DATA / f"{name}.npz")
    order = np.random.default_rng(0).permutation(len(data["X"]))[:10_000]
    return data["X"][order].astype(float), data["y"].ravel()[order].astype(float)


def standardised(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardised with the first 500 rows."""
    X, y = load(name)
    # It leaves a feature that is constant but for rounding as it is.
    X = StandardScaler().fit(X[:500]).transform(X)
    return X, (y - y[:500].mean()) / y[:500].std()


def hyperparameters(name: str) -> tuple[kernels.Kernel, float]:
    """Give the squared exponential of the peers' benchmark and its noise."""
    given = json.loads((DATA / "benchmark_hyperparameters.json").read_text())[name]
    return given["c"] * kernels.SquaredExponential(given["ls"]), given["s2"]


class Contention:
    """How much of a core other processes used while the block ran."""

    def __enter__(self) -> Contention:
        self._start = time.perf_counter(), self._busy(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        wall, busy, own = self._start
        elapsed = time.perf_counter() - wall
        self.others = max(0.0, (self._busy() - busy) - (time.process_time() - own)) / elapsed

    @staticmethod
    def _busy() -> float:
        """Seconds that all cores together were not idle."""
        fields = [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def machine() -> str:
    """Name the machine."""
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def processor() -> str:
    """Name the processor, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
