"""Count what a reader walks through: functions, files and depth of one `partial_fit` and one `predict`.

    python -m experiments.checks.walk [--list]

A steady stream is meant: pivoted at full rank (100), batches of 100 rows, no tuning due. Functions are code objects of
the package: methods, properties, lambdas, inner functions and comprehensions; the depth is the number of its frames on
the stack when the gram matrix is added to. Four batches are walked: the lightest only learns rows, the heaviest also
exchanges pivots.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import click
import numpy as np

import streamgp
from experiments.common import command
from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm

PACKAGE = str(Path(streamgp.__file__).parent)


class Walk:
    """Distinct functions of the package that were called, and the depth of one of them."""

    def __init__(self, target: str) -> None:
        self.functions: set[tuple[str, str, int]] = set()
        self.depth = 0
        self._target = target

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call; for sys.setprofile."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        self.functions.add((code.co_filename[len(PACKAGE) + 1 :], code.co_qualname, code.co_firstlineno))
        if code.co_qualname == self._target:
            self.depth = max(self.depth, _depth(frame))

    @property
    def files(self) -> set[str]:
        """The files that these functions are in."""
        return {file for file, _, _ in self.functions}


def _depth(frame: FrameType | None) -> int:
    """Count the frames of the package, this one included; a frame per function, however often it recurs."""
    seen = 0
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            seen += 1
        frame = frame.f_back
    return seen


def walked(call: Callable[[], Any], target: str = "") -> Walk:
    """Run `call` and return what it walked through."""
    walk = Walk(target)
    sys.setprofile(walk)
    try:
        call()
    finally:
        sys.setprofile(None)
    return walk


def steady() -> tuple[list[Walk], list[Walk]]:
    """Return the walks of four `partial_fit` and of four `predict(return_std=True)` of a steady stream."""
    arm = load_arm(3400)
    X, y = np.ascontiguousarray(arm.X), arm.y[:, 0].copy()
    gp = StreamingGPRegressor(rank=100, random_state=0)
    for i in range(0, 2500, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    gram = "NormalEquations._add" if not hasattr(streamgp.regressor, "Learner") else "NormalEquations.add"
    learning, predicting = [], []
    for i in range(2500, 2900, 100):
        rows = slice(i, i + 100)
        learning.append(walked(lambda rows=rows: gp.partial_fit(X[rows], y[rows]), gram))
        assert gp.tuning_ is None, "a tuning was due: not a steady batch"
        ahead = slice(i + 300, i + 400)  # rows that are not learned next, or nothing would be left to compute
        predicting.append(walked(lambda ahead=ahead: gp.predict(X[ahead], return_std=True)))
    return learning, predicting


@command(__doc__)
@click.option(
    "--list", "listed", is_flag=True, help="Print every function of the lightest batch, file by file."
)
def main(listed: bool) -> None:
    """Print the counts."""
    for name, walks in zip(("partial_fit", "predict"), steady(), strict=True):
        light, heavy = (choose(walks, key=lambda walk: len(walk.functions)) for choose in (min, max))
        depth = f", the gram matrix at depth {light.depth}" if light.depth else ""
        print(f"{name}: {len(light.functions)} functions in {len(light.files)} files{depth}", end="")
        print(f" (heaviest batch: {len(heavy.functions)} in {len(heavy.files)})")
        if listed:
            by_file = defaultdict(list)
            for file, function, _ in sorted(light.functions):
                by_file[file].append(function)
            for file, functions in sorted(by_file.items()):
                print(f"  {file}: {', '.join(functions)}")


if __name__ == "__main__":
    main()
