"""One peer on one stream, in a process of its own: error, density, coverage, seconds, memory, growth."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from streamgp.datasets import load_abalone
from streamgp.errors import DataError
from streamgp.evaluation import score

from .peers import PEERS, Given

SETS = {"abalone": "Abalone", "sarcos_test": "SARCOS-test", "elevators": "elevators", "kin40k": "kin40k"}
ROOT = Path(__file__).parents[2]
FIRST, BATCH = 500, 100
# Share of a core that other processes may use while a peer runs.
CONTENDED = 0.1
# Share of the machine's memory that a peer may take.
MEMORY = 0.75


def stream(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, Given]:
    """Give rows and targets, standardised with the first 500, and the hyperparameters that all share."""
    try:
        given = json.loads((folder / "benchmark_hyperparameters.json").read_text())[name]
        if name == "abalone":
            data = load_abalone(folder)
            X, y = data.X[:4000], data.y[:4000, 0]
        elif name == "sarcos_test":
            with np.load(folder / "sarcos_subset.npz") as file:
                rows = np.flatnonzero(file["source"] == 1)[:4400]
                X, y = file["X"][rows].astype(float), file["Y"][rows, 0].astype(float)
        else:
            with np.load(folder / f"{name}.npz") as file:
                order = np.random.default_rng(0).permutation(len(file["X"]))[:10_000]
                X, y = file["X"][order].astype(float), file["y"].ravel()[order].astype(float)
        return _standardised(
            X, y, Given(float(given["c"]), np.array(given["ls"], dtype=float), float(given["s2"]))
        )
    except (OSError, LookupError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"the stream {name} cannot be read from {folder}: {error}") from error


def _standardised(X: np.ndarray, y: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray, Given]:
    # It leaves a feature that is constant but for rounding as it is: dividing by 1e-22 would be no scale.
    X = StandardScaler().fit(X[:FIRST]).transform(X)
    return X, (y - y[:FIRST].mean()) / y[:FIRST].std(), given


def run(folder: Path, name: str, peer: str, budget: float) -> dict[str, Any]:
    """Predict each batch, then learn it, until the stream ends, `budget` seconds are spent or the peer fails."""
    warnings.simplefilter("ignore")
    X, y, given = stream(folder, name)
    PEERS[peer].make(given)  # so that what it imports is not counted
    base = _memory("VmRSS")
    model = PEERS[peer].make(given)
    began = time.perf_counter()
    model.learn(X[:FIRST], y[:FIRST])
    spent = time.perf_counter() - began
    seconds: list[float] = []
    rows: list[int] = []
    found: list[tuple[float, float, float]] = []
    ended = None
    for i in range(FIRST, len(y), BATCH):
        part = slice(i, i + BATCH)
        now = X[part]
        began = time.perf_counter()
        try:
            mean, std = model.predict(now)
            model.learn(now, y[part])
        except Exception as error:  # another library's; what came before it counts
            if not found:
                raise
            ended = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            break
        took = time.perf_counter() - began
        seconds.append(took)
        rows.append(len(y[part]))
        found.append(score(y[part], np.asarray(mean), np.asarray(std)))
        spent += took
        if spent > budget and i + BATCH < len(y):
            ended = "budget"
            break
    errors, densities, covered = np.array(found).T
    n = FIRST + np.cumsum(rows)
    late = n > n[-1] / 4
    # The median of the slopes of all pairs: single slow batches say nothing of the growth.
    slope = (
        scipy.stats.theilslopes(np.log(np.array(seconds)[late]), np.log(n[late])) if late.sum() >= 8 else None
    )
    return {
        "peer": peer, "set": name, "settings": PEERS[peer].settings, "rows": int(n[-1]), "all_rows": len(y),
        "ended": ended,
        "rmse": float(np.sqrt(np.average(errors**2, weights=rows))),
        "nlpd": float(np.average(densities, weights=rows)),
        "coverage": float(np.average(covered, weights=rows)),
        "seconds": float(np.mean(seconds)), "growth": slope and float(slope.slope),
        "batches": [[float(e), float(t)] for e, t in zip(errors, seconds, strict=True)],
        "memory_mb": max(0.0, _memory("VmHWM") - base),
    }  # fmt: skip


def _memory(which: str) -> float:
    """Give the process's memory in MB, now (VmRSS) or at most (VmHWM); 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next(float(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def run_apart(folder: Path, name: str, peer: str, budget: float, tries: int = 3) -> dict[str, Any]:
    """Run in a process of its own; again where other processes were busy meanwhile."""
    code = "import sys; from experiments.peers.protocol import main; main(*sys.argv[1:])"
    for attempt in range(tries):
        busy, began = _busy(), time.perf_counter()
        command = [sys.executable, "-c", code, str(folder.resolve()), name, peer, str(budget)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            return {"peer": peer, "set": name, "settings": PEERS[peer].settings, "failure": last[:300]}
        others = max(0.0, _busy() - busy - own) / (time.perf_counter() - began)
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        result |= {"others": others, "tries": attempt + 1}
        if others < CONTENDED:
            break
    return result


def _busy() -> float:
    """Give the seconds that all cores together were not idle; 0 where the system does not tell."""
    try:
        fields = [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    except OSError:
        return 0.0
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def main(folder: str, name: str, peer: str, budget: str) -> None:
    """Print one result as JSON; memory is limited, so that a peer fails and not the machine."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (int(MEMORY * pages), resource.RLIM_INFINITY))
    with threadpool_limits(1, "blas") if PEERS[peer].one_thread else nullcontext():
        print(json.dumps(run(Path(folder), name, peer, float(budget))))
