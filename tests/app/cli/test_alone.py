"""Law: of processes that write one model, the second is refused and harms nothing; a dead one is in nobody's way."""

import fcntl
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.helpers import invoke, process, run, wait_for_signal_handlers, write_csv
from app.serve.serving import Process, eventually, stream
from streamgp.app.cli.alone import alone
from streamgp.errors import ParameterError

SERVE = ("--new", "--target", "y", "--rank", "20", "--durable")


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(".csv")}


def test_a_second_process_with_the_model_of_a_server_ends_with_an_error_and_changes_nothing(tmp_path):
    write_csv(tmp_path / "t.csv", 50)
    model = tmp_path / "m.gp"
    server = Process(model, *SERVE)
    X, y = stream(40)
    server.ask("/learn", {"rows": X.tolist(), "targets": y.tolist()})
    before = files(tmp_path)
    for arguments in (
        ("serve", model, *SERVE, "--port", 0),
        ("run", tmp_path / "t.csv", "--target", "y", "--checkpoint", model, "--resume"),
        ("run", tmp_path / "t.csv", "--target", "y", "--save", model),
    ):
        refused = invoke(*arguments)
        said = " ".join(refused.output.replace("│", " ").split())
        assert refused.exit_code == 2, said
        assert f"in use by process {server.process.pid}" in said
        assert "stop that first" in said
    assert files(tmp_path) == before
    # Killed, it leaves its lock behind, which holds nobody up.
    server.kill()
    assert (tmp_path / ".m.gp.lock").exists()
    server.start()
    assert server.ask("/model")[1]["rows_learned"] == 40
    assert server.stop() == 0
    assert set(files(tmp_path)) == {"m.gp", "m.gp.log.2"}


def test_a_second_run_with_the_checkpoint_of_one_that_waits_for_rows_is_refused(tmp_path):
    write_csv(tmp_path / "t.csv", 50)
    command = ("run", "-", "--target", "y", "--rank", 20, "--checkpoint", tmp_path / "c.gp", "--resume")
    first = process(*command, stdin=-1)
    wait_for_signal_handlers(first)
    first.stdin.write((tmp_path / "t.csv").read_bytes())
    first.stdin.flush()
    eventually((tmp_path / ".c.gp.lock").exists)
    refused = run(tmp_path / "t.csv", *command[2:])
    assert refused.exit_code == 2
    assert "in use by process" in refused.output
    said = first.communicate(timeout=60)[1].decode()
    assert first.returncode == 0, said
    again = run(tmp_path / "t.csv", *command[2:])
    assert "in use" not in again.output


def test_of_many_that_want_a_model_one_has_it_at_a_time(tmp_path):
    inside, most, had = [], [], []

    def work():
        for _ in range(200):
            try:
                with alone(tmp_path / "m", None, tmp_path / "m"):
                    inside.append(1)
                    most.append(len(inside))
                    had.append(1)
                    inside.pop()
            except ParameterError:
                continue

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for _ in range(4)]:
            done.result()
    assert max(most) == 1
    assert had
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_file_that_its_holder_has_just_removed_is_no_lock(tmp_path, monkeypatch):
    lock = fcntl.flock

    def late(file, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        (tmp_path / ".m.lock").unlink()  # between opening and locking
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with alone(tmp_path / "m"):
        assert (tmp_path / ".m.lock").exists()
        with pytest.raises(ParameterError, match="in use by process"), alone(tmp_path / "m"):
            pass


def test_a_lock_is_lifted_by_an_error_as_well(tmp_path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), alone(tmp_path / "m"):
            1 / 0  # noqa: B018
    assert list(tmp_path.iterdir()) == []
