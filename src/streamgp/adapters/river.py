"""StreamingGPRegressor with the interface of River: one dictionary, or one data frame, at a time.

Features are matched by name. A feature that a row lacks counts as zero, as in River's linear models; one that the
first row did not have is ignored, since the number of inputs of a kernel is fixed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from river import base

from ..errors import InputError
from ..parameters import used_by
from ..regressor import StreamingGPRegressor


class GPRegressor(base.MiniBatchRegressor):
    """Gaussian process regression with hyperparameters and intervals that are tuned on the stream.

    Parameters
    ----------
    kernel, method, rank, noise, tune, forgetting, memory_rows, guard, seed
        As in StreamingGPRegressor; `seed` is its random_state.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from streamgp.adapters.river import GPRegressor
    >>> model = preprocessing.StandardScaler() | GPRegressor(rank=100, seed=0)
    >>> stream = datasets.TrumpApproval().take(300)
    >>> error = evaluate.progressive_val_score(stream, model, metrics.MAE())
    >>> error.get() < 2.0  # approval in percent
    True
    """

    def __init__(
        self,
        kernel: Any = "auto",
        method: str = "pivoted",
        rank: int = 200,
        noise: float | str = "auto",
        tune: str = "doubling",
        forgetting: float | str = "auto",
        memory_rows: float | None = None,
        guard: float | str | None = "auto",
        seed: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.method = method
        self.rank = rank
        self.noise = noise
        self.tune = tune
        self.forgetting = forgetting
        self.memory_rows = memory_rows
        self.guard = guard
        self.seed = seed
        given: dict[str, Any] = {
            "noise": noise,
            "tune": tune,
            "forgetting": forgetting,
            "memory_rows": memory_rows,
            "guard": guard,
            "random_state": seed,
        }
        # The default rank is for the methods that have one.
        self.gp = StreamingGPRegressor(kernel, **used_by(method, rank=rank), **given)
        self.names: list[Any] = []

    def _unit_test_skips(self) -> set[str]:
        """Return the check that does not apply: single rows and batches are tuned, and pivots chosen, at other rows."""
        return {"check_learn_many_matches_learn_one"}

    @property
    def _is_fitted(self) -> bool:
        return bool(self.names) and self.gp.__sklearn_is_fitted__()

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        """Learn one row."""
        names = self.names or sorted(x, key=str)
        if names:
            self.gp.partial_fit(_row(x, names), _numbers([y]))
        self.names = names

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Return the prediction of one row; 0 before the first row is learned."""
        return float(self.gp.predict(_row(x, self.names))[0]) if self._is_fitted else 0.0

    def predict_interval_one(self, x: dict[Any, Any], probability: float = 0.9) -> tuple[float, float]:
        """Return the ends of the calibrated interval of one row; infinite before the first row is learned."""
        if not self._is_fitted:
            return -np.inf, np.inf
        _, lower, upper = self.gp.predict(_row(x, self.names), return_interval=probability)
        return float(lower[0]), float(upper[0])

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a data frame."""
        names = self.names or sorted(X.columns, key=str)
        if len(X) and names:
            self.gp.partial_fit(_rows(X, names), _numbers(y))
            self.names = names

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the predictions of the rows of a data frame; 0 before the first row is learned."""
        values = self.gp.predict(_rows(X, self.names)) if self._is_fitted and len(X) else np.zeros(len(X))
        return pd.Series(values, index=X.index, dtype="float64")


def _row(x: dict[Any, Any], names: list[Any]) -> np.ndarray:
    """Return the named features as a matrix (1, d)."""
    return _numbers([[x.get(name, 0.0) for name in names]])


def _rows(X: pd.DataFrame, names: list[Any]) -> np.ndarray:
    """Return the named columns as a matrix (n, d)."""
    return np.ascontiguousarray(_numbers(X.reindex(columns=names, fill_value=0.0).to_numpy()))


def _numbers(values: Any) -> np.ndarray:
    """Return values in float64; raise InputError if one is not a number."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{values!r:.100} is not numeric; pass numbers only. The model is unchanged"
        ) from error
