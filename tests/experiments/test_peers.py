"""`streamgp bench`: our own methods through the whole path; peers where they are installed."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from conftest import DATA
from experiments.peers import protocol
from experiments.peers.__main__ import bench
from experiments.peers.outcome import rows_of, short_table, verdict
from experiments.peers.peers import PEERS, Entry, Given
from experiments.peers.protocol import SETS, run, stream


@pytest.mark.parametrize("name", list(PEERS))
def test_every_peer_learns_a_plain_function_and_knows_how_sure_it_is(name):
    needed = {"GPyTorch": "gpytorch", "goppy": "goppy", "river": "river"}
    for start, module in needed.items():
        if name.startswith(start):
            pytest.importorskip(module)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (700, 2))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(700)
    peer = PEERS[name].make(Given(1.0, np.array([1.5, 2.0]), 0.01))
    for i in (0, 500, 600):
        if i:
            mean, std = peer.predict(X[i : i + 100])
            assert mean.shape == std.shape == (100,)
            assert np.isfinite(mean).all()
            assert (std > 0).all()
        peer.learn(X[i : i + 500 if i == 0 else i + 100], y[i : i + 500 if i == 0 else i + 100])
    # A line cannot follow the sine; a variational GP has taken few steps.
    assert np.sqrt(np.mean((mean - y[600:]) ** 2)) < 0.35


def test_the_whole_path_leaves_results_tables_and_a_figure(tmp_path, monkeypatch):
    for module in ("experiments.peers.protocol", "experiments.peers.__main__"):
        monkeypatch.setattr(sys.modules[module], "CONTENDED", 99.0)  # tests run beside tests
    if not (DATA / "abalone.data").exists():
        pytest.skip(f"real data is not there: {DATA}")
    command = ["--data", str(DATA), "--set", "abalone", "--budget", "1", "--output", str(tmp_path)]
    for peer in ("pivoted 100", "pivoted 500", "random Fourier 500"):
        command += ["--peer", peer]
    outcome = CliRunner().invoke(bench, command)
    assert outcome.exit_code == 0, outcome.output
    results = json.loads((tmp_path / "bench.json").read_text())["results"]
    assert set(results) == {f"{p} | abalone" for p in ("pivoted 100", "pivoted 500", "random Fourier 500")}
    assert all("failure" not in r for r in results.values())
    assert "ours against it" in (tmp_path / "bench.md").read_text()
    assert (tmp_path / "bench.png").stat().st_size > 10_000
    before = (tmp_path / "bench.json").stat().st_mtime_ns
    assert CliRunner().invoke(bench, command).exit_code == 0  # nothing is run again
    assert (tmp_path / "bench.json").stat().st_mtime_ns == before


def result(peer, error, seconds, batches=40):
    return {"peer": peer, "batches": [[error, seconds]] * batches}


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (("goppy", 0.3, 1.0), "pivoted 500: as accurate, 100 × faster"),
        (("goppy", 0.31, 1.0), "pivoted 500: 3.2% less error, 100 × faster"),
        (("goppy", 1e9, 1.0), "pivoted 500: 100.0% less error, 100 × faster"),
        (("river, Bayesian linear", 0.5, 0.004), "pivoted 100: 20.0% less error, 2.0 × faster"),
        (("goppy", 0.2, 1.0), "exact (nrmf): as accurate, 4.0 × faster"),
        (
            ("goppy", 0.2, 0.1),
            "not both: exact (nrmf): as accurate, 2.5 × slower; pivoted 500: 50.0% more error, 10 × faster "
            "(exact: it keeps every row)",
        ),
        (
            ("goppy", 0.1, 0.001),
            "not both: no streamgp is as accurate or as fast (exact: it keeps every row)",
        ),
    ],
)
def test_a_verdict_names_ours_that_is_better_in_both_or_says_what_is_missing(theirs, said):
    ours = [("pivoted 100", 0.4, 0.002), ("pivoted 500", 0.3, 0.01), ("exact (nrmf)", 0.2, 0.25)]
    assert verdict(result(*theirs, batches=20), {o[0]: result(*o) for o in ours}) == said


def test_a_peer_that_breaks_down_is_judged_by_what_it_reached(monkeypatch):
    if not (DATA / "abalone.data").exists():
        pytest.skip(f"real data is not there: {DATA}")

    class Breaks:
        batches = 0

        def learn(self, X, y):
            self.batches += 1
            if self.batches > 10:
                raise MemoryError

        def predict(self, X):
            return np.zeros(len(X)), np.ones(len(X))

    monkeypatch.setitem(PEERS, "goppy", Entry(lambda given: Breaks(), "none"))
    found = run(DATA, "abalone", "goppy", 100.0)
    assert found["ended"] == "MemoryError: "
    assert found["rows"] == 500 + 9 * 100
    assert len(found["batches"]) == 9


def test_a_feature_that_is_constant_but_for_rounding_is_not_blown_up():
    if not (DATA / "elevators.npz").exists():
        pytest.skip(f"real data is not there: {DATA}")
    X, y, _ = stream(DATA, "elevators")
    assert np.abs(X).max() < 20
    np.testing.assert_allclose(y[:500].std(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("page", ["README.md", "docs/bench.md"])
def test_the_table_of_a_page_is_that_of_the_kept_run(page):
    root = Path(__file__).parents[2]
    results = json.loads((root / "experiments" / "results" / "bench.json").read_text())["results"]
    assert "\n".join(short_table(results)) in (root / page).read_text()
    if page != "README.md":
        assert all(
            " | ".join(row) in (root / page).read_text() for name in SETS for row in rows_of(results, name)
        )


def test_without_data_the_error_says_so(tmp_path):
    outcome = CliRunner().invoke(bench, ["--data", str(tmp_path), "--output", str(tmp_path / "o")])
    assert outcome.exit_code == 1
    assert "cannot be read" in outcome.output


@pytest.mark.parametrize(
    "name",
    ["scikit-learn, refitted", "goppy", "GPyTorch, set_train_data", "GPyTorch, get_fantasy_model"],
)
def test_exact_peers_say_what_our_exact_method_says(name):
    """Mean and deviation, noise included: a peer with another kernel, noise or memory would be another model."""
    needed = {"GPyTorch": "gpytorch", "goppy": "goppy"}
    pytest.importorskip(next((m for start, m in needed.items() if name.startswith(start)), "sklearn"))
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(300)
    given = Given(1.7, np.array([0.8, 2.5]), 0.09)
    peer, exact = PEERS[name].make(given), PEERS["exact (nrmf)"].make(given)
    for i in range(0, 300, 100):
        for model in (peer, exact):
            if i:
                model.predict(X[i : i + 100])  # GPyTorch's fantasies need one
            model.learn(X[i : i + 100], y[i : i + 100])
    new = rng.uniform(-3, 3, (40, 2))
    for theirs, ours in zip(peer.predict(new), exact.predict(new), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-6)


def test_random_fourier_features_tend_to_the_exact_method():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (400, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(400)
    given = Given(1.7, np.array([0.8, 2.5]), 0.09)
    peer, exact = PEERS["random Fourier 2000"].make(given), PEERS["exact (nrmf)"].make(given)
    for model in (peer, exact):
        model.learn(X, y)
    new = rng.uniform(-2, 2, (50, 2))
    for theirs, ours in zip(peer.predict(new), exact.predict(new), strict=True):
        assert np.sqrt(np.mean((theirs - ours) ** 2)) < 0.1 * np.sqrt(np.mean(ours**2))


class Recorder:
    """A peer that notes what is asked of it, and takes its time."""

    def __init__(self, pause=0.0):
        self.calls, self.pause = [], pause

    def learn(self, X, y):
        self.calls.append(("learn", len(X), float(X[0, 0])))

    def predict(self, X):
        time.sleep(self.pause)
        self.calls.append(("predict", len(X), float(X[0, 0])))
        return np.zeros(len(X)), np.ones(len(X))


def recorded(monkeypatch, budget, pause=0.0):
    if not (DATA / "abalone.data").exists():
        pytest.skip(f"real data is not there: {DATA}")
    made = []
    entry = Entry(lambda given: made.append(Recorder(pause)) or made[-1], "none")
    monkeypatch.setitem(PEERS, "goppy", entry)
    return run(DATA, "abalone", "goppy", budget), made[-1].calls


def test_every_batch_is_predicted_before_it_is_learned(monkeypatch):
    found, calls = recorded(monkeypatch, 100.0)
    assert calls[0][:2] == ("learn", 500)
    assert [c[0] for c in calls[1:]] == ["predict", "learn"] * 35
    assert all(a[1:] == b[1:] for a, b in zip(calls[1::2], calls[2::2], strict=True))
    assert found["ended"] is None
    assert found["rows"] == 4000
    _, y, _ = stream(DATA, "abalone")
    np.testing.assert_allclose(found["rmse"], np.sqrt(np.mean(y[500:] ** 2)), rtol=1e-12)


def test_a_budget_ends_a_peer_and_its_time_is_that_of_its_calls(monkeypatch):
    found, _ = recorded(monkeypatch, 0.2, pause=0.02)
    assert found["ended"] == "budget"
    assert 10 <= len(found["batches"]) - 1 + 1 <= 11
    assert 0.02 <= found["seconds"] < 0.04


def test_a_run_beside_other_work_is_repeated(monkeypatch):
    if not (DATA / "abalone.data").exists():
        pytest.skip(f"real data is not there: {DATA}")
    clock = iter([0.0, 1000.0, 2000.0, 2000.0])
    monkeypatch.setattr(protocol, "_busy", lambda: next(clock))
    found = protocol.run_apart(DATA, "abalone", "pivoted 100", 1.0)
    assert found["tries"] == 2


@pytest.mark.parametrize("text", ["{bad", "", "[]", '{"budget": 1}'])
def test_a_damaged_bench_is_named(tmp_path, text):
    if not (DATA / "abalone.data").exists():
        pytest.skip(f"real data is not there: {DATA}")
    (tmp_path / "bench.json").write_text(text)
    command = ["--data", str(DATA), "--set", "abalone", "--budget", "1", "--output", str(tmp_path)]
    outcome = CliRunner().invoke(bench, command)
    assert outcome.exit_code == 1
    assert "not what a bench left" in " ".join(outcome.output.split())
    assert (tmp_path / "bench.json").read_text() == text


def test_another_budget_does_not_wipe_a_bench_and_failures_run_again(tmp_path):
    if not (DATA / "abalone.data").exists():
        pytest.skip(f"real data is not there: {DATA}")
    failed = {"peer": "pivoted 100", "set": "abalone", "settings": "", "failure": "no module"}
    kept = {"budget": 2.0, "lines": ["then"], "results": {"pivoted 100 | abalone": failed}}
    (tmp_path / "bench.json").write_text(json.dumps(kept))
    command = [
        "--data",
        str(DATA),
        "--set",
        "abalone",
        "--peer",
        "pivoted 100",
        "--output",
        str(tmp_path),
    ]
    assert CliRunner().invoke(bench, [*command, "--budget", "3"]).exit_code == 1
    assert json.loads((tmp_path / "bench.json").read_text()) == kept
    assert CliRunner().invoke(bench, [*command, "--budget", "2"]).exit_code == 0
    after = json.loads((tmp_path / "bench.json").read_text())
    assert "rmse" in after["results"]["pivoted 100 | abalone"]
    assert after["lines"] == ["then"]
