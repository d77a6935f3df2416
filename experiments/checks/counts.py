"""What a batch costs, counted and not timed: kernel entries, operations by formula, factorisations, bytes made.

    python -m experiments.checks.counts            print the counts
    python -m experiments.checks.counts --write    keep them as what tests/test_counts.py compares with

The same on every machine: calls of the doorway to array libraries are watched, and their arguments counted.
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
from typing import Any

from streamgp import StreamingGPRegressor, _arrays
from streamgp.datasets import load_arm
from streamgp.kernels import BrownianPolynomial, distances

KEPT = Path(__file__).parents[1] / "results" / "counts.json"
Locals = dict[str, Any]


def _shape(values: Locals, name: str) -> tuple[int, ...]:
    return tuple(values[name].shape)


# Functions that are watched: what a call adds to which count.
WATCHED: dict[Callable[..., Any], Callable[[Locals], dict[str, float]]] = {
    distances.squared: lambda v: {"kernel entries": _shape(v, "A")[0] * _shape(v, "B")[0]},
    _arrays.cholesky: lambda v: {"factorisations": 1, "operations": _shape(v, "matrix")[0] ** 3 / 3},
    _arrays.eigh: lambda v: {"factorisations": 1, "operations": 9 * _shape(v, "matrix")[0] ** 3},
    _arrays.product: lambda v: {"operations": 2 * math.prod(_shape(v, "left")) * _shape(v, "right")[1]},
    _arrays.gram: lambda v: {"operations": _shape(v, "rows")[0] * _shape(v, "rows")[1] ** 2},
    _arrays.solve_lower: lambda v: {"operations": _shape(v, "factor")[0] ** 2 * _shape(v, "right")[1]},
    _arrays.empty: lambda v: {"bytes": 8 * math.prod(v["shape"])},
}


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Count what the watched functions are asked for."""
    found: Counter[str] = Counter()
    codes = {function.__code__: count for function, count in WATCHED.items()}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes:
            found.update(codes[frame.f_code](frame.f_locals))

    # In one thread: another would not be seen, and which one does what depends on the number of cores.
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


CASES: dict[str, tuple[dict[str, Any], int, int, int]] = {
    # name: arguments, rows before, rows of a batch, batches
    "pivoted, rank 100": ({"rank": 100, "tune": "none"}, 3000, 100, 8),
    "pivoted, rank 300": ({"rank": 300, "tune": "none"}, 4000, 100, 8),
    "pivoted, single rows": ({"rank": 100, "tune": "none"}, 3000, 1, 100),
    "pivoted, doubling": ({"rank": 100}, 1500, 100, 2),  # one of the two tunes
    "pivoted, forgetting": ({"rank": 100, "tune": "none", "forgetting": 0.99}, 3000, 100, 8),
    "rgp": ({"rank": 100, "method": "rgp", "tune": "none"}, 2000, 100, 4),
    "srmf": ({"rank": 50, "method": "srmf", "tune": "none"}, 2000, 100, 4),
    "brmf": ({"rank": 50, "method": "brmf", "tune": "none"}, 1000, 100, 2),
    "nrmf": ({"method": "nrmf", "tune": "none"}, 1000, 100, 4),
    "srmf, affine": (
        {"rank": 50, "method": "srmf", "tune": "continuous", "kernel": BrownianPolynomial((0.1, 1.0, 1.0)),
         "objective": "training_error"}, 800, 100, 3,
    ),
}  # fmt: skip


def counted() -> dict[str, dict[str, int]]:
    """Give the counts of a batch, predicted and learned, for each case."""
    out = {}
    for name, (given, before, size, batches) in CASES.items():
        arm = load_arm(before + size * batches)
        X, y = arm.X / arm.X.std(axis=0), arm.y[:, 0] / arm.y[:, 0].std()
        gp = StreamingGPRegressor(**given, random_state=0)
        for i in range(0, before, 100):
            gp.partial_fit(X[i : i + 100], y[i : i + 100])
        with counting() as found:
            for i in range(before, before + size * batches, size):
                gp.predict(X[i : i + size], return_std=True)
                gp.partial_fit(X[i : i + size], y[i : i + size])
        out[name] = {what: round(n / batches) for what, n in sorted(found.items())}
    return out


def main() -> None:
    found = counted()
    for name, counts in found.items():
        print(f"{name:24s} " + ", ".join(f"{what} {n:,}" for what, n in counts.items()))
    if "--write" in sys.argv:
        KEPT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
