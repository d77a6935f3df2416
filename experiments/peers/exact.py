"""Exact Gaussian processes of other libraries, which keep every row: scikit-learn, goppy, GPyTorch."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np

from experiments.common import Hyperparameters


class ScikitLearn:
    """scikit-learn's GaussianProcessRegressor, refitted to all rows at each batch; hyperparameters fixed."""

    def __init__(self, given: Hyperparameters) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel

        kernel = ConstantKernel(given.variance) * RBF(given.length_scales)
        self.gp = GaussianProcessRegressor(kernel, alpha=given.noise, optimizer=None)
        self.noise = given.noise
        self.rows: list[np.ndarray] = []
        self.targets: list[np.ndarray] = []

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Refit to all rows so far."""
        self.rows.append(X)
        self.targets.append(y)
        self.gp.fit(np.concatenate(self.rows), np.concatenate(self.targets))

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation, noise added."""
        mean, std = self.gp.predict(X, return_std=True)
        return mean, np.sqrt(std**2 + self.noise)


class Goppy:
    """goppy's OnlineGP, which extends an inverse Cholesky factor by each batch."""

    def __init__(self, given: Hyperparameters) -> None:
        from goppy import OnlineGP, SquaredExponentialKernel

        # Its kernel has a single length-scale, so the rows are scaled instead.
        self.lengths = given.length_scales
        self.gp = OnlineGP(SquaredExponentialKernel(np.array([1.0]), given.variance), noise_var=given.noise)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Append the rows to the factor."""
        self.gp.add(X / self.lengths, y[:, None])

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation; goppy's variance includes the noise."""
        out = self.gp.predict(X / self.lengths, what=("mean", "mse"))
        return out["mean"][:, 0], np.sqrt(np.maximum(out["mse"], 1e-12))


class GPyTorchExact:
    """GPyTorch's ExactGP in float64: `set_train_data` with all rows, or `get_fantasy_model` with the new ones."""

    def __init__(self, given: Hyperparameters, *, fantasy: bool) -> None:
        import gpytorch
        import torch

        self.torch, self.gpytorch, self.given, self.fantasy = torch, gpytorch, given, fantasy
        self.model: Any = None
        self.X = self.y = None

    def _new_model(self, X: Any, y: Any) -> Any:
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
        model.covar_module.base_kernel.lengthscale = torch.as_tensor(given.length_scales)
        likelihood.noise = given.noise
        return model.eval()

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Condition on the batch, or replace the training data by all rows so far."""
        torch = self.torch
        rows, targets = torch.as_tensor(X), torch.as_tensor(y)
        if self.model is None:
            self.X, self.y = rows, targets
            self.model = self._new_model(rows, targets)
        elif self.fantasy:
            with torch.no_grad(), self._exact_settings():
                self.model = self.model.get_fantasy_model(rows, targets)
        else:
            self.X, self.y = torch.cat([self.X, rows]), torch.cat([self.y, targets])
            self.model.set_train_data(self.X, self.y, strict=False)

    def _exact_settings(self) -> Any:
        """Return GPyTorch's settings for exact answers at this size: Cholesky factors, no iterative solver."""
        stack = ExitStack()
        stack.enter_context(self.gpytorch.settings.fast_computations(False, False, False))
        stack.enter_context(self.gpytorch.settings.max_cholesky_size(100_000))
        if self.fantasy:
            stack.enter_context(self.gpytorch.settings.fast_pred_var())
        return stack

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation, noise included."""
        torch = self.torch
        with torch.no_grad(), self._exact_settings():
            out = self.model.likelihood(self.model(torch.as_tensor(X)))
            return out.mean.numpy(), out.variance.clamp_min(1e-12).sqrt().numpy()
