"""Recycled memory, BLAS threads, and linear algebra for every memory layout."""

import gc
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info, threadpool_limits

from streamgp import StreamingGPRegressor
from streamgp._arrays import (
    cholesky,
    copied,
    empty,
    joined,
    less_product,
    product,
    solve_lower,
)
from streamgp._arrays import library as arrays
from streamgp._arrays.library import MIN_RECYCLED_BYTES
from streamgp.errors import NumericalError
from streamgp.methods import pivot_selection
from streamgp.tuning import background

SIZES = st.lists(st.integers(MIN_RECYCLED_BYTES // 8, MIN_RECYCLED_BYTES // 2), min_size=1, max_size=40)


@settings(max_examples=30, deadline=None)
@given(SIZES, st.randoms(use_true_random=False))
def test_memory_is_never_given_to_two_live_arrays(sizes, random):
    like, living = np.zeros(1), {}
    for i, size in enumerate(sizes):
        array = empty((size,), like)
        array[:] = i
        living[i] = array[size // 2 :] if random.random() < 0.5 else array  # a view alone keeps it too
        del array
        for j in [j for j in living if random.random() < 0.3]:
            del living[j]
    assert all((values == i).all() for i, values in living.items())


@pytest.mark.parametrize("size", [MIN_RECYCLED_BYTES // 8, MIN_RECYCLED_BYTES // 4, MIN_RECYCLED_BYTES])
def test_memory_is_never_given_twice_while_the_first_array_or_a_view_of_it_lives(size):
    like = np.zeros(1)
    living = []
    for i in range(12):
        array = empty((size,), like)
        array[:] = i
        living.append(array if i % 2 else array[size // 2 :])
        del array
    assert all((values == i).all() for i, values in enumerate(living))


def test_memory_is_recycled_once_its_array_is_gone():
    like = np.zeros(1)
    first = empty((MIN_RECYCLED_BYTES,), like)
    where = first.ctypes.data
    del first
    assert empty((MIN_RECYCLED_BYTES,), like).ctypes.data == where


def states():
    """Return the ids of all states of the pivoted method that are alive."""
    return [id(o) for o in gc.get_objects() if type(o).__module__ == "streamgp.methods.pivoted"]


def test_a_state_that_was_replaced_is_freed_at_once():
    X = np.random.default_rng(0).standard_normal((900, 3))
    gp = StreamingGPRegressor(rank=50, random_state=0).partial_fit(X[:300], X[:300, 0])
    gc.disable()
    try:
        for rows in (slice(300, 600), slice(600, 900)):
            before = states()
            gp.partial_fit(X[rows], X[rows, 0])
            assert gp.trace_error_ >= 0
            assert 0 < len(states()) <= len(before)
    finally:
        gc.enable()


@pytest.mark.parametrize("order", ["CC", "CF", "FC", "FF", "sliced"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_right_for_every_memory_layout(order, dtype):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((90, 120)).astype(dtype), rng.standard_normal((120, 70)).astype(dtype)
    expected = np.einsum("ij,jk->ik", A.astype(float), B.astype(float))
    if order == "sliced":
        A, B = np.repeat(A, 2, axis=1)[:, ::2], np.repeat(B, 2, axis=0)[::2]
    else:
        A, B = np.asarray(A, order=order[0]), np.asarray(B, order=order[1])
    kept = A.copy(), B.copy()
    tolerance = 1e3 * np.finfo(dtype).eps
    assert product(A, B).dtype == dtype
    assert_allclose(product(A, B), expected, atol=tolerance)
    assert_allclose(less_product(np.ones((90, 70), dtype), A, B), 1 - expected, atol=tolerance)
    assert (kept[0] == A).all()
    assert (kept[1] == B).all()


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("factor_order", ["C", "F"])
@pytest.mark.parametrize("right_order", ["C", "F"])
def test_triangular_solves_are_right_for_every_memory_layout(transpose, factor_order, right_order):
    rng = np.random.default_rng(0)
    L = np.asarray(np.tril(rng.standard_normal((30, 30))) + 6 * np.eye(30), order=factor_order)
    b = np.asarray(rng.standard_normal((30, 7)), order=right_order)
    kept = b.copy()
    y = solve_lower(L, b, transpose=transpose)
    assert_allclose((L.T if transpose else L) @ y, b, atol=1e-13)
    assert (solve_lower(L, b.T, transpose=transpose, rows=True) == y.T).all()
    assert (b == kept).all()


@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_the_cholesky_factor_is_a_lower_triangle_and_leaves_the_matrix_alone(ridge):
    A = np.random.default_rng(0).standard_normal((200, 250))
    A = A @ A.T
    kept = A.copy()
    L = cholesky(A, "A", ridge)
    assert_allclose(L @ L.T, A + ridge * np.eye(200), atol=1e-10)
    assert (np.triu(L, 1) == 0).all()
    assert (kept == A).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_matrix_without_a_cholesky_factor_is_an_error(bad):
    A = np.eye(5)
    A[3, 3] = bad
    with pytest.raises(NumericalError):
        cholesky(A, "A")


def test_copies_and_concatenations_have_memory_of_their_own():
    x = np.arange(MIN_RECYCLED_BYTES, dtype=float).reshape(-1, 4)
    assert not np.shares_memory(copied(x), x)
    assert (copied(x) == x).all()
    assert (joined([x[:5], x[5:]]) == x).all()


def test_a_stream_gives_the_same_bits_in_any_thread_and_leaves_the_blas_pools_alone():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 5))

    def learn(out):
        gp = StreamingGPRegressor(rank=200, random_state=0)
        for i in range(0, 900, 300):
            gp.partial_fit(X[i : i + 300], X[i : i + 300, 0] ** 2)
        out.append(gp.predict(X))

    pools = [(p["filepath"], p["num_threads"]) for p in threadpool_info()]
    here, there = [], []
    learn(here)
    threads = [threading.Thread(target=learn, args=(there,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for search in list(background._running):  # beside a stream; its model is gone
        search.join(60.0)
    assert all((other == here[0]).all() for other in there)
    assert [(p["filepath"], p["num_threads"]) for p in threadpool_info()] == pools


def test_recycled_memory_is_bounded(monkeypatch):
    buffers = []
    monkeypatch.setattr(arrays, "_buffers", buffers)
    monkeypatch.setattr(arrays, "MAX_BUFFERS", 8)
    monkeypatch.setattr(arrays, "MAX_BUFFER_BYTES", 2**22)
    for n in range(40_000, 90_000, 1000):
        empty((n,), np.zeros(1))
        assert 0 < len(buffers) <= 8
        assert sum(b.nbytes for b in buffers) <= 2**22


@pytest.mark.parametrize("name", ["torch", "array_api_strict"])
def test_the_hosts_blas_has_one_thread_while_a_stream_of_another_library_is_tuned(name, monkeypatch):
    xp = pytest.importorskip(name)
    X, y = (xp.asarray(v) for v in (np.random.default_rng(0).standard_normal((300, 3)), np.arange(300.0) % 7))
    seen = []

    def spy(module, function):
        original = getattr(module, function)

        def called(*args, **kwargs):
            seen.extend(
                p["num_threads"]
                for p in threadpool_info()
                if "numpy" in p["filepath"] or "scipy" in p["filepath"]
            )
            return original(*args, **kwargs)

        monkeypatch.setattr(module, function, called)

    spy(background, "tune_on_rows")
    spy(pivot_selection, "pivoted_cholesky")
    gp = StreamingGPRegressor(rank=40, random_state=0)
    with threadpool_limits(2):
        for i in range(0, 300, 60):
            gp.partial_fit(X[i : i + 60, :], y[i : i + 60])
    assert len(seen) >= 6
    assert set(seen) == {1}
