"""`streamgp run`, `predict` and `info`: real files, real pipes, real processes killed."""

import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import streamgp
from streamgp.app.cli import main
from streamgp.checkpoint import read


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)


def write_csv(path, n=600, seed=0, **lines):
    """Write a table; `lines` replaces single lines of text, by number: l7="…" for line 7."""
    X, y = rows(n, seed)
    text = ["a,b,c,y", *(",".join(map(repr, [*map(float, x), float(t)])) for x, t in zip(X, y, strict=True))]
    for name, line in lines.items():
        text[int(name[1:]) - 1] = line
    path.write_text("\n".join(text) + "\n")
    return X, y


def run(*arguments, **more):
    return CliRunner().invoke(main, ["run", *map(str, arguments)], **more)


def table(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def process(*arguments, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "streamgp", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more,
    )  # fmt: skip


def wait_until_it_listens(child):
    """Wait until a run has its own handlers of signals, however slow the machine."""
    for _ in range(600):
        caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{child.pid}/status").read_text())
        if int(caught.group(1), 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.1)
    raise AssertionError("it never listened")


# The formats


def formats(folder, X, y):
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    frame.to_json(folder / "t.jsonl", orient="records", lines=True, double_precision=15)
    frame.to_parquet(folder / "t.parquet", row_group_size=70)
    return [folder / f"t.{end}" for end in ("csv", "tsv", "jsonl", "parquet")]


def test_every_format_gives_the_predictions_of_the_library(tmp_path):
    X, y = rows(300)
    X, y = X.round(6), y.round(6)
    gp = streamgp.StreamingGPRegressor("squared_exponential", rank=40, random_state=3)
    expected = []
    for i in range(0, 300, 80):
        if i:
            expected.append(gp.predict(X[i : i + 80]))
        gp.partial_fit(X[i : i + 80], y[i : i + 80])
    for path in formats(tmp_path, X, y):
        out = tmp_path / "out.csv"
        outcome = run(path, "--target", "y", "--batch", 80, "--rank", 40, "--seed", 3, "--output", out)
        assert outcome.exit_code == 0, outcome.output
        got = table(out)
        assert [row["y"] for row in got[:80]] == [""] * 80
        np.testing.assert_array_equal([float(r["y"]) for r in got[80:]], np.concatenate(expected))
        first = 2 if path.suffix in (".csv", ".tsv") else 1
        assert [int(r["line"]) for r in got] == list(range(first, first + 300))
        low, mean, high = (np.array([float(r[k]) for r in got[80:]]) for k in ("y_low", "y", "y_high"))
        assert ((low < mean) & (mean < high)).all()


def test_parquet_out_holds_what_csv_out_holds(tmp_path):
    write_csv(tmp_path / "t.csv", 300)
    for end in ("csv", "parquet"):
        assert (
            run(
                tmp_path / "t.csv", "--target", "y", "--rank", 30, "--output", tmp_path / f"o.{end}"
            ).exit_code
            == 0
        )
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "o.csv"), pd.read_parquet(tmp_path / "o.parquet"))


def test_several_targets_features_by_name_and_columns_to_ignore(tmp_path):
    X, y = rows(300)
    frame = pd.DataFrame(X, columns=list("abc")).assign(u=y, v=-y, when="2026-01-01")
    frame.to_csv(tmp_path / "t.csv", index=False)
    outs = []
    for more in (("--features", "a,b", "--features", "c"), ("--ignore", "when")):
        out = tmp_path / "o.csv"
        outcome = run(tmp_path / "t.csv", "--target", "u,v", "--rank", 30, "--output", out, *more)
        assert outcome.exit_code == 0, outcome.output
        outs.append(out.read_text())
    assert outs[0] == outs[1]
    assert outs[0].startswith("line,u,u_std,u_low,u_high,v,v_std,v_low,v_high\n")


