"""LearnedAttributes: the read-only attributes of a fitted regressor, each of one learner."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._arrays import Array, asarray_like, copied, one_blas_thread
from .answers import interval_ends, scores_of
from .errors import ParameterError
from .kernels import Kernel
from .latent import LatentLearner
from .learner import Learner
from .likelihoods import Likelihood
from .methods.split import label_counts
from .online.answered import AnswerMemory
from .parameters import GAUSSIAN, MERGEABLE, Settings, check_probability
from .tuning.schedule import Outcome

# Why something is not defined under a likelihood.
REASONS = {
    "unlearn": "what a row has told depends on the rows before it; use `forgetting` or fit anew",
    "merge": "pseudo-observations of one model are no labels to another; learn the rows of both in turn",
    "log_evidence": "it has no closed form; `tuning_` has the density of left-out labels",
    "interval_factor": "intervals are quantiles of the likelihood; ask predict for return_interval",
    "noise_": "the noise is that of `likelihood_`",
    "answered_": "answers are not scored when their labels come",
    "sample_function": "ask sample_y for draws at given rows, with latent=True for those of the function",
    "exporting": "files hold a mean and a variance of normal predictions",
    "predict_gradient": "it is of the function and of a normal observation",
    "serving": "its answers are not kept until their labels come",
}


def gaussian(learner: Learner | LatentLearner, what: str) -> Learner:
    """Return the learner of normally distributed targets, or raise ParameterError: `what` is of these alone."""
    if isinstance(learner, LatentLearner):
        raise undefined(learner.settings, what)
    return learner


def undefined(settings: Settings, what: str) -> ParameterError:
    """Return the error that something is not defined under a likelihood."""
    reason = REASONS.get(what, "rows are learned one batch after the other, on NumPy arrays")
    return ParameterError(f"{what} is not defined with likelihood={settings.likelihood!r}: {reason}")


class CommonAttributes:
    """What every estimator tells about what it has learned."""

    _learner: Learner | LatentLearner | None = None

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()  # type: ignore[misc]
        filled_in = getattr(self, "missing", None) == "impute"
        tags.input_tags.allow_nan = filled_in and getattr(self, "likelihood", GAUSSIAN) == GAUSSIAN
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._learner is not None

    @property
    def learner_(self) -> Learner | LatentLearner:
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
    def kernel_(self) -> Kernel:
        """The kernel of the standardised targets, white noise taken out."""
        return self.learner_.state.kernel

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
    def n_samples_seen_(self) -> int:
        """The number of rows learned."""
        return self.learner_.rows_seen

    @property
    def n_unlabelled_(self) -> int:
        """The number of rows without any label, which were not learned."""
        return self.learner_.unlabelled


class LearnedAttributes(CommonAttributes):
    """What StreamingGPRegressor tells besides."""

    _answered: AnswerMemory | None = None

    @property
    def answered_(self) -> AnswerMemory:
        """What `predict` has answered for rows that were not learned yet."""
        gaussian(self.learner_, "answered_")
        assert self._answered is not None
        return self._answered

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        # A copy goes on by itself: it must not take answers out of this regressor's memory.
        return state if self._answered is None else {**state, "_answered": copy.copy(self._answered)}

    @property
    def target_names_(self) -> list[str]:
        """The names of the targets: those of the frame or series that was learned, else y, or y1, y2 and so on."""
        columns = self.learner_.columns
        q = columns.n_outputs
        default = ["y"] if q == 1 else [f"y{j + 1}" for j in range(q)]
        return default if columns.targets is None else list(columns.targets)

    @property
    def noise_(self) -> Any:
        """The noise variance of the standardised targets: a number where targets are (n,), else (q,)."""
        learner = self.learner_
        if isinstance(learner, LatentLearner):
            raise AttributeError(str(undefined(learner.settings, "noise_")))
        noise = learner.state.noise
        return float(noise[0]) if learner.targets.one_dimensional else noise.copy()

    @property
    def likelihood_(self) -> Likelihood | tuple[Likelihood, ...]:
        """The likelihood with its learned parameters, one for each output where there are several."""
        learner = self.learner_
        if not isinstance(learner, LatentLearner):
            raise AttributeError("likelihood='gaussian' has no parameters but noise_")
        each = learner.model.likelihoods
        return each[0] if learner.targets.one_dimensional else each

    @property
    def members_(self) -> dict[str, Any]:
        """The members of the panel and their weights in the mean: numbers where targets are (n,), else (q,)."""
        learner = self.learner_
        names, mixture = (
            learner.settings.panel,
            None if isinstance(learner, LatentLearner) else learner.mixture,
        )
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
    def target_transform_(self) -> tuple[str, ...]:
        """The transform of each target: "log", "sqrt", "logit" or "none"."""
        learner = gaussian(self.learner_, "target_transform_")
        return ("none",) * learner.targets.n_outputs if learner.transform is None else learner.transform.names

    @property
    def n_missing_(self) -> np.ndarray:
        """How often each feature was missing in the rows that came to be learned, (d,)."""
        learner = self.learner_
        found = None if isinstance(learner, LatentLearner) else learner.imputation
        return np.zeros(learner.columns.n_features, dtype=int) if found is None else found.cells.copy()

    @property
    def n_empty_(self) -> int:
        """The number of rows that lacked every feature, which were not learned."""
        learner = self.learner_
        found = None if isinstance(learner, LatentLearner) else learner.imputation
        return 0 if found is None else found.empty

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
        learner = gaussian(self.learner_, "interval_factor")
        check_probability("probability", probability)
        half = interval_ends(learner, probability, calibrated=calibrated).mean(axis=0)
        if calibrated:
            local = scores_of(learner, mixed=True).local
            ordinary = np.ones((1, half.size)) if local.chosen.any() else None
            half = half / local.honest(ordinary, trusting=learner.mixture is None)[0]
        return learner.targets.per_output(asarray_like(half, learner.targets.scale))

    def log_evidence(self) -> float:
        """Return the log density of the targets learned, in their own units, summed over outputs."""
        learner = gaussian(self.learner_, "log_evidence")
        state, targets = learner.state, learner.targets
        with one_blas_thread():
            counts = label_counts(state, targets.n_outputs)
            return targets.undo_log_density(state.log_evidence(), counts)
