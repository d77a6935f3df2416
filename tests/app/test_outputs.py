"""Files of predictions: CSV and Parquet, cut to the checkpoint."""

import numpy as np
import pandas as pd
import pytest

import streamgp
from app.helpers import random_rows, read_rows, run, write_csv


def test_parquet_output_holds_what_csv_output_holds(tmp_path):
    write_csv(tmp_path / "t.csv", 300)
    for end in ("csv", "parquet"):
        assert (
            run(
                tmp_path / "t.csv", "--target", "y", "--rank", 30, "--output", tmp_path / f"o.{end}"
            ).exit_code
            == 0
        )
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "o.csv"), pd.read_parquet(tmp_path / "o.parquet"))


def test_what_was_predicted_before_a_bad_row_is_kept_in_parquet_too(tmp_path):
    write_csv(tmp_path / "t.csv", 300, l222="1,2,oops,4")
    more = ("--output", tmp_path / "o.parquet", "--save", tmp_path / "m.gp")
    assert run(tmp_path / "t.csv", "--target", "y", "--rank", 20, *more).exit_code == 1
    assert len(pd.read_parquet(tmp_path / "o.parquet")) == 200
    assert streamgp.load(tmp_path / "m.gp").n_samples_seen_ == 200


def test_what_a_killed_process_wrote_after_its_last_checkpoint_is_cut_off(tmp_path):
    write_csv(tmp_path / "t.csv", 400)
    common = (tmp_path / "t.csv", "--target", "y", "--rank", 10, "--resume")
    kept = ("--checkpoint", tmp_path / "c.gp", "--output", tmp_path / "o.csv")
    assert run(*common, *kept).exit_code == 0
    with open(tmp_path / "o.csv", "a") as file:
        file.write("half a row of a run that was killed, longer than what comes in its place\n" * 1000)
    with open(tmp_path / "t.csv", "a") as file:
        file.write("1,1,1,1\n")
    assert run(*common, *kept).exit_code == 0
    assert len(read_rows(tmp_path / "o.csv")) == 401
    assert "killed" not in (tmp_path / "o.csv").read_text()


@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet"])
def test_outputs_hold_what_was_measured_and_the_columns_that_are_kept(tmp_path, end):
    X, y = random_rows(150)
    keys = [f'tank "{i}", north' for i in range(150)]
    labels = [None if i % 7 == 0 else t for i, t in enumerate(y)]
    table = pd.DataFrame({"key, id": keys, "when": "2026-01-01", "a": X[:, 0], "b": X[:, 1], "wear": labels})
    table.loc[20, "when"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    outcome = run(
        tmp_path / "t.csv", "--target", "wear", "--rank", 20, "--features", "a,b", "--keep", '"key, id",when',
        "--output", tmp_path / f"o.{end}",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    read = {
        "csv": pd.read_csv,
        "jsonl": lambda p: pd.read_json(p, lines=True, precise_float=True),
        "parquet": pd.read_parquet,
    }[end]
    got = read(tmp_path / f"o.{end}")
    ends = ["wear_measured", "wear_mean", "wear_std", "wear_low", "wear_high"]
    assert list(got.columns) == ["line", "key, id", "when", *ends]
    assert got["key, id"].tolist() == keys
    np.testing.assert_allclose(got["wear_measured"].astype(float), table["wear"], rtol=1e-14)
    assert got["wear_mean"].isna().sum() == 100  # the first batch
    assert not got["when"][20] if end != "csv" else pd.isna(got["when"][20])


@pytest.mark.parametrize("end", ["csv", "jsonl"])
def test_lines_of_predictions_are_resumed_with_their_kept_columns(tmp_path, end):
    write_csv(tmp_path / "t.csv", 300)
    whole = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    outs = []
    for ends in ([301], [120, 301]):
        out = tmp_path / f"o{len(ends)}.{end}"
        for n in ends:
            (tmp_path / "t.csv").write_text("".join(whole[:n]))
            outcome = run(
                tmp_path / "t.csv", "--target", "y", "--rank", 10, "--batch", 7, "--keep", "b", "--output", out,
                "--checkpoint", tmp_path / f"c{len(ends)}", "--resume",
            )  # fmt: skip
            assert outcome.exit_code == 0, outcome.output
        outs.append([line.split(",")[:3] for line in out.read_text().splitlines()])
    assert outs[0] == outs[1]
    assert len(outs[0]) == 300 + (end == "csv")


def test_a_kept_column_that_is_not_there_or_has_the_name_of_a_prediction_is_refused(tmp_path):
    X, y = random_rows(60)
    pd.DataFrame({"a": X[:, 0], "y_std": 1, "y": y}).to_csv(tmp_path / "t.csv", index=False)
    for keep, said in (("no", "--keep no is none of the columns"), ("y_std", "two columns called y_std")):
        outcome = run(tmp_path / "t.csv", "--target", "y", "--keep", keep, "--output", tmp_path / "o.csv")
        assert outcome.exit_code == 2
        assert said in " ".join(outcome.output.split())
