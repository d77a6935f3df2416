"""Laws of the service: the model answers and learns as the regressor itself does, and goes on after any end."""

import threading

import numpy as np
import pytest

from app.serve.serving import eventually, regressor, serving, state_of, stream
from streamgp.app.serve import writer
from streamgp.app.serve.log import segments
from streamgp.app.serve.rows import Refusal

CASES = [{}, {"rank": 40, "guard": None}, {"method": "rgp", "rank": 15}, {"members": ("gp",), "tune": "none"}]
cases = pytest.mark.parametrize("given", CASES, ids=str)


def learned(gp, X, y, sizes):
    y = y[:, 0] if y.shape[1] == 1 else y
    for rows in np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]):
        gp.partial_fit(X[rows], y[rows])
    return gp


@cases
@pytest.mark.parametrize("q", [1, 2])
def test_what_is_learned_and_answered_over_http_is_what_the_regressor_itself_gives(tmp_path, given, q):
    X, y = stream(300, q)
    targets = ("y", "z")[:q]
    with serving(tmp_path / "m", regressor(**given), targets) as s:
        for i in range(0, 300, 50):
            assert s.learn(X[i : i + 50], y[i : i + 50]) == {
                "learned": 50,
                "duplicates": 0,
                "refused": [],
                "rows_learned": i + 50,
            }
        gp = learned(regressor(**given), X, y, [50] * 6)
        expected = gp.predict(X[:40], return_std=True, return_interval=0.9)
        assert np.array_equal(s.predict(X[:40]), np.stack([v.reshape(40, q) for v in expected]))
        by_name = [{"b": b, "a": a, "more": "ignored"} for a, b in X[:40].tolist()]
        answer = s.post("/predict", {"rows": by_name}).json()
        assert answer["predictions"] == s.post("/predict", {"rows": X[:40].tolist()}).json()["predictions"]
        tensor = {"name": "rows", "shape": [40, 2], "datatype": "FP64", "data": X[:40].ravel().tolist()}
        outputs = s.post("/v2/models/m/infer", {"id": "q1", "inputs": [tensor]}).json()
        assert outputs["id"] == "q1"
        for output, part in zip(outputs["outputs"], expected, strict=True):
            assert output["shape"] == [40, q]
            assert np.array_equal(np.reshape(output["data"], (40, q)), part.reshape(40, q))
        each = [
            {"name": n, "shape": [40], "datatype": "FP64", "data": X[:40, j].tolist()}
            for j, n in enumerate("ab")
        ]
        assert s.post("/v2/models/m/infer", {"inputs": each}).json()["outputs"] == outputs["outputs"]


@cases
def test_a_label_that_comes_late_by_its_id_is_scored_by_what_was_answered(tmp_path, given):
    X, y = stream(260)
    ids = [f"row {i}" for i in range(200, 240)]
    ours = learned(regressor(**given), X[:200], y[:200], [200])
    late = np.concatenate([X[200:240], X[240:]])
    ours.predict(late[:40], return_std=True, return_interval=0.9, ids=np.arange(40))
    ours.partial_fit(X[240:], y[240:, 0], ids=np.arange(100, 120))
    ours.partial_fit(X[200:240], y[200:240, 0], ids=np.arange(40))
    with serving(tmp_path / "m", regressor(**given)) as s:
        s.learn(X[:200], y[:200])
        s.predict(X[200:240], ids=ids)
        s.learn(X[240:], y[240:])
        done = s.post("/learn", {"ids": ids, "targets": y[200:240, 0].tolist()})
        assert done.json() == {"learned": 40, "duplicates": 0, "refused": [], "rows_learned": 260}
        assert state_of(s.service.gp) == state_of(ours)


@cases
def test_labels_that_come_one_by_one_are_each_scored_by_their_own_answer(tmp_path, given):
    X, y = stream(90)
    ours = learned(regressor(**given), X[:60], y[:60], [60])
    with serving(tmp_path / "m", regressor(**given)) as s:
        s.learn(X[:60], y[:60])
        for i in range(60, 90):
            ours.predict(X[i : i + 1], return_std=True, return_interval=0.9, ids=[i])
            s.predict(X[i : i + 1], ids=[f"{i}"])
            if i >= 63:
                ours.partial_fit(X[i - 3 : i - 2], y[i - 3 : i - 2, 0], ids=[i - 3])
                s.post("/learn", {"id": f"{i - 3}", "target": y[i - 3, 0]})
        assert state_of(s.service.gp) == state_of(ours)


