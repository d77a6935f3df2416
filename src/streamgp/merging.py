"""Rows taken away and rows learned elsewhere: `unlearn` and `merge`, for methods on inducing points."""

from __future__ import annotations

from dataclasses import replace

from ._arrays import same_place, to_host
from .checks import Batch
from .errors import InputError
from .gp.posterior import LeftOut
from .hyperparameters import given_up
from .labels import missing
from .learner import Learner
from .means import mean_at
from .online.calibration import Scores
from .online.history import Repeats
from .online.members import Known


def unlearned(learner: Learner, batch: Batch) -> Learner:
    """Take rows away; neither the sample nor the scores know them any more.

    Raise InputError, with nothing changed, where they are known not to have been learned.
    """
    n, state = batch.X.shape[0], learner.mergeable()
    if batch.unlabelled or missing(batch.y) is not None:
        raise InputError(
            "a row without a label was not learned and cannot be unlearned; the model is unchanged"
        )
    if n > learner.rows_seen:
        raise InputError(f"{n} rows are more than the {learner.rows_seen} that were learned")
    imputation = learner.imputation
    batch = batch if imputation is None else imputation.recalled(batch)
    learner.outliers.check_learned(batch, learner.ledger.learned)
    ledger, known = learner.ledger.without(batch.X, batch.y, batch.weights)
    z = learner.targets.apply(batch.y)
    state = state.unlearn(batch.X, z, batch.weights, known=known)
    after = replace(
        learner,
        state=state,
        rows_seen=learner.rows_seen - n,
        schedule=replace(learner.schedule, known=min(learner.schedule.known, state.count)),
        sample=learner.sample.without(batch.X, z),
        scores=learner.scores.emptied(),
        ledger=ledger,
        repeats=Repeats(),
        imputation=imputation and imputation.without(batch.X),
        choice=None,
    )
    after = given_up(after)  # a tuning under way has these rows in its sample
    judged, mixture = _judged_again(after), learner.mixture
    if mixture is None:
        return judged
    last = state.last_rows
    others = Known(batch.X[:0], z[:0]) if last is None else Known(last.X, last.y, last.given)
    mixture = mixture.without(Known(batch.X, z, batch.weights), judged.state, others)
    return replace(judged, mixture=mixture)


def _judged_again(learner: Learner) -> Learner:
    """Estimate scores and noise again from the rows that are kept, each left out in turn.

    Rows that were unlearned may have raised the noise. It is lowered where the others are predicted better so;
    where even the last tuning took it too high, the next batch is tuned again.
    """
    state, none = learner.state, (learner.like, learner.targets.scale[None, :][:0, :])
    now = state.recent_left_out(*none)
    scores, floor = _scores_from(learner, now), state.noise_floor
    if scores.noise is None or floor is None:
        return replace(learner, scores=scores)
    lower = state.with_noise(scores.noise, at_once=True)
    found = lower.recent_left_out(*none)
    if now is None or found is None or found.log_density() <= now.log_density():
        return replace(learner, scores=scores)
    scores, schedule = _scores_from(learner, found), learner.schedule
    if learner.settings.tune != "none" and scores.noise is not None and (scores.noise < 0.5 * floor).any():
        schedule = replace(schedule, known=0.0, tuned_at=0)
    return replace(learner, state=lower, scores=scores, schedule=schedule)


def _scores_from(learner: Learner, found: LeftOut | None) -> Scores:
    scores = learner.scores.emptied()
    return scores if found is None else scores.add(found.error, found.variance, found.noise)


def merged(learner: Learner, other: Learner) -> Learner:
    """Return the learner that has also learned the rows of another; raise InputError where they do not fit."""
    check_mergeable(learner, other)
    factors = learner.targets.factors_from(other.targets)
    if factors is not None and (factors != 1).any():
        scores = other.scores.retuned(factors, factors**2, factors**2)
        sample = other.sample.rescaled(factors)
        mixture = other.mixture and other.mixture.rescaled(factors)
        other = replace(
            other, state=other.state.rescaled(factors), sample=sample, scores=scores, mixture=mixture
        )
    mine, theirs = learner.mergeable(), other.mergeable()
    if theirs.kernel != mine.kernel:
        theirs = theirs.retuned(mine.kernel, mine.noise)
    return replace(
        given_up(learner),  # a tuning under way knows only half of the rows
        state=mine.merge(theirs),
        rows_seen=learner.rows_seen + other.rows_seen,
        unlabelled=learner.unlabelled + other.unlabelled,
        sample=learner.sample.merge(other.sample),
        outliers=learner.outliers.merge(other.outliers),
        scores=learner.scores.merge(other.scores),
        ledger=learner.ledger.merge(other.ledger),
        repeats=Repeats(),
        mixture=learner.mixture and other.mixture and learner.mixture.merge(other.mixture),
        imputation=learner.imputation and other.imputation and learner.imputation.merge(other.imputation),
        choice=None,
    )


def same_mean(mine: Learner, theirs: Learner) -> bool:
    """Return whether two learners have the same prior mean, as far as their inducing points tell."""
    a, b = (learner.settings.mean_function for learner in (mine, theirs))
    if a is b:
        return True
    if a is None or b is None:
        return False
    Z, q = mine.inducing_points, mine.targets.n_outputs
    return bool((to_host(mean_at(a, Z, q)) == to_host(mean_at(b, Z, q))).all())


def check_mergeable(mine: Learner, theirs: Learner) -> None:
    """Raise InputError where two learners do not have the same model."""
    if mine.settings.method != theirs.settings.method:
        raise InputError(
            f"both must have method='pivoted', or both 'rgp', not {mine.settings.method!r} and "
            f"{theirs.settings.method!r}; the other methods keep every row and cannot merge"
        )
    if mine.first is not None or theirs.first is not None:
        which = "this" if mine.first is not None else "the other"
        raise InputError(f"{which} model still gathers its first rows; let it learn more before they merge")
    if not (
        mine.transform is theirs.transform or (mine.transform and mine.transform.is_like(theirs.transform))
    ):
        raise InputError(
            "both must have the same target_transform, chosen from the same first rows: copy one regressor"
        )
    a, b = mine.mergeable(), theirs.mergeable()
    if (
        not same_place(mine.like, theirs.like)
        or mine.targets.one_dimensional != theirs.targets.one_dimensional
    ):
        raise InputError("both must have learned arrays of one library, and targets of one shape")
    if mine.like.shape != theirs.like.shape or mine.targets.n_outputs != theirs.targets.n_outputs:
        raise InputError("both must have the same number of features and of outputs")
    if not same_mean(mine, theirs):
        raise InputError(
            "both must have the same mean_function; they say different things at the inducing points"
        )
    estimated = a.noise_floor is not None and b.noise_floor is not None
    alike = a.kernel == b.kernel and (estimated or bool((a.noise == b.noise).all()))
    given = (mine.settings.kernel, mine.settings.noise)
    same_start = given[0] is not None and given == (theirs.settings.kernel, theirs.settings.noise)
    # Kernels that were tuned apart from one given kernel are brought together, and so are units.
    apart = mine.settings.tune != "none" and mine.settings.method == "pivoted" and same_start
    factors = mine.targets.factors_from(theirs.targets)
    if not (apart or alike) or factors is None or not (apart or (factors == 1).all()):
        raise InputError(
            "both must have the same kernel, noise and target units; give the kernel to both, and tune='none' to rgp"
        )
