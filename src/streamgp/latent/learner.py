"""LatentLearner: all that is learned under a likelihood, and the loop that learns a batch."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from .._arrays import one_blas_thread, slices, to_host, zeros
from ..checks import Batch, Columns
from ..errors import InputError, InputTypeError
from ..kernels import Kernel
from ..labels import missing
from ..likelihoods import find_sites
from ..methods.pivot_state import WINDOW, PivotedConfig
from ..methods.sites import BATCH, SiteState
from ..online.outliers import Outliers
from ..parameters import Settings
from ..row_weights import part_of
from ..targets import TargetScaling
from ..tuning.optimise import TAKEN
from ..tuning.reservoir import Reservoir
from ..tuning.schedule import Schedule
from .model import LatentModel, begun_again, first_model, likelihood_of
from .tuning import tune_model


@dataclass(frozen=True)
class Classes:
    """The classes of a classifier.

    Attributes
    ----------
    names : tuple
        Sorted; numbers or texts.
    dtype : str
        That of the array of them.
    closed : bool
        Whether no others may come.
    """

    names: tuple[Any, ...]
    dtype: str
    closed: bool

    @classmethod
    def of(cls, values: np.ndarray, *, closed: bool) -> Self:
        """Return the classes of an array (k,)."""
        return cls(tuple(values.tolist()), values.dtype.str, closed)

    @property
    def values(self) -> np.ndarray:
        """The classes (k,)."""
        return np.array(self.names, dtype=self.dtype)


@dataclass(frozen=True)
class LatentLearner:
    """A latent function for each column of labels, and what tunes them; immutable.

    Attributes
    ----------
    settings : Settings
    columns : Columns
    targets : TargetScaling
        Units of the labels: robust ones for Student's t, their own for counts and classes.
    model : LatentModel
    states : tuple of SiteState, (q,)
    like : (0, d)
        An array in the dtype of the rows.
    sample : Reservoir
        What is tuned on; labels in their own units.
    schedule : Schedule
    rows_seen, batches, unlabelled : int
    classes : Classes or None
        Of a classifier.
    """

    settings: Settings
    columns: Columns
    targets: TargetScaling
    model: LatentModel
    states: tuple[SiteState, ...]
    like: np.ndarray
    sample: Reservoir
    schedule: Schedule
    rows_seen: int = 0
    batches: int = 0
    unlabelled: int = 0
    classes: Classes | None = None

    def update(self, batch: Batch, late: Any = None) -> LatentLearner:
        """Learn a batch; hyperparameters are tuned before it, on a sample that has it."""
        counted = replace(self, unlabelled=self.unlabelled + batch.unlabelled)
        if not batch.X.shape[0]:
            return counted
        X, y = batch.X, self.checked(batch.y)
        n, rate = X.shape[0], self.settings.rate(X.shape[0])
        complete = self.knows_all_rows
        ahead = replace(
            counted,
            states=tuple(s.forget(rate) if rate < 1 and s.count else s for s in self.states),
            schedule=self.schedule.stepped(rate),
            sample=self.sample.add(X, y, None, batch.weights, forgetting=rate),
            rows_seen=self.rows_seen + n,
            batches=self.batches + 1,
        )
        if ahead.schedule.is_due(ahead.settings, ahead.rows_seen, self.count + n, ahead.sample.keys.size):
            ahead = ahead.tuned(self.sample if complete else None)
        return ahead.learned(X, y, batch.weights)

    def checked(self, y: np.ndarray) -> np.ndarray:
        """Return labels (b, q), or raise InputError where one cannot be."""
        y = np.asarray(to_host(y), dtype=np.float64)
        if missing(y) is not None:
            raise InputError(
                f"some outputs of y lack labels, which likelihood={self.settings.likelihood!r} does not learn apart; "
                "drop these rows. The model is unchanged"
            )
        for likelihood, column in zip(self.model.likelihoods, y.T, strict=True):
            likelihood.check(column)
        return y

    def learned(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Return the learner whose states have learned the rows X (b, d) with labels y (b, q), in their own units.

        A row of weight k (b,) is learned as k equal rows.
        """
        states, labels = list(self.states), self.targets.apply(y)
        for rows in slices(X.shape[0], BATCH):
            for j, (likelihood, level) in enumerate(
                zip(self.model.likelihoods, self.model.level, strict=True)
            ):
                state, prior = states[j].before(X[rows])
                known, copies = (level + prior.mean, prior.covariance), part_of(weights, rows)
                sites = find_sites(likelihood, labels[rows, j], *known, copies)
                states[j] = state.with_sites(prior, sites.z - level, sites.w)
        return replace(self, states=tuple(states))

    @property
    def count(self) -> float:
        """The number of rows learned, less what was forgotten."""
        return self.states[0].count

    @property
    def state(self) -> SiteState:
        """The state of the first latent function; all have one kernel."""
        return self.states[0]

    @property
    def knows_all_rows(self) -> bool:
        """Whether the sample has every row, with the weight that it was learned with."""
        return self.sample.keys.size == self.rows_seen and self.sample.favour == 0.0

    def tuned(self, rows: Reservoir | None) -> Self:
        """Return the learner with tuned hyperparameters; `rows` are all rows that the states know, where they are kept.

        Then these are learned anew, their units too; otherwise what the states know is written for the new kernel.
        """
        began, settings = time.perf_counter(), self.settings
        learner, kernel = self, self.model.kernel
        if rows is not None:
            learner = replace(
                learner, targets=units(settings, self.sample.y, self.columns, self.targets.dtype)
            )
            model = begun_again(self.model, learner.targets.apply(self.sample.y), self.sample.weights)
            learner = replace(learner, model=model)
        labels = learner.targets.apply(self.sample.y)
        with one_blas_thread():
            model, found = tune_model(learner.model, self.sample, labels, self.schedule.search(settings))
        schedule = self.schedule.asked(self.rows_seen, self.count).after(
            found, self.rows_seen, time.perf_counter() - began
        )
        learner = replace(learner, model=model, schedule=schedule)
        if rows is not None:
            learner = learner.emptied()
            return (
                learner.learned(rows.X.astype(self.like.dtype), rows.y, rows.weights)
                if rows.keys.size
                else learner
            )
        if found.verdict != TAKEN or model.kernel == kernel:
            return learner
        # Weights are in units of the noise with which the states began.
        states = tuple(s.retuned(model.kernel, s.noise) for s in self.states)
        return replace(learner, states=states)

    def emptied(self) -> Self:
        """Return the learner whose states have learned nothing, with the kernel of its model."""
        return replace(self, states=tuple(empty_states(self.settings, self.model, self.like)))

    # What the attributes of a regressor ask for

    @property
    def kernel(self) -> Kernel:
        """The kernel of every latent function."""
        return self.model.kernel

    @property
    def inducing_points(self) -> np.ndarray:
        """The inducing points (r, d) of the first latent function."""
        return np.asarray(self.state.features.Z)

    @property
    def outliers(self) -> Outliers:
        """No row is refused under a likelihood."""
        return Outliers(None)


