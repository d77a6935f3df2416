"""Every Python block of README and docs runs as printed; every make target and command that is named exists."""

import doctest
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import streamgp.regressor
from streamgp.cli import main

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


def test_docstring_examples_run():
    assert doctest.testmod(streamgp.regressor).failed == 0
