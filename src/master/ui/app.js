// Asks the master for its figures and shows them. What comes from outside (keys, names, messages)
// is only ever set as textContent.
import {Chart, SPAN_MS} from "./chart.js";

const POLL_MS = 5000;
const ASK_MS = 8000; // the master's own limit is 5 s
const LATELY_MS = 300e3;
const ROWS_MAX = 100; // of a list; a pool may have 65536 segments

const GAP = "\u00a0"; // between a number and its unit: they stay on one line

const $ = (id) => document.getElementById(id);

// ---- units ----------------------------------------------------------------------------------------

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function bytes(value) {
  let step = 0;
  while (value >= 1023.95 && step < BINARY.length - 1) {
    value /= 1024;
    step++;
  }
  return `${step === 0 ? Math.round(value) : value.toFixed(1)}${GAP}${BINARY[step]}`;
}

const count = (value) => Math.round(value).toLocaleString("en-US");
const rate = (value) => `${bytes(value)}/s`;
const percent = (value) => `${(100 * value).toFixed(1)}${GAP}%`;

function seconds(value) {
  if (value < 120) {
    return `${value < 10 ? value.toFixed(1) : Math.round(value)}${GAP}s`;
  }
  const minutes = Math.floor(value / 60), hours = Math.floor(minutes / 60);
  if (minutes < 120) {
    return `${minutes}${GAP}min ${Math.floor(value % 60)}${GAP}s`;
  }
  return hours < 48 ? `${hours}${GAP}h ${minutes % 60}${GAP}min` :
    `${Math.floor(hours / 24)}${GAP}d ${hours % 24}${GAP}h`;
}

const UNITS = {bytes, count, seconds};

// ---- asking ---------------------------------------------------------------------------------------

// The answer, or an error that says what the master said.
async function ask(path) {
  const answer = await fetch(path, {cache: "no-store", signal: AbortSignal.timeout(ASK_MS)});
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    const error = new Error(told.error_message ?? `HTTP status ${answer.status}`);
    error.status = answer.status;
    throw error;
  }
  return answer;
}

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:\\.|[^"\\])*)"/g;
const unescape = (text) => text.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));

// name -> [{labels, value}]
function parseMetrics(text) {
  const metrics = new Map();
  for (const line of text.split("\n")) {
    const match = line[0] === "#" ? null : LINE.exec(line);
    if (match) {
      const labels = {};
      for (const [, name, value] of (match[2] ?? "").matchAll(LABEL)) {
        labels[name] = unescape(value);
      }
      if (!metrics.has(match[1])) {
        metrics.set(match[1], []);
      }
      metrics.get(match[1]).push({labels, value: Number(match[3])});
    }
  }
  return metrics;
}

const one = (metrics, name) => metrics.get(name)?.[0].value ?? NaN;

function byLabel(metrics, name, label) {
  return new Map((metrics.get(name) ?? []).map((line) => [line.labels[label], line.value]));
}

// ---- the last hour --------------------------------------------------------------------------------

const SAMPLED = {
  used: "mooncake_master_used_bytes",
  capacity: "mooncake_master_capacity_bytes",
  keys: "mooncake_master_keys",
  hits: "mooncake_master_hits_total",
  misses: "mooncake_master_misses_total",
  read_bytes: "mooncake_master_query_hit_bytes_total",
  written_bytes: "master_value_size_bytes_sum",
  evicted_bytes: "mooncake_master_evicted_bytes_total",
  evicted_for_puts_bytes: "mooncake_master_evicted_for_puts_bytes_total",
  put_rejected: "mooncake_master_put_rejected_total",
};
const COUNTERS = Object.keys(SAMPLED).slice(3);

let points = []; // samples, oldest first; each with the sample before it, for differences

function addPoint(sample) {
  const before = points.at(-1);
  if (before && sample.t <= before.t) {
    return;
  }
  // A counter that fell: another master. Nothing can be said about the time between.
  const same = before && COUNTERS.every((name) => sample[name] >= before[name]);
  points.push({...sample, before: same ? before : null});
  const oldest = sample.t - SPAN_MS;
  while (points.length > 0 && points[0].t < oldest) {
    points.shift();
  }
  if (points.length > 0) {
    points[0].before = null; // or every sample ever would stay
  }
}

