"""Every script runs as a module and helps; internals of streamgp are used in few places."""

import ast
import importlib
import os
import runpy
import sys

import pytest

from experiments.common import ROOT

FILES = sorted((ROOT / "experiments").rglob("*.py"))
# Where names of streamgp that begin with an underscore may be used, and which ones; None: any.
MAY_BE_PRIVATE = {"internals.py": None, "checks/counts.py": {"_arrays"}}


def module_name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")


SCRIPTS = [
    module_name(path)
    for path in [*FILES, ROOT / "docs" / "figures.py"]
    if 'if __name__ == "__main__":' in path.read_text()
]


def test_all_scripts_are_found():
    assert len(SCRIPTS) >= 18
    assert {"experiments.paper", "experiments.peers", "experiments.speed.gpu"} < set(SCRIPTS)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_how_to_run_it_and_helps(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    environment = dict(os.environ)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Usage:")
    assert f"    python -m {name}" in shown
    assert dict(os.environ) == environment  # importing a script changes nothing


def private_names(source):
    """Names with one leading underscore that are imported from streamgp, or asked of an object other than self."""
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [
                part for a in node.names if a.name.split(".")[0] == "streamgp" for part in a.name.split(".")
            ]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] == "streamgp":
            names = [*node.module.split("."), *(a.name for a in node.names)]
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in ("self", "cls"):
            names = [node.attr]
        yield from (n for n in names if n.startswith("_") and not n.startswith("__"))


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_internals_of_streamgp_are_used_in_one_module_and_where_counts_are_taken(path):
    allowed = MAY_BE_PRIVATE.get(path.relative_to(ROOT / "experiments").as_posix(), set())
    found = set(private_names(path.read_text()))
    assert allowed is None or found <= allowed


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from streamgp._arrays import gram", ["_arrays"]),
        ("from streamgp import kernels, _arrays", ["_arrays"]),
        ("import numpy, streamgp._arrays.linear as linear", ["_arrays"]),
        ("from streamgp.learner import _fit", ["_fit"]),
        ("gp._stream.model.summary(X, y)", ["_stream"]),
        ("from streamgp import __version__; self._X; gp.kernel_; import numpy._core", []),
    ],
)
def test_the_search_for_internals_finds_them(source, names):
    assert list(private_names(source)) == names


def test_internals_are_used_where_they_may_be():
    """Otherwise the exceptions are out of date."""
    for name in MAY_BE_PRIVATE:
        assert list(private_names((ROOT / "experiments" / name).read_text())), name


def test_modules_of_experiments_import_without_running(capsys):
    for path in FILES:
        if path.name != "__main__.py":
            importlib.import_module(module_name(path).removesuffix(".__init__"))
    assert not capsys.readouterr().out
