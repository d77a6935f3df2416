"""StreamingGPRegressor: scikit-learn's contract over the models; validates, commits by one assignment."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from . import checkpoint
from . import checks as validation
from . import dask as distributed
from ._arrays import Array, cast, copied, diagonal_matrix, double, eps, namespace, one_blas_thread, to_host
from .checks import is_real
from .errors import CheckpointError, InputError, NegativeVarianceWarning, ParameterError
from .kernels import Kernel, as_kernel
from .learner import Settings, Stream
from .locking import writing
from .methods import PivotedModel, Prediction, RecursiveModel
from .tuning import optimise as tuning

Method = Literal["pivoted", "srmf", "brmf", "nrmf", "rgp"]
# All that learning sets: a commit replaces these and leaves parameters alone, which another thread may be setting.
_LEARNED = ("_stream", "n_features_in_", "feature_names_in_", "target_names_in_")


class StreamingGPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression that learns batch by batch.

    Parameters
    ----------
    kernel : kernel of streamgp.kernels or sklearn.gaussian_process.kernels, or str, optional
        The prior covariance, in the units of X and y, of a function of mean zero, where tuning starts. By
        default a squared exponential whose length-scale for each feature, and the targets' mean and scale, come
        from the first 50 rows or the first batch, whichever is more; units then do not matter. The same with
        "matern12", "matern32", "matern52" or "rational_quadratic", and with "dictionary": a sum of eight squared
        exponentials, from 1/32 of these length-scales to four times, of which only the weights are tuned.
    method : {"pivoted", "srmf", "brmf", "nrmf", "rgp"}
        "pivoted": features of pivots that are chosen from the stream and change with it; a batch costs the
        same whatever has passed. "srmf": sequential randomized eigendecomposition, O(n·rank) a batch.
        "brmf": the same from scratch at each batch, O(n²·rank). "nrmf": exact, O(n²). "rgp": Huber's
        recursive GP on a fixed basis, independent of n.
    rank : int or "auto"
        The most features (pivots, eigenpairs or basis points) that are kept. "auto": as many pivots as explain
        all but `tolerance` of the prior variance, `max_rank` at the most (pivoted).
    max_rank : int
        The cap of rank="auto".
    tolerance : float
        The share of tr K that rank="auto" may leave unexplained.
    oversampling : int
        Extra random directions while the range of a matrix is sought (srmf, brmf).
    noise : float or "auto"
        Variance of the noise on y, held as given. "auto": it starts at the white noise in `kernel`, or at a tenth
        of the variance of y in the first rows, and is tuned with the kernel; with tune="none", pivoted estimates
        it from its statistics as it learns. While there are fewer than 50 rows it is estimated from them.
    tune : {"doubling", "initial", "hybrid", "continuous", "none"}
        When hyperparameters are tuned: whenever the number of rows has doubled, or, with `forgetting`, half of what
        still counts is new; at the first `initial_batches` batches; at every batch; never. For srmf and brmf the
        weights of a kernel that is affine in them (the distance polynomials, WeightedSum) are tuned from a factor of
        each part, without touching a row; "hybrid" goes over to the kernel's own factor after the first batches, as
        the paper does. Every other hyperparameter is tuned on a sample of 500 rows.
    objective : {"evidence", "loo", "training_error"}
        What tuning makes best: the log evidence, the density of each row given all others, or the error on
        the rows learned (the paper's; it leaves the noise alone).
    initial_batches : int
        How many batches tune="initial" tunes at.
    bounds : (low, high)
        Hyperparameters stay between these multiples of where they started.
    forgetting : float
        What the past is multiplied by at each `partial_fit`, 1 to remember all (pivoted, rgp; from the second
        batch on, and for rgp from when its basis is complete).
    memory : {"bounded", "rows"}
        What pivoted keeps for new pivots to learn from: the last 500 rows, or all of them.
    variant : {"projected", "literal"}
        "literal" is the paper's algorithm as printed: unstable for srmf when the rank is short; for brmf it
        only means the exact cross-covariance in predictions.
    refactor : bool
        Factor from scratch at each batch (nrmf), as the paper does.
    basis : array (m, d), optional
        The basis points of rgp, of which at most `rank` are used. By default `rank` rows of the first batch,
        or of the first `rank` rows where batches are smaller, drawn by residual variance.
    guard : float, optional
        Leave rows out, as a broken sensor sends them, whose inputs lie more than so many standard deviations from
        the mean of those learned, or whose targets lie more than so many of the prior's from their prediction (of
        the first rows: from the median). 10 is a good choice. What was left out is told by `refused_`; a target
        that jumps that far and stays there is never learned.
    mixed_precision : bool
        For float32 data, sum the products of a batch in float32 and only the batches in float64 (pivoted). On a GPU
        whose tensor cores are allowed for float32 it is a little faster (docs, scale); the noise must stay clear of
        their rounding.
    random_state : int, RandomState or None
        Seeds every draw; an int makes runs repeat exactly.

    Attributes
    ----------
    kernel_ : Kernel
        Without white noise, of `(y − y_offset_)/y_scale_`.
    noise_ : float
        Variance of the noise, of `(y − y_offset_)/y_scale_`.
    y_offset_, y_scale_ : (q,)
    n_samples_seen_ : int
    rank_ : int
        Features in use.
    pivots_ : (r, d)
        The rows that stand for the stream (pivoted, rgp).
    trace_error_, trace_error_share_ : float
        tr(K − K̂) over the rows learned, and as a share of tr K.
    tuning_ : Outcome or None
        What the tuning at the last batch came to; None where there was none.
    tuning_seconds_ : float
        What all tuning took.
    refused_ : (b,)
        Which rows of the last batch the guard left out.
    n_refused_ : int
        How many in all.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp import StreamingGPRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> gp = StreamingGPRegressor(random_state=0)
    >>> for i in range(0, 200, 50):
    ...     gp = gp.partial_fit(X[i : i + 50], np.sin(X[i : i + 50, 0]))
    >>> mean, std = gp.predict([[1.5]], return_std=True)
    """

    n_features_in_: int
    _stream: Stream

    def __init__(
        self,
        kernel: Any = None,
        *,
        method: Method = "pivoted",
        rank: int | Literal["auto"] = 500,
        max_rank: int = 1000,
        tolerance: float = 0.01,
        oversampling: int = 10,
        noise: float | Literal["auto"] = "auto",
        tune: tuning.Mode = "doubling",
        objective: tuning.Objective = "evidence",
        initial_batches: int = 10,
        bounds: tuple[float, float] = (1e-3, 1e3),
        forgetting: float = 1.0,
        memory: Literal["bounded", "rows"] = "bounded",
        variant: Literal["projected", "literal"] = "projected",
        refactor: bool = False,
        basis: Any = None,
        guard: float | None = None,
        mixed_precision: bool = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.method = method
        self.rank = rank
        self.max_rank = max_rank
        self.tolerance = tolerance
        self.oversampling = oversampling
        self.noise = noise
        self.tune = tune
        self.objective = objective
        self.initial_batches = initial_batches
        self.bounds = bounds
        self.forgetting = forgetting
        self.memory = memory
        self.variant = variant
        self.refactor = refactor
        self.basis = basis
        self.guard = guard
        self.mixed_precision = mixed_precision
        self.random_state = random_state

    # Learning

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then learn X (n, d) and y (n,) or (n, q)."""
        with writing(self):
            fresh = copy.copy(self)
            for name in _LEARNED:
                fresh.__dict__.pop(name, None)
            return self._learn_and_commit(fresh, X, y)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn a batch X (b, d) and y (b,) or (b, q) after all that came before; b from 1 up.

        Raises with the model unchanged: the next state is built whole, then assigned at once. Arguments of
        the constructor that were changed since the first batch take effect at the next `fit`; `forgetting`, `tune`,
        `objective`, `initial_batches` and `bounds` at once: `gp.set_params(tune="none")` freezes what was found.

        Any number of threads may predict meanwhile; each answer is that of one model, the old or the new.
        Threads that learn, unlearn or merge wait for each other.
        """
        with writing(self):
            return self._learn_and_commit(copy.copy(self), X, y)

    def _learn_and_commit(self, fresh: Self, X: Any, y: Any) -> Self:
        begins = not fresh._fitted
        fresh._learn(X, y)
        if begins:
            _draw_seed(self.random_state)
        return self._commit(fresh)

    def _commit(self, fresh: Self) -> Self:
        """Take over what a copy has learned, by one assignment."""
        kept = {name: value for name, value in self.__dict__.items() if name not in _LEARNED}
        learned = {name: value for name, value in fresh.__dict__.items() if name in _LEARNED}
        self.__dict__ = {**kept, **learned}
        return self

    def _snapshot(self) -> Self:
        """Return this regressor as it is now: what another thread commits later does not show in it."""
        view = object.__new__(type(self))
        view.__dict__ = self.__dict__
        return view

    def _learn(self, X: Any, y: Any) -> None:
        validation.check_parameters(self)
        if distributed.is_lazy(X):
            self._learn_lazily(distributed.Partitions.of(X, y, labelled=True), int(X.shape[1]))
            return
        y = validation.targets_by_name(self, y, reset=not self._fitted)
        fitted = self._fitted
        later = fitted and self._stream.waiting is None and self._stream.settings.guard is None
        batch = validation.batch(self, X, y, self._stream.like if fitted else None, finite=not later)
        with one_blas_thread(batch.X):
            if fitted:
                stream = self._stream.tuned_as(self.tune, self.objective, self.initial_batches, self.bounds)
                validation.check_targets(batch, stream.scale.shape[0], stream.one_dimensional)
                self._stream = stream.learn(batch, self.forgetting)
                return
            self._stream = Stream.begin(self._settings, batch)

    @property
    def _settings(self) -> Settings:
        # From a copy: a batch that is refused further on must not move the user's generator.
        seed = _draw_seed(copy.deepcopy(self.random_state))
        given = {f.name: getattr(self, f.name) for f in fields(Settings) if f.name != "seed"}
        return Settings(**given, seed=seed)

    def _learn_lazily(self, partitions: distributed.Partitions, n_features: int) -> None:
        """Learn a collection of Dask's on the cluster."""
        if self._fitted:
            if n_features != self.n_features_in_:
                raise InputError(
                    f"X has {n_features} features, but the model is expecting {self.n_features_in_}"
                )
            partitions = partitions.ordered(
                getattr(self, "feature_names_in_", None), getattr(self, "target_names_in_", None)
            )
            self._stream = distributed.learn(self._stream, partitions, self.forgetting)
            return
        self._stream = distributed.begin(self._settings, partitions)
        self.n_features_in_ = n_features
        for name, values in (
            ("feature_names_in_", partitions.names),
            ("target_names_in_", partitions.targets),
        ):
            if values is not None and all(isinstance(v, str) for v in values):
                setattr(self, name, np.array(values, dtype=object))

    def learn_streams(self, streams: Sequence[tuple[Any, Any]]) -> Self:
        """Let each worker of a Dask cluster learn a stream of its own, then merge what all learned (pivoted, rgp).

        Each stream is a pair of Dask collections X, y, learned in their order. All start from the pivots and
        hyperparameters of this regressor, which must know some rows, and change pivots as they need to; the merged
        model knows the rows of the streams beside those it knew.
        """
        check_is_fitted(self)
        names, targets = getattr(self, "feature_names_in_", None), getattr(self, "target_names_in_", None)
        parts = [distributed.Partitions.of(X, y, labelled=True).ordered(names, targets) for X, y in streams]
        with writing(self):
            fresh = copy.copy(self)
            learned = distributed.learn_streams(parts, fresh._stream, self.forgetting)
            with one_blas_thread():
                fresh._stream = fresh._stream.merged(learned)
            return self._commit(fresh)

    def unlearn(self, X: Any, y: Any) -> Self:
        """Take rows away that were learned before, X (b, d) and y (b,) or (b, q) (pivoted, rgp).

        Exact for pivoted if they are among the last 500 rows, or with memory="rows", or where neither pivots nor
        hyperparameters have changed since they were learned; for rgp where they are a batch as it was learned.

        Raises
        ------
        InputError
            With the model unchanged, where a row is known not to be there: it was never learned, or was unlearned
            before. That is known of the last 10,000 rows, and of older ones where what is left could not come from
            any rows. rgp also refuses after a tuning or after forgetting.
        """
        check_is_fitted(self)
        if distributed.is_lazy(X):
            raise InputError("rows of a Dask collection cannot be unlearned; compute them first")
        with writing(self):
            fresh = copy.copy(self)
            stream = fresh._stream
            batch = validation.batch(fresh, X, y, stream.like)
            validation.check_targets(batch, stream.scale.shape[0], stream.one_dimensional)
            with one_blas_thread():
                fresh._stream = stream.unlearn(batch)
            return self._commit(fresh)

    def merge(self, other: StreamingGPRegressor) -> Self:
        """Add what another regressor has learned from other rows (pivoted, rgp); it stays as it is.

        Both must have the same kernel and noise, and rgp the same basis; kernels that were tuned apart from one
        given kernel are brought together (pivoted). Exact where kernel and pivots are the same.
        """
        check_is_fitted(self)
        check_is_fitted(other)
        with writing(self):
            fresh, theirs = copy.copy(self), other._stream
            validation.check_mergeable(fresh._stream, theirs)
            with one_blas_thread():
                fresh._stream = fresh._stream.merged(theirs)
            return self._commit(fresh)

    # Predicting

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        return_interval: float | None = None,
        latent: bool = False,
        calibrated: bool = True,
    ) -> Any:
        """Predict new observations at the rows of X (m, d).

        Parameters
        ----------
        X : (m, d)
        return_std, return_cov : bool
            Also give the standard deviation, (m,) or (m, q), or the covariance, (m, m) or (m, m, q).
        return_interval : float in (0, 1), optional
            Also give the lower and the upper end of the central interval of that probability.
        latent : bool
            Leave the noise out: the spread of the function alone.
        calibrated : bool
            Let intervals reach as far as that share of the last rows asked for, each predicted before it was
            learned or, of a first or very large batch, with that row left out; False for the Gaussian process's own,
            which `latent` intervals always are.

        Returns
        -------
        mean : (m,) or (m, q), then std, or cov, or lower and upper, where asked for
        """
        if (return_interval is not None) + bool(return_std) + bool(return_cov) > 1:
            raise ParameterError("ask for one of return_std, return_cov and return_interval at a time")
        if return_interval is not None and not (
            is_real(return_interval) and return_interval > 0 and 0.5 + 0.5 * return_interval < 1
        ):
            raise ParameterError(f"return_interval={return_interval!r} must lie between 0 and 1, such as 0.9")
        check_is_fitted(self)
        now = self._snapshot()
        if distributed.is_lazy(X):
            options = {"return_std": return_std, "return_interval": return_interval, "latent": latent}
            return now._predict_lazily(X, {**options, "calibrated": calibrated}, return_cov)
        stream = now._stream
        X = validation.rows(now, X, stream.like)
        with one_blas_thread(X):
            if return_cov:
                out = stream.model.predict(X, variance=False, covariance=True)
                return now._mean(out.mean), now._covariance(X, out, latent)
            if not return_std and return_interval is None:
                return now._mean(stream.predict_mean(X))
            found, variance = stream.predict(X)
        mean, std = now._mean(found), now._std(X, variance, latent)
        if return_interval is None:
            return mean, std
        # Scores and deviations that are both huge reach past the range of numbers: then to its end.
        xp, largest = namespace(std), float(namespace(std).finfo(std.dtype).max)
        with np.errstate(over="ignore"):
            half = now._reach(return_interval, calibrated and not latent) * std
            lower, upper = (xp.clip(end, -largest, largest) for end in (mean - half, mean + half))
        return mean, lower, upper

    def _predict_lazily(self, X: Any, options: dict[str, Any], return_cov: bool) -> Any:
        if return_cov:
            raise ParameterError(
                "the covariance of a Dask collection is as large as its square; ask for return_std"
            )
        parts = 3 if options["return_interval"] is not None else 2 if options["return_std"] else 1
        outputs = None if self._stream.one_dimensional else int(self._stream.scale.shape[0])
        partitions = distributed.Partitions.of(X).ordered(getattr(self, "feature_names_in_", None))
        ask = _Ask(copy.copy(self), options, parts * (outputs or 1))
        return distributed.predict(ask, partitions, parts, outputs, self._stream.dtype)

    def _reach(self, probability: float, calibrated: bool) -> Any:
        """Give how many standard deviations an interval reaches: a number, or (q,)."""
        reach = cast(self._stream.reach(probability, calibrated=calibrated), self._stream.dtype)
        return float(reach[0]) if self._stream.one_dimensional else reach

    def _mean(self, mean: Array) -> Array:
        return self._shaped(mean * self._stream.scale[None, :] + self._stream.offset[None, :])

    def _shaped(self, values: Array) -> Array:
        values = cast(values, self._stream.dtype)
        if not bool(namespace(values).all(namespace(values).isfinite(values))):
            raise InputError(
                f"the prediction leaves the range of {values.dtype}; some rows of X are too far out for the kernel"
            )
        return values[..., 0] if self._stream.one_dimensional else values

    def _std(self, X: Array, variance: Array, latent: bool) -> Array:
        variance = self._clipped(X, variance) + (0.0 if latent else self._stream.model.noise)
        return self._shaped(namespace(variance).sqrt(variance)[:, None] * self._stream.scale[None, :])

    def _covariance(self, X: Array, out: Prediction, latent: bool) -> Array:
        covariance: Array = out.covariance
        xp = namespace(X)
        raw = xp.linalg.diagonal(covariance)
        clipped = self._clipped(X, raw)
        shift = clipped - raw + (0.0 if latent else self._stream.model.noise)
        covariance = covariance + diagonal_matrix(shift)
        return self._shaped(covariance[:, :, None] * (self._stream.scale**2)[None, None, :])

    def _clipped(self, X: Array, variance: Array) -> Array:
        """Raise variances below zero to it; those that are not rounding are counted in a warning."""
        xp, model = namespace(variance), self._stream.model
        prior = float(xp.max(xp.abs(double(model.kernel.diag(X)))))
        prior = max(prior, model.prior_trace / max(model.count, 1.0))
        negative = int(xp.sum(xp.astype(variance < -10 * model.rank**0.5 * eps(X) * prior, xp.int64)))
        if negative:
            if not model.kernel.positive_semidefinite:
                reason = "the kernel is not positive semi-definite; BrownianPolynomial is its valid sibling"
            elif self.variant == "literal":
                reason = "the rank is too short for variant='literal'; use 'projected'"
            else:
                reason = f"rounding of {X.dtype}; raise the noise, or give float64 data"
            warnings.warn(
                f"{negative} of {variance.shape[0]} predicted variances were negative, the lowest "
                f"{float(xp.min(variance)):g}, and were set to zero: {reason}",
                NegativeVarianceWarning,
                stacklevel=4,
            )
        return xp.where(variance < 0, xp.zeros_like(variance), variance)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, *, latent: bool = False
    ) -> np.ndarray:
        """Draw new observations at the rows of X (m, d); shape (m, n_samples) or (m, q, n_samples)."""
        mean, covariance = (to_host(v) for v in self.predict(X, return_cov=True, latent=latent))
        rng = check_random_state(random_state)
        if mean.ndim == 1:
            return _draw(rng, mean, covariance, n_samples)
        return np.stack(
            [_draw(rng, mean[:, j], covariance[:, :, j], n_samples) for j in range(mean.shape[1])], 1
        )

    def log_evidence(self) -> float:
        """Give the log density of the targets learned, in their own units, summed over outputs."""
        check_is_fitted(self)
        stream = self._stream
        log_scale = float(np.log(to_host(stream.scale)).sum())
        with one_blas_thread():
            return stream.model.log_evidence() - stream.model.count * log_scale

    # Keeping

    def save(self, path: str | os.PathLike[str], **more: Any) -> None:
        """Write all that was learned to a file that `streamgp.load` reads; whole, or not at all.

        Going on after `load` equals never having stopped, bit for bit. `more` is kept beside it: numbers, texts,
        tuples, dictionaries. Models taught with NumPy arrays only.
        """
        check_is_fitted(self)
        now = self._snapshot()
        arguments = {**now.get_params(deep=False), "random_state": now._stream.settings.seed}
        if now.kernel is not None and not isinstance(now.kernel, str):
            arguments["kernel"] = as_kernel(now.kernel)
        settings = replace(now._stream.settings, kernel=arguments["kernel"])
        learned = {name: getattr(now, name) for name in _LEARNED[1:] if hasattr(now, name)}
        for name in ("feature_names_in_", "target_names_in_"):
            if name in learned:
                learned[name] = [str(v) for v in learned[name]]
        content = {"arguments": arguments, "learned": learned, "more": more}
        checkpoint.write(path, {**content, "stream": replace(now._stream, settings=settings)})

    # What was learned

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted

    @property
    def _fitted(self) -> bool:
        return "_stream" in self.__dict__

    @property
    def _learned(self) -> Stream:
        check_is_fitted(self)
        return self._stream

    @property
    def kernel_(self) -> Kernel:
        """The kernel of the standardised targets, white noise taken out."""
        return self._learned.model.kernel

    @property
    def noise_(self) -> float:
        """The noise variance of the standardised targets."""
        return self._learned.model.noise

    @property
    def rank_(self) -> int:
        """The number of features in use."""
        return self._learned.model.rank

    @property
    def pivots_(self) -> Array:
        """The rows (r, d) that stand for the stream, a copy; of `pivoted` and, as its basis, `rgp`."""
        stream = self._learned
        model = stream.model
        if stream.gathered is not None:
            return copied(stream.gathered[0])
        if not isinstance(model, PivotedModel | RecursiveModel):
            raise AttributeError(f"method={self.method!r} has no pivots; 'pivoted' and 'rgp' have")
        return copied(model.features.Z)

    @property
    def trace_error_(self) -> float:
        """tr(K − K̂) over the rows learned."""
        return self._learned.model.trace_error

    @property
    def trace_error_share_(self) -> float:
        """The share of tr K that is left, tr(K − K̂)/tr K."""
        model = self._learned.model
        return model.trace_error / model.prior_trace if model.prior_trace > 0 else 0.0

    @property
    def tuning_(self) -> tuning.Outcome | None:
        """What the tuning after the last batch came to; None if there was none."""
        return self._learned.outcome

    @property
    def tuning_seconds_(self) -> float:
        """All the time that was spent tuning."""
        return self._learned.tuning_seconds

    @property
    def target_names_(self) -> list[str]:
        """The names of the targets: those of the frame or series that was learned, else y, or y1, y2 and so on."""
        q = self._learned.scale.shape[0]
        default = ["y"] if q == 1 else [f"y{j + 1}" for j in range(q)]
        return [str(name) for name in getattr(self, "target_names_in_", default)]

    @property
    def refused_(self) -> np.ndarray:
        """Which rows of the last batch the guard left out, shape (b,); empty without a guard."""
        return self._learned.refused

    @property
    def n_refused_(self) -> int:
        """How many rows the guard left out."""
        return self._learned.refusals

    @property
    def n_samples_seen_(self) -> int:
        """The number of rows learned."""
        return self._learned.rows_seen

    @property
    def y_offset_(self) -> Array:
        """What is taken off the targets, shape (q,)."""
        return self._learned.offset

    @property
    def y_scale_(self) -> Array:
        """What the targets are divided by, shape (q,)."""
        return self._learned.scale


