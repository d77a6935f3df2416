"""The BoTorch model: posteriors as `predict` has them, differentiable, and learning batch by batch."""

from dataclasses import dataclass

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import ExportError

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("botorch", reason="botorch is not installed")

from botorch.acquisition import qLogExpectedImprovement  # noqa: E402
from botorch.exceptions.errors import UnsupportedError  # noqa: E402
from botorch.optim import optimize_acqf  # noqa: E402

from streamgp.adapters.botorch import StreamingGPModel  # noqa: E402

TREND = kernels.Trend(origin=(0.1, -0.2, 0.3), unit=(1.0, 2.0, 0.5))
KERNELS = [
    2.0 * kernels.SquaredExponential((1.0, 2.0, 0.7)) + TREND,
    kernels.Matern((1.0, 2.0, 0.7), nu=0.5),
    kernels.Matern(1.5, nu=1.5) + kernels.White(0.1),
    kernels.Matern(1.5) + kernels.Constant(0.3),
    kernels.RationalQuadratic(1.2, 0.6),
    kernels.Periodic((4.0, 5.0, 6.0), 7.0),
    kernels.Linear((1.0, 2.0, 0.7)) * kernels.SquaredExponential(2.0),
    kernels.dictionary(2.0, n=3),
]


@dataclass(frozen=True)
class Unknown(kernels.SquaredExponential):
    """A kernel that the library does not know."""


def model_of(kernel, q=None, **arguments):
    X, y = wave(150, q=q)
    arguments = {"rank": 30, "tune": "none", "members": ("gp",), "random_state": 0} | arguments
    gp = StreamingGPRegressor(kernel, **arguments)
    for start in range(0, 150, 50):
        gp.partial_fit(X[start : start + 50], 5.0 + 3.0 * y[start : start + 50])
    return gp, StreamingGPModel(gp)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_posterior_is_that_of_predict(kernel):
    gp, model = model_of(kernel)
    X = torch.tensor(wave(12, seed=1)[0]).reshape(3, 4, 3)
    for noise in (False, True):
        posterior = model.posterior(X, observation_noise=noise)
        for i in range(3):
            mean, covariance = gp.predict(X[i].numpy(), return_cov=True, latent=not noise, calibrated=False)
            # Rounding of the products of features, in units of the prior.
            np.testing.assert_allclose(posterior.mean[i, :, 0], mean, atol=1e-8 * gp.y_scale_[0])
            found = posterior.distribution.covariance_matrix[i]
            np.testing.assert_allclose(found, covariance, atol=1e-7 * gp.y_scale_[0] ** 2)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_mean_and_variance_have_the_derivatives_of_their_values(kernel):
    _, model = model_of(kernel)
    X = torch.tensor(wave(2, seed=1)[0], requires_grad=True)

    def answers(X):
        posterior = model.posterior(X)
        return posterior.mean, posterior.distribution.covariance_matrix

    assert torch.autograd.gradcheck(answers, (X,), fast_mode=True)


def test_several_outputs_have_posteriors_of_their_own():
    gp, model = model_of("matern52", q=3, tune="doubling")
    X = wave(5, seed=1)[0]
    posterior = model.posterior(torch.tensor(X), observation_noise=True)
    mean, std = gp.predict(X, return_std=True, calibrated=False)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-7)
    np.testing.assert_allclose(posterior.variance, std**2, atol=1e-7)
    one = model.posterior(torch.tensor(X), output_indices=[2])
    np.testing.assert_allclose(one.mean[:, 0], mean[:, 2], atol=1e-7)
    assert model.num_outputs == 3


@pytest.mark.parametrize("q", [None, 2])
def test_conditioning_is_learning_and_leaves_the_model_as_it_was(q):
    gp, model = model_of("matern52", q=q, tune="doubling")
    X, y = wave(40, seed=2, q=q)
    before = model.posterior(torch.tensor(X)).mean.clone()
    after = model.condition_on_observations(torch.tensor(X), torch.tensor(y.reshape(40, -1)))
    np.testing.assert_array_equal(model.posterior(torch.tensor(X)).mean, before)
    gp.partial_fit(X, y)
    np.testing.assert_array_equal(after.gp.predict(X), gp.predict(X))
    assert after.gp.n_samples_seen_ == 190


def test_an_acquisition_function_is_optimised():
    _, model = model_of("matern52", tune="doubling")
    torch.manual_seed(0)
    bounds = torch.tensor([[-2.0] * 3, [2.0] * 3], dtype=torch.double)
    acquisition = qLogExpectedImprovement(model, best_f=10.0)
    found, value = optimize_acqf(acquisition, bounds, 2, 2, 16, options={"maxiter": 20}, sequential=True)
    # The mean is largest near (π/2, π/2, π/2).
    assert model.posterior(found).mean.max() > 10.0
    assert torch.isfinite(value).all()


def test_what_a_streaming_model_cannot_do_is_said():
    _, model = model_of("matern52", tune="doubling")
    with pytest.raises(UnsupportedError, match="learns one batch"):
        model.condition_on_observations(torch.zeros(2, 3, 3), torch.zeros(2, 3, 1))
    with pytest.raises(UnsupportedError, match="noise is the model's own"):
        model.posterior(torch.zeros(2, 3), observation_noise=torch.ones(1))
    with pytest.raises(ExportError, match="Unknown has no derivatives in torch"):
        model_of(2.0 * Unknown(1.0))
