"""A CSV of 5,000,000 rows by 21 through `streamgp run` at rank 100: rows a second and peak memory.

python benchmarks/big_csv.py [rows]
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import machine

from streamgp.datasets import load_arm

CHUNK = 100_000


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "arm.csv"
        with source.open("w") as file:
            file.write(",".join([*load_arm(1).feature_names, "torque_1"]) + "\n")
            for start in range(0, rows, CHUNK):
                arm = load_arm(min(CHUNK, rows - start), start=start)
                np.savetxt(file, np.hstack([arm.X, arm.y[:, :1]]), "%.6g", ",")
        print(f"{machine()}; {rows:,} rows, {source.stat().st_size / 1e9:.2f} GB", flush=True)
        for output in ([], ["--output", str(Path(folder) / "o.csv")]):
            began = time.perf_counter()
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
            subprocess.run([*command, *output], check=True)
            seconds = time.perf_counter() - began
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            what = "with predictions written" if output else "without output"
            print(
                f"{what}: {seconds:.0f} s, {rows / seconds:,.0f} rows/s, peak memory {peak:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
