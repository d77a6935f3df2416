"""`streamgp run` killed with kill −9 at random moments and resumed, against a run that was not interrupted.

    python -m experiments.checks.kill [KILLS]

Kills 50 times unless another number is given; when the input has ended, the run starts over. Prints after how many
kills each run came to its end, and how many ended with a model and predictions equal bit for bit.
"""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from experiments.common import command
from experiments.internals import checkpoint_content
from streamgp.datasets import load_arm

ROWS, SECONDS = 20_000, (1.2, 5.0)


def run_command(source: Path, folder: Path, name: str) -> list[str]:
    """Return the command that runs the source into `name`.csv and `name`.gp, resuming where it stopped."""
    return [
        sys.executable, "-m", "streamgp", "run", str(source), "--target", "torque_1,torque_2", "--rank", "100",
        "--batch", "50", "--every", "500", "--resume", "--quiet", "--output", str(folder / f"{name}.csv"),
        "--checkpoint", str(folder / f"{name}.gp"),
    ]  # fmt: skip


def result_of(folder: Path, name: str) -> tuple[object, bytes]:
    """Return the final model and the predictions of a run."""
    return checkpoint_content(folder / f"{name}.gp"), (folder / f"{name}.csv").read_bytes()


def write_rows(path: Path) -> None:
    """Write the rows of the arm with two torques, to the last digit."""
    arm = load_arm(ROWS)
    header = ",".join([*arm.feature_names, *arm.target_names[:2]])
    np.savetxt(path, np.hstack([arm.X, arm.y[:, :2]]), "%.17g", ",", header=header, comments="")


@command(__doc__)
@click.argument("kills", default=50, type=click.IntRange(1))
def main(kills: int) -> None:
    """Run once to the end, then again and again with kills."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "arm.csv"
        write_rows(source)
        began = time.perf_counter()
        subprocess.run(run_command(source, folder, "whole"), check=True)
        print(f"uninterrupted: {time.perf_counter() - began:.1f} s, {ROWS:,} rows, a checkpoint every 500")
        expected = result_of(folder, "whole")
        killed = finals = equal = 0
        while killed < kills or (folder / "killed.csv").exists():
            child = subprocess.Popen(run_command(source, folder, "killed"))
            try:
                child.wait(timeout=rng.uniform(*SECONDS) if killed < kills else None)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                child.wait()
                killed += 1
                continue
            finals += 1
            same = result_of(folder, "killed") == expected
            equal += child.returncode == 0 and same
            print(
                f"after {killed} kills: final model and predictions {'equal' if same else 'DIFFER'}",
                flush=True,
            )
            for path in folder.glob("killed.*"):
                path.unlink()
        print(f"{killed} kills, {finals} runs came to their end, {equal} equal bit for bit")


if __name__ == "__main__":
    main()
