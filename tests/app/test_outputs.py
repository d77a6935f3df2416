"""Files of predictions: CSV and Parquet, cut to the checkpoint."""

import pandas as pd

import streamgp
from app.helpers import read_rows, run, write_csv


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
