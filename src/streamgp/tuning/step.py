"""One tuning of a state: on a sample of rows, or, for the weights of an affine kernel, on its statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ..errors import NumericalError
from ..kernels import Kernel
from ..methods import State
from .objectives import StatisticsObjective
from .on_rows import nothing_to_learn
from .optimise import TAKEN, Search, Tuned, tune
from .reservoir import Reservoir

# Makes the state of other hyperparameters.
Change: TypeAlias = Callable[[Kernel, np.ndarray], State]


def with_tuned(state: State, tuned: Tuned, change: Change) -> tuple[State, Tuned]:
    """Return the state with hyperparameters that were found, and the verdict. Raises nothing.

    The state has the targets that `Tuned.factors` says.
    """
    if tuned.verdict != TAKEN:
        return state, tuned
    try:
        after = change(tuned.kernel, tuned.noise).with_noise_correlation(tuned.noise_correlation)
        return after if tuned.factors is None else after.rescaled(tuned.factors), tuned
    except NumericalError as error:
        return state, replace(tuned, verdict=f"failed: {error}")


def tune_weights(
    state: State, sample: Reservoir, kind: str, search: Search, *, fix: bool
) -> tuple[State, Tuned]:
    """Tune the weights of an affine kernel on the state's statistics (Algorithm 5, step 13).

    The sample only tells whether there is anything to learn. `fix`: the weights stay from now on (tune="hybrid").
    """
    verdict, given = nothing_to_learn(sample.X, sample.y), state.weight_statistics
    if verdict or given is None:
        tuned = Tuned(state.kernel, state.noise, verdict)
    else:
        tuned = tune(StatisticsObjective(*given, kind), state.kernel, state.noise, search)
    if tuned.verdict == TAKEN:
        state = state.retuned(tuned.kernel, tuned.noise)
    if not fix:
        return state, tuned
    try:
        return state.with_fixed_weights(), tuned
    except NumericalError as error:
        return state, replace(tuned, verdict=f"failed: {error}")
