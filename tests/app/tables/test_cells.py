"""Cells of files as plants send them: decimal commas, codes for 'missing', names, encodings, empty lines."""

import numpy as np
import pytest

from app.helpers import random_rows, run
from streamgp.app.tables import ReadOptions, open_table
from streamgp.app.tables.base import numbered
from streamgp.app.tables.cells import Cells
from streamgp.errors import DataError


def rows_of(path, features, targets=(), texts=(), batch=1000, **options):
    """Every row of a file as X, y and texts, and its bad rows."""
    parts = list(open_table(str(path), ReadOptions(**options)).batches(features, targets, batch, texts))
    X, y, cells = (np.concatenate([getattr(p, name) for p in parts]) for name in ("X", "y", "texts"))
    return X, y, cells, [row for p in parts for row in p.bad]


@pytest.mark.parametrize(
    "text", ["", " ", "NA", "na", "NaN", "nan", "NULL", "null", "-200", "-200.0", " -2e2", "?"]
)
def test_cells_that_mean_missing_are_nan_whatever_their_spelling(tmp_path, text):
    (tmp_path / "t.csv").write_text(f"a,b,y\n1,2,3\n{text},5,{text}\n")
    X, y, _, bad = rows_of(tmp_path / "t.csv", "ab", "y", missing=("-200", "?"))
    np.testing.assert_array_equal(X, [[1, 2], [np.nan, 5]])
    np.testing.assert_array_equal(y, [[3], [np.nan]])
    assert bad == []


@pytest.mark.parametrize("text", ["-200", "?", "N A", "1_0", "٣", "inf", "-inf", "1e999", "0x1", "1,5", "−1"])
def test_other_cells_that_are_no_finite_numbers_are_bad(tmp_path, text):
    (tmp_path / "t.csv").write_text(f"a;b;y\n1;2;3\n{text};5;6\n")
    _, _, _, bad = rows_of(tmp_path / "t.csv", "ab", "y")
    assert [row.line for row in bad] == ([] if text == "-200" else [3])
    assert all(row.reason.startswith("a=") for row in bad)


def test_a_decimal_comma_gives_the_numbers_of_a_decimal_point_and_a_mixture_is_bad(tmp_path):
    X = random_rows(50)[0].round(5)
    for name, sign in (("point", "."), ("comma", ",")):
        lines = [";".join(repr(float(v)).replace(".", sign) for v in x) for x in X]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a;b;c", *lines]))
    got = [
        rows_of(tmp_path / f"{name}.csv", "abc", decimal=sign)[0]
        for name, sign in (("point", "."), ("comma", ","))
    ]
    np.testing.assert_array_equal(*got)
    # 1.234 may be a thousand and a bit where a comma is the decimal sign.
    (tmp_path / "mixed.csv").write_text("a;b\n1,5;2\n1.234;2\n1.234,5;2\n")
    assert [row.line for row in rows_of(tmp_path / "mixed.csv", "ab", decimal=",")[3]] == [3, 4]


def test_the_error_about_the_other_decimal_sign_names_the_remedy(tmp_path):
    (tmp_path / "t.csv").write_text("a;y\n1,5;2\n")
    outcome = run(tmp_path / "t.csv", "--target", "y")
    assert outcome.exit_code == 1
    assert "with --decimal , it would be" in " ".join(outcome.output.split())
    with pytest.raises(ValueError, match="with --decimal \\. it would be"):
        Cells(",").number("2.5")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_json_and_parquet_have_the_same_missing_values(tmp_path, kind):
    import pandas as pd

    path = tmp_path / f"t.{kind}"
    if kind == "jsonl":
        path.write_text(
            '{"a": 1, "s": "x", "y": -200}\n{"a": -200.0, "s": null, "y": 2}\n{"s": "NA"}\n'
            '{"a": "n/a", "s": 3, "y": null}\n'
        )
    else:
        frame = {"a": [1.0, -200.0, None, None], "s": ["x", None, "NA", "3"], "y": [-200.0, 2, None, None]}
        pd.DataFrame(frame).to_parquet(path)
    X, y, texts, bad = rows_of(path, "a", "y", "s", missing=("-200", "n/a"))
    np.testing.assert_array_equal(X[:, 0], [1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(y[:, 0], [np.nan, 2, np.nan, np.nan])
    assert texts[:, 0].tolist() == ["x", "", "", "3"]
    assert bad == []


def test_columns_without_a_name_or_with_that_of_another_are_numbered():
    assert numbered(["a", "", "a", "b", "a", ""]) == (
        ["a", "column 2", "a.2", "b", "a.3", "column 6"], ["column 2", "column 6"]
    )  # fmt: skip
    names, unnamed = numbered(["a", "a", "a.2", "column 4", "", "column 5"])
    assert len(set(names)) == 6
    assert unnamed == [names[4]]
    assert numbered(["x", "y"]) == (["x", "y"], [])


def test_columns_without_a_name_are_left_out_unless_they_are_asked_for(tmp_path):
    X, y = random_rows(60)
    lines = [f"{i};{a};{b};{t};" for i, ((a, b, _), t) in enumerate(zip(X, y, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join([";a;a;y;", *lines]))
    command = (tmp_path / "t.csv", "--target", "y", "--rank", 10)
    outcome = run(*command)
    assert outcome.exit_code == 0, outcome.output
    assert "since they have no name: column 1, column 5" in outcome.output
    assert "60 rows, 60 learned" in " ".join(outcome.output.split())
    assert run(*command, "--features", "column 1,a.2").exit_code == 0


@pytest.mark.parametrize(
    "given",
    [
        ("--target", '"load, kN"', "--target", "b"),
        ("--target", "load, kN", "--target", "b"),
        ("--target", 'b,"load, kN"'),
        ("--target", "b,load, kN"),
    ],
)
def test_names_with_commas_are_quoted_or_repeated(tmp_path, given):
    lines = [f"{i % 7},{i % 5},{i % 3}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(['"load, kN",a,b', *lines]))
    outcome = run(tmp_path / "t.csv", *given, "--rank", 10, "--output", tmp_path / "o.csv")
    assert outcome.exit_code == 0, outcome.output
    assert '"load, kN' in (tmp_path / "o.csv").read_text().splitlines()[0]


def test_text_has_the_encoding_that_is_named(tmp_path):
    (tmp_path / "t.csv").write_bytes("T [°C];Größe\n1;klein\n2;groß\n".encode("cp1252"))
    X, _, texts, _ = rows_of(tmp_path / "t.csv", ["T [°C]"], texts=["Größe"], encoding="cp1252")
    assert texts[:, 0].tolist() == ["klein", "groß"]
    np.testing.assert_array_equal(X[:, 0], [1, 2])


def test_lines_of_delimiters_alone_are_no_rows_and_are_counted(tmp_path):
    X, y = random_rows(50)
    lines = [f"{a};{b};{t};;" for (a, b, _), t in zip(X, y, strict=True)]
    text = "\n".join(["a;b;y;;", *lines]) + "\n" + ";;;;\r\n" * 3000 + "\n" * 20
    (tmp_path / "t.csv").write_text(text)
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 10)
    assert outcome.exit_code == 0, outcome.output
    assert "50 rows, 50 learned" in " ".join(outcome.output.split())
    assert "3,000 empty lines" in outcome.output


def test_a_name_that_is_no_column_is_still_an_error(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n")
    with pytest.raises(DataError, match="folder"):
        open_table(str(tmp_path), ReadOptions(format="csv"))
    assert "none of the columns a, y" in run(tmp_path / "t.csv", "--target", "z,a").output
