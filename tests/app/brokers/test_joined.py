"""Laws of joined topics: a row holds what was last known, a label is learned once, wherever the run was ended."""

import json
import random
import signal

import pytest

from app.brokers.test_mqtt import address, client_of, publish
from app.brokers.test_run_with_brokers import wait_for
from app.helpers import process, run, state
from experiments.checks.broker_servers import Mosquitto
from streamgp.app.brokers.address import parse_address
from streamgp.app.brokers.joined import TICK, Joined, value_message
from streamgp.app.brokers.mqtt import MqttSource
from streamgp.errors import ParameterError
from streamgp.loading import load_with_more

TOPICS = "plant/+/value"


class Fake:
    """A source of messages in a list, of which the mark is their number."""

    remarks = ()

    def __init__(self, messages):
        self.messages, self.at, self.dropped = messages, 0, ""

    def start(self, mark):
        self.at = int(mark or 0)

    def next(self, timeout):
        if self.at == len(self.messages):
            return None
        self.at += 1
        return str(self.at), self.messages[self.at - 1]

    def saved(self, mark):
        self.dropped = mark

    def close(self):
        pass


def message(name, payload, retained=False):
    return value_message(TOPICS, f"plant/{name}/value", str(payload).encode(), retained=retained)


def rows_of(messages, at, mark="", names=("a", "b", "y", "z"), targets=("y", "z")):
    """The rows, each with its mark."""
    source = Joined(Fake(messages), names, targets, at)
    source.start(mark)
    return [(mark, json.loads(row)) for mark, row in iter(lambda: source.next(0.0), None)]


def test_a_row_is_made_when_the_named_value_comes_and_a_label_is_in_one_row_only():
    sent = [
        ("a", 1), ("y", 10), ("b", 2), ("y", 11), ("z", 5), ("a", 3), ("other", 9), ("y", 12), ("a", "null"), ("y", 13),
    ]  # fmt: skip
    found = [row for _, row in rows_of([message(*one) for one in sent], "y")]
    assert found == [
        {"a": 1, "y": 10}, {"a": 1, "b": 2, "y": 11}, {"a": 3, "b": 2, "z": 5, "y": 12}, {"a": None, "b": 2, "y": 13},
    ]  # fmt: skip


def test_ticks_make_a_row_where_something_new_came():
    sent = [TICK, message("a", 1), message("b", 2), TICK, TICK, message("y", 7), TICK, message("b", 3), TICK]
    found = [row for _, row in rows_of(sent, None)]
    assert found == [{"a": 1, "b": 2}, {"a": 1, "b": 2, "y": 7}, {"a": 1, "b": 3}]


@pytest.mark.parametrize("at", ["y", "b", None])
def test_after_any_row_a_run_goes_on_with_what_was_known(at):
    chance = random.Random(1)
    sent = [
        TICK if chance.random() < 0.2 else message(chance.choice("abyzx"), chance.randrange(9))
        for _ in range(200)
    ]
    whole = rows_of(sent, at)
    assert len(whole) > 20
    for k, (mark, _) in enumerate(whole):
        assert rows_of(sent, at, mark) == whole[k + 1 :]
    source = Joined(Fake(sent), "aby", "y", at)
    source.saved(whole[5][0])
    assert int(source._source.dropped) > 5


def test_what_a_broker_kept_is_a_last_value_and_no_new_label():
    sent = [message("y", 9, retained=True), message("a", 1, retained=True), message("y", 2)]
    assert [row for _, row in rows_of(sent, "y")] == [{"a": 1, "y": 2}]
    assert rows_of(sent[1:2], "a") == []


