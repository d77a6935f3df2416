"""Rows that neighbours are looked for among, on a cluster."""

import numpy as np

from streamgp import StreamingGPRegressor
from streamgp.kernels import SquaredExponential
from test_dask_weights import client, da, data

__all__ = ["client"]


def test_rows_of_partitions_are_stored_beside_those_before_and_tell(client):
    X, y = data(3000)
    y = y + np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1])
    given = {"kernel": SquaredExponential(0.6), "noise": 0.01, "tune": "none", "rank": 30, "random_state": 0}
    errors = {}
    for members in (("gp",), ("gp", "neighbours")):
        gp = StreamingGPRegressor(**given, members=members).partial_fit(X[:100], y[:100])
        gp.partial_fit(*(da.from_array(v[100:2800], chunks=(300, *v.shape[1:])) for v in (X, y)))
        errors[members] = np.sqrt(np.mean((gp.predict(X[2800:]) - y[2800:]) ** 2))
    stored = {row.tobytes() for row in gp.learner_.mixture.store.rows.X}
    assert len(stored) > 300
    assert stored <= {row.tobytes() for row in X[:2800]}
    assert errors["gp", "neighbours"] < 0.95 * errors["gp",]
