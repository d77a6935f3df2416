"""What is run: every experiment as a task with a name, in parallel where no time is taken."""

from __future__ import annotations

import importlib
import json
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from experiments import common
from streamgp.datasets import Dataset

from . import polynomial
from .factors import KINDS, METHODS, PROTOCOLS, Setting, mean_of
from .sources import digest
from .store import Store

# Rows that the paper streams; of the simulated arm as many as a test needs.
ROWS = {"abalone": 4000, "sarcos": 10_000, "arm": 2000}
QUICK_ROWS = 1000
SEEDS = 10
# Table I: the paper gives no hyperparameters, no k and no p. Two settings of the sweep below: the one with the lowest
# error of NRMF, and the one whose four errors are closest to the paper's; a test compares them with the kept sweep.
SETTINGS = {
    "abalone": {"lowest": Setting(0.3, 1.0, 50, 10), "closest": Setting(0.1, 1e-4, 20, 0)},
    "sarcos": {"lowest": Setting(2.0, 0.03, 50, 10), "closest": Setting(2.0, 2e-3, 30, 0)},
    "arm": {"lowest": Setting(2.0, 0.01, 50, 10), "closest": Setting(2.0, 0.01, 20, 10)},
}
LENGTHS = (0.1, 0.2, 0.3, 0.4, 0.7, 1.0, 1.25, 1.5, 2.0, 2.5, 4.0, 8.0)
NOISES = (1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0)
# The paper has k < b = 100.
SIZES = tuple((k, p) for k in (10, 20, 30, 50, 70, 90) for p in (0, 10))
# Other bounds of a₁ and a₂ in Table II, and of the ablation and the theorem: ranks, noises, p, draws.
LIMITS = (1e2, 1e4, 1e6)
RANK = 50
RANKS = (10, 20, RANK, 90)
SHORT_NOISES = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
OVERSAMPLINGS = (4, 5, 10)  # eq. (3) is stated for p of 4 or more (Halko, Martinsson & Tropp, Corollary 10.9)
DRAWS = 100


@dataclass(frozen=True)
class Task:
    """One experiment: a function of this package, its arguments, and whether it is timed, alone on the machine."""

    key: str
    function: str
    data: str
    arguments: dict[str, Any] = field(hash=False)
    alone: bool = False
    cuda: bool = False

    @property
    def digest(self) -> str:
        """What the result depends on: the code of the function and its arguments."""
        return digest(self.function, json.dumps(self.arguments, sort_keys=True))

    @property
    def group(self) -> str:
        """The part of the report that it belongs to."""
        return self.key.split(" | ")[0]


def all_tasks(name: str, *, quick: bool = False) -> list[Task]:
    """Return every task on a data set."""
    rows = min(ROWS[name], QUICK_ROWS) if quick else ROWS[name]
    makers = (_table_one, _table_two, _table_three, _ours, _ablation, _theorem, _sweep)
    return [task for make in makers for task in make(name, rows, quick)]


def _table_one(name: str, rows: int, quick: bool) -> Iterator[Task]:
    for label, setting in SETTINGS[name].items():
        for seed in range(2 if quick else SEEDS):
            key = f"I | {label} | {name} | {seed}"
            yield Task(
                key, "factors:table_one", name, {"rows": rows, "setting": tuple(setting), "seed": seed}
            )
        for row, protocol in product(("NRMF", "RGP"), PROTOCOLS):
            for seed in range(1 if row == "NRMF" else 2 if quick else SEEDS):
                key = f"I others | {label} | {row} | {name} | {protocol} | {seed}"
                given = {"rows": rows, "row": row, "setting": tuple(setting), "protocol": protocol}
                yield Task(key, "cells:table_one", name, given | {"seed": seed})
    for row in ("NRMF", "RGP", *METHODS):
        setting = SETTINGS[name]["lowest"]
        given = {
            "rows": rows,
            "row": row,
            "setting": tuple(setting),
            "protocol": "self-training",
            "timed": True,
        }
        yield Task(f"time I | {row} | {name}", "cells:table_one", name, given, alone=True)


def _table_two(name: str, rows: int, quick: bool) -> Iterator[Task]:
    starts = polynomial.STARTS[: 1 if quick else None]
    for noise, most, mode, protocol in product(starts, polynomial.A0_LIMITS, polynomial.MODES, PROTOCOLS):
        if mode == "no optimisation" and not most:
            continue  # a₀ is 0 there anyway
        key = f"II | {mode} | {noise:g} | {most:g} | {name} | {protocol}"
        given = {"rows": rows, "mode": mode, "noise": noise, "most": most, "protocol": protocol}
        yield Task(key, "polynomial:exact", name, given, cuda=True)
    noise = polynomial.STARTS[0]  # the start from which optimisation rescues
    for limit in LIMITS:
        given = {"rows": rows, "mode": "initial", "noise": noise, "most": 1.0, "protocol": "self-training"}
        key = f"bound II | {limit:g} | {noise:g} | {name}"
        yield Task(key, "polynomial:exact", name, given | {"limit": limit}, cuda=True)
    for mode in polynomial.MODES:
        given = {"rows": rows, "mode": mode, "noise": 1.0, "most": 1.0, "protocol": "self-training"}
        yield Task(f"time II | {mode} | {name}", "polynomial:exact", name, given, alone=True)


def _table_three(name: str, rows: int, quick: bool) -> Iterator[Task]:
    starts, seeds = polynomial.STARTS[: 1 if quick else None], range(2 if quick else SEEDS)
    for noise, most, row, protocol in product(starts, polynomial.A0_LIMITS, METHODS, PROTOCOLS):
        kind, cross = METHODS[row]
        given = {"rows": rows, "kind": kind, "cross": cross, "noise": noise, "most": most}
        for seed in seeds:
            key = f"III | {row} | {noise:g} | {most:g} | {name} | {protocol} | {seed}"
            yield Task(key, "polynomial:factored", name, given | {"protocol": protocol, "seed": seed})


