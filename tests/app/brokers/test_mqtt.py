"""MQTT against a real mosquitto: nothing lost or read twice, whoever is away meanwhile."""

import json
import subprocess
import threading
import time

import numpy as np
import pytest

from experiments.checks.broker_servers import Mosquitto, free_port, program
from streamgp.app.brokers.address import parse_address
from streamgp.app.brokers.answers import Answers
from streamgp.app.brokers.mqtt import MqttSource, MqttWriter
from streamgp.errors import DataError

paho = pytest.importorskip("paho.mqtt.client")


def address(server, name="plant/line1", scheme="mqtt", more=""):
    return parse_address(f"{scheme}://127.0.0.1:{server.port}/{name}{more}")


def client_of(server):
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", server.port)
    client.loop_start()
    return client


def publish(server, payloads, name="plant/line1", **more):
    client = client_of(server)
    for sent in [client.publish(name, payload, **{"qos": 1, **more}) for payload in payloads]:
        sent.wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


def numbered(first, last):
    return [b"%d" % i for i in range(first, last)]


def read(source, count, seconds=20):
    """Return the payloads of so many messages, and the mark of the last one."""
    out, mark, end = [], "", time.monotonic() + seconds
    while len(out) < count and time.monotonic() < end:
        message = source.next(0.2)
        if message is not None:
            mark, payload = message
            out.append(payload)
    return out, mark


def opened(server, box, said, mark="", name="plant/line1"):
    source = MqttSource(address(server, name), box, "streamgp-test", said.append)
    source.start(mark)
    return source


@pytest.mark.parametrize("durable", [True, False])
def test_more_messages_are_read_than_a_broker_hands_out_unacknowledged(mosquitto, said, tmp_path, durable):
    """No checkpoint is written meanwhile; mosquitto has at most 20 on the way."""
    source = opened(mosquitto, tmp_path / "box" if durable else None, said)
    publish(mosquitto, numbered(0, 150))
    assert read(source, 150)[0] == numbered(0, 150)
    source.close()
    assert not said


def test_what_comes_while_the_run_is_down_is_read_afterwards_and_what_was_not_saved_again(
    mosquitto, said, tmp_path
):
    source = opened(mosquitto, tmp_path / "box", said)
    publish(mosquitto, numbered(0, 30))
    _, mark = read(source, 10)
    source.saved(mark)
    assert read(source, 20)[0] == numbered(10, 30)
    source.close()
    publish(mosquitto, numbered(30, 60))
    source = opened(mosquitto, tmp_path / "box", said, mark)
    assert read(source, 50)[0] == numbered(10, 60)
    source.close()


def test_a_message_of_which_the_acknowledgement_was_lost_is_read_once(mosquitto, said, tmp_path):
    source = opened(mosquitto, tmp_path / "box", said)
    source._client.ack = lambda packet, qos: None
    # Equal payloads are different messages.
    publish(mosquitto, [b"1", b"1", b"2"])
    assert read(source, 3)[0] == [b"1", b"1", b"2"]
    source.close()
    source = opened(mosquitto, tmp_path / "box", said)
    publish(mosquitto, [b"1", b"3"])
    assert read(source, 5)[0] == [b"1", b"1", b"2", b"1", b"3"]
    assert source.repeated == 3
    assert "3 messages came again" in source.remarks[0]
    source.close()


def test_a_broker_that_was_killed_is_waited_for_and_says_so(mosquitto, said, tmp_path):
    source = opened(mosquitto, tmp_path / "box", said)
    publish(mosquitto, numbered(0, 5))
    assert read(source, 5)[0] == numbered(0, 5)
    mosquitto.kill()
    assert read(source, 1, seconds=1)[0] == []
    mosquitto.start()
    end = time.monotonic() + 20
    while len(said) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    publish(mosquitto, numbered(5, 10))
    assert read(source, 5)[0] == numbered(5, 10)
    source.close()
    assert "connection lost" in said[0]
    assert "connected again after" in said[1]


def test_retained_messages_are_no_new_rows(mosquitto, said):
    publish(mosquitto, [b"old"], retain=True)
    source = opened(mosquitto, None, said)
    publish(mosquitto, [b"new"])
    assert read(source, 1)[0] == [b"new"]
    assert "1 retained messages were left out" in source.remarks[0]
    source.close()


def test_several_topics_and_any_quality_of_service_are_read(mosquitto, said):
    source = opened(mosquitto, None, said, name="plant/+/rows/#")
    publish(mosquitto, [b"1"], "plant/a/rows", qos=0)
    publish(mosquitto, [b"2"], "plant/b/rows/x", qos=2)
    publish(mosquitto, [b"3"], "plant/b/other")
    publish(mosquitto, [b"4"], "plant/c/rows/y/z", qos=1)
    assert sorted(read(source, 3)[0]) == [b"1", b"2", b"4"]
    source.close()