def test_a_row_without_a_label_is_predicted_and_not_learned(tmp_path):
    _X, _y = write_csv(tmp_path / "all.csv", 300)
    text = (tmp_path / "all.csv").read_text().splitlines()
    for i in range(150, 160):
        text[i] = text[i].rsplit(",", 1)[0] + ","
    (tmp_path / "some.csv").write_text("\n".join(text))
    outcome = run(
        tmp_path / "some.csv",
        "--target",
        "y",
        "--rank",
        30,
        "--output",
        tmp_path / "o.csv",
        "--save",
        tmp_path / "m",
    )
    assert outcome.exit_code == 0, outcome.output
    assert "10 rows without a label" in outcome.output
    assert all(row["y"] for row in table(tmp_path / "o.csv")[100:])
    assert streamgp.load(tmp_path / "m").n_samples_seen_ == 290


@pytest.mark.parametrize("text", ["1.5,2.5,3.5,4.5\n2,3,4,5\n", ""])
def test_a_first_line_without_names_says_what_to_do(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    outcome = run(tmp_path / "t.csv", "--target", "y")
    assert outcome.exit_code == 1
    assert ("--no-header" in outcome.output) if text else ("empty" in outcome.output)


def test_columns_without_a_header_are_named_by_number_or_by_the_user(tmp_path):
    write_csv(tmp_path / "t.csv", 200)
    body = (tmp_path / "t.csv").read_text().split("\n", 1)[1]
    (tmp_path / "u.csv").write_text(body)
    outs = []
    for path, target, more in (
        ("t", "y", ()),
        ("u", "4", ("--no-header",)),
        ("u", "y", ("--columns", "a,b,c,y")),
    ):
        out = tmp_path / "o.csv"
        assert (
            run(tmp_path / f"{path}.csv", "--target", target, "--rank", 30, "--output", out, *more).exit_code
            == 0
        )
        outs.append([line.split(",")[1:] for line in out.read_text().splitlines()[1:]])
    assert outs[0] == outs[1] == outs[2]


# Pipes


def test_rows_come_out_of_a_pipe_while_it_is_open(tmp_path):
    write_csv(tmp_path / "t.csv", 150)
    lines = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    with process(
        "run", "-", "--target", "y", "--rank", 20, "--batch", 100, "--output", "-", stdin=subprocess.PIPE
    ) as child:
        child.stdin.write("".join(lines[:131]).encode())
        child.stdin.flush()
        got = [
            child.stdout.readline() for _ in range(131)
        ]  # not a full batch of 100: it does not wait for one
        assert got[-1].startswith(b"131,")
        child.stdin.write("".join(lines[131:]).encode())
        child.stdin.close()
        assert len(child.stdout.readlines()) == 20
    assert child.returncode == 0


def test_a_reader_that_goes_away_is_no_traceback(tmp_path):
    write_csv(tmp_path / "t.csv", 4000)
    command = f"{sys.executable} -m streamgp run {tmp_path}/t.csv --target y --rank 20 --output - | head -n 2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith("line,y")
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


# Bad rows

BAD = {
    "l20": "1,2,3",
    "l21": "1,2,3,4,5",
    "l22": "x,2,3,4",
    "l23": "nan,2,3,4",
    "l24": "1,inf,3,4",
    "l25": "1,,3,4",
    "l26": "1,2,3,nan",
    "l27": '1,"2,3,4',
    "l28": "\x00\udcff,1,2,3".encode("utf-8", "surrogateescape").decode("latin-1"),
    "l29": "1,2,3,1e999",
    "l30": "1,2,3,y=4",
}


def test_bad_rows_are_counted_named_by_line_and_never_learned(tmp_path):
    write_csv(tmp_path / "t.csv", 300, **BAD)
    kept = (tmp_path / "t.csv").read_text().split("\n")
    good = [line for i, line in enumerate(kept, 1) if f"l{i}" not in BAD]
    (tmp_path / "good.csv").write_text("\n".join(good))
    common = ("--target", "y", "--rank", 30, "--batch", 1000)
    assert run(tmp_path / "good.csv", *common, "--save", tmp_path / "good.gp").exit_code == 0
    for how in ("skip", "quarantine"):
        more = ("--quarantine", tmp_path / "q.jsonl") if how == "quarantine" else ()
        outcome = run(tmp_path / "t.csv", *common, "--on-error", how, *more, "--save", tmp_path / "m.gp")
        assert outcome.exit_code == 0, outcome.output
        assert "11 bad rows" in outcome.output
        assert "line 20: 3 cells, not 4" in outcome.output
        X = rows(50, 5)[0]
        mine, good_ones = (streamgp.load(tmp_path / name).predict(X) for name in ("m.gp", "good.gp"))
        np.testing.assert_array_equal(mine, good_ones)
    listed = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert [row["line"] for row in listed] == list(range(20, 31))
    assert all(row["reason"] for row in listed)


def test_by_default_the_first_bad_row_stops_the_run_and_names_its_line(tmp_path):
    write_csv(tmp_path / "t.csv", 300, l222="1,2,oops,4")
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 30, "--output", tmp_path / "o.csv")
    assert outcome.exit_code == 1
    assert "line 222: c='oops' is not a number" in outcome.output
    assert len(table(tmp_path / "o.csv")) == 200


