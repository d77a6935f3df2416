"""A factor for each part of a kernel Σᵢ aᵢ kᵢ: what Algorithm 5 keeps, projected (`weighted`) or as printed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, cast

import numpy as np

from .._arrays import Array, asarray_like, double, eye, gram, namespace, zeros
from ..gp.features import Quadratic
from ..gp.normal_equations import NormalEquations
from ..gp.outputs import per_output
from ..gp.posterior import Posterior
from ..kernels import Affine, Kernel
from ..lowrank import Step, randomized_eigh
from ..row_weights import joined_weights, summed, whitened
from .recent import Recent
from .spectral import KernelMatrix, SpectralConfig, SpectralState, SteppedState


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

    @classmethod
    def empty(cls, X: Array, y: Array) -> Part:
        """Return a part without closed form that has learned nothing; X (·, d) and y (·, q) give place and dtype."""
        return cls(zeros((0, 0), X), X[:0, 0], double(y[:0, :]), 0.0)

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

    def closed_step(self, X: Array, weights: Array | None) -> Step:
        """Return the step of a part in closed form: its features do not change, rows are added."""
        assert self.quadratic is not None
        rows = whitened(self.quadratic.transform(double(X)), weights)
        return Step(eye(self.S.shape[0], self.projected_y), rows, self.S)


@dataclass(frozen=True)
class OnePart:
    """One part of an affine kernel, as a kernel."""

    kernel: Affine
    number: int

    def block(self, X: Array, Y: Array | None = None) -> Array:
        """See Kernel."""
        return self.kernel.part_blocks(X, Y, [self.number])[0]


@dataclass(frozen=True)
class PartwiseState(SteppedState):
    """A GP whose kernel matrix is Σᵢ aᵢ Bᵢ diag(Sᵢ) Bᵢᵀ; changing the weights a is free.

    Attributes
    ----------
    X : (n, d), y : (n, q)
    parts : one for each weight that is not zero
    products : dictionary
        BᵢᵀBⱼ for i ≤ j.
    step : int
        Steps so far; seeds the next one.
    """

    config: SpectralConfig
    kernel: Affine
    noise: np.ndarray
    X: Array
    y: Array
    parts: tuple[Part, ...]
    products: dict[tuple[int, int], Array]
    step: int = 0
    weights: Array | None = None
    recent: Recent = field(default_factory=Recent, compare=False)

    # Learning

    @abstractmethod
    def steps(self, X: Array, weights: Array | None) -> tuple[Self, list[Step]]:
        """Return the state that a step starts from, and the step of each part that learns the rows X (b, d).

        The state is this one, or, for factors that are computed from scratch, the one without rows.
        """

    def advanced(self, X: Array, y: Array, weights: Array | None) -> Self:
        """Take one step for each part (Algorithm 5, steps 4 to 10)."""
        xp = namespace(X)
        all_X, all_y = xp.concat([self.X, X], axis=0), xp.concat([self.y, y], axis=0)
        all_weights = joined_weights([(self.weights, self.X), (weights, X)])
        past, steps = self.steps(X, weights)
        products = {
            (i, j): xp.matrix_transpose(steps[i].top) @ G @ steps[j].top
            + xp.matrix_transpose(double(steps[i].bottom)) @ double(steps[j].bottom)
            for (i, j), G in past.products.items()
        }
        new_y, diagonals = whitened(y, weights), self.kernel.part_diags(X)
        traces = [summed(double(diagonal), weights) for diagonal in diagonals]
        if past is not self:
            new_y = whitened(all_y, all_weights)
            traces = [t + p.prior_trace for t, p in zip(traces, self.parts, strict=True)]
        parts = tuple(
            part.advanced(step, new_y, trace)
            for part, step, trace in zip(past.parts, steps, traces, strict=True)
        )
        rows = replace(self, X=all_X, y=all_y, weights=all_weights)
        return replace(rows, parts=parts, products=products, step=self.step + 1, recent=Recent())

    def without_rows(self) -> Self:
        """Return the state that has learned nothing; closed forms keep their origin, draws go on."""
        parts = tuple(part.without_rows() for part in self.parts)
        none = replace(self, X=self.X[:0, :], y=self.y[:0, :], weights=None)
        return replace(none, parts=parts, products=no_products(parts))

    def rescaled(self, factors: np.ndarray) -> Self:
        """See State; O(n q)."""
        here = asarray_like(factors, self.y)[None, :]
        parts = tuple(replace(part, projected_y=part.projected_y * here) for part in self.parts)
        return replace(self, y=self.y * here, parts=parts, recent=Recent())

    def retuned(self, kernel: Kernel, noise: float | np.ndarray) -> Self:
        """See State; only the weights change, no row is touched."""
        noise = per_output(noise, self.y.shape[1])
        return replace(self, kernel=cast(Affine, kernel), noise=noise, recent=Recent())

    def with_fixed_weights(self) -> SpectralState:
        """Return the state of the kernel's own factor, cheaper for weights that stay as they are (Algorithm 4)."""
        empty = SpectralState.empty(self.config, self.kernel, self.noise, self.X, self.y)
        return empty.update(self.X, self.y, self.weights)

    # Statistics

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
        energy, (surplus, logs), n = gram(whitened(self.y, self.weights)), self.surplus, self.X.shape[0]
        count = n if self.weights is None else n - surplus
        statistics = NormalEquations(A, moment, energy, count, trace, signature=signs)
        return replace(statistics, surplus=surplus, log_whitening=-logs), numbers

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


def no_products(parts: Sequence[Part]) -> dict[tuple[int, int], Array]:
    """Return the products between bases (`PartwiseState.products`) of parts that have learned nothing."""
    return {
        (i, j): zeros((a.S.shape[0], b.S.shape[0]), a.projected_y)
        for i, a in enumerate(parts)
        for j, b in enumerate(parts)
        if i <= j
    }


def steps_from_scratch(state: PartwiseState, X: Array, weights: Array | None) -> list[Step]:
    """Factor each part from scratch (Algorithm 2) for all rows X (n, d); this state has learned nothing."""
    config, steps = state.config, []
    for i, part in enumerate(state.parts):
        if part.quadratic is not None:
            steps.append(part.closed_step(X, weights))
            continue
        factor = randomized_eigh(
            KernelMatrix(OnePart(state.kernel, i), X, weights),
            config.rank,
            config.oversampling,
            (config.seed, state.step, i),
            like=X,
            definite=state.kernel.positive_semidefinite,
        )
        steps.append(Step.from_scratch(factor))
    return steps
