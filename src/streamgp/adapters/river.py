"""StreamingGPRegressor for River: one dictionary, or one data frame, at a time.

Features are matched by name. A feature that a row lacks counts as zero, as River's linear models have it; one
that the first row did not have is left out, for a kernel's inputs cannot grow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from river import base

from ..errors import InputError
from ..regressor import StreamingGPRegressor


class GPRegressor(base.MiniBatchRegressor):
    """Gaussian process regression, tuned on the stream, with intervals that are calibrated on it.

    Parameters
    ----------
    kernel, method, rank, noise, tune, forgetting, guard, seed
        As StreamingGPRegressor's; `seed` is its random_state.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from streamgp.adapters.river import GPRegressor
    >>> model = preprocessing.StandardScaler() | GPRegressor(rank=100, seed=0)
    >>> stream = datasets.TrumpApproval().take(300)
    >>> error = evaluate.progressive_val_score(stream, model, metrics.MAE())
    >>> error.get() < 1.0
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        method: str = "pivoted",
        rank: int = 200,
        noise: float | str = "auto",
        tune: str = "doubling",
        forgetting: float = 1.0,
        guard: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.method = method
        self.rank = rank
        self.noise = noise
        self.tune = tune
        self.forgetting = forgetting
        self.guard = guard
        self.seed = seed
        self.gp = StreamingGPRegressor(
            kernel,
            method=method,  # type: ignore[arg-type]
            rank=rank,
            noise=noise,  # type: ignore[arg-type]
            tune=tune,  # type: ignore[arg-type]
            forgetting=forgetting,
            guard=guard,
            random_state=seed,
        )
        self.names: list[Any] = []

    def _unit_test_skips(self) -> set[str]:
        """Rows one by one and in a batch are tuned for and reviewed at other moments: close, not equal."""
        return {"check_learn_many_matches_learn_one"}

    def _row(self, x: dict[Any, Any]) -> np.ndarray:
        return _row(x, self.names)

    @property
    def _knows(self) -> bool:
        return bool(self.names) and self.gp.__sklearn_is_fitted__()

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        """Learn a row."""
        names = self.names or sorted(x, key=str)
        if names:
            self.gp.partial_fit(_row(x, names), _number([y]))
        self.names = names

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Predict a row; 0 while nothing was learned."""
        return float(self.gp.predict(self._row(x))[0]) if self._knows else 0.0

    def predict_interval_one(self, x: dict[Any, Any], probability: float = 0.9) -> tuple[float, float]:
        """Give the lower and upper end of the calibrated interval; infinite while nothing was learned."""
        if not self._knows:
            return -np.inf, np.inf
        _, lower, upper = self.gp.predict(self._row(x), return_interval=probability)
        return float(lower[0]), float(upper[0])

    def _rows(self, X: pd.DataFrame) -> np.ndarray:
        return _rows(X, self.names)

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a frame."""
        names = self.names or sorted(X.columns, key=str)
        if len(X) and names:
            self.gp.partial_fit(_rows(X, names), _number(y))
            self.names = names

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Predict the rows of a frame."""
        values = self.gp.predict(self._rows(X)) if self._knows and len(X) else np.zeros(len(X))
        return pd.Series(values, index=X.index, dtype="float64")


def _row(x: dict[Any, Any], names: list[Any]) -> np.ndarray:
    return _number([[x.get(name, 0.0) for name in names]])


def _rows(X: pd.DataFrame, names: list[Any]) -> np.ndarray:
    return np.ascontiguousarray(_number(X.reindex(columns=names, fill_value=0.0).to_numpy()))


def _number(values: Any) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{values!r:.100} is not a row of numbers; the model is unchanged") from error
