"""Checks of what users hand in: an error names the value, the rule and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ._arrays import (
    Array,
    asarray_like,
    cast,
    double,
    is_foreign,
    namespace,
    same_place,
    settle,
    to_host,
    watch,
)
from .errors import InputError, InputTypeError, KernelError, ParameterError
from .kernels import as_kernel
from .tuning.optimise import MODES, OBJECTIVES
from .tuning.start import FAMILIES

METHODS: tuple[str, ...] = ("pivoted", "srmf", "brmf", "nrmf", "rgp")
# Beyond this, sums of squares leave the range of float64.
LARGEST_TARGET = 1e150
_FLOATS = (np.float64, np.float32)


class Batch(NamedTuple):
    """Rows X (b, d), targets y (b, q) in float64, whether y had one dimension, and the dtype of answers."""

    X: Array
    y: Array
    one_dimensional: bool
    dtype: Any


def check_parameters(gp: Any) -> None:
    """Check the arguments of a StreamingGPRegressor, all but those that need the data."""
    if gp.method not in METHODS:
        raise ParameterError(f"method={gp.method!r} must be one of {', '.join(METHODS)}")
    if isinstance(gp.rank, str) and (gp.rank != "auto" or gp.method != "pivoted"):
        raise ParameterError(f"rank={gp.rank!r} must be a whole number, or 'auto' with method='pivoted'")
    if not (is_real(gp.tolerance) and 0 < gp.tolerance < 1):
        raise ParameterError(f"tolerance={gp.tolerance!r} must lie between 0 and 1, such as 0.01")
    for name, low in (("rank", 1), ("max_rank", 1), ("oversampling", 0), ("initial_batches", 1)):
        value = getattr(gp, name)
        if name == "rank" and isinstance(value, str):
            continue
        if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
            raise ParameterError(f"{name}={value!r} must be a whole number, {low} or more")
    if not (isinstance(gp.noise, str) and gp.noise == "auto") and not (
        is_real(gp.noise) and 0 < gp.noise < np.inf
    ):
        raise ParameterError(
            f"noise={gp.noise!r} must be a variance above 0, or 'auto'; for data without noise give a small one"
        )
    if gp.tune not in MODES:
        raise ParameterError(f"tune={gp.tune!r} must be one of {', '.join(MODES)}")
    if gp.objective not in OBJECTIVES:
        raise ParameterError(f"objective={gp.objective!r} must be one of {', '.join(OBJECTIVES)}")
    bounds = gp.bounds
    if not (
        isinstance(bounds, tuple | list)
        and len(bounds) == 2
        and all(is_real(b) and 0 < b < np.inf for b in bounds)
        and bounds[0] <= 1 <= bounds[1]
    ):
        raise ParameterError(
            f"bounds={bounds!r} must be two multiples of the start, the lower at most 1 and the upper at least 1, "
            "such as (1e-3, 1e3)"
        )
    if not (is_real(gp.forgetting) and 0 < gp.forgetting <= 1):
        raise ParameterError(f"forgetting={gp.forgetting!r} must be above 0 and at most 1, such as 0.99")
    if gp.forgetting != 1 and gp.method not in ("pivoted", "rgp"):
        raise ParameterError(
            f"forgetting={gp.forgetting!r} works with 'pivoted' and 'rgp', not {gp.method!r}"
        )
    if gp.guard is not None and not (is_real(gp.guard) and 0 < gp.guard < np.inf):
        raise ParameterError(
            f"guard={gp.guard!r} must be a number of deviations above 0, such as 10, or None"
        )
    if gp.memory not in ("bounded", "rows"):
        raise ParameterError(f"memory={gp.memory!r} must be 'bounded' or 'rows'")
    if gp.variant not in ("projected", "literal"):
        raise ParameterError(f"variant={gp.variant!r} must be 'projected' or 'literal'")
    for name, default, method in (
        ("basis", None, "rgp"),
        ("refactor", False, "nrmf"),
        ("memory", "bounded", "pivoted"),
        ("mixed_precision", False, "pivoted"),
    ):
        value = getattr(gp, name)
        if gp.method != method and not (value is default or (isinstance(value, str) and value == default)):
            raise ParameterError(
                f"{name} works with method={method!r}, not {gp.method!r}; leave it at {default}"
            )
    for name in ("refactor", "mixed_precision"):
        if not isinstance(getattr(gp, name), bool | np.bool_):
            raise ParameterError(f"{name}={getattr(gp, name)!r} must be True or False")
    if isinstance(gp.random_state, Integral) and gp.random_state < 0:
        raise ParameterError(f"random_state={gp.random_state!r} must be 0 or more, a RandomState or None")
    try:
        if not isinstance(gp.random_state, int):  # asked at every batch, and making a generator takes long
            check_random_state(gp.random_state)
    except ValueError as error:
        raise ParameterError(
            f"random_state={gp.random_state!r} must be a whole number, a RandomState or None"
        ) from error
    if isinstance(gp.kernel, str):
        if gp.kernel not in FAMILIES:
            raise KernelError(f"kernel={gp.kernel!r} must be a kernel, None, or one of {', '.join(FAMILIES)}")
    elif gp.kernel is not None:
        as_kernel(gp.kernel)


def is_real(value: object) -> bool:
    """Tell whether value is a real number and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def rows(gp: Any, X: Any, like: Array) -> Array:
    """Check rows to predict; `like` lives where the model does."""
    if is_foreign(X):
        return _placed(_foreign_rows(X, gp.n_features_in_), like)
    if not _is_plain(gp, X):
        with _refusing(X, "Nothing was predicted."):
            X = validate_data(gp, _by_name(gp, _numeric(X, "X")), dtype=_FLOATS, order="C", reset=False)
    return _placed(X, like)


