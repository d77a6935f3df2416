"""Save and load what was learned: no pickle, a version, a checksum, one atomic rename.

A file is ``STREAMGP``, a version (4 bytes), the sha256 of all that follows (32 bytes), the length of a JSON header
(8 bytes), the header, and the arrays one after another as the header says. Nothing in it is ever run: the header
names classes from a list that is written here, and the checksum is looked at before anything else is read.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from . import answers, checks, kernels, likelihoods, lowrank, parameters, targets, transforms
from ._arrays import is_foreign
from .errors import CheckpointError, StreamGPError
from .gp import features, normal_equations, posterior
from .latent.learner import Classes, LatentLearner
from .latent.model import LatentModel
from .learner import Learner
from .methods import (
    adaptation,
    ahead,
    exact,
    idle,
    panels,
    parts,
    pivot_selection,
    pivot_state,
    pivoted,
    printed,
    recursive,
    rows,
    sites,
    spectral,
    split,
    stored,
    weighted,
)
from .methods.recent import Recent
from .online import (
    answered,
    calibration,
    choice,
    first,
    history,
    local,
    members,
    missing,
    mixture,
    outliers,
    tails,
)
from .tuning import background, optimise, reservoir, schedule

MAGIC = b"STREAMGP"
VERSION = 13
_HEAD = struct.Struct("<8sI32sQ")

# Every class that a file may name.
_CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Learner, answers.LearnedMean, first.FirstRows, choice.OpenChoice, parameters.Settings, checks.Columns,
        targets.TargetScaling,
        transforms.TargetTransform,
        reservoir.Reservoir, schedule.Schedule, schedule.Outcome,
        background.Asked, optimise.Search, calibration.Scores, local.LocalScale, tails.Tails,
        mixture.Mixture, members.FadingRidge, members.Level, stored.Store, stored.Stored,
        missing.Imputation, answered.Answers, history.Ledger, history.Repeats, outliers.Outliers, outliers.InputMoments,
        outliers.Waiting, idle.IdlePivots, adaptation.Adaptation, ahead.Looks,
        pivoted.PivotedState, pivot_state.PivotedConfig, pivot_selection.SelectionPolicy, rows.Rows,
        exact.ExactState, panels.Chain, panels.Panel, recursive.RecursiveState,
        spectral.SpectralState, spectral.SpectralConfig,
        split.SplitState, weighted.WeightedState, printed.PrintedWeightedState, parts.Part,
        features.Pivots, features.Quadratic, lowrank.Factor,
        normal_equations.NormalEquations, posterior.Posterior, posterior.Conditioned,
        LatentLearner, LatentModel, Classes, sites.SiteState,
        likelihoods.StudentT, likelihoods.Poisson, likelihoods.NegativeBinomial, likelihoods.Bernoulli,
        kernels.Constant, kernels.White, kernels.Scaled, kernels.Sum, kernels.Product, kernels.WeightedSum,
        kernels.Trend,
        kernels.SquaredExponential, kernels.Matern, kernels.RationalQuadratic, kernels.Periodic, kernels.Linear,
        kernels.DistancePolynomial, kernels.BrownianPolynomial,
    )
}  # fmt: skip
# Functions that a file may name.
_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register(cls: Any) -> Any:
    """Let checkpoints hold a kernel or a prior mean of your own, before one is saved or loaded; a decorator.

    A kernel is a dataclass; a prior mean a function, or a dataclass that is called or has `predict`, with numbers and
    arrays in its fields. A file names classes and no code: what it names is looked for among streamgp's own and those
    that were registered.
    """
    if inspect.isfunction(cls):
        _FUNCTIONS[cls.__name__] = cls
        return cls
    known_as_mean = isinstance(cls, type) and ("__call__" in vars(cls) or hasattr(cls, "predict"))
    useful = known_as_mean or (isinstance(cls, type) and issubclass(cls, kernels.Kernel))
    if not (useful and is_dataclass(cls)):
        raise CheckpointError(
            f"{cls!r} must be a kernel and a dataclass to be held by checkpoints, or a function or dataclass that is a "
            "prior mean"
        )
    name, known = cast(type, cls).__name__, _CLASSES.get(cast(type, cls).__name__)
    if known is not None and known.__module__.startswith("streamgp."):
        raise CheckpointError(f"{name} is the name of a class of streamgp; give yours another name")
    _CLASSES[name] = cast(type, cls)
    return cls


def encode(content: dict[str, Any]) -> bytes:
    """Return a tree of numbers, texts, arrays and known dataclasses as the bytes that `decode` reads."""
    blobs: list[bytes] = []
    try:
        header = json.dumps(_pack(content, blobs), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"this model cannot be saved: {error}") from error
    body = struct.pack("<Q", len(header)) + header + b"".join(blobs)
    return MAGIC + struct.pack("<I", VERSION) + hashlib.sha256(body).digest() + body


def write(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a tree of numbers, texts, arrays and known dataclasses; the file is whole or not there at all."""
    data, target = encode(content), Path(path)
    fresh = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise CheckpointError(f"{target} cannot be written: {error.strerror or error}") from error