def units(settings: Settings, y: np.ndarray, columns: Columns, dtype: Any) -> TargetScaling:
    """Return the units of labels y (n, q): the middle and the robust deviation for Student's t, else their own."""
    q = y.shape[1]
    offset, scale = np.zeros(q), np.ones(q)
    if settings.likelihood == "student":
        low, offset, high = np.quantile(y, [0.16, 0.5, 0.84], axis=0)
        deviation = 0.5 * (high - low)
        deviation = np.where(deviation > 0, deviation, y.std(axis=0))
        scale = np.where(deviation > 0, deviation, np.where(offset != 0, np.abs(offset), 1.0))
    return TargetScaling(offset, scale, columns.one_dimensional, dtype)


def empty_states(settings: Settings, model: LatentModel, like: np.ndarray) -> list[SiteState]:
    """Return a state that has learned nothing for each latent function; `like` (0, d) has the dtype of the rows."""
    config = PivotedConfig(
        settings.most_features,
        window_size=WINDOW if settings.memory == "bounded" else None,
        tolerance=settings.tolerance if settings.rank == "auto" else None,
        seed=settings.seed,
    )
    none, noise = np.zeros((0, 1)), np.full(1, model.noise)
    return [SiteState.empty(config, model.kernel, noise, like, none) for _ in model.likelihoods]


def begin(settings: Settings, batch: Batch) -> LatentLearner:
    """Return the learner of the first rows."""
    if not isinstance(batch.X, np.ndarray):
        raise InputTypeError(
            f"likelihood={settings.likelihood!r} learns NumPy arrays, not those of {type(batch.X).__module__}; "
            "convert X"
        )
    y = np.asarray(to_host(batch.y), dtype=np.float64)
    for column in y.T:
        likelihood_of(settings).check(column[~np.isnan(column)])
    scaling = units(settings, y if missing(y) is None else np.nan_to_num(y), batch.columns, batch.dtype)
    model = first_model(settings, batch.X, scaling.apply(np.nan_to_num(y)), batch.weights)
    like = zeros((0, batch.X.shape[1]), batch.X)
    learner = LatentLearner(
        settings=settings,
        columns=batch.columns,
        targets=scaling,
        model=model,
        states=tuple(empty_states(settings, model, like)),
        like=like,
        sample=Reservoir.empty(batch.X.shape[1], y.shape[1], settings.seed),
        schedule=Schedule(model.kernel.theta),
    )
    return learner.update(batch)