def batch(gp: Any, X: Any, y: Any, like: Array | None, *, finite: bool = True) -> Batch:
    """Check rows to learn; `like` lives where the model does, None if these are the first.

    Without `finite`, whether numbers are so is left to `standardised`: a device is then waited for only once.
    """
    if is_foreign(X):
        X = _foreign_rows(X, None if like is None else gp.n_features_in_, finite)
        y = _foreign_target(y, X, finite)
        gp.n_features_in_ = int(X.shape[1])
    elif not (like is not None and _is_plain(gp, X) and _is_plain_target(y, X)):
        with _refusing(X, "The batch was refused and the model is unchanged; mend or drop these rows."):
            y = to_host(y) if is_foreign(y) else _numeric(y, "y")
            X = _numeric(X, "X") if like is None else _by_name(gp, _numeric(X, "X"))
            X, y = validate_data(
                gp, X, y, reset=like is None, dtype=_FLOATS, order="C", y_numeric=True, multi_output=True
            )
            y = y if y.dtype in _FLOATS else y.astype(np.float64)
            if not np.isfinite(y).all():
                raise ValueError("y contains NaN or infinity.")
    dtype = namespace(X).result_type(X.dtype, y.dtype)
    one_dimensional = y.ndim == 1
    X = X if like is None else _placed(X, like)
    return Batch(X, double(y[:, None] if one_dimensional else y), one_dimensional, dtype)


def _is_plain(gp: Any, X: Any) -> bool:
    """Tell whether X is what all the checks would let through unchanged: one row at a time cannot wait for them."""
    return (
        type(X) is np.ndarray
        and X.dtype in _FLOATS
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == gp.n_features_in_
        and X.flags.c_contiguous  # another order may round otherwise
        and not hasattr(gp, "feature_names_in_")
        and bool(np.isfinite(X).all())
    )


def _is_plain_target(y: Any, X: np.ndarray) -> bool:
    plain = type(y) is np.ndarray and y.dtype in _FLOATS and y.ndim in (1, 2) and y.shape[0] == X.shape[0]
    return bool(plain and y.size and np.isfinite(y).all())


def _by_name(gp: Any, X: Any) -> Any:
    """Bring the columns of a frame, pandas' or polars', into the order in which the model learned them."""
    names = [str(name) for name in getattr(gp, "feature_names_in_", ())]
    columns = getattr(X, "columns", None)
    if not names or columns is None or list(columns) == names or sorted(map(str, columns)) != sorted(names):
        return X  # where other names stand there, scikit-learn says which
    return X[names]


def targets_by_name(gp: Any, y: Any, *, reset: bool) -> Any:
    """Keep the names of targets, a frame's or a series'; bring later ones into that order."""
    columns = getattr(y, "columns", None)
    names = [y.name] if columns is None and isinstance(getattr(y, "name", None), str) else columns
    if names is None or (not hasattr(y, "to_numpy")):
        return y
    names = [str(name) for name in names]
    if reset:
        if all(names):
            gp.target_names_in_ = np.array(names, dtype=object)
        return y
    known = [str(name) for name in getattr(gp, "target_names_in_", ())]
    if not known or names == known or not all(names):
        return y
    if columns is None or sorted(names) != sorted(known):
        raise InputError(f"y has the names {', '.join(names)}, earlier batches had {', '.join(known)}")
    return y[known]


def _numeric(values: Any, name: str) -> Any:
    """Refuse what scikit-learn would turn into numbers although it is none: dates, text, records, masked values."""
    if isinstance(values, list | tuple) and any(isinstance(v, np.ma.MaskedArray) for v in values):
        values = np.ma.stack(values)  # NumPy itself would forget the masks
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        where = tuple(int(i) for i in np.argwhere(np.ma.getmaskarray(values))[0])
        raise ValueError(
            f"{name} is a masked array with {np.ma.getmaskarray(values).sum()} masked values, the first at {where}; "
            f"fill them ({name}.filled(…)) or leave these rows out."
        )
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind not in "biufcO":
        raise ValueError(f"{name} has dtype {dtype}: could not convert it to real numbers.")
    return values


def check_targets(batch: Batch, n_outputs: int, one_dimensional: bool) -> None:
    """Check that a later batch has the targets of the first."""
    if batch.y.shape[1] != n_outputs or batch.one_dimensional != one_dimensional:
        shape = "(n,)" if one_dimensional else f"(n, {n_outputs})"
        got = "(n,)" if batch.one_dimensional else f"(n, {batch.y.shape[1]})"
        raise InputError(f"y has shape {got}, earlier batches had {shape}; give the same targets")


