"""One GPU: rows a second at rank 500, 2000 and 8000, against the floor and against this machine's cores.

    python -m experiments.speed.gpu            on a machine with CUDA and torch
    python -m experiments.speed.gpu cpu        NumPy, the same stream, for the ratio

Batches of 10,000 rows, 21 inputs, seven outputs. The floor is 2·r²·b + r³/3 operations, symmetric work counted once,
at the rate of an 8192³ product measured in the same run.
"""

import sys
import time
import warnings

import numpy as np

from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm
from streamgp.kernels import SquaredExponential

BATCH, RANKS = 10_000, (500, 2000, 8000)
warnings.simplefilter("ignore")


def stream(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Give the arm, standardised, rows shuffled: every batch is like every other."""
    arm = load_arm(n, seed=3)
    order = np.random.default_rng(0).permutation(n)
    X = (arm.X - arm.X.mean(axis=0)) / arm.X.std(axis=0)
    y = (arm.y - arm.y.mean(axis=0)) / arm.y.std(axis=0)
    return X[order], y[order]


def floor(rank: int, rate: float) -> float:
    """Give the seconds that a batch must take."""
    return (2.0 * rank**2 * BATCH + rank**3 / 3.0) / rate


def model(rank: int, *, mixed: bool = False) -> StreamingGPRegressor:
    # Length-scales short enough that every rank here is filled.
    return StreamingGPRegressor(
        SquaredExponential(1.5), noise=0.01, tune="none", rank=rank, random_state=0, mixed_precision=mixed
    )


def rate_of(torch: object, dtype: object, n: int = 8192) -> float:
    A, B = (torch.randn(n, n, dtype=dtype, device="cuda") for _ in range(2))
    return 2.0 * n**3 / median_time(torch, lambda: A @ B, 10)


def median_time(torch: object, task: object, repeats: int) -> float:
    seconds = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        began = time.perf_counter()
        task()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[2:]))


def gpu() -> None:
    import torch

    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    rates = {torch.float64: rate_of(torch, torch.float64), torch.float32: rate_of(torch, torch.float32)}
    torch.backends.cuda.matmul.allow_tf32 = True
    tensor_cores = rate_of(torch, torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = False
    shown = [f"{v / 1e12:.1f}" for v in (rates[torch.float64], rates[torch.float32], tensor_cores)]
    print("8192³ product, TFLOP/s: float64 {}, float32 {}, float32 on tensor cores (TF32) {}".format(*shown))
    X, y = stream(400_000)
    kinds = [
        ("float64", torch.float64, False, False),
        ("float32", torch.float32, False, False),
        ("float32, mixed", torch.float32, True, False),
        ("float32, mixed, TF32", torch.float32, True, True),
    ]
    head = (
        "rank",
        "precision",
        "ms a batch",
        "rows/s",
        "floor, ms",
        "of floor",
        "and predicted",
        "RMSE",
        "rank",
    )
    print("{:>5s} {:22s} {:>10s} {:>12s} {:>9s} {:>8s} {:>14s} {:>8s} {:>5s}".format(*head))
    for rank in RANKS:
        for name, dtype, mixed, tf32 in kinds:
            rows, targets = (torch.as_tensor(v, dtype=dtype, device="cuda") for v in (X, y))
            gp = model(rank, mixed=mixed)
            try:
                took, both, error = one(torch, gp, rows, targets, 20_000 if rank < 8000 else 60_000, tf32)
            except Exception as failure:
                torch.backends.cuda.matmul.allow_tf32 = False
                print(f"{rank:5d} {name:22s} fails: {str(failure).splitlines()[0][:90]}", flush=True)
                continue
            torch.backends.cuda.matmul.allow_tf32 = False
            least = floor(rank, rates[dtype])
            print(
                f"{rank:5d} {name:22s} {1e3 * took:10.2f} {BATCH / took:12,.0f} {1e3 * least:9.2f} {least / took:8.0%} "
                f"{1e3 * both:11.1f} ms {error:8.4f} {gp.rank_:5d}",
                flush=True,
            )
        pieces(torch, rank)


def one(
    torch: object, gp: StreamingGPRegressor, rows: object, targets: object, fill: int, tf32: bool
) -> tuple[float, float, float]:
    """Give the seconds of a batch learned, of one learned and predicted, and the error on the last 10,000 rows."""
    gp.partial_fit(rows[:fill], targets[:fill])
    # Not before the pivots are chosen: their residuals are smaller than the rounding of tensor cores.
    torch.backends.cuda.matmul.allow_tf32 = tf32
    took, both = [], []
    parts = [slice(fill + i * BATCH, fill + (i + 1) * BATCH) for i in range(30)]
    for part in [*parts, *parts[:4]]:
        gp.partial_fit(rows[part], targets[part])
    for _ in range(3):
        # 32 batches one after another, of which one is scored; the host may run ahead of the device, as in a stream.
        some = [*parts, *parts[:2]]
        torch.cuda.synchronize()
        began = time.perf_counter()
        for part in some:
            gp.partial_fit(rows[part], targets[part])
        torch.cuda.synchronize()
        took.append((time.perf_counter() - began) / len(some))
    for part in parts[:5]:
        torch.cuda.synchronize()
        began = time.perf_counter()
        gp.predict(rows[part], return_std=True)
        gp.partial_fit(rows[part], targets[part])
        torch.cuda.synchronize()
        both.append(time.perf_counter() - began)
    mean = gp.predict(rows[-BATCH:])
    error = float(((mean - targets[-BATCH:]) ** 2).mean()) ** 0.5
    return float(np.median(took)), float(np.median(both)), error


def pieces(torch: object, rank: int) -> None:
    """Print what the parts of a batch take alone, float64."""
    from streamgp import _arrays

    F = torch.randn(BATCH, rank, dtype=torch.float64, device="cuda")
    L = torch.tril(torch.randn(rank, rank, dtype=torch.float64, device="cuda"))
    M = F.T @ F
    Z, X = F[:rank, :21].contiguous(), F[:, :21].contiguous()
    tasks = {
        "kernel": lambda: SquaredExponential(2.5).block(X, Z), "features": lambda: _arrays.product_lower(F, L),
        "features, dense": lambda: F @ L.T, "gram": lambda: _arrays.gram(F), "gram, dense": lambda: F.T @ F,
        "Cholesky": lambda: torch.linalg.cholesky_ex(M), "weights": lambda: torch.cholesky_solve(F[:rank, :7], L),
    }  # fmt: skip
    found = {name: 1e3 * median_time(torch, task, 10) for name, task in tasks.items()}
    print("      alone, ms: " + ", ".join(f"{name} {ms:.2f}" for name, ms in found.items()), flush=True)


def cpu() -> None:
    X, y = stream(100_000)
    for rank in (500,):
        gp = model(rank)
        gp.partial_fit(X[:20_000], y[:20_000])
        seconds = []
        for i in range(3):
            part = slice(20_000 + i * BATCH, 30_000 + i * BATCH)
            began = time.perf_counter()
            gp.partial_fit(X[part], y[part])
            seconds.append(time.perf_counter() - began)
        took = float(np.median(seconds))
        print(
            f"NumPy, rank {rank}: {1e3 * took:.0f} ms a batch of 10,000, {BATCH / took:,.0f} rows/s",
            flush=True,
        )


if __name__ == "__main__":
    cpu() if "cpu" in sys.argv[1:] else gpu()
