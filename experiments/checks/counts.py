"""What a batch costs, counted and not timed: kernel entries, operations by formula, factorisations, bytes allocated.

    python -m experiments.checks.counts            print the counts
    python -m experiments.checks.counts --write    and save them for tests/experiments/checks/test_counts.py

The counts are the same on every machine: calls of `streamgp._arrays` are watched, and the shapes of their arguments
counted.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import click
import numpy as np

from experiments.common import command
from streamgp import StreamingGPRegressor, _arrays
from streamgp.datasets import load_arm
from streamgp.kernels import BrownianPolynomial, stationary
from streamgp.methods import neighbours
from streamgp.methods.neighbours import NEAR_PIVOTS

KEPT = Path(__file__).parents[1] / "results" / "counts.json"
Locals = dict[str, Any]


def _neighbours(values: Locals) -> dict[str, float]:
    """Count the search among the stored rows, the local kernel matrices, and their factorisations."""
    store, (m, d) = values["store"], _shape(values, "X")
    k, points = min(store.neighbours, store.count), values["gp"].Z.shape[0]
    n = min(NEAR_PIVOTS, points) + k + 1
    operations = m * (2 * store.count * (d + 2) + n**3 / 3)
    return {"kernel entries": m * n**2, "operations": operations, "factorisations": m}


def _shape(values: Locals, name: str) -> tuple[int, ...]:
    return tuple(values[name].shape)


# The functions that are watched, and what a call adds to which count, from its local variables.
WATCHED: dict[Callable[..., Any], Callable[[Locals], dict[str, float]]] = {
    stationary.squared: lambda v: {"kernel entries": _shape(v, "A")[0] * _shape(v, "B")[0]},
    _arrays.cholesky: lambda v: {"factorisations": 1, "operations": _shape(v, "matrix")[0] ** 3 / 3},
    _arrays.eigh: lambda v: {"factorisations": 1, "operations": 9 * _shape(v, "matrix")[0] ** 3},
    _arrays.product: lambda v: {"operations": 2 * math.prod(_shape(v, "left")) * _shape(v, "right")[1]},
    _arrays.gram: lambda v: {"operations": _shape(v, "rows")[0] * _shape(v, "rows")[1] ** 2},
    _arrays.solve_lower: lambda v: {"operations": _shape(v, "factor")[0] * math.prod(_shape(v, "right"))},
    neighbours.correction: _neighbours,
    _arrays.empty: lambda v: {"bytes": 8 * math.prod(v["shape"])},
}


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Return a counter that the calls of watched functions fill while the block runs."""
    found: Counter[str] = Counter()
    codes = {function.__code__: count for function, count in WATCHED.items()}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes:
            found.update(codes[frame.f_code](frame.f_locals))

    # One thread: a profile does not see others, and how work is shared depends on the number of cores.
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


class Case(NamedTuple):
    """Arguments of the regressor, rows learned before counting, rows of a batch, and batches counted."""

    arguments: dict[str, Any]
    before: int
    size: int
    batches: int


_AFFINE = {"kernel": BrownianPolynomial((0.1, 1.0, 1.0)), "objective": "training_error"}
CASES = {
    "pivoted, rank 100": Case({"rank": 100, "tune": "none"}, 3000, 100, 8),
    "pivoted, rank 300": Case({"rank": 300, "tune": "none"}, 4000, 100, 8),
    "pivoted, single rows": Case({"rank": 100, "tune": "none"}, 3000, 1, 100),
    "pivoted, doubling": Case({"rank": 100}, 1500, 100, 2),  # one of the two tunes
    "pivoted, forgetting": Case({"rank": 100, "tune": "none", "forgetting": 0.99}, 3000, 100, 8),
    "rgp": Case({"rank": 100, "method": "rgp", "tune": "none"}, 2000, 100, 4),
    "srmf": Case({"rank": 50, "method": "srmf", "tune": "none"}, 2000, 100, 4),
    "brmf": Case({"rank": 50, "method": "brmf", "tune": "none"}, 1000, 100, 2),
    "nrmf": Case({"method": "nrmf", "tune": "none"}, 1000, 100, 4),
    "srmf, affine": Case({"rank": 50, "method": "srmf", "tune": "continuous", **_AFFINE}, 800, 100, 3),
}


def scaled_arm(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 21) and the first torque (n,) of the arm, each column divided by its standard deviation."""
    arm = load_arm(n)
    return arm.X / arm.X.std(axis=0), arm.y[:, 0] / arm.y[:, 0].std()


def counted() -> dict[str, dict[str, int]]:
    """Return the counts of a batch, predicted and learned, for each case."""
    out = {}
    for name, case in CASES.items():
        X, y = scaled_arm(case.before + case.size * case.batches)
        gp = StreamingGPRegressor(**case.arguments, random_state=0)
        for i in range(0, case.before, 100):
            gp.partial_fit(X[i : i + 100], y[i : i + 100])
        with counting() as found:
            for i in range(case.before, len(y), case.size):
                gp.predict(X[i : i + case.size], return_std=True)
                gp.partial_fit(X[i : i + case.size], y[i : i + case.size])
        out[name] = {what: round(n / case.batches) for what, n in sorted(found.items())}
    return out


@command(__doc__)
@click.option("--write", is_flag=True, help=f"Save the counts in experiments/results/{KEPT.name}.")
def main(write: bool) -> None:
    """Count, print, and save where asked."""
    found = counted()
    for name, counts in found.items():
        print(f"{name:24s} " + ", ".join(f"{what} {n:,}" for what, n in counts.items()))
    if write:
        KEPT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
