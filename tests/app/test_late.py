"""Labels on later lines: which rows they belong to, what is learned of them, what is counted."""

import numpy as np
import pytest

import streamgp
from app.helpers import random_rows, read_rows, run
from streamgp.app.late import LateLabels

RUN = ("--target", "y", "--id", "key", "--rank", 20)


def stream(n=200, lag=15, seed=0, missing=()):
    """Lines of a CSV in which the label of row i comes after row i + lag, and what happens on each line."""
    X, y = random_rows(n, seed)
    lines, events = ["key,a,b,c,y"], []
    for i in range(n + lag):
        if i < n:
            lines.append(",".join([f"k{i}", *map(repr, map(float, X[i])), ""]))
            events.append(("row", i))
        if i >= lag and i - lag not in missing:
            lines.append(f"k{i - lag},,,,{float(y[i - lag])!r}")
            events.append(("label", i - lag))
    return X, y, lines, events


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_a_row_is_predicted_when_it_comes_and_learned_when_its_label_comes(tmp_path, batch):
    X, y, lines, events = stream()
    (tmp_path / "t.csv").write_text("\n".join(lines))
    more = ("--batch", batch, "--output", tmp_path / "o.csv", "--save", tmp_path / "m")
    outcome = run(tmp_path / "t.csv", *RUN, *more)
    assert outcome.exit_code == 0, outcome.output
    gp, expected = streamgp.StreamingGPRegressor(rank=20, random_state=0), {}
    for start in range(0, len(events), batch):
        part = events[start : start + batch]
        rows, labels = ([i for what, i in part if what == kind] for kind in ("row", "label"))
        if rows and gp.__sklearn_is_fitted__():
            expected |= dict(zip(rows, gp.predict(X[rows], return_std=True)[0], strict=True))
        if labels:
            gp.partial_fit(X[labels], y[labels])
    np.testing.assert_array_equal(streamgp.load(tmp_path / "m").predict(X), gp.predict(X))
    written = [float(row["y_mean"] or "nan") for row in read_rows(tmp_path / "o.csv")]
    np.testing.assert_array_equal(written, [expected.get(i, np.nan) for i in range(200)])
    assert "200 rows, 200 learned" in " ".join(outcome.output.split())
    assert "200 labels came late and were learned; 0 rows wait" in outcome.output


def test_the_error_is_that_of_the_predictions_that_were_given(tmp_path):
    _X, y, lines, _events = stream()
    (tmp_path / "t.csv").write_text("\n".join(lines))
    outcome = run(tmp_path / "t.csv", *RUN, "--batch", 10, "--output", tmp_path / "o.csv")
    mean = np.array([float(row["y_mean"] or "nan") for row in read_rows(tmp_path / "o.csv")])
    rmse = np.sqrt(np.nanmean((mean - y) ** 2))
    assert f"{rmse:.4g}" in outcome.output


def test_a_label_without_a_row_twice_or_never_is_counted_and_changes_nothing(tmp_path):
    _, _, lines, _ = stream(missing=(7, 8))
    (tmp_path / "clean.csv").write_text("\n".join(lines))
    extra = ["nobody,,,,1e9", "k3,,,,1e9", "k4,1,2,3,1e9", ",,,,5"]
    (tmp_path / "t.csv").write_text("\n".join(lines[:100] + extra + lines[100:]))
    models = []
    for name in ("clean", "t"):
        outcome = run(
            tmp_path / f"{name}.csv", *RUN, "--batch", 1, "--on-error", "skip", "--save", tmp_path / "m"
        )
        assert outcome.exit_code == 0, outcome.output
        models.append(streamgp.load(tmp_path / "m"))
    assert models[0].n_samples_seen_ == 198
    X = random_rows(20, 3)[0]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))
    assert "2 rows wait for theirs" in outcome.output
    assert "2 lines with a label of no row that is known" in outcome.output
    assert "2 labels that were known before" in outcome.output


def test_memory_is_bounded_and_the_oldest_makes_place(tmp_path):
    _, _, lines, _ = stream(lag=15)
    (tmp_path / "t.csv").write_text("\n".join(lines))
    outcome = run(tmp_path / "t.csv", *RUN, "--batch", 1, "--max-ids", 16, "--save", tmp_path / "m")
    assert streamgp.load(tmp_path / "m").n_samples_seen_ == 200
    outcome = run(tmp_path / "t.csv", *RUN, "--batch", 1, "--max-ids", 10, "--save", tmp_path / "m")
    assert streamgp.load(tmp_path / "m").n_samples_seen_ == 10  # the last rows, after which none came
    assert "190 rows given up" in outcome.output
    assert "190 lines with a label of no row" in outcome.output


