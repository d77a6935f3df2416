"""Data frames of pandas and polars: names are kept, checked and matched."""

import doctest

import numpy as np
import pandas as pd
import polars as pl
import pytest

import streamgp
from streamgp import StreamingGPRegressor
from streamgp.adapters import frames
from streamgp.adapters.frames import predict_frame
from streamgp.errors import InputError, InputTypeError
from streamgp.parameters import used_by


def data(n=120, seed=0):
    rng = np.random.default_rng(seed)
    table = {"a": rng.standard_normal(n), "b": rng.standard_normal(n) * 100, "c": rng.standard_normal(n)}
    return table, np.sin(table["a"]) + table["b"] / 100


def test_the_example_of_the_docstring_runs():
    assert doctest.testmod(frames).failed == 0


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize("method", ["pivoted", "srmf"])
def test_columns_in_another_order_are_matched_by_name_in_predict_and_partial_fit(library, method):
    table, y = data()
    X = library.DataFrame(table)
    turned = X[["c", "a", "b"]]
    gp = StreamingGPRegressor(**used_by(method, rank=30), random_state=0).fit(X, y)
    assert list(gp.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(gp.predict(turned), gp.predict(X))
    other = StreamingGPRegressor(**used_by(method, rank=30), random_state=0).fit(X, y)
    np.testing.assert_array_equal(gp.partial_fit(turned, y).predict(X), other.partial_fit(X, y).predict(X))


@pytest.mark.parametrize("library", [pd, pl])
def test_other_names_are_refused_and_the_model_is_unchanged(library):
    table, y = data()
    gp = StreamingGPRegressor(rank=30, random_state=0).fit(library.DataFrame(table), y)
    before = gp.predict(library.DataFrame(table))
    table["d"] = table.pop("c")
    with pytest.raises(InputError, match="d"):
        gp.predict(library.DataFrame(table))
    with pytest.raises(InputError, match="d"):
        gp.partial_fit(library.DataFrame(table), y)
    table["c"] = table.pop("d")
    np.testing.assert_array_equal(gp.predict(library.DataFrame(table)), before)


@pytest.mark.parametrize("library", [pd, pl])
def test_predictions_are_a_frame_of_the_same_library_with_the_names_of_the_targets(library, tmp_path):
    table, y = data()
    targets = library.DataFrame({"force": y, "heat": -2 * y})
    gp = StreamingGPRegressor(rank=30, random_state=0).fit(library.DataFrame(table), targets)
    gp.save(tmp_path / "model.gp")
    for model in (gp, streamgp.load(tmp_path / "model.gp")):
        out = predict_frame(model, library.DataFrame(table), 0.8)
        assert type(out) is library.DataFrame
        ends = ("_mean", "_std", "_low", "_high")
        assert list(out.columns) == [f"{name}{end}" for name in ("force", "heat") for end in ends]
        mean, low, high = gp.predict(library.DataFrame(table), return_interval=0.8)
        np.testing.assert_array_equal(np.asarray(out["heat_low"]), low[:, 1])
        np.testing.assert_array_equal(np.asarray(out["force_mean"]), mean[:, 0])
        np.testing.assert_array_equal(np.asarray(out["force_high"]), high[:, 0])
    # Targets in another order are matched, too.
    same = predict_frame(
        gp.partial_fit(library.DataFrame(table), targets[["heat", "force"]]), library.DataFrame(table)
    )
    assert np.corrcoef(np.asarray(same["force_mean"]), y)[0, 1] > 0.9
    with pytest.raises(InputError, match="heat"):
        gp.partial_fit(library.DataFrame(table), library.DataFrame({"force": y, "cold": y}))


def test_the_index_of_a_pandas_frame_is_kept_and_an_array_is_refused():
    table, y = data()
    X = pd.DataFrame(table, index=pd.date_range("2026-01-01", periods=len(y), freq="s"))
    gp = StreamingGPRegressor(rank=30, random_state=0).fit(X, pd.Series(y, index=X.index, name="force"))
    out = predict_frame(gp, X)
    assert out.index.equals(X.index)
    assert "force_mean" in out.columns
    with pytest.raises(InputTypeError, match="pass a DataFrame"):
        predict_frame(gp, X.to_numpy())
    with pytest.raises(InputTypeError, match="names"):
        predict_frame(gp, X, targets=["a", "b"])
