"""Checks of the rows that users hand in: an error gives the value, the rule and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ._arrays import (
    Array,
    asarray_like,
    cast,
    double,
    index,
    is_foreign,
    joined,
    namespace,
    same_place,
    settle,
    to_host,
    watch,
)
from .cells import first_bad_cell, refuse_times
from .errors import InputError, InputTypeError, ParameterError
from .labels import lacking, missing
from .row_weights import checked_weights, joined_weights, taken
from .transforms import TargetTransform

_FLOATS = (np.float64, np.float32)
# scikit-learn's messages name the estimator.
REGRESSOR = "StreamingGPRegressor"


@dataclass(frozen=True)
class Columns:
    """The columns of the first batch, which later batches must have.

    Attributes
    ----------
    n_features, n_outputs : int
    one_dimensional : bool
        Whether targets came as (n,) and not as (n, q).
    names, targets : tuple of str or None
        Of features and of targets; None where the batch had none.
    """

    n_features: int
    n_outputs: int
    one_dimensional: bool
    names: tuple[str, ...] | None = None
    targets: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Batch:
    """Checked rows.

    Attributes
    ----------
    X : (b, d), y : (b, q) in float64; NaN where one of several labels is missing
    lacking : (b, d) of bool, or None
        Which features are missing: NaN in X until they are filled in. None where none is.
    doubt : (b, q) or None
        The variance of the standardised predictions that missing features leave, once they are filled in.
    dtype
        That of answers: of X and y together.
    columns : Columns
    unlabelled : int
        Rows without any label, which are not here.
    weights : (b,) or None
        None where all are one. Rows of weight zero are not here.
    kept : (n,) of bool, or None
        Which of the rows that were given are here; None for all.
    """

    X: Array
    y: Array
    dtype: Any
    columns: Columns
    unlabelled: int = 0
    weights: Array | None = None
    kept: np.ndarray | None = None
    lacking: np.ndarray | None = None
    doubt: np.ndarray | None = None

    def only(self, rows: np.ndarray) -> Self:
        """Return the rows for which `rows` (b,) is true."""
        if rows.all():
            return self
        xp, at = namespace(self.X), index(np.flatnonzero(rows).tolist(), self.X)
        lacking, doubt = (None if v is None else v[rows] for v in (self.lacking, self.doubt))
        X, y = (xp.take(values, at, axis=0) for values in (self.X, self.y))
        return replace(self, X=X, y=y, weights=taken(self.weights, at), lacking=lacking, doubt=doubt)

    def transformed(self, transform: TargetTransform | None) -> Self:
        """Return the rows with transformed targets."""
        return self if transform is None else replace(self, y=transform.apply(self.y))

    def ids_of(self, ids: Any) -> Any:
        """Return those of the ids that were given which belong to the rows that are here."""
        if self.kept is None or ids is None or np.shape(ids) != self.kept.shape:
            return ids
        return np.asarray(ids)[self.kept]

    @property
    def empty(self) -> np.ndarray:
        """Which rows lack every feature, (b,)."""
        none = np.zeros(self.X.shape[0], dtype=bool)
        return none if self.lacking is None else np.asarray(self.lacking.all(axis=1))

    def behind(self, X: Array, y: Array, weights: Array | None) -> Self:
        """Return these rows behind others, X (k, d), y (k, q) and weights (k,), that lack nothing."""
        k = X.shape[0]
        lacking, doubt = (
            None if v is None else np.concatenate([np.zeros((k, v.shape[1]), v.dtype), v])
            for v in (self.lacking, self.doubt)
        )
        both = joined_weights([(weights, X), (self.weights, self.X)])
        X, y = joined([X, self.X]), joined([y, self.y])
        return replace(self, X=X, y=y, weights=both, lacking=lacking, doubt=doubt)


class _Checked(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Stands in for the estimator in scikit-learn's checks, which set and compare n_features_in_ and names on it."""

    def __init__(self) -> None: ...

    @classmethod
    def of(cls, columns: Columns | None, name: str = REGRESSOR) -> Self:
        """Return an estimator of that name, for messages, that has seen these columns, or none."""
        out: Self = type(name, (cls,), {})()
        if columns is not None:
            out.n_features_in_ = columns.n_features
            if columns.names is not None:
                out.feature_names_in_ = np.array(columns.names, dtype=object)
        return out


