"""A CSV of 5,000,000 rows by 21 through `streamgp run` at rank 100: rows a second and peak memory.

python -m experiments.speed.big_csv [rows]
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from experiments.common import machine
from streamgp.datasets import load_arm

CHUNK = 100_000


def write(path: Path, rows: int) -> None:
    with path.open("w") as file:
        file.write(",".join([*load_arm(1).feature_names, "torque_1"]) + "\n")
        for start in range(0, rows, CHUNK):
            arm = load_arm(min(CHUNK, rows - start), start=start)
            np.savetxt(file, np.hstack([arm.X, arm.y[:, :1]]), "%.6g", ",")


def peak_of(command: list[str]) -> tuple[float, float]:
    """Run a command; give its seconds and its peak memory in MB, asked every 50 ms."""
    began, peak = time.perf_counter(), 0.0
    child = subprocess.Popen(command)
    while child.poll() is None:
        try:
            status = Path(f"/proc/{child.pid}/status").read_text()
        except OSError:
            break
        found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        peak = max(peak, *(int(v) / 1024 for v in found), 0.0)
        time.sleep(0.05)
    if child.wait():
        raise SystemExit(f"{command} failed")
    return time.perf_counter() - began, peak


def main() -> None:
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), int(sys.argv[3]))
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "arm.csv"
        # In processes of their own: a child's peak memory is never less than its parent's.
        subprocess.run([sys.executable, __file__, "write", str(source), str(rows)], check=True)
        print(f"{machine()}; {rows:,} rows, {source.stat().st_size / 1e9:.2f} GB", flush=True)
        for output in ([], ["--output", str(Path(folder) / "o.csv")]):
            command = [
                sys.executable,
                "-m",
                "streamgp",
                "run",
                str(source),
                "--target",
                "torque_1",
                "--rank",
                "100",
            ]
            seconds, peak = peak_of([*command, *output])
            what = "with predictions written" if output else "without output"
            print(
                f"{what}: {seconds:.0f} s, {rows / seconds:,.0f} rows/s, peak memory {peak:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
