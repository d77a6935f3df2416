"""The programs for other brokers in the documentation run as printed, with stand-ins for the libraries."""

import asyncio
import re
import sys
import types
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "brokers.md").read_text()
RECIPES = {
    re.search(r"pip install ([\w-]+)", title).group(1): code
    for title, code in re.findall(r"\n(\*\*[^\n]*)\n\n```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
}


class EnoughError(Exception):
    """The stand-in has nothing more."""


class Message:
    def __init__(self, data):
        self.data, self.acknowledged = data, False

    def value(self):
        return self.data

    def error(self):
        return None

    async def ack(self):
        self.acknowledged = True


MESSAGES = [b'{"a": 1,\n "y": 2}', b'{"a": 3, "y": 4}']
EXPECTED = b'{"a": 1,  "y": 2}\n{"a": 3, "y": 4}\n'


def stand_in(monkeypatch, name, **content):
    module = types.ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


def execute(name):
    with pytest.raises(EnoughError):
        exec(compile(RECIPES[name], name, "exec"), {})


def test_there_is_a_recipe_for_each_of_three():
    assert set(RECIPES) == {"confluent-kafka", "asyncua", "nats-py"}


def test_kafka(monkeypatch, capsysbinary):
    class Consumer:
        def __init__(self, settings):
            assert settings["enable.auto.commit"] is False
            self.left = [None, *map(Message, MESSAGES)]

        def assign(self, partitions):
            assert partitions == [("plant", 0, 0)]

        def poll(self, seconds):
            if not self.left:
                raise EnoughError
            return self.left.pop(0)

    stand_in(monkeypatch, "confluent_kafka", Consumer=Consumer, TopicPartition=lambda *a: a)
    execute("confluent-kafka")
    assert capsysbinary.readouterr().out == EXPECTED


def test_opc_ua(monkeypatch, capsysbinary):
    class Client:
        def __init__(self, address):
            self.reads = 0

        async def __aenter__(self):
            return self

        async def __aexit__(self, *error):
            return None

        def get_node(self, address):
            return address

        async def read_values(self, nodes):
            assert len(nodes) == 3
            self.reads += 1
            if self.reads > 2:
                raise EnoughError
            return [1.0, 2.0, None]

    async def at_once(seconds):
        return None

    monkeypatch.setattr(asyncio, "sleep", at_once)
    stand_in(monkeypatch, "asyncua", Client=Client)
    execute("asyncua")
    assert capsysbinary.readouterr().out == 2 * b'{"temperature": 1.0, "pressure": 2.0, "yield": null}\n'


def test_nats(monkeypatch, capsysbinary):
    messages = [Message(data) for data in MESSAGES]

    class Subscription:
        @property
        async def messages(self):
            for message in messages:
                yield message
            raise EnoughError

    class Connection:
        def jetstream(self):
            return self

        async def subscribe(self, name, durable):
            assert (name, durable) == ("plant", "streamgp")
            return Subscription()

    async def connect(address):
        return Connection()

    stand_in(monkeypatch, "nats", connect=connect)
    execute("nats-py")
    assert capsysbinary.readouterr().out == EXPECTED
    assert all(message.acknowledged for message in messages)
