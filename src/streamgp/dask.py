"""The same numbers on a Dask cluster: statistics add up, so a cluster is a sum.

Pivots come from a sample of some partitions; then every partition is one stateless task that gives its statistics,
and these are summed as a tree, in one pass. A worker that dies costs the tasks it held, nothing else: the model that
tasks work with is part of the graph, and no task has a memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import checks as validation
from ._arrays import cast, cores, is_foreign, one_blas_thread
from .errors import InputError, ParameterError, StreamGPError
from .learner import Settings, Stream
from .methods.base import Recent, Summary
from .online.ledger import Ledger
from .tuning import optimise as tuning

# Partitions that the sample is drawn from, and rows of it for each pivot.
SAMPLED = 8
ROWS_A_PIVOT = 10
FEWEST_SAMPLED = 2000
# Statistics that one task adds up.
SPLIT_EVERY = 8


def is_lazy(X: object) -> bool:
    """Tell whether X is a collection of Dask's."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@dataclass(frozen=True)
class Partitions:
    """Delayed pairs of inputs and targets, a partition each, and what is known of them beforehand.

    Attributes
    ----------
    pairs : delayed (X, y); y is None where there are no targets
    names : names of the features, or None
    targets : names of the targets, or None
    dtype : of X
    lengths : rows of each partition, where that is known
    """

    pairs: tuple[tuple[Any, Any], ...]
    names: tuple[str, ...] | None
    targets: tuple[str, ...] | None
    dtype: Any
    lengths: tuple[int, ...] | None

    @classmethod
    def of(cls, X: Any, y: Any = None, *, labelled: bool = False) -> Partitions:
        """Take Dask arrays or data frames apart; rows of y are cut as those of X are."""
        if not is_lazy(X) or (labelled and not is_lazy(y)):
            raise InputError("X and y must both be collections of Dask's; give both alike")
        if getattr(X, "ndim", None) != 2:
            raise InputError(
                f"X has {getattr(X, 'ndim', 'no')} dimensions; give a Dask array or frame (n, d)"
            )
        # Not optimised on their own: X and y of one table would each make that table.
        framed = hasattr(X, "columns")
        names = tuple(X.columns) if framed else None
        lengths = None
        if framed:
            rows = list(X.to_delayed(optimize_graph=False))
            dtype: Any = np.float64
        else:
            X = X.rechunk({1: -1})
            rows = list(X.to_delayed(optimize_graph=False)[:, 0])
            dtype = np.float32 if X.dtype == np.float32 else np.float64
            if not np.isnan(X.chunks[0]).any():
                lengths = tuple(int(n) for n in X.chunks[0])
        if y is None:
            return cls(tuple((row, None) for row in rows), names, None, dtype, lengths)
        if not is_lazy(y):
            raise InputError("X is a collection of Dask's and y is not; give both alike")
        if getattr(y, "ndim", 1) not in (1, 2):
            raise InputError(f"y has {y.ndim} dimensions; give (n,) or (n, q)")
        if hasattr(y, "rechunk") and y.ndim == 2:
            y = y.rechunk({1: -1})
        if lengths is not None and hasattr(y, "rechunk") and not np.isnan(y.chunks[0]).any():
            if int(y.shape[0]) != sum(lengths):
                raise InputError(
                    f"X has {sum(lengths)} rows, y {int(y.shape[0])}; give a target for each row"
                )
            y = y.rechunk({0: lengths})
        labels = list(np.ravel(np.array(y.to_delayed(optimize_graph=False), dtype=object)))
        if len(labels) != len(rows):
            raise InputError(f"X has {len(rows)} partitions, y {len(labels)}; give both the same")
        targets = None
        if hasattr(y, "columns"):
            targets = tuple(y.columns)
        elif isinstance(getattr(y, "name", None), str) and hasattr(y, "to_frame"):
            targets = (y.name,)
        return cls(tuple(zip(rows, labels, strict=True)), names, targets, dtype, lengths)

    def ordered(self, names: Sequence[str] | None, targets: Sequence[str] | None = None) -> Partitions:
        """Bring columns into the order in which a model learned them."""
        return replace(
            self, names=_matched("X", self.names, names), targets=_matched("y", self.targets, targets)
        )


def _matched(
    what: str, given: tuple[Any, ...] | None, learned: Sequence[str] | None
) -> tuple[Any, ...] | None:
    if learned is None or given is None or tuple(learned) == given:
        return given
    if sorted(map(str, learned)) != sorted(map(str, given)):
        raise InputError(
            f"{what} has the columns {', '.join(map(str, given))}; the model learned {', '.join(map(str, learned))}"
        )
    return tuple(learned)


