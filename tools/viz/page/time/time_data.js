// Converts the measured steps to rows, sums, and a trace for Perfetto and chrome://tracing.
import { undelta } from "../core/page_data.js";
import { layerOf } from "../memory/memory_data.js";
import { isCommunication } from "./timeline_data.js";

/** @param {import("../core/page_data").Page} page */
export function timeRows(page, model, entryIndex) {
  const entry = page.json.models[model].entries[entryIndex], { steps } = entry.measured;
  const graph = page.graph(model, entryIndex, entry.snapshots.length - 1), nodes = undelta(entry.plan.steps.node);
  return steps.start_us.map((start, i) => stepRow(page, graph, nodes[i], { i, start, end: steps.end_us[i], us: steps.end_us[i] - start, median: steps.median_us[i], track: steps.track[i], kernel: page.string(steps.kernel[i]), least: steps.least_us[i] }));
}

/**
 * Returns the same steps with their times in the timeline's run on the first rank, from a step's start on any track to its end on
 * all tracks.
 */
export function runRows(timeline, rows) {
  const start = rows.map(() => Infinity), end = rows.map(() => 0), { step, track, start_us, end_us } = timeline.spans;
  step.forEach((at, i) => {
    if (timeline.tracks[track[i]].rank > 0) return;
    start[at] = Math.min(start[at], start_us[i]);
    end[at] = Math.max(end[at], end_us[i]);
  });
  return rows.map((row, i) => withRates({ ...row, start: Math.min(start[i], end[i]), end: end[i], us: Math.max(0, end[i] - start[i]), median: timeline.median_us[i] }));
}

function stepRow(page, graph, node, step) {
  const known = node >= 0 && node < graph.size, cost = known ? graph.cost(node) : null, name = known ? graph.nodeName(node) : "";
  return withRates({ ...step, node, name, flops: cost?.flops ?? 0, bytes: cost?.bytes ?? 0, path: known ? graph.name[node] : -1, op: known ? graph.op(node) : "", layer: layerOf(name), count: 1 });
}

// Adds rates to a row: the share of its time that the device would need at its limits, FLOP/s and bytes/s.
function withRates(row) {
  const { us, least, flops, bytes } = row;
  return { ...row, share: least > 0 && us > 0 ? least / us : null, flopRate: us > 0 && flops > 0 ? (flops / us) * 1e6 : null, byteRate: us > 0 && bytes > 0 ? (bytes / us) * 1e6 : null };
}

/** Merges rows with the same key. */
export function grouped(rows, key) {
  const found = new Map();
  for (const row of rows) {
    const name = row[key];
    const sum = found.get(name) ?? { name, op: key === "op" ? name : "", kernel: key === "kernel" ? name : "", us: 0, median: 0, least: 0, flops: 0, bytes: 0, count: 0, path: -1 };
    for (const field of ["us", "median", "least", "flops", "bytes", "count"]) sum[field] += row[field];
    found.set(name, sum);
  }
  return [...found.values()].map(withRates);
}

/**
 * Returns a trace in the Trace Event Format: a process per rank with a track per thread or stream, a process with the steps one
 * after another, and counters of the bytes alive. `spans`: spans of the timeline (timeline_data.js); empty without a timeline.
 */
export function chromeTrace(entry, rows, spans = []) {
  const { tracks = [] } = entry.measured.timeline ?? {}, ranks = tracks.reduce((most, { rank }) => Math.max(most, rank + 1), 0), on = `${entry.name} on ${entry.measured.device}`;
  const events = [...Array(ranks).keys()].map((rank) => named("process_name", rank + 1, 0, ranks > 1 ? `${on}, rank ${rank}` : on));
  tracks.forEach(({ name, rank }, tid) => events.push(named("thread_name", rank + 1, tid, name)));
  for (let rank = 0; rank < ranks; ++rank) addTracks(events, entry, rank + 1, spans.filter((span) => tracks[span.track].rank === rank));
  events.push(named("process_name", ranks + 1, 0, `${on}, one step after the other`), ...entry.measured.tracks.map((name, tid) => named("thread_name", ranks + 1, tid, name)));
  addTracks(events, entry, ranks + 1, rows);
  return JSON.stringify({ traceEvents: events, displayTimeUnit: "ms" });
}

function named(what, pid, tid, name) {
  return { ph: "M", pid, tid, name: what, args: { name } };
}

function addTracks(events, entry, pid, rows) {
  const seen = new Set();
  for (const row of rows.slice().sort((a, b) => a.start - b.start)) {
    const step = row.step ?? row.i;
    events.push({ ph: "X", pid, tid: row.track, ts: row.start, dur: row.us, name: row.name || row.kernel, cat: isCommunication(row.op) ? "communication" : row.op, args: { op: row.op, kernel: row.kernel, flops: row.flops, bytes: row.bytes, roofline: row.share } });
    if (!seen.has(step)) events.push({ ph: "C", pid, ts: row.start, name: "arena", args: { bytes: entry.plan.live_bytes[step] ?? 0 } });
    seen.add(step);
  }
}
