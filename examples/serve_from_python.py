"""Stream rows to a service and read its intervals, with the standard library alone; labels come 20 rows late."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request

import numpy as np


def post(path, content):
    request = urllib.request.Request(
        address + path, json.dumps(content).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


folder = tempfile.mkdtemp()
command = [sys.executable, "-m", "streamgp", "serve", os.path.join(folder, "m.gp"), "--new", "--target", "y"]
service = subprocess.Popen([*command, "--port", "0", "--rank", "100"], stderr=subprocess.PIPE, text=True)
address = service.stderr.readline().partition(" at ")[2].partition(";")[0]

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (600, 2))
y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(600)

post("/learn", {"rows": X[:100].tolist(), "targets": y[:100].tolist()})
inside = 0
for i in range(100, 600):
    said = post("/predict", {"row": X[i].tolist(), "id": f"row {i}"})["predictions"][0]["y"]
    inside += said["low"] <= y[i] <= said["high"]
    if i >= 120:
        post("/learn", {"id": f"row {i - 20}", "target": y[i - 20]})
print(f"inside their 90 % intervals: {inside / 500:.1%}")

service.terminate()
assert service.wait() == 0
