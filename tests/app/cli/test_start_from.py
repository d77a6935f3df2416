"""Runs that go on with a model: yesterday's file, another run, one saved in Python."""

import numpy as np
import pandas as pd
import pytest

import streamgp
from app.helpers import invoke, random_rows, read_rows, run, write_csv
from streamgp.columns import StreamColumns, StreamPipeline

FILES = ("--decimal", ",", "--missing", "-200", "--time", "when", "--lags-of", "a:1", "--on-error", "skip")


def days(folder, n=300, at=180):
    """A table as a plant sends it, as a whole and as two files of a day each."""
    X, y = random_rows(n)
    when = pd.date_range("2026-03-01", periods=n, freq="17min").strftime("%d.%m.%Y %H:%M")
    X[40:44, 1] = -200
    lines = [
        ";".join([t, *(f"{v:.6f}".replace(".", ",") for v in (*x, target))])
        for t, x, target in zip(when, X, y, strict=True)
    ]
    for name, part in (("both", lines), ("monday", lines[:at]), ("tuesday", lines[at:])):
        (folder / f"{name}.csv").write_text("\n".join(["when;a;b;c;y", *part]) + "\n")


@pytest.mark.parametrize("delay", [0, 25])
@pytest.mark.parametrize("how", ["--save", "--checkpoint"])
def test_the_next_days_file_goes_on_as_if_both_were_one(tmp_path, delay, how):
    days(tmp_path)
    more = (*FILES, "--target", "y", "--rank", 20, "--batch", 20, "--delay", delay)
    assert run(tmp_path / "both.csv", *more, "--save", tmp_path / "both.gp").exit_code == 0
    assert run(tmp_path / "monday.csv", *more, how, tmp_path / "m.gp").exit_code == 0
    # The model brings target, columns and the way of reading with it.
    outcome = run(
        tmp_path / "tuesday.csv", "--start-from", tmp_path / "m.gp", "--on-error", "skip", "--save",
        tmp_path / "next.gp", "--output", tmp_path / "o.csv",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    one, two = (streamgp.load(tmp_path / f"{name}.gp") for name in ("both", "next"))
    # A delay counts lines, and the second header is one: the last row waits one line longer.
    assert one.n_samples_seen_ - two.n_samples_seen_ in ((0,) if not delay else (0, 1))
    if not delay:
        X = np.random.default_rng(1).standard_normal((20, one.n_features_in_))
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert len(read_rows(tmp_path / "o.csv")) >= 119
    assert all(row["y_mean"] for row in read_rows(tmp_path / "o.csv"))


def test_a_model_may_be_replaced_by_the_one_that_goes_on_with_it_and_the_run_is_resumable(tmp_path):
    days(tmp_path)
    more = (*FILES, "--target", "y", "--rank", 20)
    assert run(tmp_path / "monday.csv", *more, "--save", tmp_path / "m.gp").exit_code == 0
    before = streamgp.load(tmp_path / "m.gp").n_samples_seen_
    command = (tmp_path / "tuesday.csv", "--start-from", tmp_path / "m.gp", "--on-error", "skip")
    kept = ("--checkpoint", tmp_path / "c", "--resume")
    for _ in range(2):  # a supervisor repeats it: the second time nothing is left to learn
        outcome = run(*command, *kept)
        assert outcome.exit_code == 0, outcome.output
    learned = streamgp.load(tmp_path / "c").n_samples_seen_
    assert learned - before == 120
    assert run(*command, "--save", tmp_path / "m.gp").exit_code == 0
    assert streamgp.load(tmp_path / "m.gp").n_samples_seen_ == learned


@pytest.mark.parametrize("kind", ["frame", "array", "pipeline"])
def test_a_model_from_python_goes_on_in_the_shell(tmp_path, kind):
    X, y = write_csv(tmp_path / "t.csv", 200)
    gp = streamgp.StreamingGPRegressor(rank=20, random_state=0)
    table = pd.DataFrame(X[:100], columns=list("abc"))
    if kind == "frame":
        gp.fit(table, pd.Series(y[:100], name="y")).save(tmp_path / "m.gp")
    elif kind == "array":
        gp.fit(X[:100], y[:100]).save(tmp_path / "m.gp")
    else:
        pipe = StreamPipeline(
            [("columns", StreamColumns(lags_of={"a": [1]}, numeric=["b", "c"])), ("gp", gp)]
        )
        pipe[0].fit(table[:1], y[:1])  # the row before the first has no value that the second could be given
        pipe.partial_fit(table[1:], y[1:100]).save(tmp_path / "m.gp")
    body = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    (tmp_path / "t.csv").write_text("".join([body[0], *body[101:]]))
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--start-from", tmp_path / "m.gp", "--batch", 100, "--save",
        tmp_path / "n.gp",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    assert streamgp.load(tmp_path / "n.gp").n_samples_seen_ == 200 - (kind == "pipeline")
    assert (
        invoke("predict", tmp_path / "n.gp", tmp_path / "t.csv", "--output", tmp_path / "o.csv").exit_code
        == 0
    )


def test_predict_reads_files_as_the_run_did(tmp_path):
    days(tmp_path)
    more = (*FILES, "--target", "y", "--rank", 20)
    assert run(tmp_path / "monday.csv", *more, "--save", tmp_path / "m.gp").exit_code == 0
    out = ("--output", tmp_path / "o.csv", "--on-error", "skip")
    outcome = invoke("predict", tmp_path / "m.gp", tmp_path / "tuesday.csv", *out)
    assert outcome.exit_code == 0, outcome.output
    assert len(read_rows(tmp_path / "o.csv")) == 120
    assert (
        invoke("predict", tmp_path / "m.gp", tmp_path / "tuesday.csv", *out, "--decimal", ".").exit_code == 1
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--rank", "30"), "--rank cannot be given with --start-from"),
        (("--lags", "1"), "--lags cannot be given with --start-from"),
        (("--target", "a"), "predicts y; leave --target out"),
        (("--keep", "no"), "--keep no is none of the columns"),
    ],
)
def test_what_a_model_has_learned_with_cannot_be_changed(tmp_path, more, said):
    write_csv(tmp_path / "t.csv", 60)
    assert run(tmp_path / "t.csv", "--target", "y", "--rank", 20, "--save", tmp_path / "m.gp").exit_code == 0
    outcome = run(tmp_path / "t.csv", "--start-from", tmp_path / "m.gp", *more)
    assert outcome.exit_code == 2, outcome.output
    assert said in " ".join(outcome.output.split())
    (tmp_path / "u.csv").write_text("a,b,y\n1,2,3\n")
    assert "lacks the column 'c'" in run(tmp_path / "u.csv", "--start-from", tmp_path / "m.gp").output
    (tmp_path / "u.csv").write_text("a,b,c\n1,2,3\n")
    assert "lacks the target 'y'" in run(tmp_path / "u.csv", "--start-from", tmp_path / "m.gp").output