async function loadHistory() {
  const {fields, samples} = await (await ask("ui/history")).json();
  const now = Date.now();
  points = [];
  for (const values of samples) {
    const sample = Object.fromEntries(fields.map((name, i) => [name, values[i]]));
    addPoint({...sample, t: now - 1000 * sample.age_seconds});
  }
}

const perSecond = (name) => (point) => point.before === null ? null :
  (point[name] - point.before[name]) / ((point.t - point.before.t) / 1000);

function hitRatio(from, to) {
  const hits = to.hits - from.hits, lookups = hits + to.misses - from.misses;
  return lookups > 0 ? hits / lookups : null;
}

const CHARTS = [
  new Chart($("chart-use"), [{name: "used", color: "blue",
    value: (point) => point.capacity > 0 ? point.used / point.capacity : null}],
    {format: percent, top: 1, filled: true}),
  new Chart($("chart-hits"), [{name: "hits", color: "green",
    value: (point) => point.before && hitRatio(point.before, point)}], {format: percent, top: 1}),
  new Chart($("chart-throughput"), [
    {name: "read", color: "blue", value: perSecond("read_bytes")},
    {name: "written", color: "orange", value: perSecond("written_bytes")}],
    {format: rate, binary: true}),
  new Chart($("chart-evictions"), [
    {name: "in all", color: "orange", value: perSecond("evicted_bytes")},
    {name: "for puts without room", color: "blue", value: perSecond("evicted_for_puts_bytes")}],
    {format: rate, binary: true}),
];

// ---- showing --------------------------------------------------------------------------------------

function show(node, text, title = "") {
  node.textContent = text;
  node.title = title;
}

// A row of cells: texts, or nodes.
function row(cells) {
  const line = document.createElement("tr");
  for (const cell of cells) {
    const node = document.createElement("td");
    node.append(cell);
    line.append(node);
  }
  return line;
}

function make(tag, name, text = "") {
  const node = document.createElement(tag);
  node.className = name;
  node.textContent = text;
  return node;
}

function bar(parts, whole) {
  return parts.filter(([value]) => value > 0).map(([value, color]) => {
    const part = make("i", color);
    part.style.width = `${(100 * value) / whole}%`;
    return part;
  });
}

const exact = (unit, value) => unit === "bytes" ? `${count(value)} bytes` : `${value}`;

function showNumbers(metrics) {
  for (const node of document.querySelectorAll("[data-metric]")) {
    const value = one(metrics, node.dataset.metric), unit = node.dataset.unit;
    show(node, Number.isNaN(value) ? "\u2013" : UNITS[unit](value), exact(unit, value));
  }
  const used = one(metrics, SAMPLED.used), capacity = one(metrics, SAMPLED.capacity);
  show($("used-percent"), capacity > 0 ? percent(used / capacity) : "no store");
  const evicted = one(metrics, SAMPLED.evicted_bytes);
  const watermark = evicted - one(metrics, SAMPLED.evicted_for_puts_bytes);
  show($("evicted-watermark"), bytes(watermark), exact("bytes", watermark));
  show($("eviction-age"), medianAge(metrics));
}

// From the histogram: the bound under which half of the evicted objects were.
function medianAge(metrics) {
  const name = "mooncake_master_key_age_at_eviction_seconds";
  const all = one(metrics, `${name}_count`);
  const found = (metrics.get(`${name}_bucket`) ?? []).find((line) => line.value >= all / 2);
  if (!(all > 0) || !found) {
    return "\u2013";
  }
  return found.labels.le === "+Inf" ? "over a day" : `under ${seconds(Number(found.labels.le))}`;
}

function showRates() {
  const last = points.at(-1);
  const rates = {"read-rate": "read_bytes", "write-rate": "written_bytes",
    "evict-rate": "evicted_bytes"};
  for (const [id, name] of Object.entries(rates)) {
    const value = last ? perSecond(name)(last) : null;
    show($(id), value === null ? "\u2013" : rate(value));
  }
  const from = points.find((point) => point.t >= Date.now() - LATELY_MS && sameLife(point));
  const lately = last && from ? hitRatio(from, last) : null;
  show($("hits-lately"), lately === null ? "no lookups" : percent(lately));
  const ever = last ? hitRatio({hits: 0, misses: 0}, last) : null;
  show($("hits-ever"), ever === null ? "no lookups" : percent(ever));
}

