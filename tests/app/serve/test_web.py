"""Laws of the routes: bad input names its place and changes nothing, and nobody gets further than he may."""

import builtins
import io
import json
import pathlib

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.serve.serving import serving, stream
from streamgp.app.serve import web, writer

X, Y = stream(60, 2)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    limits = web.Limits(body=20_000, rows=50, columns=10)
    with serving(tmp_path_factory.mktemp("serve") / "m", targets=("y", "z"), limits=limits) as s:
        s.learn(X[:50], Y[:50])
        yield s


def big(n):
    return {"rows": [[1.0, 2.0]] * n, "targets": [[1, 2]] * n}


ROWS = "rows"
BAD_ROWS = [
    ({ROWS: [[1, 2], [1, "2"]]}, 422, 1, "b"),
    ({ROWS: [[1, 2], [1, None]]}, 422, 1, "b"),
    ({ROWS: [{"a": 1, "b": 2}, {"a": 1}]}, 422, 1, "b"),
    ({ROWS: [[1, True]]}, 422, 0, "b"),
    ({ROWS: [[1, [2]]]}, 422, 0, "b"),
    ({ROWS: [[1e999, 2]]}, 400, None, None),
    ({ROWS: [[10**400, 2]]}, 422, 0, "a"),
    ({ROWS: [[1, 2], [1, 2, 3]]}, 422, 1, None),
    ({ROWS: [[1, 2], 3]}, 422, 1, None),
    ({ROWS: []}, 422, None, None),
    ({ROWS: {}}, 422, None, None),
    ({}, 422, None, None),
    ({ROWS: [[1, 2]], "row": [1, 2]}, 400, None, None),
    ({ROWS: [[1, 2]], "rosw": 1}, 400, None, None),
    ({ROWS: [[1, 2]], "ids": ["a", "b"]}, 422, None, None),
    ({ROWS: [[1, 2]], "ids": [3]}, 422, 0, "id"),
    ({ROWS: [[1, 2]], "ids": ["x" * 300]}, 422, 0, "id"),
    ({ROWS: [[1, 2]], "ids": ["a\n"]}, 422, 0, "id"),
    ({ROWS: [[1, 2], [1, 2]], "ids": ["a", "a"]}, 422, None, None),
    (big(51), 413, None, None),
]
BAD_TARGETS = [
    ({ROWS: [[1, 2], [1, 2]], "targets": [[1, 2], [1, "2"]]}, 422, 1, "z"),
    ({ROWS: [[1, 2], [1, 2]], "targets": [[1, 2]]}, 422, None, None),
    ({ROWS: [[1, 2], [1, 2]], "targets": [[1, 2], [None, None]]}, 422, 1, "y"),
    ({ROWS: [[1, 2]], "targets": [{"y": 1, "zz": 2}]}, 422, 0, "zz"),
    ({ROWS: [[1, 2]], "targets": [1]}, 422, 0, None),
    ({ROWS: [[1, 2]]}, 422, 0, "y"),
    ({"ids": ["nobody"], "targets": [[1, 2]]}, 404, 0, "id"),
    ({"ids": [None], "targets": [[1, 2]]}, 422, None, None),
    ({"targets": [[1, 2]]}, 422, None, None),
    ({"ids": ["nobody"]}, 422, None, None),
]


def refused(served, path, content, status, row, column):
    """The answer says what is wrong, where, and the remedy; the model is as it was."""
    before, kept = served.service.gp.learner_, dict(served.service.kept)
    body = json.dumps(content)
    done = served.client.post(path, content=body, headers={"content-type": "application/json"})
    said = done.json()
    assert (done.status_code, said.get("row"), said.get("column")) == (status, row, column), said
    assert len(said["error"]) > 10
    assert len(said["remedy"]) > 5
    assert served.service.gp.learner_ is before
    assert served.service.kept == kept
    return said


@pytest.mark.parametrize(("content", "status", "row", "column"), BAD_ROWS, ids=lambda v: str(v)[:40])
def test_bad_rows_are_refused_with_their_place(served, content, status, row, column):
    good = {k: v for k, v in content.items() if k != "targets"}
    refused(served, "/predict", good, status, row, column)
    n = len(content[ROWS]) if isinstance(content.get(ROWS), list) else 1
    if n:
        refused(served, "/learn", {**content, "targets": [[1, 2]] * n}, status, row, column)


@pytest.mark.parametrize(("content", "status", "row", "column"), BAD_TARGETS, ids=lambda v: str(v)[:40])
def test_bad_targets_are_refused_with_their_place(served, content, status, row, column):
    refused(served, "/learn", content, status, row, column)


