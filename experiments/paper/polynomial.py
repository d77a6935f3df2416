"""Tables II and III as printed: the distance kernel, eq. (5), tuned by step 13 of Algorithm 5 with nothing added.

The objective is the training error over all rows so far, its arguments are a₀, a₁ and a₂, none below 0 and none above a
declared bound, and it is minimised until L-BFGS-B converges: no prior, no sample, no held-out rows. The noise σ² stays
where it starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from scipy.spatial.distance import cdist

from experiments.common import BATCH
from streamgp.datasets import Dataset
from streamgp.lowrank import Factor, bordered_eigh, randomized_eigh, sequential_step

from .factors import DIVERGED, Stream, stream_of

# Declared starts: the noise in units of the variance of the first targets, beside a₀ = 0 and a₁ = a₂ = 1.
STARTS = (1.0, 0.1, 0.01)
WEIGHTS = (0.0, 1.0, 1.0)
# Upper bounds, without which step 13 has no minimum: of a₀, which acts as noise, the variance of the first
# targets, or 0 (a₀ left out); of a₁ and a₂ a thousand times the start.
A0_LIMITS = (1.0, 0.0)
LIMIT = 1e3
MODES = ("no optimisation", "continuous", "initial")
# Batches after which 'initial' tunes no more.
INITIAL = 10
RANK, OVERSAMPLING = 50, 10

Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]


def minimise(loss: Loss, weights: np.ndarray, most: float, limit: float = LIMIT) -> tuple[np.ndarray, int]:
    """Return the weights that minimise the log training error (a₀ ≤ `most`, others ≤ `limit`), and the evaluations."""
    bounds = [(0.0, most), (0.0, limit), (0.0, limit)]
    found = scipy.optimize.minimize(loss, weights, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x), int(found.nfev)


# NRMF


class Distances:
    """The distances between rows, extended batch by batch, on the host or on a CUDA device."""

    def __init__(self, X: np.ndarray, device: str | None) -> None:
        self._X, self._torch = X, None
        n = X.shape[0]
        if device:
            import torch

            self._torch = torch
            self.D = torch.zeros((n, n), dtype=torch.float64, device=device)
        else:
            self.D = np.zeros((n, n))

    def extend(self, rows: slice) -> None:
        """Compute the distances of new rows to all before them and to each other."""
        block = self.array(cdist(self._X[rows], self._X[: rows.stop]))
        self.D[rows, : rows.stop] = block
        self.D[: rows.stop, rows] = block.T

    def array(self, values: np.ndarray) -> Any:
        """Return host values where the distances are."""
        return self._torch.as_tensor(values, device=self.D.device) if self._torch else values

    def host(self, values: Any) -> np.ndarray:
        """Return values as a NumPy array."""
        return np.asarray(values.cpu() if self._torch else values)

    def solver(self, weights: np.ndarray, noise: float, n: int) -> Callable[[Any], Any]:
        """Return v → (K_a + σ²I)⁻¹v for the first n rows; one LU factorisation, O(n³), as the matrix is indefinite."""
        D = self.D[:n, :n]
        C = (weights[2] * D + weights[1]) * D
        C.reshape(-1)[:: n + 1] += weights[0] + noise
        if self._torch:
            factor = self._torch.linalg.lu_factor(C)
            return lambda v: self._torch.linalg.lu_solve(*factor, v[:, None])[:, 0]  # type: ignore[union-attr]
        lu = scipy.linalg.lu_factor(C, overwrite_a=True, check_finite=False)
        return lambda v: scipy.linalg.lu_solve(lu, v, check_finite=False)

    def predict(self, weights: np.ndarray, rows: slice, alpha: Any) -> np.ndarray:
        """Return eq. (1) for `rows`, alpha (n,) being K⁻¹y of all rows before; a₀ is not in the cross-covariance."""
        D = self.D[rows, : rows.start]
        return self.host(((weights[2] * D + weights[1]) * D) @ alpha)


def training_loss(distances: Distances, y: Any, noise: float) -> Loss:
    """Return log(training error) and its gradient as a function of a.

    With a₀ counted in K at the training rows, y − Kα = σ²α for α = (K + σ²I)⁻¹y.
    """
    n = y.shape[0]
    D = distances.D[:n, :n]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        solve = distances.solver(weights, noise, n)
        alpha = solve(y)
        beta, first = solve(alpha), D @ alpha
        size = float(alpha @ alpha)
        moved = [float(beta @ alpha), float(beta @ first), float(beta @ ((D * D) @ alpha))]
        if not np.isfinite(size) or not size > 0:
            return 1e10, np.zeros(3)
        return float(np.log(noise**2 * size / n)), -2.0 * np.array(moved) / size

    return loss


def exact(
    data: Dataset,
    *,
    rows: int,
    mode: str,
    noise: float,
    most: float,
    protocol: str,
    limit: float = LIMIT,
    device: str | None = None,
) -> dict[str, Any]:
    """Return a run of NRMF with the distance kernel: RMSE, seconds, weights and evaluations of each batch."""
    stream = stream_of(data, rows)
    distances, weights, alpha = Distances(stream.X, device), np.array(WEIGHTS), None
    Y, log = np.zeros(rows), _Log(stream)
    for start in range(0, rows, BATCH):
        began, part, tuned = time.perf_counter(), slice(start, start + BATCH), 0
        distances.extend(part)
        mean = None if alpha is None else distances.predict(weights, part, alpha)
        Y[part] = stream.y[part] if mean is None or protocol == "labels known" else mean
        y = distances.array(Y[: part.stop])
        if mode == "continuous" or (mode == "initial" and start < INITIAL * BATCH):
            weights, tuned = minimise(training_loss(distances, y, noise), weights, most, limit)
        alpha = distances.solver(weights, noise, part.stop)(y)
        if not log.add(part, mean, weights, tuned, time.perf_counter() - began):
            break
    return log.content


class _Log:
    """What a run records after each batch."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.content: dict[str, Any] = {"rmse": [], "seconds": [], "weights": [], "evaluations": []}

    def add(
        self, part: slice, mean: np.ndarray | None, weights: np.ndarray, tuned: int, seconds: float
    ) -> bool:
        """Record a batch; return whether its predictions are still numbers to go on with."""
        alive = mean is None or bool(np.isfinite(mean).all() and (np.abs(mean) < DIVERGED).all())
        error = None
        if mean is not None and alive:
            error = float(self._stream.scale * np.sqrt(np.mean((mean - self._stream.y[part]) ** 2)))
        for name, value in zip(
            self.content, (error, seconds, [float(w) for w in weights], tuned), strict=True
        ):
            self.content[name].append(value)
        return alive