@dataclass(frozen=True)
class _Ask:
    """What a task asks of a regressor; `width` is the number of columns of its answers together."""

    gp: StreamingGPRegressor
    options: dict[str, Any]
    width: int

    def __call__(self, X: np.ndarray) -> tuple[np.ndarray, ...]:
        answers = self.gp.predict(X, **self.options)
        return answers if isinstance(answers, tuple) else (answers,)


def load(path: str | os.PathLike[str]) -> StreamingGPRegressor:
    """Read a regressor that `save` wrote."""
    return load_with_more(path)[0]


def load_with_more(path: str | os.PathLike[str]) -> tuple[StreamingGPRegressor, dict[str, Any]]:
    """Read a regressor and what was kept beside it."""
    content = checkpoint.read(path)
    try:
        gp = StreamingGPRegressor(**content["arguments"])
        for name, value in content["learned"].items():
            if name not in _LEARNED[1:]:
                raise ValueError(f"{name} is nothing that a regressor learns")
            setattr(gp, name, value if name == "n_features_in_" else np.array(value, dtype=object))
        stream, more = content["stream"], dict(content["more"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold a regressor: {error}") from error
    if not isinstance(stream, Stream):
        raise CheckpointError(f"{path} does not hold a regressor")
    gp._stream = stream
    return gp, more


def _draw_seed(random_state: Any) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _draw(rng: np.random.RandomState, mean: np.ndarray, covariance: np.ndarray, n_samples: int) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(mean[:, None] + root @ rng.standard_normal((mean.shape[0], n_samples)))
