"""Messages become lines: lists, ids, what is no row, when a batch waits, and where a run continues."""

import json
from itertools import islice

import pytest

from streamgp.app.brokers.lines import Identity, MessageLines, rows_of
from streamgp.app.tables import JsonReader, Position, ReadOptions


class Canned:
    """A source of messages that are here already; None stands for silence."""

    remarks = ()

    def __init__(self, *messages):
        self.messages, self.kept, self.waited = messages, None, []

    def start(self, mark):
        self.at = int(mark or 0)

    def next(self, timeout):
        self.waited.append(timeout)
        if self.at >= len(self.messages):
            return None
        self.at += 1
        message = self.messages[self.at - 1]
        return None if message is None else (str(self.at), message)

    def saved(self, mark):
        self.kept = mark

    def close(self):
        pass


def lines_of(source, count, identity=None, state=None, line=0):
    lines = MessageLines(source, identity, True, lambda: False, state, line)
    return lines, list(islice(lines, count))


@pytest.mark.parametrize(
    ("payload", "rows"),
    [
        (b'{"a": 1}', [b'{"a": 1}\n']),
        (b' {"a":\n 1}\r\n', [b'{"a":  1}\n']),
        (b'[{"a": 0.1}, {"a": 1e300}]', [b'{"a": 0.1}\n', b'{"a": 1e+300}\n']),
        (b"[1, null]", [b"1\n", b"null\n"]),
        (b"[]", [b"[]\n"]),
        (b"[1,", [b"[1,\n"]),
        (b"", [b'""\n']),
        (b"  \n", [b'""\n']),
        (b"\xff\x00", [b"\xff\x00\n"]),
    ],
)
def test_a_message_is_one_row_or_a_list_of_rows(payload, rows):
    assert rows_of(payload) == rows


def test_a_message_that_is_too_long_is_replaced_by_its_length():
    assert rows_of(b"[" + b" " * (1 << 24)) == [b"\0a message of 16,777,217 bytes\n"]


def test_what_is_no_row_is_a_bad_row_with_its_reason():
    source = Canned(b'{"a": 1, "y": 2}', b"", b"{", b"[]", b"23.5", b'[{"a": "x"}, {"a": 3}]')
    reader = JsonReader(MessageLines(source, None, True, lambda: False), ReadOptions())
    batch = next(reader.batches(["a"], ["y"], 100))
    assert batch.line_numbers == [1, 7]
    reasons = {row.line: row.reason for row in batch.bad}
    assert list(reasons) == [2, 3, 4, 5, 6]
    assert "not JSON" in reasons[3]
    assert "not an object" in reasons[5]
    assert "a='x' is not a number" in reasons[6]


def batches_of(source, count, eager, max_wait=60.0, batch_size=100):
    lines = MessageLines(source, None, eager, lambda: False)
    reader = JsonReader(lines, ReadOptions(columns=["a"], max_wait=max_wait))
    found = islice(reader.batches(["a"], [], batch_size), count)
    return [batch.X[:, 0].tolist() for batch in found]


def test_silence_ends_a_batch_at_once_or_after_the_longest_wait():
    rows = [b'{"a": %d}' % i for i in range(4)]
    source = Canned(rows[0], rows[1], None, rows[2])
    assert batches_of(source, 2, eager=True) == [[0, 1], [2]]
    assert source.waited[1:3] == [0.0, 0.0]
    assert batches_of(Canned(*rows), 2, eager=True, batch_size=3) == [[0, 1, 2], [3]]
    # Where rows wait for others, they are not passed on alone.
    assert batches_of(Canned(rows[0], None, None, *rows[1:]), 1, eager=False, batch_size=3) == [[0, 1, 2]]
    assert batches_of(Canned(rows[0], None, rows[1]), 3, eager=False, max_wait=1e-9) == [[0], [], [1]]


def test_a_run_continues_after_any_row_even_within_a_list():
    messages = [
        json.dumps(m).encode() for m in ({"a": 1}, [{"a": 2}, {"a": 3}, {"a": 4}], {"a": 5}, [{"a": 6}])
    ]
    _, whole = lines_of(Canned(*messages), 6)
    for done in range(7):
        source = Canned(*messages)
        lines, got = lines_of(source, done)
        state = lines.state(done)
        lines.saved()
        # All messages that are read whole may be acknowledged, and no other.
        assert source.kept == ["", "1", "1", "1", "2", "3", "4"][done]
        _, rest = lines_of(Canned(*messages), 6 - done, state=state, line=done)
        assert got + rest == whole


def test_the_state_is_that_of_the_row_asked_for_although_more_were_read():
    lines, _ = lines_of(Canned(*(b'{"id": %d, "y": 1}' % i for i in range(9))), 9, Identity("id", ["y"]))
    assert lines.state(4) == {"mark": "4", "rows": 0, "ids": ("0", "1", "2", "3")}
    assert lines.state(7)["mark"] == "7"


def test_a_row_that_comes_again_is_left_out_also_after_a_restart():
    rows = [b'{"id": %d, "y": 1}' % i for i in (1, 2, 1, 3)]
    identity = Identity("id", ["y"])
    lines, got = lines_of(Canned(*rows), 3, identity)
    assert got == [rows[0] + b"\n", rows[1] + b"\n", rows[3] + b"\n"]
    assert lines.repeated == 1
    assert "1 rows came again" in lines.remarks[0]
    assert [lines.id_of(n) for n in (1, 2, 3, 4)] == [1, 2, 3, None]
    state = lines.state(2)
    _, again = lines_of(Canned(rows[0], rows[3]), 1, identity, {**state, "mark": "", "rows": 0}, 2)
    assert again == [rows[3] + b"\n"]


def test_a_row_and_the_same_row_with_its_label_are_two():
    rows = [b'{"id": "a", "x": 1}', b'{"id": "a", "x": 1, "y": null}', b'{"id": "a", "x": 1, "y": 2}',
            b'{"id": "a", "x": 1, "y": 2}', b'{"x": 1}', b'{"x": 1}']  # fmt: skip
    _, got = lines_of(Canned(*rows), 4, Identity("id", ["y"]))
    assert got == [rows[i] + b"\n" for i in (0, 2, 4, 5)]


def test_line_numbers_of_the_reader_and_of_the_messages_agree_after_a_restart():
    messages = [b'{"a": %d, "y": 1}' % i for i in range(10)]
    lines = MessageLines(Canned(*messages), Identity("a", ["y"]), True, lambda: False)
    batches = JsonReader(lines, ReadOptions()).batches(["a"], ["y"], 4)
    first = next(batches)
    assert first.line_numbers == [1, 2, 3, 4]
    assert [lines.id_of(n) for n in first.line_numbers] == [0, 1, 2, 3]
    state = lines.state(first.position.line)
    resumed = MessageLines(Canned(*messages), None, True, lambda: False, state, first.position.line)
    options = ReadOptions(position=Position(first.position.offset, first.position.line), columns=["a", "y"])
    rest = next(JsonReader(resumed, options).batches(["a"], ["y"], 100))
    assert rest.line_numbers == [5, 6, 7, 8, 9, 10]
    assert rest.X[:, 0].tolist() == [4, 5, 6, 7, 8, 9]
