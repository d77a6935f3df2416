"""Neighbours and the panel for arrays of other libraries: kept and asked there, with the numbers of NumPy (law 9)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import _libraries
from streamgp import StreamingGPRegressor, kernels, learner
from streamgp.methods import neighbours

ROUGH = kernels.Matern(0.3, nu=1.5)
GIVEN = {"noise": 0.01, "tune": "none", "members": ("gp", "neighbours"), "guard": None}
SETTINGS = {
    "given": {"kernel": ROUGH, **GIVEN},
    "full store": {"kernel": ROUGH, **GIVEN, "store": 90},
    "forgetting": {"kernel": ROUGH, **GIVEN, "forgetting": 0.99, "neighbours": 7},
    "no distance": {"kernel": kernels.SquaredExponential(0.4) + 0.3 * kernels.Linear(), **GIVEN},
    "periodic": {"kernel": kernels.Periodic(1.0, period=2.0), **GIVEN, "neighbours": 5},
    "panel": {},
}


@pytest.fixture(
    params=[lib for lib in _libraries() if lib.name in ("strict", "torch")], ids=lambda lib: lib.name
)
def library(request):
    return request.param


@pytest.fixture(autouse=True)
def _one_thread():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rows(n, q=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.1 * rng.standard_normal(n)
    return X, y if q is None else np.stack([y + j * X[:, 0] for j in range(q)], axis=1)


def model(**given):
    return StreamingGPRegressor(**{"rank": 25, "random_state": 0, "tune": "initial", **given})


def learned(gp, X, y, library, batch=50, **more):
    for i in range(0, len(X), batch):
        own = {name: values[i : i + batch] for name, values in more.items()}
        gp.partial_fit(library.asarray(X[i : i + batch]), library.asarray(y[i : i + batch]), **own)
    return gp


def both(library, n=240, q=None, batch=40, given=None, change=lambda gp, library: gp, **more):
    """Return what a stream of NumPy arrays and one of this library answer; each goes through a change at its end."""
    host = type(library)("numpy", np.array, np.asarray)
    X, y = rows(n, q)
    out = []
    for lib in (host, library):
        gp = change(learned(model(**(given or SETTINGS["given"])), X, y, lib, batch, **more), lib)
        answer = gp.predict(lib.asarray(rows(30, seed=3)[0]), return_std=True, return_interval=0.8)
        assert all(type(v) is type(lib.asarray(X)) for v in answer)
        out.append([lib.to_numpy(v) for v in answer])
    return out


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("q", [None, 3])
def test_neighbours_and_panel_give_the_numbers_of_numpy(library, name, q):
    ours, theirs = both(library, q=q, given=SETTINGS[name])
    for a, b in zip(ours, theirs, strict=True):
        assert_allclose(b, a, atol=1e-6 if name == "panel" else 1e-9)


@pytest.mark.parametrize("batch", [1, 120])
def test_rows_and_large_batches_are_answered_alike(library, batch, monkeypatch):
    monkeypatch.setattr(learner, "SCORED_ON_DEVICE", 1000)
    ours, theirs = both(library, n=60 if batch == 1 else 240, batch=batch)
    for a, b in zip(ours, theirs, strict=True):
        assert_allclose(b, a, atol=1e-9)


def _unlearned(gp, library):
    X, y = rows(240)
    return gp.unlearn(library.asarray(X[200:220]), library.asarray(y[200:220]))


def _merged(gp, library):
    X, y = rows(100, seed=8)
    return gp.merge(learned(model(**SETTINGS["given"]), X, y, library))


@pytest.mark.parametrize("change", [_unlearned, _merged])
def test_rows_leave_and_join_a_store_anywhere(library, change):
    ours, theirs = both(library, change=change)
    for a, b in zip(ours, theirs, strict=True):
        assert_allclose(b, a, atol=1e-8)


def test_weights_count_for_neighbours_anywhere(library):
    ours, theirs = both(library, sample_weight=np.random.default_rng(1).uniform(0.2, 3.0, 240))
    for a, b in zip(ours, theirs, strict=True):
        assert_allclose(b, a, atol=1e-9)


def test_few_rows_at_once_and_all_of_them_tell_the_same(library, monkeypatch):
    whole = both(library)[1]
    monkeypatch.setattr(neighbours, "DEVICE_ENTRIES", 30_000)
    for a, b in zip(whole, both(library)[1], strict=True):
        assert_allclose(b, a, atol=1e-9)


def test_the_store_stays_where_its_rows_are(library):
    X, y = rows(120)
    gp = learned(model(**SETTINGS["given"]), X, y, library)
    kept = gp.learner_.mixture.store.rows
    assert type(kept.X) is type(kept.y) is type(kept.weights) is type(library.asarray(X))
    np.testing.assert_array_equal(library.to_numpy(kept.X), X)


def test_single_precision_is_answered_in_single_precision():
    import torch

    X, y = rows(240)
    gp, alone = (model(**{**SETTINGS["given"], "members": m}) for m in (("gp", "neighbours"), ("gp",)))
    for one in (gp, alone):
        for i in range(0, 240, 40):
            one.partial_fit(*(torch.as_tensor(v[i : i + 40], dtype=torch.float32) for v in (X, y)))
    x, truth = rows(200, seed=5)
    found = [one.predict(torch.as_tensor(x, dtype=torch.float32)) for one in (gp, alone)]
    assert found[0].dtype == torch.float32
    errors = [float(np.sqrt(np.mean((v.numpy() - truth) ** 2))) for v in found]
    assert errors[0] < 0.8 * errors[1]
