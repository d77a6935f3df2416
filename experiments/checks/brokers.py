"""`streamgp run` on MQTT and Redis with kill −9 of the run and of the broker, against runs without any kill.

    python -m experiments.checks.brokers [--kills 20] [--rows 1500]

Rows are sent as fast as they are learned, with at most 10 on the way. When randomly chosen rows are answered, the run
or the broker is killed and started again. A sender that loses its connection sends again what was not answered; rows
have an id. Prints, for each broker: the kills, the rows sent, learned, lost and learned twice, the answers that are
missing or differ, and whether the final model equals that of the run without kills bit for bit.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from experiments.checks.broker_servers import Mosquitto, Redis, Server
from experiments.common import command
from experiments.internals import checkpoint_content
from streamgp.app.cli import main as streamgp

WINDOW = 10
# Seconds without an answer after which a sender sends again.
PATIENCE = 1.0


@dataclass
class Outcome:
    """What is left of a run: the model, counts, and the answer to each row."""

    model: Any
    rows: int
    answers: dict[int, str]
    kills: dict[str, int]
    sent: int
    repeated: int
    differing: int


@dataclass
class Answers:
    """Predictions by id; one that comes again must be the same."""

    first: dict[int, str] = field(default_factory=dict)
    repeated: int = 0
    differing: int = 0

    def add(self, row: dict[str, Any]) -> None:
        """Add a prediction."""
        identity = int(row["id"])
        text = json.dumps([row[name] for name in ("line", "y_mean", "y_std", "y_low", "y_high")])
        self.repeated += identity in self.first
        self.differing += self.first.setdefault(identity, text) != text

    @property
    def next(self) -> int:
        """The row after the last one that was answered."""
        return max(self.first, default=-1) + 1


class MqttSender:
    """Rows to a topic and answers from another one, over connections that are new after each failure."""

    def __init__(self, server: Server, rows: list[dict[str, float]], answers: Answers) -> None:
        self.port, self.rows, self.answers = server.port, rows, answers
        self.sent, self._next, self._client = 0, 0, None
        self._heard = time.monotonic()
        self._reach = WINDOW

    def step(self) -> None:
        """Send what may be sent now."""
        if self._client is None or time.monotonic() - self._heard > PATIENCE:
            self._begin_again()
        end = min(self.answers.next + self._reach, len(self.rows))
        while self._client is not None and self._next < end:
            self._client.publish("rows", json.dumps(self.rows[self._next]), qos=1)
            self._next, self.sent = self._next + 1, self.sent + 1
        time.sleep(0.002)

    def _begin_again(self) -> None:
        """Send again from the first row without an answer, and one row more: the answers may be lost, not the rows."""
        import paho.mqtt.client as paho

        self.close()
        client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id="sender",
            clean_session=False,
            reconnect_on_failure=False,
        )
        client.on_message = self._arrived
        try:
            client.connect("127.0.0.1", self.port)
        except OSError:
            time.sleep(0.05)
            return
        client.subscribe("answers", 1)
        client.loop_start()
        self._reach += self._next >= self.answers.next + self._reach
        self._client, self._next, self._heard = client, self.answers.next, time.monotonic()

    def _arrived(self, client: Any, data: Any, message: Any) -> None:
        before = self.answers.next
        self.answers.add(json.loads(message.payload))
        if self.answers.next > before:
            self._heard, self._reach = time.monotonic(), WINDOW

    def lost(self) -> None:
        """Note that the broker was killed."""
        self.close()

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None


class RedisSender:
    """Rows to a stream, each until Redis has confirmed it, and answers from another one."""

    def __init__(self, server: Server, rows: list[dict[str, float]], answers: Answers) -> None:
        import redis

        self.redis, self.errors = redis.Redis(port=server.port, socket_timeout=5), redis.RedisError
        self.rows, self.answers = rows, answers
        self.sent, self._next, self._read_to = 0, 0, b"0"

    def step(self) -> None:
        """Send what may be sent now, and read answers."""
        try:
            while self._next < min(self.answers.next + WINDOW, len(self.rows)):
                self.sent += 1
                self.redis.xadd("rows", self.rows[self._next])
                self._next += 1
            found = self.redis.xread({"answers": self._read_to}, block=5)
        except (self.errors, OSError):
            time.sleep(0.01)
            return
        for mark, fields in found[0][1] if found else ():
            self._read_to = mark
            self.answers.add({name.decode(): value.decode() for name, value in fields.items()})

    def lost(self) -> None:
        """Note that the server was killed."""

    def close(self) -> None:
        """Disconnect."""
        self.redis.close()


BROKERS = {"mqtt": (Mosquitto, MqttSender), "redis": (Redis, RedisSender)}


def rows_of(n: int) -> list[dict[str, float]]:
    """Return rows with an id, three inputs and a label."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n, 3))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)
    return [
        {"id": i, "a": float(x[0]), "b": float(x[1]), "c": float(x[2]), "y": float(t)}
        for i, (x, t) in enumerate(zip(X, y, strict=True))
    ]


