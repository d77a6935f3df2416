"""Points of `hostile` with several threads: one model read and written at the same time."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from streamgp import StreamingGPRegressor

from .hostile_streams import learn, smooth


def readers() -> None:
    """4: readers while another thread fits anew: answers that mix two models, or belong to another row."""
    X, y = smooth(60, 0, 3)
    T = np.random.default_rng(1).uniform(-2, 2, (1500, 3))
    gp = StreamingGPRegressor(rank=30, random_state=0, tune="none")
    right = [StreamingGPRegressor(rank=30, random_state=0, tune="none").fit(X, s * (1 + y)).predict(T, True)
             for s in (1, 1e6)]  # fmt: skip
    gp.fit(X, 1 + y)
    torn, asked = _while_reading(
        lambda: gp.predict(T, return_std=True),
        lambda out: any(
            all(np.allclose(a, b, rtol=1e-6) for a, b in zip(out, r, strict=True)) for r in right
        ),
        lambda k: gp.fit(X, (1e6 if k % 2 else 1) * (1 + y)),
    )
    print(f"  mean of one model with the scale of another: {torn} of {asked}")
    gp.fit(X, y)
    rows = np.random.default_rng(2).uniform(-2, 2, (3, 1, 3))
    answers = [gp.predict(r, return_std=True) for r in rows]
    local = threading.local()

    def ask() -> tuple[int, tuple[np.ndarray, np.ndarray]]:
        local.n = getattr(local, "n", 0) + 1
        return local.n % 3, gp.predict(rows[local.n % 3], return_std=True)

    wrong, asked = _while_reading(
        ask, lambda out: all(np.allclose(a, b) for a, b in zip(out[1], answers[out[0]], strict=True)), None
    )
    print(f"  another row's prediction: {wrong} of {asked}")


def _while_reading(
    ask: Callable[[], Any],
    is_right: Callable[[Any], bool],
    write: Callable[[int], Any] | None,
    seconds: float = 15.0,
    n_threads: int = 4,
) -> tuple[int, int]:
    """Return how many answers of reading threads were wrong, and how many there were, while `write` is called."""
    stop, wrong, asked = threading.Event(), [], []

    def read() -> None:
        while not stop.is_set():
            out = ask()
            asked.append(1)
            if not is_right(out):
                wrong.append(1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=read) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    began, k = time.time(), 0
    while time.time() - began < seconds:
        if write is None:
            time.sleep(0.1)
        else:
            write(k)
            k += 1
    stop.set()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    return len(wrong), len(asked)


def writers() -> None:
    """5: three threads learn 1,000 rows each into one model of 100: rows counted of 3,100."""
    X, y = smooth(3100, 0)
    gp = StreamingGPRegressor(rank=100, random_state=0, tune="none").fit(X[:100], y[:100])
    threads = [threading.Thread(target=lambda a=a: learn(gp, X[a : a + 1000], y[a : a + 1000], 10))
               for a in (100, 1100, 2100)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"  {gp.n_samples_seen_} of 3100")