@pytest.mark.parametrize(
    "body", [b"", b"[", b"[1]", b"3", b"\xff", b'{"rows": NaN}', b"[" * 15_000, b'"a"', b"\0"]
)
@pytest.mark.parametrize("path", ["/predict", "/learn", "/v2/models/m/infer"])
def test_a_body_that_is_no_object_of_json_is_refused(served, path, body):
    done = served.client.post(path, content=body, headers={"content-type": "application/json"})
    assert done.status_code == 400
    assert "remedy" in done.json()


TENSOR = {"name": "rows", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]}


@pytest.mark.parametrize(
    "inputs",
    [
        None, [], [3], [{}], [{**TENSOR, "shape": [2, 1]}], [{**TENSOR, "shape": None}], [{**TENSOR, "data": [1]}],
        [{**TENSOR, "data": []}], [{**TENSOR, "datatype": "BYTES"}], [{**TENSOR, "datatype": []}],
        [{**TENSOR, "data": [1, "2"]}],
        [{**TENSOR, "name": "a", "shape": [2]}], [{**TENSOR, "name": "a"}, {**TENSOR, "name": "b", "data": [1]}],
        [TENSOR] * 2,
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_tensor_is_refused(served, inputs):
    done = served.post("/v2/models/m/infer", {"inputs": inputs})
    assert done.status_code == 422
    assert "remedy" in done.json()


def test_rows_by_name_take_targets_that_may_be_missing_in_part(served):
    rows = [{"a": 1, "b": 2, "y": 1, "z": None}, {"a": 1, "b": 1, "z": 1}]
    assert served.post("/learn", {"rows": rows}).json()["learned"] == 2
    assert served.post("/learn", {"row": [1, 1.5], "target": {"y": 0.5}}).json()["learned"] == 1


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"]
)
def test_what_a_page_of_another_site_could_send_without_asking_is_refused(served, kind):
    done = served.client.post("/learn", content=json.dumps(big(1)), headers={"content-type": kind})
    assert done.status_code == 415
    asked = served.client.options(
        "/learn", headers={"origin": "http://evil", "access-control-request-method": "POST"}
    )
    assert asked.status_code == 405
    assert not [name for name in asked.headers if name.startswith("access-control")]


def test_a_body_that_is_too_long_is_refused_whatever_length_it_declares(served):
    def parts():
        for _ in range(1000):
            yield b" " * 100

    headers = {"content-type": "application/json"}
    assert served.client.post("/learn", content=b" " * 30_000, headers=headers).status_code == 413
    assert served.client.post("/learn", content=parts(), headers=headers).status_code == 413


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "[::2]", "localhost@evil"])
def test_a_server_on_loopback_answers_to_no_other_name(served, host):
    """Else a page of a site that lets its name point to 127.0.0.1 could read what is here."""
    assert served.client.get("/model", headers={"host": host}).status_code == 421
    assert served.client.get("/model", headers={"host": "LOCALHOST:8000"}).status_code == 200


def test_every_answer_forbids_what_the_page_does_not_need(served):
    for path in ("/", "/model", "/nowhere", "/page.js"):
        headers = served.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    page = served.client.get("/").text
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script src=" in page
    assert " style=" not in page
    assert " on" + "click" not in page


ALL = [
    "/predict",
    "/learn",
    "/model",
    "/metrics",
    "/events",
    "/v2/models/m",
    "/v2/models/m/infer",
    "/nowhere",
]


@pytest.mark.parametrize(
    "token", [None, "", "Bearer", "Bearer wrong-token", "right-token-1", "Bearer right-token-1 ", "Bearer é"]
)
def test_nothing_but_the_page_and_its_health_is_given_without_the_token(tmp_path, token):
    with serving(tmp_path / "m", token="right-token-1", hosts=None) as s:
        headers = {} if token is None else {"authorization": token.encode()}
        for path in ALL:
            assert s.client.get(path, headers=headers).status_code == 401, path
            assert s.client.post(path, json={}, headers=headers).status_code == 401, path
        for path in ("/", "/page.js", "/page.css", "/healthz", "/v2/health/live"):
            assert s.client.get(path, headers={**headers, "host": "plant.example"}).status_code == 200
        right = {"authorization": "Bearer right-token-1"}
        assert s.client.get("/model", headers=right).status_code == 200


