"""`nrmf` is the exact Gaussian process, however its rows are cut."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.methods.exact import PANEL_ROWS
from streams import learned


@pytest.mark.parametrize("refactor", [False, True])
@pytest.mark.parametrize(
    ("n", "batch"), [(90, 1), (90, 13), (PANEL_ROWS + 300, 250), (2 * PANEL_ROWS + 10, 2 * PANEL_ROWS + 10)]
)
def test_nrmf_is_scikit_learns_gp_however_the_rows_are_cut(n, batch, refactor):
    if refactor and batch == 1:
        batch = 5
    X, y = wave(n)
    theirs = GaussianProcessRegressor(1.5 * RBF([0.5, 0.7, 0.6]), alpha=0.05, optimizer=None).fit(X, y)
    ours = learned(X, y, batch, noise=0.05, method="nrmf", refactor=refactor)
    new = wave(30, seed=1)[0]
    for got, expected in zip(
        ours.predict(new, return_cov=True, latent=True), theirs.predict(new, return_cov=True), strict=True
    ):
        assert_allclose(got, expected, atol=1e-9)
    assert ours.log_evidence() == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-9)


@pytest.mark.parametrize("noise", [1e-8, 1e-6, 1e-2])
@pytest.mark.parametrize("order", ["pairs", "later", "many"])
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_nrmf_loses_no_digits_to_small_indefinite_pivots(noise, order, batch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    at = {"pairs": np.arange(120) // 2, "later": np.arange(120) % 60, "many": rng.integers(0, 9, 120)}[order]
    X, new = X[at], rng.standard_normal((20, 3))
    y, kernel = np.sin(X.sum(axis=1)) + 0.1 * rng.standard_normal(120), kernels.DistancePolynomial((0.0, 1.0))
    gp = StreamingGPRegressor(kernel, method="nrmf", noise=noise, tune="none")
    for i in range(0, 120, batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    dense = kernel.block(new, X) @ np.linalg.solve(kernel.block(X) + noise * np.eye(120), y)
    # The matrix has a condition of about 1e2/noise, and the solution loses so many digits whoever solves.
    assert_allclose(gp.predict(new), dense, atol=1e4 * 2.2e-16 / noise + 1e-12)
