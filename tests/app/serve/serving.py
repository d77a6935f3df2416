"""What the tests of the service share: a service in this process, and one in a process of its own."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from starlette.testclient import TestClient

from streamgp import StreamingGPRegressor, checkpoint
from streamgp.app.serve import web, writer
from streamgp.app.serve.metrics import Metrics
from streamgp.app.serve.rows import Columns
from streamgp.app.serve.service import Service
from streamgp.app.serve.watch import Watch
from streamgp.loading import load_with_more


def stream(n=300, q=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.stack([np.sin(2 * X[:, 0]) + j * X[:, 1] for j in range(q)], axis=1)
    return X, y + 0.1 * rng.standard_normal((n, q))


def regressor(**given):
    return StreamingGPRegressor(**{"rank": 20, "random_state": 0, **given})


@dataclass
class Serving:
    client: TestClient
    service: Service
    writer: writer.Writer

    def post(self, path, content, **more):
        return self.client.post(path, json=content, **more)

    def learn(self, X, y, **more):
        done = self.post("/learn", {"rows": X.tolist(), "targets": y.tolist(), **more})
        assert done.status_code == 200, done.text
        return done.json()

    def predict(self, X, **more):
        """Mean, standard deviation, lower and upper end, (4, m, q)."""
        done = self.post("/predict", {"rows": X.tolist(), **more})
        assert done.status_code == 200, done.text
        each = [
            [list(p[t].values()) for t in self.service.columns.targets] for p in done.json()["predictions"]
        ]
        return np.array(each).transpose(2, 0, 1)


@contextmanager
def serving(
    path, gp=None, targets=("y",), features=("a", "b"), durable=False, pace=None, limits=None, ids=100,
    hosts=("localhost",), token=None, stop=True, service=None,
):  # fmt: skip
    """A service over a client in this process; with stop=False it ends like a process that was killed."""
    if service is not None:
        pass
    elif path.exists():
        gp, more = load_with_more(path)
        service = Service.new(gp, Columns(more["features"], more["targets"]), 0.9, ids)
        service.restore(more["service"])
    else:
        service = Service.new(gp or regressor(), Columns(tuple(features), tuple(targets)), 0.9, ids)
    learning = writer.start(service, path, pace or writer.Pace(0.0), durable=durable)
    watch = Watch(
        service, Metrics(service, lambda: learning.saved_at), "m", lambda: learning.failure, learning.told
    )
    app = web.application(service, learning, watch, limits or web.Limits(), hosts=hosts, token=token)
    learning.start()
    try:
        with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
            yield Serving(client, service, learning)
    finally:
        if not stop:
            # A process that is killed writes no more: what its thread would still save is left out.
            learning._save = lambda: None
        learning.stop()


def state_of(gp):
    """All that was learned, as text; what tuning took is a time, which is never the same."""

    def plain(value):
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k not in ("seconds", "tuning_seconds")}
        return [plain(v) for v in value] if isinstance(value, list) else value

    blobs = []
    return json.dumps(plain(checkpoint._pack(gp.learner_, blobs))), b"".join(blobs)


class Process:
    """``streamgp serve`` in a process of its own."""

    def __init__(self, path, *options, port=0):
        self.path, self.options, self.port = path, options, port
        self.start()

    def start(self):
        command = [
            sys.executable,
            "-m",
            "streamgp",
            "serve",
            str(self.path),
            "--port",
            str(self.port),
            *self.options,
        ]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        said = self.process.stderr.readline()
        assert "http://" in said, said + self.process.stderr.read()
        self.address = said.partition(" at ")[2].partition(";")[0]
        self.port = int(self.address.rpartition(":")[2])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()

    def stop(self):
        self.process.terminate()
        code = self.process.wait(30)
        self.process.stderr.close()
        return code

    def ask(self, path, content=None, timeout=30.0):
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.address + path, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except http.client.HTTPException as error:
            raise OSError("the server ended within its answer") from error


def eventually(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
