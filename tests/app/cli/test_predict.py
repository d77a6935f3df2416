"""`streamgp predict`."""

import numpy as np
import pandas as pd

import streamgp
from app.helpers import invoke, process, random_rows, run, write_csv


def test_predict_matches_columns_by_name_and_learns_nothing(tmp_path):
    write_csv(tmp_path / "t.csv", 300)
    assert run(tmp_path / "t.csv", "--target", "y", "--rank", 30, "--save", tmp_path / "m.gp").exit_code == 0
    X, _y = random_rows(40, 7)
    pd.DataFrame({"c": X[:, 2], "x": "text", "a": X[:, 0], "b": X[:, 1]}).to_csv(
        tmp_path / "new.csv", index=False
    )
    before = (tmp_path / "m.gp").read_bytes()
    outcome = invoke("predict", tmp_path / "m.gp", tmp_path / "new.csv", "--output", tmp_path / "o.csv")
    assert outcome.exit_code == 0, outcome.output
    mean, _low, high = streamgp.load(tmp_path / "m.gp").predict(X, return_interval=0.9)
    got = pd.read_csv(tmp_path / "o.csv")
    np.testing.assert_allclose(got["y_mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(got["y_high"], high, rtol=1e-9)
    assert (tmp_path / "m.gp").read_bytes() == before
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    outcome = invoke("predict", tmp_path / "m.gp", tmp_path / "bad.csv")
    assert outcome.exit_code == 1
    assert "lacks the column 'c'" in outcome.output


def test_predict_writes_parquet_but_not_over_its_model(tmp_path):
    write_csv(tmp_path / "t.csv", 100)
    assert run(tmp_path / "t.csv", "--target", "y", "--rank", 10, "--save", tmp_path / "m.gp").exit_code == 0
    command = ("predict", tmp_path / "m.gp", tmp_path / "t.csv", "--output")
    outcome = invoke(*command, tmp_path / "o.parquet")
    assert outcome.exit_code == 0, outcome.output
    assert len(pd.read_parquet(tmp_path / "o.parquet")) == 100
    assert invoke(*command, tmp_path / "m.gp").exit_code == 2


def test_a_model_from_python_keeps_its_names_in_the_shell(tmp_path):
    X, y = random_rows(100)
    frame = pd.DataFrame(X, columns=list("abc"))
    streamgp.StreamingGPRegressor(rank=20, random_state=0).fit(frame, pd.Series(y, name="wear")).save(
        tmp_path / "m.gp"
    )
    frame.assign(wear=y).to_csv(tmp_path / "t.csv", index=False)
    with process("predict", tmp_path / "m.gp", tmp_path / "t.csv") as child:
        out, said = child.communicate()
    assert out.startswith(b"line,wear_measured,wear_mean,wear_std,wear_low,wear_high\n")
    assert b"wear" in said
    assert b"Warning" not in said
