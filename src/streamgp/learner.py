"""Learner: all that a regressor has learned, and the loop that tests on a batch and then trains on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np

from . import filling, following, hyperparameters
from ._arrays import (
    Array,
    asarray_like,
    copied,
    is_foreign,
    namespace,
    on_host,
    settle,
    to_host,
    zeros,
)
from .checks import Batch, Columns
from .errors import InputError
from .kernels import Kernel
from .labels import without_gaps
from .methods import MergeableState, State, empty_state
from .methods.factory import gathers
from .methods.split import forgotten, is_split, learn
from .methods.stored import Store
from .online import calibration
from .online.answered import Late
from .online.calibration import Scores
from .online.choice import OpenChoice
from .online.exponential import NEIGHBOURS
from .online.first import FirstRows
from .online.history import Ledger, Repeats
from .online.missing import Imputation
from .online.mixture import Mixture
from .online.outliers import Outliers
from .online.suspects import ROUNDS
from .parameters import AUTO, MERGEABLE, Settings
from .row_weights import taken
from .targets import TargetScaling
from .transforms import TargetTransform
from .tuning.background import Asked
from .tuning.reservoir import SAMPLE, Reservoir
from .tuning.schedule import Schedule
from .tuning.start import start_of

# Distinguishes the draw of rows to score from other draws with the same seed.
SCORING_DRAW = 37
# On a device, where a factorisation takes long: so many batches are scored, and then one in as many.
SCORED_ON_DEVICE = 32


@dataclass(frozen=True)
class Learner:
    """A state of standardised targets, and what follows the stream beside it.

    Attributes
    ----------
    settings : Settings
    columns : Columns
    targets : TargetScaling
    state : State
        What the method has learned.
    like : (0, d)
        An array on the device of the state, in the dtype of its rows.
    sample : Reservoir
        What hyperparameters are tuned on.
    schedule : Schedule
    scores : Scores
        What intervals are calibrated on.
    ledger : Ledger
        Which rows were learned, for `unlearn` to refuse others.
    repeats : Repeats
    outliers : Outliers
    first : FirstRows or None
    rows_seen, batches : int
    unlabelled : int
        Rows without any label, which were not learned.
    mixture : Mixture or None
        The panel, of which the state is the first member; None where the state is alone.
    asked : Asked or None
        The tuning that is under way beside the stream.
    imputation : Imputation or None
        By which features that are missing are filled in; None where they are refused.
    transform : TargetTransform or None
        Of the targets, before all else; None for none.
    choice : OpenChoice or None
        The rows by which another transform may still be chosen.
    """

    settings: Settings
    columns: Columns
    targets: TargetScaling
    state: State
    like: Array
    sample: Reservoir
    schedule: Schedule
    scores: Scores
    ledger: Ledger
    repeats: Repeats
    outliers: Outliers
    first: FirstRows | None
    rows_seen: int
    batches: int
    unlabelled: int = 0
    mixture: Mixture | None = None
    asked: Asked | None = None
    imputation: Imputation | None = None
    transform: TargetTransform | None = None
    choice: OpenChoice | None = None

    # The loop

    @classmethod
    def of(cls, settings: Settings, batch: Batch, outliers: Outliers, batches: int, *, at_once: bool) -> Self:
        """Choose the hyperparameters that were not given and learn the first rows; see `begin`."""
        X, y, weights, n = batch.X, batch.y, batch.weights, batch.X.shape[0]
        found, estimating = start_of(settings, X, without_gaps(y), weights)
        offset, scale = asarray_like(found.offset, y), asarray_like(found.scale, y)
        targets = TargetScaling(offset, scale, batch.columns.one_dimensional, batch.dtype)
        z = targets.apply(y)
        repeats, fresh = Repeats().after(X, 0)
        gathering, sample = gathers(settings, n), Reservoir.empty(X.shape[1], y.shape[1], settings.seed)
        learner = cls(
            settings=settings,
            columns=batch.columns,
            targets=targets,
            state=empty_state(settings, found.kernel, found.noise, X, y),
            like=zeros((0, X.shape[1]), X),
            sample=sample if settings.tune == "none" else sample.add(X, z, fresh, weights),
            schedule=Schedule(found.kernel.theta),
            scores=Scores.none(X.shape[1], y.shape[1], z, local=settings.noise == AUTO),
            ledger=Ledger.empty().add(X, y, weights),
            repeats=repeats,
            outliers=outliers,
            first=FirstRows(copied(X), copied(y), estimating, gathering, weights)
            if estimating or gathering
            else None,
            rows_seen=n,
            batches=batches,
            unlabelled=batch.unlabelled,
        )
        if estimating:
            return replace(learner, state=learn(learner.state, X, z, weights))

        def anew(kernel: Kernel, noise: np.ndarray) -> State:
            # Every row is still available: the state of the tuned kernel is made from them.
            return learn(empty_state(settings, kernel, noise, X, y, tuned=True), X, z, weights)

        due, on_statistics = (
            hyperparameters.is_due(learner, n, at_once=at_once),
            learner.state.weight_statistics is not None,
        )
        tuned = learner
        if due and not on_statistics:
            tuned = hyperparameters.tuned(learner, anew, n, learner.sample)
        z = z if tuned.targets is targets else tuned.targets.apply(y)
        if tuned.state is learner.state:  # not tuned, or the tuning was not taken
            tuned = replace(tuned, state=learn(learner.state, X, z, weights))
        if due and on_statistics:
            tuned = hyperparameters.tuned_on_statistics(tuned)
        return tuned._with_panel(X, z, weights)._scored_again(X, z, weights, fresh)

    def _with_panel(self, X: Array, z: Array, weights: Array | None) -> Self:
        """Return the learner with the members of the panel, which have learned the first rows X (n, d), z (n, q)."""
        names = self.settings.panel
        if len(names) == 1:
            return self
        (d, q), settings = (X.shape[1], z.shape[1]), self.settings
        # A given noise is the same everywhere, and so is that of a Gaussian process with its neighbours. How large
        # errors are at each place is not followed on a device.
        local = (settings.noise == AUTO or set(names) > {"gp", NEIGHBOURS}) and on_host(X)
        scores = Scores.none(d, q, np.zeros((0, q)), local=local)
        store = Store.empty(settings.store, settings.neighbours, d, q, X) if NEIGHBOURS in names else None
        return replace(
            self, mixture=Mixture.begun(names, X, without_gaps(to_host(z)), scores, store, weights)
        )

    def update(self, batch: Batch, late: Late | None = None) -> Learner:
        """Test, then train: score each row by the prediction made before it, then learn it.

        `late` is what earlier models answered for rows whose labels come only now.
        Hyperparameters are tuned before the batch is learned, so that it is learned with the new ones; weights that
        are tuned on statistics, after it.
        """
        if batch.unlabelled:
            counted = replace(self, unlabelled=self.unlabelled + batch.unlabelled)
            return counted.update(replace(batch, unlabelled=0), late)
        if not batch.X.shape[0]:
            return self
        if batch.lacking is not None and batch.doubt is None:
            counted, rest, late = filling.filled(self, batch, late)
            return filling.aligned(counted.update(rest, late), batch.empty)
        if self.first is not None and not self._still_gathers(batch):
            return self._begun_again(batch, self.first)
        outliers = self.outliers
        if self.settings.guard is not None:
            outliers, batch = outliers.screen(batch, self.state, self.targets, self.scores)
            late = None if late is None else late.screened(~outliers.refused, batch.X.shape[0])
            if not batch.X.shape[0]:
                return replace(self, outliers=outliers)
        X, z = batch.X, self.targets.apply(batch.y, deferred=True)
        weights, late = batch.weights, None if late is None else late.standardised(self.targets)
        tested, fresh = self._tested(batch, z, late)
        ahead = tested._aged(batch, outliers)
        # A change is followed before anything is tuned on it, or counted as noise.
        changed = following.has_changed(self, ahead)
        n, dominates = X.shape[0], self._batch_dominates(X, fresh)
        due = not changed and hyperparameters.is_due(ahead, n, at_once=n > self.rows_seen)
        on_statistics = due and self.state.weight_statistics is not None
        if due:
            ahead = following.centred(ahead._sampled(X, z, weights, fresh))
            if not on_statistics:
                ahead = hyperparameters.tuned(ahead, ahead.state.retuned, n, self.sample)
            z = z if ahead.targets is self.targets else ahead.targets.apply(batch.y)
        state = learn(ahead.state, X, z, weights)
        ahead = ahead._with_members(self.mixture if changed else ahead.mixture, X, z, weights, fresh)
        settle()
        if not due:
            # A device works on the rows while the host samples them.
            ahead = ahead._sampled(X, z, weights, fresh)
        noise = None if changed else ahead.scores.noise
        state = state if noise is None else state.with_noise(noise)
        ahead = following.adapted(ahead, state, n, late.typical_lag if late else 0)
        ahead = hyperparameters.tuned_on_statistics(ahead) if on_statistics else ahead
        ahead = ahead._scored_again(X, z, weights, fresh) if dominates else ahead
        return ahead if changed else hyperparameters.asked_for(ahead)

    def _tested(self, batch: Batch, z: Array, late: Late | None) -> tuple[Self, Array | None]:
        """Score the rows of a batch, z (b, q), before they are learned; and find those that are not repeats."""
        X, weights, doubt = batch.X, batch.weights, batch.doubt
        # On a device predicting has to be waited for: not every batch is scored.
        device = is_foreign(X)
        if device and self.batches > SCORED_ON_DEVICE and self.batches % SCORED_ON_DEVICE:
            return replace(self, repeats=Repeats(copied(X[-1:, :]))), None
        repeats, fresh = self.repeats.after(X, self.rows_seen)
        # Such a batch changes the model too much for old scores: only those of this batch are kept.
        before, mixture = self.scores, self.mixture
        if self._batch_dominates(X, fresh):
            before, mixture = before.emptied(), mixture and mixture.unscored()
        scores = calibration.score_ahead(before, self.state, X, z, fresh, late, weights, doubt=doubt)
        mixture = mixture and mixture.scored(self.state, X, z, fresh, late, weights, doubt=doubt)
        return replace(self, repeats=repeats, scores=scores, mixture=mixture), fresh

    def _with_members(
        self, mixture: Mixture | None, X: Array, z: Array, weights: Array | None, fresh: Array | None
    ) -> Self:
        """Return the learner with a mixture whose members have learned the rows X (b, d), z (b, q), but no repeats."""
        if mixture is None:
            return self
        if fresh is not None:
            X, z = (namespace(v).take(v, fresh, axis=0) for v in (X, z))
            weights = taken(weights, fresh)
        return replace(self, mixture=mixture.update(X, z, weights) if X.shape[0] else mixture)

    def _batch_dominates(self, X: Array, fresh: Array | None) -> bool:
        """Return whether a batch has at least as many new rows as all batches before it."""
        return bool((X.shape[0] if fresh is None else fresh.shape[0]) >= self.rows_seen)

    def _aged(self, batch: Batch, outliers: Outliers) -> Self:
        """Return the learner at the next batch: the past is forgotten by its rate, rows are counted and listed."""
        first, forgetting = self.first, self.rate(batch.X.shape[0])
        if first is not None:
            first = first.followed_by(batch.X, batch.y, batch.weights)
        return replace(
            self,
            state=self.state if forgetting == 1 else forgotten(self.state, forgetting),
            mixture=self.mixture if forgetting == 1 else self.mixture and self.mixture.forgotten(forgetting),
            schedule=self.schedule.stepped(forgetting),
            ledger=self.ledger.add(batch.X, batch.y, batch.weights),
            imputation=self.imputation and self.imputation.update(batch.X, batch.lacking, forgetting),
            outliers=outliers,
            first=first,
            rows_seen=self.rows_seen + batch.X.shape[0],
            batches=self.batches + 1,
        )

    def rate(self, rows: int) -> float:
        """Return what a batch multiplies the past by; while first rows are gathered nothing is forgotten."""
        return 1.0 if self.first is not None else self.settings.rate(rows)

    def _sampled(self, X: Array, z: Array, weights: Array | None, fresh: Array | None) -> Self:
        if self.settings.tune == "none":
            return self
        rate = self.rate(X.shape[0])
        return replace(self, sample=self.sample.add(X, z, fresh, weights, forgetting=rate))

    # The first rows

    def _still_gathers(self, batch: Batch) -> bool:
        """Return whether the first rows stay too few for the basis of `rgp`, and are enough for everything else."""
        assert self.first is not None
        n = self.first.X.shape[0] + batch.X.shape[0]
        return not self.first.estimating and gathers(self.settings, n)

    def _begun_again(self, batch: Batch, first: FirstRows) -> Learner:
        """Begin with all rows so far: units, hyperparameters and basis come from more of them now."""
        n = batch.X.shape[0]
        both, at_once = batch.behind(first.X, first.y, first.weights), n > self.rows_seen
        begun = begin(self.settings, both, self.batches + 1, at_once=at_once, imputation=self.imputation)
        begun = hyperparameters.asked_for(begun)
        outliers, schedule = begun.outliers, begun.schedule
        return replace(
            begun,
            columns=self.columns,
            transform=self.transform,
            choice=self.choice,
            unlabelled=self.unlabelled,
            outliers=outliers.after_first(self.outliers, n, first.estimating),
            schedule=replace(
                schedule,
                tunings=self.schedule.tunings + schedule.tunings,
                seconds=self.schedule.seconds + schedule.seconds,
            ),
        )

    @property
    def inducing_points(self) -> Array:
        """The inducing points (r, d) of `pivoted` and `rgp`; while rgp gathers its first rows, these."""
        if self.first is not None and self.first.gathering:
            return self.first.X
        return cast(MergeableState, self.state).features.Z

    # Calibration

    def _scored_again(self, X: Array, z: Array, weights: Array | None, fresh: Array | None) -> Self:
        """Score rows of a batch that was just learned, each left out in turn, and keep the larger scores.

        Interpolated rows are easier to predict than those that come next.
        """
        n, state = X.shape[0], self.state
        at = calibration.chosen_to_score(n, fresh, X, (self.settings.seed, SCORING_DRAW, self.batches))
        # Rows that p hyperparameters were tuned on leave errors too small by √(1 − p/n), as in a linear regression.
        tuned = state.kernel.theta.size + 1 if self.settings.tune != "none" else 0
        correction = (1.0 - min(tuned / min(self.rows_seen, SAMPLE), 0.5)) ** -0.5
        scores = calibration.score_left_out(self.scores, state, X, z, at, correction, weights)
        scores = calibration.larger(self.scores, scores, state.noise)
        mixture = self.mixture and self.mixture.scored_left_out(state, X, z, at, weights)
        return replace(self, scores=scores, mixture=mixture)

    def mergeable(self) -> MergeableState:
        """Return the state as one whose statistics can be merged, subtracted and forgotten, or raise InputError."""
        method = self.settings.method
        if method not in MERGEABLE:
            raise InputError(
                f"method={method!r} can neither unlearn, merge nor forget; use 'pivoted' or 'rgp'"
            )
        if self.first is not None:
            raise InputError(
                "the model still gathers its first rows (50, or `rank` with rgp); let it learn more before this"
            )
        if is_split(self.state):
            raise InputError(
                "outputs have learned different rows, because labels were missing; such a model can neither unlearn, "
                "merge nor go on with Dask"
            )
        return cast(MergeableState, self.state)


def begin(
    settings: Settings,
    batch: Batch,
    batches: int = 1,
    *,
    at_once: bool = True,
    imputation: Imputation | None = None,
) -> Learner:
    """Return the learner of the first rows, without those that the guard refuses; tuned, if `at_once`.

    It judges them by the model that the others make, and that is made anew until nothing changes. `imputation`: by
    which features were filled in, where that is done.
    """
    if imputation is None:
        imputation, batch = filling.begun(settings, batch)
    outliers, kept = Outliers.first(settings.guard, batch)
    learner = Learner.of(settings, kept, outliers, batches, at_once=at_once)
    for strictness in ROUNDS if settings.guard == AUTO else ():
        again, kept = outliers.reconsidered(
            batch, learner.state, learner.targets, seed=settings.seed, strictness=strictness
        )
        if again is not outliers:
            outliers, learner = again, Learner.of(settings, kept, again, batches, at_once=at_once)
        elif strictness == 1 or not outliers.total:
            break
    learner = replace(learner, imputation=imputation and imputation.learned_from(kept.X, kept.lacking))
    if learner.first is None or not learner.first.estimating or not outliers.total:
        return learner
    # All of them are kept, to be judged again with more. Copies: the caller may write its next rows there.
    first = replace(learner.first, X=copied(batch.X), y=copied(batch.y), weights=batch.weights)
    return replace(learner, first=first)
