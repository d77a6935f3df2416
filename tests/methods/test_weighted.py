"""Algorithm 5: a factor for each part of an affine kernel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import DATA, wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.datasets import load_abalone
from streamgp.evaluation import prequential
from streamgp.methods.exact import ExactState
from streamgp.methods.spectral import SpectralConfig
from streamgp.methods.weighted import WeightedState
from streams import (
    AFFINE,
)


@pytest.mark.parametrize("kernel", AFFINE, ids=str)
@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("q", [1, 3])
def test_factors_of_the_parts_at_full_rank_give_the_exact_gp(kernel, sequential, q):
    X, y = wave(90, q=q)
    model = WeightedState.empty(SpectralConfig(90, 10, 0, sequential), kernel, 0.4, X, y)
    exact = ExactState.empty(kernel, 0.4, False, X, y)
    for rows in (slice(0, 30), slice(30, 31), slice(31, 90)):
        model, exact = model.update(X[rows], y[rows]), exact.update(X[rows], y[rows])
    new = wave(20, seed=1)[0]
    for a, b in zip((model, exact), (exact, model), strict=True):
        assert a.count == b.count
    ours, theirs = (m.predict(new) for m in (model, exact))
    assert_allclose(ours.mean, theirs.mean, atol=1e-7)
    assert_allclose(ours.variance, theirs.variance, atol=1e-7)
    assert model.prior_trace == pytest.approx(exact.prior_trace, rel=1e-10)
    assert model.trace_error == pytest.approx(0.0, abs=1e-6 * max(abs(np.trace(kernel.block(X))), 1.0))


@pytest.mark.parametrize("sequential", [True, False])
def test_new_weights_equal_having_had_them_from_the_start(sequential):
    X, y = wave(300)
    y = y[:, None]
    first, second = (kernels.DistancePolynomial(w) for w in ((0.0, 1.0, 1.0, 0.5), (0.0, 0.2, 0.01, 2.0)))
    models = []
    for kernel in (first, second):
        model = WeightedState.empty(SpectralConfig(25, 5, 0, sequential), kernel, 0.3, X, y)
        for i in range(0, 300, 60):
            model = model.update(X[i : i + 60], y[i : i + 60])
        models.append(model)
    turned = models[0].retuned(second, 0.7)
    ours, theirs = (m.predict(X[:40]) for m in (turned, models[1].retuned(second, 0.7)))
    assert_allclose(ours.mean, theirs.mean, atol=1e-10)
    assert_allclose(ours.variance, theirs.variance, atol=1e-10)


@pytest.mark.parametrize("method", ["srmf", "brmf"])
@pytest.mark.filterwarnings("ignore::streamgp.errors.NegativeVarianceWarning")
def test_abalone_weights_are_tuned_where_the_printed_algorithm_fails_though_it_tunes_them_alike(method):
    """The numbers of docs/architecture.md: rank 50, the first 2,000 rows."""
    if not (DATA / "abalone.data").exists():
        pytest.skip(f"real data is not there: {DATA}")
    data, errors, weights = load_abalone(DATA), {}, {}
    for variant in ("projected", "literal"):
        gp = StreamingGPRegressor(
            kernels.DistancePolynomial((1.0, 1.0, 1.0)),
            method=method,
            variant=variant,
            rank=50,
            tune="continuous",
            objective="training_error",
            random_state=0,
        )
        records = list(prequential(gp, data.X[:2000], data.y[:2000, 0], 100))
        errors[variant] = np.sqrt(np.mean([r.rmse**2 for r in records if r.rmse is not None]))
        weights[variant] = gp.kernel_.amounts
    assert errors["projected"] < 2.6
    assert errors["literal"] > 10
    assert_allclose(weights["literal"], weights["projected"], rtol=0.7)


@pytest.mark.parametrize("method", ["srmf", "brmf"])
def test_weights_are_tuned_where_the_trace_of_the_inverse_is_negative(method):
    # Most eigenvalues of a distance matrix are below −σ²: cross-validation needs the square of the trace only.
    X, y = wave(400)
    given = {"tune": "continuous", "objective": "training_error", "random_state": 0}
    gp = StreamingGPRegressor(
        kernels.DistancePolynomial((0.0, 1.0, 1.0)),
        method=method,
        variant="literal",
        rank=60,
        noise=0.1,
        **given,
    )
    verdicts = []
    for i in range(0, 400, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
        verdicts.append(gp.tuning_.verdict)
    assert not [v for v in verdicts if v.startswith("failed")]
