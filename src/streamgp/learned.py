"""LearnedAttributes: the read-only attributes of a fitted regressor, each of one learner."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._arrays import Array, asarray_like, copied, one_blas_thread
from .answers import interval_ends, scores_of
from .kernels import Kernel
from .learner import Learner
from .methods.split import label_counts
from .online.answered import AnswerMemory
from .parameters import MERGEABLE, check_probability
from .tuning.schedule import Outcome


class LearnedAttributes:
    """What StreamingGPRegressor tells about what it has learned."""

    _learner: Learner | None = None
    _answered: AnswerMemory | None = None

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        # A copy goes on by itself: it must not take answers out of this regressor's memory.
        return state if self._answered is None else {**state, "_answered": copy.copy(self._answered)}

    def __sklearn_is_fitted__(self) -> bool:
        return self._learner is not None

    @property
    def learner_(self) -> Learner:
        """All that was learned; immutable, so that it stays as it is while others learn."""
        learner = self._learner
        if learner is None:
            check_is_fitted(self)
        assert learner is not None
        return learner

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return self.learner_.columns.n_features

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the features, where the first batch was a frame."""
        names = self.learner_.columns.names
        if names is None:
            raise AttributeError("the first batch had no feature names; give a pandas or polars frame")
        return np.array(names, dtype=object)

    @property
    def target_names_(self) -> list[str]:
        """The names of the targets: those of the frame or series that was learned, else y, or y1, y2 and so on."""
        columns = self.learner_.columns
        q = columns.n_outputs
        default = ["y"] if q == 1 else [f"y{j + 1}" for j in range(q)]
        return default if columns.targets is None else list(columns.targets)

    @property
    def kernel_(self) -> Kernel:
        """The kernel of the standardised targets, white noise taken out."""
        return self.learner_.state.kernel

    @property
    def noise_(self) -> Any:
        """The noise variance of the standardised targets: a number where targets are (n,), else (q,)."""
        learner = self.learner_
        noise = learner.state.noise
        return float(noise[0]) if learner.targets.one_dimensional else noise.copy()

    @property
    def rank_(self) -> int:
        """The number of features in use."""
        return self.learner_.state.rank

    @property
    def pivots_(self) -> Array:
        """The inducing points (r, d), a copy; of `pivoted` and `rgp`."""
        learner = self.learner_
        if learner.settings.method not in MERGEABLE:
            raise AttributeError(
                f"method={learner.settings.method!r} has no pivots; 'pivoted' and 'rgp' have"
            )
        return copied(learner.inducing_points)

    @property
    def trace_error_(self) -> float:
        """tr(K − K̂) over the rows learned."""
        state = self.learner_.state
        with one_blas_thread():  # what it computes may be kept and learned from: the same bits in any thread
            return state.trace_error

    @property
    def trace_error_share_(self) -> float:
        """The share of tr K that is left, tr(K − K̂)/tr K."""
        state = self.learner_.state
        with one_blas_thread():
            return state.trace_error / state.prior_trace if state.prior_trace > 0 else 0.0

    @property
    def tuning_(self) -> Outcome | None:
        """What the tuning at the last batch came to; None if there was none."""
        return self.learner_.schedule.outcome

    @property
    def tuning_seconds_(self) -> float:
        """All the time that was spent tuning."""
        return self.learner_.schedule.seconds

    @property
    def members_(self) -> dict[str, Any]:
        """The members of the panel and their weights in the mean: numbers where targets are (n,), else (q,)."""
        learner = self.learner_
        names, mixture = learner.settings.panel, learner.mixture
        if mixture is None:
            weights = np.array([[float(name == "gp")] * learner.targets.n_outputs for name in names])
        else:
            weights = mixture.weights
        one = learner.targets.one_dimensional
        return {name: float(w[0]) if one else w.copy() for name, w in zip(names, weights, strict=True)}

    @property
    def refused_(self) -> np.ndarray:
        """Which rows of the last batch the guard refused, shape (b,); empty without a guard."""
        return self.learner_.outliers.refused

    @property
    def n_refused_(self) -> int:
        """How many rows the guard refused, and has not learned later."""
        return self.learner_.outliers.total

    @property
    def n_samples_seen_(self) -> int:
        """The number of rows learned."""
        return self.learner_.rows_seen

    @property
    def n_unlabelled_(self) -> int:
        """The number of rows without any label, which were not learned."""
        return self.learner_.unlabelled

    @property
    def y_offset_(self) -> Array:
        """What is subtracted from the targets, shape (q,)."""
        return self.learner_.targets.offset

    @property
    def y_scale_(self) -> Array:
        """What the targets are divided by, shape (q,)."""
        return self.learner_.targets.scale

    def interval_factor(self, probability: float = 0.9, *, calibrated: bool = True) -> Any:
        """Return half the length of the central interval of that probability in standard deviations: a number, or (q,).

        The same for every row. Where errors are skewed, the interval reaches further to one side.
        """
        learner = self.learner_
        check_probability("probability", probability)
        half = interval_ends(learner, probability, calibrated=calibrated).mean(axis=0)
        honest = scores_of(learner, mixed=True).local.honest if calibrated else 1.0
        return learner.targets.per_output(asarray_like(half / honest, learner.targets.scale))

    def log_evidence(self) -> float:
        """Return the log density of the targets learned, in their own units, summed over outputs."""
        learner = self.learner_
        state, targets = learner.state, learner.targets
        with one_blas_thread():
            counts = label_counts(state, targets.n_outputs)
            return targets.undo_log_density(state.log_evidence(), counts)
