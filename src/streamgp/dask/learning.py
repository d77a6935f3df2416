"""Learning and predicting Dask collections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from .._arrays import cast, is_foreign, one_blas_thread
from ..answers import Question, answer
from ..checks import Batch, check_rows
from ..errors import InputError, ParameterError
from ..labels import lacking
from ..learner import Learner
from ..learner import begin as begun
from ..merging import merged
from ..methods.base import Summary
from ..online.history import Ledger, Repeats
from ..online.missing import Imputation, alone
from ..parameters import AUTO, LATER, MERGEABLE, Settings
from ..row_weights import joined_weights, taken
from ..transforms import chosen
from .cluster import client_or_local, result
from .partitions import UNCHANGED, Partitions, Piece, text_names

# Partitions that the sample is drawn from, and rows of it for each inducing point.
SAMPLED = 8
ROWS_A_PIVOT = 10
FEWEST_SAMPLED = 2000
# Statistics that one task adds up.
SPLIT_EVERY = 8


# What tasks do


def _sampled(piece: Piece, X: Any, y: Any, most: int, seed: int) -> Batch:
    batch = piece.batch(X, y)
    chosen = np.zeros(batch.X.shape[0], dtype=bool)
    chosen[np.random.default_rng([seed, 29, piece.number]).permutation(chosen.size)[:most]] = True
    return batch.only(chosen)


@dataclass(frozen=True)
class Part:
    """What partitions tell: a summary of their rows, and of their features where missing ones are filled in."""

    summary: Summary
    imputation: Imputation | None

    def merge(self, other: Part) -> Part:
        """Return what the rows of both tell."""
        both = self.imputation and other.imputation and self.imputation.merge(other.imputation)
        return Part(self.summary.merge(other.summary), both)


def _summarised(learner: Learner, piece: Piece, X: Any, y: Any) -> list[Part]:
    """Return what a partition tells, in a list as Dask's bags want it."""
    batch, state, imputation = piece.batch_for(learner, X, y), learner.mergeable(), learner.imputation
    if imputation is not None:
        imputation, batch = alone(imputation, batch)
    if not batch.X.shape[0]:
        return [Part(state.emptied().total(), imputation)]
    with one_blas_thread():
        return [Part(state.summary(batch.X, learner.targets.apply(batch.y), batch.weights), imputation)]


def _added(parts: Iterator[Part]) -> Part:
    return reduce(Part.merge, parts)


# Learning


def begin(settings: Settings, X: Any, y: Any, sample_weight: Any = None) -> Learner:
    """Choose inducing points and hyperparameters from a sample, then learn every partition."""
    _check_settings(settings)
    partitions = replace(Partitions.of(X, y, labelled=True), incomplete=settings.missing == "impute")
    partitions = partitions.weighted(sample_weight)
    with client_or_local() as client:
        sample = _sample(client, partitions, settings)
        transform = chosen(settings.target_transform, sample.X, sample.y)
        sample = sample.transformed(transform)
        with one_blas_thread():
            learner = replace(begun(settings, sample), transform=transform)
        if learner.first is not None:
            # So few rows that all of them are the sample.
            return learner
        # Rows that were refused in the sample are learned with their partition, which is not screened.
        blank = replace(
            learner,
            state=learner.mergeable().emptied(),
            scores=learner.scores.emptied(),
            outliers=replace(learner.outliers, refused=learner.outliers.refused[:0], total=0),
        )
        part = _summary(client, blank, partitions)
    sample, blank = _complete(sample, learner), replace(blank, imputation=part.imputation)
    return _finished(replace(blank, rows_seen=0, batches=0), sample, part.summary, part.summary)


def update(learner: Learner, X: Any, y: Any, sample_weight: Any = None) -> Learner:
    """Learn more partitions with the inducing points and hyperparameters as they are."""
    settings = learner.settings
    _check_settings(settings)
    columns = learner.columns
    if int(X.shape[1]) != columns.n_features:
        raise InputError(f"X has {int(X.shape[1])} features, but the model is expecting {columns.n_features}")
    partitions = _partitions(X, y, learner).weighted(sample_weight)
    if is_foreign(learner.like):
        raise InputError(
            "the model has learned arrays of another library than NumPy; Dask collections are NumPy's"
        )
    with client_or_local() as client:
        sample = _complete(_sample(client, partitions, settings).transformed(learner.transform), learner)
        part = _summary(client, learner, partitions)
    summary, imputation = part.summary, learner.imputation
    state, rate = learner.mergeable(), settings.rate(round(summary.statistics.rows))
    state = state if rate == 1 else state.forget(rate)
    mixture = learner.mixture
    if mixture is not None:  # the other members learn the sample
        z = learner.targets.apply(sample.y)
        mixture = mixture.forgotten(rate).update(sample.X, z, sample.weights)
    imputation = imputation and part.imputation and imputation.merge(part.imputation)
    learner = replace(learner, state=state, mixture=mixture, imputation=imputation)
    return _finished(learner, sample, summary, summary.merge(state.total()))


