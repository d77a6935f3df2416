"""Other libraries' ways to follow a stream, each with its own honest best settings, behind two methods.

All get the same standardised rows and, where they take them, the same hyperparameters: a squared exponential with a
length-scale for each feature, its variance and the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamgp.regressor import StreamingGPRegressor


@dataclass(frozen=True)
class Given:
    """Hyperparameters that are the same for all: variance, a length-scale for each feature, noise; and a seed."""

    variance: float
    lengths: np.ndarray
    noise: float
    seed: int = 0


class Peer(Protocol):
    """What the protocol asks of a method."""

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn a batch."""

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give mean and standard deviation of new observations."""


class Ours:
    """streamgp, hyperparameters frozen or, for `given` None, nothing set at all."""

    def __init__(self, given: Given | None, method: str, rank: int, seed: int) -> None:
        from streamgp.kernels import SquaredExponential

        arguments: dict[str, Any] = {"method": method, "rank": rank, "random_state": seed}
        if given is not None:
            kernel = given.variance * SquaredExponential(given.lengths)
            arguments |= {"kernel": kernel, "noise": given.noise, "tune": "none"}
        self.gp = StreamingGPRegressor(**arguments)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn a batch."""
        self.gp.partial_fit(X, y)

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give mean and deviation."""
        mean, std = self.gp.predict(X, return_std=True)
        return mean, std


class ScikitLearn:
    """GaussianProcessRegressor, fitted anew to all rows at each batch; hyperparameters fixed."""

    def __init__(self, given: Given) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel

        kernel = ConstantKernel(given.variance) * RBF(given.lengths)
        self.gp = GaussianProcessRegressor(kernel, alpha=given.noise, optimizer=None)
        self.noise = given.noise
        self.rows: list[np.ndarray] = []
        self.targets: list[np.ndarray] = []

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Refit."""
        self.rows.append(X)
        self.targets.append(y)
        self.gp.fit(np.concatenate(self.rows), np.concatenate(self.targets))

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give mean and deviation, noise added."""
        mean, std = self.gp.predict(X, return_std=True)
        return mean, np.sqrt(std**2 + self.noise)


class Goppy:
    """goppy's OnlineGP: a growing inverse Cholesky factor, exact."""

    def __init__(self, given: Given) -> None:
        from goppy import OnlineGP, SquaredExponentialKernel

        # Its kernel has one length-scale: rows are scaled instead.
        self.lengths = given.lengths
        self.gp = OnlineGP(SquaredExponentialKernel(np.array([1.0]), given.variance), noise_var=given.noise)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Add rows."""
        self.gp.add(X / self.lengths, y[:, None])

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give mean and deviation; its variance has the noise in it."""
        out = self.gp.predict(X / self.lengths, what=("mean", "mse"))
        return out["mean"][:, 0], np.sqrt(np.maximum(out["mse"], 1e-12))


class GPyTorchExact:
    """GPyTorch's ExactGP in float64: `set_train_data` with all rows, or `get_fantasy_model` with the new ones."""

    def __init__(self, given: Given, *, fantasy: bool) -> None:
        import gpytorch
        import torch

        self.torch, self.gpytorch, self.given, self.fantasy = torch, gpytorch, given, fantasy
        self.model: Any = None
        self.X = self.y = None

    def _made(self, X: Any, y: Any) -> Any:
        gpytorch, torch, given = self.gpytorch, self.torch, self.given

        class Exact(gpytorch.models.ExactGP):  # type: ignore[misc,name-defined]
            def __init__(self, X: Any, y: Any, likelihood: Any) -> None:
                super().__init__(X, y, likelihood)
                self.mean_module = gpytorch.means.ZeroMean()
                base = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
                self.covar_module = gpytorch.kernels.ScaleKernel(base)

            def forward(self, x: Any) -> Any:
                return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

        likelihood = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.GreaterThan(1e-9)
        )
        model = Exact(X, y, likelihood).double()
        model.covar_module.outputscale = given.variance
        model.covar_module.base_kernel.lengthscale = torch.as_tensor(given.lengths)
        likelihood.noise = given.noise
        return model.eval()

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn a batch."""
        torch = self.torch
        rows, targets = torch.as_tensor(X), torch.as_tensor(y)
        if self.model is None:
            self.X, self.y = rows, targets
            self.model = self._made(rows, targets)
        elif self.fantasy:
            with torch.no_grad(), self._exactly():
                self.model = self.model.get_fantasy_model(rows, targets)
        else:
            self.X, self.y = torch.cat([self.X, rows]), torch.cat([self.y, targets])
            self.model.set_train_data(self.X, self.y, strict=False)

    def _exactly(self) -> Any:
        """Choose Cholesky factors, as its documents say for exact answers at this size."""
        from contextlib import ExitStack

        stack = ExitStack()
        stack.enter_context(self.gpytorch.settings.fast_computations(False, False, False))
        stack.enter_context(self.gpytorch.settings.max_cholesky_size(100_000))
        if self.fantasy:
            stack.enter_context(self.gpytorch.settings.fast_pred_var())
        return stack

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give mean and deviation."""
        torch = self.torch
        with torch.no_grad(), self._exactly():
            out = self.model.likelihood(self.model(torch.as_tensor(X)))
            return out.mean.numpy(), out.variance.clamp_min(1e-12).sqrt().numpy()