// Are all counters of @p point at most those of now: is it of this master's life?
const sameLife = (point) => COUNTERS.every((name) => point[name] <= points.at(-1)[name]);

const SPACE = [ // label, color, what frees it, value
  ["free", "free", (m) => one(m, "mooncake_master_free_bytes")],
  ["evictable now", "blue", (m) => one(m, "mooncake_master_evictable_bytes")],
  ["under a lease", "teal", (m) => kept(m, "lease") + kept(m, "reading")],
  ["soft-pinned", "violet", (m) => kept(m, "soft_pin")],
  ["hard-pinned: only removal frees it", "red", (m) => kept(m, "hard_pin")],
  ["being written", "green", (m) => kept(m, "writing")],
  ["left by a lost writer, until a time has passed", "orange",
    (m) => one(m, "mooncake_master_parked_bytes")],
  ["free on draining or suspect segments", "gray",
    (m) => one(m, "mooncake_master_unplaceable_bytes")],
];
const kept = (metrics, reason) =>
  byLabel(metrics, "mooncake_master_protected_bytes", "reason").get(reason) ?? 0;

function showSpace(metrics) {
  const parts = SPACE.map(([name, color, value]) => ({name, color, value: value(metrics)}));
  const whole = parts.reduce((sum, part) => sum + part.value, 0);
  $("space-bar").replaceChildren(...bar(parts.map((p) => [p.value, p.color]), whole || 1));
  $("space").tBodies[0].replaceChildren(...parts.map((part) => {
    const name = document.createElement("span");
    name.append(make("i", `swatch ${part.color}`), part.name);
    const line = row([name, bytes(part.value), whole > 0 ? percent(part.value / whole) : ""]);
    line.title = exact("bytes", part.value);
    return line;
  }));
  const free = byLabel(metrics, "mooncake_master_largest_free_extent_bytes", "segment");
  show($("largest-free"), free.size > 0 ? bytes(Math.max(...free.values())) : "no segment");
}

const STATE_COLORS = {ok: "green", draining: "orange", suspect: "red", gone: "red"};
const stateText = (state) => make("span", `state ${STATE_COLORS[state] ?? ""}`, state);

function more(node, all, what) {
  show(node, all > ROWS_MAX ? `and ${count(all - ROWS_MAX)} more: ${what}` : "");
}

// Ill ones first, then the fullest.
function showSegments(segments) {
  const fill = (s) => s.size_bytes > 0 ? s.allocator_used_bytes / s.size_bytes : 0;
  segments.sort((a, b) => (a.status === "ok") - (b.status === "ok") || fill(b) - fill(a) ||
    (a.segment_name < b.segment_name ? -1 : 1));
  $("segments").replaceChildren(...segments.slice(0, ROWS_MAX).map((segment) => {
    const item = make("li", ""), filled = make("div", "bar");
    const name = make("div", "name", segment.segment_name);
    if (segment.status !== "ok") {
      name.append(" ", stateText(segment.status));
    }
    filled.append(...bar([[segment.allocator_used_bytes, "blue"]], segment.size_bytes));
    item.title = segment.te_endpoint;
    item.append(name, filled, make("div", "figures", `${bytes(segment.allocator_used_bytes)} of ` +
      `${bytes(segment.size_bytes)}, ${percent(fill(segment))}`));
    return item;
  }));
  more($("segments-more"), segments.length, "mooncakectl segments");
  if (segments.length === 0) {
    show($("segments-more"), "No segment is mounted: start a mooncake_store.");
  }
}

const SEVERITY = ["ok", "draining", "suspect", "gone"];
const SILENT_MS = 2500; // a store pings each second

