"""The kept results, read: estimates over seeds, tables by method, which are stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from .factors import METHODS, PROTOCOLS, mean_of
from .tasks import LENGTHS, NOISES, SIZES, Task, all_tasks

# Errors beyond this many times the paper's mean that the run has diverged, whatever their size.
RUNAWAY = 100.0


class Estimate(NamedTuple):
    """A mean over seeds with its 95 % interval, from how many seeds, and how many of them ended without a number."""

    mean: float
    low: float
    high: float
    seeds: int
    diverged: int


def number(value: Any) -> float:
    """Return a kept number; "diverges" is infinity."""
    return float("inf") if value == "diverges" or value is None else float(value)


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean and t interval of the finite values; no interval from one."""
    finite = np.array([v for v in values if np.isfinite(v)])
    diverged = len(values) - len(finite)
    if not len(finite) or diverged:
        return Estimate(float("inf"), float("nan"), float("nan"), len(values), diverged)
    mean = float(finite.mean())
    if len(finite) < 2:
        return Estimate(mean, mean, mean, len(values), 0)
    with np.errstate(over="ignore"):
        half = float(scipy.stats.t.ppf(0.975, len(finite) - 1) * finite.std(ddof=1) / len(finite) ** 0.5)
    return Estimate(mean, mean - half, mean + half, len(values), 0)


class Results:
    """What tasks found, by table."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.about, self.made, self.tasks = content["about"], content["made"], content["tasks"]

    @property
    def sets(self) -> list[str]:
        """The data sets."""
        return list(self.about["rows"])

    def found(self, *key: object) -> Any:
        """Return what a task found, or None where it was not run."""
        kept = self.tasks.get(" | ".join(str(part) for part in key))
        return None if kept is None else kept["found"]

    def seconds(self) -> float:
        """Return the time of all tasks together, as if one by one."""
        return float(sum(kept["seconds"] for kept in self.tasks.values()))

    def _seeds(self, *key: object) -> list[Any]:
        """Return what a task found for each seed, the last part of its key."""
        out: list[Any] = []
        while (found := self.found(*key, len(out))) is not None:
            out.append(found)
        return out

    def table_one(self, label: str, data: str, protocol: str) -> dict[str, Estimate]:
        """Return the errors of Table I at a setting, by method."""
        out = {}
        for row in ("NRMF", "RGP"):
            runs = self._seeds("I others", label, row, data, protocol)
            if runs:
                out[row] = estimate([_mean(run) for run in runs])
        runs = self._seeds("I", label, data)
        for method in METHODS if runs else ():
            values = [run[f"{method} | {protocol}"] for run in runs]
            out[method] = estimate([mean_of(v) if isinstance(v, list) else number(v) for v in values])
        return out

    def table_two(self, mode: str, noise: float, most: float, data: str, protocol: str) -> float | None:
        """Return the error of a mode of Table II as printed; without optimisation no a₀ is bounded."""
        found = self.found("II", mode, f"{noise:g}", f"{most:g}", data, protocol)
        if found is None and mode == "no optimisation":
            found = self.found("II", mode, f"{noise:g}", "1", data, protocol)
        return None if found is None else _mean(found)

    def table_three(self, row: str, noise: float, most: float, data: str, protocol: str) -> Estimate | None:
        """Return the error of a row of Table III as printed; NRMF is Table II's."""
        if row == "NRMF":
            value = self.table_two("initial", noise, most, data, protocol)
            return None if value is None else estimate([value])
        runs = self._seeds("III", row, f"{noise:g}", f"{most:g}", data, protocol)
        return estimate([_mean(run) for run in runs]) if runs else None

    def constant(self, data: str) -> float | None:
        """Return the error of predicting the mean of the first batch."""
        found = self.found("constant", data)
        return None if found is None else float(found)

    def collapsed(self, row: str, noise: float, most: float, data: str, protocol: str) -> int:
        """Return how many seeds of a row of Table III ended with a constant: a₁ = a₂ = 0."""
        runs, constant = (
            self._seeds("III", row, f"{noise:g}", f"{most:g}", data, protocol),
            self.constant(data),
        )
        return 0 if constant is None else sum(abs(_mean(run) / constant - 1) < 1e-3 for run in runs)

    def ablation(self, kind: str, rank: int, data: str, variant: str) -> Estimate | None:
        """Return the error of one factor for a variant, "protocol|cross-covariance|noise", over its draws."""
        runs = self._seeds("ablation", kind, rank, data)
        return estimate([number(run[variant]["rmse"]) for run in runs]) if runs else None

    def negative(self, kind: str, rank: int, data: str, variant: str) -> float:
        """Return the mean share of variances below zero over the draws of an ablation."""
        runs = self._seeds("ablation", kind, rank, data)
        return float(np.mean([run[variant]["negative"] for run in runs])) if runs else float("nan")

    def time(self, table: str, row: str, data: str) -> float | None:
        """Return the mean seconds of a batch in a timed run."""
        key = ("ours III", row, data, "self-training") if table == "III" else (f"time {table}", row, data)
        found = self.found(*key)
        return float(np.mean(found["seconds"])) if found and found["seconds"] else None

    def sweep(self, data: str) -> list[dict[str, Any]]:
        """Return every setting of the sweep with the errors of self-training by method."""
        out = []
        for length in LENGTHS:
            for rank, oversampling in SIZES:
                found = self.found("sweep", f"{length:g}", rank, oversampling, data)
                rgp = self.found("sweep RGP", f"{length:g}", rank, data)
                if found is None or rgp is None:
                    continue
                for i, noise in enumerate(NOISES):
                    errors = {name: number(values[i]) for name, values in (found | rgp).items()}
                    place = {"length": length, "noise": noise, "rank": rank, "oversampling": oversampling}
                    out.append(place | {"errors": errors})
        return out

    def stale_tasks(self) -> list[Task]:
        """Return the tasks whose result was made with code that has changed since."""
        known = [
            t for name in self.sets for t in all_tasks(name, quick=self.about["quick"]) if t.key in self.tasks
        ]
        return [task for task in known if self.tasks[task.key].get("code") != task.digest]

    def stale(self) -> dict[str, int]:
        """Return, by part of the report, how many results are stale."""
        return dict(Counter(task.group for task in self.stale_tasks()))

    def missing(self) -> int:
        """Return the number of tasks that were not run."""
        keys = [t.key for name in self.sets for t in all_tasks(name, quick=self.about["quick"])]
        return sum(key not in self.tasks for key in keys)


def _mean(run: Mapping[str, Any]) -> float:
    """Return the mean error of a run; infinite where it failed."""
    if "mean" in run:
        return number(run["mean"])
    if run.get("failure"):
        return float("inf")
    return mean_of(run["rmse"])


__all__ = ["PROTOCOLS", "Estimate", "Results", "estimate", "number"]
