"""Runs over raw rows: times, categories, lags; resumed, saved, predicted."""

import numpy as np
import pandas as pd
import pytest

import streamgp
from app.helpers import invoke, random_rows, read_rows, run
from streamgp.columns import StreamColumns, load

OPTIONS = (
    "--target", "y", "--rank", 20, "--batch", 20, "--time", "Date,Clock", "--categorical", "mode", "--ignore", "heat",
    "--lags-of", "heat:2,3", "--on-error", "skip",
)  # fmt: skip


def write(path, n=200, seed=0):
    """A table with a time in two columns, a category and a number, as the transformer's own columns too."""
    rng = np.random.default_rng(seed)
    when = pd.date_range("2026-03-05 07:00", periods=n, freq="37min")
    mode = rng.choice(["on", "off", "idle, long"], n)
    table = {
        "Date": when.strftime("%d/%m/%Y"), "Clock": when.strftime("%H.%M"), "load": rng.uniform(0, 1, n),
        "mode": mode, "heat": rng.uniform(0, 9, n),
    }  # fmt: skip
    y = np.sin(table["load"]) + (mode == "on") + 0.1 * rng.standard_normal(n)
    frame = pd.DataFrame(table)
    frame.assign(y=y).to_csv(path, index=False)
    return frame, y


def columns(lags=()):
    return StreamColumns(["Date", "Clock"], ["mode"], lags, {"heat": (2, 3)}, numeric=["load"], targets=["y"])


@pytest.mark.parametrize(
    ("batch", "delay", "lags"), [(20, 0, (1, 4)), (7, 0, (1,)), (20, 30, (30, 41)), (20, 3, ())]
)
def test_a_run_over_raw_rows_is_the_library_on_the_rows_of_stream_columns(tmp_path, batch, delay, lags):
    frame, y = write(tmp_path / "t.csv")
    more = ("--lags", ",".join(map(str, lags))) if lags else ()
    outcome = run(
        tmp_path / "t.csv", *OPTIONS, *more, "--batch", batch, "--delay", delay, "--save", tmp_path / "m"
    )
    assert outcome.exit_code == 0, outcome.output
    features = columns(lags).fit_transform(frame, y)
    gp, learned = streamgp.StreamingGPRegressor(rank=20, random_state=0), 0
    usable = np.isfinite(features).all(axis=1) | gp.__sklearn_tags__().input_tags.allow_nan
    for i in range(0, 200, batch):
        now = np.arange(i, min(i + batch, 200))[usable[i : i + batch]]
        if gp.__sklearn_is_fitted__() and now.size:
            gp.predict(features[now], return_std=True)
        due = np.arange(learned, max(learned, i + batch - delay))
        due = due[due < 200][usable[due[due < 200]]]
        if due.size and now.size:
            gp.partial_fit(features[due], y[due])
            learned = int(due[-1]) + 1
    saved = streamgp.load(tmp_path / "m")
    assert saved.n_samples_seen_ == gp.n_samples_seen_
    np.testing.assert_array_equal(saved.predict(features[50:]), gp.predict(features[50:]))


def test_a_run_over_raw_rows_is_resumed_bit_for_bit(tmp_path):
    write(tmp_path / "t.csv", 300)
    whole = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    for name, ends in (("once", [301]), ("thrice", [90, 201, 301])):
        for end in ends:
            (tmp_path / "t.csv").write_text("".join(whole[:end]))
            out = (
                "--checkpoint",
                tmp_path / name,
                "--output",
                tmp_path / f"{name}.csv",
                "--resume",
                "--keep",
                "Clock,y",
            )
            outcome = run(tmp_path / "t.csv", *OPTIONS, "--lags", "1,20", *out, "--batch", 1)
            assert outcome.exit_code == 0, outcome.output
    assert (tmp_path / "once.csv").read_text() == (tmp_path / "thrice.csv").read_text()
    given = dict(enumerate(read_rows(tmp_path / "t.csv"), start=2))
    for row in read_rows(tmp_path / "once.csv"):
        assert (row["Clock"], row["y"]) == (given[int(row["line"])]["Clock"], given[int(row["line"])]["y"])