@pytest.mark.parametrize(
    ("topics", "topic", "name"),
    [
        ("plant/+/value", "plant/heat/value", "heat"),
        ("plant/#", "plant/a/b", "a/b"),
        ("+/x/+/v", "p/x/q/v", "p/q"),
        ("plant/+/#", "plant/a", "a"),
    ],
)
def test_a_value_has_the_name_that_the_wildcards_stand_for(topics, topic, name):
    assert json.loads(value_message(topics, topic, b"1", retained=False))["name"] == name


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b"3.5", 3.5), (b" 7\n", 7), (b'"on"', "on"), (b"on", "on"), (b'{"value": 2, "t": 1}', 2), (b"null", None),
        (b"[1]", None), (b'{"v": 2}', None), (b"\xff", "\ufffd"), (b"true", True), (b"[" * 9000, "[" * 9000),
    ],
    ids=str,
)  # fmt: skip
def test_a_payload_is_a_number_a_text_or_an_object_with_a_value(payload, value):
    assert json.loads(value_message(TOPICS, "plant/a/value", payload, retained=False))["value"] == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mqtt://h/plant/+/v?row=y&every=1", "give one"),
        ("mqtt://h/plant/v?row=y", "names one"),
        ("mqtt://h/plant/+/v?every=soon", "every=soon"),
        ("mqtt://h/plant/+/v?every=0", "every=0"),
        ("redis://h/plant?row=y", "unknown setting"),
    ],
)
def test_settings_that_do_not_fit_are_refused(text, said):
    with pytest.raises(ParameterError, match=said):
        parse_address(text)


@pytest.mark.parametrize(
    ("more", "said"),
    [((), "--columns"), (("--columns", "a,b"), "row=y is none of the columns a, b")],
)
def test_which_values_make_up_a_row_must_be_known(more, said):
    outcome = run("mqtt://localhost/plant/+/value?row=y", "--target", "y", *more)
    assert outcome.exit_code == 2
    assert said in " ".join(outcome.output.replace("│", " ").split())


def test_ticks_come_from_the_clock_and_retained_values_from_the_broker(mosquitto):
    publish(mosquitto, [b"1"], "plant/a/value", retain=True)
    inner = MqttSource(address(mosquitto, TOPICS, more="?every=0.1"), None, "", print)
    source = Joined(inner, ("a", "b"), (), None)
    source.start("")
    try:
        assert json.loads(source.next(20)[1]) == {"a": 1}
        publish(mosquitto, [b"2"], "plant/b/value")
        assert json.loads(source.next(20)[1]) == {"a": 1, "b": 2}
    finally:
        source.close()


def test_a_run_of_joined_topics_that_was_killed_learns_what_a_file_of_the_rows_teaches(
    mosquitto: Mosquitto, tmp_path
):
    """Killed once, after a checkpoint that is not the end; one sensor sends every third time only."""
    chance, known, lines = random.Random(0), {}, ["a,b,y"]
    client = client_of(mosquitto)

    def send(name, value):
        client.publish(f"plant/{name}/value", repr(value), qos=1).wait_for_publish(10)
        known[name] = value

    def send_row(i):
        for name in ("a", "b") if i % 3 == 0 else ("a",):
            send(name, chance.uniform(-1, 1))
        send("y", known["a"] + known["b"] ** 2)
        lines.append(",".join(repr(known[n]) for n in ("a", "b", "y")))

    source, model = f"mqtt://127.0.0.1:{mosquitto.port}/plant/+/value?row=y", tmp_path / "c.gp"
    more = ("--features", "a,b", "--target", "y", "--rank", 15, "--batch", 1, "--every", 5, "--resume")

    def listens():
        client.publish("plant/a/value", "0.5", qos=1).wait_for_publish(10)  # no row, and the session exists
        inbox = tmp_path / "c.gp.inbox"
        return inbox.exists() and inbox.stat().st_size > 0

    def learned(n):
        return lambda: model.exists() and load_with_more(model)[1]["run"]["tally"]["learned"] >= n

    for part in range(2):
        child = process("run", source, *more, "--checkpoint", model)
        try:
            if part == 0:
                wait_for(listens, child)
            for i in range(15 * part, 15 * part + 15):
                send_row(i)
            wait_for(learned(15 * part + (10 if part < 1 else 15)), child)
            child.send_signal(signal.SIGKILL if part < 1 else signal.SIGTERM)
            child.communicate()
        finally:
            child.kill()
    client.disconnect()
    client.loop_stop()
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    assert run(tmp_path / "t.csv", *more, "--checkpoint", tmp_path / "d.gp").exit_code == 0
    assert state(model)["learner"] == state(tmp_path / "d.gp")["learner"]