def clean(path: str | os.PathLike[str]) -> None:
    """Remove what processes that died left of files that they were writing in the place of this one."""
    target = Path(path)
    for left in target.parent.glob(f".{target.name}.*.tmp"):
        left.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write` wrote, or raise CheckpointError saying what is wrong with the file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    return decode(data, path)


def decode(data: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `encode` returned, from `path`, or raise CheckpointError saying what is wrong with it."""
    if data[:8] != MAGIC or len(data) < _HEAD.size:
        raise CheckpointError(f"{path} is not a streamgp checkpoint, or only the beginning of one")
    _, version, digest, length = _HEAD.unpack(data[: _HEAD.size])
    if version != VERSION:
        raise CheckpointError(
            f"{path} has format {version}, this streamgp reads {VERSION}; use the version that wrote it"
        )
    if hashlib.sha256(data[44:]).digest() != digest:
        raise CheckpointError(f"{path} is damaged or cut short: its checksum does not match")
    try:
        header = json.loads(data[_HEAD.size : _HEAD.size + length])
        content = _unpack(header, memoryview(data)[_HEAD.size + length :])
    except (
        StreamGPError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
    ) as error:  # fmt: skip
        raise CheckpointError(f"{path} does not hold a model of this version: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} does not hold a model")
    return content


def sync_folder(folder: Path) -> None:
    """Make a rename last through a loss of power, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _pack(value: Any, blobs: list[bytes]) -> Any:
    """Turn a value into JSON, arrays into entries of `blobs`."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.generic):
        return _pack(value.item(), blobs)
    if isinstance(value, np.dtype):
        return {"dtype": value.str}
    if isinstance(value, Recent):
        return {"recent": True}
    if is_foreign(value) or isinstance(value, np.ndarray):
        if is_foreign(value):
            raise TypeError("its arrays are not NumPy's; only models that learned NumPy arrays can be saved")
        if value.dtype.kind not in "biuf":
            raise TypeError(f"an array of {value.dtype} is not something that a checkpoint holds")
        # In the order in which it lies: a product of a transposed matrix may round otherwise.
        turned = value.flags.f_contiguous and not value.flags.c_contiguous
        array = np.asarray(value.T if turned else value, order="C")
        start = sum(len(b) for b in blobs)
        blobs.append(array.tobytes())
        return {"array": array.dtype.str, "shape": list(array.shape), "at": start, "turned": turned}
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [_pack(v, blobs) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_pack(k, blobs), _pack(v, blobs)] for k, v in value.items()]}
    if inspect.isfunction(value) and _FUNCTIONS.get(value.__name__) is value:
        return {"function": value.__name__}
    name = type(value).__name__
    if is_dataclass(value) and _CLASSES.get(name) is type(value):
        return {
            "class": name,
            "fields": {f.name: _pack(getattr(value, f.name), blobs) for f in fields(value)},
        }
    own = isinstance(value, kernels.Kernel) or callable(value) or hasattr(value, "predict")
    remedy = "; streamgp.checkpoint.register it first" if own else ""
    raise TypeError(f"{type(value).__module__}.{name} is not something that a checkpoint holds{remedy}")


def _unpack(value: Any, data: memoryview) -> Any:
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "dtype" in value:
        return np.dtype(value["dtype"])
    if "recent" in value:
        return Recent()
    if "array" in value:
        dtype, shape = np.dtype(value["array"]), tuple(int(n) for n in value["shape"])
        if dtype.kind not in "biuf" or min(shape, default=0) < 0:
            raise ValueError(f"an array of {dtype}, shape {shape}")
        size, start = math.prod(shape) * dtype.itemsize, int(value["at"])
        array = np.frombuffer(data[start : start + size], dtype).reshape(shape).copy()
        return array.T if value["turned"] else array
    if "tuple" in value:
        return tuple(_unpack(v, data) for v in value["tuple"])
    if "list" in value:
        return [_unpack(v, data) for v in value["list"]]
    if "dict" in value:
        return {_unpack(k, data): _unpack(v, data) for k, v in value["dict"]}
    if "function" in value:
        if value["function"] not in _FUNCTIONS:
            raise ValueError(
                f"{value['function']} is a function of yours; streamgp.checkpoint.register it first"
            )
        return _FUNCTIONS[value["function"]]
    if value["class"] not in _CLASSES:
        raise ValueError(
            f"{value['class']} is no class of streamgp's; streamgp.checkpoint.register it if it is yours"
        )
    cls = _CLASSES[value["class"]]
    given = {name: _unpack(v, data) for name, v in value["fields"].items()}
    if set(given) != {f.name for f in fields(cls)}:
        raise ValueError(f"{cls.__name__} has other fields here")
    return cls(**given)
