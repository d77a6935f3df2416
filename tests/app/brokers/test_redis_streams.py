"""Redis streams against a real server: nothing lost, read or written twice, whoever is away meanwhile."""

import json
import threading
import time

import numpy as np
import pytest

from experiments.checks.broker_servers import Redis, free_port, program
from streamgp.app.brokers.address import parse_address
from streamgp.app.brokers.answers import Answers
from streamgp.app.brokers.redis_streams import RedisSource, RedisWriter, _before
from streamgp.errors import DataError

redis = pytest.importorskip("redis")


def address(server, name="plant", more=""):
    return parse_address(f"redis://127.0.0.1:{server.port}/{name}{more}")


def add(server, first, last):
    client = redis.Redis(port=server.port)
    for i in range(first, last):
        client.xadd("plant", {"a": i})


def read(source, count, seconds=20):
    out, mark, end = [], "", time.monotonic() + seconds
    while len(out) < count and time.monotonic() < end:
        message = source.next(0.1)
        if message is not None:
            mark, payload = message
            out.append(json.loads(payload)["a"])
    return out, mark


def opened(server, said, mark="", group="g"):
    source = RedisSource(address(server), group, said.append)
    source.start(mark)
    return source


def pending(server):
    return redis.Redis(port=server.port).xpending("plant", "g")["pending"]


@pytest.mark.parametrize("group", ["g", None])
def test_a_stream_is_read_from_its_first_entry_on(redis_server, said, group):
    add(redis_server, 0, 700)
    source = opened(redis_server, said, group=group)
    assert read(source, 700)[0] == list(range(700))
    add(redis_server, 700, 710)
    assert read(source, 10)[0] == list(range(700, 710))
    assert source.next(0.01) is None
    source.close()
    assert not said


def test_a_stream_that_is_not_there_yet_is_waited_for(redis_server, said):
    source = opened(redis_server, said)
    assert source.next(0.05) is None
    add(redis_server, 0, 2)
    assert read(source, 2)[0] == [0, 1]


def test_a_run_continues_after_its_checkpoint_and_acknowledges_what_that_holds(redis_server, said):
    add(redis_server, 0, 30)
    source = opened(redis_server, said)
    _, mark = read(source, 10)
    source.saved(mark)
    assert pending(redis_server) == 20
    assert read(source, 20)[0] == list(range(10, 30))
    source.close()
    add(redis_server, 30, 40)
    source = opened(redis_server, said, mark)
    got, mark = read(source, 30)
    assert got == list(range(10, 40))
    source.saved(mark)
    assert pending(redis_server) == 0


def test_an_older_checkpoint_reads_again_what_a_later_one_had_acknowledged(redis_server, said):
    add(redis_server, 0, 20)
    source = opened(redis_server, said)
    _, older = read(source, 5)
    _, mark = read(source, 15)
    source.saved(mark)
    assert read(opened(redis_server, said, older), 15)[0] == list(range(5, 20))


def test_a_run_killed_before_its_first_checkpoint_begins_with_the_first_entry(redis_server, said):
    add(redis_server, 0, 10)
    read(opened(redis_server, said), 10)
    assert read(opened(redis_server, said), 10)[0] == list(range(10))


def test_a_run_without_its_checkpoint_goes_on_and_says_so(redis_server, said):
    add(redis_server, 0, 10)
    source = opened(redis_server, said)
    _, mark = read(source, 10)
    source.saved(mark)
    add(redis_server, 10, 12)
    assert read(opened(redis_server, said), 2)[0] == [10, 11]
    assert f"group g has read up to entry {mark}" in said[0]


def test_a_server_that_was_killed_is_waited_for_and_says_so(redis_server, said):
    add(redis_server, 0, 5)
    source = opened(redis_server, said)
    assert read(source, 5)[0] == list(range(5))
    redis_server.kill()
    assert read(source, 1, seconds=0.5)[0] == []
    source.saved("1-1")
    redis_server.start()
    add(redis_server, 5, 10)
    assert read(source, 5)[0] == list(range(5, 10))
    assert "connection lost" in said[0]
    assert "connected again" in said[1]


def test_a_server_that_forgot_the_group_is_told_where_to_continue(redis_server, said):
    add(redis_server, 0, 5)
    source = opened(redis_server, said)
    assert read(source, 5)[0] == list(range(5))
    redis.Redis(port=redis_server.port).xgroup_destroy("plant", "g")
    add(redis_server, 5, 8)
    assert read(source, 3)[0] == [5, 6, 7]


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ({"a": "1", "b": "-2.5e3", "id": "x 7", "n": ""}, {"a": 1, "b": -2500.0, "id": "x 7", "n": None}),
        ({"a": "1_0", "b": "١", "c": "-3"}, {"a": "1_0", "b": "١", "c": -3}),
        ({"json": '{"a": 1}'}, {"a": 1}),
        ({"anything": ' [{"a": 1}]'}, [{"a": 1}]),
        ({"a": "5"}, {"a": 5}),
    ],
)  # fmt: skip
def test_an_entry_is_json_or_fields_by_name(redis_server, said, fields, row):
    redis.Redis(port=redis_server.port).xadd("plant", fields)
    assert json.loads(opened(redis_server, said).next(1)[1]) == row


