"""Outputs: a noise variance for each, and groups of outputs that share one factorisation.

The gram matrix A is shared by all outputs; what differs is ρ in M = A + ρJ, one factorisation for each ρ. Outputs of
similar noise share the factor of their geometric mean. That noise stands for the output's own in the variance of the
function alone: means come from the own noise (`Shifted.solve_near`), and so do the noise that is added to a variance,
scores and evidence. The exact GP, which has no A, takes it for means too.

Measured with sin(2.5x₁)x₂ and noise in seven outputs, 2,000 rows, 200 inducing points; the change of a mean in units of
its own error, the largest of seven:

===========================  ======  ================  =========
noises                       groups  mean, unrefined   mean
===========================  ======  ================  =========
0.1 to 0.14                  1       0.07              0.0000
0.001 to 0.1, evenly         3       0.56              0.002
1e-6 to 10, evenly           3       1.06              0.12
===========================  ======  ================  =========
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np

from .._arrays import Array, index, namespace

# Outputs whose noises differ by at most this factor share a factorisation: each is then at most √1.5 = 1.22 off.
SHARED_WITHIN = 1.5
# At most so many factorisations; where outputs need more, the nearest share one. Three keep a batch of seven outputs
# below 2.5 times the cost of one.
MOST_FACTORS = 3


def per_output(noise: float | np.ndarray, n_outputs: int) -> np.ndarray:
    """Return a noise variance for each output, (q,), from one for all or one for each."""
    return np.array(np.broadcast_to(np.asarray(noise, dtype=np.float64), (n_outputs,)))


@dataclass(frozen=True)
class Groups:
    """Outputs that share a noise in the fit.

    Attributes
    ----------
    noises : one of each group
    members : the group of each output
    """

    noises: tuple[float, ...]
    members: tuple[int, ...]

    @classmethod
    def of(cls, noise: np.ndarray) -> Self:
        """Group outputs with noise variances (q,): within SHARED_WITHIN of each other, at most MOST_FACTORS groups."""
        groups = [[value] for value in sorted(set(noise.tolist()))]
        while len(groups) > 1:
            spans = [math.log(b[-1] / a[0]) for a, b in pairwise(groups)]
            at = int(np.argmin(spans))
            if spans[at] > math.log(SHARED_WITHIN) and len(groups) <= MOST_FACTORS:
                break
            groups[at : at + 2] = [groups[at] + groups[at + 1]]
        number = {value: g for g, group in enumerate(groups) for value in group}
        members = tuple(number[value] for value in noise.tolist())
        return cls(tuple(typical(noise[np.array(members) == g]) for g in range(len(groups))), members)

    @classmethod
    def apart(cls, noise: np.ndarray) -> Self:
        """Return a group for each distinct noise among (q,), however many there are."""
        values = sorted(set(noise.tolist()))
        return cls(tuple(values), tuple(values.index(value) for value in noise.tolist()))

    @cached_property
    def noise(self) -> np.ndarray:
        """The noise variance of the fit of each output, (q,)."""
        return np.array([self.noises[g] for g in self.members])

    def outputs(self, group: int) -> list[int]:
        """Return the numbers of the outputs of a group."""
        return [j for j, g in enumerate(self.members) if g == group]

    def columns(self, values: Array, group: int) -> Array:
        """Return the columns of values (n, q) that are of a group."""
        if len(self.noises) == 1:
            return values
        return namespace(values).take(values, index(self.outputs(group), values), axis=1)

    def joined(self, pieces: Sequence[Array]) -> Array:
        """Return columns (n, q) in the order of the outputs, from those of each group."""
        if len(pieces) == 1:
            return pieces[0]
        order = [j for g in range(len(pieces)) for j in self.outputs(g)]
        xp = namespace(pieces[0])
        return xp.take(xp.concat(list(pieces), axis=1), index(np.argsort(order).tolist(), pieces[0]), axis=1)

    def each(self, values: Sequence[Array]) -> Array:
        """Return (n, q) from what is the same for all outputs of a group, (n,) each."""
        return namespace(values[0]).stack([values[g] for g in self.members], axis=1)


def typical(noise: np.ndarray) -> float:
    """Return the geometric mean of noises; of equal ones the value itself, to the last bit."""
    return float(noise[0] if (noise == noise[0]).all() else np.exp(np.log(noise).mean()))
