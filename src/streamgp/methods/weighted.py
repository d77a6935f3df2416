"""Algorithm 5: a factor for each part of a kernel that is affine in its weights, so that these cost no row to tune.

Each part's matrix (the Hadamard powers of the distance matrix, say) has its own factor, updated as in `srmf` or
found anew as in `brmf`. The factors' bases are turned by small matrices only, and with them the products between
bases: the statistics of all parts together are kept up in O(r²(r + b)), whatever n.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Self

import numpy as np

from .._arrays import (
    Array,
    asarray_like,
    cast,
    double,
    eye,
    gram,
    in_parallel,
    namespace,
    row_parts,
    to_host,
    zeros,
)
from ..gp.features import Quadratic
from ..gp.mixture import Mixture
from ..gp.statistics import LeftOut, NormalEquations, Posterior
from ..kernels import Affine, DistancePolynomial, Kernel
from ..lowrank import projected_core, randomized_eigh
from .base import Prediction, Recent, last_left_out
from .spectral import KernelMatrix, SpectralModel, misses


@dataclass(frozen=True)
class Part:
    """One part's matrix as B diag(S) Bᵀ.

    Attributes
    ----------
    basis : (n, k) or None
        Orthonormal; None for a part whose features are known in closed form (`quadratic`).
    S : (k,)
        Eigenvalues, or the signs of the closed form.
    projected_y : (k, q)
        Bᵀy.
    prior_trace : float
        The trace of the part's matrix.
    """

    basis: Array | None
    S: Array
    projected_y: Array
    prior_trace: float
    quadratic: Quadratic | None = None

    @property
    def root(self) -> Array:
        """|S|^½, shape (k,)."""
        xp = namespace(self.S)
        return xp.sqrt(xp.abs(double(self.S)))


@dataclass(frozen=True)
class _Turn:
    """How a basis changes with a batch: B' = [B·top; bottom], and its new S."""

    top: Array
    bottom: Array
    S: Array


@dataclass(frozen=True)
class _OnePart:
    """One part of an affine kernel, as a kernel."""

    kernel: Affine
    number: int

    def block(self, X: Array, Y: Array | None = None) -> Array:
        return self.kernel.part_blocks(X, Y, [self.number])[0]


