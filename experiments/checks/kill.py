"""`streamgp run` killed with kill −9 at random moments and resumed, against the run that was not.

    python -m experiments.checks.kill [rounds]

Each round kills once; when the input has ended, the run starts over. Prints how many rounds ended with a final model
and predictions equal bit for bit.
"""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from app.test_run import state
from streamgp.datasets import load_arm

ROWS, SECONDS = 20_000, (1.2, 5.0)


def command(source: Path, folder: Path, name: str) -> list[str]:
    return [
        sys.executable, "-m", "streamgp", "run", str(source), "--target", "torque_1,torque_2", "--rank", "100",
        "--batch", "50",
        "--every", "500", "--resume", "--quiet", "--output", str(folder / f"{name}.csv"),
        "--checkpoint", str(folder / f"{name}.gp"),
    ]  # fmt: skip


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arm = load_arm(ROWS)
        source = folder / "arm.csv"
        header = ",".join([*arm.feature_names, *arm.target_names[:2]])
        np.savetxt(source, np.hstack([arm.X, arm.y[:, :2]]), "%.17g", ",", header=header, comments="")
        began = time.perf_counter()
        subprocess.run(command(source, folder, "whole"), check=True)
        print(f"uninterrupted: {time.perf_counter() - began:.1f} s, {ROWS:,} rows, a checkpoint every 500")
        expected, text = state(folder / "whole.gp"), (folder / "whole.csv").read_bytes()
        kills = finals = equal = 0
        while kills < rounds or (folder / "killed.csv").exists():
            child = subprocess.Popen(command(source, folder, "killed"))
            try:
                child.wait(timeout=rng.uniform(*SECONDS) if kills < rounds else None)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                child.wait()
                kills += 1
                continue
            finals += 1
            same = state(folder / "killed.gp") == expected and (folder / "killed.csv").read_bytes() == text
            equal += child.returncode == 0 and same
            print(
                f"after {kills} kills: final model and predictions {'equal' if same else 'DIFFER'}",
                flush=True,
            )
            for path in folder.glob("killed.*"):
                path.unlink()
        print(f"{kills} kills, {finals} runs brought to their end, {equal} equal bit for bit")


if __name__ == "__main__":
    main()
