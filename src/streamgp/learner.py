"""Stream: all that a regressor has learned, and how the next batch changes it. Every step returns a new one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from . import checks as validation
from ._arrays import (
    Array,
    asarray_like,
    copied,
    index,
    is_foreign,
    joined,
    namespace,
    one_blas_thread,
    settle,
    slices,
    to_host,
    zeros,
)
from .errors import InputError, KernelError, NumericalError, ParameterError
from .gp.statistics import LeftOut
from .kernels import Affine, Kernel, as_kernel
from .methods import AffineModel, ExactModel, Model, PivotedModel, RecursiveModel, SpectralModel
from .methods.base import Recent
from .methods.pivoted import WINDOW
from .methods.rows import STILL, moving
from .online.calibration import FEWEST, Scores
from .online.calibration import WINDOW as SCORES
from .online.ledger import Ledger
from .online.outliers import Inputs, far_from_the_others
from .tuning import optimise as tuning
from .tuning import start as starting
from .tuning.optimise import Outcome, Tuned
from .tuning.reservoir import SAMPLE, Reservoir

# Rows from which hyperparameters that were not given are taken; fewer are kept until there are enough.
WARM_UP = 50
# Noise that is estimated anew does not fall below this share of where it started.
LEAST_NOISE = 1e-4
# Rows predicted at once: bounds the memory that a large batch needs.
CHUNK = 2000
# Of a batch, the last rows that are scored before they are learned.
SCORED = 500
# On a device, where a factorisation takes long, so many batches are scored and then one in as many.
SCORED_ON_DEVICE = 32


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
    guard: float | None
    mixed_precision: bool
    seed: int

    def gathers(self, n_rows: int) -> bool:
        """Tell whether so many rows are too few for the basis of rgp."""
        return self.method == "rgp" and self.basis is None and n_rows < int(self.rank)


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
    gathered : rows and targets, or None
        The rows so far while they are too few for the basis of rgp, which is the exact GP until then.
    sample : Reservoir
        What hyperparameters are tuned on.
    centre : (p,)
        The kernel's theta at the start.
    known : float
        Of the rows that the past counts for, those that the last tuning had seen; they fade.
    outcome : Outcome or None
        Of the last tuning.
    inputs : Inputs or None
        What inputs looked like so far, where rows are guarded.
    refused : (b,)
        Which rows of the last batch the guard left out.
    refusals : int
        How many in all.
    ledger : Ledger
        Which rows were learned, for `unlearn` to refuse others.
    last : (1, d) or None
        The last row.
    still : int
        For how many rows inputs have been equal to it.
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
    gathered: tuple[Array, Array] | None
    sample: Reservoir
    centre: np.ndarray
    scores: Scores
    tunings: int = 0
    tuned_at: int = 0
    known: float = 0.0
    outcome: Outcome | None = None
    tuning_seconds: float = 0.0
    inputs: Inputs | None = None
    refused: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    refusals: int = 0
    ledger: Ledger = field(default_factory=Ledger.empty)
    last: Array | None = None
    still: int = 0
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def begin(cls, settings: Settings, batch: validation.Batch, batches: int = 1) -> Self:
        """Choose the hyperparameters that were not given and learn the first rows."""
        if settings.guard is None:
            return cls._begin(settings, batch, batches)
        table = np.hstack([to_host(batch.X).astype(np.float64), to_host(batch.y)])
        refused = far_from_the_others(table, settings.guard)
        if refused.all():
            raise InputError("the guard finds no two of the first rows alike; raise `guard` or leave it out")
        begun = cls._begin(settings, _kept(batch, ~refused), batches)
        X = table[~refused, : batch.X.shape[1]]
        inputs = Inputs.none(starting.spread(X)).add(X)
        return replace(begun, inputs=inputs, refused=refused, refusals=int(refused.sum()))

    @classmethod
    def _begin(cls, settings: Settings, batch: validation.Batch, batches: int) -> Self:
        X, y = batch.X, batch.y
        kernel = _kernel(settings, X.shape[1])
        noise = None if settings.noise == "auto" else float(settings.noise)
        family = settings.kernel if isinstance(settings.kernel, str) else "squared_exponential"
        given = kernel is not None and (noise is not None or kernel.nugget > 0)
        enough = given or X.shape[0] >= WARM_UP
        start = starting.start(
            to_host(X).astype(np.float64), to_host(y), kernel, noise, family,
            few=not enough, fixed=settings.tune == "none",
        )  # fmt: skip
        offset, scale = asarray_like(start.offset, y), asarray_like(start.scale, y)
        if settings.tune != "none":
            start = replace(start, kernel=tuning.with_amplitude(start.kernel))
        targets = validation.standardised(y, offset, scale)
        sample = Reservoir.empty(X.shape[1], y.shape[1], settings.seed)
        fresh, still = moving(X, alone=True)
        stream = cls(
            settings,
            _empty(settings, start.kernel, start.noise, X, y),
            offset,
            scale,
            X.shape[0],
            batches,
            batch.one_dimensional,
            batch.dtype,
            zeros((0, X.shape[1]), X),
            # Copies: the caller may write its next rows into the same memory.
            None if enough else (copied(X), copied(y)),
            (copied(X), copied(y)) if settings.gathers(X.shape[0]) else None,
            sample if settings.tune == "none" else sample.add(X, targets, fresh),
            start.kernel.theta,
            Scores.none(y.shape[1], targets),
            # Of many rows: in their own memory, not as a view of all.
            last=copied(X[-1:, :]),
            still=still,
            ledger=Ledger.empty().add(X, y),
        )
        if not enough:
            return replace(stream, model=observe(stream.model, X, targets))

        def anew(kernel: Kernel, noise: float) -> Model:
            return observe(_empty(settings, kernel, noise, X, y, tuned=True), X, targets)

        # Every row is at hand: the model of the tuned kernel is made from them.
        tuned = stream if isinstance(stream.model, AffineModel) else stream._tuned(anew, X.shape[0])
        if not (tuned.outcome and tuned.outcome.taken):
            tuned = replace(tuned, model=observe(stream.model, X, targets))._weighed()
        return tuned._scored_afterwards(X, targets, fresh)

    @property
    def starting(self) -> bool:
        """Whether rows are still gathered: there is nothing yet that could be merged, unlearned or distributed."""
        return self.waiting is not None or self.gathered is not None

    def reach(self, probability: float, *, calibrated: bool) -> Array:
        """Return how many standard deviations an interval reaches; shape (q,).

        While rows are too few to tune on, n of them, the Gaussian process's own intervals are those of Student's t
        with n − 1 degrees of freedom: amplitude and noise are estimates.
        """
        freedom = math.inf if self.waiting is None else max(self.rows_seen - 1.0, 1.0)
        scores = self.scores if calibrated else self.scores.emptied()
        return scores.reach(probability, self.model.noise, freedom, self.rows_seen)

    def learn(self, batch: validation.Batch, forgetting: float) -> Self:
        """Learn the next batch; hyperparameters are tuned before it, so that it is learned with the new ones."""
        first, n = self.waiting or self.gathered, batch.X.shape[0]
        if first and (self.waiting or not self.settings.gathers(first[0].shape[0] + n)):
            # All that came from the first rows, units and hyperparameters, comes from more of them now.
            X, y = joined([first[0], batch.X]), joined([first[1], batch.y])
            begun = type(self).begin(self.settings, batch._replace(X=X, y=y), self.batches + 1)
            return replace(
                begun,
                refused=begun.refused[-n:],
                refusals=self.refusals + begun.refusals,
                tunings=self.tunings + begun.tunings,
                tuning_seconds=self.tuning_seconds + begun.tuning_seconds,
            )
        if self.settings.guard is None or self.inputs is None:
            return self._learn(batch, forgetting)
        refused = self._impossible(batch, self.settings.guard)
        after, inputs = self, self.inputs
        if not refused.all():
            kept = batch if not refused.any() else _kept(batch, ~refused)
            after = self._learn(kept, forgetting)
            inputs = inputs.add(to_host(kept.X).astype(np.float64))
        return replace(after, inputs=inputs, refused=refused, refusals=self.refusals + int(refused.sum()))

    def tuned_as(self, tune: str, objective: str, initial_batches: int, bounds: tuple[float, float]) -> Self:
        """Go on with another way to tune."""
        given: dict[str, Any] = {
            "tune": tune,
            "objective": objective,
            "initial_batches": initial_batches,
            "bounds": bounds,
        }
        if all(getattr(self.settings, name) == value for name, value in given.items()):
            return self
        return replace(self, settings=replace(self.settings, **given))

    def _impossible(self, batch: validation.Batch, guard: float) -> np.ndarray:
        """Tell which rows lie so many deviations off: inputs from their mean, targets from their prediction."""
        assert self.inputs is not None
        far = self.inputs.far(to_host(batch.X).astype(np.float64), guard)
        if far.all():
            return far
        near = _kept(batch, ~far) if far.any() else batch
        # Of the prior: a precise model is easily surprised, and may be so by a change that it ought to learn.
        prior = np.sqrt(np.abs(to_host(self.model.kernel.diag(near.X))) + self.model.noise)
        with np.errstate(over="ignore"):
            y = (to_host(near.y) - to_host(self.offset)) / to_host(self.scale)
            away = np.abs(y - to_host(self.predict(near.X)[0]))
        far[~far] = ~(away <= guard * prior[:, None]).all(axis=1)
        return far

    def _learn(self, batch: validation.Batch, forgetting: float) -> Self:
        X, y = batch.X, batch.y
        targets = validation.standardised(y, self.offset, self.scale, X)
        model, gathered = self.model, self.gathered
        if gathered is not None:
            gathered, forgetting = (joined([gathered[0], X]), joined([gathered[1], y])), 1.0
        if forgetting != 1 and isinstance(model, PivotedModel | RecursiveModel):
            model = model.forget(forgetting)
        fresh, still = None, 0
        if self._scores_now(X) or not is_foreign(X):
            fresh, still = moving(X, self.last, self.still, alone=self.still >= self.rows_seen)
        ahead = replace(
            self,
            model=model,
            gathered=gathered,
            rows_seen=self.rows_seen + X.shape[0],
            known=forgetting * self.known,
            batches=self.batches + 1,
            outcome=None,
            recent=Recent(),
            ledger=self.ledger.add(X, y),
            last=copied(X[-1:, :]),
            still=still,
        )
        # A batch as large as all before makes another model of it: only scores of this batch are kept.
        matures = (X.shape[0] if fresh is None else fresh.shape[0]) >= self.rows_seen
        if self._scores_now(X):
            before = self.scores.emptied() if matures else self.scores
            ahead = replace(ahead, scores=self._scores(before, X, targets, fresh))
        due = ahead._is_due(X.shape[0])
        if due:
            ahead = ahead._sampled(X, targets, forgetting, fresh)
        if not isinstance(model, AffineModel):
            ahead = ahead._tuned(model.retuned, X.shape[0], self.sample)
        model = observe(ahead.model, X, targets)
        settle()
        if not due:
            # A device works on the rows while the host looks at them.
            ahead = ahead._sampled(X, targets, forgetting, fresh)
        if isinstance(model, PivotedModel) and ahead.scores.noise is not None:
            model = model.with_noise(ahead.scores.noise)
        ahead = replace(ahead, model=model)._weighed()
        return ahead._scored_afterwards(X, targets, fresh) if matures else ahead

    def _sampled(self, X: Array, targets: Array, forgetting: float, fresh: Array | None) -> Self:
        if self.settings.tune == "none":
            return self
        return replace(self, sample=self.sample.faded(forgetting).add(X, targets, fresh))

    def unlearn(self, batch: validation.Batch) -> Self:
        """Take rows away; neither the sample nor the scores know them any more.

        Raises InputError, with nothing changed, where they are known not to have been learned.
        """
        model, n = self.model, batch.X.shape[0]
        if self.starting or not isinstance(model, PivotedModel | RecursiveModel):
            raise InputError(
                "the first rows still wait for more and cannot be unlearned; fit without them"
                if self.starting
                else f"method={self.settings.method!r} cannot unlearn"
            )
        if n > self.rows_seen:
            raise InputError(f"{n} rows are more than the {self.rows_seen} that were learned")
        ledger, known = self.ledger.without(batch.X, batch.y)
        targets = validation.standardised(batch.y, self.offset, self.scale)
        model = model.unlearn(batch.X, targets, known=known)
        after = replace(
            self,
            model=model,
            rows_seen=self.rows_seen - n,
            known=min(self.known, model.count),
            sample=self.sample.without(batch.X, targets),
            scores=self.scores.emptied(),
            ledger=ledger,
            last=None,
            still=0,
            recent=Recent(),
        )
        return after._judged_by_window() if isinstance(model, PivotedModel) else after

    def _judged_by_window(self) -> Self:
        """Estimate the noise and the scores anew from the rows that are remembered, each left out in turn.

        Rows that were unlearned may have raised the noise. It is lowered where the others are predicted better so;
        where even the last tuning took it too high, the next batch is tuned again.
        """
        model = self.model
        assert isinstance(model, PivotedModel)
        now = model.recent_left_out()
        scores = self.scores.emptied().add(now.error, now.variance, now.noise)
        if scores.noise is None or model.least_noise is None:
            return replace(self, scores=scores)
        lower = model.with_noise(scores.noise, at_once=True)
        found = lower.recent_left_out()
        if found.log_density() <= now.log_density():
            return replace(self, scores=scores)
        scores = self.scores.emptied().add(found.error, found.variance, found.noise)
        after = replace(self, model=lower, scores=scores)
        if (
            self.settings.tune != "none"
            and scores.noise is not None
            and scores.noise < 0.5 * model.least_noise
        ):
            return replace(after, known=0.0, tuned_at=0)
        return after

    def _scored_afterwards(self, X: Array, targets: Array, fresh: Array | None) -> Self:
        """Score rows of a batch that was just learned, each left out in turn: as many as scores are kept.

        Only those of the numbers `fresh`, None for all.
        """
        xp, n = namespace(X), X.shape[0]
        rows = np.arange(n) if fresh is None else to_host(fresh)
        rows = np.random.default_rng([self.settings.seed, 37, self.batches]).permutation(rows)
        rows = rows[:SCORES]
        at = index(np.sort(rows).tolist(), X)
        X, targets = xp.take(X, at, axis=0), xp.take(targets, at, axis=0)
        found = self.model.left_out(X, targets, at + (round(self.model.count) - n))
        if found is None:
            return self
        # Rows that p hyperparameters were tuned on leave errors too small by √(1 − p/n), as in a linear regression.
        tuned = self.model.kernel.theta.size + 1 if self.settings.tune != "none" else 0
        known = min(self.rows_seen, SAMPLE)
        grown = (1.0 - min(tuned / known, 0.5)) ** -0.5
        scores = self.scores.emptied().add(grown * found.error, found.variance, found.noise)
        # Rows between others are easier to predict than those that come next: the larger scores are kept.
        return self if self._exceed(self.scores, scores) else replace(self, scores=scores)

    def _exceed(self, some: Scores, others: Scores) -> bool:
        """Tell whether intervals of nine in ten reach further by some scores than by others, over all outputs."""
        if some.count < FEWEST:
            return False
        mine, theirs = (namespace(s.errors).sum(s.reach(0.9, self.model.noise)) for s in (some, others))
        return bool(mine > theirs)

    def merged(self, other: Self) -> Self:
        """Add what another stream has learned."""
        theirs = other.model
        if theirs.kernel != self.model.kernel:
            theirs = theirs.retuned(self.model.kernel, self.model.noise)
        return replace(
            self,
            model=self.model.merge(theirs),  # type: ignore[attr-defined]
            rows_seen=self.rows_seen + other.rows_seen,
            sample=self.sample.merge(other.sample),
            inputs=self.inputs.merge(other.inputs) if self.inputs and other.inputs else self.inputs,
            refusals=self.refusals + other.refusals,
            scores=self.scores.merge(other.scores),
            ledger=self.ledger.merge(other.ledger),
            last=None,
            still=0,
            recent=Recent(),
        )

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

    def _scores_now(self, X: Array) -> bool:
        """Tell whether this batch is scored; on a device, where predicting is waited for, not every one is."""
        return not (is_foreign(X) and self.batches > SCORED_ON_DEVICE and self.batches % SCORED_ON_DEVICE)

    def _scores(self, before: Scores, X: Array, targets: Array, fresh: Array | None) -> Scores:
        """Score the newest rows before they are learned: those of the numbers `fresh`, None for all."""
        newest = max(0, X.shape[0] - SCORED)
        X, targets = X[newest:, :], targets[newest:, :]
        mean, variance = self.predict(X)
        xp = namespace(mean)
        variance, error = xp.where(variance > 0, variance, xp.zeros_like(variance)), targets - mean
        if fresh is not None:
            at = fresh[fresh >= newest] - newest
            error, variance = xp.take(error, at, axis=0), xp.take(variance, at, axis=0)
        return before.add(error, variance, self.model.noise)

    def _is_due(self, coming: int = 0) -> bool:
        """Tell whether to tune now, `coming` rows before they are learned."""
        settings, old = self.settings, self.known / max(self.model.count + coming, 1.0)
        # A stream that was not to be tuned at first has a small sample, or none.
        return self.sample.keys.size >= tuning.FEWEST and tuning.is_due(
            settings.tune, self.rows_seen, self.tunings, self.tuned_at, settings.initial_batches, old
        )

    def _given(self) -> dict[str, Any]:
        settings = self.settings
        few = settings.tune == "continuous" and self.tunings >= settings.initial_batches
        return {
            "objective": settings.objective,
            "bounds": tuple(settings.bounds),
            "tune_noise": settings.noise == "auto",
            "steps": tuning.FEW_STEPS if few else tuning.STEPS,
        }

    def _tuned(
        self, change: Callable[[Kernel, float], Model], coming: int, learned: Reservoir | None = None
    ) -> Self:
        """Tune the hyperparameters on the sample if it is time to; `change` makes the model of better ones.

        `learned` is the sample without the rows that come, if any were learned.
        """
        if not self._is_due(coming):
            return self
        began, model, sample = time.perf_counter(), self.model, self.sample
        with one_blas_thread():  # a device's stream, too, is tuned on the host
            tuned = tuning.tune_on_rows(
                model.kernel, model.noise, self.centre, sample.X, sample.y, **self._given()
            )
        verdict = tuned.verdict
        if verdict == tuning.TAKEN:
            try:
                model = change(tuned.kernel, tuned.noise)
            except NumericalError as error:
                verdict = f"failed: {error}"
        known = self.model.count + coming
        outcome = replace(tuned, verdict=verdict)
        return self._noted(model, outcome, time.perf_counter() - began, known, learned)

    def _weighed(self) -> Self:
        """Tune the weights of an affine kernel from the statistics if it is time to; go over to its own factor."""
        model, settings = self.model, self.settings
        if not isinstance(model, AffineModel) or not self._is_due():
            return self
        began, sample = time.perf_counter(), self.sample
        verdict = tuning.nothing_to_learn(sample.X, sample.y)
        if verdict:
            tuned = Tuned(model.kernel, model.noise, verdict)
        else:
            mixture = model.mixture
            with one_blas_thread():
                tuned = tuning.tune_weights(model.kernel, model.noise, self.centre, mixture, **self._given())
        if tuned.verdict == tuning.TAKEN:
            model = model.retuned(tuned.kernel, tuned.noise)
        after: Model = model
        if settings.tune == "hybrid" and self.tunings + 1 >= settings.initial_batches:
            try:
                after = model.settled()
            except NumericalError as error:
                tuned = replace(tuned, verdict=f"failed: {error}")
        return self._noted(after, tuned, time.perf_counter() - began, model.count, sample)

    def _noted(
        self, model: Model, tuned: Tuned, seconds: float, known: float, learned: Reservoir | None
    ) -> Self:
        outcome = Outcome(
            self.rows_seen, tuned.verdict, tuned.before, tuned.after, tuned.evaluations, seconds
        )
        return replace(
            self,
            model=model,
            tunings=self.tunings + 1,
            tuned_at=self.rows_seen,
            known=known,
            outcome=outcome,
            tuning_seconds=self.tuning_seconds + seconds,
            scores=self._scores_of(model, learned) if outcome.taken else self.scores,
        )

    def _scores_of(self, model: Model, learned: Reservoir | None) -> Scores:
        """Return the scores as the retuned model would have them: errors and variances of rows left out tell how."""
        if not self.scores.count or learned is None:
            return self.scores.emptied()
        old, new = (self._left_out(m, learned) for m in (self.model, model))
        if old is None or new is None or min(old.error.shape[0], new.error.shape[0]) <= STILL:
            return self.scores.retuned(1.0, 1.0)
        return self.scores.retuned(
            new.typical_error / old.typical_error, new.typical_variance / old.typical_variance
        )

    def _left_out(self, model: Model, learned: Reservoir) -> LeftOut | None:
        if not isinstance(model, RecursiveModel):
            return model.recent_left_out()
        # It keeps no row, but the sample does.
        return model.left_out(asarray_like(learned.X, self.like), asarray_like(learned.y, self.scale))


def _kept(batch: validation.Batch, rows: np.ndarray) -> validation.Batch:
    """Give the rows of a batch that are to be learned."""
    xp, at = namespace(batch.X), index(np.flatnonzero(rows).tolist(), batch.X)
    return batch._replace(X=xp.take(batch.X, at, axis=0), y=xp.take(batch.y, at, axis=0))


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


def _empty(
    settings: Settings, kernel: Kernel, noise: float, X: Array, y: Array, *, tuned: bool = False
) -> Model:
    """Make the model that has learned nothing; X (n, d) and y (n, q) are the rows that it will learn first."""
    rank = settings.max_rank if settings.rank == "auto" else int(settings.rank)
    if settings.method == "pivoted":
        window = WINDOW if settings.memory == "bounded" else None
        tolerance = settings.tolerance if settings.rank == "auto" else None
        least = (1.0 if tuned else LEAST_NOISE) * noise if settings.noise == "auto" else None
        mixed = bool(settings.mixed_precision)
        return PivotedModel.empty(kernel, noise, rank, window, tolerance, least, settings.seed, X, y, mixed)
    if settings.method == "nrmf":
        return ExactModel.empty(kernel, noise, settings.refactor, X, y)
    if settings.method == "rgp":
        if settings.basis is not None:
            basis = validation.basis(settings.basis, X)
            return RecursiveModel.empty(kernel, noise, rank, basis, y, None)
        if settings.gathers(X.shape[0]):
            return ExactModel.empty(kernel, noise, False, X, y)
        return RecursiveModel.empty(kernel, noise, rank, X, y, (settings.seed, 0))
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
