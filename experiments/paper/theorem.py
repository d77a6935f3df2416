"""Theorem III.1 over many draws, and step 13 of Algorithm 5, whose minimum is at infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from experiments.common import BATCH
from streamgp.datasets import Dataset
from streamgp.lowrank import Factor, bordered_eigh, randomized_eigh

from .factors import kernel_matrix, stream_of

# Rank of the factors whose error is compared with the bound.
RANK = 30


def largest(A: np.ndarray) -> float:
    """Return the spectral norm of a symmetric matrix (n, n)."""
    return float(np.abs(np.linalg.eigvalsh(A)).max())


def draws(data: Dataset, *, rows: int, length: float, oversampling: int, count: int) -> dict[str, Any]:
    """Return, over `count` draws of Algorithm 3, its error beside the bound of Theorem III.1, batch by batch.

    As printed, all k + p columns are kept. The bound is 2 Σ (1 + 9√((k + p) n_t)) σ_{k+1}(K_t). `gap` is
    σ_{k+1}(K̄_t)/σ_{k+1}(K_t): the proof applies eq. (3) to K̄_t and states it with K_t.
    """
    K = kernel_matrix(stream_of(data, rows), length)
    ends = range(BATCH, rows + 1, BATCH)
    next_values = [abs(np.linalg.eigvalsh(K[:n, :n])[::-1][RANK]) for n in ends]
    terms = [
        (1.0 + 9.0 * np.sqrt((RANK + oversampling) * n)) * s for n, s in zip(ends, next_values, strict=True)
    ]
    bound = 2.0 * np.cumsum(terms)
    ratios, gaps = np.zeros((count, len(bound))), np.zeros((count, len(bound)))
    for draw in range(count):
        found = Factor(K[:0, :0], K[:0, 0])
        for t, n in enumerate(ends):
            key = (draw, t)
            bordered = K[:n, :n].copy()
            if t:
                past, own = slice(0, n - BATCH), slice(n - BATCH, n)
                bordered[past, past] = found.dense()
                found = bordered_eigh(found, K[past, own], K[own, own], RANK + oversampling, 0, seed=key)
            else:
                found = randomized_eigh(K[:n, :n], RANK + oversampling, 0, key)
            ratios[draw, t] = largest(K[:n, :n] - found.dense()) / bound[t]
            gaps[draw, t] = np.sort(np.abs(np.linalg.eigvalsh(bordered)))[::-1][RANK] / next_values[t]
    return {
        "oversampling": oversampling,
        "rank": RANK,
        "rows": list(ends),
        "bound": bound.tolist(),
        "next": [float(v) for v in next_values],
        "largest": ratios.max(axis=0).tolist(),
        "median": np.median(ratios, axis=0).tolist(),
        "ratios": ratios.max(axis=1).tolist(),
        "gap_low": float(gaps.min()),
        "gap_high": float(gaps.max()),
        "said": float(3 * len(bound) * float(oversampling) ** -oversampling),
    }


def degenerate(data: Dataset, *, rows: int) -> dict[str, Any]:
    """Return training and test RMSE of the distance kernel as a₀ grows, as σ² falls, and as a₁ and a₂ grow.

    Trained on the first half of the rows, all labels known; tested on the second.
    """
    stream = stream_of(data, rows)
    half, D = rows // 2, cdist(stream.X, stream.X)

    def errors(a0: float, scale: float, noise: float) -> list[float]:
        K = scale * (D + D**2)
        C = K[:half, :half] + (a0 + noise) * np.eye(half)
        alpha = np.linalg.solve(C, stream.y[:half])
        # With a₀ counted at the training rows, y − Kα = σ²α.
        misses = noise * alpha, K[half:, :half] @ alpha - stream.y[half:]
        return [float(stream.scale * np.sqrt(np.mean(e**2))) for e in misses]

    powers = [10.0**i for i in range(-3, 7)]
    return {
        "values": powers,
        "a0": [errors(v, 1.0, 0.1) for v in powers],
        "noise": [errors(0.0, 1.0, v) for v in powers],
        "weights": [errors(0.0, v, 0.1) for v in powers],
        "rows": half,
        "spread": float(stream.scale * np.std(stream.y[half:])),
    }