def _finished(learner: Learner, sample: Batch, new: Summary, total: Summary) -> Learner:
    """Return the learner with the `total` of all rows, `new` ones among them.

    The sample is kept for new pivots to learn from and for calibration.
    """
    X, z = cast(sample.X, learner.like.dtype), learner.targets.apply(sample.y)
    rows = learner.rows_seen + round(new.statistics.rows)
    with one_blas_thread():
        state = learner.mergeable().with_summary(total, X, z, sample.weights)
        numbers = np.arange(max(0, X.shape[0] - 1000), X.shape[0])
        weights = taken(sample.weights, numbers)
        found = state.left_out(X[numbers], z[numbers], numbers, weights)
        scores = (
            learner.scores if found is None else learner.scores.add(found.error, found.variance, found.noise)
        )
    return replace(
        learner,
        state=state,
        rows_seen=rows,
        batches=learner.batches + 1,
        schedule=replace(learner.schedule, tuned_at=rows, known=state.count),
        asked=None,
        sample=learner.sample.standing_for(rows),
        scores=scores,
        ledger=learner.ledger.incomplete(),
        repeats=Repeats(),
    )


def _check_settings(settings: Settings) -> None:
    for name, plain in (("guard", (AUTO, None)), ("memory", ("bounded",))):
        value = getattr(settings, name)
        if value not in plain:
            raise ParameterError(
                f"{name}={value!r} needs rows one batch after another; leave it at {plain[0]!r} with Dask"
            )
    if settings.mean_function is not None:
        raise ParameterError(
            "mean_function is not taken with Dask collections; subtract it from y beforehand"
        )
    if settings.method not in MERGEABLE:
        raise ParameterError(
            f"method={settings.method!r} works on one machine; for Dask collections use 'pivoted' or 'rgp'"
        )


