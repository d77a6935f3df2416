"""Stream: all that a regressor has learned, and how the next batch changes it. Every step returns a new one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from . import tuning, validation
from ._arrays import Array, asarray_like, copied, joined, namespace, slices, to_host, zeros
from .calibration import Scores
from .errors import KernelError, NumericalError, ParameterError
from .kernels import Affine, Kernel, as_kernel
from .models import AffineModel, ExactModel, Model, PivotedModel, RecursiveModel, SpectralModel
from .models.base import Recent
from .models.pivoted import WINDOW
from .tuning import Outcome, Reservoir

# Rows from which hyperparameters that were not given are taken; fewer are kept until there are enough.
WARM_UP = 50
# Noise that is estimated anew does not fall below this share of where it started.
LEAST_NOISE = 1e-4
# Rows predicted at once: bounds the memory that a large batch needs.
CHUNK = 2000
# Of a batch, the last rows that are scored before they are learned.
SCORED = 500


@dataclass(frozen=True)
class Settings:
    """The regressor's arguments at its first batch; see there."""

    kernel: Any
    method: str
    rank: int | str
    max_rank: int
    tolerance: float
    oversampling: int
    noise: float | str
    tune: str
    objective: str
    initial_batches: int
    bounds: tuple[float, float]
    memory: str
    variant: str
    refactor: bool
    basis: Any
    seed: int


