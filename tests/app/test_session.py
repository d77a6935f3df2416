"""A run over a table: what is learned, what is a bad row."""

import json

import numpy as np
import pandas as pd
import pytest

import streamgp
from app.helpers import invoke, random_rows, read_rows, run, write_csv


def test_a_row_without_a_label_is_predicted_and_not_learned(tmp_path):
    write_csv(tmp_path / "all.csv", 300)
    text = (tmp_path / "all.csv").read_text().splitlines()
    for i in range(150, 160):
        text[i] = text[i].rsplit(",", 1)[0] + ","
    (tmp_path / "some.csv").write_text("\n".join(text))
    outcome = run(
        tmp_path / "some.csv", "--target", "y", "--rank", 30, "--output", tmp_path / "o.csv", "--save",
        tmp_path / "m",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    assert "10 rows without a label" in outcome.output
    assert all(row["y_mean"] for row in read_rows(tmp_path / "o.csv")[100:])
    assert streamgp.load(tmp_path / "m").n_samples_seen_ == 290


BAD = {
    "l20": "1,2,3",
    "l21": "1,2,3,4,5",
    "l22": "x,2,3,4",
    "l24": "1,inf,3,4",
    "l27": '1,"2,3,4',
    "l28": "\x00\udcff,1,2,3".encode("utf-8", "surrogateescape").decode("latin-1"),
    "l29": "1,2,3,1e999",
    "l30": "1,2,3,y=4",
}


def test_bad_rows_are_counted_named_by_line_and_never_learned(tmp_path):
    write_csv(tmp_path / "t.csv", 300, **BAD)
    kept = (tmp_path / "t.csv").read_text().split("\n")
    good = [line for i, line in enumerate(kept, 1) if f"l{i}" not in BAD]
    (tmp_path / "good.csv").write_text("\n".join(good))
    common = ("--target", "y", "--rank", 30, "--batch", 1000)
    assert run(tmp_path / "good.csv", *common, "--save", tmp_path / "good.gp").exit_code == 0
    for how in ("skip", "quarantine"):
        more = ("--quarantine", tmp_path / "q.jsonl") if how == "quarantine" else ()
        outcome = run(tmp_path / "t.csv", *common, "--on-error", how, *more, "--save", tmp_path / "m.gp")
        assert outcome.exit_code == 0, outcome.output
        assert "8 bad rows" in outcome.output
        assert "line 20: 3 cells, expected 4" in outcome.output
        X = random_rows(50, 5)[0]
        mine, good_ones = (streamgp.load(tmp_path / name).predict(X) for name in ("m.gp", "good.gp"))
        np.testing.assert_array_equal(mine, good_ones)
    listed = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert [row["line"] for row in listed] == [20, 21, 22, 24, 27, 28, 29, 30]
    assert all(row["reason"] for row in listed)


def test_by_default_the_first_bad_row_stops_the_run_and_names_its_line(tmp_path):
    write_csv(tmp_path / "t.csv", 300, l222="1,2,oops,4")
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 30, "--output", tmp_path / "o.csv")
    assert outcome.exit_code == 1
    assert "line 222: c='oops' is not a number" in outcome.output
    assert len(read_rows(tmp_path / "o.csv")) == 200


def test_the_guard_quarantines_a_broken_sensor(tmp_path):
    write_csv(tmp_path / "t.csv", 400, l333="1e7,1,1,1", l350="0.1,0.1,0.1,-1e9")
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--rank", 30, "--guard", 10,
        "--on-error", "quarantine", "--quarantine", tmp_path / "q.jsonl",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    assert "0 bad rows, 2 refused by the guard" in outcome.output
    listed = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert [row["line"] for row in listed] == [333, 350]


def test_targets_beyond_the_range_of_the_model_are_bad_rows(tmp_path):
    write_csv(tmp_path / "t.csv", 300, l200="1,1,1,1e200")
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--rank", 30, "--guard", "none", "--on-error", "skip",
        "--save", tmp_path / "m",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    assert "line 200: cannot be used" in outcome.output
    assert streamgp.load(tmp_path / "m").n_samples_seen_ == 299
    assert run(tmp_path / "t.csv", "--target", "y", "--rank", 30, "--guard", "none").exit_code == 1


