"""A pipeline that learns batch by batch, and is saved as one file."""

from __future__ import annotations

import copy
import os
from typing import Any, Self

from sklearn.pipeline import Pipeline

from ..errors import CheckpointError
from ..loading import load_with_more
from .transformer import StreamColumns


class StreamPipeline(Pipeline):
    """scikit-learn's Pipeline with `partial_fit`: of a `StreamColumns`, then a regressor that has one.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp import StreamingGPRegressor
    >>> from streamgp.columns import StreamColumns, StreamPipeline
    >>> pipeline = StreamPipeline([("columns", StreamColumns(categorical=["mode"])), ("gp", StreamingGPRegressor())])
    >>> rows = {"load": np.linspace(0, 1, 60), "mode": np.tile(["on", "off"], 30)}
    >>> mean, std = pipeline.partial_fit(rows, rows["load"] + 1).predict(rows, return_std=True)
    >>> mean.shape, std.shape
    ((60,), (60,))
    """

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn the rows that come next; if the regressor refuses them, nothing is learned."""
        columns, regressor = self.steps[0][1], self.steps[-1][1]
        fresh = copy.copy(columns)
        regressor.partial_fit(fresh.arrive(X, y), y)
        columns.__dict__.update(fresh.__dict__)
        return self

    def save(self, path: str | os.PathLike[str], **more: Any) -> None:
        """Write both to one file that `streamgp.columns.load` reads, and `streamgp predict` as well."""
        columns, regressor = self.steps[0][1], self.steps[-1][1]
        regressor.save(path, columns=columns.to_dict(), **more)


def load(path: str | os.PathLike[str]) -> StreamPipeline:
    """Read a pipeline that `StreamPipeline.save` or `streamgp run` wrote; it takes raw rows."""
    gp, more = load_with_more(path)
    if not more.get("columns"):
        raise CheckpointError(f"{path} holds a model of numbers alone; read it with streamgp.load")
    return StreamPipeline([("columns", StreamColumns.from_dict(more["columns"])), ("gp", gp)])
