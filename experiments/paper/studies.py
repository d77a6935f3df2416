"""Studies beside the tables: Theorem 1 measured, where the printed algorithm diverges, fixed hyperparameters, seeds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from experiments.common import BATCH, standardise
from streamgp import StreamingGPRegressor
from streamgp.datasets import Dataset
from streamgp.errors import NumericalError, StreamGPError, StreamGPWarning
from streamgp.evaluation import Record, prequential, self_training
from streamgp.kernels import DistancePolynomial, SquaredExponential
from streamgp.lowrank import Factor, bordered_eigh, randomized_eigh, sequential_step

# How many seeds the study of chance runs.
SEEDS = 5


def theorem(
    data: Dataset, *, quick: bool, seed: int, rank: int = 30, oversampling: int = 10
) -> dict[str, Any]:
    """Return ‖K_T − U_T S_T U_Tᵀ‖ and the bound of Theorem 1, 2 Σ (1 + 9√((k + p) n_t)) σ_{k+1}(K_t), by batch."""
    n = 600 if quick else 1500
    X = standardise(data.X[:n], data.y[:n, 0]).X
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
                factors[kind] = bordered_eigh(before, B, C, rank, oversampling, seed=(seed, step))
            else:
                given = {"seed": (seed, step), "definite": True}
                found = sequential_step(before.S, before.U.T @ B, C, rank, oversampling, **given)
                factors[kind] = Factor(found.basis(before.U), found.S)
        out["rows"].append(end)
        out["bound"].append(2.0 * total)
        out["best"].append(float(values[rank]))
        for kind, factor in factors.items():
            left = K[:end, :end] - (factor.U * factor.S) @ factor.U.T
            out[kind].append(float(np.abs(np.linalg.eigvalsh(left)).max()))
    return {**out, "rank": rank, "oversampling": oversampling}


def robustness(data: Dataset, *, quick: bool, seed: int) -> dict[str, Any]:
    """Return the error of literal and projected `srmf`, labels known, by rank and noise."""
    n = 600 if quick else 1500
    X, y, _ = standardise(data.X[:n], data.y[:n, 0])
    ranks = (10, 40, 160) if quick else (10, 20, 40, 80, 160)
    noises = (1e-4, 1e-2, 1.0) if quick else (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    out: dict[str, Any] = {"ranks": ranks, "noises": noises, "rows": n}
    kernel = SquaredExponential(X.shape[1] ** 0.5)
    fixed_settings = {"method": "srmf", "tune": "none", "random_state": seed}

    def error(rank: int, noise: float, variant: Any) -> float | None:
        gp = StreamingGPRegressor(kernel, noise=noise, rank=rank, variant=variant, **fixed_settings)
        return _mean_error(prequential(gp, X, y, BATCH))

    for variant in ("literal", "projected"):
        out[variant] = [[error(rank, noise, variant) for noise in noises] for rank in ranks]
    return out


def _mean_error(records: Iterable[Record]) -> float | None:
    """Return the mean of the batches' RMSE, as the paper averages; None where the run fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamGPWarning)
        try:
            return float(np.mean([r.rmse for r in records if r.rmse is not None]))
        except (StreamGPError, NumericalError):
            return None


def fixed(data: Dataset, *, quick: bool, seed: int) -> dict[str, Any]:
    """Return the error of the exact GP of the first batch, by length-scale and noise.

    The exact GP does not move when it learns its own predictions, so this is all that self-training can reach.
    """
    n = min(1000 if quick else data.X.shape[0], data.X.shape[0])
    X, y, scale = standardise(data.X[:n], data.y[:n, 0], BATCH)
    lengths, noises = (0.12, 0.25, 0.5, 1.0, 2.0, 2.5, 4.0, 8.0), (1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0)
    table = []
    for length in lengths:
        K = SquaredExponential(length * X.shape[1] ** 0.5).block(X, X[:BATCH])
        row = []
        for noise in noises:
            weights = np.linalg.solve(K[:BATCH] + noise * np.eye(BATCH), y[:BATCH])
            error = scale * (K @ weights - y)[BATCH:]
            cuts = [error[i : i + BATCH] for i in range(0, len(error), BATCH)]
            row.append(float(np.mean([np.sqrt(np.mean(cut**2)) for cut in cuts])))
        table.append(row)
    return {"lengths": lengths, "noises": noises, "rmse": table}


def chance(data: Dataset, *, quick: bool, seed: int) -> dict[str, Any]:
    """Return the mean error of self-training with the polynomial kernel, for several seeds."""
    n = 600 if quick else 4000
    X, y, scale = standardise(data.X[:n], data.y[:n, 0], BATCH)
    out: dict[str, Any] = {"rows": n}
    for tune in ("none", "continuous", "hybrid"):
        out[tune] = []
        for number in range(seed, seed + SEEDS):
            gp = StreamingGPRegressor(
                DistancePolynomial((0.1, 1.0, 1.0)), method="srmf", rank=50, objective="training_error",
                tune=tune, random_state=number,
            )  # fmt: skip
            error = _mean_error(self_training(gp, X, y, BATCH))
            out[tune].append(None if error is None else float(scale * error))
    return out


STUDIES: dict[str, Callable[..., dict[str, Any]]] = {
    "theorem": theorem,
    "robustness": robustness,
    "fixed": fixed,
    "chance": chance,
}