def test_labels_of_several_targets_come_one_by_one(tmp_path):
    X, y = random_rows(150)
    lines = ["key,a,b,c,u,v"]
    for i in range(150):
        lines.append(",".join([f"k{i}", *map(repr, map(float, X[i])), repr(float(y[i])), ""]))
        if i >= 5 and i % 3:
            lines.append(f"k{i - 5},,,,,{-float(y[i - 5])!r}")
    (tmp_path / "t.csv").write_text("\n".join(lines))
    outcome = run(
        tmp_path / "t.csv",
        "--target",
        "u,v",
        "--id",
        "key",
        "--rank",
        20,
        "--batch",
        50,
        "--save",
        tmp_path / "m",
    )
    assert outcome.exit_code == 0, outcome.output
    assert "150 rows, 150 learned" in " ".join(outcome.output.split())
    assert "97 labels came late" in outcome.output
    gp = streamgp.load(tmp_path / "m")
    error = gp.predict(X) - np.stack([y, -y], axis=1)
    assert (np.sqrt((error**2).mean(axis=0)) < 0.5 * y.std()).all()  # both are learned


@pytest.mark.parametrize("end", ["csv", "jsonl"])
def test_labels_may_come_in_a_file_of_their_own_the_next_day(tmp_path, end):
    """The columns of the features are not there; rows that wait are saved with the model, or in the checkpoint."""
    import pandas as pd

    X, y = random_rows(150)
    keys = [f"k{i}" for i in range(150)]
    table = pd.DataFrame(X, columns=list("abc")).assign(key=keys, y=[*y[:100], *[np.nan] * 50])
    table.to_csv(tmp_path / "t.csv", index=False)
    outcome = run(tmp_path / "t.csv", *RUN, "--save", tmp_path / "m.gp")
    assert "50 rows wait for theirs" in outcome.output
    labels = pd.DataFrame({"key": keys[100:], "y": y[100:]})
    if end == "csv":
        labels.to_csv(tmp_path / "l.csv", index=False)
    else:
        labels.to_json(tmp_path / "l.jsonl", orient="records", lines=True, double_precision=15)
    outcome = run(tmp_path / f"l.{end}", "--start-from", tmp_path / "m.gp", "--save", tmp_path / "m.gp")
    assert outcome.exit_code == 0, outcome.output
    assert "50 labels came late and were learned; 0 rows wait" in outcome.output
    gp = streamgp.StreamingGPRegressor(rank=20, random_state=0).partial_fit(X[:100], y[:100])
    gp.predict(X[100:], return_std=True)
    gp.partial_fit(X[100:], y[100:])
    saved = streamgp.load(tmp_path / "m.gp")
    assert saved.n_samples_seen_ == 150
    np.testing.assert_allclose(saved.predict(X), gp.predict(X), rtol=1e-6)


def test_a_run_with_labels_on_later_lines_is_resumed_bit_for_bit(tmp_path):
    _, _, lines, _ = stream(n=150)
    for name, ends in (("once", [400]), ("thrice", [90, 91, 400])):
        for end in ends:
            (tmp_path / "t.csv").write_text("\n".join(lines[:end]) + "\n")
            more = (
                "--checkpoint",
                tmp_path / name,
                "--output",
                tmp_path / f"{name}.csv",
                "--resume",
                "--batch",
                1,
            )
            outcome = run(tmp_path / "t.csv", *RUN, *more)
            assert outcome.exit_code == 0, outcome.output
    assert (tmp_path / "once.csv").read_text() == (tmp_path / "thrice.csv").read_text()


def test_saved_waiting_rows_are_restored():
    late = LateLabels(3).remember(
        ["a", "b", "c", "", "d"], np.arange(5), np.eye(5), np.full((5, 2), np.nan), np.ones((4, 5, 2))
    )
    assert list(late.waiting) == ["b", "c", "d"]
    assert late.given_up == 1
    for one in (late, LateLabels(5)):
        again = LateLabels.from_dict(one.to_dict())
        assert list(again.waiting) == list(one.waiting)
        for key, entry in one.waiting.items():
            for name in ("row", "x", "known", "answer"):
                np.testing.assert_array_equal(getattr(entry, name), getattr(again.waiting[key], name))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--id", "key", "--delay", "5"), "--id and --delay"),
        (("--id", "a,b"), "none of the columns"),
        (("--id", "y"), "no target"),
    ],
)
def test_keys_that_cannot_be_are_refused(tmp_path, more, said):
    _, _, lines, _ = stream(n=20)
    (tmp_path / "t.csv").write_text("\n".join(lines))
    outcome = run(tmp_path / "t.csv", "--target", "y", *more)
    assert outcome.exit_code == 2
    assert said in " ".join(outcome.output.split())
