"""Changes of the inducing points, of the kernel and by merging: exact for the rows of the window."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.methods.pivot_state import WINDOW, PivotedConfig
from streamgp.methods.pivoted import PivotedState
from streamgp.methods.recursive import RecursiveState
from streams import KERNEL, drifting, stream


def direct(model, X, y):
    """The statistics of rows X, y with the model's present features."""
    F = model.features.transform(X)
    return F.T @ F, F.T @ y.reshape(len(y), -1)


@pytest.mark.parametrize("make", [wave, drifting])
@pytest.mark.parametrize("batch", [100, 37, 250])
def test_with_all_rows_kept_every_row_sees_every_pivot(make, batch):
    X, y = make(1500)
    model = stream(X, y, batch, memory="rows").learner_.state
    assert model.changes or model.reviews > 5
    gram, moment = direct(model, X, y)
    statistics = model.folded.posterior.statistics
    assert_allclose(statistics.gram, gram, atol=1e-9 * np.abs(gram).max())
    assert_allclose(statistics.moment, moment, atol=1e-9 * np.abs(moment).max())


def test_with_bounded_memory_the_last_rows_see_every_pivot():
    X, y = drifting(1500)
    model = stream(X, y, 100).learner_.state
    F = model.features.transform(X[-WINDOW:])
    assert_allclose(model.window.F, F, atol=1e-9)
    assert_allclose(model.window.X, X[-WINDOW:])


def test_features_stay_orthonormal_after_thousands_of_changes():
    X, y = drifting(40_000)
    model = stream(X, y, 100, rank=40).learner_.state
    Z, V = model.features.Z, model.features.V
    assert model.reviews > 100
    assert_allclose(V @ KERNEL.block(Z) @ V.T, np.eye(40), atol=1e-9)


@pytest.mark.parametrize("memory", ["bounded", "rows"])
def test_a_merge_of_other_pivots_keeps_the_gram_matrix_semidefinite(memory):
    rng = np.random.default_rng(0)
    X0, X, X2 = (rng.standard_normal((n, 2)) * s for n, s in ((100, 2), (400, 2), (100, 2.5)))
    kernel = kernels.SquaredExponential(1.0)

    def learn(rank, rows):
        gp = StreamingGPRegressor(kernel, tune="none", noise=0.001, rank=rank, random_state=1, memory=memory)
        return gp.partial_fit(rows, np.sin(2 * rows[:, 0]))

    gp = learn(300, X0).merge(learn(8, X))
    gp.partial_fit(X2, np.sin(2 * X2[:, 0]))
    gram = gp.learner_.state.folded.posterior.statistics.gram
    assert np.linalg.eigvalsh(gram).min() > -1e-9 * np.trace(gram)


@pytest.mark.parametrize("model", ["pivoted", "rgp"])
def test_a_change_of_amplitude_is_carried_over_exactly(model):
    X, y = wave(900)
    kernel, y = kernels.Scaled(1.5, kernels.SquaredExponential(0.7)), y[:, None]

    def learn(kernel):
        if model == "rgp":
            out = RecursiveState.empty(kernel, 0.05, 30, X[:60], y, seed=None)
            return out.update(X[:60], y[:60])
        out = PivotedState.empty(PivotedConfig(40, 500, None, 0), kernel, 0.05, X, y)
        for i in range(0, 900, 100):
            out = out.update(X[i : i + 100], y[i : i + 100])
        return out

    before = learn(kernel)
    turned = before.retuned(kernels.Scaled(3.0, kernel.kernel), 0.1)
    # Twice the amplitude and twice the noise: the same mean, twice the variance.
    ours, theirs = (m.predict(X[:50]) for m in (turned, before))
    assert_allclose(ours.mean, theirs.mean, atol=1e-9)
    assert_allclose(ours.variance, 2 * theirs.variance, atol=1e-8)


def test_while_the_window_holds_every_row_a_change_of_kernel_is_exact():
    X, y = wave(400)
    y = y[:, None]
    old, new = (2.0 * kernels.SquaredExponential(s) for s in ([0.5, 0.7, 0.9], [0.6, 0.5, 1.4]))
    model = PivotedState.empty(PivotedConfig(60, 500, None, 0), old, 0.05, X, y)
    for i in range(0, 400, 100):
        model = model.update(X[i : i + 100], y[i : i + 100])
    turned = model.retuned(new, 0.02)
    F = turned.features.transform(X)
    assert_allclose(turned.posterior.statistics.gram, F.T @ F, atol=1e-8)
    assert_allclose(turned.posterior.statistics.moment, F.T @ y, atol=1e-8)
    assert turned.trace_error == pytest.approx(float(new.diag(X).sum()) - (F**2).sum(), abs=1e-6)


def test_pivots_that_a_smoother_kernel_makes_superfluous_are_dropped():
    X, y = wave(600)
    y = y[:, None]
    model = PivotedState.empty(PivotedConfig(150, 500, None, 0), kernels.SquaredExponential(0.2), 0.05, X, y)
    model = model.update(X[:300], y[:300]).update(X[300:], y[300:])
    assert model.rank == 150
    turned = model.retuned(kernels.SquaredExponential(5.0), 0.05)
    assert turned.rank < 100
    assert np.isfinite(turned.predict(X).variance).all()