function showStores(clients, segments) {
  const theirs = new Map();
  for (const segment of segments) {
    const sum = theirs.get(segment.client_id) ?? {used: 0, size: 0, state: "ok"};
    sum.used += segment.allocator_used_bytes;
    sum.size += segment.size_bytes;
    sum.state = SEVERITY[Math.max(SEVERITY.indexOf(sum.state), SEVERITY.indexOf(segment.status))];
    theirs.set(segment.client_id, sum);
  }
  const stores = clients.filter((client) => client.role === "store" || client.segments > 0);
  for (const client of stores) {
    const sum = theirs.get(client.client_id);
    if (sum?.state === "ok" && client.ping_age_ms > SILENT_MS) {
      sum.state = "suspect"; // as mooncakectl stores says it
    }
  }
  const rank = (client) => SEVERITY.indexOf(theirs.get(client.client_id)?.state);
  stores.sort((a, b) => rank(b) - rank(a) || b.ping_age_ms - a.ping_age_ms);
  $("stores").tBodies[0].replaceChildren(...stores.slice(0, ROWS_MAX).map((client) => {
    const sum = theirs.get(client.client_id);
    return row([client.host, sum ? stateText(sum.state) : "no segment",
      `${seconds(client.ping_age_ms / 1000)} ago`,
      sum ? `${bytes(sum.used)} of ${bytes(sum.size)}` : "\u2013", count(client.segments),
      client.program, client.client_id]);
  }));
  more($("stores-more"), stores.length, "mooncakectl stores");
}

// ---- the round ------------------------------------------------------------------------------------

let answeredAt = 0, uptime = 0, complaint = "";

async function poll() {
  const [metrics, segments, clients] = await Promise.all([
    ask("metrics").then((answer) => answer.text()).then(parseMetrics),
    ask("get_segments_detail").then((answer) => answer.json()),
    ask("get_clients_detail").then((answer) => answer.json()),
  ]);
  const up = one(metrics, "mooncake_master_uptime_seconds");
  if (up < uptime || points.length === 0) {
    await loadHistory(); // the first time, and when another master answers
  }
  uptime = up;
  addPoint({t: Date.now(), ...Object.fromEntries(
    Object.entries(SAMPLED).map(([name, metric]) => [name, one(metrics, metric)]))});
  showNumbers(metrics);
  showRates();
  showSpace(metrics);
  showSegments(segments.segments);
  showStores(clients.clients, segments.segments);
  for (const chart of CHARTS) {
    chart.draw(points, Date.now());
  }
  answeredAt = Date.now();
}

// Says how old the figures are, and loudly if they are not of now.
function showAge() {
  const age = (Date.now() - answeredAt) / 1000;
  const stale = complaint !== "";
  const since = answeredAt === 0 ? "No figures yet." :
    `The figures below are ${seconds(age)} old (${new Date(answeredAt).toLocaleTimeString()}).`;
  $("banner").hidden = !stale;
  $("main").classList.toggle("stale", stale);
  show($("banner"), stale ? `The master does not answer: ${complaint}. ${since}` : "");
  show($("updated"), answeredAt === 0 ? "no answer yet" : `updated ${seconds(age)} ago`);
}

function whatFailed(error) {
  if (error.name === "TimeoutError") {
    return `nothing came within ${ASK_MS / 1000} s`;
  }
  return error.status ? error.message : "no connection to its admin port";
}

async function round() {
  const began = Date.now();
  if (!document.hidden) {
    try {
      await poll();
      complaint = "";
    } catch (error) {
      complaint = whatFailed(error);
      console.warn(error);
    }
    showAge();
  }
  // A page that is long in the making is asked for less often.
  setTimeout(round, Math.max(POLL_MS, 5 * (Date.now() - began)));
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    points = []; // what was not seen comes from the master
  }
});

// ---- a key ----------------------------------------------------------------------------------------

async function findKey(event) {
  event.preventDefault();
  const key = $("key").value;
  $("copies").hidden = true;
  show($("found"), "asking");
  try {
    const {data} = await (await ask(`query_key?key=${encodeURIComponent(key)}`)).json();
    const size = data.reduce((sum, extent) => sum + extent.size_, 0);
    show($("found"), `${key}: ${count(data.length)} ${data.length === 1 ? "extent" : "extents"}, ` +
      `${bytes(size)} in all copies`);
    $("copies").tBodies[0].replaceChildren(...data.map((extent, i) => row([count(i + 1),
      bytes(extent.size_), count(extent.buffer_address_), extent.protocol_,
      extent.transport_endpoint_])));
    $("copies").hidden = data.length === 0;
  } catch (error) {
    show($("found"), error.status === 404 ?
      `${key}: not readable now. It was never put, or is being written, evicted, removed or lost: ` +
      "mooncakectl why-miss KEY says which." :
      `${key}: ${whatFailed(error)}`);
  }
}

$("search").addEventListener("submit", findKey);
show($("where"), location.host);
setInterval(showAge, 1000);
round();
