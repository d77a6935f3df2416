"""The rules of the source tree: sizes, and who may look into whom."""

import ast
from pathlib import Path

import streamgp
from streamgp.methods import base, exact, parts, pivot_state, pivoted, printed, recursive, spectral, weighted

SOURCE = Path(streamgp.__file__).parent
TREES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}
OUTSIDE_METHODS = {name: tree for name, tree in TREES.items() if not name.startswith("methods/")}
STATES = {
    kind.__name__
    for module in (base, exact, parts, pivot_state, pivoted, printed, recursive, spectral, weighted)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, base.State)
}
LINES, FUNCTION_LINES, METHODS = 380, 50, 19
# scikit-learn's contract asks for many.
LARGE_CLASSES = {"StreamingGPRegressor", "LearnedAttributes"}
# An assignment for each argument, as scikit-learn's contract asks; the docstring of the class describes each.
ARGUMENTS = {("regressor.py", "__init__")}
# A private attribute that is read outside the module that defines it, with the reason.
PRIVATE = {("app/tally.py", "_replace"): "the public method of a named tuple"}


def found(trees, kind):
    """Every node of a kind, with the name of its file."""
    return [(name, node) for name, tree in trees.items() for node in ast.walk(tree) if isinstance(node, kind)]


def names_in(node):
    """The identifiers of an expression, those after a dot too."""
    nodes = ast.walk(node)
    return {
        n.id if isinstance(n, ast.Name) else n.attr for n in nodes if isinstance(n, ast.Name | ast.Attribute)
    }


def is_state(node):
    """Whether an expression is, by its last name, a state: `state`, `learner.state`, `empty_state`."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "state" or (name.endswith("_state") and name != "random_state")


def code_lines(function):
    """The number of lines of a function without its docstring."""
    first, lines = function.body[0], function.end_lineno - function.lineno + 1
    documented = ast.get_docstring(function) is not None
    return lines - (first.end_lineno - first.lineno + 1) if documented else lines


def test_the_states_are_known_to_this_test():
    assert {"State", "MergeableState", "PivotedState", "ExactState", "RecursiveState"} <= STATES
    assert {"SpectralState", "PartwiseState", "WeightedState", "PrintedWeightedState"} <= STATES


def test_nobody_outside_methods_asks_a_state_for_its_type():
    """What a state can do is in its class."""
    wrong = []
    for name, call in found(OUTSIDE_METHODS, ast.Call):
        asked = getattr(call.func, "id", "")
        if asked in ("isinstance", "issubclass") and (
            names_in(call.args[1]) & STATES or is_state(call.args[0])
        ):
            wrong.append((name, call.lineno, ast.unparse(call)))
        if asked in ("hasattr", "getattr", "type") and is_state(call.args[0]):
            wrong.append((name, call.lineno, ast.unparse(call)))
    for name, pattern in found(OUTSIDE_METHODS, ast.MatchClass):
        if names_in(pattern.cls) & STATES:
            wrong.append((name, pattern.lineno, ast.unparse(pattern.cls)))
    for name, access in found(OUTSIDE_METHODS, ast.Attribute):
        if access.attr == "__class__" and is_state(access.value):
            wrong.append((name, access.lineno, ast.unparse(access)))
    assert wrong == []


def defined_in(tree):
    """The names that a module defines, those of attributes that its classes assign to themselves too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and ast.unparse(node.value) == "self"
        ):
            yield node.attr


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def test_a_private_name_is_used_only_in_the_module_that_defines_it():
    used = set()
    for name, tree in TREES.items():
        own = set(defined_in(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                used |= {(name, a.name) for a in node.names if is_private(a.name) and a.name != "_arrays"}
            elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
                # A class may use what it inherits.
                used |= (
                    {(name, node.attr)}
                    if ast.unparse(node.value) not in ("self", "cls", "super()")
                    else set()
                )
    assert used == set(PRIVATE)


def docstring_lines(tree):
    """The number of lines in which the classes of a file describe their arguments."""
    texts = [
        ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    return sum(len(text.splitlines()) for text in texts if text)


def test_no_file_is_too_long():
    lines = {
        name: len((SOURCE / name).read_text().splitlines()) - docstring_lines(tree)
        for name, tree in TREES.items()
    }
    assert {name: n for name, n in lines.items() if n > LINES} == {}


def test_no_function_is_too_long():
    functions = found(TREES, ast.FunctionDef | ast.AsyncFunctionDef)
    long = {(name, f.name): code_lines(f) for name, f in functions if code_lines(f) > FUNCTION_LINES}
    assert set(long) - ARGUMENTS == set()


def test_no_class_has_too_many_methods():
    counts = {
        kind.name: sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in kind.body)
        for _, kind in found(TREES, ast.ClassDef)
    }
    assert {kind for kind, n in counts.items() if n > METHODS} - LARGE_CLASSES == set()


def test_the_names_of_test_files_are_unique_and_none_is_too_long():
    """There are no packages here: pytest imports two files of one name as one."""
    files = [path for path in Path(__file__).parent.rglob("*.py") if path.name.startswith("test_")]
    assert len({path.name for path in files}) == len(files)
    assert [path.name for path in files if len(path.read_text().splitlines()) > 400] == []
