"""pandas and polars: predictions as a frame of the kind that was asked with, under the names of the targets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError
from ..regressor import StreamingGPRegressor


def predict_frame(
    gp: StreamingGPRegressor, X: Any, interval: float = 0.9, targets: Sequence[str] | None = None
) -> Any:
    """Predict the rows of a frame; its columns are matched by name.

    Parameters
    ----------
    gp : StreamingGPRegressor
    X : pandas.DataFrame or polars.DataFrame
    interval : float
        Probability of the calibrated intervals.
    targets : names, optional
        By default those of the y that was learned, where it had names; else y, or y1, y2 and so on.

    Returns
    -------
    frame of the same library, and index, with columns NAME, NAME_std, NAME_low, NAME_high for each target

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from streamgp import StreamingGPRegressor
    >>> from streamgp.adapters.frames import predict_frame
    >>> X = pd.DataFrame({"load": np.linspace(0, 1, 80), "heat": np.linspace(1, 0, 80) ** 2})
    >>> gp = StreamingGPRegressor(random_state=0).fit(X, X["load"].rename("wear"))
    >>> list(predict_frame(gp, X[["heat", "load"]]).columns)
    ['wear', 'wear_std', 'wear_low', 'wear_high']
    """
    kind = type(X).__module__.partition(".")[0]
    if kind not in ("pandas", "polars"):
        raise InputTypeError(f"X is a {type(X).__name__}; give a frame of pandas or polars")
    mean, std = (_columns(v) for v in gp.predict(X, return_std=True))
    _, low, high = (_columns(v) for v in gp.predict(X, return_interval=interval))
    names = list(targets) if targets is not None else list(gp.target_names_)
    if len(names) != mean.shape[1]:
        raise InputTypeError(f"{len(names)} names for {mean.shape[1]} targets")
    ends = ("", "_std", "_low", "_high")
    columns = [f"{name}{end}" for name in names for end in ends]
    if len(set(columns)) < len(columns):
        raise InputError(
            f"the columns {', '.join(columns)} are not all different; give other names as `targets`"
        )
    table = {
        f"{name}{end}": values[:, j]
        for j, name in enumerate(names)
        for end, values in (("", mean), ("_std", std), ("_low", low), ("_high", high))
    }
    library = sys.modules[kind]
    return library.DataFrame(table, index=X.index) if kind == "pandas" else library.DataFrame(table)


def _columns(values: np.ndarray) -> np.ndarray:
    return values[:, None] if values.ndim == 1 else values
