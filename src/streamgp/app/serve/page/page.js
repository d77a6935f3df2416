"use strict";
// The live page: reads server-sent events, draws three charts, goes on when the server comes back. No library.
const POINTS = 600, AGAIN = 1000;
// A server that lives says so every five seconds; without a word for so many milliseconds it counts as away.
let patience = 15000;
const get = (id) => document.getElementById(id);
let shown = { points: [], recent: null, stretches: [], alarms: [], model: null, latency: {} };
let latest = shown, paused = false, target = 0, secret = "", colours = {};

// Reading

async function read() {
  const last = latest.points.length ? latest.points[latest.points.length - 1][0] : 0;
  const headers = secret ? { Authorization: "Bearer " + secret } : {};
  const control = new AbortController();
  let silence = setTimeout(() => control.abort(), patience);
  const answer = await fetch("events?after=" + last, { headers, cache: "no-store", signal: control.signal });
  if (answer.status === 401) {
    get("token").hidden = false;
    clearTimeout(silence);
    say("waiting", "a token is needed");
    return false;
  }
  if (!answer.ok) throw new Error(String(answer.status));
  get("token").hidden = true;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    clearTimeout(silence);
    if (done) return true;
    silence = setTimeout(() => control.abort(), patience);
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("data: ")) take(JSON.parse(event.slice(6)));
  }
}

async function follow() {
  let asked = true;
  try {
    asked = await read();
  } catch (error) {
    console.info("the stream of events ended:", error.message);
  }
  if (!asked) return;
  say("failing", "the server is away, trying again");
  setTimeout(follow, AGAIN);
}

function take(event) {
  const before = latest.points.length ? latest.points[latest.points.length - 1][0] : 0;
  // A server that went back to its last checkpoint counts from there.
  const old = event.rows < before ? [] : latest.points;
  const from = old.length ? before : 0;
  const points = old.concat(event.points.filter((p) => p[0] > from)).slice(-POINTS);
  latest = { points, recent: event.recent, stretches: event.stretches, alarms: event.alarms, model: event.model, latency: event.latency };
  const failure = event.model.failure;
  say(failure ? "failing" : paused ? "waiting" : "live", failure ? "failing: " + failure : paused ? "paused" : "live");
  if (!paused) show();
}

function say(kind, text) {
  const status = get("status");
  if (status.textContent !== text) status.textContent = text;
  status.className = kind;
}

// Showing

const digits = (v) => v === null || v === undefined ? "–" : Math.abs(v) >= 1e5 || (v && Math.abs(v) < 1e-3)
  ? v.toExponential(2) : String(Number(v.toPrecision(4)));
const percent = (v) => v === null || v === undefined ? "–" : (100 * v).toFixed(1) + " %";

function show() {
  shown = latest;
  if (!shown.model) return;
  const model = shown.model, select = get("target");
  if (select.options.length !== model.targets.length) {
    select.replaceChildren(...model.targets.map((name, i) => new Option(name, i)));
    select.value = String(target);
  }
  get("source").textContent = model.source;
  get("level").textContent = percent(model.level).replace(".0", "") + " interval";
  tiles(model);
  alarms();
  members(model);
  table();
  draw();
}

function tiles(model) {
  const s = shown.recent || [0, [], [], []], times = shown.latency;
  const time = (route) => times[route] ? digits(times[route][0]) + " ms" : "–";
  const slow = (route) => times[route] ? "99 %: " + digits(times[route][1]) + " ms" : "median of the last 1,000";
  const parts = [
    ["Rows learned", (model.rows_learned || 0).toLocaleString("en"), model.refused + " refused, " + model.bad + " bad"],
    ["Error (RMSE) of 1,000 rows", digits(s[1][target]), "last value: " + digits(s[2][target])],
    ["Inside the interval", percent(s[3][target]), "nominal: " + percent(model.level)],
    ["Alarms", String(model.alarms), ""],
    ["Rank", String(model.rank ?? "–"), model.pivots_exchanged + " points exchanged"],
    ["Noise variance", digits(model.noise ? model.noise[target] : null), "of standardised targets"],
    ["tr K left out", percent(model.trace_error_share), "tuned for " + digits(model.tuning_seconds || 0) + " s"],
  ];
  if ("checkpoint_age" in model) {
    parts.splice(4, 0, ["Predict", time("/predict"), slow("/predict")], ["Learn", time("/learn"), slow("/learn")],
      ["Checkpoint", Math.round(model.checkpoint_age) + " s ago", model.durable ? "every row is in the log" : "no log"]);
  } else if (model.rows_a_second) {
    parts.splice(4, 0, ["Rows a second", digits(model.rows_a_second), ""]);
  }
  const list = get("tiles");
  if (list.children.length !== parts.length) {
    list.replaceChildren(...parts.map(() => element("div", element("dt"), element("dd", document.createTextNode(""), element("small")))));
  }
  parts.forEach(([name, value, more], i) => {
    const [dt, dd] = list.children[i].children;
    dt.textContent = name;
    dd.firstChild.data = value;
    dd.lastChild.textContent = more;
  });
}

