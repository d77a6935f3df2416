"""The methods that are compared, streamgp's and other libraries', each with the best settings found for it.

All get the same standardised rows and, where they take them, the same hyperparameters: a squared exponential with a
length-scale for each feature, its variance and the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from experiments.common import Hyperparameters
from streamgp import StreamingGPRegressor

from .approximate import SEED, GPyTorchVariational, NystroemSGD, RandomFourier, RiverLinear
from .exact import Goppy, GPyTorchExact, ScikitLearn


class Peer(Protocol):
    """What the benchmark asks of a method."""

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn a batch X (n, d), y (n,)."""

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (n,) and standard deviation (n,) of new observations, noise included."""


class Ours:
    """A streamgp method with frozen hyperparameters, or with default settings where `given` is None."""

    def __init__(self, given: Hyperparameters | None, method: str, rank: int) -> None:
        arguments: dict[str, Any] = {"method": method, "rank": rank, "random_state": SEED}
        if given is not None:
            arguments |= {"kernel": given.kernel, "noise": given.noise, "tune": "none"}
        self.gp = StreamingGPRegressor(**arguments)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn a batch."""
        self.gp.partial_fit(X, y)

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation, noise included."""
        mean, std = self.gp.predict(X, return_std=True)
        return mean, std


class Entry(NamedTuple):
    """A method: how to make it, its settings in words, and why it can beat streamgp at something, where it does."""

    make: Callable[[Hyperparameters], Peer]
    settings: str
    why: str = ""
    # Whether it is faster with BLAS at one thread: those of NumPy's and SciPy's copies spin against each other.
    one_thread: bool = False


_EXACT = "exact: it keeps every row"
_FROZEN = "streamgp, hyperparameters frozen"

PEERS: dict[str, Entry] = {
    "pivoted 100": Entry(lambda g: Ours(g, "pivoted", 100), _FROZEN),
    "pivoted 200": Entry(lambda g: Ours(g, "pivoted", 200), _FROZEN),
    "pivoted 500": Entry(lambda g: Ours(g, "pivoted", 500), _FROZEN),
    "pivoted 1000": Entry(lambda g: Ours(g, "pivoted", 1000), _FROZEN),
    "streamgp, nothing set": Entry(
        lambda g: Ours(None, "pivoted", 500), "default settings: rank 500, tunes itself on the stream"
    ),
    "exact (nrmf)": Entry(lambda g: Ours(g, "nrmf", 500), "streamgp's exact GP, hyperparameters frozen"),
    "Huber's RGP 200": Entry(
        lambda g: Ours(g, "rgp", 200),
        "streamgp's rgp, hyperparameters frozen, basis drawn from the first rows",
        "a fixed basis needs no exchange of pivots",
    ),
    "GPyTorch, set_train_data": Entry(lambda g: GPyTorchExact(g, fantasy=False), "float64, Cholesky", _EXACT),
    "GPyTorch, get_fantasy_model": Entry(
        lambda g: GPyTorchExact(g, fantasy=True), "float64, Cholesky, fast_pred_var", _EXACT
    ),
    "GPyTorch, variational 200": Entry(
        GPyTorchVariational,
        "50 steps of Adam a batch, each on 256 of all rows so far, lr 0.03 (best of 5 tried); learns hyperparameters "
        "and inducing points",
        "it learns its hyperparameters, ours are frozen",
    ),
    "scikit-learn, refitted": Entry(
        ScikitLearn,
        "optimizer=None; each fit makes two Cholesky factors, one of them for the log marginal likelihood",
        _EXACT,
    ),
    "goppy": Entry(Goppy, "rows divided by the length-scales", _EXACT),
    "random Fourier 500": Entry(
        lambda g: RandomFourier(g, 500),
        "RBFSampler and normal equations; BLAS at one thread, which is faster",
        "its features cost one cosine each, and no exchange of pivots",
        one_thread=True,
    ),
    "random Fourier 2000": Entry(
        lambda g: RandomFourier(g, 2000),
        "RBFSampler and normal equations; BLAS at one thread, which is faster",
        "its features cost one cosine each, and no exchange of pivots",
        one_thread=True,
    ),
    "Nystroem 500 + SGD": Entry(
        NystroemSGD,
        "invscaling from eta0 1 (best of 16 schedules tried); ten passes a batch; standard deviation of its recent "
        "errors",
        "SGD forgets older rows, which streamgp was not set to do; one standard deviation for all rows",
    ),
    "river, Bayesian linear": Entry(
        RiverLinear,
        "alpha 1, beta from the residual variance of the first rows, no smoothing, one row at a time",
        "a linear model of d features costs O(d²) a row",
    ),
}
