"""Algorithm 5 with projected factors, so that tuning the weights a of a kernel Σᵢ aᵢ kᵢ touches no row.

Each part's matrix (the Hadamard powers of the distance matrix, say) has its own factor, updated as in `srmf` or
computed anew as in `brmf`. A step multiplies the bases by small matrices only, and with them the products between
bases: the statistics of all parts together are kept in O(r²(r + b)), whatever n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Self

import numpy as np

from .._arrays import Array, double, in_parallel, namespace, row_parts, zeros
from ..gp.features import Quadratic
from ..gp.outputs import per_output
from ..gp.posterior import LeftOut
from ..kernels import Affine
from ..lowrank import Step, sequential_step
from ..row_weights import joined_weights, part_of, whitened
from .base import Prediction
from .parts import OnePart, Part, PartwiseState, no_products, steps_from_scratch
from .spectral import SpectralConfig, misses, whitened_block


@dataclass(frozen=True)
class WeightedState(PartwiseState):
    """A state whose parts have projected factors, or features in closed form; predictions come from statistics."""

    @classmethod
    def empty(
        cls, config: SpectralConfig, kernel: Affine, noise: float | np.ndarray, X: Array, y: Array
    ) -> Self:
        """Return the state that has learned nothing, on the device of X (·, d); y (·, q) has its outputs."""
        parts = [Part.empty(X, y) for _ in range(kernel.amounts.size)]
        if kernel.quadratic is not None:
            map_ = Quadratic.about(double(X))
            projected = zeros((X.shape[1] + 2, y.shape[1]), double(y))
            parts[kernel.quadratic] = Part(None, map_.signs(), projected, 0.0, map_)
        no_y, noise = double(y[:0, :]), per_output(noise, y.shape[1])
        return cls(config, kernel, noise, X[:0, :], no_y, parts=tuple(parts), products=no_products(parts))

    @cached_property
    def open_parts(self) -> list[int]:
        """The numbers of the parts that have no closed form."""
        return [i for i, part in enumerate(self.parts) if part.quadratic is None]

    # Learning

    def steps(self, X: Array, weights: Array | None) -> tuple[Self, list[Step]]:
        """See PartwiseState; from scratch for `brmf`, and after a direction was lost."""
        if self.config.sequential and not _misses(self, X):
            return self, _sequential_steps(self, X, weights)
        past, rows = self.without_rows(), namespace(X).concat([self.X, X], axis=0)
        return past, steps_from_scratch(past, rows, joined_weights([(self.weights, self.X), (weights, X)]))

    def left_out(self, X: Array, y: Array, numbers: Array, weights: Array | None = None) -> LeftOut | None:
        """See State."""
        xp, columns = namespace(X), []
        for amount, part in zip(self.kernel.amounts, self.parts, strict=True):
            if part.quadratic is None:
                F = double(xp.take(part.basis, numbers, axis=0)) * part.root[None, :]
            else:
                F = whitened(part.quadratic.transform(double(X)), weights)
            columns.append(F * float(amount) ** 0.5)
        prior = self.kernel.diag(X) if weights is None else self.kernel.diag(X) * weights
        return self.posterior.left_out(xp.concat(columns, axis=1), whitened(y, weights), prior)

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
        """Return kᵢ(X, rows)·W^½Bᵢ of every part without closed form; distances are computed once for all powers."""

        def piece(rows: slice) -> list[Array]:
            blocks, weights = (
                self.kernel.part_blocks(X, self.X[rows, :], self.open_parts),
                part_of(self.weights, rows),
            )
            return [
                block @ whitened(self.parts[i].basis[rows, :], weights)  # type: ignore[index]
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


def _misses(state: WeightedState, X: Array) -> bool:
    """See SpectralState; of any part."""
    config, n = state.config, state.X.shape[0]
    ranks = {i: int(state.parts[i].S.shape[0]) for i in state.open_parts}
    few = n <= config.rank + config.oversampling
    short = [i for i, rank in ranks.items() if rank < min(n, config.rank) and (few or not rank)]
    return not state.kernel.positive_semidefinite and any(
        misses(state.parts[i].basis, OnePart(state.kernel, i), state.X, X, state.weights) for i in short
    )


def _sequential_steps(state: WeightedState, X: Array, weights: Array | None) -> list[Step]:
    """Return the projected step of Algorithm 3 for each part."""
    xp, config, definite = namespace(X), state.config, state.kernel.positive_semidefinite
    none = [zeros((X.shape[0], 0), X) for _ in state.open_parts]
    projections = state.recent.features(X, state._projections) if state.X.shape[0] else none
    blocks, steps = state.kernel.part_blocks(X, None, state.open_parts), {}
    for i, projection, block in zip(state.open_parts, projections, blocks, strict=True):
        UtB, S = xp.matrix_transpose(whitened(double(projection), weights)), double(state.parts[i].S)
        seed = (config.seed, state.step, i)
        steps[i] = sequential_step(
            S,
            UtB,
            whitened_block(block, weights, weights),
            config.rank,
            config.oversampling,
            seed=seed,
            definite=definite,
        )
    every = range(len(state.parts))
    return [steps[i] if i in steps else state.parts[i].closed_step(X, weights) for i in every]