def test_a_broker_that_is_down_or_refuses_is_an_error_at_once(tmp_path, said):
    nobody = parse_address(f"mqtt://me:hunter2@127.0.0.1:{free_port()}/t")
    for start in (
        lambda: MqttSource(nobody, None, "x", said.append).start(""),
        lambda: MqttWriter(nobody, Answers([], lambda line: None), said.append, lambda: False),
    ):
        with pytest.raises(DataError, match=r"cannot be reached.*is the broker running there") as error:
            start()
        assert "hunter2" not in str(error.value)


def test_a_user_who_is_not_known_is_refused_with_the_reason(tmp_path, said):
    if program("mosquitto") is None:
        pytest.skip("mosquitto is not installed (Debian: apt-get install mosquitto)")
    (tmp_path / "users").write_text("")
    server = Mosquitto(tmp_path / "m", more=f"allow_anonymous false\npassword_file {tmp_path / 'users'}")
    try:
        with pytest.raises(DataError, match="cannot be used: Not authorized"):
            opened(server, None, said)
        with pytest.raises(DataError, match="cannot be used: Not authorized"):
            MqttWriter(address(server), Answers([], lambda line: None), said.append, lambda: False)
    finally:
        server.close()


def test_an_encrypted_connection_needs_the_certificate_of_its_authority(tmp_path, said):
    for name in ("mosquitto", "openssl"):
        if program(name) is None:
            pytest.skip(f"{name} is not installed (Debian: apt-get install {name})")
    key, cert, port = tmp_path / "key.pem", tmp_path / "cert.pem", free_port()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    more = f"listener {port} 127.0.0.1\ncertfile {cert}\nkeyfile {key}"
    server = Mosquitto(tmp_path / "m", more=more)
    try:
        trusted = parse_address(f"mqtts://127.0.0.1:{port}/plant/line1?ca={cert}")
        source = MqttSource(trusted, None, "", said.append)
        source.start("")
        # Many messages in one record of TLS: those that are decoded already must not wait for the next one.
        publish(server, numbered(0, 100))
        assert read(source, 100)[0] == numbered(0, 100)
        source.close()
        with pytest.raises(DataError, match="certificate verify failed"):
            MqttSource(parse_address(f"mqtts://127.0.0.1:{port}/t"), None, "", said.append).start("")
    finally:
        server.close()


def columns(n):
    """Kept texts, then columns of numbers, of n rows."""
    kept = np.array([[f"t{i}"] for i in range(n)], dtype=object)
    return kept, [np.arange(n) + 0.1, np.where(np.arange(n) % 2, np.nan, 1e-300)]


def test_predictions_arrive_with_id_and_every_bit_also_through_a_restart_of_the_broker(mosquitto, said):
    got, subscribed = [], threading.Event()
    reader = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="reader", clean_session=False)
    reader.on_connect = lambda client, *_: client.subscribe("answers", 1)
    reader.on_subscribe = lambda *_: subscribed.set()
    reader.on_message = lambda client, data, message: got.append(json.loads(message.payload))
    reader.connect("127.0.0.1", mosquitto.port)
    reader.loop_start()
    assert subscribed.wait(20)
    ids = {2: "b", 3: 17}
    writer = MqttWriter(
        address(mosquitto, "answers"),
        Answers(["time", "y_mean", "y_std"], ids.get),
        said.append,
        lambda: False,
    )
    writer.write([1, 2, 3], *columns(3))
    assert writer.flush() == 0
    # What mosquitto has confirmed is in its memory: only what readers have is safe from its end.
    end = time.monotonic() + 20
    while not {row["line"] for row in got} >= {1, 2, 3} and time.monotonic() < end:
        time.sleep(0.05)
    mosquitto.kill()
    writer.write([4], *columns(1))
    mosquitto.start()
    writer.close()
    reader.disconnect()
    reader.loop_stop()
    rows = {row["line"]: row for row in got}
    assert [rows[line] for line in (1, 2, 3)] == [
        {"line": 1, "time": "t0", "y_mean": 0.1, "y_std": 1e-300},
        {"line": 2, "id": "b", "time": "t1", "y_mean": 1.1, "y_std": None},
        {"line": 3, "id": 17, "time": "t2", "y_mean": 2.1, "y_std": 1e-300},
    ]
    assert any("connection lost" in text for text in said)


def test_a_run_that_is_to_stop_does_not_wait_for_ever_for_a_broker_that_is_away(mosquitto, said, monkeypatch):
    monkeypatch.setattr("streamgp.app.brokers.mqtt._LAST_PATIENCE", 0.5)
    writer = MqttWriter(
        address(mosquitto, "answers"), Answers(["y_mean"], lambda line: None), said.append, lambda: True
    )
    mosquitto.kill()
    writer.write([1], np.empty((1, 0)), [np.ones(1)])
    with pytest.raises(DataError, match="has not confirmed the last 1 predictions"):
        writer.close()