class GPyTorchVariational:
    """GPyTorch's variational sparse GP: 200 inducing points, fifty steps of Adam a batch on rows of all so far."""

    POINTS, STEPS, ROWS = 200, 50, 256

    def __init__(self, given: Given) -> None:
        import gpytorch
        import torch

        self.torch, self.gpytorch, self.given = torch, gpytorch, given
        self.rows: list[Any] = []
        self.targets: list[Any] = []
        self.model: Any = None
        torch.manual_seed(given.seed)

    def _start(self, X: Any) -> None:
        gpytorch, torch, given = self.gpytorch, self.torch, self.given
        chosen = X[torch.randperm(X.shape[0])[: self.POINTS]]

        class Sparse(gpytorch.models.ApproximateGP):  # type: ignore[misc,name-defined]
            def __init__(self, Z: Any) -> None:
                distribution = gpytorch.variational.CholeskyVariationalDistribution(Z.shape[0])
                super().__init__(
                    gpytorch.variational.VariationalStrategy(
                        self, Z, distribution, learn_inducing_locations=True
                    )
                )
                self.mean_module = gpytorch.means.ZeroMean()
                self.covar_module = gpytorch.kernels.ScaleKernel(
                    gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1])
                )

            def forward(self, x: Any) -> Any:
                return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

        self.model = Sparse(chosen).double()
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        self.model.covar_module.outputscale = given.variance
        self.model.covar_module.base_kernel.lengthscale = torch.as_tensor(given.lengths)
        self.likelihood.noise = max(given.noise, 1.1e-4)
        parameters = [*self.model.parameters(), *self.likelihood.parameters()]
        self.optimiser = torch.optim.Adam(parameters, lr=0.03)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Take some steps."""
        torch, gpytorch = self.torch, self.gpytorch
        self.rows.append(torch.as_tensor(X))
        self.targets.append(torch.as_tensor(y))
        rows, targets = torch.cat(self.rows), torch.cat(self.targets)
        if self.model is None:
            self._start(rows)
        self.model.train()
        self.likelihood.train()
        objective = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data=rows.shape[0])
        steps = self.STEPS if rows.shape[0] > X.shape[0] else 300
        for _ in range(steps):
            at = torch.randint(rows.shape[0], (min(self.ROWS, rows.shape[0]),))
            self.optimiser.zero_grad()
            loss = -objective(self.model(rows[at]), targets[at])
            loss.backward()
            self.optimiser.step()
        self.model.eval()
        self.likelihood.eval()

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give mean and deviation."""
        with self.torch.no_grad():
            out = self.likelihood(self.model(self.torch.as_tensor(X)))
            return out.mean.numpy(), out.variance.sqrt().numpy()


class RiverLinear:
    """River's BayesianLinearRegression, one row at a time; its noise is what a line leaves of the first rows."""

    def __init__(self, given: Given) -> None:
        del given  # the GP's noise would make a line far too sure
        self.model: Any = None

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn row by row."""
        if self.model is None:
            from river import linear_model

            left = y - X @ np.linalg.lstsq(X, y)[0]
            self.model = linear_model.BayesianLinearRegression(alpha=1.0, beta=len(y) / float(left @ left))
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), target)

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give mean and deviation."""
        found = [self.model.predict_one(dict(enumerate(row)), with_dist=True) for row in X.tolist()]
        return np.array([d.mu for d in found]), np.array([max(d.sigma, 1e-12) for d in found])


class RandomFourier:
    """scikit-learn's RBFSampler and Bayesian linear regression on its features, by normal equations."""

    def __init__(self, given: Given, features: int = 500) -> None:
        from sklearn.kernel_approximation import RBFSampler

        self.given, self.features = given, features
        # Rows are scaled by their length-scales: k = exp(−‖x − x'‖²/2), gamma 1/2.
        self.sampler = RBFSampler(gamma=0.5, n_components=features, random_state=given.seed)
        self.A = given.noise * np.eye(features)
        self.c = np.zeros(features)
        self.last: tuple[Any, Any] = (None, None)

    def _map(self, X: np.ndarray) -> Any:
        """Give the features, which are not computed again for the rows that were just predicted."""
        if self.last[0] is None:
            self.sampler.fit(X)  # looks at the number of features only
        if self.last[0] is not X:
            scaled = self.sampler.transform(X / self.given.lengths)
            self.last = X, math.sqrt(self.given.variance) * np.asarray(scaled)
        return self.last[1]

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Add to the normal equations."""
        F = self._map(X)
        self.A += F.T @ F
        self.c += F.T @ y

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give mean and deviation."""
        import scipy.linalg

        F = self._map(X)
        factor = scipy.linalg.cho_factor(self.A, lower=True)
        weights = scipy.linalg.cho_solve(factor, self.c)
        half = scipy.linalg.solve_triangular(factor[0], F.T, lower=True)
        return F @ weights, np.sqrt(self.given.noise * (1.0 + (half**2).sum(axis=0)))