def test_a_run_counts_rows_that_the_guard_held_back_and_those_that_it_learned_later(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    y = X[:, 0] + 0.1 * rng.standard_normal(400)
    y[[10, 150]], y[297:] = 1e5, y[297:] + 50.0  # the first bad row is judged when more rows are there
    lines = ["a,b,y", *(f"{a},{b},{t}" for (a, b), t in zip(X, y, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    bad = tmp_path / "bad.jsonl"
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--rank", 30, "--batch", 10, "--on-error", "quarantine",
        "--quarantine", bad, "--save", tmp_path / "m",
    )  # fmt: skip
    assert "400 rows, 398 learned" in " ".join(outcome.output.split())
    assert "2 refused by the guard" in outcome.output
    assert streamgp.load(tmp_path / "m").n_samples_seen_ == 398
    assert {152, 299} <= {json.loads(line)["line"] for line in bad.read_text().splitlines()}


def test_a_row_whose_factorisation_fails_is_a_bad_row_and_the_run_continues(tmp_path, monkeypatch):
    from streamgp.errors import NumericalError

    original = streamgp.StreamingGPRegressor.partial_fit

    def fails(self, X, y, sample_weight=None):
        if (np.asarray(X)[:, 0] == 1.25).any():
            raise NumericalError("a factor is not positive definite")
        return original(self, X, y, sample_weight)

    monkeypatch.setattr(streamgp.StreamingGPRegressor, "partial_fit", fails)
    write_csv(tmp_path / "t.csv", 200, l150="1.25,1,1,1")
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--rank", 10, "--on-error", "skip", "--save", tmp_path / "m.gp"
    )
    assert outcome.exit_code == 0, outcome.output
    assert "line 150: cannot be used: a factor" in outcome.output
    assert streamgp.load(tmp_path / "m.gp").n_samples_seen_ == 199


@pytest.mark.parametrize("bad", ["1,2,oops,4", "1,1,1,1e200"], ids=["not a number", "not learnable"])
def test_after_a_bad_row_is_mended_the_run_resumes(tmp_path, bad):
    write_csv(tmp_path / "t.csv", 600, l450=bad)
    write_csv(tmp_path / "mended.csv", 600)
    common = ("--target", "y", "--rank", 20, "--guard", "none", "--resume")
    assert run(tmp_path / "mended.csv", *common, "--checkpoint", tmp_path / "a.gp").exit_code == 0
    assert run(tmp_path / "t.csv", *common, "--checkpoint", tmp_path / "b.gp").exit_code == 1
    assert streamgp.load(tmp_path / "b.gp").n_samples_seen_ == 400
    (tmp_path / "mended.csv").rename(tmp_path / "t.csv")
    assert run(tmp_path / "t.csv", *common, "--checkpoint", tmp_path / "b.gp").exit_code == 0
    X = random_rows(20, 3)[0]
    np.testing.assert_array_equal(*(streamgp.load(tmp_path / f"{n}.gp").predict(X) for n in "ab"))


def test_a_column_of_text_must_be_ignored_and_rows_that_are_all_bad_are_an_error(tmp_path):
    X, y = random_rows(100)
    pd.DataFrame(X, columns=list("abc")).assign(time="2024-01-01", y=y).to_csv(
        tmp_path / "t.csv", index=False
    )
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 10)
    assert outcome.exit_code == 1
    assert "leave it out with --ignore time" in " ".join(outcome.output.split())
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 10, "--on-error", "skip")
    assert outcome.exit_code == 1
    assert "none of 100 rows could be used; line 2: time='2024-01-01' is not a number" in outcome.output
    good = ("--ignore", "time", "--report", tmp_path / "r.html", "--checkpoint", tmp_path / "c.gp")
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 10, *good)
    assert outcome.exit_code == 0
    assert f"report: {tmp_path / 'r.html'}" in outcome.output
    assert f"checkpoint: {tmp_path / 'c.gp'}" in outcome.output
    (tmp_path / "new.csv").write_text("a,b,c\n1,2,x\n")
    outcome = invoke("predict", tmp_path / "c.gp", tmp_path / "new.csv", "--on-error", "skip")
    assert outcome.exit_code == 1


@pytest.mark.parametrize("delay", [0, 30, 170])
def test_a_delayed_label_is_learned_so_many_lines_later(tmp_path, delay):
    X, y = random_rows(400)
    write_csv(tmp_path / "t.csv", 400)
    X, y = (pd.read_csv(tmp_path / "t.csv").to_numpy()[:, part] for part in (slice(0, 3), 3))
    more = ("--output", tmp_path / "o.csv", "--save", tmp_path / "m")
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 30, "--batch", 20, "--delay", delay, *more)
    assert outcome.exit_code == 0, outcome.output
    gp, done = streamgp.StreamingGPRegressor(rank=30, random_state=0), 0
    for i in range(0, 400, 20):
        if done:
            gp.predict(X[i : i + 20], return_std=True)
        if i + 20 - delay > done:
            gp.partial_fit(X[done : i + 20 - delay], y[done : i + 20 - delay])
            done = i + 20 - delay
    saved = streamgp.load(tmp_path / "m")
    assert saved.n_samples_seen_ == gp.n_samples_seen_ == 400 - delay
    for a, b in zip(*(g.predict(X, return_interval=0.9) for g in (saved, gp)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_rows_that_wait_for_their_labels_are_resumed(tmp_path):
    write_csv(tmp_path / "t.csv", 400)
    whole = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    common = ("--target", "y", "--rank", 20, "--batch", 20, "--delay", 50, "--resume")
    for name, ends in (("once", [401]), ("twice", [201, 401])):
        for end in ends:
            (tmp_path / "t.csv").write_text("".join(whole[:end]))
            outcome = run(tmp_path / "t.csv", *common, "--checkpoint", tmp_path / name)
            assert outcome.exit_code == 0, outcome.output
    once, twice = (streamgp.load(tmp_path / name) for name in ("once", "twice"))
    assert once.n_samples_seen_ == twice.n_samples_seen_ == 350
    X = random_rows(50, 5)[0]
    for a, b in zip(*(g.predict(X, return_interval=0.9) for g in (once, twice)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("batch", [1, 3, 40])
def test_a_run_waits_for_the_first_row_that_has_a_feature(tmp_path, batch):
    write_csv(tmp_path / "all.csv", 60)
    names, *rows = (tmp_path / "all.csv").read_text().splitlines()
    (tmp_path / "t.csv").write_text("\n".join([names, *[",,,1.5"] * 4, *rows]))
    common = ("--target", "y", "--rank", 20, "--batch", batch)
    outcome = run(tmp_path / "t.csv", *common, "--save", tmp_path / "m.gp")
    assert outcome.exit_code == 0, outcome.output
    assert "60 learned" in outcome.output
    assert "4 rows without any feature" in outcome.output
    assert streamgp.load(tmp_path / "m.gp").n_samples_seen_ == 60


def test_a_run_of_rows_without_any_feature_ends_well_and_learns_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n" + ",,2\n" * 5)
    outcome = run(tmp_path / "t.csv", "--target", "y", "--save", tmp_path / "m.gp")
    assert outcome.exit_code == 0, outcome.output
    assert "nothing was learned" in outcome.output