def test_bad_json_lines_and_nulls_in_parquet(tmp_path):
    X, y = rows(200)
    lines = [json.dumps({"a": x[0], "b": x[1], "y": t}) for x, t in zip(X.tolist(), y.tolist(), strict=True)]
    lines[30:36] = [
        "{", "[1, 2]", '{"a": true, "b": 1, "y": 2}', '{"a": "3", "b": 1, "y": 2}', '{"b": 1, "y": 2}',
        '{"a": NaN, "b": 1, "y": 2}',
    ]  # fmt: skip
    lines[40] = '{"a": 1, "b": 1, "y": null}'
    lines[41] = f'{{"a": {10**400}, "b": 1, "y": 1}}'
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    outcome = run(tmp_path / "t.jsonl", "--target", "y", "--rank", 30, "--on-error", "skip")
    assert "7 bad rows" in outcome.output, outcome.output
    assert "1 rows without a label" in outcome.output
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    frame.loc[3, "a"] = None
    frame.loc[4, "y"] = None
    frame.loc[5, "b"] = np.inf
    frame.to_parquet(tmp_path / "t.parquet")
    outcome = run(tmp_path / "t.parquet", "--target", "y", "--rank", 30, "--on-error", "skip")
    assert "2 bad rows" in outcome.output, outcome.output
    assert "line 4: a is missing" in outcome.output


def test_the_guard_quarantines_a_broken_sensor(tmp_path):
    write_csv(tmp_path / "t.csv", 400, l333="1e7,1,1,1", l350="0.1,0.1,0.1,-1e9")
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--rank", 30, "--guard", 10,
        "--on-error", "quarantine", "--quarantine", tmp_path / "q.jsonl",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    assert "0 bad rows, 2 impossible ones" in outcome.output
    listed = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert [row["line"] for row in listed] == [333, 350]


def test_targets_beyond_the_range_of_the_model_are_bad_rows(tmp_path):
    write_csv(tmp_path / "t.csv", 300, l200="1,1,1,1e200")
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--rank", 30, "--on-error", "skip", "--save", tmp_path / "m"
    )
    assert outcome.exit_code == 0, outcome.output
    assert "line 200: not to be learned" in outcome.output
    assert streamgp.load(tmp_path / "m").n_samples_seen_ == 299
    assert run(tmp_path / "t.csv", "--target", "y", "--rank", 30).exit_code == 1


# Going on


def state(path):
    """What a checkpoint holds, seconds aside."""

    def plain(value):
        if isinstance(value, np.ndarray):
            return (value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, dict):
            return {
                k: plain(v)
                for k, v in value.items()
                if "seconds" not in str(k) and k not in ("history", "files")
            }
        if isinstance(value, tuple | list):
            return [plain(v) for v in value]
        if hasattr(value, "__dataclass_fields__"):
            return plain({k: getattr(value, k) for k in value.__dataclass_fields__ if k != "recent"})
        return repr(value)

    return plain(read(path))


