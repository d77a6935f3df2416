"""Partitions: Dask collections taken apart into delayed pairs of inputs and targets, and the checks of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._arrays import cast
from ..checks import Batch, Columns
from ..errors import InputError
from ..labels import lacking
from ..learner import Learner
from ..row_weights import checked_weights

UNCHANGED = "Nothing was learned."


def is_lazy(X: object) -> bool:
    """Return whether X is a Dask collection."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@dataclass(frozen=True)
class Weighted:
    """The targets of a partition and the weights of its rows."""

    y: Any
    weights: Any


@dataclass(frozen=True)
class Partitions:
    """Delayed pairs of inputs and targets, one a partition, and what is known of them beforehand.

    Attributes
    ----------
    pairs : delayed (X, y); y is None where there are no targets
    names : names of the features, or None
    targets : names of the targets, or None
    dtype : of X
    lengths : rows of each partition, where that is known
    incomplete : whether features may be missing, NaN
    """

    pairs: tuple[tuple[Any, Any], ...]
    names: tuple[Any, ...] | None
    targets: tuple[Any, ...] | None
    dtype: Any
    lengths: tuple[int, ...] | None
    incomplete: bool = False

    @classmethod
    def of(cls, X: Any, y: Any = None, *, labelled: bool = False) -> Partitions:
        """Take Dask arrays or data frames apart; rows of y are cut as those of X are."""
        if not is_lazy(X) or (labelled and not is_lazy(y)):
            raise InputError("X and y must both be Dask collections; give both alike")
        if getattr(X, "ndim", None) != 2:
            raise InputError(
                f"X has {getattr(X, 'ndim', 'no')} dimensions; give a Dask array or frame (n, d)"
            )
        # Not optimised on their own: X and y of one table would each make that table.
        names, lengths = None, None
        dtype: Any = np.float64
        if hasattr(X, "columns"):
            names, rows = tuple(X.columns), list(X.to_delayed(optimize_graph=False))
        else:
            X = X.rechunk({1: -1})
            rows = list(X.to_delayed(optimize_graph=False)[:, 0])
            dtype = np.float32 if X.dtype == np.float32 else np.float64
            if not np.isnan(X.chunks[0]).any():
                lengths = tuple(int(n) for n in X.chunks[0])
        if y is None:
            return cls(tuple((row, None) for row in rows), names, None, dtype, lengths)
        labels = _labels(y, lengths)
        if len(labels) != len(rows):
            raise InputError(f"X has {len(rows)} partitions, y {len(labels)}; give both the same")
        return cls(tuple(zip(rows, labels, strict=True)), names, _names_of_targets(y), dtype, lengths)

    def weighted(self, sample_weight: Any) -> Partitions:
        """Return the partitions with a weight for each row: a Dask collection (n,), a number, or None for ones."""
        from dask.delayed import delayed

        if sample_weight is None:
            return self
        if is_lazy(sample_weight):
            weights = _labels(sample_weight, self.lengths)
        elif np.ndim(sample_weight) == 0:
            weights = [sample_weight] * len(self.pairs)
        else:
            raise InputError("sample_weight must be a Dask collection as X and y are, or one number")
        if len(weights) != len(self.pairs):
            raise InputError(
                f"X has {len(self.pairs)} partitions, sample_weight {len(weights)}; give both the same"
            )
        task = delayed(Weighted, pure=False)
        pairs = tuple((X, task(y, own)) for (X, y), own in zip(self.pairs, weights, strict=True))
        return replace(self, pairs=pairs)

    def ordered(self, names: Sequence[str] | None, targets: Sequence[str] | None = None) -> Partitions:
        """Return the partitions with columns in the order in which a model learned them."""
        return replace(
            self, names=_matched("X", self.names, names), targets=_matched("y", self.targets, targets)
        )

    def piece(self, number: int) -> Piece:
        """Return what a task has to know of a partition."""
        return Piece(number, self.names, self.targets, self.dtype, self.incomplete)


