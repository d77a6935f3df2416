"""`--weight` and `--likelihood`: a run does what the library does with the same rows."""

import numpy as np
import pandas as pd
import pytest

import streamgp
from app.helpers import invoke, random_rows, run
from streamgp import StreamingGPRegressor


def write(path, n=120, **changed):
    X, y = random_rows(n)
    weights = np.random.default_rng(1).choice([0.5, 1.0, 4.0], n)
    frame = pd.DataFrame(X, columns=list("abc")).assign(w=weights, y=y)
    for name, (row, value) in changed.items():
        frame[name] = frame[name].astype(object)
        frame.loc[row, name] = value
    frame.to_csv(path, index=False)
    return X, y, weights


def learned(X, y, weights, batch=30):
    gp = StreamingGPRegressor(rank=15, random_state=0)
    for i in range(0, len(X), batch):
        if i:
            gp.predict(X[i : i + batch], return_std=True)
        gp.partial_fit(X[i : i + batch], y[i : i + batch], weights[i : i + batch])
    return gp


COMMON = ("--target", "y", "--rank", 15, "--batch", 30, "--weight", "w")


@pytest.mark.parametrize("delay", [0, 40])
def test_weights_of_a_column_are_those_of_the_library_and_the_column_is_no_feature(tmp_path, delay):
    X, y, weights = write(tmp_path / "t.csv")
    outcome = run(tmp_path / "t.csv", *COMMON, "--delay", delay, "--save", tmp_path / "m.gp")
    assert outcome.exit_code == 0, outcome.output
    gp = streamgp.load(tmp_path / "m.gp")
    assert gp.n_features_in_ == 3
    if delay:
        assert gp.n_samples_seen_ == 80
        (tmp_path / "rest.csv").write_text("a,b,c,w,y\n" + "".join(f"{i},0,0,1,\n" for i in range(40)))
        outcome = run(
            tmp_path / "rest.csv",
            "--start-from",
            tmp_path / "m.gp",
            "--batch",
            40,
            "--save",
            tmp_path / "m.gp",
        )
        assert outcome.exit_code == 0, outcome.output
        gp = streamgp.load(tmp_path / "m.gp")
        assert gp.n_samples_seen_ == 120
        return
    np.testing.assert_array_equal(gp.predict(X), learned(X, y, weights).predict(X))
    assert not np.array_equal(gp.predict(X), learned(X, y, np.ones(120)).predict(X))


def test_a_label_brings_its_weight_when_it_comes_late(tmp_path):
    X, y, weights = random_rows(60)[0], random_rows(60)[1], np.tile([1.0, 4.0], 30)
    rows = [f"{i},{','.join(map(repr, map(float, x)))},," for i, x in enumerate(X)]
    labels = [f"{i},,,,{w},{float(t)!r}" for i, (w, t) in enumerate(zip(weights, y, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["k,a,b,c,w,y", *rows, *labels]))
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--rank", 15, "--batch", 60, "--weight", "w", "--id", "k", "--save",
        tmp_path / "m.gp",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    mine = streamgp.load(tmp_path / "m.gp").predict(X)
    np.testing.assert_array_equal(mine, learned(X, y, weights, 60).predict(X))


@pytest.mark.parametrize(
    ("value", "said"), [("", "weight is missing"), (-1.0, "weight of row"), ("x", "w='x'")]
)
def test_a_row_with_a_label_and_without_a_usable_weight_is_bad(tmp_path, value, said):
    write(tmp_path / "t.csv", w=(50, value))
    outcome = run(tmp_path / "t.csv", *COMMON, "--on-error", "skip")
    assert outcome.exit_code == 0, outcome.output
    assert "119 learned" in outcome.output
    assert "line 52" in outcome.output
    assert said in outcome.output
    assert run(tmp_path / "t.csv", *COMMON[:-1], "nope").exit_code == 2


@pytest.mark.parametrize("likelihood", ["student", "poisson"])
def test_a_run_under_a_likelihood_is_the_library_under_it(tmp_path, likelihood):
    X = random_rows(120)[0]
    y = np.random.default_rng(0).poisson(np.exp(X[:, 0])).astype(float)
    pd.DataFrame(X, columns=list("abc")).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--rank", 15, "--batch", 60, "--likelihood", likelihood, "--save",
        tmp_path / "m.gp", "--report", tmp_path / "r.html",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    assert "ikelihood" in invoke("info", tmp_path / "m.gp").output
    gp = StreamingGPRegressor(rank=15, random_state=0, likelihood=likelihood)
    for i in (0, 60):
        gp.partial_fit(X[i : i + 60], y[i : i + 60])
    np.testing.assert_array_equal(streamgp.load(tmp_path / "m.gp").predict(X), gp.predict(X))