@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet"])
def test_a_run_that_was_killed_goes_on_with_no_row_lost_or_learned_twice(tmp_path, end):
    X, y = rows(6000)
    source = dict(zip(("csv", "tsv", "jsonl", "parquet"), formats(tmp_path, X, y), strict=True))[end]

    def command(name):
        return (
            "run", source, "--target", "y", "--rank", 60, "--batch", 50, "--every", 200, "--resume",
            "--output", tmp_path / f"{name}.csv", "--checkpoint", tmp_path / f"{name}.gp",
        )  # fmt: skip

    began = time.perf_counter()
    with process(*command("whole")) as child:
        assert child.wait() == 0, child.stderr.read()
    took = time.perf_counter() - began
    rng = np.random.default_rng(0)
    kills = 0
    while True:
        child = process(*command("killed"))
        try:
            # However slow the machine: some kills before the first row, most in the middle.
            code = child.wait(timeout=rng.uniform(0.2, 0.6) * took if kills < 5 else None)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.communicate()
            kills += 1
            continue
        assert code == 0, child.communicate()
        child.communicate()
        break
    assert kills
    assert (tmp_path / "killed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert state(tmp_path / "killed.gp") == {**state(tmp_path / "whole.gp")}


def test_ctrl_c_finishes_the_batch_saves_and_says_how_to_go_on(tmp_path):
    write_csv(tmp_path / "t.csv", 150)
    text = (tmp_path / "t.csv").read_bytes()
    command = (
        "run",
        "-",
        "--target",
        "y",
        "--rank",
        20,
        "--batch",
        50,
        "--checkpoint",
        tmp_path / "c.gp",
        "--output",
        "-",
    )
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
    assert "--resume goes on after line 151" in said
    assert "Traceback" not in said
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 150
    # A pipe goes on where its writer stands, or from its beginning with --replay.
    more = "".join((tmp_path / "t.csv").read_text().splitlines(keepends=True)[1:31])
    outcome = run(*command[1:], "--resume", input=more)
    assert outcome.exit_code == 0, outcome.output
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 180
    outcome = run(*command[1:], "--resume", "--replay", input=text.decode() + more + more)
    assert outcome.exit_code == 0, outcome.output
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 210


def test_a_file_that_has_grown_is_gone_on_with(tmp_path):
    write_csv(tmp_path / "t.csv", 200)
    whole = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    (tmp_path / "t.csv").write_text("".join(whole[:101]))
    command = (
        tmp_path / "t.csv",
        "--target",
        "y",
        "--rank",
        20,
        "--checkpoint",
        tmp_path / "c.gp",
        "--resume",
    )
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
        ((tmp_path / "other.csv", *common, "--resume"), "begins otherwise"),
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
    assert "no run to go on with" in run(tmp_path / "t.csv", *common, "--resume").output
    (tmp_path / "c.gp").write_bytes(b"something else")
    assert "not a streamgp checkpoint" in run(tmp_path / "t.csv", *common, "--resume").output


def test_a_line_that_does_not_end_yet_is_left_for_the_next_run(tmp_path):
    write_csv(tmp_path / "whole.csv", 200)
    text = (tmp_path / "whole.csv").read_bytes()
    (tmp_path / "t.csv").write_bytes(text[:-4])
    command = (
        tmp_path / "t.csv",
        "--target",
        "y",
        "--rank",
        20,
        "--checkpoint",
        tmp_path / "c.gp",
        "--resume",
    )
    outcome = run(*command)
    assert outcome.exit_code == 0, outcome.output
    assert "does not end yet" in outcome.output
    (tmp_path / "t.csv").write_bytes(text)
    assert run(*command, "--report", tmp_path / "r.html").exit_code == 0
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 200
    # And once more, with nothing to do: one command line serves a supervisor.
    assert run(*command, "--report", tmp_path / "r.html").exit_code == 0
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 200


def test_standard_input_that_is_a_file_is_gone_on_in(tmp_path):
    write_csv(tmp_path / "t.csv", 120)
    command = (
        "run",
        "-",
        "--target",
        "y",
        "--rank",
        20,
        "--checkpoint",
        tmp_path / "c.gp",
        "--resume",
        "--quiet",
    )
    for _ in range(2):
        with (tmp_path / "t.csv").open() as file, process(*command, stdin=file) as child:
            assert child.wait() == 0, child.stderr.read()
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 120


def test_a_pipe_with_other_columns_is_refused_and_an_empty_one_is_nothing_new(tmp_path):
    write_csv(tmp_path / "t.csv", 120)
    command = (
        "-",
        "--target",
        "y",
        "--rank",
        20,
        "--checkpoint",
        tmp_path / "c.gp",
        "--resume",
        "--output",
        "-",
    )
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


def test_a_named_pipe_is_a_pipe(tmp_path):
    write_csv(tmp_path / "t.csv", 90)
    os.mkfifo(tmp_path / "f")
    command = (
        "run",
        tmp_path / "f",
        "--format",
        "csv",
        "--target",
        "y",
        "--rank",
        20,
        "--batch",
        60,
        "--output",
        "-",
    )
    with process(*command) as child:
        with (tmp_path / "f").open("w") as pipe:
            pipe.write((tmp_path / "t.csv").read_text())
            pipe.flush()
            got = [child.stdout.readline() for _ in range(91)]
            assert got[-1].startswith(b"91,")
            child.send_signal(signal.SIGINT)
            assert child.wait(timeout=20) == 130
        child.stdout.read()


def test_ctrl_c_before_the_first_line_is_130():
    with process("run", "-", "--target", "y", stdin=subprocess.PIPE) as child:
        wait_until_it_listens(child)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=20) == 130
        assert b"Traceback" not in child.stderr.read()