def _labels(y: Any, lengths: tuple[int, ...] | None) -> list[Any]:
    """Return the delayed partitions of targets, with as many rows as those of X where that is known."""
    if getattr(y, "ndim", 1) not in (1, 2):
        raise InputError(f"y has {y.ndim} dimensions; give (n,) or (n, q)")
    if hasattr(y, "rechunk") and y.ndim == 2:
        y = y.rechunk({1: -1})
    if lengths is not None and hasattr(y, "rechunk") and not np.isnan(y.chunks[0]).any():
        if int(y.shape[0]) != sum(lengths):
            raise InputError(f"X has {sum(lengths)} rows, y {int(y.shape[0])}; give a target for each row")
        y = y.rechunk({0: lengths})
    return list(np.ravel(np.array(y.to_delayed(optimize_graph=False), dtype=object)))


def _names_of_targets(y: Any) -> tuple[Any, ...] | None:
    if hasattr(y, "columns"):
        return tuple(y.columns)
    return (y.name,) if isinstance(getattr(y, "name", None), str) and hasattr(y, "to_frame") else None


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


@dataclass(frozen=True)
class Piece:
    """What is known of a partition beside its rows: its number, its columns and its dtype; for error messages."""

    number: int
    names: tuple[Any, ...] | None
    targets: tuple[Any, ...] | None
    dtype: Any
    incomplete: bool = False

    def batch(self, X: Any, y: Any) -> Batch:
        """Return the rows of the partition, checked, without those of weight zero; an error names it."""
        y, given = (y.y, y.weights) if isinstance(y, Weighted) else (y, None)
        try:
            if self.names is not None:
                X = X[list(self.names)]
            if self.targets is not None and hasattr(y, "columns"):
                y = y[list(self.targets)]
            for values in (X, y):
                if np.asarray(values).dtype.kind not in "biufO":
                    raise TypeError(f"its dtype is {np.asarray(values).dtype}")
            rows = np.ascontiguousarray(np.asarray(X), dtype=self.dtype)
            single = np.asarray(y).dtype == np.float32 and self.dtype == np.float32
            targets = np.ascontiguousarray(np.asarray(y), dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"partition {self.number} is not a table of numbers: {error}. {UNCHANGED}"
            ) from error
        if rows.shape[0] != targets.shape[0]:
            found = f"{rows.shape[0]} rows of X and {targets.shape[0]} of y"
            raise InputError(f"partition {self.number} has {found}. {UNCHANGED}")
        gaps = lacking(rows) if self.incomplete else None
        finite = np.isfinite(rows).all() if gaps is None else not np.isinf(rows).any()
        if not (finite and np.isfinite(targets).all()):
            raise InputError(
                f"partition {self.number} contains NaN or infinity; drop or fill these rows. {UNCHANGED}"
            )
        one = targets.ndim == 1
        columns = Columns(
            rows.shape[1],
            1 if one else targets.shape[1],
            one,
            text_names(self.names),
            text_names(self.targets),
        )
        dtype = np.dtype(np.float32 if single else np.float64)
        batch = Batch(rows, targets[:, None] if one else targets, dtype, columns, lacking=gaps)
        try:
            weights = checked_weights(given, rows)
        except InputError as error:
            raise InputError(f"partition {self.number}: {error}. {UNCHANGED}") from error
        return batch if weights is None else replace(batch, weights=weights).only(weights > 0)

    def batch_for(self, learner: Learner, X: Any, y: Any) -> Batch:
        """Return the rows, checked also against what a learner has learned."""
        batch, learned = self.batch(X, y), learner.columns
        if batch.columns.n_features != learned.n_features:
            raise InputError(
                f"partition {self.number} has {batch.columns.n_features} features, not {learned.n_features}. "
                f"{UNCHANGED}"
            )
        if (batch.columns.n_outputs, batch.columns.one_dimensional) != (
            learned.n_outputs,
            learned.one_dimensional,
        ):
            raise InputError(f"partition {self.number} has other targets than earlier batches. {UNCHANGED}")
        rows = replace(batch, X=cast(batch.X, learner.like.dtype), columns=learned)
        return rows.transformed(learner.transform)


def text_names(names: Sequence[Any] | None) -> tuple[str, ...] | None:
    """Return names if all of them are texts."""
    return tuple(names) if names is not None and all(isinstance(name, str) for name in names) else None
