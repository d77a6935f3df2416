"""MQTT: messages of a topic as a source, predictions to a topic."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DataError
from .address import Address
from .answers import Answers
from .inbox import Inbox
from .joined import TICK, value_message
from .link import Link, Say

# Seconds without a sign of life after which a connection counts as lost.
_KEEPALIVE = 30
# Seconds that the broker may take to accept a connection at the start.
_PATIENCE = 10.0
# Messages that are synced and acknowledged together, at most.
_GROUP = 500
# Predictions on the way that the broker has not confirmed; more wait.
_UNCONFIRMED = 1000
# Seconds that predictions may take to arrive when the run is to stop.
_LAST_PATIENCE = 5.0
_ACCEPTED = "accepted"


def _import_paho() -> Any:
    try:
        import paho.mqtt.client
    except ImportError as error:
        raise DataError("MQTT needs paho-mqtt: pip install 'streamgp[brokers]'") from error
    return paho.mqtt.client


def _new_client(address: Address, name: str, *, lasting: bool) -> Any:
    """Return a client of MQTT 3.1.1, which every broker speaks; a lasting one is remembered by the broker."""
    paho = _import_paho()
    client = paho.Client(
        paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=not lasting, manual_ack=True
    )
    if address.user is not None:
        client.username_pw_set(address.user, address.password)
    context = address.tls()
    if context is not None:
        client.tls_set_context(context)
    return client


@contextmanager
def _start_errors(address: Address) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise DataError(f"{address} cannot be reached: {error}; is the broker running there?") from error


class MqttSource:
    """Messages of a topic, with quality of service 1.

    A thread of its own writes what comes to the inbox, syncs, and acknowledges; `next` reads from there.

    Parameters
    ----------
    address : Address
    inbox : Path or None
        File of received messages. With one the session is persistent: the broker keeps what comes meanwhile.
    client : str
        Name by which the broker knows the session.
    say : callable
        Shows a message.
    """

    def __init__(self, address: Address, inbox: Path | None, client: str, say: Say) -> None:
        self.address, self._say = address, say
        self._link = Link(address, say)
        self._client = _new_client(address, client if inbox else "", lasting=inbox is not None)
        self._client.on_connect = self._connected
        self._client.on_message = self._arrived
        self._client.on_subscribe = self._subscribed
        self._inbox, self._lasting = Inbox(inbox), inbox is not None
        self._arrivals: list[tuple[int, bytes]] = []
        self._known: list[int] = []
        self._refused = ""
        self._ready = False
        self._failure: DataError | None = None
        self._stopped = threading.Event()
        self._tick_at = time.monotonic() + (address.every or 0.0)
        self._thread = threading.Thread(target=self._receive, name="mqtt", daemon=True)
        # Messages that the broker sent again, and retained ones, which are no new rows.
        self.repeated = self.retained = 0

    def start(self, mark: str) -> None:
        """Connect, and continue after the message at `mark` (empty: with the first one that is unread)."""
        self._inbox.go_to(int(mark or 0))
        with _start_errors(self.address):
            self._client.connect(self.address.host, self.address.port, _KEEPALIVE)
            waited = 0.0
            while not self._ready and not self._refused and waited < _PATIENCE:
                if self._client.loop(0.1):
                    break
                waited += 0.1
        if not self._ready:
            reason = self._refused or f"no answer in {_PATIENCE:.0f} s"
            raise DataError(f"{self.address} cannot be used: {reason}")
        self._keep()
        self._thread.start()

    def next(self, timeout: float) -> tuple[str, bytes] | None:
        """Return the mark and the payload of the next message, or None if none comes for so many seconds."""
        message = self._inbox.next(timeout)
        if message is None:
            if self._failure is not None:
                raise self._failure
            return None
        if not self._lasting:
            self._inbox.drop(message.number)
        return str(message.number), message.payload

    def saved(self, mark: str) -> None:
        """Forget messages up to `mark`: a checkpoint holds what they taught."""
        self._inbox.drop(int(mark or 0))

    def close(self) -> None:
        """Disconnect; the broker keeps the session."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._client.disconnect()
        self._inbox.close()

    @property
    def remarks(self) -> Sequence[str]:
        """What the summary of a run should tell."""
        out = []
        if self.repeated:
            out.append(f"{self.repeated:,} messages came again from the broker and were left out")
        if self.retained:
            out.append(f"{self.retained:,} retained messages were left out: they are no new rows")
        return out

    def _receive(self) -> None:
        try:
            while not self._stopped.is_set():
                failed = self._client.loop(0.2)
                while not failed and len(self._arrivals) < _GROUP and _has_more(self._client.socket()):
                    failed = self._client.loop(0)
                if self.address.every is not None and time.monotonic() >= self._tick_at:
                    # Among the messages, so that a run that goes on has the ticks where they were.
                    self._arrivals.append((0, TICK))
                    self._tick_at = time.monotonic() + self.address.every
                self._keep()
                if failed or self._refused:
                    self._reconnect(failed)
        except DataError as error:
            self._failure = error

    def _keep(self) -> None:
        """Write what has arrived to the disk, then acknowledge it."""
        if self._arrivals:
            self._inbox.append(self._arrivals)
        for packet in [*(packet for packet, _ in self._arrivals), *self._known]:
            if packet and self._client.socket() is not None:
                self._client.ack(packet, 1)
        self._arrivals, self._known = [], []

    def _reconnect(self, failed: int) -> None:
        """Connect again, after a pause."""
        self._link.lost(self._refused or _import_paho().error_string(failed).rstrip("."))
        self._refused = ""
        if self._stopped.wait(self._link.seconds_to_wait):
            return
        try:
            self._client.reconnect()
        except (OSError, ValueError):
            # The next round finds no connection, and comes here again.
            return

    def _connected(self, client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
        if code.is_failure:
            self._refused = f"{code}"
        else:
            client.subscribe(self.address.name, 1)

    def _subscribed(self, client: Any, data: Any, packet: int, codes: Any, properties: Any) -> None:
        if any(code.is_failure for code in codes):
            self._refused = f"the broker refuses to subscribe to {self.address.name}"
        else:
            self._ready = True
            self._link.found()

    def _arrived(self, client: Any, data: Any, message: Any) -> None:
        packet, payload = message.mid if message.qos else 0, message.payload
        if self.address.joins:
            payload = value_message(self.address.name, message.topic, payload, retained=message.retain)
        if message.retain and not self.address.joins:
            self.retained += 1
            self._known.append(packet)
        elif message.dup and self._inbox.knows(packet, payload):
            self.repeated += 1
            self._known.append(packet)
        else:
            self._arrivals.append((packet, payload))


def _has_more(connection: Any) -> bool:
    """Return whether bytes wait to be read; those of an encrypted connection may be decoded already."""
    if connection is None:
        return False
    if getattr(connection, "pending", int)():
        return True
    return bool(select.select([connection], [], [], 0)[0])


class MqttWriter:
    """Predictions to a topic: one message a row, with quality of service 1."""

    def __init__(self, address: Address, answers: Answers, say: Say, should_stop: Callable[[], bool]) -> None:
        self.address, self.path, self._answers = address, str(address), answers
        self._should_stop = should_stop
        self._link = Link(address, say)
        self._client = _new_client(address, "", lasting=False)
        self._client.reconnect_delay_set(1, 15)
        self._client.on_connect = self._connected
        self._client.on_disconnect = self._disconnected
        self._client.on_publish = self._confirmed
        self._sent = self._arrived = 0
        self._changed = threading.Condition()
        self._answer = ""
        with _start_errors(address):
            self._client.connect(address.host, address.port, _KEEPALIVE)
        self._client.loop_start()
        with self._changed:
            self._changed.wait_for(lambda: self._answer, _PATIENCE)
        if self._answer != _ACCEPTED:
            self._client.loop_stop()
            reason = self._answer or f"no answer in {_PATIENCE:.0f} s"
            raise DataError(f"{address} cannot be used: {reason}")

    def write(self, line_numbers: Sequence[int], texts: np.ndarray, columns: Sequence[np.ndarray]) -> None:
        """Send rows; wait while too many are on the way."""
        for text in self._answers.lines(line_numbers, texts, columns):
            self._wait(_UNCONFIRMED)
            self._sent += 1
            self._client.publish(self.address.name, text, qos=1)

    def flush(self) -> int:
        """Wait until the broker has confirmed everything; return 0."""
        self._wait(0)
        return 0

    def close(self) -> None:
        """Wait until the broker has confirmed everything, and disconnect."""
        try:
            self._wait(0)
        finally:
            self._client.disconnect()
            self._client.loop_stop()

    def _wait(self, allowed: int) -> None:
        """Wait until at most so many messages are not confirmed; not for long if the run is to stop."""
        patience = _LAST_PATIENCE
        with self._changed:
            while self._sent - self._arrived > allowed:
                self._changed.wait(0.2)
                patience -= 0.2 if self._should_stop() else 0.0
                if patience <= 0:
                    raise DataError(
                        f"{self.address} has not confirmed the last {self._sent - self._arrived:,} predictions; with "
                        "--checkpoint and --resume they are sent again"
                    )

    def _connected(self, client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
        with self._changed:
            self._answer = f"{code}" if code.is_failure else _ACCEPTED
            self._changed.notify()
        if not code.is_failure:
            self._link.found()

    def _disconnected(self, client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
        if code.is_failure:
            self._link.lost(f"{code}".lower())

    def _confirmed(self, client: Any, data: Any, packet: int, code: Any, properties: Any) -> None:
        with self._changed:
            self._arrived += 1
            self._changed.notify()
