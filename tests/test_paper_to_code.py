"""What the docs say of the code: names of docs/paper-to-code.md exist, code quoted in docs/architecture.md is real."""

import importlib
import inspect
import re
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "paper-to-code.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("|")]
NAMES = sorted(set(re.findall(r"`((?:streamgp|experiments)\.[\w.]+)`", PAGE)))
FILES = re.compile(r"`((?:src|experiments|tests|docs)/[\w/.-]+)`")


def resolve(name):
    """Return the object of a dotted name: the longest prefix that is a module, then attributes or dataclass fields."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        module_name = ".".join(parts[:end])
        try:
            found = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise
            continue
        for attribute in parts[end:]:
            fields = getattr(found, "__dataclass_fields__", {})
            found = fields[attribute] if attribute in fields else getattr(found, attribute)
        return found
    raise ModuleNotFoundError(name)


def source_file(name):
    """Return the file in which a function, class or property is written; that of the module for anything else."""
    found = resolve(name)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, cached_property):
        found = found.func
    try:
        return Path(inspect.getsourcefile(inspect.unwrap(found))).resolve()
    except TypeError:
        owner = resolve(name.rpartition(".")[0])
        return Path(inspect.getsourcefile(owner)).resolve()


@pytest.mark.parametrize("name", NAMES)
def test_every_name_on_the_page_exists(name):
    assert resolve(name) is not None


@pytest.mark.parametrize("name", ["streamgp.lowrank.no_such_function", "streamgp.no_such_module.f"])
def test_a_name_that_does_not_exist_is_found_out(name):
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        resolve(name)


def test_every_file_on_the_page_exists():
    files = set(FILES.findall(PAGE))
    assert len(files) > 10
    for file in files:
        assert (ROOT / file).exists(), file


def test_a_row_names_functions_of_the_files_that_it_gives():
    checked = 0
    for row in ROWS:
        names = re.findall(r"`((?:streamgp|experiments)\.[\w.]+)`", row)
        files = {(ROOT / file).resolve() for file in FILES.findall(row)}
        if names:
            written_in = {source_file(name) for name in names}
            assert written_in == files, f"{names} are in {written_in}: {row}"
            checked += 1
    assert checked > 40


# Lines of each algorithm as LaTeX numbers them, `for` and `end for` included.
@pytest.mark.parametrize(("algorithm", "steps"), [(1, 5), (2, 6), (3, 7), (4, 12), (5, 17)])
def test_every_step_of_an_algorithm_has_a_row(algorithm, steps):
    section = re.search(rf"^## Algorithm {algorithm}\b.*?(?=^## )", PAGE, re.DOTALL | re.MULTILINE).group()
    listed = []
    for row in re.findall(r"^\| ([\d, –]+) \|", section, re.MULTILINE):
        for part in row.split(","):
            first, _, last = part.strip().partition("–")
            listed += range(int(first), int(last or first) + 1)
    assert sorted(listed) == list(range(1, steps + 1))


@pytest.mark.parametrize(
    "part",
    [
        *(f"({number})" for number in range(1, 8)),
        *(f"Table {number}" for number in ("I", "II", "III")),
        *(f"Figure {number}" for number in range(1, 9)),
        *("Theorem III.1", "Remark III.1", "Remark IV.1"),
    ],
)
def test_every_equation_table_figure_and_theorem_has_a_row(part):
    assert sum(row.startswith(f"| {part} |") for row in ROWS) == 1


def quotations():
    """The blocks of code in docs/architecture.md, each with the file that is named above it."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    return re.findall(r"^\*\*`(src/[\w/.]+)`\*\*[^`].*?^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("file", "code"), quotations(), ids=[file for file, _ in quotations()])
def test_code_that_the_architecture_page_quotes_is_the_code_of_that_file(file, code):
    written = {line.strip() for line in (ROOT / file).read_text().splitlines()}
    changed = [line for line in code.splitlines() if line.strip() not in written]
    assert len(code.splitlines()) > 10
    assert not changed, f"{file} has no such lines any more; quote it anew: {changed}"