def test_what_was_predicted_before_a_bad_row_is_kept_in_parquet_too(tmp_path):
    write_csv(tmp_path / "t.csv", 300, l222="1,2,oops,4")
    more = ("--output", tmp_path / "o.parquet", "--save", tmp_path / "m.gp")
    assert run(tmp_path / "t.csv", "--target", "y", "--rank", 20, *more).exit_code == 1
    assert len(pd.read_parquet(tmp_path / "o.parquet")) == 200
    assert streamgp.load(tmp_path / "m.gp").n_samples_seen_ == 200


def test_marks_of_byte_order_and_lines_that_are_too_long(tmp_path, monkeypatch):
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


def test_json_rows_may_lack_the_label_at_first_and_numbers_are_those_of_files(tmp_path):
    X, y = rows(100)
    lines = [json.dumps({"a": x[0], "y": t}) for x, t in zip(X.tolist(), y.tolist(), strict=True)]
    lines[0] = json.dumps({"a": 1.0})
    (tmp_path / "t.jsonl").write_text("\ufeffnot json\n" + "\n".join(lines))
    outcome = run(tmp_path / "t.jsonl", "--target", "y", "--rank", 10, "--on-error", "skip")
    assert outcome.exit_code == 0, outcome.output
    assert "1 bad rows" in outcome.output
    write_csv(tmp_path / "t.csv", 100, l20="1_0,1,1,1", l30="٣,1,1,1")
    assert "2 bad rows" in run(tmp_path / "t.csv", "--target", "y", "--rank", 10, "--on-error", "skip").output


