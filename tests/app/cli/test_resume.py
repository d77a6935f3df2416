"""Runs that were killed, stopped or have more to read: resumed from a checkpoint."""

import json
import signal
import subprocess
import time

import numpy as np
import pytest

import streamgp
from app.helpers import process, random_rows, run, state, write_csv, write_formats


def written(path, times, child):
    """Wait until a process has replaced a file so many times, or has ended."""
    last, seen = path.stat().st_mtime_ns if path.exists() else 0, 0
    while seen < times and child.poll() is None:
        now = path.stat().st_mtime_ns if path.exists() else 0
        seen, last = seen + (now != last), now
        time.sleep(0.0005)


@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet"])
def test_a_killed_run_resumes_with_no_row_lost_or_learned_twice(tmp_path, end):
    X, y = random_rows(3000)
    source = dict(zip(("csv", "tsv", "jsonl", "parquet"), write_formats(tmp_path, X, y), strict=True))[end]

    def command(name):
        return (
            "run", source, "--target", "y", "--rank", 60, "--batch", 50, "--every", 100, "--resume",
            "--output", tmp_path / f"{name}.csv", "--checkpoint", tmp_path / f"{name}.gp",
        )  # fmt: skip

    with process(*command("whole")) as child:
        assert child.wait() == 0, child.stderr.read()
    rng = np.random.default_rng(0)
    for _ in range(5):
        # Killed after a few of 30 checkpoints, at any moment until the next one.
        child = process(*command("killed"))
        written(tmp_path / "killed.gp", int(rng.integers(1, 6)), child)
        time.sleep(rng.uniform(0, 0.02))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert child.returncode == -signal.SIGKILL
    with process(*command("killed")) as child:
        assert child.wait() == 0, child.stderr.read()
    assert (tmp_path / "killed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert state(tmp_path / "killed.gp") == {**state(tmp_path / "whole.gp")}


def test_a_file_that_has_grown_is_resumed(tmp_path):
    write_csv(tmp_path / "t.csv", 200)
    whole = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    (tmp_path / "t.csv").write_text("".join(whole[:101]))
    command = (
        tmp_path / "t.csv", "--target", "y", "--rank", 20, "--checkpoint", tmp_path / "c.gp", "--resume",
    )  # fmt: skip
    assert run(*command).exit_code == 0
    (tmp_path / "t.csv").write_text("".join(whole))
    outcome = run(*command)
    assert outcome.exit_code == 0, outcome.output
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 200


def test_what_does_not_belong_to_a_checkpoint_is_refused(tmp_path):
    write_csv(tmp_path / "t.csv", 200)
    write_csv(tmp_path / "other.csv", 200, seed=1)
    common = ("--target", "y", "--rank", 20, "--checkpoint", tmp_path / "c.gp")
    assert run(tmp_path / "t.csv", *common).exit_code == 0
    for arguments, said in (
        ((tmp_path / "t.csv", *common), "--resume"),
        ((tmp_path / "other.csv", *common, "--resume"), "is not the input of"),
        ((tmp_path / "t.csv", *common, "--resume", "--delimiter", ";"), "--delimiter"),
        ((tmp_path / "t.csv", *common, "--resume", "--ignore", "a"), "--ignore"),
        ((tmp_path / "t.csv", *common, "--resume", "--columns", "c,b,a,y"), "--columns"),
        ((tmp_path / "t.csv", *common, "--resume", "--output", tmp_path / "precious.csv"), "no --output"),
        ((tmp_path / "t.csv", *common, "--resume", "--rank", 30), "--rank 20"),
        ((tmp_path / "t.csv", *common, "--resume", "--target", "a"), "--target y"),
    ):
        outcome = run(*arguments)
        assert outcome.exit_code in (1, 2)
        assert said in outcome.output
    streamgp.load(tmp_path / "c.gp").save(tmp_path / "c.gp")
    assert "no run to resume" in run(tmp_path / "t.csv", *common, "--resume").output
    (tmp_path / "c.gp").write_bytes(b"something else")
    assert "not a streamgp checkpoint" in run(tmp_path / "t.csv", *common, "--resume").output


def test_standard_input_that_is_a_file_is_resumed(tmp_path):
    write_csv(tmp_path / "t.csv", 120)
    command = (
        "run", "-", "--target", "y", "--rank", 20, "--checkpoint", tmp_path / "c.gp", "--resume", "--quiet",
    )  # fmt: skip
    for _ in range(2):
        with (tmp_path / "t.csv").open() as file, process(*command, stdin=file) as child:
            assert child.wait() == 0, child.stderr.read()
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 120


def test_a_pipe_with_other_columns_is_refused_and_an_empty_one_adds_nothing(tmp_path):
    write_csv(tmp_path / "t.csv", 120)
    command = (
        "-", "--target", "y", "--rank", 20, "--checkpoint", tmp_path / "c.gp", "--resume", "--output", "-",
    )  # fmt: skip
    text = (tmp_path / "t.csv").read_text()
    assert run(*command, input=text).exit_code == 0
    body = text.split("\n", 1)[1]
    outcome = run(*command, "--on-error", "skip", input="c,b,a,y\n" + body)
    assert outcome.exit_code == 1
    assert "columns" in outcome.output
    outcome = run(*command, input="")
    assert outcome.exit_code == 0, outcome.output
    assert "line,y" not in outcome.stdout
    assert run(*command, input=text).exit_code == 0  # the same header again, then rows
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 240


def test_a_quarantine_may_be_added_when_a_run_is_resumed(tmp_path):
    write_csv(tmp_path / "t.csv", 300, l222="1,2,oops,4")
    common = (
        tmp_path / "t.csv", "--target", "y", "--rank", 10, "--checkpoint", tmp_path / "c.gp", "--resume",
    )  # fmt: skip
    assert run(*common).exit_code == 1
    outcome = run(*common, "--on-error", "quarantine", "--quarantine", tmp_path / "q.jsonl")
    assert outcome.exit_code == 0, outcome.output
    assert json.loads((tmp_path / "q.jsonl").read_text())["line"] == 222


def test_files_that_a_killed_process_left_are_removed(tmp_path):
    write_csv(tmp_path / "t.csv", 100)
    (tmp_path / ".c.gp.123.tmp").write_bytes(b"half")
    assert (
        run(tmp_path / "t.csv", "--target", "y", "--rank", 10, "--checkpoint", tmp_path / "c.gp").exit_code
        == 0
    )
    assert not (tmp_path / ".c.gp.123.tmp").exists()


def test_a_stream_that_is_slow_is_saved_after_some_seconds(tmp_path):
    write_csv(tmp_path / "t.csv", 60)
    command = ("run", "-", "--target", "y", "--rank", 20, "--checkpoint", tmp_path / "c.gp", "--max-wait", 50)
    with process(*command, "--seconds", 0.3, stdin=subprocess.PIPE) as child:
        child.stdin.write((tmp_path / "t.csv").read_bytes())
        child.stdin.flush()
        for _ in range(600):
            if (tmp_path / "c.gp").exists():
                break
            time.sleep(0.05)
        assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 60
        child.stdin.close()
        assert child.wait() == 0