def test_predict_and_python_take_raw_rows_that_follow_those_learned(tmp_path):
    frame, y = write(tmp_path / "all.csv", 240)
    whole = (tmp_path / "all.csv").read_text().splitlines(keepends=True)
    (tmp_path / "t.csv").write_text("".join(whole[:201]))
    (tmp_path / "new.csv").write_text("".join([whole[0], *whole[201:]]))
    assert run(tmp_path / "t.csv", *OPTIONS, "--save", tmp_path / "m").exit_code == 0
    outcome = invoke("predict", tmp_path / "m", tmp_path / "new.csv", "--output", tmp_path / "o.csv")
    assert outcome.exit_code == 0, outcome.output
    c = columns()
    c.fit(frame[:200], y[:200])
    expected = streamgp.load(tmp_path / "m").predict(c.transform(frame[200:]))
    got = pd.read_csv(tmp_path / "o.csv")
    np.testing.assert_allclose(got.iloc[:, -4], expected, rtol=1e-12)
    np.testing.assert_array_equal(load(tmp_path / "m").predict(frame[200:]), expected)
    assert "Date" in invoke("info", tmp_path / "m").output


def test_a_time_that_cannot_be_read_is_a_bad_row_and_costs_only_itself(tmp_path):
    write(tmp_path / "t.csv")
    text = (tmp_path / "t.csv").read_text().splitlines()
    text[49] = "soon" + text[49][10:]
    (tmp_path / "t.csv").write_text("\n".join(text))
    outcome = run(tmp_path / "t.csv", *OPTIONS, "--save", tmp_path / "m")
    assert "line 50: Date,Clock='soon" in outcome.output, outcome.output
    stopped = run(
        tmp_path / "t.csv", *OPTIONS, "--on-error", "fail", "--lags-of", "load:1", "--output", tmp_path / "o"
    )
    assert stopped.exit_code != 0
    # The row before the last learned is known: lags count lines.
    assert load(tmp_path / "m")[0].state_.row == 200


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--time", "when"), "--time when is none of the columns"),
        (("--categorical", "y"), "cannot be a target and a time or a category"),
        (("--lags", "0"), "0"),
        (("--lags", "5", "--delay", "9"), "--lags 5 is never known, since labels come 9 lines after"),
        (("--lags-of", "cold:1"), "--lags-of cold is none of the columns"),
        (("--lags-of", "heat"), "--lags-of heat needs lags"),
        (("--time-zone", "Mars"), "Europe/Rome"),
    ],
)
def test_options_that_do_not_fit_the_columns_name_the_remedy(tmp_path, more, said):
    write(tmp_path / "t.csv", 30)
    outcome = run(tmp_path / "t.csv", "--target", "y", "--time", "Date,Clock", "--categorical", "mode", *more)
    assert outcome.exit_code == 2, outcome.output
    assert said in " ".join(outcome.output.split())


def test_every_format_gives_the_same_raw_rows(tmp_path):
    frame, y = write(tmp_path / "t.csv", 80)
    full = frame.assign(y=y)
    full.to_json(tmp_path / "t.jsonl", orient="records", lines=True, double_precision=15)
    full.to_parquet(tmp_path / "t.parquet")
    outs = []
    for end in ("csv", "jsonl", "parquet"):
        assert run(tmp_path / f"t.{end}", *OPTIONS, "--output", tmp_path / "o.csv").exit_code == 0
        rows = [list(row.values())[1:] for row in read_rows(tmp_path / "o.csv")]
        outs.append(np.array([[float(cell or "nan") for cell in row] for row in rows]))
    for out in outs[1:]:
        np.testing.assert_allclose(out, outs[0], rtol=1e-6)


def test_by_default_a_batch_is_as_long_as_the_shortest_lag_and_never_longer_than_100(tmp_path):
    rows, y = random_rows(130)
    pd.DataFrame(rows, columns=list("abc")).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    for more, batch in (((), 100), (("--lags", "7,30"), 7), (("--lags", "120"), 100)):
        out = tmp_path / "o.csv"
        outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 5, *more, "--output", out)
        assert outcome.exit_code == 0, outcome.output
        assert sum(not row["y_mean"] for row in read_rows(out)) == batch  # nothing is said before the first
