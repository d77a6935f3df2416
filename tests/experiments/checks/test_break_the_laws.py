"""The runner of damages: what cannot be done is said first; what tests do not notice survives."""

import pytest
from click.testing import CliRunner

from experiments.checks import break_the_laws
from experiments.checks.damages import DAMAGES, Damage


@pytest.fixture
def repository(tmp_path, monkeypatch):
    root = tmp_path / "main"
    for name, text in {
        "src/mycode.py": "def double(x):\n    return 2 * x\n\n\ndef more(x):\n    return x + 1\n",
        "tests/test_mycode.py": "from mycode import double\n\n\ndef test_double():\n    assert double(2) == 4\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(break_the_laws, "ROOT", root)
    monkeypatch.setattr(break_the_laws, "COPIED", ("src", "tests"))
    return root


def run(monkeypatch, *damages, arguments=()):
    monkeypatch.setattr(break_the_laws, "DAMAGES", list(damages))
    return CliRunner().invoke(break_the_laws.main, list(arguments))


def damage(name, old="2 * x", new="3 * x", tests="test_double", **more):
    return Damage(name, "src/mycode.py", old, new, tests, **more)


def test_a_damage_that_tests_notice_is_noticed_and_the_repository_stays_as_it_was(repository, monkeypatch):
    before = (repository / "src" / "mycode.py").read_text()
    outcome = run(monkeypatch, damage("one"), damage("two", new="x"))
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.split() == ["one", "noticed", "two", "noticed"]
    assert (repository / "src" / "mycode.py").read_text() == before


def test_a_damage_that_tests_do_not_notice_survives(repository, monkeypatch):
    outcome = run(monkeypatch, damage("one"), damage("adds", old="x + 1", new="x + 2"))
    assert outcome.exit_code == 1
    assert outcome.output.split() == ["one", "noticed", "adds", "SURVIVES"]


def test_a_test_that_fails_without_the_damage_too_notices_nothing(repository, monkeypatch):
    tests = repository / "tests" / "test_mycode.py"
    tests.write_text(tests.read_text().replace("== 4", "== 5"))
    outcome = run(monkeypatch, damage("one"))
    assert outcome.exit_code == 2
    assert "FAILS WITHOUT THE DAMAGE TOO" in outcome.output


def test_a_damage_without_tests_is_an_error(repository, monkeypatch):
    outcome = run(monkeypatch, damage("one", tests="no_such_test"))
    assert outcome.exit_code == 2
    assert "NO TEST SELECTED" in outcome.output


def test_every_damage_that_cannot_be_done_is_named_before_any_test_runs(repository, monkeypatch):
    monkeypatch.setattr(break_the_laws, "statuses", lambda _: pytest.fail("tests were run"))
    gone = Damage("moved", "src/gone.py", "a", "b", "test_double")
    outcome = run(
        monkeypatch, damage("stale", old="5 * x"), damage("twice", old="return"), gone, damage("good")
    )
    assert outcome.exit_code == 2
    lines = outcome.output.splitlines()
    assert lines[0] == "3 of 4 damages cannot be done:"
    assert lines[1:] == [
        "stale: '5 * x' stands 0 times in src/mycode.py, not 1",
        "twice: 'return' stands 2 times in src/mycode.py, not 1",
        "moved: there is no file src/gone.py",
    ]


def test_check_runs_no_tests_and_words_choose_damages(repository, monkeypatch):
    monkeypatch.setattr(break_the_laws, "statuses", lambda _: pytest.fail("tests were run"))
    damages = damage("good"), damage("both", old="return", places=2), damage("stale", old="5 * x")
    assert run(monkeypatch, *damages, arguments=["--check"]).exit_code == 2
    outcome = run(monkeypatch, *damages, arguments=["--check", "good", "both"])
    assert (outcome.exit_code, outcome.output) == (0, "all 2 damages can be done\n")
    outcome = run(monkeypatch, *damages, arguments=["--check", "nothing"])
    assert outcome.exit_code == 2
    assert "no damage has nothing in its name" in outcome.output


def test_damages_have_names_of_their_own_and_change_something():
    assert len({d.name for d in DAMAGES}) == len(DAMAGES) >= 85
    assert all(d.old != d.new for d in DAMAGES)
