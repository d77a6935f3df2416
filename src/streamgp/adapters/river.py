"""Regression and classification with the interface of River: one dictionary, or one data frame, at a time.

Features are matched by name. A feature that a row lacks is filled in by what the others say, and counts as zero for
classes; one that the first row did not have is ignored, since the number of inputs of a kernel is fixed. Classes are
added as they come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from river import base

from ..classifier import StreamingGPClassifier
from ..errors import InputError
from ..parameters import used_by
from ..regressor import StreamingGPRegressor


class GPRegressor(base.MiniBatchRegressor):
    """Gaussian process regression with hyperparameters and intervals that are tuned on the stream.

    Parameters
    ----------
    kernel, method, likelihood, rank, noise, tune, forgetting, memory_rows, guard, seed
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
        likelihood: str = "gaussian",
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
        self.likelihood = likelihood
        self.rank = rank
        self.noise = noise
        self.tune = tune
        self.forgetting = forgetting
        self.memory_rows = memory_rows
        self.guard = guard
        self.seed = seed
        given: dict[str, Any] = {
            "likelihood": likelihood,
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


class GPClassifier(base.MiniBatchClassifier):
    """Gaussian process classification with hyperparameters that are tuned on the stream.

    Parameters
    ----------
    kernel, rank, tune, forgetting, memory_rows, seed
        As in StreamingGPClassifier; `seed` is its random_state.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from streamgp.adapters.river import GPClassifier
    >>> model = preprocessing.StandardScaler() | GPClassifier(rank=50, seed=0)
    >>> stream = datasets.Phishing().take(300)
    >>> evaluate.progressive_val_score(stream, model, metrics.Accuracy()).get() > 0.8
    True
    """

    def __init__(
        self,
        kernel: Any = "auto",
        rank: int = 200,
        tune: str = "doubling",
        forgetting: float | str = "auto",
        memory_rows: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.rank = rank
        self.tune = tune
        self.forgetting = forgetting
        self.memory_rows = memory_rows
        self.seed = seed
        given: dict[str, Any] = {"tune": tune, "forgetting": forgetting, "memory_rows": memory_rows}
        self.gp = StreamingGPClassifier(kernel, rank=rank, random_state=seed, **given)
        self.names: list[Any] = []

    @property
    def _multiclass(self) -> bool:
        return True

    def _unit_test_skips(self) -> set[str]:
        """Return the check that does not apply; see GPRegressor."""
        return {"check_learn_many_matches_learn_one"}

    @property
    def _is_fitted(self) -> bool:
        return bool(self.names) and self.gp.__sklearn_is_fitted__()

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn one row."""
        names = self.names or sorted(x, key=str)
        if names:
            self.gp.partial_fit(_filled(_row(x, names)), [y])
        self.names = names

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each class so far; none before the first row is learned."""
        if not self._is_fitted:
            return {}
        shares = self.gp.predict_proba(_filled(_row(x, self.names)))[0]
        return dict(zip(self.gp.classes_.tolist(), shares.tolist(), strict=True))

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a data frame."""
        names = self.names or sorted(X.columns, key=str)
        if len(X) and names:
            self.gp.partial_fit(_filled(_rows(X, names)), y.to_numpy())
            self.names = names

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the probabilities of the rows of a data frame; no column before the first row is learned."""
        if not self._is_fitted or not len(X):
            return pd.DataFrame(index=X.index)
        shares = self.gp.predict_proba(_filled(_rows(X, self.names)))
        return pd.DataFrame(shares, index=X.index, columns=self.gp.classes_)


def _row(x: dict[Any, Any], names: list[Any]) -> np.ndarray:
    """Return the named features as a matrix (1, d)."""
    return _numbers([[x.get(name, np.nan) for name in names]])


def _rows(X: pd.DataFrame, names: list[Any]) -> np.ndarray:
    """Return the named columns as a matrix (n, d)."""
    return np.ascontiguousarray(_numbers(X.reindex(columns=names).to_numpy()))


def _filled(rows: np.ndarray) -> np.ndarray:
    """Return rows whose missing features are zero."""
    return np.where(np.isnan(rows), 0.0, rows)


def _numbers(values: Any) -> np.ndarray:
    """Return values in float64; raise InputError if one is not a number."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{values!r:.100} is not numeric; pass numbers only. The model is unchanged"
        ) from error
