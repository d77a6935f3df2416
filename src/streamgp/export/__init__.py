"""Models that predict without this library: as one file of C99, for controllers, or as ONNX, for any runtime.

What is exported is frozen: it predicts as the model did when it was exported, and learns nothing more.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._arrays import to_host
from ..errors import ExportError, ExportWarning
from ..learned import gaussian
from ..learner import Learner
from ..parameters import check_probability
from ..regressor import StreamingGPRegressor
from .c import as_c
from .graph import evaluated
from .model import Graph, graph_of, left_out
from .onnx import as_onnx

# Rows at which the rounding of an exported model is measured: the last ones that were learned.
MEASURED_ROWS = 500
SUFFIXES = (".c", ".onnx")


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes
    ----------
    path : Path
    dtype : str
    mean_error, std_error : float
        The largest rounding error of mean and std at `rows` rows of the stream, in units of the std there.
    rows : int
    left_out : tuple of str
        What `predict` uses and the exported model does not, in words.
    """

    path: Path
    dtype: str
    mean_error: float
    std_error: float
    rows: int
    left_out: tuple[str, ...]


def export(
    gp: StreamingGPRegressor,
    path: str | os.PathLike[str],
    *,
    dtype: Literal["float64", "float32"] = "float64",
    interval: float = 0.9,
    prefix: str = "streamgp",
    features: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
) -> Exported:
    """Write a model that predicts without this library: one C99 file if `path` ends in .c, ONNX if in .onnx.

    It answers what `gp.predict(X, return_std=True, return_interval=interval)` answers, in the units of the targets,
    calibrated, from the whole panel but for "neighbours", which need all stored rows: in their place stands the
    Gaussian process alone, and an ExportWarning says so while they gain anything. `members=("gp", "ridge",
    "ridge_recent", "level")` learns a model that is exported whole. Kernels of this library; pivoted and rgp.

    Parameters
    ----------
    gp : StreamingGPRegressor
        Fitted; not changed.
    path : str or path
    dtype : {"float64", "float32"}
        In which the exported model computes. The error of float32 is measured and returned.
    interval : float in (0, 1)
        The probability of the interval.
    prefix : str
        What the names in C begin with.
    features, targets : sequence of str, optional
        Names that the file tells; by default those of the frame that was learned.

    Raises
    ------
    ExportError
        With nothing written, where a part of the model cannot be exported.
    """
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise ExportError(f"path={str(path)!r} must end in .c or .onnx, which says what to write")
    if dtype not in ("float64", "float32"):
        raise ExportError(f"dtype={dtype!r} must be 'float64' or 'float32'")
    check_probability("interval", interval)
    learner = gaussian(gp.learner_, "exporting")
    if learner.transform is not None:
        raise ExportError(
            f"a model with target_transform={learner.transform.names[0]!r} is not exported; learn the transformed "
            "target without it, and transform the answers on the controller"
        )
    graph, lacks = graph_of(learner, interval), tuple(left_out(learner))
    rounding = _rounding(learner, graph, dtype)
    names = features or learner.columns.names or (), targets or gp.target_names_
    about = _about(learner, names, dtype, lacks, rounding)
    if file.suffix == ".c":
        content = as_c(graph, dtype, about, prefix).encode()
    else:
        content = as_onnx(graph, dtype, about, one_dimensional=learner.targets.one_dimensional)
    part = file.with_name(file.name + ".part")
    part.write_bytes(content)
    part.replace(file)  # whole, or not at all
    if lacks:
        warnings.warn(
            f"{file} leaves out {' and '.join(lacks)}. Neighbours are not learned with "
            "members=('gp', 'ridge', 'ridge_recent', 'level')",
            ExportWarning,
            stacklevel=2,
        )
    return Exported(file, dtype, *rounding, lacks)


def _rounding(learner: Learner, graph: Graph, dtype: Any) -> tuple[float, float, int]:
    """Return the largest errors of mean and std in `dtype`, in units of the std, and at how many rows."""
    X = np.asarray(
        to_host(learner.sample.X if len(learner.sample.X) else learner.inducing_points), dtype=np.float64
    )
    X = X[-MEASURED_ROWS:]
    if not len(X):
        return 0.0, 0.0, 0
    answers = [graph.mean, graph.std]
    exact, rounded = (evaluated(answers, X, each) for each in (np.float64, dtype))
    size = np.maximum(exact[1], np.finfo(np.float64).tiny)
    mean, std = (float(np.max(np.abs(a - b) / size)) for a, b in zip(exact, rounded, strict=True))
    return mean, std, len(X)


def _about(
    learner: Learner,
    names: tuple[Sequence[str], Sequence[str]],
    dtype: str,
    lacks: tuple[str, ...],
    rounding: tuple[float, float, int],
) -> dict[str, str]:
    """Return what the file tells of itself."""
    features = str(learner.columns.n_features)
    features += f", in this order: {', '.join(names[0])}" if names[0] else ""
    mean, std, rows = rounding
    error = "that of double arithmetic"
    if dtype == "float32":
        error = f"mean {mean:.1g}, std {std:.1g} standard deviations at most, at {rows} rows of the stream"
    return {
        "made by": "streamgp",
        "rows learned": str(learner.rows_seen),
        "features": features,
        "targets": ", ".join(names[1]),
        "kernel": str(learner.state.kernel)[:500],
        "type": dtype,
        "rounding": error,
        "left out": "; ".join(lacks) or "nothing",
    }