@dataclass(frozen=True)
class Stream:
    """A model of standardised targets, and what is kept beside it.

    Attributes
    ----------
    offset, scale : (q,)
        The model sees (y − offset)/scale.
    like : (0, d)
        Lives where the model does, in the dtype of its rows.
    dtype
        That of answers.
    waiting : rows and targets, or None
        The first rows while there are too few to start from.
    sample : Reservoir
        What hyperparameters are tuned on.
    centre : (p,)
        The kernel's theta at the start.
    outcome : Outcome or None
        Of the last tuning.
    """

    settings: Settings
    model: Model
    offset: Array
    scale: Array
    rows_seen: int
    batches: int
    one_dimensional: bool
    dtype: Any
    like: Array
    waiting: tuple[Array, Array] | None
    sample: Reservoir
    centre: np.ndarray
    scores: Scores
    tuned_at: int = 0
    outcome: Outcome | None = None
    tuning_seconds: float = 0.0
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def begin(cls, settings: Settings, batch: validation.Batch, batches: int = 1) -> Self:
        """Choose the hyperparameters that were not given and learn the first rows."""
        X, y = batch.X, batch.y
        kernel = _kernel(settings, X.shape[1])
        noise = None if settings.noise == "auto" else float(settings.noise)
        mixture = isinstance(settings.kernel, str)
        start = tuning.start(to_host(X).astype(np.float64), to_host(y), kernel, noise, mixture=mixture)
        offset, scale = asarray_like(start.offset, y), asarray_like(start.scale, y)
        given = kernel is not None and (noise is not None or kernel.nugget > 0)
        needed = 1 if given else WARM_UP
        if settings.method == "rgp" and settings.basis is None:
            needed = max(needed, int(settings.rank))
        enough = X.shape[0] >= needed
        if settings.tune != "none":
            start = replace(start, kernel=tuning.with_amplitude(start.kernel))
        targets = validation.standardised(y, offset, scale)
        model = observe(_empty(settings, start.kernel, start.noise, X, y, enough), X, targets)
        sample = Reservoir.empty(X.shape[1], y.shape[1], settings.seed)
        stream = cls(
            settings,
            model,
            offset,
            scale,
            X.shape[0],
            batches,
            batch.one_dimensional,
            batch.dtype,
            zeros((0, X.shape[1]), X),
            # Copies: the caller may write its next rows into the same memory.
            None if enough else (copied(X), copied(y)),
            sample if settings.tune == "none" else sample.add(X, targets),
            start.kernel.theta,
            Scores.none(y.shape[1], targets),
        )
        return stream._tuned() if enough else stream

    def learn(self, batch: validation.Batch, forgetting: float) -> Self:
        """Learn the next batch."""
        X, y = batch.X, batch.y
        if self.waiting is not None:
            X, y = joined([self.waiting[0], X]), joined([self.waiting[1], y])
            return type(self).begin(self.settings, batch._replace(X=X, y=y), self.batches + 1)
        targets = validation.standardised(y, self.offset, self.scale)
        scores = self._scores(X, targets)
        model = self.model
        if forgetting != 1 and isinstance(model, PivotedModel | RecursiveModel):
            model = model.forget(forgetting)
        sample = self.sample
        if self.settings.tune != "none":
            sample = sample.add(X, targets, -self.batches * float(np.log(forgetting)))
        model = observe(model, X, targets)
        if isinstance(model, PivotedModel) and scores.noise is not None:
            model = model.with_noise(scores.noise)
        return replace(
            self,
            model=model,
            rows_seen=self.rows_seen + X.shape[0],
            batches=self.batches + 1,
            sample=sample,
            scores=scores,
            recent=Recent(),
        )._tuned()

    def predict_mean(self, X: Array) -> Array:
        """Give the mean (m, q) alone."""
        parts = slices(X.shape[0], CHUNK)
        return joined([self.model.predict(X[r, :], variance=False, covariance=False).mean for r in parts])

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Give mean (m, q) and variance (m,) of the function, as computed; no work for the rows asked for last."""

        def compute(X: Array) -> tuple[Array, Array]:
            pieces = [
                self.model.predict(X[rows, :], variance=True, covariance=False)
                for rows in slices(X.shape[0], CHUNK)
            ]
            return joined([p.mean for p in pieces]), joined([p.variance for p in pieces])

        return self.recent.of(X, compute)

    def _scores(self, X: Array, targets: Array) -> Scores:
        """Score rows before they are learned: those just predicted, or where predicting costs the same for ever."""
        if not isinstance(self.model, PivotedModel | RecursiveModel) and not self.recent.known(X):
            return self.scores
        newest = max(0, X.shape[0] - SCORED)
        X, targets = X[newest:, :], targets[newest:, :]
        mean, variance = self.predict(X)
        xp = namespace(mean)
        variance = xp.where(variance > 0, variance, xp.zeros_like(variance))
        return self.scores.add(targets - mean, variance, self.model.noise)

    def _tuned(self) -> Self:
        """Tune the hyperparameters if it is time to, and go on with the better ones."""
        settings = self.settings
        if not tuning.is_due(
            settings.tune, self.rows_seen, self.batches, self.tuned_at, settings.initial_batches
        ):
            return replace(self, outcome=None) if self.outcome else self
        model, initial = self.model, settings.initial_batches
        given: dict[str, Any] = {
            "objective": settings.objective,
            "bounds": tuple(settings.bounds),
            "tune_noise": settings.noise == "auto",
            "steps": tuning.STEPS
            if self.batches <= initial or settings.tune != "continuous"
            else tuning.FEW_STEPS,
        }
        if isinstance(model, AffineModel):
            kernel, mixture = model.kernel, model.mixture
            tuned, outcome = tuning.timed(
                lambda: tuning.tune_weights(kernel, model.noise, self.centre, mixture, **given),
                self.rows_seen,
            )
        else:
            tuned, outcome = tuning.timed(
                lambda: tuning.tune_on_rows(
                    model.kernel, model.noise, self.centre, self.sample.X, self.sample.y, **given
                ),
                self.rows_seen,
            )
        if outcome.taken:
            try:
                model = model.retuned(tuned.kernel, tuned.noise)
            except NumericalError as error:
                outcome = replace(outcome, verdict=f"failed: {error}")
        if (
            settings.tune == "hybrid"
            and self.batches >= settings.initial_batches
            and isinstance(model, AffineModel)
        ):
            model = model.settled()
        return replace(
            self,
            model=model,
            tuned_at=self.rows_seen,
            outcome=outcome,
            tuning_seconds=self.tuning_seconds + outcome.seconds,
        )


def observe(model: Model, X: Array, y: Array) -> Model:
    """Let a model learn rows, as many at once as it likes."""
    for rows in slices(X.shape[0], model.largest_batch or X.shape[0]):
        model = model.observe(X[rows, :], y[rows, :])
    return model


def _kernel(settings: Settings, n_features: int) -> Kernel | None:
    if settings.kernel is None or isinstance(settings.kernel, str):
        return None
    kernel = as_kernel(settings.kernel)
    kernel.check_features(n_features)
    if kernel.without_nugget().nugget:
        raise KernelError(f"kernel={kernel} is white noise only; add a kernel of the inputs to it")
    if settings.method in ("pivoted", "rgp") and not kernel.positive_semidefinite:
        raise KernelError(
            f"method={settings.method!r} needs a positive semi-definite kernel, not {kernel}; use 'srmf'"
        )
    return kernel


def _empty(settings: Settings, kernel: Kernel, noise: float, X: Array, y: Array, enough: bool) -> Model:
    """Make the model that has learned nothing."""
    rank = settings.max_rank if settings.rank == "auto" else int(settings.rank)
    if settings.method == "pivoted":
        window = WINDOW if settings.memory == "bounded" else None
        tolerance = settings.tolerance if settings.rank == "auto" else None
        least = LEAST_NOISE * noise if settings.noise == "auto" else None
        return PivotedModel.empty(kernel, noise, rank, window, tolerance, least, settings.seed, X, y)
    if settings.method == "nrmf":
        return ExactModel.empty(kernel, noise, settings.refactor, X, y)
    if settings.method == "rgp":
        if settings.basis is not None:
            basis = validation.basis(settings.basis, X)
            return RecursiveModel.empty(kernel, noise, rank, basis, y, None)
        seed = (settings.seed, 0) if enough else None
        return RecursiveModel.empty(kernel, noise, rank, X, y, seed)
    if settings.tune != "none" and isinstance(kernel, Affine):
        if settings.variant == "literal":
            raise ParameterError(
                "variant='literal' has fixed weights; tune them with 'projected', or tune='none'"
            )
        return AffineModel.empty(
            kernel,
            noise,
            rank,
            settings.oversampling,
            settings.seed,
            X,
            y,
            sequential=settings.method == "srmf",
        )
    return SpectralModel.empty(
        kernel, noise, rank, settings.oversampling, settings.seed, X, y,
        sequential=settings.method == "srmf", literal=settings.variant == "literal",
    )  # fmt: skip
