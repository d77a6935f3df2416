"""Every example runs and prints what it claims."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.checks.broker_servers import Mosquitto, program

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


def test_the_loop_with_deadlines_counts_its_ticks_and_draws_them(tmp_path):
    picture = tmp_path / "latency.png"
    text = output_of(
        "arm_500hz.py", "--seconds", "3", "--hertz", "100", "--rank", "50", "--picture", str(picture)
    )
    assert numbers(text, r"(\d+) ticks of 10 ms") == [300]
    assert 0 <= numbers(text, r"ticks of 10 ms: (\d+) missed")[0] <= 299
    assert max(map(float, text.split("spread:")[1].split())) < 0.9
    assert picture.stat().st_size > 5000


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


def test_a_service_is_taught_and_asked_with_curl(tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    lines = [
        json.loads(line)
        for line in output_of("serve_with_curl.sh", str(tmp_path)).splitlines()
        if line[:1] == "{"
    ]
    taught, said, _, late, again, refused, model = lines
    assert taught["learned"] == 60
    assert said["predictions"][0]["y"]["low"] < 8.05 < said["predictions"][0]["y"]["high"]
    assert (late["learned"], again["learned"], again["duplicates"]) == (1, 0, 1)
    assert (refused["row"], refused["column"]) == (1, "x")
    assert model["rows_learned"] == 61


def test_a_service_from_python_is_calibrated_though_labels_come_late():
    assert 85 < numbers(output_of("serve_from_python.py"), r"intervals: ([\d.]+)%")[0] < 96


def test_a_soft_sensor_answers_over_mqtt_and_keeps_what_is_no_row(tmp_path):
    if program("mosquitto") is None:
        pytest.skip("mosquitto is not installed (Debian: apt-get install mosquitto)")
    server = Mosquitto(tmp_path / "broker")
    try:
        text = output_of("mqtt_soft_sensor.sh", f"mqtt://127.0.0.1:{server.port}", str(tmp_path / "run"))
    finally:
        server.close()
    mean, std, truth = map(float, re.search(r"one: (\S+) ± (\S+), in truth (\S+)", text).groups())
    assert "599 of 600 messages answered" in text
    assert abs(mean - truth) < 5 * std
    assert "the sensor is being cleaned" in text


def test_every_example_is_tested():
    tested = Path(__file__).read_text()
    assert all(path.name in tested for path in FOLDER.iterdir() if path.suffix in (".py", ".sh"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.name)
def test_examples_are_short(path):
    assert len(path.read_text().splitlines()) < 60
