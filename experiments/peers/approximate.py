"""Approximate models of other libraries: a variational GP, random Fourier and Nyström features, a linear model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg

from experiments.common import Hyperparameters

SEED = 0


class GPyTorchVariational:
    """GPyTorch's variational GP: 200 inducing points, 50 steps of Adam a batch, each on 256 of all rows so far."""

    POINTS, STEPS, ROWS = 200, 50, 256

    def __init__(self, given: Hyperparameters) -> None:
        import gpytorch
        import torch

        self.torch, self.gpytorch, self.given = torch, gpytorch, given
        self.rows: list[Any] = []
        self.targets: list[Any] = []
        self.model: Any = None
        torch.manual_seed(SEED)

    def _start(self, X: Any) -> None:
        """Create the model, its inducing points drawn from the first rows."""
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
        self.model.covar_module.base_kernel.lengthscale = torch.as_tensor(given.length_scales)
        self.likelihood.noise = max(given.noise, 1.1e-4)
        parameters = [*self.model.parameters(), *self.likelihood.parameters()]
        self.optimiser = torch.optim.Adam(parameters, lr=0.03)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Take 50 steps of Adam, 300 for the first batch."""
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
        """Return mean and standard deviation, noise included."""
        with self.torch.no_grad():
            out = self.likelihood(self.model(self.torch.as_tensor(X)))
            return out.mean.numpy(), out.variance.sqrt().numpy()


class RiverLinear:
    """River's BayesianLinearRegression, one row at a time; its noise is the residual variance of the first rows."""

    def __init__(self, given: Hyperparameters) -> None:
        del given  # the GP's noise is far below the residual variance of a linear model
        self.model: Any = None

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn the batch row by row."""
        if self.model is None:
            from river import linear_model

            left = y - X @ np.linalg.lstsq(X, y)[0]
            self.model = linear_model.BayesianLinearRegression(alpha=1.0, beta=len(y) / float(left @ left))
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), target)

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation, noise included."""
        found = [self.model.predict_one(dict(enumerate(row)), with_dist=True) for row in X.tolist()]
        return np.array([d.mu for d in found]), np.array([max(d.sigma, 1e-12) for d in found])


class RandomFourier:
    """scikit-learn's RBFSampler, and Bayesian linear regression on its features by normal equations."""

    def __init__(self, given: Hyperparameters, features: int = 500) -> None:
        from sklearn.kernel_approximation import RBFSampler

        self.given, self.features = given, features
        # Rows are divided by the length-scales, so k = exp(−‖x − x'‖²/2) and gamma is 1/2.
        self.sampler = RBFSampler(gamma=0.5, n_components=features, random_state=SEED)
        self.A = given.noise * np.eye(features)
        self.c = np.zeros(features)
        self.last: tuple[Any, Any] = (None, None)

    def _map(self, X: np.ndarray) -> Any:
        """Return the features (n, r); those of the rows predicted last are kept, since they are learned next."""
        if self.last[0] is None:
            self.sampler.fit(X)  # reads only the number of columns
        if self.last[0] is not X:
            scaled = self.sampler.transform(X / self.given.length_scales)
            self.last = X, math.sqrt(self.given.variance) * np.asarray(scaled)
        return self.last[1]

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Add the batch to the normal equations."""
        F = self._map(X)
        self.A += F.T @ F
        self.c += F.T @ y

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation, noise included."""
        F = self._map(X)
        factor = scipy.linalg.cho_factor(self.A, lower=True)
        weights = scipy.linalg.cho_solve(factor, self.c)
        half = scipy.linalg.solve_triangular(factor[0], F.T, lower=True)
        return F @ weights, np.sqrt(self.given.noise * (1.0 + (half**2).sum(axis=0)))


class NystroemSGD:
    """scikit-learn's Nystroem on the first rows, then SGDRegressor; one standard deviation, that of recent errors."""

    def __init__(self, given: Hyperparameters, features: int = 500) -> None:
        from sklearn.kernel_approximation import Nystroem
        from sklearn.linear_model import SGDRegressor

        self.given = given
        self.map = Nystroem(gamma=0.5, n_components=features, random_state=SEED)
        self.model = SGDRegressor(alpha=1e-6, learning_rate="invscaling", eta0=1.0, random_state=SEED)
        self.begun = False
        self.square, self.weight = 0.0, 0.0
        self.last: tuple[Any, Any] = (None, None)

    def _map(self, X: np.ndarray) -> Any:
        """Return the features (n, r); those of the rows predicted last are kept, since they are learned next."""
        if self.last[0] is not X:
            self.last = X, self.map.transform(X / self.given.length_scales)
        return self.last[1]

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Take ten passes of SGD over the batch."""
        if not self.begun:
            self.map.fit(X / self.given.length_scales)
            self.begun = True
        else:
            error = y - self.model.predict(self._map(X))
            self.square, self.weight = 0.9 * self.square + float(error @ error), 0.9 * self.weight + len(y)
        for _ in range(10):
            self.model.partial_fit(self._map(X), y)

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean, and one standard deviation for all rows."""
        mean = self.model.predict(self._map(X))
        spread = math.sqrt(self.square / self.weight) if self.weight else 1.0
        return mean, np.full(len(X), spread)
