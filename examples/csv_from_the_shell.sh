#!/usr/bin/env bash
# A CSV from the command line: predictions with intervals, a checkpoint and a report; then new rows from a pipe.
set -euo pipefail
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"

# A plant whose yield depends on temperature and pressure; one row is bad, some have no label.
python3 - "$folder/plant.csv" <<'PYTHON'
import math, random, sys
random.seed(0)
with open(sys.argv[1], "w") as file:
    print("time,temperature,pressure,yield", file=file)
    for i in range(3000):
        t, p = random.uniform(300, 400), random.uniform(1, 5)
        y = 50 + 20 * math.sin(t / 15) * p + random.gauss(0, 2)
        label = "" if i % 50 == 49 else f"{y:.3f}"
        temperature = "broken" if i == 1234 else f"{t:.2f}"
        print(f"2026-01-01T{i // 60:02d}:{i % 60:02d},{temperature},{p:.3f},{label}", file=file)
PYTHON

streamgp run "$folder/plant.csv" --target yield --ignore time \
    --on-error quarantine --quarantine "$folder/bad.jsonl" \
    --output "$folder/predictions.csv" --checkpoint "$folder/plant.gp" --report "$folder/report.html"
head -n 3 "$folder/predictions.csv"
cat "$folder/bad.jsonl"
streamgp info "$folder/plant.gp"

printf 'temperature,pressure\n350,2.5\n360,4\n' | streamgp predict "$folder/plant.gp" -
