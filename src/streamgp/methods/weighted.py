"""Algorithm 5: a factor for each part of a kernel Σᵢ aᵢ kᵢ, so that tuning the weights a touches no row.

Each part's matrix (the Hadamard powers of the distance matrix, say) has its own factor, updated as in `srmf` or
computed anew as in `brmf`. A step multiplies the bases by small matrices only, and with them the products between
bases: the statistics of all parts together are kept in O(r²(r + b)), whatever n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Self, cast

import numpy as np

from .._arrays import Array, asarray_like, double, eye, gram, in_parallel, namespace, row_parts, zeros
from ..gp.features import Quadratic
from ..gp.normal_equations import NormalEquations
from ..gp.posterior import LeftOut, Posterior
from ..kernels import Affine, Kernel
from ..lowrank import Step, randomized_eigh, sequential_step
from .base import Prediction, Recent
from .spectral import KernelMatrix, SpectralConfig, SpectralState, SteppedState, misses


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

    def without_rows(self) -> Part:
        """Return the part before any row was learned."""
        if self.basis is None:
            return replace(self, projected_y=0.0 * self.projected_y, prior_trace=0.0)
        return Part(self.basis[:0, :0], self.S[:0], self.projected_y[:0, :], 0.0)

    def advanced(self, step: Step, y: Array, trace: float) -> Part:
        """Return the part after a step that learned the targets y (b, q)."""
        basis = None if self.basis is None else step.basis(self.basis)
        projected = step.project(self.projected_y, y)
        return replace(
            self, basis=basis, S=step.S, projected_y=projected, prior_trace=self.prior_trace + trace
        )


@dataclass(frozen=True)
class _OnePart:
    """One part of an affine kernel, as a kernel."""

    kernel: Affine
    number: int

    def block(self, X: Array, Y: Array | None = None) -> Array:
        return self.kernel.part_blocks(X, Y, [self.number])[0]


@dataclass(frozen=True)
class WeightedState(SteppedState):
    """A GP whose kernel matrix is Σᵢ aᵢ Bᵢ diag(Sᵢ) Bᵢᵀ; changing the weights a is free.

    Attributes
    ----------
    X : (n, d), y : (n, q)
    parts : one for each weight that is not zero
    products : dictionary
        BᵢᵀBⱼ for i ≤ j.
    """

    config: SpectralConfig
    kernel: Affine
    noise: float
    X: Array
    y: Array
    parts: tuple[Part, ...]
    products: dict[tuple[int, int], Array]
    step: int = 0
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def empty(cls, config: SpectralConfig, kernel: Affine, noise: float, X: Array, y: Array) -> Self:
        """Return the state that has learned nothing, on the device of X (·, d); y (·, q) has its outputs."""
        none, no_y = zeros((0, 0), X), double(y[:0, :])
        parts = []
        for i in range(kernel.amounts.size):
            if i == kernel.quadratic:
                map_ = Quadratic.about(double(X))
                projected = zeros((X.shape[1] + 2, y.shape[1]), no_y)
                parts.append(Part(None, map_.signs(), projected, 0.0, map_))
            else:
                parts.append(Part(none, X[:0, 0], no_y, 0.0))
        return cls(config, kernel, noise, X[:0, :], no_y, parts=tuple(parts), products=_no_products(parts))

    @cached_property
    def open_parts(self) -> list[int]:
        """The numbers of the parts that have no closed form."""
        return [i for i, part in enumerate(self.parts) if part.quadratic is None]

    # Learning

    def advanced(self, X: Array, y: Array) -> Self:
        """Take one step for each part (Algorithm 5, steps 4 to 10); from scratch it is the step from no rows."""
        xp, past, new_y = namespace(X), cast(WeightedState, self), y
        all_X, all_y = xp.concat([self.X, X], axis=0), xp.concat([self.y, y], axis=0)
        if self.config.sequential and not _misses(self, X):
            steps = _sequential_steps(self, X)
        else:
            past, new_y = _without_rows(self), all_y
            steps = _steps_from_scratch(past, all_X)
        products = {
            (i, j): xp.matrix_transpose(steps[i].top) @ G @ steps[j].top
            + xp.matrix_transpose(double(steps[i].bottom)) @ double(steps[j].bottom)
            for (i, j), G in past.products.items()
        }
        traces = [float(xp.sum(double(d))) for d in self.kernel.part_diags(X)]
        if past is not self:
            traces = [t + part.prior_trace for t, part in zip(traces, self.parts, strict=True)]
        parts = tuple(
            part.advanced(step, new_y, trace)
            for part, step, trace in zip(past.parts, steps, traces, strict=True)
        )
        return replace(
            self, X=all_X, y=all_y, parts=parts, products=products, step=self.step + 1, recent=Recent()
        )

    def retuned(self, kernel: Kernel, noise: float) -> Self:
        """See State; only the weights change, no row is touched."""
        return replace(self, kernel=cast(Affine, kernel), noise=noise, recent=Recent())

    def with_fixed_weights(self) -> SpectralState:
        """Return the state of the kernel's own factor, cheaper for weights that stay as they are (Algorithm 4)."""
        empty = SpectralState.empty(self.config, self.kernel, self.noise, self.X, self.y)
        return empty.update(self.X, self.y)

    def left_out(self, X: Array, y: Array, numbers: Array) -> LeftOut | None:
        """See State."""
        xp, columns = namespace(X), []
        for amount, part in zip(self.kernel.amounts, self.parts, strict=True):
            if part.quadratic is None:
                F = double(xp.take(part.basis, numbers, axis=0)) * part.root[None, :]
            else:
                F = part.quadratic.transform(double(X))
            columns.append(F * float(amount) ** 0.5)
        return self.posterior.left_out(xp.concat(columns, axis=1), y, self.kernel.diag(X))

    # Predicting

    def predict(self, X: Array, *, variance: bool = True, covariance: bool = False) -> Prediction:
        """See State. n·m kernel entries; O(n m r)."""
        if not covariance:
            return self.recent.predict(X, self._predict, variance=variance)
        F = self._features(X, self._projections(X))
        return Prediction.by(self.posterior, F, self.kernel, X, variance=variance, covariance=True)

    def _predict(self, X: Array, features: list[Array] | None, variance: bool) -> Prediction:
        """Predict; what is kept of rows are the projections of their kernel blocks, which the next step needs."""
        projections = self._projections(X) if features is None else features
        F = self._features(X, projections)
        found = Prediction.by(self.posterior, F, self.kernel, X, variance=variance)
        return replace(found, features=projections)

    def _projections(self, X: Array) -> list[Array]:
        """Return kᵢ(X, rows)·Bᵢ of every part without closed form; distances are computed once for all powers."""

        def piece(rows: slice) -> list[Array]:
            blocks = self.kernel.part_blocks(X, self.X[rows, :], self.open_parts)
            return [
                block @ self.parts[i].basis[rows, :]  # type: ignore[index]
                for i, block in zip(self.open_parts, blocks, strict=True)
            ]

        pieces = in_parallel(piece, row_parts(self.X.shape[0], self.X), self.X)
        return reduce(lambda total, p: [a + b for a, b in zip(total, p, strict=True)], pieces)

    def _features(self, X: Array, projections: list[Array]) -> Array:
        """Return the features of the rows of X (m, d); shape (m, r)."""
        xp, of_part = namespace(X), dict(zip(self.open_parts, projections, strict=True))
        columns = []
        for i, (amount, part) in enumerate(zip(self.kernel.amounts, self.parts, strict=True)):
            if part.quadratic is None:
                F = double(of_part[i]) * (xp.sign(double(part.S)) / part.root)[None, :]
            else:
                F = part.quadratic.transform(double(X))
            columns.append(F * float(amount) ** 0.5)
        return xp.concat(columns, axis=1)

    @cached_property
    def weight_statistics(self) -> tuple[NormalEquations, np.ndarray]:
        """See State."""
        xp = namespace(self.y)

        def between(i: int, j: int) -> Array:
            G = self.products[i, j] if i <= j else xp.matrix_transpose(self.products[j, i])
            return self.parts[i].root[:, None] * G * self.parts[j].root[None, :]

        span = range(len(self.parts))
        A = xp.concat([xp.concat([between(i, j) for j in span], axis=1) for i in span], axis=0)
        moment = xp.concat([p.root[:, None] * p.projected_y for p in self.parts], axis=0)
        signs = xp.concat([xp.sign(double(p.S)) for p in self.parts])
        trace = sum(p.prior_trace for p in self.parts)
        numbers = np.concatenate([np.full(int(p.S.shape[0]), i) for i, p in enumerate(self.parts)])
        A = 0.5 * (A + xp.matrix_transpose(A))
        return NormalEquations(A, moment, gram(self.y), self.X.shape[0], trace, signature=signs), numbers

    @cached_property
    def posterior(self) -> Posterior:
        """See StatisticsState; M = A + σ²J stands for eqs. (6) and (7)."""
        unit, numbers = self.weight_statistics
        xp, signs, amounts = namespace(unit.gram), unit.signature, self.kernel.amounts
        root = xp.sqrt(asarray_like(amounts[numbers], unit.gram))
        statistics = replace(
            unit,
            gram=root[:, None] * unit.gram * root[None, :],
            moment=root[:, None] * unit.moment,
            prior_trace=float(sum(a * p.prior_trace for a, p in zip(amounts, self.parts, strict=True))),
            signature=signs if signs is not None and bool(xp.any(signs < 0)) else None,
        )
        return Posterior(statistics, self.noise)