def test_a_model_from_python_keeps_its_names_in_the_shell(tmp_path):
    X, y = rows(100)
    frame = pd.DataFrame(X, columns=list("abc"))
    streamgp.StreamingGPRegressor(rank=20, random_state=0).fit(frame, pd.Series(y, name="wear")).save(
        tmp_path / "m.gp"
    )
    frame.assign(wear=y).to_csv(tmp_path / "t.csv", index=False)
    with process("predict", tmp_path / "m.gp", tmp_path / "t.csv") as child:
        out, said = child.communicate()
    assert out.startswith(b"line,wear,wear_std,wear_low,wear_high\n")
    assert b"wear" in said
    assert b"Warning" not in said


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


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_blank_lines_at_the_beginning_count(tmp_path, kind):
    X, y = rows(60)
    if kind == "csv":
        lines = [",".join(map(repr, [*map(float, x), float(t)])) for x, t in zip(X, y, strict=True)]
        more = ("--columns", "a,b,c,y")
    else:
        lines = [json.dumps({"a": float(x[0]), "y": float(t)}) for x, t in zip(X, y, strict=True)]
        more = ()
    path, out = tmp_path / f"t.{kind}", tmp_path / "o.csv"
    command = (
        path,
        "--target",
        "y",
        "--rank",
        10,
        "--batch",
        20,
        *more,
        "--checkpoint",
        tmp_path / "c.gp",
        "--resume",
    )
    for n in (40, 60):
        path.write_text("\n" * 7 + "\n".join(lines[:n]) + "\n")
        outcome = run(*command, "--output", out)
        assert outcome.exit_code == 0, outcome.output
    assert [int(r["line"]) for r in table(out)] == list(range(8, 68))
    assert streamgp.load(tmp_path / "c.gp").n_samples_seen_ == 60


def test_predict_writes_parquet_and_needs_no_folder_of_its_own(tmp_path):
    write_csv(tmp_path / "t.csv", 100)
    assert run(tmp_path / "t.csv", "--target", "y", "--rank", 10, "--save", tmp_path / "m.gp").exit_code == 0
    command = [
        "predict",
        str(tmp_path / "m.gp"),
        str(tmp_path / "t.csv"),
        "--output",
        str(tmp_path / "o.parquet"),
    ]
    outcome = CliRunner().invoke(main, command)
    assert outcome.exit_code == 0, outcome.output
    assert len(pd.read_parquet(tmp_path / "o.parquet")) == 100
    command[-1] = str(tmp_path / "m.gp")
    assert CliRunner().invoke(main, command).exit_code == 2


def test_a_quarantine_may_be_added_when_a_run_goes_on(tmp_path):
    write_csv(tmp_path / "t.csv", 300, l222="1,2,oops,4")
    common = (
        tmp_path / "t.csv",
        "--target",
        "y",
        "--rank",
        10,
        "--checkpoint",
        tmp_path / "c.gp",
        "--resume",
    )
    assert run(*common).exit_code == 1
    outcome = run(*common, "--on-error", "quarantine", "--quarantine", tmp_path / "q.jsonl")
    assert outcome.exit_code == 0, outcome.output
    assert json.loads((tmp_path / "q.jsonl").read_text())["line"] == 222


def test_a_label_that_is_blank_is_missing_whatever_stands_beside_it(tmp_path):
    write_csv(tmp_path / "plain.csv", 100)
    lines = (tmp_path / "plain.csv").read_text().splitlines()
    text = ["name," + lines[0], *(f"sensor_ü{i}," + line for i, line in enumerate(lines[1:]))]
    text[50] = text[50].rsplit(",", 1)[0] + ", "
    (tmp_path / "t.csv").write_text("\n".join(text) + "\n")
    outcome = run(tmp_path / "t.csv", "--target", "y", "--ignore", "name", "--rank", 10)
    assert outcome.exit_code == 0, outcome.output
    assert "1 rows without a label" in outcome.output


def test_files_that_a_killed_process_left_are_removed(tmp_path):
    write_csv(tmp_path / "t.csv", 100)
    (tmp_path / ".c.gp.123.tmp").write_bytes(b"half")
    assert (
        run(tmp_path / "t.csv", "--target", "y", "--rank", 10, "--checkpoint", tmp_path / "c.gp").exit_code
        == 0
    )
    assert not (tmp_path / ".c.gp.123.tmp").exists()


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
    assert len(table(tmp_path / "o.csv")) == 401
    assert "killed" not in (tmp_path / "o.csv").read_text()


