#!/usr/bin/env bash
# A soft sensor over MQTT: measurements come on one topic, predictions go out on another one, nothing is lost meanwhile.
# Needs a broker (Debian: apt-get install mosquitto) and pip install 'streamgp[brokers]'.
set -euo pipefail
broker=${1:-mqtt://127.0.0.1:1883}
folder=${2:-$(mktemp -d)}
mkdir -p "$folder"

# The soft sensor. Killed at any moment, the same command goes on where it stopped.
streamgp run "$broker/plant/line1" --target yield --id time --output "$broker/plant/line1/predicted" \
    --checkpoint "$folder/line1.gp" --resume --on-error quarantine --quarantine "$folder/bad.jsonl" --quiet \
    --columns time,temperature,pressure,yield &
trap 'kill %1 && wait %1 || true' EXIT
while [ ! -e "$folder/line1.gp.inbox" ]; do sleep 0.2; done
sleep 2

# The plant, as any client of MQTT would speak for it: every tenth yield is not measured.
python3 - "$broker" <<'PYTHON'
import json, math, random, sys, time
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt

address = urlsplit(sys.argv[1])
answered, last, total = 0, None, 600
random.seed(0)


def arrived(client, data, message):
    global answered, last
    answered, last = answered + 1, json.loads(message.payload)


client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
client.on_message = arrived
client.connect(address.hostname, address.port or 1883)
client.subscribe("plant/line1/predicted", 1)
client.loop_start()
for i in range(total):
    t, p = random.uniform(300, 400), random.uniform(1, 5)
    y = 50 + 20 * math.sin(t / 15) * p + random.gauss(0, 2)
    row = {"time": i, "temperature": t, "pressure": p, "yield": None if i % 10 == 9 else y}
    client.publish("plant/line1", json.dumps(row) if i != 123 else "the sensor is being cleaned", qos=1)
    time.sleep(0.002)
deadline = time.monotonic() + 60
while answered < total - 1 and time.monotonic() < deadline:
    time.sleep(0.1)
mean, std = last["yield_mean"], last["yield_std"]
print(f"{answered} of {total} messages answered; the last one: {mean:.1f} ± {std:.1f}, in truth {y:.1f}")
client.loop_stop()
PYTHON
trap - EXIT
kill %1 && wait %1 || true
cat "$folder/bad.jsonl"
