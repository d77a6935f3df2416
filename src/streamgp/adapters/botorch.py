"""StreamingGPRegressor as a BoTorch model: posteriors that are differentiable by the points, at a cost that stays flat.

The posterior is that of the Gaussian process, the member "gp" of the panel: acquisition functions ask for joint
distributions of several points, which the other members do not have. In double precision, on the CPU.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors import Posterior
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from linear_operator import to_linear_operator
from torch import Tensor

from .. import kernels as k
from .._arrays import to_host
from ..errors import ExportError
from ..kernels.trend import FARTHEST
from ..learner import Learner
from ..methods.frozen import Frozen, freeze
from ..regressor import StreamingGPRegressor

# A square root is differentiable from here on; distances below it are rounding.
LEAST_SQUARE = 1e-24


class StreamingGPModel(Model):
    """A BoTorch model that learns each batch of observations at the same cost, however many came before.

    Parameters
    ----------
    gp : StreamingGPRegressor
        Fitted, of method="pivoted" or "rgp", on NumPy arrays. It is copied, not changed.

    Examples
    --------
    >>> import torch
    >>> from streamgp import StreamingGPRegressor
    >>> from streamgp.adapters.botorch import StreamingGPModel
    >>> X = torch.rand(60, 2, dtype=torch.double)
    >>> gp = StreamingGPRegressor("matern52", members=("gp",), random_state=0).fit(X.numpy(), X.sum(1).numpy())
    >>> model = StreamingGPModel(gp).condition_on_observations(X[:5], X[:5].sum(1, keepdim=True))
    >>> model.posterior(X[:4]).mean.shape
    torch.Size([4, 1])
    """

    def __init__(self, gp: StreamingGPRegressor) -> None:
        super().__init__()
        self.gp = copy.copy(gp)
        learner = self.gp.learner_
        if not isinstance(learner, Learner) or learner.settings.mean_function is not None:
            raise ExportError(
                "a BoTorch model is made of a regressor of likelihood='gaussian' without mean_function"
            )
        self._parts = [_Part(part) for part in freeze(learner.state)]
        self._scale, self._offset = (
            _tensor(to_host(v)) for v in (learner.targets.scale, learner.targets.offset)
        )
        self._noise = _tensor(learner.state.noise)

    @property
    def num_outputs(self) -> int:
        """The number of outputs."""
        return int(self._scale.shape[0])

    @property
    def batch_shape(self) -> torch.Size:
        """Empty: one model."""
        return torch.Size()

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
        **_: Any,
    ) -> Posterior:
        """Return the joint posterior at the points X (…, n, d); O(n·r² + n²·r) for each batch."""
        if isinstance(observation_noise, Tensor):
            raise UnsupportedError("observation_noise must be True or False: the noise is the model's own")
        X = self.transform_inputs(X).double()
        wanted = range(self.num_outputs) if output_indices is None else output_indices
        each = []
        for j in wanted:
            part = next(part for part in self._parts if j in part.outputs)
            mean, covariance = part.predict(X, part.outputs.index(j))
            if observation_noise:
                covariance = covariance + self._noise[j] * torch.eye(X.shape[-2], dtype=torch.double)
            scale = self._scale[j]
            # Lazily, so that its factorisation may add jitter: points of a batch may be near each other.
            lazy = to_linear_operator(scale**2 * covariance)
            each.append(MultivariateNormal(scale * mean + self._offset[j], lazy))
        one = each[0] if len(each) == 1 else MultitaskMultivariateNormal.from_independent_mvns(each)
        posterior = GPyTorchPosterior(one)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **_: Any) -> StreamingGPModel:
        """Return the model that has also learned the rows X (n, d), Y (n, m); hyperparameters are tuned when due."""
        if X.dim() != 2 or Y.dim() != 2:
            raise UnsupportedError(
                f"X has shape {tuple(X.shape)}, Y {tuple(Y.shape)}; a streaming model learns one batch, X (n, d) and "
                "Y (n, m): use acquisition functions that need no fantasies, such as qLogExpectedImprovement"
            )
        gp, one = copy.copy(self.gp), self.gp.learner_.targets.one_dimensional
        y = Y.detach().numpy()
        gp.partial_fit(X.detach().numpy().astype(np.float64), y[:, 0] if one else y)
        return StreamingGPModel(gp)


class _Part:
    """Frozen as tensors."""

    def __init__(self, frozen: Frozen) -> None:
        self.trend, self.kernel, self.outputs = frozen.trend, frozen.kernel, list(frozen.outputs)
        self.groups = frozen.groups
        self.Z, self.weights = _tensor(frozen.Z), _tensor(frozen.weights)
        self.roots = [_tensor(R) for R in frozen.roots]
        for kernel in (frozen.trend, frozen.kernel):
            if kernel is not None:
                _way(kernel)  # raises for one that is not known

    def predict(self, X: Tensor, j: int) -> tuple[Tensor, Tensor]:
        """Return the mean (…, n) of one of these outputs and its covariance (…, n, n), for X (…, n, d)."""
        parts, prior = [], torch.zeros((), dtype=torch.double)
        if self.trend is not None:
            t = _trend_basis(self.trend, X)
            parts.append(t * _tensor(self.trend.coefficients))
            prior = parts[-1] @ t.mT
        if self.kernel is not None:
            parts.append(covariance(self.kernel, X, self.Z))
            prior = prior + covariance(self.kernel, X, X)
        u = torch.cat(parts, dim=-1)
        explained = u @ self.roots[self.groups[j]].T
        return u @ self.weights[:, j], prior - explained @ explained.mT


def covariance(kernel: k.Kernel, X: Tensor, Y: Tensor) -> Tensor:
    """Return k between the points X (…, n, d) and Y (…, m, d), differentiable by both; (…, n, m)."""
    return _way(kernel)(kernel, X, Y)


def _way(kernel: k.Kernel) -> Callable[..., Tensor]:
    if type(kernel) not in _WAYS:
        names = ", ".join(sorted(kind.__name__ for kind in _WAYS))
        raise ExportError(
            f"the kernel {type(kernel).__name__} has no derivatives in torch; those that have: {names}"
        )
    for part in [*getattr(kernel, "kernels", ()), *filter(None, [getattr(kernel, "kernel", None)])]:
        _way(part)
    return _WAYS[type(kernel)]


def _tensor(values: Any) -> Tensor:
    return torch.tensor(np.array(values, dtype=np.float64))


def _squared(scale: Any, X: Tensor, Y: Tensor) -> Tensor:
    """Return squared distances in length-scales, by differences: O(n m d) memory, exact for points that are near."""
    scale = _tensor(scale)
    return ((X.unsqueeze(-2) - Y.unsqueeze(-3)) / scale).square().sum(-1)


def _matern(kernel: k.Matern, X: Tensor, Y: Tensor) -> Tensor:
    r = math.sqrt(2 * kernel.nu) * _squared(kernel.length_scale, X, Y).clamp(min=LEAST_SQUARE).sqrt()
    polynomial = {0.5: torch.ones_like, 1.5: lambda r: 1 + r, 2.5: lambda r: 1 + r + r.square() / 3}[
        kernel.nu
    ](r)
    return polynomial * (-r).exp()


def _rational_quadratic(kernel: k.RationalQuadratic, X: Tensor, Y: Tensor) -> Tensor:
    s = _squared(kernel.length_scale, X, Y)
    return (-kernel.alpha * torch.log1p(s / (2 * kernel.alpha))).exp()


def _periodic(kernel: k.Periodic, X: Tensor, Y: Tensor) -> Tensor:
    angle = math.pi * (X.unsqueeze(-2) - Y.unsqueeze(-3)) / _tensor(kernel.period)
    return (-2 * (angle.sin() / _tensor(kernel.length_scale)).square().sum(-1)).exp()


def _linear(kernel: k.Linear, X: Tensor, Y: Tensor) -> Tensor:
    return (X / _tensor(kernel.length_scale).square()) @ Y.mT


def _trend_basis(trend: k.Trend, X: Tensor) -> Tensor:
    t = ((X - _tensor(trend.origin)) / _tensor(trend.unit)).clamp(-FARTHEST, FARTHEST)
    return torch.cat([torch.ones_like(t[..., :1]), t], dim=-1)


def _trend(kernel: k.Trend, X: Tensor, Y: Tensor) -> Tensor:
    return (_trend_basis(kernel, X) * _tensor(kernel.coefficients)) @ _trend_basis(kernel, Y).mT


def _full(value: float, X: Tensor, Y: Tensor) -> Tensor:
    return torch.full((*X.shape[:-1], Y.shape[-2]), value, dtype=torch.double)


def _weighted(kernel: k.WeightedSum, X: Tensor, Y: Tensor) -> Tensor:
    pairs = zip(kernel.weights, kernel.kernels, strict=True)
    return reduce(torch.add, [w * covariance(part, X, Y) for w, part in pairs if w])


_WAYS: dict[type, Callable[..., Tensor]] = {
    k.SquaredExponential: lambda kernel, X, Y: (-0.5 * _squared(kernel.length_scale, X, Y)).exp(),
    k.Matern: _matern,
    k.RationalQuadratic: _rational_quadratic,
    k.Periodic: _periodic,
    k.Linear: _linear,
    k.Trend: _trend,
    k.Constant: lambda kernel, X, Y: _full(kernel.value, X, Y),
    k.White: lambda kernel, X, Y: _full(0.0, X, Y),
    k.Scaled: lambda kernel, X, Y: kernel.factor * covariance(kernel.kernel, X, Y),
    k.Sum: lambda kernel, X, Y: reduce(torch.add, [covariance(part, X, Y) for part in kernel.kernels]),
    k.Product: lambda kernel, X, Y: reduce(torch.mul, [covariance(part, X, Y) for part in kernel.kernels]),
    k.WeightedSum: _weighted,
}
