"""Laws of the server as a process: killed it loses nothing, stopped it answers first, slow clients harm nobody."""

import json
import random
import socket
import threading
import time

import numpy as np
import pytest

from app.serve.serving import Process, regressor, state_of, stream
from streamgp.app.cli.serve import _service
from streamgp.app.serve import gate, server, writer
from streamgp.app.serve.service import RULES

OPTIONS = ("--new", "--target", "y", "--features", "a,b", "--rank", "20", "--max-wait", "0")


def learned(path):
    """The model that a restart would have, and how many records it comes from."""
    none = dict.fromkeys(("targets", "features", "time", "categorical", "lags", "lags_of"), ())
    options = {**none, "new": True, "level": 0.9, "max_ids": 20_000, "alarm": RULES}
    service = _service(path, options)
    writer.start(service, path, writer.Pace(), durable=True)
    return service


def send_until_answered(process, content):
    """Send rows again until the server says that it has them, as a client does; return what it said."""
    while True:
        try:
            status, answer = process.ask("/learn", content)
        except OSError:
            time.sleep(0.02)
            continue
        assert status == 200, answer
        return answer


def test_a_server_that_is_killed_loses_no_row_and_learns_none_twice(tmp_path):
    """Killed twice while rows come and others ask; checkpoints after every 80 rows."""
    X, y = stream(360)
    process = Process(tmp_path / "m.gp", *OPTIONS, "--durable", "--every", "80")
    chance, done = random.Random(3), threading.Event()

    def read():
        while not done.is_set():
            try:
                process.ask("/predict", {"rows": X[:3].tolist()})
            except OSError:
                time.sleep(0.02)

    reader = threading.Thread(target=read)
    reader.start()
    kills = sorted(chance.sample(range(4, 34), 2))
    for k in range(36):
        rows = slice(10 * k, 10 * k + 10)
        content = {
            "rows": X[rows].tolist(),
            "targets": y[rows].tolist(),
            "ids": [f"i{i}" for i in range(360)[rows]],
        }
        if k in kills:
            sent = threading.Thread(target=send_until_answered, args=(process, content))
            sent.start()
            time.sleep(chance.uniform(0, 0.02))
            process.kill()
            process.start()
            sent.join()
        answer = send_until_answered(process, content)
        assert answer["rows_learned"] == 10 * k + 10
    done.set()
    reader.join()
    process.kill()
    ours = regressor()
    for k in range(36):
        ours.partial_fit(X[10 * k : 10 * k + 10], y[10 * k : 10 * k + 10, 0])
    assert state_of(learned(tmp_path / "m.gp").gp) == state_of(ours)


def test_a_server_that_is_stopped_answers_first_and_writes_a_checkpoint(tmp_path):
    X, y = stream(40)
    process = Process(tmp_path / "m.gp", *OPTIONS)
    send_until_answered(process, {"rows": X.tolist(), "targets": y.tolist()})
    process.ask("/predict", {"row": [1, 2], "id": "late"})
    assert process.stop() == 0
    again = Process(tmp_path / "m.gp")
    assert again.ask("/model")[1]["rows_learned"] == 40
    assert again.ask("/learn", {"id": "late", "target": 1})[1]["rows_learned"] == 41
    assert again.stop() == 0


@pytest.fixture
def impatient(tmp_path, monkeypatch):
    """A server in this process whose patience ends after 0.3 s, and the address of it."""
    from app.serve.serving import serving

    monkeypatch.setattr(gate, "PATIENCE", 0.3)
    with serving(tmp_path / "m", hosts=None) as s:
        s.learn(*stream(30))
        listening = server.bound("127.0.0.1", 0)
        beside = server.BesideServer(s.client.app, listening)
        beside.start()
        yield s, listening.getsockname()
        beside.stop()


def answered(address):
    body = json.dumps({"row": [1, 2]}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(head.encode() + body)
        return client.recv(12) == b"HTTP/1.1 200"


def ended(client):
    """Whether the server has ended a connection."""
    client.settimeout(10)
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


HALF = [
    b"", b"GET", b"POST /learn HTTP/1.1\r\nHost: x\r\n",
    b"POST /learn HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    b"POST /learn HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /he",
]  # fmt: skip


@pytest.mark.parametrize("begun", HALF, ids=range(len(HALF)))
def test_connections_that_are_half_open_are_ended_and_others_are_answered_meanwhile(impatient, begun):
    service, address = impatient
    clients = [socket.create_connection(address) for _ in range(20)]
    for client in clients:
        client.sendall(begun)
    assert answered(address)
    assert all(ended(client) for client in clients)
    assert answered(address)
    assert service.client.get("/healthz").status_code == 200


def test_a_page_that_takes_nothing_of_its_events_is_ended(impatient):
    service, address = impatient
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(address)
        client.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        client.recv(10)
        X, y = stream(600)
        # More events than the buffers of the system hold.
        for i in range(0, 600, 60):
            service.learn(X[i : i + 60], y[i : i + 60])
            service.service.feed.alarm("test", "x" * 100_000)
            time.sleep(0.3)
        assert answered(address)
        assert ended(client)


def test_a_reader_of_events_gets_each_row_once(impatient):
    service, address = impatient
    X, y = stream(80)
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(b"GET /events?after=10 HTTP/1.1\r\nHost: x\r\n\r\n")
        file, seen = client.makefile("rb"), []
        for i in range(0, 80, 20):
            service.learn(X[i : i + 20], y[i : i + 20])
            while len(seen) < 20 + i + 20:
                line = file.readline()
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    seen += [p[0] for p in event["points"]]
        assert seen == list(range(11, 111))
        assert event["model"]["rows_learned"] == 110
        assert np.isfinite(event["points"][-1][3][0])
