"""What the tests share: array libraries, real data, a counting kernel, tolerances with a reason, brokers."""

import importlib.util
import json
from dataclasses import dataclass, field
from pathlib import Path

import array_api_strict
import numpy as np
import pytest

from experiments.checks.broker_servers import Mosquitto, Redis, program
from streamgp import kernels

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Library:
    """An array library as a pair of functions: from NumPy and back."""

    name: str
    asarray: object
    to_numpy: object


def _read_only(x):
    x = np.array(x)
    x.flags.writeable = False
    return x


def _libraries():
    yield Library("numpy", np.array, np.asarray)
    yield Library("numpy-read-only", _read_only, np.asarray)
    yield Library("strict", array_api_strict.asarray, np.asarray)
    if importlib.util.find_spec("torch"):
        import torch

        yield Library("torch", lambda x: torch.asarray(np.array(x)), lambda t: t.numpy())


@pytest.fixture(params=list(_libraries()), ids=lambda lib: lib.name)
def library(request):
    return request.param


def tolerance(dtype, factor):
    """So many units in the last place: `factor` counts the operations that an entry goes through."""
    return factor * float(np.finfo(dtype).eps)


@dataclass(frozen=True)
class Counting(kernels.Kernel):
    """A kernel that counts the entries it is asked for."""

    kernel: kernels.Kernel
    entries: list = field(default_factory=list)

    def block(self, X, Y=None):
        self.entries.append(X.shape[0] * (X if Y is None else Y).shape[0])
        return self.kernel.block(X, Y)

    def diag(self, X):
        return self.kernel.diag(X)

    def gradient(self, W, X, Y=None):
        return self.kernel.gradient(W, X, Y)

    def check_features(self, n_features):
        self.kernel.check_features(n_features)

    @property
    def positive_semidefinite(self):
        return self.kernel.positive_semidefinite

    def taken(self):
        total = sum(self.entries)
        self.entries.clear()
        return total


def wave(n, d=3, seed=0, q=None):
    """A smooth function of d inputs with a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(n)
    return X, y if q is None else np.stack([(j + 1) * np.cos(j + y) for j in range(q)], axis=1)


def real_data(name):
    """X and y of a set in ../shared/data, or a skip with its reason."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"real data is not there: {path}")
    return np.load(path)


def benchmark_hyperparameters(name):
    path = DATA / "benchmark_hyperparameters.json"
    if not path.exists():
        pytest.skip(f"real data is not there: {path}")
    return json.loads(path.read_text())[name]


def pytest_collection_modifyitems(items):
    """Expect tests that `awaiting.txt` lists to fail: claims that are not kept yet, each with the reason."""
    lines = (Path(__file__).parent / "awaiting.txt").read_text().splitlines()
    listed = dict(line.split(" | ", 1) for line in lines if line and not line.startswith("#"))
    for item in items:
        for start, reason in listed.items():
            if item.nodeid.startswith(start):
                item.add_marker(pytest.mark.xfail(strict=False, reason=reason))


# Real brokers on free ports of the loopback interface


def _server(kind, name, folder):
    if program(name) is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install {name})")
    return kind(folder)


@pytest.fixture
def mosquitto(tmp_path):
    server = _server(Mosquitto, "mosquitto", tmp_path / "mosquitto")
    yield server
    server.close()


@pytest.fixture
def redis_server(tmp_path):
    server = _server(Redis, "redis-server", tmp_path / "redis")
    yield server
    server.close()


@pytest.fixture
def said():
    """What a broker's source or sink says; `said.append` is the function to say it with."""
    return []
