"""What a row costs in an exported model: one file of C, ONNX and Python beside each other, and the rounding of float32.

    python -m experiments.speed.exported [--rank R]

A function of 21 features is learned with a panel without neighbours; single rows are then predicted with mean, standard
deviation and interval, calibrated. C is compiled by `cc -O2` and called in a loop of its own; ONNX through onnxruntime
with one thread; Python by `predict`. Medians of five rounds.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from experiments.common import command
from streamgp import StreamingGPRegressor
from streamgp.export import export

D, ROUNDS, ROWS = 21, 5, 300
LOOP = """
#include <stdio.h>
#include <time.h>
#include "model.c"
int main(void)
{
    static streamgp_real x[STREAMGP_FEATURES], out[4][STREAMGP_OUTPUTS], total;
    for (int full = 0; full < 2; full++) {
        struct timespec a, b;
        timespec_get(&a, TIME_UTC);
        for (int k = 0; k < 2000; k++) {
            for (int j = 0; j < STREAMGP_FEATURES; j++) x[j] = (streamgp_real)((k * 7 + j * 13) % 40) / 10 - 2;
            if (full) streamgp_predict(x, out[0], out[1], out[2], out[3]);
            else streamgp_mean(x, out[0]);
            total += out[0][0] + out[1][0];
        }
        timespec_get(&b, TIME_UTC);
        printf("%g\\n", ((b.tv_sec - a.tv_sec) * 1e6 + (b.tv_nsec - a.tv_nsec) * 1e-3) / 2000);
    }
    return total == 0;
}
"""


def learned(rank: int) -> StreamingGPRegressor:
    """Return a model that has learned 3,000 rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3000, D))
    y = np.sin(X[:, :5]).sum(axis=1) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(3000)
    panel = ("gp", "ridge", "ridge_recent", "level")
    gp = StreamingGPRegressor(rank=rank, members=panel, random_state=0)
    for start in range(0, 3000, 500):
        gp.partial_fit(X[start : start + 500], y[start : start + 500])
    return gp


def in_c(folder: Path) -> tuple[float, float]:
    """Return the microseconds a row of the mean alone, and of all answers."""
    (folder / "loop.c").write_text(LOOP)
    subprocess.run(["cc", "-O2", "loop.c", "-o", "loop", "-lm"], cwd=folder, check=True)
    runs = [
        subprocess.run(["./loop"], cwd=folder, check=True, capture_output=True, text=True)
        for _ in range(ROUNDS)
    ]
    mean, full = np.median([[float(v) for v in run.stdout.split()] for run in runs], axis=0)
    return float(mean), float(full)


def timed(predict: Callable[[np.ndarray], object], X: np.ndarray) -> float:
    """Return the microseconds a row, each predicted alone."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for row in X:
            predict(row[None, :])
        times.append((time.perf_counter() - start) / len(X) * 1e6)
    return float(np.median(times))


def in_onnx(session: Any, names: list[str] | None) -> Callable[[np.ndarray], object]:
    """Return a function that asks a session for these answers, or all."""
    return lambda x: session.run(names, {"X": x})


@command(__doc__)
@click.option("--rank", default=300, show_default=True, help="Inducing points.")
def main(rank: int) -> None:
    """Print the table."""
    import onnxruntime

    gp, X = learned(rank), np.random.default_rng(1).uniform(-2, 2, (ROWS, D))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    print(f"rank {gp.rank_}, {D} features; microseconds a row\n")
    print("| | mean alone | all answers | rounding: mean, std (in std) | bytes |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for dtype in ("float32", "float64"):
            done = export(gp, folder / "model.c", dtype=dtype)
            mean, full = in_c(folder)
            size = done.path.stat().st_size
            print(
                f"| C, {dtype} | {mean:.1f} | {full:.1f} | {done.mean_error:.1g}, {done.std_error:.1g} | {size:,} |"
            )
        for dtype in ("float32", "float64"):
            done = export(gp, folder / "model.onnx", dtype=dtype)
            session = onnxruntime.InferenceSession(done.path, options, providers=["CPUExecutionProvider"])
            rows = X.astype(dtype)
            mean, full = (timed(in_onnx(session, names), rows) for names in (["mean"], None))
            size = done.path.stat().st_size
            print(
                f"| ONNX, {dtype} | {mean:.1f} | {full:.1f} | {done.mean_error:.1g}, {done.std_error:.1g} | {size:,} |"
            )
    mean, full = timed(gp.predict, X), timed(lambda x: gp.predict(x, return_std=True, return_interval=0.9), X)
    print(f"| Python | {mean:.1f} | {full:.1f} | | |")


if __name__ == "__main__":
    main()
