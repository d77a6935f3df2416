"""`python -m experiments.paper`: the whole path on the simulated arm."""

import json
import re

import pytest
from click.testing import CliRunner

from experiments.paper import tasks
from experiments.paper.__main__ import reproduce


@pytest.fixture
def small(monkeypatch):
    """Few rows, and only what differs in kind."""
    monkeypatch.setattr(tasks, "QUICK_ROWS", 300)
    everything = tasks.all_tasks
    kept = ("I", "I others", "II", "step 13", "theorem", "ablation", "ours")

    def few(name, *, quick=False):
        return [t for t in everything(name, quick=quick) if t.group in kept or t.alone]

    for module in ("experiments.paper.__main__", "experiments.paper.results"):
        monkeypatch.setattr(f"{module}.all_tasks", few)


def run(folder, *more):
    given = ["--set", "arm", "--quick", "--jobs", "1", "--output", str(folder), *more]
    return CliRunner().invoke(reproduce, given)


def test_the_whole_path_on_the_arm_leaves_results_a_page_and_tables(tmp_path, small):
    outcome = run(tmp_path)
    assert outcome.exit_code == 0, outcome.output
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["made"][0]["machine"]
    assert {"found", "seconds", "code", "made"} <= set(next(iter(results["tasks"].values())))
    text = (tmp_path / "report.html").read_text()
    assert "http" not in re.sub(r"data:image/svg[^\"]*", "", text)
    links, ids = set(re.findall(r'href="#([\w-]+)"', text)), set(re.findall(r'section id="([\w-]+)"', text))
    assert links == ids
    assert len(links) >= 8
    assert text.count("<figure>") >= 6
    assert "Figure 1" not in text  # the arm is not in the paper
    assert "compared with nothing" in text
    assert "better" not in re.sub(r"data:image/svg[^\"]*", "", text)
    tables = (tmp_path / "tables.md").read_text()
    for title in ("Table I:", "Table II:", "Theorem III.1", "Step 13", "Why the printed prediction diverges"):
        assert title in tables


def test_parts_can_be_run_alone(tmp_path, small):
    outcome = run(tmp_path, "--only", "studies")
    assert outcome.exit_code == 0, outcome.output
    groups = {key.split(" | ")[0] for key in json.loads((tmp_path / "results.json").read_text())["tasks"]}
    assert groups == {"ablation", "theorem", "step 13"}


def test_without_data_the_error_says_what_to_put_where(tmp_path):
    given = ["--data", str(tmp_path), "--output", str(tmp_path / "out"), "--set", "sarcos"]
    outcome = CliRunner().invoke(reproduce, given)
    assert outcome.exit_code == 1
    assert "sarcos_inv.mat" in outcome.output
    assert "gaussianprocess.org" in outcome.output
    assert not (tmp_path / "out").exists()


def test_what_is_stale_is_run_again_and_nothing_else_is_lost(tmp_path, small):
    path = tmp_path / "results.json"
    assert run(tmp_path, "--only", "studies").exit_code == 0
    kept = json.loads(path.read_text())
    old = dict.fromkeys(("step 13 | arm", "theorem | 5 | arm"))
    for key in old:
        kept["tasks"][key] |= {"code": "another", "seconds": -1.0}
    path.write_text(json.dumps(kept))
    for given, again in (
        (["--again", "--page"], False),
        (["--again", "--only", "tables"], False),
        (["--again"], True),
    ):
        only = [] if "--only" in given else ["--only", "studies"]
        assert run(tmp_path, *given, *only).exit_code == 0
        after = json.loads(path.read_text())["tasks"]
        assert set(kept["tasks"]) <= set(after)
        assert all((after[key]["seconds"] >= 0) == again for key in old)
