#!/usr/bin/env bash
# Begin a service, teach it, ask it, stop it. Needs curl and streamgp[serve].
set -euo pipefail
folder=${1:-$(mktemp -d)}
streamgp serve "$folder/plant.gp" --new --target y --port "${PORT:-8123}" --durable &
service=$!
trap 'kill $service; wait $service' EXIT
ask() { curl --silent --show-error "localhost:${PORT:-8123}$1" -H 'Content-Type: application/json' "${@:2}"; echo; }
until curl --silent --fail --output /dev/null "localhost:${PORT:-8123}/healthz"; do sleep 0.2; done

# Rows of y = 2x, with some noise.
rows=$(awk 'BEGIN { srand(1); for (i = 0; i < 60; i++) { x = rand() * 10; printf "%s{\"x\": %f, \"y\": %f}", i ? "," : "", x, 2 * x + 0.1 * rand() } }')
ask /learn -d "{\"rows\": [$rows]}"
ask /predict -d '{"row": {"x": 4}}'

# A row whose label comes later, by its id; sent twice, it is learned once.
ask /predict -d '{"row": {"x": 5}, "id": "sample 7"}'
ask /learn -d '{"id": "sample 7", "target": 10.05}'
ask /learn -d '{"id": "sample 7", "target": 10.05}'

# What cannot be used is refused, with its place.
ask /learn -d '{"rows": [{"x": 1, "y": 2}, {"x": "wet", "y": 2}]}'
ask /model