def test_a_column_of_text_is_to_be_ignored_and_rows_that_are_all_bad_are_an_error(tmp_path):
    X, y = rows(100)
    pd.DataFrame(X, columns=list("abc")).assign(time="2024-01-01", y=y).to_csv(
        tmp_path / "t.csv", index=False
    )
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 10)
    assert outcome.exit_code == 1
    assert "--ignore time leaves the column out" in " ".join(outcome.output.split())
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 10, "--on-error", "skip")
    assert outcome.exit_code == 1
    assert "none of 100 rows could be used; line 2: time='2024-01-01' is not a number" in outcome.output
    good = ("--ignore", "time", "--report", tmp_path / "r.html", "--checkpoint", tmp_path / "c.gp")
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 10, *good)
    assert outcome.exit_code == 0
    assert f"report: {tmp_path / 'r.html'}" in outcome.output
    assert f"checkpoint: {tmp_path / 'c.gp'}" in outcome.output
    model = str(tmp_path / "c.gp")
    (tmp_path / "new.csv").write_text("a,b,c\n1,2,x\n")
    outcome = CliRunner().invoke(main, ["predict", model, str(tmp_path / "new.csv"), "--on-error", "skip"])
    assert outcome.exit_code == 1


def test_nothing_learned_is_said(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,\n2,\n")
    outcome = run(tmp_path / "t.csv", "--target", "y", "--save", tmp_path / "m.gp")
    assert outcome.exit_code == 0
    assert "nothing was learned" in outcome.output


@pytest.mark.parametrize("bad", ["1,2,oops,4", "1,1,1,1e200"], ids=["not a number", "not to be learned"])
def test_after_a_bad_row_is_mended_the_run_goes_on(tmp_path, bad):
    write_csv(tmp_path / "t.csv", 600, l450=bad)
    write_csv(tmp_path / "mended.csv", 600)
    common = ("--target", "y", "--rank", 20, "--resume")
    assert run(tmp_path / "mended.csv", *common, "--checkpoint", tmp_path / "a.gp").exit_code == 0
    assert run(tmp_path / "t.csv", *common, "--checkpoint", tmp_path / "b.gp").exit_code == 1
    assert streamgp.load(tmp_path / "b.gp").n_samples_seen_ == 400
    (tmp_path / "mended.csv").rename(tmp_path / "t.csv")
    assert run(tmp_path / "t.csv", *common, "--checkpoint", tmp_path / "b.gp").exit_code == 0
    X = rows(20, 3)[0]
    np.testing.assert_array_equal(*(streamgp.load(tmp_path / f"{n}.gp").predict(X) for n in "ab"))


# Predict, info, report, options


def test_predict_matches_columns_by_name_and_learns_nothing(tmp_path):
    write_csv(tmp_path / "t.csv", 300)
    assert run(tmp_path / "t.csv", "--target", "y", "--rank", 30, "--save", tmp_path / "m.gp").exit_code == 0
    X, _y = rows(40, 7)
    pd.DataFrame({"c": X[:, 2], "x": "text", "a": X[:, 0], "b": X[:, 1]}).to_csv(
        tmp_path / "new.csv", index=False
    )
    before = (tmp_path / "m.gp").read_bytes()
    outcome = CliRunner().invoke(
        main,
        ["predict", str(tmp_path / "m.gp"), str(tmp_path / "new.csv"), "--output", str(tmp_path / "o.csv")],
    )
    assert outcome.exit_code == 0, outcome.output
    mean, _low, high = streamgp.load(tmp_path / "m.gp").predict(X, return_interval=0.9)
    got = pd.read_csv(tmp_path / "o.csv")
    np.testing.assert_allclose(got["y"], mean, rtol=1e-9)
    np.testing.assert_allclose(got["y_high"], high, rtol=1e-9)
    assert (tmp_path / "m.gp").read_bytes() == before
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    outcome = CliRunner().invoke(main, ["predict", str(tmp_path / "m.gp"), str(tmp_path / "bad.csv")])
    assert outcome.exit_code == 1
    assert "lacks the column 'c'" in outcome.output


def test_info_says_what_a_model_holds(tmp_path):
    write_csv(tmp_path / "t.csv", 300)
    run(tmp_path / "t.csv", "--target", "y", "--rank", 30, "--checkpoint", tmp_path / "m.gp")
    outcome = CliRunner().invoke(main, ["info", str(tmp_path / "m.gp")])
    assert outcome.exit_code == 0, outcome.output
    for part in ("pivoted, rank 30", "300", "a, b, c", "y", "up to line 301"):
        assert part in outcome.output
    assert CliRunner().invoke(main, ["info", str(tmp_path / "t.csv")]).exit_code == 1


def test_the_report_is_one_page_with_five_pictures(tmp_path):
    write_csv(tmp_path / "t.csv", 600, l300="x,1,1,1")
    outcome = run(
        tmp_path / "t.csv",
        "--target",
        "y",
        "--rank",
        30,
        "--batch",
        10,
        "--on-error",
        "skip",
        "--report",
        tmp_path / "r.html",
    )
    assert outcome.exit_code == 0, outcome.output
    text = (tmp_path / "r.html").read_text()
    assert text.count("data:image/png") == 5
    assert "http" not in text


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
        (["std.csv", "--target", "y,y_std", "--output", "o.csv"], 2, "two columns called y_std"),
        (["t.csv.gz", "--target", "y", "--format", "csv"], 1, "gzip"),
        (["t.csv", "--target", "y", "--output", "o.xlsx"], 2, ".csv or .parquet"),
        (["t.csv", "--target", "y", "--on-error", "quarantine"], 2, "go together"),
        (["t.csv", "--target", "y", "--resume"], 2, "--checkpoint"),
        (["t.csv", "--target", "y", "--rank", "0"], 2, "rank"),
        (["t.csv", "--target", "y", "--checkpoint", "c", "--output", "o.parquet"], 2, "CSV"),
        (["t.csv", "--target", "y", "--output", "no/such/folder/o.csv"], 2, "cannot be written"),
        ([".", "--target", "y", "--format", "csv"], 1, "folder"),
        (["t.bin", "--target", "y"], 1, "--format"),
        (["t.csv", "--target", "y", "--delimiter", ",,"], 2, "one character"),
        (["broken.parquet", "--target", "y"], 1, "Parquet"),
        (["text.parquet", "--target", "y"], 1, "does not hold numbers"),
        (["twice.csv", "--target", "y"], 1, "more than once"),
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
    (tmp_path / "twice.csv").write_text("a,a,y\n1,2,3\n")
    pd.DataFrame({"a": ["x"], "y": [1.0]}).to_parquet(tmp_path / "text.parquet")
    outcome = run(*arguments)
    assert outcome.exit_code == code, outcome.output
    assert said in outcome.output
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit)
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 21