def start_run(server: Server, folder: Path) -> Any:
    """Start `streamgp run` in a process that has streamgp imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["streamgp.app.cli", "paho.mqtt.client", "redis"])
    address = f"{server.scheme}://127.0.0.1:{server.port}"  # type: ignore[attr-defined]
    arguments = [
        "run", f"{address}/rows", "--target", "y", "--id", "id", "--batch", "1", "--rank", "60", "--every", "150",
        "--checkpoint", str(folder / "run.gp"), "--resume", "--quiet", "--output", f"{address}/answers",
    ]  # fmt: skip
    process = context.Process(target=_run, args=(arguments, folder / "run.txt"))
    process.start()
    return process


def _run(arguments: list[str], log: Path) -> None:
    """Run the command with its messages in a file."""
    import os

    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 2)
    streamgp(arguments)


def trial(broker: str, folder: Path, n: int, kills: int, seed: int = 0) -> Outcome:
    """Return the outcome of a run with so many kills of the run and as many of the broker."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    where = np.sort(rng.choice(np.arange(n // 20, n - n // 20), 2 * kills, replace=False))
    whom = rng.permutation(["run", "broker"] * kills)
    due = list(zip(where, whom, strict=True))
    kind, sender_of = BROKERS[broker]
    server = kind(folder / "server")
    answers = Answers()
    sender = sender_of(server, rows_of(n), answers)
    process = start_run(server, folder)
    killed = {"run": 0, "broker": 0}
    try:
        ended = False
        while not ended:
            for _ in until_silent(answers, n):
                sender.step()
                if due and answers.next > due[0][0]:
                    name = due.pop(0)[1]
                    killed[name] += 1
                    if name == "run":
                        process.kill()
                        process.join()
                        process = start_run(server, folder)
                    else:
                        server.kill()
                        sender.lost()
                        time.sleep(rng.uniform(0, 0.3))
                        server.start()
                if process.exitcode is not None:
                    # A broker that is away when the run starts is an error, as the documentation says.
                    process = start_run(server, folder)
            process.terminate()
            process.join()
            model = checkpoint_content(folder / "run.gp")
            rows = int(model["more"]["run"]["tally"]["learned"])
            ended = rows >= n
            process = process if ended else start_run(server, folder)
    finally:
        process.kill()
        sender.close()
        server.close()
    parts = (model["learner"], model["answered"], model["more"]["run"]["tally"])
    return Outcome(parts, rows, answers.first, killed, sender.sent, answers.repeated, answers.differing)


def until_silent(answers: Answers, n: int) -> Iterator[None]:
    """Yield until all rows are answered, or nothing has been for 5 seconds although the last row was sent."""
    count, last = len(answers.first), time.monotonic()
    while len(answers.first) < n and not (answers.next == n and time.monotonic() - last > 5):
        if time.monotonic() - last > 60:
            raise RuntimeError(f"no answer for a minute, after {len(answers.first)} of {n}")
        if len(answers.first) > count:
            count, last = len(answers.first), time.monotonic()
        yield


def compare(outcome: Outcome, clean: Outcome, n: int) -> dict[str, Any]:
    """Return the figures of a run with kills beside one without."""
    both = outcome.answers.keys() & clean.answers.keys()
    return {
        "kills": outcome.kills,
        "sent": outcome.sent,
        "learned": outcome.rows,
        "lost": max(0, n - outcome.rows),
        "learned twice": max(0, outcome.rows - n),
        "answers that were never read": n - len(outcome.answers),
        "answers that came again": outcome.repeated,
        "answers that differ": outcome.differing + sum(outcome.answers[i] != clean.answers[i] for i in both),
        "the same model": outcome.model == clean.model,
    }


@command(__doc__)
@click.option("--kills", default=20, show_default=True, help="Of the run, and as many of the broker.")
@click.option("--rows", default=1500, show_default=True)
@click.option("--broker", type=click.Choice(tuple(BROKERS)), multiple=True, default=tuple(BROKERS))
@click.option("--seed", default=0, show_default=True)
def main(kills: int, rows: int, broker: tuple[str, ...], seed: int) -> None:
    """Run each broker once without and once with kills."""
    for name in broker:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            clean = trial(name, Path(folder, "clean"), rows, 0)
            seconds = time.monotonic() - began
            outcome = trial(name, Path(folder, "killed"), rows, kills, seed)
            print(f"{name}: {rows:,} rows, without kills in {seconds:.0f} s")
            for what, figure in compare(outcome, clean, rows).items():
                print(f"  {what}: {figure}", flush=True)


if __name__ == "__main__":
    main()
