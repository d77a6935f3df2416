"""Frozen: the mean and variance of a state as a few matrices, for code that predicts without this library.

With u(x) = [b(x); k(x, Z)], b the trend's features times their prior variances and k the kernel without its trend,

    mean      u(x)ᵀ a
    variance  k(x, x) − ‖R u(x)‖²,  RᵀR = Vᵀ(I − ρM⁻¹)V

The part of the trend in k(Z, Z') is summed here, in float64: coefficients that cancel do not reach the exported model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._arrays import Array, to_host
from ..errors import ExportError
from ..gp.features import Pivots
from ..gp.posterior import Posterior
from ..kernels import Kernel, Trend
from .base import State
from .pivot_state import PivotState
from .recursive import RecursiveState
from .split import SplitState


@dataclass(frozen=True)
class Frozen:
    """The Gaussian process of some outputs; all arrays on the host in float64.

    Attributes
    ----------
    trend, kernel : Trend or None, Kernel or None
        The kernel of the state is their sum.
    Z : (r, d)
    weights : (m + r, q)
        a, for the m features of the trend and r inducing points.
    roots : one of (m + r, m + r) for each group of outputs
        R, upper triangles.
    groups : (q,)
        The number of the group of each output.
    outputs : (q,)
        The places of these outputs among all.
    """

    trend: Trend | None
    kernel: Kernel | None
    Z: np.ndarray
    weights: np.ndarray
    roots: tuple[np.ndarray, ...]
    groups: tuple[int, ...]
    outputs: tuple[int, ...]


def freeze(state: State) -> tuple[Frozen, ...]:
    """Return the Gaussian process of a state in parts, one for each set of outputs with inducing points of its own.

    O(r³) for each part. Raise ExportError where the method keeps every row.
    """
    if isinstance(state, SplitState):
        pairs = [(freeze(part)[0], outputs) for part, outputs in state.parts]
        return tuple(replace(part, outputs=outputs) for part, outputs in pairs)
    if isinstance(state, PivotState):
        # The noise of the posterior that predictions condition on the rows that wait.
        posterior = Posterior(state.posterior.statistics, state.fit.effective_noise)
        given = state.fit if state.conditioned is None else state.conditioned
        return (_frozen(state.features, posterior, given.weights),)
    if isinstance(state, RecursiveState):
        return (_frozen(state.features, state.posterior, state.posterior.weights),)
    raise ExportError(
        "this model keeps every row that it learned, so that an exported one would grow with the stream; export one "
        "of method='pivoted' or 'rgp' (rgp once it has seen `rank` rows)"
    )


def _frozen(features: Pivots, posterior: Posterior, given: Array) -> Frozen:
    trend, kernel = features.kernel.split()
    V, Z, A = (_double(v) for v in (features.V, features.Z, posterior.statistics.gram))
    m = 0 if trend is None else trend.coefficients.size
    values, Q = np.linalg.eigh(A)
    values = np.maximum(values, 0.0)
    weights = V.T @ _double(given)
    roots = []
    for noise in posterior.groups.noises:
        share = np.divide(values, values + noise, out=np.zeros_like(values), where=values > 0)
        roots.append(np.sqrt(share)[:, None] * (Q.T @ V))
    if trend is not None:
        basis = np.asarray(trend.basis(Z))
        weights[:m] += basis.T @ weights[m:]
        roots = [np.hstack([R[:, :m] + R[:, m:] @ basis, R[:, m:]]) for R in roots]
    if kernel is None:
        weights, roots, Z = weights[:m], [R[:, :m] for R in roots], Z[:0]
    triangles = tuple(np.asarray(np.linalg.qr(R, mode="r")) for R in roots)
    groups = posterior.groups.members
    return Frozen(trend, kernel, Z, weights, triangles, groups, tuple(range(len(groups))))


def _double(values: object) -> np.ndarray:
    return np.array(to_host(values), dtype=np.float64)