def test_a_row_that_comes_again_with_its_id_is_not_learned_twice(tmp_path):
    X, y = stream(30)
    with serving(tmp_path / "m", durable=True) as s:
        s.learn(X[:20], y[:20], ids=[f"i{i}" for i in range(20)])
        before = s.service.gp.learner_
        again = s.learn(X[:20], y[:20], ids=[f"i{i}" for i in range(20)])
        assert again == {"learned": 0, "duplicates": 20, "refused": [], "rows_learned": 20}
        assert s.service.gp.learner_ is before
        assert s.learn(X[15:25], y[15:25], ids=[f"i{i}" for i in range(15, 25)])["learned"] == 5
    with serving(tmp_path / "m") as s:
        assert s.learn(X[:25], y[:25], ids=[f"i{i}" for i in range(25)])["duplicates"] == 25


def test_rows_that_the_guard_refuses_are_named_by_their_place_in_the_request(tmp_path):
    X, y = stream(230)
    y[[207, 220]] = 1e6
    ids = [f"i{i}" for i in range(230)]
    with serving(tmp_path / "m") as s:
        s.learn(X[:203], y[:203], ids=ids[:203])
        answer = s.learn(X[200:], y[200:], ids=ids[200:])
        assert answer == {"learned": 25, "duplicates": 3, "refused": [7, 20], "rows_learned": 228}
        assert [a["kind"] for a in s.service.feed.told()["alarms"]] == ["refused", "refused"]


def test_the_oldest_ids_are_given_up_and_counted_where_there_are_too_many(tmp_path):
    X, y = stream(60)
    with serving(tmp_path / "m", ids=10) as s:
        s.learn(X[:30], y[:30])
        s.predict(X[30:55], ids=[f"i{i}" for i in range(25)])
        assert list(s.service.kept) == [f"i{i}" for i in range(15, 25)]
        assert s.service.lost_ids == 15
        gone = s.post("/learn", {"id": "i3", "target": 1.0})
        assert (gone.status_code, gone.json()["row"], gone.json()["column"]) == (404, 0, "id")


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("q", [1, 2])
def test_a_service_that_was_stopped_or_killed_goes_on_as_if_it_never_was(tmp_path, durable, q):
    """Stopped without a log, killed with one; a checkpoint after every 70 rows."""
    X, y = stream(300, q)
    targets, pace = ("y", "z")[:q], writer.Pace(0.0, every=70)
    ids = [f"i{i}" for i in range(300)]

    def part(s, k):
        rows = slice(25 * k, 25 * k + 25)
        if k in (3, 6):  # answers that are kept over the end
            s.predict(X[rows], ids=ids[rows])
        if k in (5, 8):
            before = slice(25 * k - 50, 25 * k - 25)
            assert s.post("/learn", {"ids": ids[before], "targets": y[before].tolist()}).status_code == 200
        if k not in (3, 6):
            s.learn(X[rows], y[rows], ids=ids[rows])

    with serving(tmp_path / "whole", targets=targets, pace=pace) as whole:
        for k in range(12):
            part(whole, k)
    for parts in ((0, 1, 2, 3), (4,), (5, 6), (7, 8, 9, 10, 11)):
        with serving(tmp_path / "m", targets=targets, pace=pace, durable=durable, stop=not durable) as s:
            for k in parts:
                part(s, k)
    with serving(tmp_path / "m", targets=targets, durable=durable) as s:
        assert state_of(s.service.gp) == state_of(whole.service.gp)
        assert s.service.tally.learned == whole.service.tally.learned == 300
        assert np.array_equal(s.service.tally.squared_error, whole.service.tally.squared_error)
        assert s.service.feed.told()["stretches"] == whole.service.feed.told()["stretches"]
        assert s.service.learned == whole.service.learned


def test_rows_in_the_log_count_for_the_next_checkpoint_so_that_kills_do_not_let_it_grow(tmp_path):
    X, y = stream(60)
    pace = writer.Pace(0.0, every=50)
    for i in range(0, 60, 20):
        with serving(tmp_path / "m", durable=True, pace=pace, stop=False) as s:
            s.learn(X[i : i + 20], y[i : i + 20])
            if i == 40:  # written after the answer: a service that is killed before it writes none
                eventually((tmp_path / "m").exists)
                eventually(lambda: [first for first, _ in segments(tmp_path / "m")] == [4])


