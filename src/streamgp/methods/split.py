"""SplitState: outputs that lack different labels, each group of them a state of its own.

A = ΦᵀΦ is of the rows that an output has learned, so that outputs which lack different rows cannot share it. (Labels
that are filled in with predictions leave the mean where it was, but later labels then count for less: with half of the
labels missing the error was up to ten times that of the output alone.) Labels are missing in NumPy arrays only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar, cast

import numpy as np

from .._arrays import Array
from ..errors import InputError
from ..gp.features import Pivots
from ..gp.normal_equations import NormalEquations
from ..gp.outputs import per_output
from ..gp.posterior import LeftOut
from ..kernels import Kernel
from ..labels import missing
from ..row_weights import taken_where
from .base import MergeableState, Prediction, State
from .draws import Joined
from .exact import ExactState
from .gradients import Gradient
from .parts import PartwiseState
from .pivoted import PivotedState
from .recent import Recent
from .recursive import RecursiveState
from .spectral import SpectralState

S = TypeVar("S", bound="SplitState")


def learn(state: State, X: Array, y: Array, weights: Array | None = None) -> State:
    """Return the state that has learned the rows X (b, d), y (b, q), each output those of which it has a label."""
    gaps = missing(y)
    return (state if gaps is None else _split(state, gaps)).update(X, y, weights)


def _split(state: State, gaps: np.ndarray) -> SplitState:
    """Return the state in parts, so that outputs of one part lack the same labels, of which `gaps` (b, q) is true."""
    whole = not isinstance(state, SplitState)
    found: list[tuple[State, tuple[int, ...]]] = []
    for part, outputs in [(state, tuple(range(gaps.shape[1])))] if whole else cast(SplitState, state).parts:
        for pattern in np.unique(gaps[:, outputs], axis=1).T:
            alike = [k for k, j in enumerate(outputs) if (gaps[:, j] == pattern).all()]
            own = part if len(alike) == len(outputs) else _restricted(part, alike)
            found.append((own, tuple(outputs[k] for k in alike)))
    return SplitState(tuple(found))


def _restricted(state: State, outputs: list[int]) -> State:
    """Return the state that has learned the same rows, of the outputs with these numbers alone."""
    noise = state.noise[outputs]
    if isinstance(state, PivotedState):
        folded, floor = state.folded, state.noise_floor
        window, pending = (replace(rows, y=rows.y[:, outputs]) for rows in (folded.window, folded.pending))
        own = replace(
            folded, noise=noise, noise_floor=None if floor is None else floor[outputs], pending=pending
        )
        return own.refitted(_of_outputs(folded.fit.statistics, outputs), window=window)
    if isinstance(state, RecursiveState):
        return replace(state, noise=noise, statistics=_of_outputs(state.statistics, outputs), recent=Recent())
    if not isinstance(state, SpectralState | PartwiseState | ExactState):
        raise InputError("this method cannot learn rows of which some outputs have no label; drop these rows")
    y = state.y[:, outputs]
    if isinstance(state, SpectralState):
        return replace(state, noise=noise, y=y, projected_y=state.projected_y[:, outputs], recent=Recent())
    if isinstance(state, PartwiseState):
        parts = tuple(replace(part, projected_y=part.projected_y[:, outputs]) for part in state.parts)
        return replace(state, noise=noise, y=y, parts=parts, recent=Recent())
    empty = ExactState.empty(state.kernel, noise, state.refactor, state.X, y)
    return empty.update(state.X, y, state.weights)


def _of_outputs(statistics: NormalEquations, outputs: list[int]) -> NormalEquations:
    energy = statistics.energy[np.ix_(outputs, outputs)]
    return replace(statistics, moment=statistics.moment[:, outputs], energy=energy)


def label_counts(state: State, n_outputs: int) -> np.ndarray:
    """Return the number of labels that each output has learned, less what was forgotten; (q,)."""
    counts = np.full(n_outputs, float(state.count))
    if isinstance(state, SplitState):
        for part, outputs in state.parts:
            counts[list(outputs)] = part.count
    return counts


def is_split(state: State) -> bool:
    """Return whether outputs have learned different rows."""
    return isinstance(state, SplitState)


def forgotten(state: State, rate: float) -> State:
    """Return the state, of a method that can forget, with the weight of all that was learned multiplied by `rate`."""
    if isinstance(state, SplitState):
        return _mapped(state, lambda part, _: forgotten(part, rate))
    return cast(MergeableState, state).forget(rate)


@dataclass(frozen=True)
class SplitState(State):
    """States of one method and one kernel, each of some of the outputs.

    Attributes
    ----------
    parts : a state and the numbers of its outputs, each
    """

    parts: tuple[tuple[State, tuple[int, ...]], ...]

    def __post_init__(self) -> None:
        floors = [part.noise_floor for part, _ in self.parts]
        known = [floor for floor in floors if floor is not None]
        for name, value in (
            ("kernel", self.parts[0][0].kernel),
            ("noise", self._joined([part.noise for part, _ in self.parts])),
            ("noise_floor", self._joined(known) if len(known) == len(floors) else None),
        ):
            object.__setattr__(self, name, value)

    def _joined(self, values: list[Array]) -> Array:
        """Return what parts have of their outputs, along the last axis, in the order of all outputs."""
        order = np.argsort([j for _, outputs in self.parts for j in outputs])
        return np.take(np.concatenate(values, axis=-1), order, axis=-1)

    @property
    def features(self) -> Pivots:
        """The inducing points of the part that has learned most rows, for a method that has them."""
        return cast(
            MergeableState, max((part for part, _ in self.parts), key=lambda part: part.count)
        ).features

    @property
    def count(self) -> float:
        """See State; of the part that has learned most rows."""
        return max(part.count for part, _ in self.parts)

    @property
    def rank(self) -> int:
        """See State; the greatest of the parts."""
        return max(part.rank for part, _ in self.parts)

    @property
    def prior_trace(self) -> float:
        """See State; the sum over parts."""
        return sum(part.prior_trace for part, _ in self.parts)

    @property
    def trace_error(self) -> float:
        """See State; the sum over parts."""
        return sum(part.trace_error for part, _ in self.parts)

    def log_evidence(self) -> float:
        """See State; of the labels that were learned."""
        return sum(part.log_evidence() for part, _ in self.parts)

    def predict(self, X: Array, *, variance: bool = True, covariance: bool = False) -> Prediction:
        """See State."""
        found = [part.predict(X, variance=variance, covariance=covariance) for part, _ in self.parts]
        mean = self._joined([each.mean for each in found])
        if covariance:
            every = self._joined([np.stack(each.covariance or (), axis=-1) for each in found])
            return Prediction(mean, covariance=tuple(np.moveaxis(every, -1, 0)))
        return Prediction(mean, self._joined([each.variance for each in found]) if variance else None)

    def draw(self, rng: np.random.Generator) -> Joined:
        """See State."""
        return Joined(tuple((part.draw(rng), outputs) for part, outputs in self.parts))

    def gradient(self, X: Array, *, variance: bool = True) -> Gradient:
        """See State."""
        found = [part.gradient(X, variance=variance) for part, _ in self.parts]
        mean = self._joined([each.mean for each in found])
        return Gradient(mean, self._joined([each.variance for each in found]) if variance else None)

    def update(self, X: Array, y: Array, weights: Array | None = None) -> Self:
        """See State; y (b, q) is NaN where a label is missing, for all outputs of a part or for none."""

        def learned(part: State, outputs: list[int]) -> State:
            known = ~np.isnan(y[:, outputs[0]])
            if not known.any():
                return part
            return part.update(X[known], y[np.ix_(known, outputs)], taken_where(weights, known))

        return _mapped(self, learned)

    def retuned(self, kernel: Kernel, noise: float | np.ndarray) -> Self:
        """See State."""
        each = per_output(noise, self.noise.size)
        return _mapped(self, lambda part, outputs: part.retuned(kernel, each[outputs]))

    def with_noise_correlation(self, correlation: Sequence[float]) -> Self:
        """See State."""
        return _mapped(self, lambda part, _: part.with_noise_correlation(correlation))

    def rescaled(self, factors: np.ndarray) -> Self:
        """See State."""
        return _mapped(self, lambda part, outputs: part.rescaled(factors[outputs]))

    def with_noise(self, estimate: np.ndarray, *, at_once: bool = False) -> Self:
        """See State."""
        return _mapped(self, lambda part, outputs: part.with_noise(estimate[outputs], at_once=at_once))

    def left_out(self, X: Array, y: Array, numbers: Array, weights: Array | None = None) -> LeftOut | None:
        """See State; None, because the rows have other places in each part."""
        return None

    def recent_left_out(self, X: Array, y: Array, weights: Array | None = None) -> LeftOut | None:
        """See State; as many of the last rows of each part as all of them have."""
        found = []
        for part, outputs in self.parts:
            known = ~np.isnan(y[:, outputs[0]])
            rows = X[known], y[np.ix_(known, outputs)]
            each = part.recent_left_out(*rows, taken_where(weights, known))
            if each is None or not each.error.shape[0]:
                return None
            found.append(each)
        n = min(each.error.shape[0] for each in found)
        errors, variances = ([getattr(each, name)[-n:] for each in found] for name in ("error", "variance"))
        return LeftOut(self._joined(errors), self._joined(variances), self.noise)


def _mapped(state: S, change: Callable[[State, list[int]], State]) -> S:
    """Return the state whose parts are what `change` makes of each part and the numbers of its outputs."""
    return replace(
        state, parts=tuple((change(part, list(outputs)), outputs) for part, outputs in state.parts)
    )