function element(name, ...children) {
  const e = document.createElement(name);
  e.append(...children);
  return e;
}

let newestAlarm = null;
function alarms() {
  const list = get("alarms"), newest = shown.alarms.length ? shown.alarms[shown.alarms.length - 1].number : 0;
  if (newest === newestAlarm) return;
  newestAlarm = newest;
  const items = shown.alarms.slice(-20).reverse().map((a) => {
    const when = new Date(1000 * a.time).toLocaleTimeString();
    const row = "row " + a.row.toLocaleString("en");  // some texts begin with it
    return element("li", a.text, " ", element("small", a.text.startsWith(row) ? when : row + ", " + when));
  });
  if (!items.length) items.push(Object.assign(element("li", "none so far"), { className: "none" }));
  list.replaceChildren(...items);
}

function members(model) {
  const rows = Object.entries(model.members || {}).map(([name, weights]) => {
    const bar = Object.assign(document.createElement("progress"), { max: 1, value: weights[target], ariaLabel: name });
    return element("tr", element("td", name), element("td", bar), element("td", percent(weights[target])));
  });
  get("members").tBodies[0].replaceChildren(...rows);
  get("kernel").textContent = model.kernel ? model.method + ", " + model.kernel : "nothing was learned yet";
}

function table() {
  if (!get("last").closest("details").open) return;
  const rows = shown.points.slice(-12).reverse().map((p) =>
    element("tr", ...[p[0], ...p.slice(2).map((v) => digits(v[target]))].map((v) => element("td", String(v)))));
  get("last").tBodies[0].replaceChildren(...rows);
}

// Charts

function range(values, zero) {
  const sorted = values.filter((v) => v !== null).sort((a, b) => a - b);
  if (!sorted.length) return [0, 1];
  const at = (q) => sorted[Math.round(q * (sorted.length - 1))];
  // A row that is far off must not flatten all others.
  let [low, high] = [at(0.01), at(0.99)];
  const room = 0.12 * (high - low) || Math.abs(high) * 0.1 || 1;
  [low, high] = [Math.max(low - room, zero ? 0 : -Infinity), high + room];
  return [low, high];
}

function ticks(low, high, n) {
  const rough = (high - low) / n, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) found.push(Number(v.toPrecision(12)));
  return found;
}

class Chart {
  constructor(id, spec) {
    this.canvas = get(id);
    this.output = get(id + "-said");
    this.spec = spec;
    this.at = null;
    this.canvas.addEventListener("pointermove", (e) => this.point(e.offsetX));
    this.canvas.addEventListener("pointerdown", (e) => this.point(e.offsetX));
    this.canvas.addEventListener("pointerleave", () => this.move(null));
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  key(event) {
    const n = this.spec.xs().length, now = this.at ?? n;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: n - 1, PageUp: now - 20, PageDown: now + 20, Escape: null }[event.key];
    if (to === undefined || !n) return;
    event.preventDefault();
    this.move(to === null ? null : Math.min(Math.max(to, 0), n - 1));
  }

  point(x) {
    const xs = this.spec.xs();
    if (!xs.length) return;
    const wanted = this.unscaled(x);
    let best = 0;
    xs.forEach((v, i) => { if (Math.abs(v - wanted) < Math.abs(xs[best] - wanted)) best = i; });
    this.move(best);
  }

  move(at) {
    this.at = at;
    this.output.textContent = at === null ? "" : this.spec.said(at);
    this.draw();
  }

  draw() {
    const c = this.canvas, w = c.clientWidth, h = c.clientHeight, ratio = devicePixelRatio || 1;
    if (!w) return;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) [c.width, c.height] = [Math.round(w * ratio), Math.round(h * ratio)];
    const g = c.getContext("2d"), xs = this.spec.xs(), [low, high] = this.spec.range();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = "12px system-ui, sans-serif";
    const left = 52, right = 8, top = 6, bottom = 22;
    const [first, last] = xs.length ? [xs[0], Math.max(xs[xs.length - 1], xs[0] + 1)] : [0, 1];
    const X = (v) => left + (v - first) / (last - first) * (w - left - right);
    const Y = (v) => h - bottom - (Math.min(Math.max(v, low), high) - low) / (high - low) * (h - top - bottom);
    this.unscaled = (x) => first + (x - left) / (w - left - right) * (last - first);
    g.strokeStyle = colours.rule;
    g.fillStyle = colours.soft;
    g.lineWidth = 1;
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const v of ticks(low, high, h < 200 ? 4 : 5)) {
      line(g, [[left, Y(v)], [w - right, Y(v)]]);
      g.fillText(this.spec.label(v), left - 6, Y(v));
    }
    g.textBaseline = "alphabetic";
    g.textAlign = "center";
    const marks = (n) => ticks(first, last, n).filter((v) => Number.isInteger(v) && X(v) < w - 20);
    const some = marks(w < 500 ? 3 : 7);
    // One number alone is no scale.
    for (const v of some.length > 1 ? some : marks(6)) g.fillText(v.toLocaleString("en"), X(v), h - 5);
    if (!xs.length) g.fillText("no rows with labels yet", w / 2, h / 2);
    this.spec.draw(g, xs, X, Y);
    if (this.at !== null && this.at < xs.length) {
      g.strokeStyle = colours.ink;
      line(g, [[X(xs[this.at]), top], [X(xs[this.at]), h - bottom]]);
    }
  }
}