def test_a_log_is_learned_and_removed_by_a_service_without_one(tmp_path):
    X, y = stream(60)
    with serving(tmp_path / "m", durable=True, stop=False) as s:
        s.learn(X, y)
    assert not (tmp_path / "m").exists()
    with serving(tmp_path / "m", durable=False, stop=False) as t:
        assert state_of(t.service.gp) == state_of(s.service.gp)
        assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_requests_of_a_few_milliseconds_are_learned_as_one_batch(tmp_path):
    X, y = stream(90)
    with serving(tmp_path / "m", pace=writer.Pace(0.3)) as s:
        s.learn(X[:50], y[:50])
        threads = [
            threading.Thread(target=s.learn, args=(X[i : i + 10], y[i : i + 10])) for i in range(50, 90, 10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [p.batches for p in s.service.tally.history] == [1, 1]
        assert s.service.tally.learned == 90


def test_readers_do_not_wait_for_the_writer(tmp_path, monkeypatch):
    X, y = stream(60)
    with serving(tmp_path / "m", durable=True) as s:
        s.learn(X[:50], y[:50])
        before, entered, go_on = s.predict(X[50:]), threading.Event(), threading.Event()
        learn = s.service.gp.partial_fit

        def slow(*args, **more):
            entered.set()
            assert go_on.wait(20)
            return learn(*args, **more)

        monkeypatch.setattr(s.service.gp, "partial_fit", slow)
        thread = threading.Thread(target=s.learn, args=(X[50:], y[50:]))
        thread.start()
        assert entered.wait(20)
        assert np.array_equal(s.predict(X[50:], ids=[f"{i}" for i in range(10)]), before)
        assert s.client.get("/healthz").status_code == s.client.get("/metrics").status_code == 200
        go_on.set()
        thread.join()
        assert not np.array_equal(s.predict(X[50:]), before)


def test_a_request_that_cannot_be_learned_is_told_so_and_the_others_of_its_batch_are_learned(
    tmp_path, monkeypatch
):
    X, y = stream(70)
    with serving(tmp_path / "m", durable=True, pace=writer.Pace(0.2), stop=False) as s:
        s.learn(X[:50], y[:50])
        bad = {"rows": [[1e300, 1e300]], "targets": [1.0]}
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(s.post("/learn", bad))),
            threading.Thread(target=s.learn, args=(X[50:], y[50:])),
        ]
        learn = s.service.gp.partial_fit
        monkeypatch.setattr(
            s.service.gp, "partial_fit",
            lambda X, *a, **k: learn(X, *a, **k) if X.max() < 1e200 else (_ for _ in ()).throw(ValueError("too far")),
        )  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (found[0].status_code, found[0].json()["error"]) == (422, "too far")
        assert (s.service.tally.learned, s.service.tally.bad) == (70, 1)


def test_more_requests_than_may_wait_are_turned_away(tmp_path):
    service_pace = writer.Pace(0.0, queue=2)
    X, y = stream(10)
    with serving(tmp_path / "m", pace=service_pace) as s:
        s.learn(X, y)
        stopped = writer.Writer(s.service, None, tmp_path / "n", service_pace, (0, 0))  # never started
        from streamgp.app.serve.rows import Labelled, RawRows

        for _ in range(2):
            stopped.submit(Labelled(("a", "b"), RawRows(X, ((),) * 10), y, None))
        with pytest.raises(Refusal) as refused:
            stopped.submit(Labelled(("a", "b"), RawRows(X, ((),) * 10), y, None))
        assert refused.value.status == 503


def test_a_full_disk_is_an_answer_and_an_alarm_and_nothing_is_learned(tmp_path, monkeypatch):
    X, y = stream(60)
    with serving(tmp_path / "m", durable=True) as s:
        s.learn(X[:50], y[:50])
        before = s.service.gp.learner_

        def full(data):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(s.writer._log, "_write", full)
            refused = s.post("/learn", {"rows": X[50:].tolist(), "targets": y[50:].tolist()})
        assert refused.status_code == 503
        assert "No space left" in refused.json()["error"]
        assert s.client.get("/healthz").status_code == 503
        assert s.service.gp.learner_ is before
        assert s.client.get("/model").json()["alarms"] == 1
        assert s.learn(X[50:], y[50:])["rows_learned"] == 60
        assert s.client.get("/healthz").status_code == 200


def test_names_of_columns_come_from_the_first_rows_and_hold_from_then_on(tmp_path):
    with serving(tmp_path / "m", features=()) as s:
        s.post("/learn", {"rows": [{"u": 1, "y": 2, "v": 3}, {"v": 1, "y": 2, "u": 3}]})
        assert s.client.get("/model").json()["features"] == ["u", "v"]
        assert s.post("/predict", {"row": {"u": 1}}).json()["column"] == "v"
    with serving(tmp_path / "n", features=()) as s:
        s.post("/learn", {"rows": [[1, 2, 3]], "targets": [1]})
        assert s.client.get("/model").json()["features"] == ["x1", "x2", "x3"]
