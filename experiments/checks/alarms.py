"""Alarms at their defaults: how many on ordinary rows, and how soon after a shift.

    python -m experiments.checks.alarms [STREAM]...

Batches of 20, rank 100, raw units, each batch predicted before it is learned. At six places of each stream four shifts
begin, each on a copy of the model: the target higher by twice the RMSE (offset), errors three times as large (spread),
the target's deviations from its mean 1.5 times as large (gain), the first feature stuck (sensor). A shift is large if
it doubles the RMSE of the next 200 rows.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from experiments.common import command, data_folder, parts_argument
from streamgp import StreamingGPRegressor
from streamgp.app.alarms import Alarms, Scored, parse_all

BATCH, SOON, PLACES = 20, 200, 6
SHIFTS = ("offset", "spread", "gain", "sensor")
SIMULATED = ("independent", "heavy tails", "correlated", "noise that varies")
REAL = ("kin40k", "protein", "pol", "elevators")


def simulated(kind: str, n: int = 25_000) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 4) and y (n,): a function of four features plus noise."""
    rng = np.random.default_rng(0)
    steps = rng.uniform(-2, 2, (n, 4)) if kind in SIMULATED[:2] else 0.2 * rng.standard_normal((n, 4))
    X = steps if kind in SIMULATED[:2] else _autoregressive(steps, 0.98)
    noise = rng.standard_t(3, n) if kind == "heavy tails" else rng.standard_normal(n)
    if kind == "correlated":
        noise = _autoregressive(np.sqrt(1 - 0.81) * noise, 0.9)
    if kind == "noise that varies":
        noise = noise * (0.3 + np.abs(X[:, 0]))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.3 * noise


def _autoregressive(steps: np.ndarray, keep: float) -> np.ndarray:
    values = steps.copy()
    for i in range(1, len(values)):
        values[i] += keep * values[i - 1]
    return values


def real(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X and y of a set, all rows in a random order: ordinary without doubt."""
    with np.load(data_folder() / f"{name}.npz") as file:
        rows = np.random.default_rng(0).permutation(len(file["X"]))
        return file["X"][rows].astype(float), file["y"].ravel()[rows].astype(float)


class Watched(NamedTuple):
    """A model and its alarms, with the errors of the last rows."""

    gp: StreamingGPRegressor
    alarms: Alarms
    errors: np.ndarray

    def step(self, X: np.ndarray, y: np.ndarray, line: int) -> tuple[Watched, list[int]]:
        """Return both after a batch, and the lines at which an alarm was raised."""
        mean, std, low, high = self.gp.predict(X, return_std=True, return_interval=0.9)
        columns = [part[:, None] for part in (y, mean, std, (low <= y) & (y <= high))]
        lines, nobody = np.arange(line, line + len(y)), np.zeros(len(y), dtype=bool)
        alarms, raised = self.alarms.add(
            Scored(lines, *columns, nobody, np.isnan(X), [str(each) for each in lines])
        )
        self.gp.partial_fit(X, y)
        errors = np.concatenate([self.errors, y - mean])[-2000:]
        return Watched(self.gp, alarms, errors), [alarm.line for alarm in raised]


def shifted(
    kind: str, X: np.ndarray, y: np.ndarray, level: float, rmse: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows after a shift."""
    if kind == "offset":
        return X, y + 2 * rmse
    if kind == "spread":
        return X, y + np.sqrt(8) * rmse * np.random.default_rng(0).standard_normal(len(y))
    if kind == "gain":
        return X, level + 1.5 * (y - level)
    return np.column_stack([np.full(len(X), X[0, 0]), X[:, 1:]]), y


def found_after(watched: Watched, X: np.ndarray, y: np.ndarray, rmse: float) -> tuple[int | None, bool]:
    """Return after how many rows of a shift an alarm is raised, None if not soon, and whether the shift is large."""
    now, first = copy.deepcopy(watched), None
    for i in range(0, SOON, BATCH):
        now, raised = now.step(X[i : i + BATCH], y[i : i + BATCH], i + 1)
        first = first or (raised[0] if raised else None)
    return first, bool(np.sqrt(np.mean(now.errors[-SOON:] ** 2)) > 2 * rmse)


@command(__doc__)
@parts_argument((*SIMULATED, *REAL))
def main(parts: tuple[str, ...]) -> None:
    """Print a row for each stream."""
    print(
        f"{'stream':20s} {'rows':>7s} {'alarms':>7s} {'found soon':>11s} {'of large ones':>14s} {'median row':>11s}"
    )
    for name in parts:
        X, y = simulated(name) if name in SIMULATED else real(name)
        gp = StreamingGPRegressor(rank=100, random_state=0).partial_fit(X[:BATCH], y[:BATCH])
        features = [str(j) for j in range(X.shape[1])]
        now, count, found = Watched(gp, Alarms.of(parse_all(["all"]), ["y"], features), np.zeros(0)), 0, []
        places = {int(i) // BATCH * BATCH for i in np.linspace(0.15, 1.0, PLACES) * (len(y) - SOON)}
        for i in range(BATCH, len(y), BATCH):
            if i in places:
                # Rare large errors are no measure of ordinary ones.
                rmse = float(np.sqrt(np.mean(np.sort(now.errors**2)[: int(0.98 * now.errors.size)])))
                for kind in SHIFTS:
                    rows = shifted(kind, X[i : i + SOON], y[i : i + SOON], float(y[:i].mean()), rmse)
                    found.append(found_after(now, *rows, rmse))
            now, raised = now.step(X[i : i + BATCH], y[i : i + BATCH], i)
            count += len(raised)
        soon = [first for first, _ in found if first is not None]
        large = [first is not None for first, is_large in found if is_large]
        print(
            f"{name:20s} {len(y):7d} {count:7d} {len(soon):4d} of {len(found):3d} {sum(large):7d} of {len(large):3d} "
            f"{np.median(soon) if soon else np.nan:11.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
