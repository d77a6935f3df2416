"""Theorem 1 measured, and where the printed algorithm diverges."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..errors import NumericalError, StreamGPError, StreamGPWarning
from ..evaluation import prequential
from ..kernels import SquaredExponential
from ..lowrank import Factor, projected_core, randomized_eigh, sequential_eigh
from ..regressor import StreamingGPRegressor

BATCH = 100


def _standardised(data: Dataset, n: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = data.X[:n], data.y[:n, 0]
    spread = X[:500].std(axis=0)
    X = (X - X[:500].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X, (y - y[:500].mean()) / y[:500].std()


def theorem(
    data: Dataset, *, quick: bool, seed: int, rank: int = 30, oversampling: int = 10
) -> dict[str, Any]:
    """Measure ‖K_T − U_T S_T U_Tᵀ‖ and the bound 2 Σ (1 + 9√((k + p) n_t)) σ_{k+1}(K_t), batch by batch."""
    n = 600 if quick else 1500
    X, _ = _standardised(data, n)
    K = SquaredExponential(X.shape[1] ** 0.5).block(X)
    total = 0.0
    out: dict[str, list[float]] = {k: [] for k in ("rows", "bound", "literal", "projected", "best")}
    factors: dict[str, Factor] = {}
    for step, end in enumerate(range(BATCH, X.shape[0] + 1, BATCH)):
        past, own = slice(0, end - BATCH), slice(end - BATCH, end)
        values = np.linalg.eigvalsh(K[:end, :end])[::-1]
        total += (1.0 + 9.0 * np.sqrt((rank + oversampling) * end)) * max(float(values[rank]), 0.0)
        for kind in ("literal", "projected"):
            if not step:
                factors[kind] = randomized_eigh(K[:end, :end], rank, oversampling, (seed, step))
                continue
            before, B, C = factors[kind], K[past, own], K[own, own]
            if kind == "literal":
                factors[kind] = sequential_eigh(before, B, C, rank, oversampling, (seed, step))
            else:
                core = projected_core(
                    before.S, before.U.T @ B, C, rank, oversampling, (seed, step), definite=True
                )
                k = before.rank
                factors[kind] = Factor(np.concatenate([before.U @ core.U[:k], core.U[k:]]), core.S)
        out["rows"].append(end)
        out["bound"].append(2.0 * total)
        out["best"].append(float(values[rank]))
        for kind, factor in factors.items():
            left = K[:end, :end] - (factor.U * factor.S) @ factor.U.T
            out[kind].append(float(np.abs(np.linalg.eigvalsh(left)).max()))
    return {**out, "rank": rank, "oversampling": oversampling}


def robustness(data: Dataset, *, quick: bool, seed: int) -> dict[str, Any]:
    """Stream with labels through literal and projected `srmf` over rank and noise."""
    n = 600 if quick else 1500
    X, y = _standardised(data, n)
    ranks = (10, 40, 160) if quick else (10, 20, 40, 80, 160)
    noises = (1e-4, 1e-2, 1.0) if quick else (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    out: dict[str, Any] = {"ranks": ranks, "noises": noises, "rows": n}
    for variant in ("literal", "projected"):
        out[variant] = [[_error(X, y, rank, noise, variant, seed) for noise in noises] for rank in ranks]
    return out


def _error(X: np.ndarray, y: np.ndarray, rank: int, noise: float, variant: Any, seed: int) -> float | None:
    gp = StreamingGPRegressor(
        SquaredExponential(X.shape[1] ** 0.5),
        noise=noise, method="srmf", rank=rank, variant=variant, tune="none", random_state=seed,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamGPWarning)
        try:
            errors = [r.rmse for r in prequential(gp, X, y, BATCH) if r.rmse is not None]
        except (StreamGPError, NumericalError):
            return None
    return float(np.sqrt(np.mean(np.square(errors))))


STUDIES: dict[str, Callable[..., dict[str, Any]]] = {"theorem": theorem, "robustness": robustness}