function line(g, places, dash = []) {
  g.setLineDash(dash);
  g.beginPath();
  let down = false;
  for (const [x, y] of places) {
    if (y === null) down = false;
    else if (down) g.lineTo(x, y);
    else { g.moveTo(x, y); down = true; }
  }
  g.stroke();
  g.setLineDash([]);
}

const curve = (xs, values, X, Y) => xs.map((x, i) => [X(x), values[i] === null ? null : Y(values[i])]);
// A narrow screen shows fewer rows, so that each can be told from the next.
const visible = () => shown.points.slice(-Math.max(120, Math.round(get("rows").clientWidth / 2)));
const part = (k) => visible().map((p) => p[k][target]);
const along = (k) => shown.stretches.map((s) => s[k][target]);

const charts = [
  new Chart("rows", {
    xs: () => visible().map((p) => p[0]),
    range: () => range([2, 3, 4, 5].flatMap(part)),
    label: digits,
    said: (i) => {
      const [number, time, y, mean, low, high] = visible()[i];
      const said = `row ${number}, ${new Date(1000 * time).toLocaleTimeString()}: measured ${digits(y[target])}, predicted ${digits(mean[target])}`;
      return said + `, interval ${digits(low[target])} to ${digits(high[target])}`;
    },
    draw: (g, xs, X, Y) => {
      const [y, mean, low, high] = [2, 3, 4, 5].map(part);
      g.fillStyle = colours.band;
      for (let i = 0; i + 1 < xs.length; i++) {
        if (low[i] === null || low[i + 1] === null) continue;
        g.beginPath();
        g.moveTo(X(xs[i]), Y(low[i]));
        g.lineTo(X(xs[i]), Y(high[i]));
        g.lineTo(X(xs[i + 1]), Y(high[i + 1]));
        g.lineTo(X(xs[i + 1]), Y(low[i + 1]));
        g.fill();
      }
      g.strokeStyle = colours.two;
      g.lineWidth = 1.5;
      line(g, curve(xs, mean, X, Y));
      g.fillStyle = colours.one;
      xs.forEach((x, i) => {
        if (y[i] === null) return;
        g.beginPath();
        g.arc(X(x), Y(y[i]), xs.length > 300 ? 1.7 : 2.5, 0, 7);
        g.fill();
      });
    },
  }),
  new Chart("error", {
    xs: () => shown.stretches.map((s) => s[0]),
    range: () => [0, range([...along(1), ...along(2)])[1]],
    label: digits,
    said: (i) => `up to row ${shown.stretches[i][0]}: RMSE ${digits(along(1)[i])}, last value ${digits(along(2)[i])}`,
    draw: (g, xs, X, Y) => {
      g.lineWidth = 1.5;
      g.strokeStyle = colours.soft;
      line(g, curve(xs, along(2), X, Y), [5, 4]);
      g.strokeStyle = colours.two;
      g.lineWidth = 2;
      line(g, curve(xs, along(1), X, Y));
    },
  }),
  new Chart("coverage", {
    xs: () => shown.stretches.map((s) => s[0]),
    range: () => [0, 1.02],
    label: (v) => Math.round(100 * v) + " %",
    said: (i) => `up to row ${shown.stretches[i][0]}: ${percent(along(3)[i])} inside, nominal ${percent(shown.model.level)}`,
    draw: (g, xs, X, Y) => {
      g.lineWidth = 1.5;
      g.strokeStyle = colours.soft;
      if (xs.length) line(g, [[X(xs[0]), Y(shown.model.level)], [X(xs[xs.length - 1]), Y(shown.model.level)]], [5, 4]);
      g.strokeStyle = colours.two;
      g.lineWidth = 2;
      line(g, curve(xs, along(3), X, Y));
    },
  }),
];

function draw() {
  charts.forEach((chart) => chart.draw());
}

// Controls

function recolour() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "soft", "rule", "one", "two", "band"]) colours[name] = style.getPropertyValue("--" + name).trim();
  draw();
}

function pause() {
  paused = !paused;
  get("pause").setAttribute("aria-pressed", String(paused));
  get("pause").textContent = paused ? "Go on" : "Pause";
  if (paused) say("waiting", "paused");
  else if (get("status").className === "waiting") say("live", "live");
  if (!paused) show();
}

get("pause").addEventListener("click", pause);
document.addEventListener("keydown", (e) => {
  const typing = e.target.closest("input, select");
  if (e.key.toLowerCase() === "p" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) pause();
});
get("target").addEventListener("change", (e) => { target = Number(e.target.value); show(); });
get("last").closest("details").addEventListener("toggle", table);
get("token").addEventListener("submit", (e) => {
  e.preventDefault();
  secret = get("secret").value;
  sessionStorage.setItem("streamgp", secret);
  follow();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
secret = sessionStorage.getItem("streamgp") || "";
recolour();
follow();
