"""Laws of raw rows: times, categories and earlier values are what the columns themselves make of them."""

import copy
import json

import numpy as np
import pytest

from app.helpers import invoke
from app.serve.serving import Process, regressor, serving, state_of
from streamgp.app.cli.serve import _columns
from streamgp.app.serve import writer
from streamgp.app.serve.service import Service
from streamgp.columns import StreamColumns, StreamPipeline, load
from streamgp.loading import load_with_more

OPTIONS = [
    {"time": ("when",), "categorical": ("mode",), "lags": (1, 3)},
    {"time": ("when",), "time_as": ("day", "trend"), "lags_of": {"load": (1, 2)}, "lags": (2,)},
    {"categorical": ("mode",), "levels": 2, "shared": 1},
]
options = pytest.mark.parametrize("given", OPTIONS, ids=str)


def table(n, seed=0):
    """n rows by name, their targets in a column as well."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "load": float(rng.uniform(-2, 2)),
            "when": f"2026-03-{1 + i // 24:02}T{i % 24:02}:00",
            "mode": ["on", "off", "idle"][int(rng.integers(3))],
        }
        for i in range(n)
    ]
    y = [np.sin(2 * r["load"]) + (r["mode"] == "on") + 0.1 * rng.standard_normal() for r in rows]
    return rows, np.array(y)


def transformer(given):
    return StreamColumns(**given, numeric=("load",)).begin(["load", "when", "mode"])


def service_of(path, given):
    """The service of a model file, or a new one."""
    if path.exists():
        gp, more = load_with_more(path)
        columns = StreamColumns.from_dict(more["columns"])
    else:
        gp, more, columns = regressor(), {}, transformer(given)
    names = (*columns.state_.numbers, *columns.state_.texts)
    service = Service.new(gp, _columns(gp, columns, names, ("y",), ()), 0.9, 100, transformer=columns)
    if "service" in more:
        service.restore(more["service"])
    return service


def raw(path, given, **more):
    return serving(path, service=service_of(path, given), **more)


def numbers(s, rows, **more):
    done = s.post("/predict", {"rows": rows, **more})
    assert done.status_code == 200, done.text
    return np.array([list(p["y"].values()) for p in done.json()["predictions"]]).T


def learn(s, rows, y, **more):
    done = s.post("/learn", {"rows": rows, "targets": y.tolist(), **more})
    assert done.status_code == 200, done.text
    return done.json()


@options
def test_raw_rows_are_learned_and_answered_as_a_pipeline_does(tmp_path, given):
    rows, y = table(200)
    ours = StreamPipeline([("columns", transformer(given)), ("gp", regressor())])
    with raw(tmp_path / "m", given) as s:
        for i in range(0, 180, 60):
            ours.partial_fit(rows[i : i + 60], y[i : i + 60])
            learn(s, rows[i : i + 60], y[i : i + 60])
        assert state_of(s.service.gp) == state_of(ours.steps[-1][1])
        expected = np.stack(ours.predict(rows[180:], return_std=True, return_interval=0.9))
        assert np.array_equal(numbers(s, rows[180:]), expected)
        by_place = [[r[n] for n in s.service.columns.features] for r in rows[180:]]
        assert np.array_equal(numbers(s, by_place), expected)  # asking moves nothing on
        kinds = {n: "BYTES" if n in s.service.columns.texts else "FP64" for n in s.service.columns.features}
        tensors = [
            {"name": n, "datatype": kind, "shape": [20], "data": [r[n] for r in rows[180:]]}
            for n, kind in kinds.items()
        ]
        found = s.post("/v2/models/m/infer", {"inputs": tensors}).json()["outputs"]
        assert np.array_equal([part["data"] for part in found], expected)
        described = s.client.get("/v2/models/m").json()["inputs"]
        assert {part["name"]: part["datatype"] for part in described} == kinds
    # What was saved is read by the library as well.
    again = load(tmp_path / "m").predict(rows[180:], return_std=True, return_interval=0.9)
    assert np.array_equal(np.stack(again), expected)


@options
def test_a_row_that_was_predicted_under_an_id_has_arrived_and_its_label_is_an_earlier_value(tmp_path, given):
    """Labels come two rows late; each question is asked twice, as by a client that got no answer."""
    rows, y = table(120)
    columns, gp = transformer(given), regressor()
    gp.partial_fit(columns.arrive(rows[:60], y[:60]), y[:60])
    with raw(tmp_path / "m", given) as s:
        learn(s, rows[:60], y[:60])
        came = {}
        for i in range(60, 120):
            came[i] = columns.arrive(rows[i : i + 1])
            said = gp.predict(came[i], return_std=True, return_interval=0.9, ids=[i])
            for _ in range(2):
                assert np.array_equal(numbers(s, rows[i : i + 1], ids=[f"{i}"])[:, 0], np.ravel(said))
            if i >= 62:
                columns.label([i - 2], y[i - 2 : i - 1])
                gp.partial_fit(came[i - 2], y[i - 2 : i - 1], ids=[i - 2])
                more = {"rows": rows[i - 2 : i - 1]} if i % 2 else {}  # by the id alone, or with the row
                done = s.post("/learn", {"ids": [f"{i - 2}"], "targets": [y[i - 2]], **more}).json()
                assert done["learned"] == 1
        assert state_of(s.service.gp) == state_of(gp)
        assert repr(s.service.arrivals.state.to_dict()) == repr(columns.state_.to_dict())


@options
def test_raw_rows_survive_kills_as_if_there_were_none(tmp_path, given):
    rows, y = table(160)
    ids, pace = [f"i{i}" for i in range(160)], writer.Pace(0.0, every=50)

    def part(s, k):
        at = slice(20 * k, 20 * k + 20)
        if k in (2, 5):
            numbers(s, rows[at], ids=[None if i % 5 == 0 else ids[i] for i in range(at.start, at.stop)])
        if k in (
            3,
            6,
        ):  # labels of some rows that were predicted before, and rows of the next part among them
            late = slice(20 * k - 18, 20 * k + 2)
            learn(s, rows[late], y[late], ids=ids[late])
        if k in (0, 1, 4, 7):
            learn(s, rows[at], y[at], ids=ids[at])

    with raw(tmp_path / "whole", given, pace=pace) as whole:
        for k in range(8):
            part(whole, k)
    for parts in ((0, 1, 2), (3,), (4, 5), (6, 7)):
        with raw(tmp_path / "m", given, pace=pace, durable=True, stop=False) as s:
            for k in parts:
                part(s, k)
    with raw(tmp_path / "m", given, durable=True) as s:
        assert state_of(s.service.gp) == state_of(whole.service.gp)
        assert repr(s.service.arrivals.state.to_dict()) == repr(whole.service.arrivals.state.to_dict())
        assert set(s.service.kept) == set(whole.service.kept)
        row = {k: v for k, v in rows[0].items() if k in s.service.columns.features}
        assert np.array_equal(numbers(s, [row]), numbers(whole, [row]))


GOOD = {"load": 1.0, "when": "2026-03-04 05:00", "mode": "on"}
BAD = [
    ({"when": "soon"}, "when", "is not a time"),
    ({"when": "2026-13-45"}, "when", "is not a time"),
    ({"when": ["2026"]}, "when", "neither a text nor a number"),
    ({"mode": {"a": 1}}, "mode", "neither a text nor a number"),
    ({"mode": "x" * 201}, "mode", "at most 200"),
    ({"mode": 10**2000}, "mode", "at most 200"),
    ({"mode": "a\nb"}, "mode", "printable"),
    ({"mode": "\ud800"}, "mode", "printable"),
    ({"load": "1"}, "load", "not a number"),
    ({"load": ...}, "load", "is missing"),
    ({"mode": ...}, "mode", "is missing"),
]


@pytest.mark.parametrize(("wrong", "column", "said"), BAD, ids=lambda v: str(v)[:30])
def test_a_raw_row_that_cannot_be_used_names_row_and_column_and_changes_nothing(
    tmp_path, wrong, column, said
):
    rows, y = table(40)
    bad = {k: v for k, v in {**GOOD, **wrong}.items() if v is not ...}
    with raw(tmp_path / "m", OPTIONS[0]) as s:
        learn(s, rows, y)
        before = s.service.gp.learner_, s.service.arrivals.state
        for path, more in (
            ("/predict", {}),
            ("/predict", {"ids": ["p", "q"]}),
            ("/learn", {"targets": [1, 1]}),
        ):
            body = json.dumps({"rows": [GOOD, bad], **more})
            done = s.client.post(path, content=body, headers={"content-type": "application/json"})
            told = done.json()
            assert (done.status_code, told.get("row"), told.get("column")) == (422, 1, column), told
            assert said in told["error"]
            assert told["remedy"]
        assert (s.service.gp.learner_, s.service.arrivals.state) == before
        assert not s.service.kept


def test_null_is_a_value_that_is_not_known_and_widens_the_interval(tmp_path):
    rows, y = table(150)
    with raw(tmp_path / "m", OPTIONS[0]) as s:
        learn(s, [{**r, "load": None} if i % 7 == 0 else r for i, r in enumerate(rows)], y)
        assert s.service.gp.n_missing_[0] == 22
        known, unknown = numbers(s, [rows[1], {**rows[1], "load": None}])[1]
        assert unknown > known
        nothing = s.post("/learn", {"row": {"load": None, "when": None, "mode": None}, "target": 1})
        assert (nothing.status_code, nothing.json()["row"]) == (422, 0)


def test_lines_of_a_file_and_the_requests_that_follow_are_one_stream(tmp_path):
    """A model that `run` saved knows its columns, and the code for 'missing' of its file; `predict` reads it after."""
    rows, y = table(120)
    lines = [
        "load,when,mode,y",
        *(f"{r['load']!r},{r['when']},{r['mode']},{float(v)!r}" for r, v in zip(rows, y, strict=True)),
    ]
    lines[9] = "-200" + lines[9][lines[9].index(",") :]
    (tmp_path / "t.csv").write_text("\n".join(lines[:81]) + "\n")
    more = ["--time", "when", "--categorical", "mode", "--lags", "1,2", "--missing", "-200"]
    done = invoke(
        "run",
        tmp_path / "t.csv",
        "--target",
        "y",
        "--rank",
        20,
        "--guard",
        "none",
        *more,
        "--save",
        tmp_path / "m",
        "--quiet",
    )
    assert done.exit_code == 0, done.output
    ours = load(tmp_path / "m")
    ours.steps[-1][1].drop_feature_names()
    process = Process(tmp_path / "m")
    try:
        status, answer = process.ask(
            "/learn", {"rows": [{**r, "y": v} for r, v in zip(rows[80:100], y[80:100], strict=True)]}
        )
        assert (status, answer["rows_learned"]) == (200, 100)
        ours.partial_fit(rows[80:100], y[80:100])
        question = [{**rows[100], "load": -200}, rows[101]]
        asked = copy.deepcopy(question)
        asked[0]["load"] = None
        said = process.ask("/predict", {"rows": question})[1]["predictions"]
        assert [p["y"]["mean"] for p in said] == ours.predict(asked).tolist()
    finally:
        assert process.stop() == 0
    (tmp_path / "next.csv").write_text("\n".join([lines[0], *lines[101:]]) + "\n")
    assert (
        invoke("predict", tmp_path / "m", tmp_path / "next.csv", "--output", tmp_path / "o.csv").exit_code
        == 0
    )


def test_a_new_model_takes_its_columns_from_options_and_the_same_command_goes_on(tmp_path):
    rows, y = table(60)
    command = (
        tmp_path / "m",
        "--new",
        "--target",
        "y",
        "--rank",
        "20",
        "--time",
        "when",
        "--categorical",
        "mode",
    )
    process = Process(*command, "--lags", "1", "--durable")
    assert process.ask("/learn", {"row": [1, 2], "target": 1})[1]["column"] == "when"
    assert process.ask("/learn", {"rows": rows, "targets": y.tolist()})[1]["learned"] == 60
    before = process.ask("/predict", {"row": GOOD})
    process.kill()
    process.start()
    try:
        assert process.ask("/model")[1]["features"] == ["load", "when", "mode"]
        assert process.ask("/predict", {"row": GOOD}) == before
    finally:
        assert process.stop() == 0
    assert invoke("serve", *command, "--lags", "2").exit_code == 2
    assert "other times, categories or lags" in invoke("serve", *command).output
    wrong = invoke("serve", tmp_path / "n", "--new", "--target", "y", "--time", "when", "--time-zone", "Mars")
    assert wrong.exit_code == 2
    assert "Europe/Rome" in wrong.output