@pytest.mark.parametrize(("mark", "before"), [("5-3", "5-2"), ("5-0", "4-18446744073709551615")])
def test_the_identifier_before_an_entry(mark, before):
    assert _before(mark) == before


def test_a_server_that_is_down_refuses_or_holds_no_stream_is_an_error_at_once(tmp_path, said):
    nobody = parse_address(f"redis://me:hunter2@127.0.0.1:{free_port()}/t")
    with pytest.raises(DataError, match=r"cannot be reached.*is Redis running there") as error:
        RedisSource(nobody, "g", said.append).start("")
    assert "hunter2" not in str(error.value)
    if program("redis-server") is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    server = Redis(tmp_path / "r", more=("--requirepass", "other"))
    try:
        for bad in ("", "me:hunter2@"):
            with pytest.raises(DataError, match=r"cannot be (used|reached)") as error:
                RedisSource(parse_address(f"redis://{bad}127.0.0.1:{server.port}/t"), "g", said.append).start(
                    ""
                )
            assert "hunter2" not in str(error.value)
        redis.Redis(port=server.port, password="other").set("t", "no stream")
        with pytest.raises(DataError, match="cannot be used: WRONGTYPE"):
            RedisSource(parse_address(f"redis://:other@127.0.0.1:{server.port}/t"), "g", said.append).start(
                ""
            )
    finally:
        server.close()


def writer_of(server, said, run=0, stop=False, kept=()):
    answers = Answers([*kept, "y_mean", "y_std"], {2: "b", 3: 17}.get)
    return RedisWriter(address(server, "answers"), answers, run, said.append, lambda: stop)


def answers_in(server):
    return [fields for _, fields in redis.Redis(port=server.port, decode_responses=True).xrange("answers")]


def test_predictions_are_entries_with_id_and_every_bit(redis_server, said):
    writer = writer_of(redis_server, said, kept=["time"])
    kept = np.array([["a"], [""], ["ü"]], dtype=object)
    writer.write([1, 2, 3], kept, [np.array([0.1, 1.0, 1e-300]), np.array([np.nan, 2.0, 1 / 3])])
    run = str(writer.flush())
    assert answers_in(redis_server) == [
        {"run": run, "line": "1", "time": "a", "y_mean": "0.1", "y_std": ""},
        {"run": run, "line": "2", "id": "b", "time": "", "y_mean": "1.0", "y_std": "2.0"},
        {"run": run, "line": "3", "id": "17", "time": "ü", "y_mean": "1e-300", "y_std": repr(1 / 3)},
    ]


def test_a_resumed_run_writes_no_prediction_twice_and_another_run_writes_all(redis_server, said):
    one = np.empty((1, 0)), [np.ones(1), np.ones(1)]
    writer = writer_of(redis_server, said)
    for line in (1, 2, 3):
        writer.write([line], *one)
    again = writer_of(redis_server, said, run=writer.flush())
    for line in (2, 3, 4):
        again.write([line], *one)
    other = writer_of(redis_server, said)
    other.write([1], *one)
    assert [row["line"] for row in answers_in(redis_server)] == ["1", "2", "3", "4", "1"]


def test_predictions_wait_for_a_server_that_is_away_and_are_written_once(redis_server, said):
    one = np.empty((1, 0)), [np.ones(1), np.ones(1)]
    writer = writer_of(redis_server, said)
    writer.write([1], *one)
    redis_server.kill()
    later = threading.Timer(0.5, redis_server.start)
    later.start()
    writer.write([2], *one)
    later.join()
    assert [row["line"] for row in answers_in(redis_server)] == ["1", "2"]
    assert "connection lost" in said[0]


def test_a_run_that_is_to_stop_does_not_wait_for_ever_for_a_server_that_is_away(
    redis_server, said, monkeypatch
):
    monkeypatch.setattr("streamgp.app.brokers.redis_streams._LAST_PATIENCE", 0.2)
    writer = writer_of(redis_server, said, stop=True)
    redis_server.kill()
    with pytest.raises(DataError, match="does not take the last predictions"):
        writer.write([1], np.empty((1, 0)), [np.ones(1), np.ones(1)])
