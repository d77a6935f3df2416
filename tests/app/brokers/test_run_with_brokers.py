"""`streamgp run` with addresses of brokers."""

import json
import signal
import time

import pytest

from app.helpers import invoke, process, random_rows, read_rows, run, write_csv
from experiments.checks.broker_servers import Redis, free_port, program
from streamgp.loading import load_with_more

redis = pytest.importorskip("redis")


def wait_for(condition, child, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end and child.poll() is None:
        time.sleep(0.05)
    assert condition()


def test_messages_are_learned_bad_ones_kept_with_the_reason_and_no_password_is_shown(tmp_path):
    if program("redis-server") is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    server = Redis(tmp_path / "r", more=("--requirepass", "hunter2"))
    client = redis.Redis(port=server.port, password="hunter2")
    X, y = random_rows(60)
    rows = [
        {"id": i, "a": float(x[0]), "b": float(x[1]), "y": float(t)}
        for i, (x, t) in enumerate(zip(X, y, strict=True))
    ]
    for row in rows[:20]:
        client.xadd("plant", row)
    client.xadd("plant", {"text": "no row"})
    client.xadd("plant", {"rows": json.dumps(rows[15:40])})
    for row in rows[40:]:
        client.xadd("plant", row)
    address = f"redis://:hunter2@127.0.0.1:{server.port}"
    files = {name: tmp_path / f"{name}.x" for name in ("checkpoint", "quarantine")}
    command = [
        "run", f"{address}/plant", "--target", "y", "--id", "id", "--rank", 20, "--batch", 10,
        "--on-error", "quarantine",
        *(part for name, path in files.items() for part in (f"--{name}", path)),
        "--output", f"{address}/answers", "--save", tmp_path / "m.gp", "--report", tmp_path / "r.html",
    ]  # fmt: skip
    try:
        with process(*command) as child:
            wait_for(lambda: client.exists("answers") and client.xlen("answers") >= 60, child)
            child.send_signal(signal.SIGTERM)
            shown = b"".join(child.communicate())
        assert child.returncode == 130, shown
        ids = [int(fields[b"id"]) for _, fields in client.xrange("answers")]
    finally:
        server.close()
    assert ids == list(range(60))
    gp, _ = load_with_more(files["checkpoint"])
    assert gp.n_samples_seen_ == 60
    bad = json.loads(files["quarantine"].read_text())
    assert bad["line"] == 21
    assert bad["reason"] == "has none of the names a, b, y"
    assert "no row" in bad["row"]
    assert b"5 rows came again" in shown
    for content in (shown, *(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())):
        assert b"hunter2" not in content


def test_a_file_may_be_sent_to_a_broker_and_a_broker_that_is_down_is_an_error(tmp_path, redis_server):
    write_csv(tmp_path / "t.csv", 60)
    common = ("--target", "y", "--rank", 20, "--batch", 20)
    csv, stream = tmp_path / "p.csv", f"redis://127.0.0.1:{redis_server.port}/answers"
    for output in (csv, stream):
        outcome = run(tmp_path / "t.csv", *common, "--output", output)
        assert outcome.exit_code == 0, outcome.output
    got = [
        fields for _, fields in redis.Redis(port=redis_server.port, decode_responses=True).xrange("answers")
    ]
    assert [{k: v for k, v in row.items() if k != "run"} for row in got] == read_rows(csv)
    nobody = f"redis://127.0.0.1:{free_port()}/answers"
    for arguments in (
        (tmp_path / "t.csv", "--output", nobody),
        (nobody,),
        (nobody.replace("redis", "mqtt"),),
    ):
        outcome = run(*arguments, *common)
        assert outcome.exit_code == 1
        assert "cannot be reached" in outcome.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mqtt://host", "--target", "y"), "lacks a topic"),
        (("redis://host/a", "--target", "y", "--output", "redis://host/a"), "are the same"),
        (("t.csv", "--target", "y", "--output", "kafka://host/a"), "kafka:// is not known"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "t.csv", 30)
    outcome = run(*arguments)
    assert outcome.exit_code == 2
    assert said in " ".join(outcome.output.replace("│", " ").split())


def test_predict_says_how_messages_are_predicted(tmp_path):
    (tmp_path / "m.gp").write_bytes(b"")
    outcome = invoke("predict", tmp_path / "m.gp", "mqtt://host/plant")
    assert outcome.exit_code == 2
    assert "--start-from MODEL" in " ".join(outcome.output.split())
