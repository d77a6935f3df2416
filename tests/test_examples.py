"""Every example runs and prints what it claims."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"


def output_of(name, *arguments):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable if name.endswith(".py") else "bash", str(FOLDER / name), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def numbers(text, pattern):
    return [float(v) for v in re.findall(pattern, text)]


def test_the_arm_one_row_at_a_time_is_calibrated():
    text = output_of("arm_one_row_at_a_time.py")
    assert 86 < numbers(text, r"intervals: ([\d.]+)%")[0] < 94


def test_a_csv_from_the_shell_gives_predictions_a_bad_row_and_a_report(tmp_path):
    text = output_of("csv_from_the_shell.sh", str(tmp_path))
    assert "1 bad rows" in text
    assert "temperature, pressure" in text
    assert (tmp_path / "report.html").stat().st_size > 50_000
    assert re.search(r"^3,-?[\d.]+,", text, re.M)


def test_the_river_pipeline_beats_linear_regression():
    ours, plain = numbers(output_of("river_pipeline.py"), r"(\d+\.\d+)")
    assert ours < 0.8 * plain


def test_forgetting_follows_a_drift():
    text = output_of("drift_with_forgetting.py")
    without, with_it = numbers(text, r"([\d.]+) at the end")
    assert with_it < 0.5 * without
    assert 84 < numbers(text, r"rows ([\d.]+)%")[1] < 97


def test_the_merged_model_is_better_than_either():
    left, right, merged = numbers(output_of("two_machines.py"), r"(?:left|right|merged) ([\d.]+)")
    assert merged < 0.3 * min(left, right)


def test_every_example_is_tested():
    tested = Path(__file__).read_text()
    assert all(path.name in tested for path in FOLDER.iterdir() if path.suffix in (".py", ".sh"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.name)
def test_examples_are_short(path):
    assert len(path.read_text().splitlines()) < 60
