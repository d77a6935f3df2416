"""The paper's factors run as streams: factor by factor, cross-covariance by cross-covariance, setting by setting.

A factor of the kernel matrix depends neither on the targets nor on the noise. One pass over the stream therefore serves
both protocols, both cross-covariances and all noises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from experiments.common import BATCH, standardise
from streamgp.datasets import Dataset
from streamgp.lowrank import Factor, bordered_eigh, randomized_eigh, sequential_step

# How the factor of all rows so far is found: Algorithm 3 on K̄ as printed, Algorithm 3 on the projection of K, or
# Algorithm 2 anew at every batch.
KINDS = ("printed", "projected", "batch")
# The cross-covariance beside it: k(X, x) of eq. (1) whole, or its projection onto the span of U.
CROSSES = ("exact", "projected")
PROTOCOLS = ("self-training", "labels known")
# Predictions beyond this, in units of the first targets, count as diverged, and the run stops learning them.
DIVERGED = 1e100


class Stream(NamedTuple):
    """Inputs (n, d), targets (n,) in units of the first batch, and the scale of the targets."""

    X: np.ndarray
    y: np.ndarray
    scale: float


class Setting(NamedTuple):
    """Hyperparameters of Table I: length-scale over √d and noise in units of the first batch, k and p."""

    length: float
    noise: float
    rank: int
    oversampling: int


def stream_of(data: Dataset, rows: int) -> Stream:
    """Return the first `rows` rows in units of the first batch."""
    return Stream(*standardise(data.X[:rows], data.y[:rows, 0], BATCH))


def kernel_matrix(stream: Stream, length: float) -> np.ndarray:
    """Return the squared exponential of length-scale `length`·√d between all rows, shape (n, n)."""
    K = cdist(stream.X, stream.X, "sqeuclidean")
    K *= -0.5 / (length**2 * stream.X.shape[1])
    return np.exp(K, out=K)


def factors(
    K: np.ndarray, kind: str, rank: int, oversampling: int, seed: int
) -> Iterator[tuple[int, Factor]]:
    """Yield the number of rows and the factor of K (n, n) after each batch."""
    found = Factor(K[:0, :0], K[:0, 0])
    for step, end in enumerate(range(BATCH, K.shape[0] + 1, BATCH)):
        past, own, size = slice(0, end - BATCH), slice(end - BATCH, end), (rank, oversampling)
        if kind == "batch" or not step:
            found = randomized_eigh(K[:end, :end], *size, (seed, step), definite=True)
        elif kind == "printed":
            found = bordered_eigh(found, K[past, own], K[own, own], *size, seed=(seed, step))
        else:
            core = found.S, found.U.T @ K[past, own], K[own, own]
            taken = sequential_step(*core, *size, seed=(seed, step), definite=True)
            found = Factor(taken.basis(found.U), taken.S)
        yield end, found


@dataclass(frozen=True)
class Variants:
    """Every (protocol, cross-covariance, noise), one column each."""

    noises: tuple[float, ...]

    @property
    def keys(self) -> list[tuple[str, str, float]]:
        """The columns in order."""
        return [(p, c, s) for p in PROTOCOLS for c in CROSSES for s in self.noises]


def predictions(
    cross: np.ndarray, factor: Factor, Y: np.ndarray, variants: Variants
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance explained, both (b, columns), of rows with covariances `cross` (b, n) to those learned.

    With P = k(x, X)U, eq. (2) is (USUᵀ + σ²I)⁻¹ = U(S + σ²)⁻¹Uᵀ + σ⁻²(I − UUᵀ). The projected pair has the first term,
    the exact cross-covariance both.
    """
    keys = variants.keys
    noise = np.array([s for _, _, s in keys])
    exact = np.array([c == "exact" for _, c, _ in keys])
    P, UtY = cross @ factor.U, factor.U.T @ Y
    inverse = 1.0 / (factor.S[:, None] + noise[None, :])
    mean = P @ (inverse * UtY) + exact * (cross @ Y - P @ UtY) / noise
    explained = P**2 @ inverse
    left = (cross**2).sum(axis=1) - (P**2).sum(axis=1)
    return mean, explained + exact * left[:, None] / noise


