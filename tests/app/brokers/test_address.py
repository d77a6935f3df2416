"""Addresses of brokers: what they name, what is refused, and that a password is never shown."""

import pytest

from streamgp.app.brokers.address import is_address, parse_address, without_password
from streamgp.errors import DataError, ParameterError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mqtt://host/plant/line1", ("mqtt", "host", 1883, "plant/line1", None, None)),
        ("mqtts://host/plant/+/#", ("mqtt", "host", 8883, "plant/+/#", None, None)),
        ("MQTT://[::1]:99//a%3Fb", ("mqtt", "::1", 99, "/a?b", None, None)),
        ("redis://u%40x:p%2Fw@host/plant", ("redis", "host", 6379, "plant", "u@x", "p/w")),
        ("rediss://:pw@host:1/s?db=3&ca=x.pem", ("redis", "host", 1, "s", None, "pw")),
    ],
)
def test_an_address_names_host_port_topic_and_user(text, expected):
    got = parse_address(text)
    assert (got.protocol, got.host, got.port, got.name, got.user, got.password) == expected


@pytest.mark.parametrize("secret", ["hunter2", "p%2Fw", "ü:@"])
def test_a_password_is_never_shown(secret, monkeypatch):
    got = parse_address(f"mqtt://operator:{secret.replace('@', '%40')}@host/t?client=one")
    monkeypatch.setenv("STREAMGP_MQTT_PASSWORD", secret)
    from_environment = parse_address("mqtt://host/t")
    assert from_environment.password == secret
    for shown in (
        str(got),
        repr(got),
        str(from_environment),
        repr(from_environment),
        without_password("mqtt://operator:x@host/t"),
    ):
        assert secret not in shown
        assert "operator" not in shown
    assert str(got) == "mqtt://host/t"


@pytest.mark.parametrize(
    "bad",
    ["mqtt://me:hunter2@host:x/t", "mqtt://me:hunter2@[host/t", "mqtt://me:hunter2@host/t?x=1",
     "redis://me:hunter2@/s", "mqtt://me:hunter2@host", "redis://me:hunter2@h/s?ca=x"],
)  # fmt: skip
def test_an_address_that_is_wrong_is_refused_without_showing_the_password(bad):
    with pytest.raises(ParameterError) as error:
        parse_address(bad)
    assert "hunter2" not in str(error.value)


def test_the_environment_fills_in_what_the_address_lacks(monkeypatch):
    monkeypatch.setenv("STREAMGP_REDIS_USER", "operator")
    monkeypatch.setenv("STREAMGP_REDIS_PASSWORD", "secret")
    assert parse_address("redis://h/s").user == "operator"
    assert parse_address("redis://me:mine@h/s").password == "mine"


def test_certificates_that_are_not_there_are_named():
    with pytest.raises(DataError, match=r"ca=/nowhere\.pem"):
        parse_address("mqtts://h/t?ca=/nowhere.pem").tls()


def test_files_are_no_addresses():
    assert [is_address(t) for t in (None, "-", "a.csv", "mqtt:a.csv", "http://x/y", "redis://x/y")] == [
        False
    ] * 5 + [True]
    assert without_password("plant.csv") == "plant.csv"
