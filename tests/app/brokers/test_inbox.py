"""The inbox: what was appended is there after a crash, once, in its order, and does not grow for ever."""

import json

import pytest

from streamgp.app.brokers import inbox as module
from streamgp.app.brokers.inbox import KEPT, Inbox
from streamgp.errors import DataError


def payloads(box):
    out = []
    while message := box.next(0):
        out.append(message.payload)
    return out


@pytest.mark.parametrize("payload", [b'{"a": 1}', b"", b"\xff\xfe\n\x00", "π".encode(), b"[" * 1000])
def test_a_message_keeps_every_byte(tmp_path, payload):
    for path in (tmp_path / "box", None):
        box = Inbox(path)
        box.append([(1, payload), (2, b"next")])
        assert payloads(box) == [payload, b"next"]


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_line_that_a_crash_cut_short_is_left_out_and_replaced(tmp_path, cut):
    path = tmp_path / "box"
    box = Inbox(path)
    box.append([(1, b"one"), (2, b"two")])
    box.close()
    path.write_bytes(path.read_bytes()[:-cut])
    box = Inbox(path)
    box.go_to(0)
    box.append([(2, b"two again")])
    assert payloads(box) == [b"one", b"two again"]
    box.close()
    assert payloads(Inbox(path)) == [b"one", b"two again"]


def test_reading_continues_after_any_message(tmp_path):
    for number in range(6):
        path = tmp_path / f"box{number}"
        box = Inbox(path)
        box.append([(i, b"%d" % i) for i in range(1, 6)])
        box.close()
        box = Inbox(path)
        box.go_to(number)
        box.append([(9, b"new")])
        assert payloads(box) == [*(b"%d" % i for i in range(number + 1, 6)), b"new"]


def test_messages_that_a_checkpoint_holds_are_forgotten_but_for_the_last(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_COMPACTED", 1000)
    for path, kept in ((tmp_path / "box", KEPT), (None, 0)):
        box = Inbox(path)
        for i in range(1, 5001, 250):
            box.append([(j, b"%d" % j) for j in range(i, i + 250)])
            assert [box.next(0).number for _ in range(250)] == list(range(i, i + 250))
            box.drop(i + 240)
        assert box._size < (2 * kept + 500) * 20
        assert box.knows(5000, b"5000")
        assert box.knows(4100, b"4100")
        assert not box.knows(5000, b"4999")
    again = Inbox(tmp_path / "box")
    again.go_to(4990)
    assert payloads(again) == [b"%d" % i for i in range(4991, 5001)]
    assert again.knows(4100, b"4100")


def test_unread_messages_survive_being_written_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_COMPACTED", 100)
    monkeypatch.setattr(module, "KEPT", 3)
    box = Inbox(tmp_path / "box")
    box.append([(i, b"%d" % i) for i in range(1, 101)])
    for _ in range(80):
        box.next(0)
    box.drop(70)
    assert json.loads((tmp_path / "box").read_bytes().partition(b"\n")[0])[0] == 68
    assert payloads(box) == [b"%d" % i for i in range(81, 101)]
    box.close()
    box = Inbox(tmp_path / "box")
    box.go_to(70)
    assert payloads(box)[0] == b"71"


def test_an_inbox_of_another_checkpoint_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_COMPACTED", 10)
    monkeypatch.setattr(module, "KEPT", 1)
    box = Inbox(tmp_path / "box")
    box.append([(i, b"%d" % i) for i in range(1, 11)])
    payloads(box)
    box.drop(10)
    box.close()
    with pytest.raises(DataError, match="begins with message 10, but the run continues after message 0"):
        Inbox(tmp_path / "box").go_to(0)
    # A checkpoint that is ahead of the inbox: numbers go on after it.
    box = Inbox(tmp_path / "box")
    box.go_to(20)
    box.append([(1, b"x")])
    assert box.next(0).number == 21
    box.close()
    box = Inbox(tmp_path / "box")
    box.go_to(20)
    assert payloads(box) == [b"x"]
