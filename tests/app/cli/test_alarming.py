"""--alarm: a line, a hook, an exit status; the same alarms when a run is resumed."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from app.helpers import invoke, run


def write_shift(path, n=900, at=600, seed=0):
    """A stream whose target shifts by five standard deviations of its noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = X[:, 0] + 0.2 * rng.standard_normal(n) + 1.0 * (np.arange(n) >= at)
    path.write_text("\n".join(["a,b,y", *(f"{a},{b},{t}" for (a, b), t in zip(X, y, strict=True))]) + "\n")
    return path


def alarm_lines(outcome):
    return [line for line in outcome.stderr.splitlines() if line.startswith("alarm")]


@pytest.mark.parametrize("batch", [10, 40])
def test_an_alarm_is_a_line_on_standard_error_even_if_quiet_and_an_exit_status_if_asked(tmp_path, batch):
    source = write_shift(tmp_path / "t.csv")
    common = (source, "--target", "y", "--rank", 20, "--batch", batch)
    loud = run(*common, "--alarm", "drift", "--alarm-exit", 7)
    assert loud.exit_code == 7
    (line,) = alarm_lines(loud)
    assert "the errors of y are" in line
    assert "1 alarm raised" in loud.stderr
    quiet = run(*common, "--alarm", "drift", "--quiet")
    assert quiet.exit_code == 0
    assert quiet.stderr.splitlines() == [line]
    assert run(*common, "--alarm", "rmse>100", "--alarm-exit", 7).exit_code == 0


def test_wrong_rules_end_the_run_before_anything_is_read(tmp_path):
    source = write_shift(tmp_path / "t.csv", 50)
    for rule, said in (("smell", "is not an alarm"), ("rmse of z", "names none of the targets: y")):
        outcome = run(source, "--target", "y", "--alarm", rule, "--output", tmp_path / "o.csv")
        assert outcome.exit_code == 2
        assert said in " ".join(outcome.output.split())


def test_a_resumed_run_raises_the_same_alarms_and_counts_those_before(tmp_path):
    whole = write_shift(tmp_path / "t.csv").read_text().splitlines(keepends=True)
    rules = ("--alarm", "drift", "--alarm", "rmse>1.5x over 60", "--alarm-exit", 9)
    common = (tmp_path / "t.csv", "--target", "y", "--rank", 20, "--batch", 20, "--resume", *rules)
    expected = alarm_lines(run(*common, "--checkpoint", tmp_path / "a.gp"))
    assert len(expected) >= 2
    said = []
    for end in (301, 621, 641, 901):
        (tmp_path / "t.csv").write_text("".join(whole[:end]))
        outcome = run(*common, "--checkpoint", tmp_path / "b.gp")
        assert outcome.exit_code == (9 if said or alarm_lines(outcome) else 0)
        said += alarm_lines(outcome)
    assert said == expected
    outcome = run(*common[:-6], "--alarm", "bias", "--checkpoint", tmp_path / "b.gp")
    assert "is a run with --alarm" in outcome.output


def test_predict_raises_alarms_about_a_model_that_learns_no_more(tmp_path):
    source = write_shift(tmp_path / "t.csv")
    write_shift(tmp_path / "before.csv", at=900, seed=1)
    assert (
        run(tmp_path / "before.csv", "--target", "y", "--rank", 20, "--save", tmp_path / "m").exit_code == 0
    )
    more = ("--alarm", "coverage<0.8 over 200", "--alarm-exit", 3, "--output", tmp_path / "o.csv")
    outcome = invoke("predict", tmp_path / "m", source, *more)
    assert outcome.exit_code == 3
    assert "of y inside the intervals over the last 200 rows" in alarm_lines(outcome)[0]


def test_a_command_is_given_each_alarm_as_json_and_its_failure_does_not_end_the_run(tmp_path):
    source = write_shift(tmp_path / "t.csv")
    common = (source, "--target", "y", "--rank", 20, "--batch", 20, "--alarm", "drift", "--alarm-hook")
    outcome = run(*common, f"cat >> {tmp_path}/alarms.jsonl")
    assert outcome.exit_code == 0
    (told,) = map(json.loads, (tmp_path / "alarms.jsonl").read_text().splitlines())
    assert (told["rule"], told["name"]) == ("drift>1e+09", "y")
    assert f"alarm: {told['text']}" == alarm_lines(outcome)[0]
    outcome = run(*common, "exit 5")
    assert outcome.exit_code == 0
    assert "alarm hook failed" in outcome.stderr
    assert "status 5" in outcome.stderr


def test_an_address_is_posted_each_alarm(tmp_path):
    told = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f"http://127.0.0.1:{server.server_port}/alarms"
        source = write_shift(tmp_path / "t.csv")
        outcome = run(
            source, "--target", "y", "--rank", 20, "--batch", 20, "--alarm", "drift", "--alarm-hook", where
        )
        server.shutdown()
    assert outcome.exit_code == 0, outcome.output
    assert [alarm["name"] for alarm in told] == ["y"]


def test_a_sensor_that_falls_silent_is_named(tmp_path):
    lines = write_shift(tmp_path / "t.csv", at=900).read_text().splitlines()
    lines[400:] = [f",{line.split(',', 1)[1]}" for line in lines[400:]]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    outcome = run(tmp_path / "t.csv", "--target", "y", "--rank", 20, "--alarm", "missing>0.5 over 100")
    assert outcome.exit_code == 0, outcome.output
    assert alarm_lines(outcome) == ["alarm: line 451: a is missing in 51.0% of the last 100 rows"]
