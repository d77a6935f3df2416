"""Laws of ``streamgp serve``: what cannot be served is said before anything is opened."""

import socket

import pytest
from click.testing import CliRunner

from app.helpers import run, write_csv
from app.serve.serving import Process
from streamgp.app.cli import main


def said(*arguments):
    done = CliRunner().invoke(main, ["serve", *map(str, arguments)])
    assert done.exit_code == 2, done.output
    return done.output


def test_what_does_not_fit_together_is_an_error_with_a_remedy(tmp_path):
    model = tmp_path / "m.gp"
    assert "--new --target" in said(model)
    assert "--target" in said(model, "--new")
    assert "--token" in said(model, "--new", "--target", "y", "--host", "0.0.0.0")
    assert "eight" in said(model, "--new", "--target", "y", "--host", "0.0.0.0", "--token", "short")
    assert "cannot be a target and a feature" in said(model, "--new", "--target", "y", "--features", "y,x")
    assert "no folder" in said(tmp_path / "none" / "m.gp", "--new", "--target", "y")
    assert not list(tmp_path.iterdir())


def test_a_model_of_a_run_is_served_and_learns_on_and_one_process_alone_serves_it(tmp_path):
    write_csv(tmp_path / "t.csv", 200)
    run(tmp_path / "t.csv", "--target", "y", "--rank", 20, "--save", tmp_path / "m.gp", "--quiet")
    assert "has --target y" in said(tmp_path / "m.gp", "--target", "z")
    process = Process(tmp_path / "m.gp")
    try:
        assert "in use by process" in said(tmp_path / "m.gp")
        model = process.ask("/model")[1]
        assert (model["features"], model["rows_learned"]) == (["a", "b", "c"], 200)
        row = {"a": 0.5, "b": 1, "c": 0, "y": 1.5}
        assert process.ask("/learn", {"row": row})[1]["rows_learned"] == 201
    finally:
        assert process.stop() == 0
    assert Process(tmp_path / "m.gp").stop() == 0


def test_a_port_that_is_taken_is_an_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(
            main, ["serve", str(tmp_path / "m.gp"), "--new", "--target", "y", "--port", str(port)]
        )
    assert done.exit_code == 1
    assert "choose another --port" in done.output


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_address_that_is_shown_is_the_one_to_call(tmp_path, host):
    process = Process(tmp_path / "m.gp", "--new", "--target", "y", "--host", host)
    assert process.ask("/healthz") == (200, {"status": "ok"})
    assert process.stop() == 0
