"""One method on one stream, in a process of its own: error, density, coverage, seconds, memory and growth."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from threadpoolctl import threadpool_limits

from experiments.common import (
    BATCH,
    FIRST,
    ROOT,
    hyperparameters,
    memory_mb,
    pool,
    standardised,
    undisturbed,
)
from streamgp.evaluation import score

from .peers import PEERS, Peer

SETS = {"abalone": "Abalone", "sarcos_test": "SARCOS-test", "elevators": "elevators", "kin40k": "kin40k"}
# Share of the machine's memory that a method may take.
MEMORY = 0.75


@dataclass
class Batches:
    """What each batch after the first gave: its scores, rows and seconds; and why the stream ended early, or None."""

    scores: list[tuple[float, float, float]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    ended: str | None = None


def run(folder: Path, name: str, peer: str, budget: float) -> dict[str, Any]:
    """Return the result of a method on a stream; it stops where `budget` seconds are spent or the method fails."""
    warnings.simplefilter("ignore")
    X, y = standardised(name, folder)
    given = hyperparameters(name, folder)
    PEERS[peer].make(given)  # so that the memory of its imports is not counted
    base = memory_mb("VmRSS")
    found = _stream(PEERS[peer].make(given), X, y, budget)
    pooled = pool(found.scores, found.rows)
    n = FIRST + np.cumsum(found.rows)
    return {
        "peer": peer, "set": name, "settings": PEERS[peer].settings, "rows": int(n[-1]), "all_rows": len(y),
        "ended": found.ended, "rmse": pooled.rmse, "nlpd": pooled.nlpd, "coverage": pooled.coverage,
        "seconds": float(np.mean(found.seconds)), "growth": _growth(n, np.array(found.seconds)),
        "batches": [[s[0], t] for s, t in zip(found.scores, found.seconds, strict=True)],
        "memory_mb": max(0.0, memory_mb("VmHWM") - base),
    }  # fmt: skip


def _stream(model: Peer, X: np.ndarray, y: np.ndarray, budget: float) -> Batches:
    """Learn the first 500 rows, then predict each batch and learn it."""
    out = Batches()
    began = time.perf_counter()
    model.learn(X[:FIRST], y[:FIRST])
    spent = time.perf_counter() - began
    for i in range(FIRST, len(y), BATCH):
        part = slice(i, i + BATCH)
        now = X[part]
        began = time.perf_counter()
        try:
            mean, std = model.predict(now)
            model.learn(now, y[part])
        except Exception as error:  # any error of another library; the batches before it count
            if not out.scores:
                raise
            out.ended = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            break
        took = time.perf_counter() - began
        out.seconds.append(took)
        out.rows.append(len(y[part]))
        out.scores.append(score(y[part], np.asarray(mean), np.asarray(std)))
        spent += took
        if spent > budget and i + BATCH < len(y):
            out.ended = "budget"
            break
    return out


def _growth(n: np.ndarray, seconds: np.ndarray) -> float | None:
    """Return the power of n that a batch costs, the first quarter of the rows aside; None for under 8 batches."""
    late = n > n[-1] / 4
    if late.sum() < 8:
        return None
    # Theil–Sen, the median of all pairwise slopes, so that single slow batches do not count.
    return float(scipy.stats.theilslopes(np.log(seconds[late]), np.log(n[late])).slope)


def run_apart(folder: Path, name: str, peer: str, budget: float, tries: int = 3) -> dict[str, Any]:
    """Return the result of a run in a process of its own, repeated where other processes were busy meanwhile."""
    code = "import sys; from experiments.peers.protocol import main; main(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(folder.resolve()), name, peer, str(budget)]
    try:
        measured = undisturbed(
            lambda: subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT), tries
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[-1]
        return {"peer": peer, "set": name, "settings": PEERS[peer].settings, "failure": last[:300]}
    result: dict[str, Any] = json.loads(measured.result.stdout.splitlines()[-1])
    return result | {"others": measured.others, "tries": measured.tries}


def main(folder: str, name: str, peer: str, budget: str) -> None:
    """Print one result as JSON; memory is limited, so that the method fails and not the machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (int(MEMORY * memory), resource.RLIM_INFINITY))
    with threadpool_limits(1, "blas") if PEERS[peer].one_thread else nullcontext():
        print(json.dumps(run(Path(folder), name, peer, float(budget))))
