"""Wrong options and inputs: one line and the right exit status."""

import gzip

import pandas as pd
import pytest

from app.helpers import process, run, write_csv


def test_standard_input_that_is_an_output_too_is_refused(tmp_path):
    write_csv(tmp_path / "t.csv", 50)
    before = (tmp_path / "t.csv").read_bytes()
    for more in (("--output", tmp_path / "t.csv"), ("--save", tmp_path / "t.csv")):
        with (
            (tmp_path / "t.csv").open() as file,
            process("run", "-", "--target", "y", *more, stdin=file) as child,
        ):
            assert child.wait() == 2
            child.communicate()
    assert (tmp_path / "t.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["missing.csv", "--target", "y"], 1, "missing.csv"),
        (["t.csv"], 2, "--target"),
        (["t.csv", "--target", "z"], 2, "none of the columns a, b, c, y"),
        (["t.csv", "--target", "y", "--features", "y"], 2, "cannot be a target and a feature"),
        (["t.csv", "--target", "y", "--ignore", "a,b,c"], 2, "no column is left"),
        (["t.csv", "--target", "y", "--level", "nan"], 2, "nan"),
        (["t.csv", "--target", "y", "--level", "1"], 2, "level"),
        (["t.csv", "--target", "y", "--guard", "nan"], 2, "nan"),
        (["t.csv", "--target", "y", "--rank", "auto", "--method", "rgp"], 2, "rank"),
        (["t.csv", "--target", "y", "--output", "t.csv"], 2, "same file"),
        (["t.csv", "--target", "y", "--save", "t.csv"], 2, "same file"),
        (["t.csv", "--target", "y", "--save", "link.csv"], 2, "same file"),
        (["t.csv", "--target", "y", "--on-error", "quarantine", "--quarantine", "t.csv"], 2, "same file"),
        (["t.csv", "--target", "y", "--output", "x.csv", "--save", "x.csv"], 2, "same file"),
        (["t.csv", "--target", "y", "--checkpoint", "no/such/c.gp"], 2, "no folder"),
        (["t.csv", "--target", "y", "--report", "no/such/r.html"], 2, "no folder"),
        (["std.csv", "--target", "y", "--keep", "y_std", "--output", "o.csv"], 2, "two columns called y_std"),
        (["t.csv.gz", "--target", "y", "--format", "csv"], 1, "gzip"),
        (["t.csv", "--target", "y", "--output", "o.xlsx"], 2, ".csv, .jsonl or .parquet"),
        (["t.csv", "--target", "y", "--on-error", "quarantine"], 2, "given together"),
        (["t.csv", "--target", "y", "--resume"], 2, "--checkpoint"),
        (["t.csv", "--target", "y", "--rank", "0"], 2, "rank"),
        (["t.csv", "--target", "y", "--checkpoint", "c", "--output", "o.parquet"], 2, "CSV"),
        (["t.csv", "--target", "y", "--output", "no/such/folder/o.csv"], 2, "cannot be written"),
        ([".", "--target", "y", "--format", "csv"], 1, "folder"),
        (["t.bin", "--target", "y"], 1, "--format"),
        (["t.csv", "--target", "y", "--delimiter", ",,"], 2, "one character"),
        (["broken.parquet", "--target", "y"], 1, "Parquet"),
        (["text.parquet", "--target", "y"], 1, "does not hold numbers"),
        (["t.csv", "--target", "y", "--columns", "a,a,b,y"], 1, "more than once"),
        (["t.csv", "--target", "y", "--delimiter", ",", "--decimal", ","], 2, "both be a comma"),
        (["t.csv", "--target", "y", "--encoding", "utf-16"], 2, "iconv"),
        (["t.csv", "--target", "y", "--encoding", "klingon"], 2, "latin-1"),
    ],
)
def test_wrong_options_and_inputs_give_one_line_and_the_right_status(
    tmp_path, monkeypatch, arguments, code, said
):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "t.csv", 20)
    (tmp_path / "link.csv").symlink_to(tmp_path / "t.csv")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    (tmp_path / "std.csv").write_text("a,y,y_std\n1,2,3\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    pd.DataFrame({"a": ["x"], "y": [1.0]}).to_parquet(tmp_path / "text.parquet")
    outcome = run(*arguments)
    assert outcome.exit_code == code, outcome.output
    assert said in outcome.output
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit)
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 21