@dataclass(frozen=True)
class AffineModel:
    """A GP whose kernel matrix is Σᵢ aᵢ Bᵢ diag(Sᵢ) Bᵢᵀ; changing the weights a is free.

    Attributes
    ----------
    X : (n, d), y : (n, q)
    parts : one for each weight that is not zero
    products : dictionary
        BᵢᵀBⱼ for i ≤ j.
    """

    kernel: Affine
    noise: float
    max_rank: int
    oversampling: int
    seed: int
    sequential: bool
    X: Array
    y: Array
    parts: tuple[Part, ...]
    products: dict[tuple[int, int], Array]
    step: int = 0
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def empty(
        cls,
        kernel: Affine,
        noise: float,
        max_rank: int,
        oversampling: int,
        seed: int,
        X: Array,
        y: Array,
        *,
        sequential: bool,
    ) -> Self:
        """Give the model that has learned nothing; X (·, d) tells where the data lies, y (·, q) its outputs."""
        none, no_y = zeros((0, 0), X), double(y[:0, :])
        closed = kernel.quadratic if isinstance(kernel, DistancePolynomial) else None
        parts = []
        for i in range(kernel.amounts.size):
            if i == closed:
                map_ = Quadratic.about(double(X))
                k = X.shape[1] + 2
                parts.append(Part(None, map_.signs(), zeros((k, y.shape[1]), no_y), 0.0, map_))
            else:
                parts.append(Part(none, X[:0, 0], no_y, 0.0))
        products = {
            (i, j): zeros((a.S.shape[0], b.S.shape[0]), no_y)
            for i, a in enumerate(parts)
            for j, b in enumerate(parts)
            if i <= j
        }
        return cls(
            kernel,
            noise,
            max_rank,
            oversampling,
            seed,
            sequential,
            X[:0, :],
            no_y,
            tuple(parts),
            products,
        )

    @property
    def count(self) -> float:
        """The number of rows learned."""
        return int(self.X.shape[0])

    @property
    def rank(self) -> int:
        """The number of features of all parts."""
        return sum(int(p.S.shape[0]) for p in self.parts)

    @property
    def prior_trace(self) -> float:
        """See Model."""
        return float(sum(a * p.prior_trace for a, p in zip(self.kernel.amounts, self.parts, strict=True)))

    @property
    def trace_error(self) -> float:
        """See Model."""
        return self._posterior.statistics.trace_error

    @property
    def largest_batch(self) -> int | None:
        """See SpectralModel."""
        return 2000 if self.sequential else None

    @cached_property
    def _open(self) -> list[int]:
        """The numbers of the parts that have no closed form."""
        return [i for i, part in enumerate(self.parts) if part.quadratic is None]

    # Learning

    def observe(self, X: Array, y: Array) -> Self:
        """See Model. Kernel entries as `srmf` or `brmf`, for every part but the squared distance."""
        xp, y = namespace(X), double(y)
        rows, targets = xp.concat([self.X, X], axis=0), xp.concat([self.y, y], axis=0)
        sequential = self.sequential and not self._misses(X)
        turns = self._turns(X) if sequential else self._anew(rows)
        if sequential:
            products = {
                (i, j): xp.matrix_transpose(turns[i].top) @ G @ turns[j].top
                + xp.matrix_transpose(turns[i].bottom) @ turns[j].bottom
                for (i, j), G in self.products.items()
            }
        else:
            products = {
                (i, j): xp.matrix_transpose(turns[i].bottom) @ turns[j].bottom for i, j in self.products
            }
        diagonals = [float(xp.sum(double(d))) for d in self.kernel.part_diags(X)]
        parts = []
        for part, turn, diagonal in zip(self.parts, turns, diagonals, strict=True):
            if sequential:
                projected = xp.matrix_transpose(turn.top) @ part.projected_y
                projected = projected + xp.matrix_transpose(turn.bottom) @ y
            else:
                projected = xp.matrix_transpose(turn.bottom) @ targets
            basis = None if part.basis is None else self._basis(part.basis, turn, X, sequential)
            parts.append(Part(basis, turn.S, projected, part.prior_trace + diagonal, part.quadratic))
        return replace(
            self,
            X=rows,
            y=targets,
            parts=tuple(parts),
            products=products,
            step=self.step + 1,
            recent=Recent(),
        )

    def _misses(self, X: Array) -> bool:
        """See SpectralModel; of any part."""
        n = int(self.count)
        ranks = {i: int(self.parts[i].S.shape[0]) for i in self._open}
        few = n <= self.max_rank + self.oversampling
        short = [i for i, rank in ranks.items() if rank < min(n, self.max_rank) and (few or not rank)]
        return any(
            misses(self.parts[i].basis, _OnePart(self.kernel, i), self.kernel, self.X, X) for i in short
        )

    def _basis(self, basis: Array, turn: _Turn, X: Array, sequential: bool) -> Array:
        xp = namespace(X)
        bottom = cast(turn.bottom, X.dtype)
        if not sequential:
            return bottom
        top = cast(turn.top, X.dtype)
        pieces = in_parallel(lambda r: basis[r, :] @ top, row_parts(basis.shape[0], basis), basis)
        return xp.concat([*pieces, bottom], axis=0)

    def _turns(self, X: Array) -> list[_Turn]:
        """Take the projected step of Algorithm 3 for each part."""
        xp = namespace(X)
        projections = self._project(X) if self.count else [zeros((X.shape[0], 0), X) for _ in self._open]
        blocks = self.kernel.part_blocks(X, None, self._open)
        turns: dict[int, _Turn] = {}
        for i, projection, block in zip(self._open, projections, blocks, strict=True):
            k = self.parts[i].S.shape[0]
            core = projected_core(
                double(self.parts[i].S),
                xp.matrix_transpose(double(projection)),
                double(block),
                self.max_rank,
                self.oversampling,
                (self.seed, self.step, i),
                definite=self.kernel.positive_semidefinite,
            )
            turns[i] = _Turn(core.U[:k, :], core.U[k:, :], core.S)
        return [turns[i] if i in turns else self._closed_turn(i, X) for i in range(len(self.parts))]

    def _closed_turn(self, i: int, X: Array) -> _Turn:
        part = self.parts[i]
        assert part.quadratic is not None
        return _Turn(eye(part.S.shape[0], part.projected_y), part.quadratic.transform(double(X)), part.S)

    def _anew(self, rows: Array) -> list[_Turn]:
        """Factor each part from scratch, as Algorithm 2 does."""
        turns = []
        for i, part in enumerate(self.parts):
            if part.quadratic is not None:
                turns.append(self._closed_turn(i, rows))
                continue
            factor = randomized_eigh(
                KernelMatrix(_OnePart(self.kernel, i), rows),
                self.max_rank,
                self.oversampling,
                (self.seed, self.step, i),
                like=rows,
                definite=self.kernel.positive_semidefinite,
            )
            turns.append(_Turn(zeros((0, 0), rows), double(factor.U), factor.S))
        return turns

    def retuned(self, kernel: Kernel, noise: float) -> Self:
        """See Model; nothing but numbers changes."""
        assert isinstance(kernel, Affine)
        return replace(self, kernel=kernel, noise=noise)

    def settled(self) -> SpectralModel:
        """Give the model of the kernel's own factor, for weights that stay as they are (Algorithm 4)."""
        model = SpectralModel.empty(
            self.kernel, self.noise, self.max_rank, self.oversampling, self.seed, self.X, self.y,
            sequential=self.sequential, literal=False,
        )  # fmt: skip
        return replace(model, X=self.X, y=self.y).retuned(self.kernel, self.noise)

    def left_out(self, X: Array, y: Array, numbers: Array) -> LeftOut | None:
        """See Model."""
        xp, columns = namespace(X), []
        for amount, part in zip(self.kernel.amounts, self.parts, strict=True):
            if part.quadratic is None:
                F = double(xp.take(part.basis, numbers, axis=0)) * part.root[None, :]
            else:
                F = part.quadratic.transform(double(X))
            columns.append(F * float(amount) ** 0.5)
        return self._posterior.left_out(xp.concat(columns, axis=1), y, self.kernel.diag(X), self.noise)

    def recent_left_out(self) -> LeftOut | None:
        """See Model."""
        return last_left_out(self, self.X, self.y)

    # Predicting

    def _project(self, X: Array) -> list[Array]:
        """Give kᵢ(X, rows)·Bᵢ of every part without closed form; distances are computed once for all powers."""

        def compute(X: Array) -> list[Array]:
            def piece(rows: slice) -> list[Array]:
                blocks = self.kernel.part_blocks(X, self.X[rows, :], self._open)
                return [
                    block @ self.parts[i].basis[rows, :]  # type: ignore[index]
                    for i, block in zip(self._open, blocks, strict=True)
                ]

            pieces = in_parallel(piece, row_parts(self.X.shape[0], self.X), self.X)
            return reduce(lambda total, p: [a + b for a, b in zip(total, p, strict=True)], pieces)

        return self.recent.of(X, compute)

    def _features(self, X: Array) -> Array:
        xp = namespace(X)
        projections = dict(zip(self._open, self._project(X), strict=True))
        columns = []
        for i, (amount, part) in enumerate(zip(self.kernel.amounts, self.parts, strict=True)):
            if part.quadratic is None:
                S = double(part.S)
                F = double(projections[i]) * (xp.sign(S) / part.root)[None, :]
            else:
                F = part.quadratic.transform(double(X))
            columns.append(F * float(amount) ** 0.5)
        return xp.concat(columns, axis=1)

    @cached_property
    def _unit_statistics(self) -> tuple[Array, Array]:
        """ΦᵀΦ (r, r) and Φᵀy (r, q) of all parts, for weights of one."""
        xp = namespace(self.y)

        def between(i: int, j: int) -> Array:
            G = self.products[i, j] if i <= j else xp.matrix_transpose(self.products[j, i])
            return self.parts[i].root[:, None] * G * self.parts[j].root[None, :]

        span = range(len(self.parts))
        A = xp.concat([xp.concat([between(i, j) for j in span], axis=1) for i in span], axis=0)
        moment = xp.concat([p.root[:, None] * p.projected_y for p in self.parts], axis=0)
        return 0.5 * (A + xp.matrix_transpose(A)), moment

    @cached_property
    def _signs(self) -> Array:
        xp = namespace(self.y)
        return xp.concat([xp.sign(double(p.S)) for p in self.parts])

    @property
    def mixture(self) -> Mixture:
        """All that weights and noise can be judged by, on the host."""
        A, moment = self._unit_statistics
        numbers = np.concatenate([np.full(int(p.S.shape[0]), i) for i, p in enumerate(self.parts)])
        energy = float(np.trace(to_host(gram(self.y))))
        return Mixture(to_host(A), to_host(moment), energy, self.count, to_host(self._signs), numbers)

    @cached_property
    def _posterior(self) -> Posterior:
        A, moment = self._unit_statistics
        xp, signs = namespace(A), self._signs
        amounts = np.concatenate(
            [np.full(int(p.S.shape[0]), a) for a, p in zip(self.kernel.amounts, self.parts, strict=True)]
        )
        root = xp.sqrt(asarray_like(amounts, A))
        statistics = NormalEquations(
            root[:, None] * A * root[None, :],
            root[:, None] * moment,
            gram(self.y),
            self.count,
            self.prior_trace,
            None if bool(xp.all(signs > 0)) else signs,
        )
        return statistics.solve(self.noise)

    def predict(self, X: Array, *, variance: bool, covariance: bool) -> Prediction:
        """See Model. n·m kernel entries; O(n m r)."""
        F, posterior = self._features(X), self._posterior
        return Prediction.by(posterior, F, self.kernel, X, variance=variance, covariance=covariance)

    def log_evidence(self) -> float:
        """See Model; of the factors, not of the kernel matrix."""
        return self._posterior.log_evidence