def check_mergeable(mine: Any, theirs: Any) -> None:
    """Check that two streams speak of the same model."""
    if mine.starting or theirs.starting:
        raise InputError(
            "one of the two still waits for its first rows; let both learn more before they merge"
        )
    if type(mine.model) is not type(theirs.model) or not hasattr(mine.model, "merge"):
        raise InputError(
            "both must have method='pivoted', or both 'rgp'; the others keep every row and cannot merge"
        )
    if not same_place(mine.like, theirs.like) or mine.one_dimensional != theirs.one_dimensional:
        raise InputError("both must have learned arrays of one library, and targets of one shape")
    if mine.like.shape != theirs.like.shape or mine.scale.shape != theirs.scale.shape:
        raise InputError("both must have the same number of features and of outputs")
    estimated = all(getattr(m.model, "least_noise", None) is not None for m in (mine, theirs))
    alike = mine.model.kernel == theirs.model.kernel and (estimated or mine.model.noise == theirs.model.noise)
    apart = mine.settings.tune != "none" and mine.settings.method == "pivoted"
    alike = alike or (apart and _same_start(mine.settings, theirs.settings))
    if not alike or not bool((mine.offset == theirs.offset).all() and (mine.scale == theirs.scale).all()):
        raise InputError(
            "both must have the same kernel, noise and targets' units; give the kernel to both, and tune='none' to rgp"
        )


def _same_start(mine: Any, theirs: Any) -> bool:
    return mine.kernel is not None and (mine.kernel, mine.noise) == (theirs.kernel, theirs.noise)


def standardised(y: Array, offset: Array, scale: Array, X: Array | None = None) -> Array:
    """Give (y − offset)/scale for y (b, q), offset (q,) and scale (q,), unless that is out of range.

    Where arrays are another library's and X is given, neither may hold what is not finite; `settle` makes sure.
    """
    xp = namespace(y)
    out = (y - offset[None, :]) / scale[None, :]
    if X is None or not is_foreign(X):
        largest = float(xp.max(xp.abs(out)))
    else:
        settle(forget=True)

        def check(both: np.ndarray) -> None:
            # A sum is not finite where a number is not; where it has overflowed, X is looked at again.
            if not np.isfinite(both[0]):
                _foreign_numbers(X, "X")
            if not np.isfinite(both[1]):
                _foreign_numbers(y, "y")
            _check_range(y, float(both[1]))

        watch(xp.stack([double(xp.sum(X)), xp.max(xp.abs(out))]), check)
        return out
    _check_range(y, largest)
    return out


def _check_range(y: Array, largest: float) -> None:
    if not largest <= LARGEST_TARGET:
        raise InputError(
            f"y reaches {float(namespace(y).max(namespace(y).abs(y))):g}, {largest:g} in units of the model; beyond "
            f"{LARGEST_TARGET:g} sums of squares overflow; scale y down. The model is unchanged."
        )


def basis(given: Any, X: Array) -> Array:
    """Check the basis points of rgp, and bring them beside X (n, d)."""
    try:
        points = np.asarray(to_host(given) if is_foreign(given) else given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"basis must be an array of numbers (m, {X.shape[1]})") from error
    if (
        points.ndim != 2
        or points.shape[1] != X.shape[1]
        or not points.shape[0]
        or not np.isfinite(points).all()
    ):
        raise ParameterError(
            f"basis of shape {points.shape} must be finite, with {X.shape[1]} columns as X and a row or more"
        )
    return asarray_like(points, X)


def _placed(X: Array, like: Array) -> Array:
    """Bring X to the dtype of the model; another library or device is an error, not a silent copy."""
    if not same_place(X, like):
        raise InputError(
            f"X is a {type(X).__module__} array on {X.device}, the model was taught with "
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
    """Give x as finite real numbers in single or double precision, without a graph of derivatives."""
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
    """Turn what scikit-learn says of bad input into the one documented error, with the place in X where it is known."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        said = str(error)
        if "contains NaN" in said or "contains infinity" in said:
            said = said.splitlines()[0]  # what follows speaks of other estimators
        place = _first_bad_cell(X) if "X contains" in said or "could not convert" in said else ""
        raise kind(f"{said}{place}\n{outcome}") from error


def _first_bad_cell(X: Any) -> str:
    """Say where in a table the first cell stands that is not a finite number; empty where that is not to be told."""
    try:
        frame = hasattr(X, "columns")
        columns = list(X.columns) if frame else range(np.asarray(X, dtype=object).shape[1])
        for name in columns:
            cells = np.asarray(X[name] if frame else np.asarray(X, dtype=object)[:, name], dtype=object)
            for i, cell in enumerate(cells):
                if not _is_finite_number(cell):
                    return f" Row {i}, column {name!r}: {str(cell)[:60]!r}."
    except (IndexError, KeyError, TypeError, ValueError):
        return ""  # no table: the error that is being raised says so
    return ""


def _is_finite_number(cell: object) -> bool:
    try:
        return bool(np.isfinite(float(cell)))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