def check_rows(
    X: Any, columns: Columns, like: Array, estimator: str = REGRESSOR, *, incomplete: bool = False
) -> Array:
    """Return rows to predict (m, d), checked; `like` is an array of the model.

    `incomplete`: features may be missing, NaN, in NumPy arrays and frames.
    """
    if is_foreign(X):
        return _placed(_foreign_rows(X, columns.n_features), like)
    if not _is_plain(X, columns, incomplete):
        with _refusing(X, "Nothing was predicted."):
            X = _ordered(_numeric(X, "X"), columns)
            finite = "allow-nan" if incomplete else True
            X = validate_data(
                _Checked.of(columns, estimator),
                X,
                dtype=_FLOATS,
                order="C",
                reset=False,
                ensure_all_finite=finite,
            )
    return _placed(X, like)


def check_batch(
    X: Any,
    y: Any,
    columns: Columns | None,
    like: Array | None,
    sample_weight: Any = None,
    *,
    deferred: bool = False,
    incomplete: bool = False,
    estimator: str = REGRESSOR,
) -> Batch:
    """Return rows to learn, checked; `columns` and `like`, an array of the model, are None for the first batch.

    `sample_weight` (b,): one weight for each row, or one number for all; rows of weight zero are left out.
    `deferred`: on a device, whether numbers are finite is checked when it is next waited for (`_arrays.settle`, and
    `TargetScaling.apply` for the targets). `incomplete`: as for `check_rows`.
    """
    names, targets = (None, None) if columns is None else (columns.names, columns.targets)
    if is_foreign(X):
        settle(forget=True)
        X = _foreign_rows(X, None if columns is None else columns.n_features, finite=not deferred)
        y = _foreign_target(y, X, finite=not deferred)
        if deferred:
            _check_finite_later(X)
    elif columns is None or not _is_plain(X, columns, incomplete) or not _is_plain_target(y, X):
        y, given = _targets_by_name(y, columns)
        with _refusing(X, "The batch was refused and the model is unchanged; mend or drop these rows."):
            X, y, names = _checked_by_sklearn(X, y, columns, estimator, incomplete=incomplete)
        targets = given if columns is None else targets
    dtype, one = namespace(X).result_type(X.dtype, y.dtype), y.ndim == 1
    found = Columns(int(X.shape[1]), 1 if one else int(y.shape[1]), one, names, targets)
    if columns is not None and found != columns:
        raise InputError(
            f"y has shape {_shape_of_targets(found)}, earlier batches had {_shape_of_targets(columns)}; give the same "
            "targets"
        )
    X = X if like is None else _placed(X, like)
    weights = checked_weights(sample_weight, X)
    batch = Batch(X, double(y[:, None] if one else y), dtype, found, weights=weights, lacking=lacking(X))
    return _learnable(batch, first=columns is None)


def _learnable(batch: Batch, *, first: bool) -> Batch:
    """Return a batch without rows that have no label or no weight; raise InputError if the first batch has no other."""
    gaps = missing(batch.y)
    kept: np.ndarray | None = None
    if gaps is not None and gaps.all(axis=1).any():
        kept = np.asarray(~gaps.all(axis=1))
        batch = replace(batch, unlabelled=int((~kept).sum()))
    if batch.weights is not None and not bool(namespace(batch.weights).all(batch.weights > 0)):
        positive = to_host(batch.weights) > 0
        if first and not positive.any():
            raise InputError("sample_weight is zero for every row; give some rows a weight first")
        kept = positive if kept is None else np.asarray(kept & positive)
    if kept is None:
        return batch
    if first and not kept.any():
        raise InputError("no row of y has a label: all are NaN; give some labels first")
    return replace(batch.only(kept), kept=kept)


