"""The check of damaged lines: it finds rows that are no rows, rows left out, and none else."""

import numpy as np
import pytest

from experiments.checks.fuzz_lines import Dialect, check, fuzz

PLAIN = Dialect(",", ".", "\n", weighted=False)
FILE = b"when,a,b,y\n0,1,2,3\n1,4,,6\n2,x,8,9\n3,1,1\n4,-200,,5\n5,7,8,\n6,1e200,1,1\n7,3,2,1"
NAN = float("nan")
ROWS = [(1.0, 2.0, 3.0, 1.0), (4.0, NAN, 6.0, 1.0), (1e200, 1.0, 1.0, 1.0), (3.0, 2.0, 1.0, 1.0)]


def test_the_rows_of_a_file_are_those_that_can_be_learned():
    check(ROWS, FILE, PLAIN)
    check([row for row in ROWS if row[0] < 1e100], FILE, PLAIN)  # the model refuses absurd numbers


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_row_that_was_left_out_is_found(at):
    with pytest.raises(AssertionError, match="was not learned"):
        check(ROWS[:at] + ROWS[at + 1 :], FILE, PLAIN)


@pytest.mark.parametrize("wrong", [(8.0, 8.0, 9.0, 1.0), (1.0, 2.0, 3.0, 1.0), (3.0, 2.0, 1.0, 4.0)])
def test_a_row_that_is_none_or_comes_twice_or_has_another_weight_is_found(wrong):
    with pytest.raises(AssertionError):
        check([*ROWS, wrong], FILE, PLAIN)


def test_quotes_decimal_commas_and_weights_are_read_as_the_dialect_has_them():
    dialect = Dialect(";", ",", "\r\n", weighted=True)
    assert dialect.row(b'x;"1,5";2,;,5;-3e1\r') == (1.5, 2.0, -30.0, 0.5)
    for line in (b"x;1.5;2;1;3", b"x;1;2;0;3", b"x;1;2;;3", b'x;"1;2;1;3', b"x;;NA;1;3"):
        assert dialect.row(line) is None


def test_damaged_lines_are_run_through(tmp_path):
    seen = fuzz(np.random.default_rng(3), 200, tmp_path)
    assert seen["lines"] >= 200
    assert seen["learned"] > 50
