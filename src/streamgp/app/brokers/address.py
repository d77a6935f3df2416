"""Addresses of brokers: `mqtt://user:password@host:1883/topic?ca=ca.pem`. A password is never shown or saved."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from ...errors import DataError, ParameterError

# For each scheme: its protocol, the usual port, and whether it is encrypted.
_SCHEMES = {
    "mqtt": ("mqtt", 1883, False),
    "mqtts": ("mqtt", 8883, True),
    "redis": ("redis", 6379, False),
    "rediss": ("redis", 6379, True),
}
_EXAMPLES = {"mqtt": "mqtt://host/plant/line1", "redis": "redis://host/plant"}
_SETTINGS = {"mqtt": {"client", "row", "every"}, "redis": {"db", "group"}}
_TLS = {"ca", "cert", "key"}


@dataclass(frozen=True)
class Address:
    """Where a topic or a stream is.

    Attributes
    ----------
    protocol : {"mqtt", "redis"}
    name : str
        Of the topic or the stream.
    settings : mapping
        What stands after the question mark.
    """

    scheme: str
    host: str
    port: int
    name: str
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        """The protocol without regard to encryption."""
        return _SCHEMES[self.scheme][0]

    @property
    def joins(self) -> bool:
        """Whether topics with one value each are joined into rows."""
        return "row" in self.settings or "every" in self.settings

    @property
    def every(self) -> float | None:
        """Seconds between two rows, None where a value makes them."""
        return float(self.settings["every"]) if "every" in self.settings else None

    def __str__(self) -> str:
        """Return the address without user, password and settings."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == _SCHEMES[self.scheme][1]
        return f"{self.scheme}://{host}{'' if usual else f':{self.port}'}/{self.name}"

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of an encrypted connection, None for a plain one."""
        if not _SCHEMES[self.scheme][2]:
            return None
        try:
            context = ssl.create_default_context(cafile=self.settings.get("ca"))
            if "cert" in self.settings:
                context.load_cert_chain(self.settings["cert"], self.settings.get("key"))
        except OSError as error:
            files = ", ".join(f"{name}={self.settings[name]}" for name in sorted(_TLS & set(self.settings)))
            raise DataError(f"{self}: the certificates {files} cannot be used: {error}") from error
        return context


def is_address(text: str | None) -> bool:
    """Return whether a text is the address of a broker rather than the name of a file."""
    return text is not None and text.partition("://")[0].lower() in _SCHEMES


def without_password(text: str) -> str:
    """Return the address of a broker without user, password and settings; any other text as it is."""
    return str(parse_address(text)) if is_address(text) else text


def parse_address(text: str) -> Address:
    """Return the address in a text; raise ParameterError if it is incomplete.

    A user and a password that it does not hold are taken from STREAMGP_MQTT_USER and STREAMGP_MQTT_PASSWORD, or
    STREAMGP_REDIS_USER and STREAMGP_REDIS_PASSWORD.
    """
    try:
        # "#" is part of a topic.
        parts = urlsplit(text, allow_fragments=False)
        host, port = parts.hostname, parts.port
    except ValueError:
        # Its message would show the text, and a password in it.
        raise ParameterError(
            "the host or the port of the broker's address cannot be read; percent-encode special characters of "
            "user and password"
        ) from None
    protocol, usual_port, encrypted = _SCHEMES[parts.scheme]
    name = unquote(parts.path).removeprefix("/")
    if not host or not name:
        missing = "a host" if not host else "a topic" if protocol == "mqtt" else "the name of a stream"
        raise ParameterError(f"the broker's address lacks {missing}; write {_EXAMPLES[protocol]}")
    settings = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(set(settings) - _SETTINGS[protocol] - (_TLS if encrypted else set()))
    if unknown:
        hint = f"; it needs {protocol}s:// or rediss://" if unknown[0] in _TLS else ""
        raise ParameterError(f"{parts.scheme}://{host} has the unknown setting {unknown[0]}{hint}")
    _check_joining(settings, name)
    prefix = f"STREAMGP_{protocol.upper()}"
    return Address(
        parts.scheme, host, port or usual_port, name,
        unquote(parts.username) if parts.username else os.environ.get(f"{prefix}_USER"),
        unquote(parts.password) if parts.password else os.environ.get(f"{prefix}_PASSWORD"),
        settings,
    )  # fmt: skip


def _check_joining(settings: Mapping[str, str], topics: str) -> None:
    """Raise ParameterError for settings that join topics into rows and do not fit."""
    if "every" in settings:
        try:
            fits = 0.1 <= float(settings["every"]) <= 86400
        except ValueError:
            fits = False
        if not fits:
            raise ParameterError(
                f"every={settings['every']} is not a number of seconds between 0.1 and 86400"
            )
    joining = sorted({"row", "every"} & set(settings))
    if len(joining) == 2:
        raise ParameterError("row= and every= are two ways to say when values make a row; give one")
    if joining and not {"+", "#"} & set(topics.split("/")):
        raise ParameterError(
            f"{joining[0]}= joins topics that differ in one part, and {topics} names one; write mqtt://host/plant/+/value"
        )
