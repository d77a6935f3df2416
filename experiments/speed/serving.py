"""Load on `streamgp serve`: answers per second and latency of readers while a writer teaches; all checked.

    python -m experiments.speed.serving [--seconds S] [--readers N] [--pause MS] [--rank R] [--durable] [--json FILE]

Without options: 60 seconds, eight readers and one writer, rank 300. Server and clients share the machine. Readers ask
for one row at a time over connections that stay open, and wait `--pause` between two questions; the writer sends 10
rows of the simulated arm (21 inputs) and waits as long. Afterwards a regressor learns the same batches, and each answer
is compared, bit by bit, with that of the model which gave it; that takes about as long again.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from experiments.common import Contention, command, machine
from experiments.serve_process import Client, ServeProcess
from experiments.speed.latency import PERCENTILES, row
from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm

FIRST, BATCH, ASKED = 2000, 10, 5000
# Batches a second that the writer could send at most; rows for so many are made beforehand.
FASTEST = 250


class Answered(NamedTuple):
    """An answer to a reader: row that was asked for, milliseconds, status, content."""

    row: int
    latency: float
    status: int
    content: Any


class Outcome(NamedTuple):
    """What a load gave: answers, milliseconds of each batch that was taught, memory in MB, others' use of a core."""

    answers: list[Answered]
    taught: list[float]
    memory: float
    others: float


def read(port: int, X: np.ndarray, seed: int, pause: float, until: float, found: list[Answered]) -> None:
    """Ask for rows until a time, and note the answers."""
    rng, client = np.random.default_rng(seed), Client(port)
    while time.perf_counter() < until:
        i = int(rng.integers(len(X)))
        began = time.perf_counter()
        status, answer = client.post("/predict", {"row": X[i].tolist()})
        found.append(Answered(i, 1e3 * (time.perf_counter() - began), status, answer))
        time.sleep(pause)


def teach(client: Client, X: np.ndarray, y: np.ndarray) -> float:
    """Send rows with their targets, and return the milliseconds until they were learned."""
    began = time.perf_counter()
    status, answer = client.post("/learn", {"rows": X.tolist(), "targets": y.tolist()})
    if status != 200:
        raise RuntimeError(answer)
    return 1e3 * (time.perf_counter() - began)


def batches(n: int) -> Iterator[slice]:
    """Yield the rows of the first batch and of n others."""
    yield slice(0, FIRST)
    for i in range(n):
        yield slice(FIRST + i * BATCH, FIRST + (i + 1) * BATCH)


def loaded(
    server: ServeProcess, seconds: float, readers: int, pause: float, X: np.ndarray, y: np.ndarray, asked: np.ndarray
) -> Outcome:  # fmt: skip
    """Teach and ask for so many seconds; return what was answered."""
    writer, found = Client(server.port), [[] for _ in range(readers)]
    teach(writer, X[:FIRST], y[:FIRST])
    taught: list[float] = []
    with Contention() as contention:
        until = time.perf_counter() + seconds
        threads = [
            threading.Thread(target=read, args=(server.port, asked, k, pause, until, found[k]))
            for k in range(readers)
        ]
        for thread in threads:
            thread.start()
        for rows in list(batches((len(X) - FIRST) // BATCH))[1:]:
            taught.append(teach(writer, X[rows], y[rows]))
            time.sleep(pause)
            if time.perf_counter() >= until:
                break
        for thread in threads:
            thread.join()
        memory = server.resident()
        server.stop()  # within: its time is not that of others
    return Outcome([item for part in found for item in part], taught, memory, contention.others)


def wrong_answers(
    rank: int, X: np.ndarray, y: np.ndarray, asked: np.ndarray, n: int, answers: list[Answered]
) -> int:
    """Return how many answers differ from those of a regressor that has learned as many rows, n batches in all."""
    by_rows: dict[int, list[Answered]] = {}
    for item in answers:
        by_rows.setdefault(item.content["rows_learned"], []).append(item)
    gp, wrong = StreamingGPRegressor(rank=rank, random_state=0, guard=None), 0
    for rows in batches(n):
        gp.partial_fit(X[rows], y[rows])
        for item in by_rows.pop(gp.n_samples_seen_, []):
            said = item.content["predictions"][0]["y"]
            ours = gp.predict(asked[item.row : item.row + 1], return_std=True, return_interval=0.9)
            wrong += [said[name] for name in ("mean", "std", "low", "high")] != [float(v[0]) for v in ours]
    return wrong + sum(len(items) for items in by_rows.values())


def percentiles(values: list[float]) -> dict[str, float]:
    """Return percentiles of latencies by name, in milliseconds."""
    return {name: round(float(np.percentile(values, p)), 3) for name, p in PERCENTILES.items()}


@command(__doc__)
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--readers", default=8, show_default=True)
@click.option("--pause", default=0.0, show_default=True, help="Milliseconds between two questions.")
@click.option("--rank", default=300, show_default=True)
@click.option("--durable", is_flag=True)
@click.option("--json", "path", type=click.Path(dir_okay=False, path_type=Path), help="File for the figures.")
def main(seconds: float, readers: int, pause: float, rank: int, durable: bool, path: Path | None) -> None:
    """Print answers per second, percentiles of latency, and the number of wrong answers."""
    n = int(FASTEST * seconds) + 1
    arm = load_arm(FIRST + n * BATCH + ASKED)
    X, y, asked = arm.X[:-ASKED], arm.y[:-ASKED, 0], arm.X[-ASKED:]
    options = ["--new", "--target", "y", "--rank", str(rank), "--max-wait", "0", "--guard", "none"]
    options += ["--max-rows", "5000", "--max-body", "10000000", *["--durable"] * durable]
    with tempfile.TemporaryDirectory() as folder:
        server = ServeProcess(Path(folder) / "m.gp", *options)
        try:
            outcome = loaded(server, seconds, readers, pause / 1e3, X, y, asked)
        finally:
            server.kill()
    answers, taught = outcome.answers, outcome.taught
    good = [item for item in answers if item.status == 200]
    told = {
        "machine": machine(), "seconds": seconds, "readers": readers, "pause_ms": pause, "rank": rank,
        "durable": durable, "memory_mb": round(outcome.memory), "others": round(outcome.others, 2),
        "answers_a_second": round(len(answers) / seconds, 1),
        "rows_learned_a_second": round(BATCH * len(taught) / seconds, 1),
        "predict_one_row_ms": percentiles([item.latency for item in answers]),
        f"learn_{BATCH}_rows_ms": percentiles(taught),
        "failed": len(answers) - len(good),
        "wrong": wrong_answers(rank, X, y, asked, len(taught), good),
        "models": len({item.content["rows_learned"] for item in good}),
    }  # fmt: skip
    if path is not None:
        path.write_text(json.dumps(told, indent=2) + "\n")
    print(told["machine"])
    print(
        f"{seconds:g} s, {readers} readers, pause {pause:g} ms, rank {rank}, durable: {durable}, "
        f"{told['memory_mb']} MB; others: {told['others']:.2f}"
    )
    print(f"{told['answers_a_second']} answers and {told['rows_learned_a_second']} rows learned a second")
    print(f"{'milliseconds':18s} " + " ".join(f"{name:>9s}" for name in PERCENTILES))
    print(row("predict one row", np.array([item.latency for item in answers])))
    print(row(f"learn {BATCH} rows", np.array(taught)))
    print(f"{told['failed']} answers failed, {told['wrong']} were wrong, {told['models']} models")


if __name__ == "__main__":
    main()
