"""`streamgp run` as a process: signals, closed pipes, messages."""

import signal
import subprocess
import sys
import time

import streamgp
from app.helpers import process, run, wait_for_signal_handlers, write_csv


def test_a_closed_output_pipe_gives_no_traceback(tmp_path):
    write_csv(tmp_path / "t.csv", 4000)
    command = f"{sys.executable} -m streamgp run {tmp_path}/t.csv --target y --rank 20 --output - | head -n 2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith("line,y")
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_ctrl_c_finishes_the_batch_saves_and_says_how_to_resume(tmp_path):
    write_csv(tmp_path / "t.csv", 150)
    text = (tmp_path / "t.csv").read_bytes()
    command = (
        "run", "-", "--target", "y", "--rank", 20, "--batch", 50, "--checkpoint", tmp_path / "c.gp",
        "--output", "-",
    )  # fmt: skip
    with process(*command, stdin=subprocess.PIPE) as child:
        child.stdin.write(text)
        child.stdin.flush()
        for _ in range(151):
            child.stdout.readline()
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=20) == 130
        said = child.stderr.read().decode()
        child.stdin.close()
    assert "--resume continues after line 151" in said
    assert "Traceback" not in said
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 150
    # A resumed pipe continues with what its writer sends, or with --replay starts from its beginning.
    more = "".join((tmp_path / "t.csv").read_text().splitlines(keepends=True)[1:31])
    outcome = run(*command[1:], "--resume", input=more)
    assert outcome.exit_code == 0, outcome.output
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 180
    outcome = run(*command[1:], "--resume", "--replay", input=text.decode() + more + more)
    assert outcome.exit_code == 0, outcome.output
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 210


def test_ctrl_c_before_the_first_line_is_130():
    with process("run", "-", "--target", "y", stdin=subprocess.PIPE) as child:
        wait_for_signal_handlers(child)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=20) == 130
        assert b"Traceback" not in child.stderr.read()


def test_a_run_that_learned_nothing_says_so(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,\n2,\n")
    outcome = run(tmp_path / "t.csv", "--target", "y", "--save", tmp_path / "m.gp")
    assert outcome.exit_code == 0
    assert "nothing was learned" in outcome.output