class NystroemSGD:
    """scikit-learn's Nystroem, fitted to the first rows, and SGDRegressor; the deviation is that of its last errors."""

    def __init__(self, given: Given, features: int = 500) -> None:
        from sklearn.kernel_approximation import Nystroem
        from sklearn.linear_model import SGDRegressor

        self.given = given
        self.map = Nystroem(gamma=0.5, n_components=features, random_state=given.seed)
        self.model = SGDRegressor(alpha=1e-6, learning_rate="invscaling", eta0=1.0, random_state=given.seed)
        self.begun = False
        self.square, self.weight = 0.0, 0.0
        self.last: tuple[Any, Any] = (None, None)

    def _map(self, X: np.ndarray) -> Any:
        """Give the features, which are not computed again for the rows that were just predicted."""
        if self.last[0] is not X:
            self.last = X, self.map.transform(X / self.given.lengths)
        return self.last[1]

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Take ten passes over the batch."""
        if not self.begun:
            self.map.fit(X / self.given.lengths)
            self.begun = True
        else:
            error = y - self.model.predict(self._map(X))
            self.square, self.weight = 0.9 * self.square + float(error @ error), 0.9 * self.weight + len(y)
        for _ in range(10):
            self.model.partial_fit(self._map(X), y)

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the mean and one deviation for all."""
        mean = self.model.predict(self._map(X))
        spread = math.sqrt(self.square / self.weight) if self.weight else 1.0
        return mean, np.full(len(X), spread)


class Entry(NamedTuple):
    """A peer, its settings in words, and why it can be better than ours at something, where it is."""

    make: Callable[[Given], Peer]
    settings: str
    why: str = ""
    # For BLAS, where that is faster: the threads of NumPy's and SciPy's copies spin against each other.
    one_thread: bool = False


_EXACT = "exact: it keeps every row"
_FROZEN = "streamgp, hyperparameters frozen"

PEERS: dict[str, Entry] = {
    "pivoted 100": Entry(lambda g: Ours(g, "pivoted", 100, g.seed), _FROZEN),
    "pivoted 200": Entry(lambda g: Ours(g, "pivoted", 200, g.seed), _FROZEN),
    "pivoted 500": Entry(lambda g: Ours(g, "pivoted", 500, g.seed), _FROZEN),
    "pivoted 1000": Entry(lambda g: Ours(g, "pivoted", 1000, g.seed), _FROZEN),
    "streamgp, nothing set": Entry(
        lambda g: Ours(None, "pivoted", 500, g.seed), "tunes itself on the stream, rank 500"
    ),
    "exact (nrmf)": Entry(
        lambda g: Ours(g, "nrmf", 500, g.seed), "streamgp's exact GP, hyperparameters frozen"
    ),
    "Huber's RGP 200": Entry(
        lambda g: Ours(g, "rgp", 200, g.seed),
        "streamgp's, hyperparameters frozen, basis drawn from the first rows",
        "a basis that never changes costs no reviews",
    ),
    "GPyTorch, set_train_data": Entry(lambda g: GPyTorchExact(g, fantasy=False), "float64, Cholesky", _EXACT),
    "GPyTorch, get_fantasy_model": Entry(
        lambda g: GPyTorchExact(g, fantasy=True), "float64, Cholesky, fast_pred_var", _EXACT
    ),
    "GPyTorch, variational 200": Entry(
        GPyTorchVariational,
        "50 steps of Adam a batch on 256 rows of all so far, lr 0.03, the best of 5 tried; learns hyperparameters "
        "and points",
        "it learns its hyperparameters, ours are frozen",
    ),
    "scikit-learn, refitted": Entry(
        ScikitLearn, "optimizer=None: a fit makes two Cholesky factors, one of them for its evidence", _EXACT
    ),
    "goppy": Entry(Goppy, "rows scaled by their length-scales", _EXACT),
    "random Fourier 500": Entry(
        lambda g: RandomFourier(g, 500),
        "RBFSampler and normal equations; BLAS at one thread, which is faster",
        "its features cost a cosine, and no reviews",
        one_thread=True,
    ),
    "random Fourier 2000": Entry(
        lambda g: RandomFourier(g, 2000),
        "RBFSampler and normal equations; BLAS at one thread, which is faster",
        "its features cost a cosine, and no reviews",
        one_thread=True,
    ),
    "Nystroem 500 + SGD": Entry(
        NystroemSGD,
        "invscaling from eta0 1, the best of 16 schedules tried; ten passes a batch; deviation of its last errors",
        "its steps forget older rows, ours were not asked to; and it has one deviation for all",
    ),
    "river, Bayesian linear": Entry(
        RiverLinear,
        "alpha 1, beta from what a line leaves of the first rows, no smoothing, one row at a time",
        "a linear model of d features costs O(d²) a row",
    ),
}