def test_the_history_of_a_long_run_stays_short(monkeypatch):
    from streamgp.app.session import POINTS, Tally

    tally = Tally(1)
    for _i in range(5000):
        tally.rows += 10
        tally.note((10.0, 1.0, 9.0), 0.5, 5, 0.1)
    assert len(tally.history) <= POINTS
    assert sum(h[0] for h in tally.history) == 5000
    assert sum(h[2] for h in tally.history) == 50_000


def test_a_row_whose_factorisation_fails_is_a_bad_row_and_the_run_goes_on(tmp_path, monkeypatch):
    from streamgp.errors import NumericalError

    original = streamgp.StreamingGPRegressor.partial_fit

    def fails(self, X, y):
        if (np.asarray(X)[:, 0] == 1.25).any():
            raise NumericalError("a factor is not positive definite")
        return original(self, X, y)

    monkeypatch.setattr(streamgp.StreamingGPRegressor, "partial_fit", fails)
    write_csv(tmp_path / "t.csv", 200, l150="1.25,1,1,1")
    outcome = run(
        tmp_path / "t.csv", "--target", "y", "--rank", 10, "--on-error", "skip", "--save", tmp_path / "m.gp"
    )
    assert outcome.exit_code == 0, outcome.output
    assert "line 150: not to be learned: a factor" in outcome.output
    assert streamgp.load(tmp_path / "m.gp").n_samples_seen_ == 199
