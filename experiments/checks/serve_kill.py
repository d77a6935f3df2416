"""`streamgp serve --durable` killed with kill -9 at random moments under load, against a run that was not interrupted.

    python -m experiments.checks.serve_kill [KILLS]

One client teaches rows with ids, and sends a request again until it is answered; three others predict. The server is
killed 20 times unless another number is given, and started again. At the end the model is compared, bit by bit, with
one that learned the same batches without a service.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from pathlib import Path

import click
import numpy as np

from experiments.common import command
from experiments.internals import checkpoint_content
from experiments.serve_process import Client, ServeProcess
from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm

RANK, BATCH, FIRST = 60, 10, 300


class Load:
    """One client that teaches and three that ask; counts what was answered and sent again."""

    def __init__(self, server: ServeProcess, X: np.ndarray, y: np.ndarray) -> None:
        self.server, self.X, self.y = server, X, y
        self.done, self.answered, self.again, self.duplicates, self.read = False, 0, 0, 0, 0

    def teach(self) -> None:
        """Send batches one after another, each until it is answered."""
        client, start = Client(self.server.port), 0
        while not self.done or not self.answered:
            stop = start + (BATCH if start else FIRST)
            content = {
                "rows": self.X[start:stop].tolist(), "targets": self.y[start:stop].tolist(),
                "ids": [f"row {i}" for i in range(start, stop)],
            }  # fmt: skip
            while True:
                try:
                    status, answer = client.post("/learn", content)
                    break
                except OSError:
                    self.again += 1
                    time.sleep(0.05)
            assert status == 200, answer
            assert answer["rows_learned"] == stop, (answer, stop)
            self.duplicates += answer["duplicates"]
            self.answered = start = stop

    def ask(self) -> None:
        """Predict until the end."""
        client = Client(self.server.port)
        while not self.done:
            try:
                self.read += client.post("/predict", {"rows": self.X[:3].tolist()})[0] == 200
            except OSError:
                time.sleep(0.05)


@command(__doc__)
@click.argument("kills", default=20)
def main(kills: int) -> None:
    """Print how many rows were answered, sent again and found learned, and whether the model is the same."""
    arm, chance = load_arm(60_000), random.Random(0)
    X, y = arm.X, arm.y[:, 0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gp"
        options = [
            "--new",
            "--target",
            "y",
            "--rank",
            str(RANK),
            "--guard",
            "none",
            "--max-wait",
            "0",
            "--every",
            "400",
        ]
        server = ServeProcess(path, *options, "--durable")
        load_ = Load(server, X, y)
        threads = [
            threading.Thread(target=work, daemon=True)
            for work in (load_.teach, load_.ask, load_.ask, load_.ask)
        ]
        for thread in threads:
            thread.start()
        while not load_.answered:
            time.sleep(0.05)
        for _ in range(kills):
            time.sleep(chance.uniform(0.3, 2.0))
            server.kill()
            server.start()
        time.sleep(1)
        load_.done = True
        for thread in threads:
            thread.join()
        server.kill()
        server.start()
        server.stop()
        served = checkpoint_content(path)["learner"]
        ours = StreamingGPRegressor(rank=RANK, guard=None, random_state=0)
        for start, stop in zip(
            [0, *range(FIRST, load_.answered, BATCH)], range(FIRST, load_.answered + 1, BATCH), strict=True
        ):
            ours.partial_fit(X[start:stop], y[start:stop])
        ours.save(path)
        same = checkpoint_content(path)["learner"] == served
    lost = load_.answered - int(served["rows_seen"])
    print(f"{kills} kills, {load_.answered} rows answered, {load_.read} predictions")
    print(
        f"{load_.again} requests sent again; {load_.duplicates} rows of them were known, and not learned again"
    )
    print(f"{max(lost, 0)} rows lost, {max(-lost, 0)} learned twice; model as without a service: {same}")


if __name__ == "__main__":
    main()
