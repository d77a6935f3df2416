"""Which state serves which method: decided here and nowhere else.

==========  ==================================================  ====================
`method`    where                                               state
==========  ==================================================  ====================
pivoted                                                         PivotedState
nrmf                                                            ExactState
rgp         basis given, or `rank` rows to choose it from       RecursiveState
rgp         fewer rows so far                                   ExactState
srmf, brmf  kernel affine in weights that are tuned             WeightedState
srmf, brmf  the same with variant="literal"                     PrintedWeightedState
srmf, brmf  every other kernel, or tune="none"                  SpectralState
==========  ==================================================  ====================
"""

from __future__ import annotations

import numpy as np

from .._arrays import Array
from ..errors import KernelError
from ..gp.outputs import per_output
from ..kernels import Affine, Kernel
from ..parameters import Settings, basis_points
from .base import State
from .exact import ExactState
from .pivot_state import WINDOW, PivotedConfig
from .pivoted import PivotedState
from .printed import PrintedWeightedState
from .recursive import RecursiveState
from .spectral import SpectralConfig, SpectralState
from .weighted import WeightedState

# A noise that is re-estimated does not fall below this share of where it started, until a tuning sets another floor.
NOISE_FLOOR = 1e-4


def gathers(settings: Settings, n_rows: int) -> bool:
    """Return whether so many rows are too few to choose the inducing points of `rgp` from."""
    return settings.method == "rgp" and settings.basis is None and n_rows < settings.most_features


def check_kernel_for(settings: Settings, kernel: Kernel) -> None:
    """Raise KernelError where the method cannot use this kernel."""
    if settings.method in ("pivoted", "rgp") and not kernel.positive_semidefinite:
        raise KernelError(
            f"method={settings.method!r} needs a positive semi-definite kernel, not {kernel}; use 'srmf'"
        )


def empty_state(
    settings: Settings,
    kernel: Kernel,
    noise: float | np.ndarray,
    X: Array,
    y: Array,
    *,
    tuned: bool = False,
) -> State:
    """Return the state that has learned nothing.

    X (n, d) and y (n, q) are the rows that it will learn first; `tuned`: kernel and noise were tuned on them.
    """
    check_kernel_for(settings, kernel)
    method, rank = settings.method, settings.most_features
    if method == "pivoted":
        config = PivotedConfig(
            rank,
            window_size=WINDOW if settings.memory == "bounded" else None,
            tolerance=settings.tolerance if settings.rank == "auto" else None,
            seed=settings.seed,
            mixed=bool(settings.mixed_precision),
        )
        noise = per_output(noise, y.shape[1])
        floor = (1.0 if tuned else NOISE_FLOOR) * noise if settings.noise == "auto" else None
        return PivotedState.empty(config, kernel, noise, X, y, noise_floor=floor)
    if method == "nrmf" or gathers(settings, X.shape[0]):
        return ExactState.empty(kernel, noise, bool(settings.refactor), X, y)
    if method == "rgp":
        basis, seed = (
            (X, (settings.seed, 0)) if settings.basis is None else (basis_points(settings.basis, X), None)
        )
        return RecursiveState.empty(kernel, noise, rank, basis, y, seed=seed)
    literal = settings.variant == "literal"
    spectral = SpectralConfig(rank, settings.oversampling, settings.seed, method == "srmf", literal)
    if isinstance(kernel, Affine) and settings.tune != "none":
        kind = PrintedWeightedState if literal else WeightedState
        return kind.empty(spectral, kernel, noise, X, y)
    return SpectralState.empty(spectral, kernel, noise, X, y)
