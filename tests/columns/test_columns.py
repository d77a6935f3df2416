"""Raw rows as numbers: categories, lags, batches, copies."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars
import pytest
from sklearn.base import clone

import streamgp
from streamgp.columns import StreamColumns, StreamPipeline, load
from streamgp.columns.lagged import Lagged
from streamgp.columns.levels import Levels
from streamgp.errors import CheckpointError, InputError, ParameterError


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    when = pd.date_range("2026-01-05 07:00", periods=n, freq="37min")
    mode = rng.choice(["on", "off", "idle"], n)
    frame = pd.DataFrame(
        {"load": rng.uniform(0, 1, n), "when": when, "mode": mode, "heat": rng.uniform(0, 9, n)}
    )
    y = np.sin(frame["load"]) + (mode == "on") + 0.1 * rng.standard_normal(n)
    return frame, y.to_numpy()


def columns(**more):
    given = {
        "time": "when",
        "categorical": ["mode"],
        "lags": (1, 5),
        "lags_of": {"heat": (2, 3)},
        "levels": 2,
    }
    return StreamColumns(**{**given, **more})


def whole(frame, y, **more):
    return columns(**more).fit_transform(frame, y)


def test_lags_are_the_values_of_earlier_rows_as_pandas_shifts_them():
    frame, y = rows()
    got = columns()
    table = pd.DataFrame(got.fit_transform(frame, y), columns=got.get_feature_names_out())
    for k in (1, 5):
        np.testing.assert_array_equal(table[f"y_lag{k}"], pd.Series(y).shift(k))
    for k in (2, 3):
        np.testing.assert_array_equal(table[f"heat_lag{k}"], frame["heat"].shift(k))
    np.testing.assert_array_equal(table[["load", "heat"]], frame[["load", "heat"]])


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_batches_saved_copied_and_restored_in_between_give_the_features_of_one_batch(batch):
    frame, y = rows()
    expected, c = whole(frame, y), columns()
    for i in range(0, len(y), batch):
        part = slice(i, i + batch)
        before = None if i == 0 else c.to_dict()
        if i:
            ahead = c.transform(frame[part])
            assert pickle.dumps(c.to_dict()) == pickle.dumps(before)  # nothing moved
        got = c.arrive(frame[part], y[part])
        np.testing.assert_array_equal(got, expected[part])
        if i:  # the labels of the batch were not known when it was predicted
            np.testing.assert_array_equal(ahead[:1], got[:1])
            gaps = np.isnan(ahead)
            np.testing.assert_array_equal(ahead[~gaps], got[~gaps])
        c = [StreamColumns.from_dict(c.to_dict()), pickle.loads(pickle.dumps(c)), copy.deepcopy(c)][i % 3]


@pytest.mark.parametrize("kind", ["dict", "rows", "polars", "strings", "array"])
def test_every_kind_of_table_gives_the_same_features(kind):
    frame, y = rows(60)
    expected = whole(frame, y)
    c = columns()
    texts = frame.assign(when=frame["when"].astype(str))
    if kind == "array":
        c = columns(time="1", categorical=["2"], lags_of={"3": (2, 3)})
        table = texts.to_numpy(dtype=object)
    else:
        table = {
            "dict": lambda: {str(k): v.to_numpy() for k, v in frame.items()},
            "rows": lambda: texts.to_dict("records"),
            "polars": lambda: polars.DataFrame(frame.to_dict("list")),
            "strings": lambda: {k: v.astype(str).to_numpy() for k, v in frame.items()},
        }[kind]()
    np.testing.assert_array_equal(c.fit_transform(table, y), expected)


def test_a_lag_counts_rows_that_were_left_out_and_memory_is_bounded():
    c = StreamColumns(lags=(1, 3))
    values = []
    for i in range(5000):
        row = 2 * i  # every other line was no row
        got = c.arrive({"x": [0.0]}, [float(row)], steps=[0 if i == 0 else 1])
        values.append(got[0, 1:])
        assert c.state_.targets.rows.size <= 3
    assert np.isnan(np.array(values)[3:]).all()
    c = StreamColumns(lags=(2, 4))
    out = [c.arrive({"x": [0.0]}, [2.0 * i], steps=[0 if i == 0 else 1])[0, 1:] for i in range(10)]
    np.testing.assert_array_equal(out[5], [8.0, 6.0])


def test_labels_that_come_late_are_given_to_later_rows_only():
    c = StreamColumns(lags=(1, 2), targets=("u", "v"))
    first = c.arrive({"x": [0.0, 1.0]})
    assert np.isnan(first[:, 1:]).all()
    c.label([1, 0, -5], [[10.0, np.nan], [20.0, 21.0], [9, 9]])
    assert list(c.get_feature_names_out()) == ["x", "u_lag1", "v_lag1", "u_lag2", "v_lag2"]
    np.testing.assert_array_equal(c.transform({"x": [2.0]}), [[2, 10, np.nan, 20, 21]])
    c.label([1], [[np.nan, 11.0]])
    np.testing.assert_array_equal(c.transform({"x": [2.0]}), [[2, 10, 11, 20, 21]])


def test_rows_may_arrive_in_any_order_of_late_labels():
    part = Lagged.none(("y",), (1,)).add(np.arange(5), np.full((5, 1), np.nan))
    part = part.set(np.array([4, 2]), np.array([[4.0], [2.0]]))
    np.testing.assert_array_equal(part.given(np.arange(6))[:, 0], [np.nan, np.nan, np.nan, 2, np.nan, 4])


def test_the_first_categories_have_a_column_and_thousands_of_others_share_some():
    levels = Levels("mode", own=3, shared=2)
    cells = ["a", "b", "", "c", "a", "d", *(f"new{i}" for i in range(5000))]
    for cell in cells:
        levels = levels.learned([cell])
    assert levels.known == ("a", "b", "")
    out = levels.given(cells)
    assert out.shape == (len(cells), 5)
    assert (out.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(out[:5].argmax(axis=1)[[0, 1, 2, 4]], [0, 1, 2, 0])
    assert (out[:, 3:].sum(axis=0) > 2000).all()  # the hash spreads them
    np.testing.assert_array_equal(out, levels.given(cells))
    assert levels.features == ("mode=a", "mode=b", "mode=", "mode=other1", "mode=other2")


def test_a_table_that_cannot_be_read_is_refused_by_name_and_nothing_is_learned():
    frame, y = rows(30)
    c = columns().partial_fit(frame, y)
    before = pickle.dumps(c.to_dict())
    for table, said in (
        (frame.assign(when="yesterday"), "row 0: when='yesterday' is not a time"),
        (frame.assign(load="much"), "column 'load' does not hold numbers"),
        (frame.drop(columns="mode"), "lacks the column 'mode'"),
        (frame[:0], "no rows"),
    ):
        with pytest.raises(InputError, match=said):
            c.partial_fit(table, y[: len(table)])
        assert pickle.dumps(c.to_dict()) == before
    for wrong, said in (
        ({"time": "no"}, "time='no' is none of the columns"),
        ({"lags": (0,)}, "must be a whole number of 1 or more"),
        ({"lags_of": {"heat": (1.5,)}}, "1.5 must be"),
        ({"time_as": ["hour"]}, "is none of day, week, year, trend"),
        ({"time_zone": "Rome"}, "Europe/Rome"),
        ({"shared": 0}, "shared=0"),
    ):
        with pytest.raises(ParameterError, match=said):
            columns(**wrong).fit(frame, y)


def test_missing_cells_are_nan_and_a_category_of_their_own():
    table = {
        "load": [1.0, None, "2"],
        "when": [None, "2026-01-01", ""],
        "mode": [None, "x", float("nan")],
        "heat": [1, 2, 3],
    }
    got = columns(time_as=["trend"], lags=(), lags_of=None).fit_transform(table)
    np.testing.assert_array_equal(got[:, 0], [1, np.nan, 2])
    np.testing.assert_array_equal(got[:, 2], [np.nan, 0, np.nan])
    np.testing.assert_array_equal(got[:, 3:5], [[1, 0], [0, 1], [1, 0]])


def pipeline(**more):
    gp = streamgp.StreamingGPRegressor(rank=30, random_state=0)
    return StreamPipeline([("columns", columns(lags=(), lags_of=None, **more)), ("gp", gp)])


def test_a_pipeline_learns_batch_by_batch_and_equals_its_parts():
    frame, y = rows()
    pipe, c = pipeline(), columns(lags=(), lags_of=None)
    gp = streamgp.StreamingGPRegressor(rank=30, random_state=0)
    for i in range(0, 200, 50):
        part = slice(i, i + 50)
        pipe.partial_fit(frame[part], y[part])
        gp.partial_fit(c.arrive(frame[part], y[part]), y[part])
    for a, b in zip(
        pipe.predict(frame, return_std=True), gp.predict(c.transform(frame), return_std=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    once = clone(pipe).fit(frame, y)
    assert once.score(frame, y) > 0.9


def test_a_pipeline_that_the_regressor_refuses_has_learned_nothing():
    frame, y = rows(60)
    pipe = pipeline().partial_fit(frame, y)
    before = pickle.dumps(pipe[0].to_dict())
    with pytest.raises(InputError):
        pipe.partial_fit(frame, y[:-1])
    assert pickle.dumps(pipe[0].to_dict()) == before


def test_a_saved_pipeline_goes_on_with_raw_rows(tmp_path):
    frame, y = rows()
    pipe = pipeline().partial_fit(frame[:100], y[:100])
    pipe.save(tmp_path / "m.gp")
    again = load(tmp_path / "m.gp")
    for p in (pipe, again):
        p.partial_fit(frame[100:], y[100:])
    np.testing.assert_array_equal(pipe.predict(frame), again.predict(frame))
    streamgp.StreamingGPRegressor(rank=10).fit(np.eye(30), np.arange(30.0)).save(tmp_path / "n.gp")
    with pytest.raises(CheckpointError, match="numbers alone"):
        load(tmp_path / "n.gp")