# What tasks do


def _batch(X: Any, y: Any, number: int, named: tuple[Any, Any], dtype: Any) -> validation.Batch:
    """Check a partition; an error names it."""
    names, labels = named
    try:
        if names is not None:
            X = X[list(names)]
        if labels is not None and hasattr(y, "columns"):
            y = y[list(labels)]
        for values in (X, y):
            kinds = {np.asarray(values).dtype.kind}
            if not kinds <= set("biufO"):
                raise TypeError(f"its dtype is {np.asarray(values).dtype}")
        rows = np.ascontiguousarray(np.asarray(X), dtype=dtype)
        single = np.asarray(y).dtype == np.float32 and dtype == np.float32
        targets = np.ascontiguousarray(np.asarray(y), dtype=np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"partition {number} is not a table of numbers: {error}. Nothing was learned."
        ) from error
    if rows.shape[0] != targets.shape[0]:
        raise InputError(
            f"partition {number} has {rows.shape[0]} rows of X and {targets.shape[0]} of y. Nothing was learned."
        )
    if not (np.isfinite(rows).all() and np.isfinite(targets).all()):
        raise InputError(
            f"partition {number} contains NaN or infinity; drop or fill these rows. Nothing was learned."
        )
    one = targets.ndim == 1
    answers = np.dtype(np.float32 if single else np.float64)
    return validation.Batch(rows, targets[:, None] if one else targets, one, answers)


def _sampled(
    X: Any, y: Any, number: int, names: tuple[Any, Any], dtype: Any, most: int, seed: int
) -> validation.Batch:
    batch = _batch(X, y, number, names, dtype)
    n = batch.X.shape[0]
    at = np.sort(np.random.default_rng([seed, 29, number]).permutation(n)[:most])
    return batch._replace(X=batch.X[at], y=batch.y[at])


def _summarised(stream: Stream, X: Any, y: Any, number: int, names: tuple[Any, Any], dtype: Any) -> Summary:
    batch = _batch(X, y, number, names, dtype)
    validation.check_targets(batch, stream.scale.shape[0], stream.one_dimensional)
    if batch.X.shape[1] != stream.like.shape[1]:
        raise InputError(f"partition {number} has {batch.X.shape[1]} features, not {stream.like.shape[1]}")
    if not batch.X.shape[0]:
        nothing: Summary = stream.model.summary_of_all()  # type: ignore[attr-defined]
        return nothing
    with one_blas_thread():
        targets = validation.standardised(batch.y, stream.offset, stream.scale)
        summary: Summary = stream.model.summary(  # type: ignore[attr-defined]
            cast(batch.X, stream.like.dtype), targets
        )
        return summary


def _added(summaries: Iterator[Summary]) -> Summary:
    first, *others = list(summaries)
    for other in others:
        first = first.merge(other)
    return first


# Learning


def begin(settings: Settings, partitions: Partitions) -> Stream:
    """Choose pivots and hyperparameters from a sample, then learn every partition."""
    _check_settings(settings)
    with client_or_local() as client:
        sample = _sample(client, partitions, settings)
        with one_blas_thread():
            stream = Stream.begin(settings, sample)
        if stream.starting:
            # So few rows that all of them are the sample.
            return stream
        model: Any = stream.model
        blank = replace(stream, model=model.blank(), scores=stream.scores.emptied())
        summary = _summary(client, blank, partitions)
        return _finished(blank, sample, summary, batches=1, rows=round(summary.statistics.count))


def learn(stream: Stream, partitions: Partitions, forgetting: float) -> Stream:
    """Learn more partitions with the pivots and hyperparameters as they are."""
    _check_settings(stream.settings)
    if is_foreign(stream.like):
        raise InputError(
            "the model was taught with arrays of another library than NumPy; Dask collections are NumPy's"
        )
    if stream.starting:
        raise InputError(
            "the first rows still wait for more; learn 50 rows or more (rgp: `rank`) before a Dask collection"
        )
    before: Any = stream.model
    model: Any = before.forget(forgetting) if forgetting != 1 else before
    blank = replace(stream, model=model.blank())
    with client_or_local() as client:
        sample = _sample(client, partitions, stream.settings)
        summary = _summary(client, blank, partitions)
    rows = stream.rows_seen + round(summary.statistics.count)
    after = _finished(blank, sample, summary.merge(model.summary_of_all()), stream.batches + 1, rows)
    if getattr(model, "faded", False):
        return replace(after, model=replace(after.model, faded=True))  # type: ignore[type-var]
    return after