def _shape_of_targets(columns: Columns) -> str:
    return "(n,)" if columns.one_dimensional else f"(n, {columns.n_outputs})"


def _checked_by_sklearn(
    X: Any, y: Any, columns: Columns | None, estimator: str, *, incomplete: bool
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return X and y checked as scikit-learn's estimators do, and the names of the features or None."""
    y = to_host(y) if is_foreign(y) else _numeric(y, "y")
    X = _numeric(X, "X") if columns is None else _ordered(_numeric(X, "X"), columns)
    seen, gaps = _Checked.of(columns, estimator), missing(np.asarray(y))
    y = y if gaps is None else np.where(gaps, 0.0, y)
    X, y = validate_data(
        seen, X, y, reset=columns is None, dtype=_FLOATS, order="C", y_numeric=True, multi_output=True,
        ensure_all_finite="allow-nan" if incomplete else True,
    )  # fmt: skip
    y = y if y.dtype in _FLOATS else y.astype(np.float64)
    if not np.isfinite(y).all():
        raise ValueError("y contains NaN or infinity.")
    y = y if gaps is None else np.where(gaps, y.dtype.type(np.nan), y)
    names = getattr(seen, "feature_names_in_", None)
    return X, y, None if names is None else tuple(map(str, names))


def _is_plain(X: Any, columns: Columns, incomplete: bool) -> bool:
    """Return whether all the checks would let X through unchanged: one row at a time cannot wait for them."""
    return (
        type(X) is np.ndarray
        and X.dtype in _FLOATS
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == columns.n_features
        and X.flags.c_contiguous  # another order may round otherwise
        and columns.names is None
        and bool(np.isfinite(X).all() or (incomplete and not np.isinf(X).any()))
    )


def _is_plain_target(y: Any, X: np.ndarray) -> bool:
    plain = type(y) is np.ndarray and y.dtype in _FLOATS and y.ndim in (1, 2) and y.shape[0] == X.shape[0]
    return bool(plain and y.size and np.isfinite(y).all())


def _ordered(X: Any, columns: Columns) -> Any:
    """Return a frame, of pandas or polars, with its columns in the order in which the model learned them."""
    names, given = list(columns.names or ()), getattr(X, "columns", None)
    if not names or given is None or list(given) == names or sorted(map(str, given)) != sorted(names):
        return X  # where other names are there, scikit-learn says which
    return X[names]


def _targets_by_name(y: Any, columns: Columns | None) -> tuple[Any, tuple[str, ...] | None]:
    """Return targets in the order in which the model learned them, and the names of a frame or series, or None."""
    given = getattr(y, "columns", None)
    listed = [y.name] if given is None and isinstance(getattr(y, "name", None), str) else given
    if listed is None or not hasattr(y, "to_numpy"):
        return y, None
    names = tuple(str(name) for name in listed)
    if columns is None or columns.targets is None or names == columns.targets or not all(names):
        return y, names if all(names) else None
    if given is None or sorted(names) != sorted(columns.targets):
        raise InputError(
            f"y has the names {', '.join(names)}, earlier batches had {', '.join(columns.targets)}"
        )
    return y[list(columns.targets)], names


def _check_finite_later(X: Array) -> None:
    """Check that X is finite when the device is next waited for."""

    def check(total: np.ndarray) -> None:
        # A sum is not finite where a number is not; where it has overflowed, X is looked at again.
        if not np.isfinite(total[0]):
            _foreign_numbers(X, "X")

    watch(double(namespace(X).reshape(namespace(X).sum(X), (1,))), check)


def _numeric(values: Any, name: str) -> Any:
    """Return `values`, or raise for what scikit-learn would convert although it is no number: dates, text, masks."""
    if isinstance(values, list | tuple) and any(isinstance(v, np.ma.MaskedArray) for v in values):
        values = np.ma.stack(values)  # NumPy itself would forget the masks
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        where = tuple(int(i) for i in np.argwhere(np.ma.getmaskarray(values))[0])
        raise ValueError(
            f"{name} is a masked array with {np.ma.getmaskarray(values).sum()} masked values, the first at {where}; "
            f"fill them ({name}.filled(…)) or leave these rows out."
        )
    refuse_times(values, name)
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind not in "biufcO":
        raise ValueError(f"{name} has dtype {dtype}: could not convert it to real numbers.")
    return values


def _placed(X: Array, like: Array) -> Array:
    """Return X in the dtype of the model; another library or device is an error, not a silent copy."""
    if type(X) is type(like) is np.ndarray and X.dtype == like.dtype:
        return X
    if not same_place(X, like):
        raise InputError(
            f"X is a {type(X).__module__} array on {X.device}, the model has learned "
            f"{type(like).__module__} arrays on {like.device}; convert X"
        )
    if X.dtype == like.dtype:
        return X
    xp = namespace(X)
    if float(xp.max(xp.abs(X))) > float(xp.finfo(like.dtype).max):
        raise InputError(f"X holds values beyond the range of {like.dtype}, the dtype of the first batch")
    return cast(X, like.dtype)


def _foreign_rows(X: Array, n_features: int | None, finite: bool = True) -> Array:
    X = _foreign_numbers(X, "X", finite)
    if X.ndim != 2 or not X.shape[0] or not X.shape[1]:
        raise InputError(f"X has shape {tuple(X.shape)}; give (n, d) with a row and a feature or more")
    if n_features is not None and X.shape[1] != n_features:
        raise InputError(
            f"X has {X.shape[1]} features, but the model is expecting {n_features}; "
            "give the columns of the first batch"
        )
    return X


def _foreign_target(y: Any, X: Array, finite: bool = True) -> Array:
    if not is_foreign(y) or namespace(y) is not namespace(X):
        try:
            y = asarray_like(to_host(y) if is_foreign(y) else y, X, namespace(X).float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"y={y!r} is not an array of numbers; give a target for each row") from error
    y = _foreign_numbers(y, "y", finite)
    if y.ndim not in (1, 2) or y.shape[0] != X.shape[0] or 0 in y.shape:
        raise InputError(f"y has shape {tuple(y.shape)}, X {tuple(X.shape)}; give a target for each row")
    return y


def _foreign_numbers(x: Array, name: str, finite: bool = True) -> Array:
    """Return x as finite real numbers in single or double precision, without a graph of derivatives."""
    xp = namespace(x)
    if getattr(x, "is_sparse", False):
        raise InputError(f"{name} is sparse; give a dense array")
    if getattr(x, "requires_grad", False):
        x = x.detach()
    if not xp.isdtype(x.dtype, ("real floating", "integral")):
        raise InputError(f"{name} has dtype {x.dtype}; give real numbers")
    if x.dtype not in (xp.float64, xp.float32):
        x = xp.astype(x, xp.float32 if xp.isdtype(x.dtype, "real floating") else xp.float64)
    if finite and not bool(xp.all(xp.isfinite(x))):
        raise InputError(f"{name} contains NaN or infinity; drop or fill these rows. The model is unchanged.")
    return x


@contextmanager
def _refusing(X: Any, outcome: str) -> Iterator[None]:
    """Turn scikit-learn's errors about bad input into the documented one, with the place in X where it is known."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        said = str(error)
        if "contains NaN" in said or "contains infinity" in said:
            said = said.splitlines()[0]  # what follows speaks of other estimators
        place = first_bad_cell(X) if "X contains" in said or "could not convert" in said else ""
        raise kind(f"{said}{place}\n{outcome}") from error


def seed_of(random_state: Any) -> int:
    """Return a seed for a random_state, drawn from it if it is a generator; raise ParameterError if it is none."""
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise ParameterError(f"random_state={random_state!r} must be 0 or more, a RandomState or None")
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise ParameterError(
            f"random_state={random_state!r} must be a whole number, a RandomState or None"
        ) from error
