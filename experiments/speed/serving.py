"""Load on `streamgp serve`: answers per second and latency of readers while a writer teaches; all checked.

    python -m experiments.speed.serving [--seconds S] [--readers N] [--pause MS] [--rank R] [--durable]

Server and clients share the machine. Readers ask for one row at a time over connections that stay open, and wait
`--pause` between two questions; the writer sends 10 rows of the simulated arm (21 inputs) and waits as long. Afterwards
a regressor learns the same batches, and each answer is compared, bit by bit, with that of the model which gave it.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import click
import numpy as np

from experiments.common import command, machine
from experiments.serve_process import Client, ServeProcess
from experiments.speed.latency import row
from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm

FIRST, BATCH = 2000, 10


def read(port: int, X: np.ndarray, seed: int, pause: float, until: float, found: list[tuple]) -> None:
    """Ask for rows until a time, and note row, latency, rows learned and what was answered."""
    rng, client = np.random.default_rng(seed), Client(port)
    while time.perf_counter() < until:
        i = int(rng.integers(len(X)))
        began = time.perf_counter()
        status, answer = client.post("/predict", {"row": X[i].tolist()})
        found.append((i, 1e3 * (time.perf_counter() - began), status, answer))
        time.sleep(pause)


def wrong_answers(
    rank: int, X: np.ndarray, y: np.ndarray, asked: np.ndarray, batches: list[slice], found: list[tuple]
) -> int:
    """Return how many answers differ from those of a regressor that has learned as many rows."""
    by_rows: dict[int, list[tuple]] = {}
    for item in found:
        by_rows.setdefault(item[3]["rows_learned"], []).append(item)
    gp, wrong = StreamingGPRegressor(rank=rank, random_state=0), 0
    for rows in batches:
        gp.partial_fit(X[rows], y[rows])
        for i, _, _, answer in by_rows.pop(gp.n_samples_seen_, []):
            said = answer["predictions"][0]["y"]
            mean, std, low, high = gp.predict(asked[i : i + 1], return_std=True, return_interval=0.9)
            same = [
                said[name] == float(v[0])
                for name, v in zip(("mean", "std", "low", "high"), (mean, std, low, high), strict=True)
            ]
            wrong += not all(same)
    return wrong + sum(len(items) for items in by_rows.values())


@command(__doc__)
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--readers", default=8, show_default=True)
@click.option("--pause", default=0.0, show_default=True, help="Milliseconds between two questions.")
@click.option("--rank", default=300, show_default=True)
@click.option("--durable", is_flag=True)
def main(seconds: float, readers: int, pause: float, rank: int, durable: bool) -> None:
    """Print answers per second, percentiles of latency, and the number of wrong answers."""
    arm = load_arm(20_000)
    X, y, asked = arm.X[:15_000], arm.y[:15_000, 0], arm.X[15_000:]
    options = [
        "--new",
        "--target",
        "y",
        "--rank",
        str(rank),
        "--max-wait",
        "0",
        "--guard",
        "none",
        "--max-rows",
        "5000",
    ]
    with tempfile.TemporaryDirectory() as folder:
        server = ServeProcess(
            Path(folder) / "m.gp", *options, *["--durable"] * durable, "--max-body", "10000000"
        )
        writer, batches, taught = Client(server.port), [slice(0, FIRST)], []
        status, answer = writer.post("/learn", {"rows": X[:FIRST].tolist(), "targets": y[:FIRST].tolist()})
        assert status == 200, answer
        until = time.perf_counter() + seconds
        found: list[list[tuple]] = [[] for _ in range(readers)]
        threads = [
            threading.Thread(target=read, args=(server.port, asked, k, pause / 1e3, until, found[k]))
            for k in range(readers)
        ]
        for thread in threads:
            thread.start()
        while time.perf_counter() < until and batches[-1].stop < len(X):
            rows = slice(batches[-1].stop, batches[-1].stop + BATCH)
            began = time.perf_counter()
            status, answer = writer.post("/learn", {"rows": X[rows].tolist(), "targets": y[rows].tolist()})
            taught.append(1e3 * (time.perf_counter() - began))
            assert status == 200, answer
            batches.append(rows)
            time.sleep(pause / 1e3)
        for thread in threads:
            thread.join()
        memory = server.resident()
        server.stop()
    answers = [item for part in found for item in part]
    print(machine())
    print(
        f"{seconds:g} s, {readers} readers, pause {pause:g} ms, rank {rank}, durable: {durable}, {memory:.0f} MB"
    )
    print(
        f"{len(answers) / seconds:.0f} answers and {BATCH * len(taught) / seconds:.0f} rows learned a second"
    )
    print(f"{'milliseconds':18s} {'median':>9s} {'99 %':>9s} {'99.9 %':>9s} {'worst':>9s}")
    print(row("predict one row", np.array([item[1] for item in answers])))
    print(row(f"learn {BATCH} rows", np.array(taught)))
    failed = sum(item[2] != 200 for item in answers)
    wrong = wrong_answers(
        rank, X[: batches[-1].stop], y, asked, batches, [item for item in answers if item[2] == 200]
    )
    print(
        f"{failed} answers failed, {wrong} were wrong, {np.unique([a[3]['rows_learned'] for a in answers]).size} models"
    )


if __name__ == "__main__":
    main()