def _without_rows(state: WeightedState) -> WeightedState:
    """Return the state that has learned nothing; closed forms keep their origin, draws go on."""
    parts = tuple(part.without_rows() for part in state.parts)
    return replace(state, X=state.X[:0, :], y=state.y[:0, :], parts=parts, products=_no_products(parts))


def _no_products(parts: Sequence[Part]) -> dict[tuple[int, int], Array]:
    return {
        (i, j): zeros((a.S.shape[0], b.S.shape[0]), a.projected_y)
        for i, a in enumerate(parts)
        for j, b in enumerate(parts)
        if i <= j
    }


def _misses(state: WeightedState, X: Array) -> bool:
    """See SpectralState; of any part."""
    config, n = state.config, state.X.shape[0]
    ranks = {i: int(state.parts[i].S.shape[0]) for i in state.open_parts}
    few = n <= config.rank + config.oversampling
    short = [i for i, rank in ranks.items() if rank < min(n, config.rank) and (few or not rank)]
    return not state.kernel.positive_semidefinite and any(
        misses(state.parts[i].basis, _OnePart(state.kernel, i), state.X, X) for i in short
    )


def _sequential_steps(state: WeightedState, X: Array) -> list[Step]:
    """Return the projected step of Algorithm 3 for each part."""
    xp, config, definite = namespace(X), state.config, state.kernel.positive_semidefinite
    none = [zeros((X.shape[0], 0), X) for _ in state.open_parts]
    projections = state.recent.features(X, state._projections) if state.X.shape[0] else none
    blocks, steps = state.kernel.part_blocks(X, None, state.open_parts), {}
    for i, projection, block in zip(state.open_parts, projections, blocks, strict=True):
        UtB, S = xp.matrix_transpose(double(projection)), double(state.parts[i].S)
        seed = (config.seed, state.step, i)
        steps[i] = sequential_step(
            S, UtB, double(block), config.rank, config.oversampling, seed=seed, definite=definite
        )
    return [steps[i] if i in steps else _closed_step(state.parts[i], X) for i in range(len(state.parts))]


def _closed_step(part: Part, X: Array) -> Step:
    """Return the step of a part in closed form: its features do not change, rows are added."""
    assert part.quadratic is not None
    return Step(eye(part.S.shape[0], part.projected_y), part.quadratic.transform(double(X)), part.S)


def _steps_from_scratch(state: WeightedState, X: Array) -> list[Step]:
    """Factor each part from scratch (Algorithm 2) for all rows X (n, d); this state has learned nothing."""
    config, steps = state.config, []
    for i, part in enumerate(state.parts):
        if part.quadratic is not None:
            steps.append(_closed_step(state.parts[i], X))
            continue
        factor = randomized_eigh(
            KernelMatrix(_OnePart(state.kernel, i), X),
            config.rank,
            config.oversampling,
            (config.seed, state.step, i),
            like=X,
            definite=state.kernel.positive_semidefinite,
        )
        steps.append(Step.from_scratch(factor))
    return steps
