"""StreamingGPClassifier: Gaussian process classification batch by batch, with scikit-learn's contract."""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from . import checkpoint, latent
from ._arrays import one_blas_thread
from .checks import Batch, check_batch, check_rows, seed_of
from .errors import CheckpointError, InputError
from .latent import LatentLearner
from .latent.classes import columns_of, probabilities, with_class
from .latent.learner import Classes
from .latent.model import BERNOULLI
from .latent_answers import latent_moments
from .learned import CommonAttributes
from .locking import writing
from .parameters import Settings, check_parameters

ARGUMENTS = (
    "kernel", "rank", "max_rank", "tolerance", "tune", "initial_batches", "bounds", "forgetting", "memory_rows",
    "memory",
)  # fmt: skip


class StreamingGPClassifier(CommonAttributes, ClassifierMixin, BaseEstimator):
    """Gaussian process classification that learns batch by batch.

    A latent function with the logistic likelihood for two classes, and one against the rest for each of more. A batch
    is learned once, by expectation propagation over its rows given all before; a batch costs the same however many
    rows have passed.

    Parameters
    ----------
    kernel : kernel of streamgp.kernels or sklearn.gaussian_process.kernels, or str
        The prior covariance of the latent functions, in the units of X, without white noise. "auto", the name of a
        family, or "dictionary", as for StreamingGPRegressor.
    rank, max_rank, tolerance : int or "auto", int, float
        The most inducing points of a latent function; see StreamingGPRegressor.
    tune, initial_batches, bounds : str, int, (low, high)
        When the kernel is tuned, on a sample of 500 rows, and how far: "doubling", "initial", "continuous" or "none";
        see StreamingGPRegressor.
    forgetting, memory_rows : float or "auto", float or None
        What the past is multiplied by at each `partial_fit`, or the rows after which a row's weight is 1/e. "auto"
        forgets nothing.
    memory : {"bounded", "rows"}
        The rows that new inducing points learn from: the last 500, or all.
    random_state : int, RandomState or None
        Seeds every draw; an int makes runs repeat exactly.

    Attributes
    ----------
    classes_ : (k,)
        The classes, sorted.
    kernel_, n_features_in_, n_samples_seen_, rank_, pivots_, tuning_, tuning_seconds_
        As of StreamingGPRegressor; rank and pivots of the first latent function.
    learner_ : LatentLearner
        All that was learned, immutable.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamgp import StreamingGPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> gp = StreamingGPClassifier(random_state=0)
    >>> for i in range(50):
    ...     gp = gp.partial_fit(X[i::50], y[i::50], classes=[0, 1, 2])
    >>> gp.predict_proba(X[:2]).shape
    (2, 3)
    """

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        rank: int | Literal["auto"] = 300,
        max_rank: int = 1000,
        tolerance: float = 0.03,
        tune: Literal["doubling", "initial", "continuous", "none"] = "doubling",
        initial_batches: int = 10,
        bounds: tuple[float, float] = (1e-3, 1e3),
        forgetting: float | Literal["auto"] = "auto",
        memory_rows: float | None = None,
        memory: Literal["bounded", "rows"] = "bounded",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.rank = rank
        self.max_rank = max_rank
        self.tolerance = tolerance
        self.tune = tune
        self.initial_batches = initial_batches
        self.bounds = bounds
        self.forgetting = forgetting
        self.memory_rows = memory_rows
        self.memory = memory
        self.random_state = random_state

    # Learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything, then learn X (n, d) and the classes y (n,); weights (n,) as for `partial_fit`."""
        with writing(self):
            self._begin(X, y, None, sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch X (b, d) and its classes y (b,) after all that came before; b from 1 up.

        `classes` (k,): all that will come, given with the first batch, and no others are learned. Without it a class
        is added when it first comes: rows so far were not of it. A row of weight k, `sample_weight` (b,), is learned as
        k equal rows. Raises with the model unchanged.
        """
        with writing(self):
            learner = self._learner
            if learner is None:
                self._begin(X, y, classes, sample_weight)
                return self
            assert isinstance(learner, LatentLearner)
            learner = replace(learner, settings=self._settings(learner.settings.seed))
            labels = _labels(y)
            learner = _with_classes(learner, labels, classes)
            batch = self._batch(X, labels, learner, sample_weight)
            with one_blas_thread(batch.X):
                self._learner = learner.update(batch)
        return self

    def _begin(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        """Learn the first rows."""
        settings, labels = self._settings(seed_of(copy.deepcopy(self.random_state))), _labels(y)
        known = np.unique(labels if classes is None else classes)
        _check_among(labels, known)
        columns = columns_of(np.searchsorted(known, labels), known.size)
        name = type(self).__name__
        batch = check_batch(X, _shaped(columns), None, None, sample_weight, estimator=name)
        with one_blas_thread(batch.X):
            learner = latent.begin(settings, batch)
        seed_of(self.random_state)
        self._learner = replace(learner, classes=Classes.of(known, closed=classes is not None))

    def _batch(self, X: Any, labels: np.ndarray, learner: LatentLearner, sample_weight: Any) -> Batch:
        """Return a checked batch with a column of zeros and ones for each latent function."""
        known = _classes(learner)
        columns = columns_of(np.searchsorted(known, labels), known.size)
        name = type(self).__name__
        return check_batch(X, _shaped(columns), learner.columns, learner.like, sample_weight, estimator=name)

    def _settings(self, seed: int) -> Settings:
        """Return the checked arguments as those of a model of classes."""
        settings = Settings(**{name: getattr(self, name) for name in ARGUMENTS}, seed=seed)
        check_parameters(replace(settings, likelihood="poisson"))  # what has no meaning there has none here
        return replace(settings, likelihood=BERNOULLI)

    # Predicting

    @property
    def classes_(self) -> np.ndarray:
        """The classes, sorted; (k,)."""
        learner = self._learner
        if not isinstance(learner, LatentLearner):
            raise AttributeError("no class is known before the first rows are learned")
        return _classes(learner)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class at the rows of X (m, d); (m, k), columns in the order of `classes_`."""
        learner = self.learner_
        assert isinstance(learner, LatentLearner)
        X = check_rows(X, learner.columns, learner.like, type(self).__name__)
        with one_blas_thread(X):
            return probabilities(learner, *latent_moments(learner, X), _classes(learner).size)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class at the rows of X (m, d); (m,)."""
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])

    # Keeping

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that was learned to a file that `streamgp.load` reads; whole, or not at all."""
        learner = self.learner_
        mine = Settings(**{name: getattr(self, name) for name in ARGUMENTS}).saveable()
        arguments = {name: getattr(mine, name) for name in ARGUMENTS}
        kept = replace(learner, settings=learner.settings.saveable())
        checkpoint.write(path, {"classifier": kept, "arguments": arguments})


def classifier_from(path: str | os.PathLike[str], content: dict[str, Any]) -> StreamingGPClassifier:
    """Return the classifier that `save` wrote."""
    learner, arguments = content["classifier"], content.get("arguments")
    if not isinstance(learner, LatentLearner) or learner.classes is None or not isinstance(arguments, dict):
        raise CheckpointError(f"{path} does not hold a classifier")
    gp = StreamingGPClassifier(**arguments, random_state=learner.settings.seed)
    gp._learner = learner
    return gp


def _classes(learner: LatentLearner) -> np.ndarray:
    assert learner.classes is not None
    return learner.classes.values


def _with_classes(learner: LatentLearner, labels: np.ndarray, given: Any) -> LatentLearner:
    """Return the learner that knows the classes of new labels; raise InputError where these may not come."""
    known, classes = _classes(learner), learner.classes
    assert classes is not None
    if given is not None and not np.array_equal(np.unique(given), known):
        raise InputError(
            f"classes={np.unique(given).tolist()} differ from those so far, {known.tolist()}; give the same, or none"
        )
    if classes.closed:
        _check_among(labels, known)
    for name in np.setdiff1d(labels, known):
        place = int(np.searchsorted(known, name))
        learner = with_class(learner, place, known.size + 1)
        known = np.insert(known.astype(np.result_type(known, labels)), place, name)
    return replace(learner, classes=Classes.of(known, closed=classes.closed))


def _check_among(labels: np.ndarray, known: np.ndarray) -> None:
    unknown = np.setdiff1d(labels, known)
    if unknown.size:
        raise InputError(
            f"y has classes that are not among the `classes` of the first batch, {known.tolist()}: "
            f"{unknown.tolist()}; give all of them there, or none. The model is unchanged"
        )


def _labels(y: Any) -> np.ndarray:
    """Return classes (b,), checked as scikit-learn's classifiers do."""
    try:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
    except (TypeError, ValueError) as error:
        raise InputError(f"{error}\nThe model is unchanged; give one class for each row.") from error
    return np.asarray(labels)


def _shaped(columns: np.ndarray) -> np.ndarray:
    """Return columns of labels (n, q) as targets: (n,) where there is one."""
    return columns[:, 0] if columns.shape[1] == 1 else columns
