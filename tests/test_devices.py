"""Arrays of other libraries take paths of their own (large batches, panels, one wait) and give the same numbers.

torch on the CPU takes them too; with a GPU the same tests run there.
"""

from functools import partial

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor, _arrays
from streamgp.errors import InputError
from streamgp.kernels import Linear, Matern, SquaredExponential
from streamgp.methods import factory
from streamgp.methods.pivot_selection import SelectionPolicy
from streamgp.methods.pivot_state import PivotedConfig

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")),
]
device = pytest.mark.parametrize("device", DEVICES)


def on(device, values, dtype=torch.float64):
    return torch.as_tensor(np.asarray(values), dtype=dtype, device=device)


@device
@pytest.mark.parametrize("width", [3, 7, 64])
def test_half_products_in_panels_are_whole_products(device, width, monkeypatch):
    monkeypatch.setattr(_arrays.linear, "MIN_PANEL", width)
    F = on(device, np.random.default_rng(0).standard_normal((50, 33)))
    L = torch.tril(F[:33, :33])
    np.testing.assert_allclose(_arrays.gram(F).cpu(), (F.T @ F).cpu(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(_arrays.product_lower(F, L).cpu(), (F @ L.T).cpu(), rtol=1e-12, atol=1e-12)


@device
@pytest.mark.parametrize(
    "kernel", [SquaredExponential([1.0, 2.0, 0.5]), 3.0 * SquaredExponential(2.0), Matern(1.5)]
)
def test_a_kernel_prepared_for_its_pivots_is_the_kernel(device, kernel):
    X, Z = (on(device, wave(n, seed=n)[0]) for n in (40, 17))
    np.testing.assert_allclose(kernel.against(Z)(X).cpu(), kernel.block(X, Z).cpu(), rtol=1e-12, atol=1e-14)
    far = X + 1e9  # where squares would cancel, differences are taken
    np.testing.assert_allclose(
        kernel.against(Z)(far).cpu(), kernel.block(far, Z).cpu(), rtol=1e-9, atol=1e-14
    )


@device
@pytest.mark.parametrize("q", [None, 3])
def test_default_settings_give_the_numbers_of_numpy_while_pivots_are_chosen(device, q):
    """Until the rank is full both take the same way; hyperparameters are tuned on the host from the same rows."""
    X, y = wave(1000, q=q)
    given = {"rank": 1000, "random_state": 0}
    here, there = StreamingGPRegressor(**given), StreamingGPRegressor(**given)
    for i in range(0, 1000, 250):
        here.partial_fit(X[i : i + 250], y[i : i + 250])
        there.partial_fit(on(device, X[i : i + 250]), on(device, y[i : i + 250]))
    expected = here.predict(X[:100], return_interval=0.9)
    got = there.predict(on(device, X[:100]), return_interval=0.9)
    for a, b in zip(got, expected, strict=True):
        assert isinstance(a, torch.Tensor)
        assert a.device.type == device
        np.testing.assert_allclose(a.cpu(), b, rtol=1e-5, atol=1e-5)


@device
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("mixed", [False, True])
def test_large_batches_on_a_device_are_as_accurate_as_small_ones_on_the_host(
    device, dtype, mixed, monkeypatch
):
    policy = SelectionPolicy(device_reviews=1000, device_checks=4000)
    monkeypatch.setattr(factory, "PivotedConfig", partial(PivotedConfig, policy=policy))
    X, y = wave(21_000)
    given = {"noise": 0.01, "tune": "none", "rank": 80, "members": ("gp",), "random_state": 0}
    here = StreamingGPRegressor(SquaredExponential(1.0), **given)
    there = StreamingGPRegressor(SquaredExponential(1.0), **given, mixed_precision=mixed)
    for i in range(0, 20_000, 2000):
        here.partial_fit(X[i : i + 2000], y[i : i + 2000])
        there.partial_fit(on(device, X[i : i + 2000], dtype), on(device, y[i : i + 2000], dtype))
    assert there.rank_ == 80
    assert there.learner_.state.features.triangular  # pivots were exchanged, and V was computed anew
    errors = [
        np.sqrt(np.mean((np.asarray(m) - y[20_000:]) ** 2))
        for m in (here.predict(X[20_000:]), there.predict(on(device, X[20_000:], dtype)).cpu())
    ]
    assert errors[1] < 1.1 * errors[0]


@device
@pytest.mark.parametrize("kernel", [SquaredExponential(1.0), Linear(1.0), Matern(1.0)])
@pytest.mark.parametrize("what", ["nan in X", "inf in X", "nan in y", "inf in y", "huge y"])
def test_what_is_not_finite_is_refused_late_and_leaves_the_model_as_it_was(device, kernel, what):
    X, y = wave(800)
    # With a guard rows are checked on the host before they are learned, and a huge target is held back.
    gp = StreamingGPRegressor(kernel, noise=0.01, tune="none", rank=30, guard=None, random_state=0)
    for i in (0, 200, 400):
        gp.partial_fit(on(device, X[i : i + 200]), on(device, y[i : i + 200]))
    before = gp.predict(on(device, X[:20])).cpu()
    bad_X, bad_y = X[600:].copy(), y[600:].copy()
    value = {"nan": np.nan, "inf": np.inf, "hug": 1e200}[what[:3]]
    (bad_X[:, 0] if what.endswith("X") else bad_y)[7] = value
    with pytest.raises(InputError):
        gp.partial_fit(on(device, bad_X), on(device, bad_y))
    np.testing.assert_array_equal(gp.predict(on(device, X[:20])).cpu(), before)
    gp.partial_fit(on(device, X[600:]), on(device, y[600:]))
    assert gp.n_samples_seen_ == 800


@device
def test_drift_is_seen_between_reviews(device):
    X, y = wave(12_000)
    X[6000:] += 5.0
    given = {"noise": 0.01, "tune": "none", "rank": 60, "members": ("gp",), "random_state": 0}
    gp = StreamingGPRegressor(SquaredExponential(1.0), **given)
    for i in range(0, 12_000, 1000):
        gp.partial_fit(on(device, X[i : i + 1000]), on(device, y[i : i + 1000]))
    Z = gp.learner_.state.features.Z.cpu().numpy()
    assert (Z.mean(axis=1) > 2).mean() > 0.2