def _ours(name: str, rows: int, quick: bool) -> Iterator[Task]:
    """Our tuner on the paper's methods (Tables II and III), and `pivoted`; Table III's with self-training are timed."""
    tunes = {"no optimisation": "none", "continuous": "continuous", "initial": "initial"}
    for protocol in PROTOCOLS:
        alone = protocol == "self-training"
        for mode, tune in tunes.items():
            given = {"rows": rows, "row": "NRMF", "tune": tune, "protocol": protocol}
            yield Task(f"ours II | {mode} | {name} | {protocol}", "cells:polynomial", name, given)
        for row in ("BRMF, as printed", "BRMF, projected", "SRMF, as printed", "SRMF, projected"):
            given = {"rows": rows, "row": row, "tune": "hybrid", "protocol": protocol}
            yield Task(f"ours III | {row} | {name} | {protocol}", "cells:polynomial", name, given, alone)
        yield Task(
            f"ours | pivoted | {name} | {protocol}",
            "cells:ours",
            name,
            {"rows": rows, "protocol": protocol},
            alone,
        )


def _ablation(name: str, rows: int, quick: bool) -> Iterator[Task]:
    ranks = RANKS[1:3] if quick else RANKS
    for kind, rank in product(KINDS, ranks):
        given = {"rows": rows, "kind": kind, "rank": rank, "length": SETTINGS[name]["lowest"].length}
        # Ten draws at the rank of the tables, one at the others.
        for draw in range(SEEDS if rank == RANK and not quick else 1):
            key = f"ablation | {kind} | {rank} | {name} | {draw}"
            yield Task(key, "factors:ablation", name, given | {"noises": SHORT_NOISES, "draw": draw})
    yield Task(f"constant | {name}", "factors:constant", name, {"rows": rows})


def _theorem(name: str, rows: int, quick: bool) -> Iterator[Task]:
    n, count = (400, 5) if quick else (1000, DRAWS)
    for p in OVERSAMPLINGS:
        given = {"rows": n, "length": 1.0, "oversampling": p, "count": count}
        yield Task(f"theorem | {p} | {name}", "theorem:draws", name, given)
    yield Task(f"step 13 | {name}", "theorem:degenerate", name, {"rows": n})


def _sweep(name: str, rows: int, quick: bool) -> Iterator[Task]:
    for length in LENGTHS[3:6] if quick else LENGTHS:
        for size in SIZES[2:4] if quick else SIZES:
            key = f"sweep | {length:g} | {size[0]} | {size[1]} | {name}"
            given = {"rows": rows, "length": length, "size": size, "noises": NOISES}
            yield Task(key, "factors:sweep", name, given)
        for rank in sorted({rank for rank, _ in (SIZES[2:4] if quick else SIZES)}):
            given = {"rows": rows, "length": length, "rank": rank, "noises": NOISES}
            yield Task(f"sweep RGP | {length:g} | {rank} | {name}", "cells:sweep_rgp", name, given)


# Running them


@cache
def _data(name: str, folder: str) -> Dataset:
    return common.load_whole(name, Path(folder) if folder else None)


def run_task(task: Task, folder: str, device: str | None = None) -> dict[str, Any]:
    """Return what a task found and the seconds that it took."""
    module, _, name = task.function.partition(":")
    function = getattr(importlib.import_module(f"experiments.paper.{module}"), name)
    given = dict(task.arguments)
    if "setting" in given:
        given["setting"] = Setting(*given["setting"])
    if task.cuda and device:
        given["device"] = device
    began = time.perf_counter()
    with threadpool_limits(None if task.alone or given.get("device") else 1):
        found = function(_data(task.data, folder), **given)
    seconds = round(time.perf_counter() - began, 2)
    return {"found": _short(found if given.get("seed", 0) == 0 else means(found)), "seconds": seconds}


def means(found: dict[str, Any]) -> dict[str, Any]:
    """Return the mean RMSE in the place of that of each batch, all that is kept of further seeds."""
    if "rmse" in found:
        return {"mean": mean_of(found["rmse"])}
    return {name: mean_of(rmse) for name, rmse in found.items()}


def _short(value: Any) -> Any:
    """Return a result with numbers of six digits, as JSON can hold them: infinity as a string."""
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_short(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else "diverges"
    return value


def run_all(
    store: Store,
    tasks: list[Task],
    *,
    folder: str,
    jobs: int,
    done: Callable[[Task], None],
    device: str | None = None,
) -> None:
    """Run the tasks that the store does not have, `jobs` at once; at the end those that are timed, one by one."""
    open_tasks = [task for task in tasks if not store.has(task.key)]
    for task in tasks:
        if store.has(task.key):
            done(task)

    def keep(task: Task, found: dict[str, Any]) -> None:
        store.add(task.key, found | {"code": task.digest})
        done(task)

    together = [task for task in open_tasks if not task.alone and not (task.cuda and device)]
    # The longest first, so that none is left over at the end.
    together.sort(key=lambda task: (task.data != "sarcos", task.group not in ("ours II", "II", "sweep")))
    # Spawned, not forked: a process that has used CUDA cannot be forked.
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        running = {pool.submit(run_task, task, folder): task for task in together}
        for task in open_tasks:
            if task.cuda and device:
                keep(task, run_task(task, folder, device))
                for future in [f for f in running if f.done()]:
                    keep(running.pop(future), future.result())
        for future in as_completed(running):
            keep(running[future], future.result())
    for task in open_tasks:
        if task.alone:
            keep(task, run_task(task, folder))
