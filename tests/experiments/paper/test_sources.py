"""A digest changes with code that a result depends on, and with nothing else."""

import pytest

from experiments.paper import sources


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "FOLDERS", {"experiments": tmp_path})
    folder = tmp_path / "paper"
    folder.mkdir()
    (folder / "other.py").write_text("x = 1\n")

    def made(text, other="x = 1\n"):
        (folder / "runs.py").write_text(text)
        (folder / "other.py").write_text(other)
        sources._source.cache_clear()
        sources._tree.cache_clear()
        return sources.digest("runs:go")

    yield made
    sources._source.cache_clear()
    sources._tree.cache_clear()


CODE = '"""Say."""\nfrom .other import x\n\ndef go(a, b):\n    """Go."""\n    return a + b  # why\n'


def test_docstrings_comments_and_layout_do_not_count(source):
    first = source(CODE)
    assert source(CODE.replace("Say.", "Says.\n\nMore.").replace("# why", "# because")) == first
    assert source(CODE.replace("(a, b)", "(\n    a,\n    b,\n)")) == first


def test_where_a_line_stands_counts(source):
    loop = "def go(a):\n    for x in a:\n        a = x\n        a = 2 * x\n    return a\n"
    assert source(loop) != source(loop.replace("        a = 2 * x", "    a = 2 * x"))


def test_arguments_count(source):
    source(CODE)
    assert sources.digest("runs:go", '{"length": 1.0}') != sources.digest("runs:go", '{"length": 2.0}')


def test_code_counts_and_so_does_what_it_imports(source):
    first = source(CODE)
    assert source(CODE.replace("a + b", "a - b")) != first
    assert source(CODE, other="x = 2\n") != first


def test_a_result_of_the_factors_depends_on_the_factorisation_and_not_on_the_regressor():
    found = sources.closure("experiments.paper.factors")
    assert "streamgp.lowrank" in found
    assert "streamgp.regressor" not in found
    assert "streamgp.methods.pivoted" in sources.closure("experiments.paper.cells")
