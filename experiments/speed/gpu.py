"""Rows a second on one GPU at rank 500, 2000 and 8000, against the floor and against this machine's cores.

    python -m experiments.speed.gpu            on a machine with CUDA and torch
    python -m experiments.speed.gpu cpu        NumPy on the same stream, for comparison

The Gaussian process alone; --members gp,neighbours with what stored rows tell, and so on.

Batches of 10,000 rows, 21 inputs, seven outputs. The floor is 2·r²·b + r³/3 operations, symmetric work counted once,
at the rate of an 8192³ product measured in the same run.
"""

import time
import warnings
from typing import NamedTuple

import click
import numpy as np

from experiments.common import command, standardise
from experiments.internals import gram, product_lower
from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm
from streamgp.kernels import SquaredExponential

BATCH, RANKS = 10_000, (500, 2000, 8000)


class Precision(NamedTuple):
    """Type of the arrays, whether the regressor runs in mixed precision, whether products may use TF32."""

    name: str
    dtype: object
    mixed: bool = False
    tf32: bool = False


def stream(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 21) and y (n, 7) of the arm, standardised, rows shuffled so that all batches are alike."""
    arm = load_arm(n, seed=3)
    order = np.random.default_rng(0).permutation(n)
    X, y, _ = standardise(arm.X, arm.y, first=n)
    return X[order], y[order]


def floor(rank: int, rate: float) -> float:
    """Return the seconds of a batch whose operations all run at this rate."""
    return (2.0 * rank**2 * BATCH + rank**3 / 3.0) / rate


def model(rank: int, members: tuple[str, ...], *, mixed: bool = False) -> StreamingGPRegressor:
    """Return a regressor whose length-scale is short enough that every rank here is filled."""
    given = {"noise": 0.01, "tune": "none", "members": members, "random_state": 0}
    return StreamingGPRegressor(SquaredExponential(1.5), rank=rank, mixed_precision=mixed, **given)


def rate_of(torch: object, dtype: object, n: int = 8192) -> float:
    """Return the operations a second of an n³ matrix product on the GPU."""
    A, B = (torch.randn(n, n, dtype=dtype, device="cuda") for _ in range(2))
    return 2.0 * n**3 / median_time(torch, lambda: A @ B, 10)


def median_time(torch: object, task: object, repeats: int) -> float:
    """Return the median seconds of a task on the GPU, after two runs to warm up."""
    seconds = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        began = time.perf_counter()
        task()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[2:]))


def gpu(members: tuple[str, ...]) -> None:
    """Print a row for each rank and precision."""
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
        Precision("float64", torch.float64),
        Precision("float32", torch.float32),
        Precision("float32, mixed", torch.float32, mixed=True),
        Precision("float32, mixed, TF32", torch.float32, mixed=True, tf32=True),
    ]
    print(
        f"{'rank':>5s} {'precision':22s} {'ms a batch':>10s} {'rows/s':>12s} {'floor, ms':>9s} {'of floor':>8s} "
        f"{'and predicted':>14s} {'RMSE':>8s} {'rank':>5s}"
    )
    for rank in RANKS:
        for kind in kinds:
            rows, targets = (torch.as_tensor(v, dtype=kind.dtype, device="cuda") for v in (X, y))
            gp = model(rank, members, mixed=kind.mixed)
            try:
                took, both, error = timed(
                    gp, rows, targets, fill=20_000 if rank < 8000 else 60_000, tf32=kind.tf32
                )
            except Exception as failure:
                torch.backends.cuda.matmul.allow_tf32 = False
                print(f"{rank:5d} {kind.name:22s} fails: {str(failure).splitlines()[0][:90]}", flush=True)
                continue
            torch.backends.cuda.matmul.allow_tf32 = False
            least = floor(rank, rates[kind.dtype])
            print(
                f"{rank:5d} {kind.name:22s} {1e3 * took:10.2f} {BATCH / took:12,.0f} {1e3 * least:9.2f} "
                f"{least / took:8.0%} {1e3 * both:11.1f} ms {error:8.4f} {gp.rank_:5d}",
                flush=True,
            )
        pieces(torch, rank)


def timed(
    gp: StreamingGPRegressor, rows: object, targets: object, *, fill: int, tf32: bool
) -> tuple[float, float, float]:
    """Return the seconds of a batch learned, of one predicted and learned, and the error on the last 10,000 rows.

    The first `fill` rows choose the pivots and are not timed.
    """
    import torch

    gp.partial_fit(rows[:fill], targets[:fill])
    # Only after the pivots are chosen: their residuals are smaller than the rounding of tensor cores.
    torch.backends.cuda.matmul.allow_tf32 = tf32
    took, both = [], []
    parts = [slice(fill + i * BATCH, fill + (i + 1) * BATCH) for i in range(30)]
    for part in [*parts, *parts[:4]]:
        gp.partial_fit(rows[part], targets[part])
    for _ in range(3):
        # 32 batches without a wait between them: in a stream, too, the host may run ahead of the device.
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
    """Print the time of each part of a batch alone, float64."""
    F = torch.randn(BATCH, rank, dtype=torch.float64, device="cuda")
    L = torch.tril(torch.randn(rank, rank, dtype=torch.float64, device="cuda"))
    M = F.T @ F
    Z, X = F[:rank, :21].contiguous(), F[:, :21].contiguous()
    tasks = {
        "kernel": lambda: SquaredExponential(2.5).block(X, Z), "features": lambda: product_lower(F, L),
        "features, dense": lambda: F @ L.T, "gram": lambda: gram(F), "gram, dense": lambda: F.T @ F,
        "Cholesky": lambda: torch.linalg.cholesky_ex(M), "weights": lambda: torch.cholesky_solve(F[:rank, :7], L),
    }  # fmt: skip
    found = {name: 1e3 * median_time(torch, task, 10) for name, task in tasks.items()}
    print("      alone, ms: " + ", ".join(f"{name} {ms:.2f}" for name, ms in found.items()), flush=True)


def cpu(members: tuple[str, ...]) -> None:
    """Print the time of a batch with NumPy at rank 500."""
    X, y = stream(100_000)
    gp = model(500, members)
    gp.partial_fit(X[:20_000], y[:20_000])
    seconds = []
    for i in range(3):
        part = slice(20_000 + i * BATCH, 30_000 + i * BATCH)
        began = time.perf_counter()
        gp.partial_fit(X[part], y[part])
        seconds.append(time.perf_counter() - began)
    took = float(np.median(seconds))
    print(f"NumPy, rank 500: {1e3 * took:.0f} ms a batch of 10,000, {BATCH / took:,.0f} rows/s")


@command(__doc__)
@click.argument("device", type=click.Choice(["gpu", "cpu"]), default="gpu")
@click.option("--members", default="gp", help="Of the panel, with commas between them.")
def main(device: str, members: str) -> None:
    """Run on the device that is named."""
    warnings.simplefilter("ignore")
    (cpu if device == "cpu" else gpu)(tuple(members.split(",")))


if __name__ == "__main__":
    main()
