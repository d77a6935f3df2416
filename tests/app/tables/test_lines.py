"""Lines of files and pipes: incomplete, too long, blank, late."""

import json
import os
import signal
import subprocess

import pytest

import streamgp
from app.helpers import process, random_rows, read_rows, run, write_csv


def test_rows_of_a_pipe_are_predicted_while_it_is_open(tmp_path):
    write_csv(tmp_path / "t.csv", 150)
    lines = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    with process(
        "run", "-", "--target", "y", "--rank", 20, "--batch", 100, "--output", "-", stdin=subprocess.PIPE
    ) as child:
        child.stdin.write("".join(lines[:131]).encode())
        child.stdin.flush()
        # The last 30 rows are no full batch of 100, and come nevertheless.
        got = [child.stdout.readline() for _ in range(131)]
        assert got[-1].startswith(b"131,")
        child.stdin.write("".join(lines[131:]).encode())
        child.stdin.close()
        assert len(child.stdout.readlines()) == 20
    assert child.returncode == 0


def test_a_named_pipe_is_read_like_standard_input(tmp_path):
    write_csv(tmp_path / "t.csv", 90)
    os.mkfifo(tmp_path / "f")
    command = (
        "run", tmp_path / "f", "--format", "csv", "--target", "y", "--rank", 20, "--batch", 60, "--output",
        "-",
    )  # fmt: skip
    with process(*command) as child:
        with (tmp_path / "f").open("w") as pipe:
            pipe.write((tmp_path / "t.csv").read_text())
            pipe.flush()
            got = [child.stdout.readline() for _ in range(91)]
            assert got[-1].startswith(b"91,")
            child.send_signal(signal.SIGINT)
            assert child.wait(timeout=20) == 130
        child.stdout.read()


def test_a_line_that_does_not_end_yet_is_left_for_the_next_run(tmp_path):
    write_csv(tmp_path / "whole.csv", 200)
    text = (tmp_path / "whole.csv").read_bytes()
    (tmp_path / "t.csv").write_bytes(text[:-4])
    command = (
        tmp_path / "t.csv", "--target", "y", "--rank", 20, "--checkpoint", tmp_path / "c.gp", "--resume",
    )  # fmt: skip
    outcome = run(*command)
    assert outcome.exit_code == 0, outcome.output
    assert "has no line end yet" in outcome.output
    (tmp_path / "t.csv").write_bytes(text)
    assert run(*command, "--report", tmp_path / "r.html").exit_code == 0
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 200
    # A supervisor may repeat the same command with nothing left to read.
    assert run(*command, "--report", tmp_path / "r.html").exit_code == 0
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 200


def test_a_byte_order_mark_is_ignored_and_a_line_that_is_too_long_is_one_bad_row(tmp_path, monkeypatch):
    from streamgp.app.tables import lines

    monkeypatch.setattr(lines, "_LONGEST_LINE", 1000)
    write_csv(tmp_path / "plain.csv", 100, l50="x" * 5000 + "1,2,3,4")
    text = (tmp_path / "plain.csv").read_text()
    (tmp_path / "t.csv").write_text("\ufeff" + text)
    body = text.split("\n", 1)[1]
    (tmp_path / "u.csv").write_text("\ufeff" + body)
    common = ("--rank", 20, "--on-error", "skip")
    for outcome in (
        run(tmp_path / "t.csv", "--target", "y", *common),
        run(tmp_path / "u.csv", "--no-header", "--target", "4", *common),
        run("-", "--target", "y", *common, input=text),
    ):
        assert outcome.exit_code == 0, outcome.output
        assert "1 bad rows" in outcome.output
        assert "100 rows, 99 learned" in " ".join(outcome.output.split())


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_blank_lines_at_the_beginning_count_in_line_numbers(tmp_path, kind):
    X, y = random_rows(60)
    if kind == "csv":
        lines = [",".join(map(repr, [*map(float, x), float(t)])) for x, t in zip(X, y, strict=True)]
        more = ("--columns", "a,b,c,y")
    else:
        lines = [json.dumps({"a": float(x[0]), "y": float(t)}) for x, t in zip(X, y, strict=True)]
        more = ()
    path, out = tmp_path / f"t.{kind}", tmp_path / "o.csv"
    command = (
        path, "--target", "y", "--rank", 10, "--batch", 20, *more, "--checkpoint", tmp_path / "c.gp",
        "--resume",
    )  # fmt: skip
    for n in (40, 60):
        path.write_text("\n" * 7 + "\n".join(lines[:n]) + "\n")
        outcome = run(*command, "--output", out)
        assert outcome.exit_code == 0, outcome.output
    assert [int(r["line"]) for r in read_rows(out)] == list(range(8, 68))
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 60


@pytest.mark.parametrize(("wait", "most"), [(60, 25), (100_000, 100)])
def test_rows_of_a_pipe_that_never_rests_are_passed_on_in_time(wait, most):
    """A row every 10 ms: no second of silence, and a batch of 100 would take one."""
    import threading
    import time

    from streamgp.app.tables import ReadOptions, open_table

    end, begin = os.pipe()

    def send():
        with os.fdopen(begin, "w") as pipe:
            pipe.write("a,y\n")
            for i in range(120):
                pipe.write(f"{i},1\n")
                pipe.flush()
                time.sleep(0.01)

    sender = threading.Thread(target=send)
    sender.start()
    options = ReadOptions(format="csv", max_wait=wait / 1000)
    sizes = [len(rows.y) for rows in open_table(f"/dev/fd/{end}", options).batches("a", "y", 100)]
    sender.join()
    os.close(end)
    assert sum(sizes) == 120
    # 60 ms hold about 6 rows; a loaded machine may be late by a few, not by a second.
    assert max(sizes) <= most
    assert (len(sizes) > 4) == (wait == 60)
