"""Laws of the log: what was appended is read again, in order and once, however the process ended."""

import os
import threading

import numpy as np
import pytest

from streamgp.app.serve import log
from streamgp.errors import CheckpointError, DataError


def record(i):
    return {"n": i, "X": np.arange(i % 5, dtype=float)}


def append(it, content):
    number = it.write(content)
    it.sync(number)
    return number


def written(path, n=10, segments=()):
    it = log.FileLog(path, 0)
    for i in range(1, n + 1):
        assert append(it, record(i)) == i
        if i in segments:
            assert it.begin_segment() == i
    return it


def numbers(path, after=0):
    found = list(log.read(path, after))
    for number, content in found:
        assert content["n"] == number
        assert np.array_equal(content["X"], record(number)["X"])
    return [number for number, _ in found]


@pytest.mark.parametrize("segments", [(), (4,), (1, 5, 10)])
@pytest.mark.parametrize("after", [0, 3, 4, 10])
def test_records_after_a_checkpoint_are_read_in_their_order(tmp_path, segments, after):
    written(tmp_path / "m", segments=segments).close()
    assert numbers(tmp_path / "m", after) == list(range(after + 1, 11))


def test_segments_that_a_checkpoint_holds_are_removed_and_no_other(tmp_path):
    it = written(tmp_path / "m", segments=(4, 7))
    (tmp_path / "m.log.old").touch()
    (tmp_path / "mm.log.1").touch()
    it.forget(6)
    assert [first for first, _ in log.segments(tmp_path / "m")] == [5, 8]
    it.forget(7)
    it.forget(10)  # the segment that is written to stays
    assert [first for first, _ in log.segments(tmp_path / "m")] == [8]
    assert numbers(tmp_path / "m", 7) == [8, 9, 10]
    assert (tmp_path / "mm.log.1").exists()


def test_a_record_that_was_cut_at_any_byte_is_dropped_and_the_log_goes_on(tmp_path):
    written(tmp_path / "m", 3).close()
    part = tmp_path / "m.log.1"
    whole = part.read_bytes()
    written(tmp_path / "n", 2).close()
    two = len((tmp_path / "n.log.1").read_bytes())
    for size in range(two, len(whole)):
        part.write_bytes(whole[:size])
        assert numbers(tmp_path / "m") == [1, 2]
        assert part.stat().st_size == two
    for torn in (whole[:-5] + bytes(5), whole[: two + 16] + bytes(len(whole) - two - 16)):
        part.write_bytes(torn)
        assert numbers(tmp_path / "m") == [1, 2]
    it = log.FileLog(tmp_path / "m", 2)
    append(it, record(3))
    assert numbers(tmp_path / "m") == [1, 2, 3]


def test_damage_before_the_last_record_is_an_error_and_no_loss(tmp_path):
    written(tmp_path / "m", 6, segments=(3,)).close()
    first = tmp_path / "m.log.1"
    whole = first.read_bytes()
    for damaged in (whole[:-3], whole[:100] + b"?" + whole[101:]):
        first.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            numbers(tmp_path / "m")
        assert first.read_bytes() == damaged
    first.unlink()
    with pytest.raises(CheckpointError, match=r"records 1 to 3 of its log are missing"):
        numbers(tmp_path / "m")
    assert numbers(tmp_path / "m", 3) == [4, 5, 6]


def test_a_record_is_on_the_disk_when_its_number_is_returned(tmp_path, monkeypatch):
    events, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (sync(handle), events.append("sync"))[0])
    it = log.FileLog(tmp_path / "m", 0)
    events.clear()
    for i in range(1, 4):
        append(it, record(i))
        assert events == ["sync"] * i
        assert numbers(tmp_path / "m") == list(range(1, i + 1))


def test_threads_share_syncs_and_no_record_is_lost(tmp_path, monkeypatch):
    syncs, sync, started = [], os.fsync, threading.Barrier(8)
    monkeypatch.setattr(
        os, "fsync", lambda handle: (syncs.append(1), threading.Event().wait(0.01), sync(handle))[2]
    )
    it, found = log.FileLog(tmp_path / "m", 0), []

    def work():
        started.wait()
        found.extend(append(it, {"n": 0}) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 81))
    assert [number for number, _ in log.read(tmp_path / "m", 0)] == list(range(1, 81))
    assert len(syncs) < 60


class Full:
    """A file on a disk that takes only the first bytes of what is written."""

    def __init__(self, file):
        self.file, self.name = file, file.name

    def write(self, data):
        self.file.write(data[:10])
        self.file.flush()
        raise OSError(28, "No space left on device")

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_record_that_does_not_fit_leaves_nothing_behind(tmp_path):
    it = written(tmp_path / "m", 2)
    whole, it._file = it._file, Full(it._file)
    with pytest.raises(DataError, match="No space left"):
        append(it, record(3))
    it._file = whole
    assert append(it, record(3)) == 3
    assert numbers(tmp_path / "m") == [1, 2, 3]


def test_after_a_sync_that_failed_nothing_is_promised_any_more(tmp_path, monkeypatch):
    it = written(tmp_path / "m", 2)

    def broken(handle):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(DataError, match="restart"):
            append(it, record(3))
    with pytest.raises(DataError, match="restart"):
        append(it, record(4))