# BRMF and SRMF


@dataclass
class Parts:
    """Factors of D and D∘D, and what training and prediction need of them (Algorithm 5, steps 1 to 16)."""

    D: np.ndarray
    kind: str
    seed: int
    found: tuple[Factor, ...] = ()

    def advance(self, end: int) -> None:
        """Factor both powers for the first `end` rows (steps 4 to 10)."""
        step = end // BATCH - 1
        powers = (self.D[:end, :end], self.D[:end, :end] ** 2)
        old = self.found or (None, None)
        self.found = tuple(
            next_factor(power, past, self.kind, (self.seed, step, i))
            for i, (power, past) in enumerate(zip(powers, old, strict=True))
        )

    def features(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return U|S|^½ of both powers side by side (n, r), the signs (r,) and the power of each column (r,)."""
        columns = [f.U * np.abs(f.S) ** 0.5 for f in self.found]
        signs = np.concatenate([np.sign(f.S) for f in self.found])
        return np.hstack(columns), signs, np.repeat([1, 2], [f.rank for f in self.found])

    def tune(self, y: np.ndarray, noise: float, most: float, weights: np.ndarray) -> tuple[np.ndarray, int]:
        """Minimise the training error (steps 11 to 14), with M = A + σ²J in the place of eqs. (6) and (7)."""
        Phi, signs, power = self.features()
        A, c, energy, n = Phi.T @ Phi, Phi.T @ y, float(y @ y), y.size

        def loss(a: np.ndarray) -> tuple[float, np.ndarray]:
            total, root = a[0] + noise, np.sqrt(a[power])
            inner = root[:, None] * A * root[None, :]
            lu = scipy.linalg.lu_factor(inner + np.diag(total * signs))
            w = scipy.linalg.lu_solve(lu, root * c)
            # α = (y − ΦRw)/s and β = (α − ΦRv)/s, with R = diag(root) and s = a₀ + σ².
            alpha = (c - A @ (root * w)) / total
            size = (energy - 2.0 * float((root * c) @ w) + float(w @ inner @ w)) / total**2
            v = scipy.linalg.lu_solve(lu, root * alpha)
            beta = (alpha - A @ (root * v)) / total
            by_noise = (size - float((root * alpha) @ v)) / total
            moved = [by_noise, *(float((signs * alpha * beta)[power == i].sum()) for i in (1, 2))]
            if not np.isfinite(size) or not size > 0:
                return 1e10, np.zeros(3)
            return float(np.log(noise**2 * size / n)), -2.0 * np.array(moved) / size

        return minimise(loss, weights, most)

    def predict(
        self, y: np.ndarray, noise: float, weights: np.ndarray, rows: slice, cross: str
    ) -> np.ndarray:
        """Return eq. (1) for `rows`, with the exact or the projected cross-covariance."""
        Phi, signs, power = self.features()
        root, total = np.sqrt(weights[power]), weights[0] + noise
        w = np.linalg.solve(
            root[:, None] * (Phi.T @ Phi) * root[None, :] + np.diag(total * signs), root * (Phi.T @ y)
        )
        D = self.D[rows, : rows.start]
        if cross == "exact":
            alpha = (y - Phi @ (root * w)) / total
            return np.asarray(((weights[2] * D + weights[1]) * D) @ alpha)
        projections = [
            (block @ f.U) * (np.sign(f.S) / np.abs(f.S) ** 0.5)
            for block, f in zip((D, D**2), self.found, strict=True)
        ]
        return np.asarray((np.hstack(projections) * root) @ w)


def next_factor(
    matrix: np.ndarray, past: Factor | None, kind: str, seed: tuple[int, ...], rank: int = RANK
) -> Factor:
    """Return the factor of a symmetric matrix (n, n) whose first rows have the factor `past`, if any."""
    size = rank, OVERSAMPLING
    if past is None or kind == "batch":
        return randomized_eigh(matrix, *size, seed)
    n = past.U.shape[0]
    B, C = matrix[:n, n:], matrix[n:, n:]
    if kind == "printed":
        return bordered_eigh(past, B, C, *size, seed=seed)
    step = sequential_step(past.S, past.U.T @ B, C, *size, seed=seed)
    return Factor(step.basis(past.U), step.S)


def factored(
    data: Dataset,
    *,
    rows: int,
    kind: str,
    cross: str,
    noise: float,
    most: float,
    protocol: str,
    seed: int,
) -> dict[str, Any]:
    """Return a run of Algorithm 5 for ten batches and Algorithm 4 after them, as `exact` does."""
    stream = stream_of(data, rows)
    D = cdist(stream.X, stream.X)
    parts, weights, log = Parts(D, kind, seed), np.array(WEIGHTS), _Log(stream)
    Y, predict = np.zeros(len(stream.y)), None
    later: Iterator[Any] | None = None
    for start in range(0, len(stream.y), BATCH):
        began, part, tuned = time.perf_counter(), slice(start, start + BATCH), 0
        mean = None if predict is None else predict(part)
        Y[part] = stream.y[part] if mean is None or protocol == "labels known" else mean
        if not log.add(part, mean, weights, 0, 0.0):
            break
        if start < INITIAL * BATCH:
            parts.advance(part.stop)
            weights, tuned = parts.tune(Y[: part.stop], noise, most, weights)
            y, fixed = Y[: part.stop], weights

            def predict(rows: slice, y: np.ndarray = y, fixed: np.ndarray = fixed) -> np.ndarray:
                return parts.predict(y, noise, fixed, rows, cross)
        else:
            if later is None:
                K = (weights[2] * D + weights[1]) * D
                later = _kernel_factors(K, kind, seed, part.stop)
            predict = _predictor(K, next(later), Y[: part.stop], weights[0] + noise, cross)
        log.content["weights"][-1] = [float(w) for w in weights]
        log.content["evaluations"][-1], log.content["seconds"][-1] = tuned, time.perf_counter() - began
    return log.content


def _kernel_factors(K: np.ndarray, kind: str, seed: int, end: int) -> Iterator[Factor]:
    """Yield the factor of K for the first `end` rows, then after each further batch (Algorithm 4)."""
    found = None
    while True:
        found = next_factor(K[:end, :end], found, kind, (seed, end))
        yield found
        end += BATCH


def _predictor(
    K: np.ndarray, factor: Factor, y: np.ndarray, noise: float, cross: str
) -> Callable[[slice], np.ndarray]:
    """Return eq. (1) for later rows, from the factor of K for those learned."""
    weights = (factor.U.T @ y) / (factor.S + noise)

    def predict(rows: slice) -> np.ndarray:
        block = K[rows, : rows.start]
        mean = (block @ factor.U) @ weights
        if cross == "exact":
            mean = mean + block @ (y - factor.U @ (factor.U.T @ y)) / noise
        return np.asarray(mean)

    return predict