def _sample(client: Any, partitions: Partitions, settings: Settings) -> Batch:
    """Return rows drawn from partitions spread over all of them."""
    from dask.delayed import delayed

    most, pairs = max(ROWS_A_PIVOT * settings.most_features, FEWEST_SAMPLED), partitions.pairs
    task = delayed(_sampled, pure=False)

    def drawn(numbers: Sequence[int], share: int) -> list[Batch]:
        tasks = [task(partitions.piece(i), *pairs[i], share, settings.seed) for i in numbers]
        found: list[Batch] = result(client, delayed(list)(tasks))
        return found

    at = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), SAMPLED)).round().astype(int)).tolist()
    parts = drawn(at, -(-most // len(at)))
    if sum(part.X.shape[0] for part in parts) < FEWEST_SAMPLED and len(at) < len(pairs):
        # Partitions are small: all of them.
        parts += drawn(sorted(set(range(len(pairs))) - set(at)), -(-most // len(pairs)))
    if len({part.columns for part in parts}) > 1:
        raise InputError(f"partitions have different numbers of columns. {UNCHANGED}")
    X, y = np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts])
    if not len(X):
        raise InputError("there is no row to learn from")
    # Shuffled: a sample in the order of the stream would end with its last stretch.
    order = np.random.default_rng([settings.seed, 31]).permutation(len(X))
    weights = taken(joined_weights([(part.weights, part.X) for part in parts]), order)
    return replace(parts[0], X=X[order], y=y[order], lacking=lacking(X[order]), weights=weights)


def _complete(batch: Batch, learner: Learner) -> Batch:
    """Return rows with features that are missing filled in."""
    return batch if learner.imputation is None else alone(learner.imputation, batch)[1]


def _partitions(X: Any, y: Any, learner: Learner) -> Partitions:
    """Return the partitions of rows for a learner to learn."""
    found = Partitions.of(X, y, labelled=True).ordered(learner.columns.names, learner.columns.targets)
    return replace(found, incomplete=learner.imputation is not None)


def _summary(client: Any, learner: Learner, partitions: Partitions) -> Part:
    """Return what all partitions tell."""
    import dask.bag
    from dask.delayed import delayed

    # In the graph, not scattered: what was scattered dies with its worker.
    light = delayed(_light(learner), pure=False)
    task = delayed(_summarised, pure=False)
    parts = [task(light, partitions.piece(i), *pair) for i, pair in enumerate(partitions.pairs)]
    bag = dask.bag.from_delayed(parts)
    part: Part = result(client, bag.reduction(_added, _added, split_every=SPLIT_EVERY).to_delayed())
    return part


def _light(learner: Learner) -> Learner:
    """Return a learner without what tasks do not need."""
    state = learner.mergeable().emptied()
    mixture = learner.mixture and learner.mixture.blank()
    return replace(
        learner,
        state=state,
        sample=learner.sample.cleared(),
        ledger=Ledger.empty(),
        mixture=mixture,
        imputation=learner.imputation and learner.imputation.cleared(),
    )


# Predicting


def predict(learner: Learner, X: Any, question: Question) -> Any:
    """Return what a learner answers for each partition, lazily: Dask arrays (n,), or (n, q) for q outputs."""
    import dask.array
    from dask.delayed import delayed

    if question.cov:
        raise ParameterError(
            "the covariance of a Dask collection is as large as its square; ask for return_std"
        )
    columns, parts = learner.columns, question.n_arrays
    partitions = Partitions.of(X).ordered(columns.names)
    learner_task, task = delayed(learner, pure=False), delayed(_answered, pure=False)
    blocks = []
    for i, (rows, _) in enumerate(partitions.pairs):
        length = np.nan if partitions.lengths is None else partitions.lengths[i]
        answers = task(learner_task, question, partitions.piece(i), rows)
        blocks.append(
            dask.array.from_delayed(answers, (length, parts * columns.n_outputs), learner.targets.dtype)
        )
    table = dask.array.concatenate(blocks, axis=0, allow_unknown_chunksizes=partitions.lengths is None)
    q = columns.n_outputs
    found = [table[:, i] if columns.one_dimensional else table[:, i * q : (i + 1) * q] for i in range(parts)]
    return found[0] if parts == 1 else tuple(found)


def _answered(learner: Learner, question: Question, piece: Piece, X: Any) -> np.ndarray:
    """Return the answers for a partition as one table, an array after another."""
    if piece.names is None:
        rows: Any = np.asarray(X, dtype=piece.dtype)
    else:
        rows = X[list(piece.names)]
        if text_names(piece.names) is None:
            rows = rows.to_numpy(dtype=piece.dtype)
    if not len(rows):
        return np.empty((0, question.n_arrays * learner.columns.n_outputs))
    with one_blas_thread():
        X = check_rows(rows, learner.columns, learner.like, incomplete=learner.imputation is not None)
        answers = answer(learner, X, question)
    found = answers if isinstance(answers, tuple) else (answers,)
    return np.column_stack([a.reshape(len(rows), -1) for a in found])


# Streams of their own


def learn_streams(streams: Sequence[tuple[Any, ...]], start: Learner) -> Learner:
    """Let each worker learn its own stream from a common start, partition after partition, and merge all into it.

    Each partition is a task that takes a learner and returns the next one; pivots change as each stream needs it.
    """
    from dask.delayed import delayed

    _check_settings(start.settings)
    parts = [_partitions(X, y, start).weighted(weights[0] if weights else None) for X, y, *weights in streams]
    if not parts:
        raise InputError("there is no stream to learn; give pairs of Dask collections")
    task = delayed(_followed, pure=False)
    mode = "none" if start.settings.tune == "none" else LATER
    blank = replace(
        _light(start),
        settings=replace(start.settings, tune=mode),
        rows_seen=0,
        schedule=replace(start.schedule, known=0.0),
        repeats=Repeats(),
    )
    ends = []
    for number, partitions in enumerate(parts):
        # A sample of its own rows alone, with draws of its own.
        sample = replace(start.sample.cleared(), seed=start.sample.seed + 1 + number)
        state = delayed(replace(blank, sample=sample), pure=False)
        for i, pair in enumerate(partitions.pairs):
            state = task(state, partitions.piece(i), *pair)
        ends.append(state)
    with client_or_local() as client:
        learned: Learner = result(client, delayed(_merged, pure=False)(ends))
    with one_blas_thread():
        return merged(start, replace(learned, settings=start.settings))


def _followed(learner: Learner, piece: Piece, X: Any, y: Any, size: int = 500) -> Learner:
    """Learn a partition, `size` rows at a time."""
    batch = piece.batch_for(learner, X, y)
    settings = learner.settings
    with one_blas_thread():
        numbers = np.arange(batch.X.shape[0]) // size
        for i in range(0, batch.X.shape[0], size):
            part = batch.only(numbers == i // size)
            # A partition is a batch: the past is forgotten once for each. With `memory_rows` batches do not matter.
            now = settings if i == 0 or settings.forgetting == AUTO else replace(settings, forgetting=1.0)
            learner = replace(learner, settings=now).update(part)
    return replace(learner, settings=settings)


def _merged(learners: list[Learner]) -> Learner:
    with one_blas_thread():
        return reduce(merged, learners)