def run_variants(
    stream: Stream, K: np.ndarray, kind: str, size: tuple[int, int], noises: Sequence[float], seed: int
) -> dict[str, Any]:
    """Return RMSE of each batch and the share of negative variances, for every variant of a factor.

    `size` is (rank, oversampling). A run whose predictions overflow has RMSE None from there on.
    """
    variants = Variants(tuple(noises))
    keys = variants.keys
    known = np.array([p == "labels known" for p, _, _ in keys])
    Y = np.zeros((K.shape[0], len(keys)))
    Y[:BATCH] = stream.y[:BATCH, None]
    alive, errors, negative = np.ones(len(keys), dtype=bool), [], np.zeros(len(keys))
    for end, factor in factors(K, kind, *size, seed):
        rows = slice(end, end + BATCH)
        if end >= K.shape[0]:
            break
        cross, truth = K[rows, :end], stream.y[rows, None]
        with np.errstate(all="ignore"):
            mean, explained = predictions(cross, factor, Y[:end], variants)
            alive &= np.isfinite(mean).all(axis=0) & (np.abs(mean) < DIVERGED).all(axis=0)
            rmse = stream.scale * np.sqrt(np.mean((mean - truth) ** 2, axis=0))
        errors.append([float(e) if a else None for e, a in zip(rmse, alive, strict=True)])
        negative += (np.diag(K)[rows, None] - explained < 0).mean(axis=0)
        Y[rows] = np.where(known, truth, np.where(alive, mean, 0.0))
        Y[:, ~alive] = 0.0
    columns = list(zip(*errors, strict=True))
    return {
        "|".join((p, c, f"{s:g}")): {"rmse": [None, *column], "negative": float(share) / len(errors)}
        for (p, c, s), column, share in zip(keys, columns, negative, strict=True)
    }


# What the report shows of them

# The methods of Table I that factor the kernel matrix, by factor and cross-covariance.
METHODS = {
    "BRMF, as printed": ("batch", "exact"),
    "BRMF, projected": ("batch", "projected"),
    "SRMF, as printed": ("printed", "exact"),
    "SRMF, projected": ("projected", "projected"),
}


def mean_of(rmse: Sequence[float | None]) -> float:
    """Return the mean over batches, infinite where the run diverged. The first batch has no predictions."""
    return float("inf") if None in rmse[1:] else float(np.mean([v for v in rmse if v is not None]))


def table_one(data: Dataset, *, rows: int, setting: Setting, seed: int) -> dict[str, Any]:
    """Return RMSE of each batch of BRMF and SRMF by method and protocol."""
    stream = stream_of(data, rows)
    K = kernel_matrix(stream, setting.length)
    found = {kind: run_variants(stream, K, kind, setting[2:], [setting.noise], seed) for kind in KINDS}
    return {
        f"{method} | {protocol}": found[kind]["|".join((protocol, cross, f"{setting.noise:g}"))]["rmse"]
        for method, (kind, cross) in METHODS.items()
        for protocol in PROTOCOLS
    }


def ablation(
    data: Dataset, *, rows: int, kind: str, rank: int, length: float, noises: Sequence[float], draw: int
) -> dict[str, Any]:
    """Return mean RMSE and share of negative variances by protocol, cross-covariance and noise, for one factor."""
    stream = stream_of(data, rows)
    found = run_variants(stream, kernel_matrix(stream, length), kind, (rank, 10), noises, draw)
    return {key: {"rmse": mean_of(run["rmse"]), "negative": run["negative"]} for key, run in found.items()}


def sweep(
    data: Dataset, *, rows: int, length: float, size: tuple[int, int], noises: Sequence[float]
) -> dict[str, Any]:
    """Return the mean RMSE of self-training of NRMF, BRMF and SRMF by noise, at one length-scale, k and p."""
    stream = stream_of(data, rows)
    K = kernel_matrix(stream, length)
    out: dict[str, list[float]] = {"NRMF": [_first_batch(stream, K, noise) for noise in noises]}
    for kind in KINDS:
        runs = run_variants(stream, K, kind, size, noises, 0)
        for method, (of_kind, cross) in METHODS.items():
            if of_kind == kind:
                keys = ["|".join(("self-training", cross, f"{noise:g}")) for noise in noises]
                out[method] = [mean_of(runs[key]["rmse"]) for key in keys]
    return out


def _first_batch(stream: Stream, K: np.ndarray, noise: float) -> float:
    """Return the mean RMSE of the exact GP of the first batch: self-training does not move its mean."""
    weights = np.linalg.solve(K[:BATCH, :BATCH] + noise * np.eye(BATCH), stream.y[:BATCH])
    error = stream.scale * (K[BATCH:, :BATCH] @ weights - stream.y[BATCH:])
    return float(np.mean(np.sqrt(np.mean(error.reshape(-1, BATCH) ** 2, axis=1))))


def constant(data: Dataset, *, rows: int) -> float:
    """Return the mean RMSE of predicting the mean of the first batch."""
    stream = stream_of(data, rows)
    errors = np.sqrt(np.mean(stream.y[BATCH:].reshape(-1, BATCH) ** 2, axis=1))
    return float(stream.scale * np.mean(errors))
