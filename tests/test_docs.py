"""Every Python block of README and docs runs as printed; every make target and command that is named exists."""

import doctest
import importlib.util
import re
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

import streamgp.columns.pipeline
import streamgp.columns.transformer
import streamgp.regressor
from streamgp.app.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


@page
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), scope)


@page
def test_commands_that_are_named_exist(page):
    makefile = (ROOT / "Makefile").read_text()
    for block in blocks(page, "sh"):
        for line in block.splitlines():
            if line.startswith("make "):
                target = line.split()[1]
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
            if line.startswith("streamgp "):
                command = line.split()[1]
                assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0, command


@page
def test_links_within_the_repository_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def figures():
    """The script that draws the pictures, as a module."""
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs" / "figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", list(figures().DRAWN))
def test_every_picture_can_be_drawn_and_stands_in_a_page_with_words_for_it(name, recwarn):
    assert figures().DRAWN[name]().axes
    shown = [
        m for p in PAGES for m in re.findall(rf"!\[([^\]]+)\]\([\w/]*figures/{name}\.png\)", p.read_text())
    ]
    assert shown
    assert all(len(words) > 20 for words in shown)
    assert (ROOT / "docs" / "figures" / f"{name}.png").stat().st_size > 5000


def test_no_picture_is_left_over():
    # Those of the technical note are SVG files, see test_note_page.py.
    assert {p.stem for p in (ROOT / "docs" / "figures").glob("*.png")} == set(figures().DRAWN)


def test_the_page_of_the_arm_runs_and_its_claims_hold(tmp_path, monkeypatch, capsys):
    """Its own assertions say what it promises; here, that the load is learned and intervals are honest."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    runpy.run_path(str(ROOT / "docs" / "gallery" / "plot_inverse_dynamics.py"))
    drawn = pyplot.get_fignums()
    pyplot.close("all")
    said = capsys.readouterr().out
    assert len(drawn) == 4
    errors = [float(v) for v in re.findall(r"last 30 s: ([\d.]+)", said)]
    assert errors[2] < 0.6 * errors[1] < 0.6 * errors[0]
    covered = [float(v) for v in re.findall(r"([\d.]+)% (?:before|from)", said)]
    assert all(85 < share < 96 for share in covered)


def test_docstring_examples_run():
    for module in (streamgp.regressor, streamgp.columns.transformer, streamgp.columns.pipeline):
        assert doctest.testmod(module).failed == 0