def _finished(blank: Stream, sample: validation.Batch, summary: Summary, batches: int, rows: int) -> Stream:
    """Put the sum into the model; the sample is what new pivots will learn from, and what intervals are judged by."""
    X = cast(sample.X, blank.like.dtype)
    targets = validation.standardised(sample.y, blank.offset, blank.scale)
    with one_blas_thread():
        model = blank.model.with_summary(summary, X, targets)  # type: ignore[attr-defined]
        stream = replace(
            blank, model=model, rows_seen=rows, batches=batches, tuned_at=rows, known=model.count,
            sample=blank.sample.standing_for(rows), recent=Recent(),
        )  # fmt: skip
        found = model.left_out(X[-1000:], targets[-1000:])
        scores = stream.scores.add(found.error, found.variance, found.noise)
        return replace(stream, scores=scores, ledger=stream.ledger.incomplete(), last=None)


def _check_settings(settings: Settings) -> None:
    method = settings.method
    for name, value, plain in (("guard", settings.guard, None), ("memory", settings.memory, "bounded")):
        if value != plain:
            raise ParameterError(
                f"{name}={value!r} looks at rows one batch after another; leave it out with Dask"
            )
    if method not in ("pivoted", "rgp"):
        raise ParameterError(
            f"method={method!r} keeps every row and works on one machine; for Dask collections use 'pivoted' or 'rgp'"
        )


