"""Break the code once for each law and see that its tests fail.

    python -m experiments.checks.break_the_laws [WORD ...]    damages whose name has one of the words, else all
    python -m experiments.checks.break_the_laws --check       only look whether every damage can still be done

Works on a copy of the repository. A damage that the tests do not notice SURVIVES: then they do not hold that law. A
test that failed is run again without the damage, and must pass then.
Exit status 0: all were noticed; 1: some survive; 2: some could not be tried, because the text that they replace is not
in its file, because no test was selected or pytest failed to run, or because the test fails without the damage too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from experiments.common import ROOT, command

from .damages import DAMAGES, Damage

# What the tests read.
COPIED = (
    "src", "tests", "docs", "examples", "experiments", "pyproject.toml", "Makefile", "README.md", "CONTRIBUTING.md",
)  # fmt: skip
# Exit statuses of pytest, and one of our own.
SURVIVES, NOTICED, FAILS_ANYWAY = 0, 1, -1
OUTCOMES = {
    SURVIVES: "SURVIVES",
    NOTICED: "noticed",
    5: "NO TEST SELECTED",
    FAILS_ANYWAY: "THE TEST FAILS WITHOUT THE DAMAGE TOO",
}
LAST_FAILED = ("--last-failed", "--last-failed-no-failures", "none")


def copy_repository(folder: Path) -> Path:
    """Copy what the tests need into the folder, with the real data beside it; return the root of the copy."""
    root = folder / "main"
    root.mkdir()
    if (ROOT.parent / "shared").exists():
        (folder / "shared").symlink_to(ROOT.parent / "shared")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)
    return root


def run_tests(root: Path, tests: str, *more: str) -> int:
    """Return the exit status of pytest, with `more` arguments, for the tests that the expression selects."""
    arguments = [sys.executable, "-m", "pytest", "-q", "-x", "-k", tests, *more, str(root / "tests")]
    # Compiled files would hide a change of the same length within the same second.
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        arguments, cwd=root, env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    if done.returncode not in OUTCOMES:
        print((done.stdout + done.stderr)[-2000:], file=sys.stderr)
    return done.returncode


def faults(damages: Sequence[Damage], root: Path) -> list[str]:
    """Return why damages cannot be done to the files below `root`, a line for each that cannot."""
    found = (damage.fault(root) for damage in damages)
    return [fault for fault in found if fault is not None]


def statuses(damages: Sequence[Damage]) -> list[int]:
    """Return the exit status of the tests of each damage, and print what it means."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        root = copy_repository(Path(folder))
        for damage in damages:
            before = damage.apply(root)
            out.append(run_tests(root, damage.tests))
            (root / damage.file).write_text(before)
            if out[-1] == NOTICED and run_tests(root, damage.tests, *LAST_FAILED) != 0:
                out[-1] = FAILS_ANYWAY
            print(f"{damage.name:32} {OUTCOMES.get(out[-1], f'PYTEST FAILED, status {out[-1]}')}", flush=True)
    return out


@command(__doc__)
@click.argument("words", nargs=-1)
@click.option("--check", is_flag=True, help="Run no tests.")
def main(words: tuple[str, ...], check: bool) -> None:
    """Check the damages, then do them one at a time."""
    chosen = [damage for damage in DAMAGES if not words or any(word in damage.name for word in words)]
    if not chosen:
        raise click.UsageError(f"no damage has {' or '.join(words)} in its name")
    wrong = faults(chosen, ROOT)
    if wrong:
        print(f"{len(wrong)} of {len(chosen)} damages cannot be done:", *wrong, sep="\n", file=sys.stderr)
        raise SystemExit(2)
    if check:
        print(f"all {len(chosen)} damages can be done")
        return
    found = statuses(chosen)
    raise SystemExit(2 if set(found) - {SURVIVES, NOTICED} else int(SURVIVES in found))


if __name__ == "__main__":
    main()
