"""Stale results, confirmed: some of them, drawn at random, are run again and compared with what was kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any, NamedTuple

from .results import Results
from .sources import commit
from .store import Store
from .tasks import Task, run_task

# Kept numbers have six digits, and another BLAS rounds otherwise; the tables show three.
SAME = 1e-3
# Results that took longer, in seconds, are not drawn.
LONGEST = 100.0


class Confirmed(NamedTuple):
    """How many stale results were run again, with which commits, how many are the same, and those that are not."""

    drawn: int
    same: int
    commits: tuple[str, ...]
    others: dict[str, float | None]


def draw(results: Results, count: int) -> list[Task]:
    """Return so many stale tasks, drawn at random from those that are not timed and not long."""
    tasks = [t for t in results.stale_tasks() if not t.alone and results.tasks[t.key]["seconds"] <= LONGEST]
    return sorted(random.Random(count).sample(tasks, min(count, len(tasks))), key=lambda task: task.key)


def confirm(store: Store, count: int, *, folder: str, jobs: int, done: Callable[[Task], None]) -> None:
    """Run so many stale results again, and keep by how much each differs."""
    drawn, made = draw(Results(store.content), count), commit()
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        running = {pool.submit(run_task, task, folder): task for task in drawn}
        for future in as_completed(running):
            task, found = running[future], future.result()["found"]
            kept = store.content["tasks"][task.key]
            kept["again"] = {"code": task.digest, "commit": made, "change": change(kept["found"], found)}
            done(task)


def confirmed(results: Results) -> Confirmed:
    """Return what is known of the stale results that were run again."""
    stale = [results.tasks[task.key] | {"key": task.key} for task in results.stale_tasks()]
    again = {kept["key"]: kept["again"] for kept in stale if "again" in kept}
    others = {k: v["change"] for k, v in again.items() if v["change"] is None or v["change"] > SAME}
    commits = tuple(sorted({v["commit"] for v in again.values()}))
    return Confirmed(len(again), len(again) - len(others), commits, others)


def change(old: Any, new: Any) -> float | None:
    """Return the largest relative difference of two results; None where one has a number and the other has none."""
    worst = 0.0
    for a, b in _pairs(old, new):
        if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
            if a != b:
                return None
        else:
            worst = max(worst, abs(a - b) / max(abs(a), abs(b), 1e-300))
    return float(f"{worst:.2g}")


def _pairs(old: Any, new: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the numbers of two results side by side; times are left out."""
    if isinstance(old, Mapping):
        for key in old:
            if key != "seconds":
                yield from _pairs(old[key], new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for a, b in zip(old, new, strict=True):
            yield from _pairs(a, b)
    elif isinstance(old, list):
        yield None, "another length"
    else:
        yield old, new
