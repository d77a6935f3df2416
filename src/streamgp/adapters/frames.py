"""pandas and polars: predictions as a data frame of the same library, with the names of the targets."""

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
    """Return predictions for the rows of a data frame, whose columns are matched by name.

    Parameters
    ----------
    gp : StreamingGPRegressor
        Fitted.
    X : pandas.DataFrame or polars.DataFrame
    interval : float
        Probability of the calibrated intervals.
    targets : names, optional
        Default: the names of the y that was learned if it had any, otherwise y, or y1, y2, … .

    Returns
    -------
    data frame of the same library
        Columns NAME_mean, NAME_std, NAME_low, NAME_high for each target; the index of X if it has one.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from streamgp import StreamingGPRegressor
    >>> from streamgp.adapters.frames import predict_frame
    >>> X = pd.DataFrame({"load": np.linspace(0, 1, 80), "heat": np.linspace(1, 0, 80) ** 2})
    >>> gp = StreamingGPRegressor(random_state=0).fit(X, X["load"].rename("wear"))
    >>> list(predict_frame(gp, X[["heat", "load"]]).columns)
    ['wear_mean', 'wear_std', 'wear_low', 'wear_high']
    """
    kind = type(X).__module__.partition(".")[0]
    if kind not in ("pandas", "polars"):
        raise InputTypeError(f"X is a {type(X).__name__}; pass a DataFrame of pandas or polars")
    mean, std = (_columns(v) for v in gp.predict(X, return_std=True))
    _, low, high = (_columns(v) for v in gp.predict(X, return_interval=interval))
    names = list(targets) if targets is not None else list(gp.target_names_)
    if len(names) != mean.shape[1]:
        raise InputTypeError(
            f"targets has {len(names)} names, the model has {mean.shape[1]} targets; name each"
        )
    parts = {"_mean": mean, "_std": std, "_low": low, "_high": high}
    columns = [f"{name}{end}" for name in names for end in parts]
    if len(set(columns)) < len(columns):
        raise InputError(
            f"the columns {', '.join(columns)} are not all different; pass other names as `targets`"
        )
    values = [part[:, j] for j in range(len(names)) for part in parts.values()]
    table = dict(zip(columns, values, strict=True))
    library = sys.modules[kind]
    return library.DataFrame(table, index=X.index) if kind == "pandas" else library.DataFrame(table)


def _columns(values: np.ndarray) -> np.ndarray:
    """Return values (m,) or (m, q) as a matrix, (m, 1) or (m, q)."""
    return values[:, None] if values.ndim == 1 else values