def _sample(client: Any, partitions: Partitions, settings: Settings) -> validation.Batch:
    """Draw rows from partitions spread over all of them."""
    from dask.delayed import delayed

    rank = settings.max_rank if settings.rank == "auto" else int(settings.rank)
    most, pairs = max(ROWS_A_PIVOT * rank, FEWEST_SAMPLED), partitions.pairs
    at = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), SAMPLED)).round().astype(int))
    share = -(-most // len(at))
    task = delayed(_sampled, pure=False)
    named = (partitions.names, partitions.targets)
    tasks = [task(*pairs[i], int(i), named, partitions.dtype, share, settings.seed) for i in at]
    parts: list[validation.Batch] = _result(client, delayed(list)(tasks))
    if sum(part.X.shape[0] for part in parts) < FEWEST_SAMPLED and len(at) < len(pairs):
        # Partitions are small: all of them.
        rest = sorted(set(range(len(pairs))) - {int(i) for i in at})
        share = -(-most // len(pairs))
        tasks = [task(*pairs[i], i, named, partitions.dtype, share, settings.seed) for i in rest]
        parts += _result(client, delayed(list)(tasks))
    shapes = {(part.X.shape[1], part.y.shape[1], part.one_dimensional) for part in parts}
    if len(shapes) > 1:
        raise InputError("partitions have different numbers of columns; nothing was learned")
    X, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y"))
    if not len(X):
        raise InputError("there is no row to learn from")
    # Mixed: a sample in the order of the stream would end with its last stretch.
    order = np.random.default_rng([settings.seed, 31]).permutation(len(X))
    return parts[0]._replace(X=X[order], y=y[order])


def _summary(client: Any, blank: Stream, partitions: Partitions) -> Summary:
    """Sum up all partitions."""
    import dask.bag
    from dask.delayed import delayed

    # In the graph, not scattered: what was scattered dies with its worker.
    light = delayed(replace(blank, sample=blank.sample.cleared(), ledger=Ledger.empty()), pure=False)
    task = delayed(_summarised, pure=False)
    parts = [
        delayed(_listed, pure=False)(
            task(light, *pair, i, (partitions.names, partitions.targets), partitions.dtype)
        )
        for i, pair in enumerate(partitions.pairs)
    ]
    bag = dask.bag.from_delayed(parts)
    summary: Summary = _result(client, bag.reduction(_added, _added, split_every=SPLIT_EVERY).to_delayed())
    return summary


def _listed(value: Any) -> list[Any]:
    return [value]


def _result(client: Any, task: Any) -> Any:
    """Compute on the cluster; whatever goes wrong there is one documented error, and nothing was learned."""
    try:
        return client.compute(task, sync=True, optimize_graph=True)
    except StreamGPError:
        raise
    except Exception as error:  # of the user's own tasks, or of the cluster
        raise InputError(
            f"a partition could not be computed: {type(error).__name__}: {error}. Nothing was learned."
        ) from error


@contextmanager
def client_or_local() -> Iterator[Any]:
    """Give the client that is there, or that of a local cluster with a process for each core, for the time being."""
    try:
        from distributed import Client, get_client
    except ImportError as error:
        raise ParameterError(
            "Dask collections need Dask's scheduler: pip install 'streamgp[dask]'"
        ) from error
    try:
        here = get_client()
    except ValueError:
        here = None
    if here is not None:
        yield here
        return
    with local_cluster() as cluster, Client(cluster) as client:
        yield client


def local_cluster(n_workers: int | None = None, **more: Any) -> Any:
    """Give a local cluster with a process for each core, for its with-block.

    Its workers keep the memory that they free: Dask's own hand every large array back to the system at once, and
    getting fresh pages for the next one takes longer than filling it.
    """
    import dask
    from distributed import LocalCluster

    names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    with dask.config.set({f"distributed.nanny.pre-spawn-environ.{name}": 2**28 for name in names}):
        return LocalCluster(
            n_workers=n_workers or cores(), threads_per_worker=1, dashboard_address=":0", **more
        )


# Predicting


def predict(
    ask: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    partitions: Partitions,
    parts: int,
    outputs: int | None,
    dtype: Any,
) -> Any:
    """Give what `ask` says of each partition, lazily: `parts` Dask arrays (n,), or (n, q) for q `outputs`."""
    import dask.array
    from dask.delayed import delayed

    width = parts * (outputs or 1)
    teller = delayed(ask, pure=False)
    blocks = []
    for i, (rows, _) in enumerate(partitions.pairs):
        length = np.nan if partitions.lengths is None else partitions.lengths[i]
        told = delayed(_told, pure=False)(teller, rows, partitions.names, partitions.dtype)
        blocks.append(dask.array.from_delayed(told, (length, width), dtype))
    table = dask.array.concatenate(blocks, axis=0, allow_unknown_chunksizes=partitions.lengths is None)
    q = outputs or 1
    found = [table[:, i * q : (i + 1) * q] if outputs else table[:, i] for i in range(parts)]
    return found[0] if parts == 1 else tuple(found)


def _told(ask: Any, X: Any, names: Sequence[str] | None, dtype: Any) -> np.ndarray:
    if names is None:
        rows: Any = np.asarray(X, dtype=dtype)
    else:
        rows = X[list(names)]
        if not all(isinstance(name, str) for name in names):
            rows = rows.to_numpy(dtype=dtype)
    if not len(rows):
        return np.empty((0, ask.width))
    answers = ask(rows)
    return np.column_stack([a.reshape(len(rows), -1) for a in answers])


# Streams of their own


def learn_streams(streams: Sequence[Partitions], start: Stream, forgetting: float = 1.0) -> Stream:
    """Let each worker learn its own stream from a common start, partition after partition, and merge them.

    Each partition is a task that takes a state and gives the next one; pivots change as each stream needs it.
    """
    from dask.delayed import delayed

    _check_settings(start.settings)
    if start.starting:
        raise InputError(
            "the first rows still wait for more; learn 50 rows or more (rgp: `rank`) before streams"
        )
    if not streams:
        raise InputError("there is no stream to learn; give pairs of Dask collections")
    task = delayed(_followed, pure=False)
    blank = replace(
        start,
        model=start.model.blank(),  # type: ignore[attr-defined]
        settings=replace(start.settings, tune="none" if start.settings.tune == "none" else tuning.LATER),
        rows_seen=0,
        known=0.0,
        ledger=Ledger.empty(),
        last=None,
    )
    ends = []
    for number, partitions in enumerate(streams):
        # A sample of its own rows alone, with draws of its own.
        sample = replace(start.sample.cleared(), seed=start.sample.seed + 1 + number)
        state = delayed(replace(blank, sample=sample), pure=False)
        for i, pair in enumerate(partitions.pairs):
            named = (partitions.names, partitions.targets)
            state = task(state, *pair, i, named, partitions.dtype, forgetting)
        ends.append(state)
    with client_or_local() as client:
        merged: Stream = _result(client, delayed(_merged, pure=False)(ends))
    return replace(merged, settings=start.settings)


def _followed(
    stream: Stream, X: Any, y: Any, number: int, names: Any, dtype: Any, forgetting: float, size: int = 500
) -> Stream:
    batch = _batch(X, y, number, names, dtype)
    validation.check_targets(batch, stream.scale.shape[0], stream.one_dimensional)
    if batch.X.shape[1] != stream.like.shape[1]:
        raise InputError(f"partition {number} has {batch.X.shape[1]} features, not {stream.like.shape[1]}")
    with one_blas_thread():
        for i in range(0, batch.X.shape[0], size):
            part = batch._replace(X=cast(batch.X[i : i + size], stream.like.dtype), y=batch.y[i : i + size])
            # A partition is a batch: the past fades once for each.
            stream = stream.learn(part, forgetting if i == 0 else 1.0)
    return stream


def _merged(streams: list[Stream]) -> Stream:
    first, *others = streams
    with one_blas_thread():
        for other in others:
            first = first.merged(other)
    return first
