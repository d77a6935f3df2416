"""Weights of rows on a cluster."""

import copy

import numpy as np
import pytest

from streamgp import StreamingGPRegressor
from streamgp.errors import InputError
from streamgp.kernels import SquaredExponential
from streamgp.parameters import used_by

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
GIVEN = {"kernel": SquaredExponential([1.5, 2.0, 3.0]), "noise": 0.01, "tune": "none"}


@pytest.fixture
def client():
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"
    ) as client:
        yield client


def data(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (n, 3))
    return X, np.sin(X[:, 0]) * X[:, 1] + 0.5 * X[:, 2] + 0.1 * rng.standard_normal(n)


def lazy(X, y, chunk=1000):
    return da.from_array(X, chunks=(chunk, 2)), da.from_array(y, chunks=2 * chunk)


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
def test_the_cluster_knows_the_weights_of_rows(client, method):
    """Rows of weight w are w rows; for rgp, which whitens 500 rows together, those of one process in such batches."""
    X, y = data(4000)
    w = np.random.default_rng(1).integers(0 if method == "pivoted" else 1, 4, len(X))
    given = {**GIVEN, **used_by(method, members=("gp",)), "rank": 60, "random_state": 3, "guard": None}
    start = StreamingGPRegressor(**given).fit(X[:500], y[:500])
    weighted, other = copy.deepcopy(start), copy.deepcopy(start)
    weighted.partial_fit(*lazy(X, y), sample_weight=da.from_array(w.astype(float), chunks=700))
    if method == "pivoted":
        other.partial_fit(*lazy(np.repeat(X, w, axis=0), np.repeat(y, w)))
    else:
        for rows in np.split(np.arange(4000), 8):
            other.partial_fit(X[rows], y[rows], w[rows])
    np.testing.assert_allclose(weighted.predict(X[:200]), other.predict(X[:200]), atol=1e-6)
    assert weighted.n_samples_seen_ == 500 + int((w > 0).sum())
    wrong = da.from_array(np.where(np.arange(4000) == 2100, -1.0, 1.0))
    with pytest.raises(InputError, match=r"partition 2: sample_weight of row .* is -1"):
        weighted.partial_fit(*lazy(X, y), sample_weight=wrong)
    with pytest.raises(InputError, match="must be a Dask collection"):
        weighted.partial_fit(*lazy(X, y), sample_weight=w)
