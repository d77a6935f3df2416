"""Rows a second and peak memory of `streamgp run` at rank 100 on a large CSV file of 21 inputs.

    python -m experiments.speed.big_csv [ROWS]

The default is 5,000,000 rows of the simulated arm, without output and with predictions written.
"""

import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from experiments.common import command, machine, memory_mb
from streamgp.datasets import load_arm

CHUNK = 100_000


def write(path: Path, rows: int) -> None:
    """Write rows of the arm and its first torque, a chunk at a time."""
    with path.open("w") as file:
        file.write(",".join([*load_arm(1).feature_names, "torque_1"]) + "\n")
        for start in range(0, rows, CHUNK):
            arm = load_arm(min(CHUNK, rows - start), start=start)
            np.savetxt(file, np.hstack([arm.X, arm.y[:, :1]]), "%.6g", ",")


def time_and_peak(arguments: list[str]) -> tuple[float, float]:
    """Return the seconds and the peak memory in MB, asked every 50 ms, of a command."""
    began, peak = time.perf_counter(), 0.0
    child = subprocess.Popen(arguments)
    while child.poll() is None:
        peak = max(peak, memory_mb("VmHWM", child.pid))
        time.sleep(0.05)
    if child.wait():
        raise SystemExit(f"{' '.join(arguments)} failed with exit status {child.returncode}")
    return time.perf_counter() - began, peak


@command(__doc__)
@click.argument("rows", default=5_000_000, type=click.IntRange(1))
def main(rows: int) -> None:
    """Write the file, run the command twice, print."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "arm.csv"
        # In a process of its own: a child's peak memory starts at that of its parent.
        writer = multiprocessing.get_context("spawn").Process(target=write, args=(source, rows))
        writer.start()
        writer.join()
        print(f"{machine()}; {rows:,} rows, {source.stat().st_size / 1e9:.2f} GB", flush=True)
        run = [sys.executable, "-m", "streamgp", "run", str(source), "--target", "torque_1", "--rank", "100"]
        for output in ([], ["--output", str(Path(folder) / "o.csv")]):
            seconds, peak = time_and_peak([*run, *output])
            what = "with predictions written" if output else "without output"
            print(
                f"{what}: {seconds:.0f} s, {rows / seconds:,.0f} rows/s, peak memory {peak:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
