"""Malformed requests for `streamgp serve`: none may be answered by 5xx, change anything, or make memory grow.

    python -m experiments.checks.serve_fuzz [REQUESTS] [--seed SEED]

Sends 10,000 requests unless another number is given: spoilt bytes, wrong JSON, wrong rows, wrong heads, no HTTP at all.
"""

from __future__ import annotations

import json
import random
import socket
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np

from experiments.common import command
from experiments.serve_process import Client, ServeProcess

_ODD: list[Any] = [
    None, True, "1", "", [], {}, [1], {"a": 1}, 10**400, "NaN", "\u0000", "x" * 5000, [[[[[]]]]],
    -0.0, [None], "\ud800",
]  # fmt: skip


def malformed(chance: random.Random) -> bytes:
    """Return a request that no service may learn from: of a model of columns a, b and the target y."""
    kind = chance.choice(("bytes", "json", "rows", "head", "garbage", "cut", "tensor"))
    if kind == "garbage":
        return chance.randbytes(chance.randint(1, 2000)) + b"\r\n\r\n"
    body = json.dumps(_wrong_learn(chance) if kind == "rows" else _tensor(chance)).encode()
    path = "/learn" if kind == "rows" else "/v2/models/m/infer"
    if kind in ("bytes", "head", "cut"):
        path, body = "/predict", json.dumps({"rows": [[1.5, 2.5]] * chance.randint(1, 5)}).encode()
    if kind == "json":
        path, body = chance.choice(("/learn", "/predict")), _wrong_json(chance)
    if kind == "bytes":
        spoilt = bytearray(body)
        for _ in range(chance.randint(1, 8)):
            spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
        body = bytes(spoilt)
    if kind == "cut":
        return _request(path, body)[: chance.randint(1, 120)]
    return _wrong_head(chance, path, body) if kind == "head" else _request(path, body)


def _request(path: str, body: bytes, method: str = "POST", length: object = None, more: str = "") -> bytes:
    length = len(body) if length is None else length
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {length}\r\n{more}\r\n".encode("utf-8", "surrogateescape") + body


def _wrong_learn(chance: random.Random) -> dict[str, Any]:
    """Return an object for /learn with one thing in it that is wrong."""
    n = chance.randint(1, 6)
    rows: list[Any] = [[chance.random(), chance.random()] for _ in range(n)]
    content: dict[str, Any] = {"rows": rows, "targets": [chance.random() for _ in range(n)]}
    odd, at = chance.choice([v for v in _ODD if v != -0.0]), chance.randrange(n)
    fault = chance.randrange(8)
    if fault == 0:
        rows[at][chance.randrange(2)] = (
            "null" if odd is None else odd
        )  # null itself is a value that is not known
    elif fault == 1:
        rows[at] = odd if odd != {"a": 1} else 7
    elif fault == 2:
        content["targets"][at] = odd if odd != [1] else "a"
    elif fault == 3:
        content[chance.choice(("rows", "targets"))] = odd if odd != [1] or n > 1 else 3
    elif fault == 4:
        content[str(odd)[:50] + "?"] = 1
    elif fault == 5:
        content["ids"] = [chance.choice((3, "", "a\n", [], "y" * 201, {})) for _ in range(n)]
    elif fault == 6:
        rows[at] = rows[at] + [1.0] * chance.randint(1, 4)
    else:
        content = {"ids": [f"never {chance.random()}" for _ in range(n)], "targets": [1.0] * n}
    return content


def _tensor(chance: random.Random) -> dict[str, Any]:
    one = {"name": "rows", "shape": [2, 2], "datatype": "FP64", "data": [1, 2, 3, 4]}
    one[chance.choice(list(one))] = chance.choice(_ODD)
    return {
        "inputs": chance.choice(([one], [one, one], one, [chance.choice(_ODD)])),
        "id": chance.choice(_ODD),
    }


def _wrong_json(chance: random.Random) -> bytes:
    texts = (
        b"", b"{", b"[" * 20_000, b'{"rows": ' + b"[" * 5000, b"nul", b"NaN", b'{"rows": [[NaN, 1]]}',
        b'{"rows": [[1e999, 1]]}',
        b'{"rows": [[1, 2]]}}', b'{"rows" [[1, 2]]}', b"\xff\xfe", b'{"a": "\xff"}', b"9" * 5000, b'"\\ud800"',
        b'{"rows": [[' + b"1" * 5000 + b", 2]]}",
    )  # fmt: skip
    return chance.choice(texts)


def _wrong_head(chance: random.Random, path: str, body: bytes) -> bytes:
    odd = "".join(chr(chance.randrange(33, 127)) for _ in range(chance.randint(1, 60)))
    paths = (
        "/" + odd,
        "/../../etc/passwd",
        "/%00",
        "/v2/models/" + odd,
        "/learn/",
        "//",
        "/events?after=" + odd,
    )
    choices = (
        lambda: _request(chance.choice(paths), body, chance.choice(("GET", "POST", "PUT"))),
        lambda: _request(
            "/learn", body, chance.choice(("GET", "PUT", "DELETE", "PATCH", "OPTIONS", odd, "post"))
        ),
        lambda: _request(path, body, length=chance.choice((-1, "x", 10**30, len(body) + 50, 3))),
        lambda: _request(path, body, more="Transfer-Encoding: chunked\r\n"),
        lambda: _request(path, body, more=f"X: {odd * 500}\r\n" * 3),
        lambda: _request(path, body, more="Content-Encoding: gzip\r\n" + odd + "\r\n"),
        lambda: _request(path, body).replace(b"application/json", odd.encode()),
        lambda: _request(path, body).replace(b"Host: localhost", b"Host: " + odd.encode()),
        lambda: _request(path, body).replace(b"HTTP/1.1", odd.encode()),
    )
    return chance.choice(choices)()


def answered(port: int, request: bytes) -> int:
    """Send a request and return the status of the answer, 0 if the connection ends without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        try:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            head = b""
            while len(head) < 12 and (part := client.recv(4096)):
                head += part
        except OSError:
            return 0
    return int(head[9:12]) if head.startswith(b"HTTP/1.1 ") else 0


@command(__doc__)
@click.argument("requests", default=10_000)
@click.option("--seed", default=0, show_default=True)
def main(requests: int, seed: int) -> None:
    """Print how many requests got which status, and what changed."""
    chance, found = random.Random(seed), Counter[int]()
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (200, 2))
    with tempfile.TemporaryDirectory() as folder:
        server = ServeProcess(
            Path(folder) / "m.gp", "--new", "--target", "y", "--features", "a,b", "--rank", "30"
        )
        client = Client(server.port)
        taught = {"rows": X.tolist(), "targets": X.sum(axis=1).tolist()}
        assert client.post("/learn", taught)[0] == 200
        question = {"rows": X[:20].tolist()}
        before = client.post("/predict", question)[1]
        for _ in range(requests // 10):
            found[answered(server.port, malformed(chance))] += 1
        memory = server.resident()
        for _ in range(requests - requests // 10):
            found[answered(server.port, malformed(chance))] += 1
        same = Client(server.port).post("/predict", question)[1] == before
        grown = server.resident() - memory
        status = server.stop()
    print(
        f"{requests} requests: "
        + ", ".join(f"{n} × {code or 'no answer'}" for code, n in sorted(found.items()))
    )
    print(f"5xx: {sum(n for code, n in found.items() if code >= 500)}; predictions unchanged: {same}")
    print(f"memory grew by {grown:.1f} MB in the last nine tenths; exit status {status}")


if __name__ == "__main__":
    main()