def test_no_request_reaches_the_file_system(served, monkeypatch):
    def never(*args, **more):
        raise AssertionError(f"opened {args}")

    paths = [
        "/",
        "/page.js",
        "/page.css",
        "/model",
        "/metrics",
        "/healthz",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/x",
    ]
    paths += ["/page/page.html", "//etc/passwd", "/v2/models/..%2f..%2fm", "/events/../x", "/m.gp", "/%00"]
    with monkeypatch.context() as patch:
        for module, name in (
            (builtins, "open"),
            (io, "open"),
            (pathlib.Path, "open"),
            (pathlib.Path, "read_bytes"),
        ):
            patch.setattr(module, name, never)
        answers = {path: served.client.get(path).status_code for path in paths}
        predicted = served.post("/predict", {"rows": X[:2].tolist()}).status_code
    assert predicted == 200
    assert [answers[path] for path in paths] == [200] * 6 + [404] * 8


def test_half_of_a_surrogate_pair_is_told_back_and_is_no_fault(served):
    body = json.dumps({"inputs": [TENSOR], "id": "\ud800"})
    done = served.client.post(
        "/v2/models/m/infer", content=body, headers={"content-type": "application/json"}
    )
    assert (done.status_code, done.json()["id"]) == (200, "\ud800")


def test_a_model_of_another_name_is_not_there(served):
    for path in ("/v2/models/n", "/v2/models/n/ready"):
        assert served.client.get(path).status_code == 404
    assert served.client.get("/v2/models/m/ready").json() == {"ready": True}
    assert served.client.get("/v2/models/m").json()["inputs"][0]["shape"] == [-1, 2]


def test_nothing_can_be_predicted_before_anything_was_learned(tmp_path):
    with serving(tmp_path / "m") as s:
        for path, content in (("/predict", {"row": [1, 2]}), ("/v2/models/m/infer", {"inputs": [TENSOR]})):
            done = s.post(path, content)
            assert (done.status_code, "/learn" in done.json()["remedy"]) == (409, True)
        assert s.client.get("/v2/health/ready").status_code == 409
        assert s.client.get("/model").status_code == s.client.get("/metrics").status_code == 200


def values(text):
    """The samples of a page of metrics, by name and labels."""
    families = text_string_to_metric_families(text)
    return {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}


def test_metrics_count_what_happened(tmp_path):
    X, y = stream(400)
    y[350] = 1e6
    with serving(tmp_path / "m", pace=writer.Pace(0.0, every=100)) as s:
        for i in range(0, 400, 50):
            s.learn(X[i : i + 50], y[i : i + 50])
        s.predict(X[:40])
        s.post("/predict", {"row": [1]})
        found = values(s.client.get("/metrics").text)
        gp, tally = s.service.gp, s.service.tally
    assert found["streamgp_rows_learned_total",] == 399
    assert found["streamgp_rows_refused_total",] == found["streamgp_alarms_total",] == 1
    assert found["streamgp_rows_predicted_total",] == 40
    assert found["streamgp_requests_total", "/predict", "422"] == 1
    assert found["streamgp_request_seconds_count", "/learn"] == 8
    assert found["streamgp_request_seconds_count", "/predict"] == 1
    assert found["streamgp_rmse", "y"] == pytest.approx(tally.rmse[0], rel=1e-12)
    assert found["streamgp_coverage", "y"] == tally.covered[0] / tally.scored[0]
    assert found["streamgp_coverage_nominal",] == 0.9
    assert 1.3 > found["streamgp_rmse_last_value", "y"] > 4 * found["streamgp_rmse", "y"]
    assert found["streamgp_noise", "y"] == gp.noise_
    assert found["streamgp_trace_error_share",] == gp.trace_error_share_
    assert found["streamgp_rank",] == 20
    assert found["streamgp_tuning_seconds",] == gp.tuning_seconds_
    assert found["streamgp_member_weight", "gp", "y"] == gp.members_["gp"]
    assert found["streamgp_pivots_exchanged_total",] == s.service.exchanged > 0
    assert 0 <= found["streamgp_checkpoint_age_seconds",] < 60
    mean = np.mean(
        [
            p.high[0] - p.low[0]
            for p in s.service.feed.points
            if np.isfinite(p.mean[0]) and p.measured[0] < 1e5
        ]
    )
    assert found["streamgp_interval_width", "y"] == pytest.approx(mean, rel=1e-9)


def test_the_dashboard_asks_only_for_metrics_that_are_there(served):
    root = pathlib.Path(__file__).parents[3]
    dashboard = json.loads((root / "examples" / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    known = {name for name, *_ in values(served.client.get("/metrics").text)}
    import re

    used = {name for text in asked for name in re.findall(r"streamgp_\w+", text)}
    assert len(used) > 15
    assert used <= known | {"streamgp_request_seconds_bucket", "streamgp_requests_total"}
