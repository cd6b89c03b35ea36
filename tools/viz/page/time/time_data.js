// The measured steps as rows, sums of them, and the trace that Perfetto and chrome://tracing open.
import { undelta } from "../core/page_data.js";
import { layerOf } from "../memory/memory_data.js";

/** @param {import("../core/page_data").Page} page */
export function timeRows(page, model, entryIndex) {
  const entry = page.json.models[model].entries[entryIndex], { steps } = entry.measured;
  const graph = page.graph(model, entryIndex, entry.stages.length - 1), nodes = undelta(entry.plan.steps.node);
  return steps.start_us.map((start, i) => stepRow(page, graph, nodes[i], { i, start, end: steps.end_us[i], lane: steps.lane[i], kernel: page.string(steps.kernel[i]), least: steps.least_us[i] }));
}

function stepRow(page, graph, node, step) {
  const known = node >= 0 && node < graph.size, cost = known ? graph.cost(node) : null, name = known ? graph.nodeName(node) : "";
  const us = step.end - step.start, flops = cost?.flops ?? 0, bytes = cost?.bytes ?? 0;
  return { ...step, node, name, us, flops, bytes, path: known ? graph.name[node] : -1, op: known ? graph.op(node) : "", layer: layerOf(name), share: step.least > 0 && us > 0 ? step.least / us : null,
    flopRate: us > 0 && flops > 0 ? (flops / us) * 1e6 : null, byteRate: us > 0 && bytes > 0 ? (bytes / us) * 1e6 : null, count: 1 };
}

/** Rows with the same key made one. */
export function grouped(rows, key) {
  const found = new Map();
  for (const row of rows) {
    const name = row[key];
    const sum = found.get(name) ?? { name, op: key === "op" ? name : "", kernel: key === "kernel" ? name : "", us: 0, least: 0, flops: 0, bytes: 0, count: 0, path: -1 };
    for (const field of ["us", "least", "flops", "bytes", "count"]) sum[field] += row[field];
    found.set(name, sum);
  }
  return [...found.values()].map((sum) => ({ ...sum, share: sum.least > 0 && sum.us > 0 ? sum.least / sum.us : null,
    flopRate: sum.us > 0 && sum.flops > 0 ? (sum.flops / sum.us) * 1e6 : null, byteRate: sum.us > 0 && sum.bytes > 0 ? (sum.bytes / sum.us) * 1e6 : null }));
}

/** The Trace Event Format: complete events by lane, and bytes alive as a counter. */
export function chromeTrace(entry, rows) {
  const events = [{ ph: "M", pid: 1, name: "process_name", args: { name: `${entry.name} on ${entry.measured.device}` } },
    ...entry.measured.lanes.map((name, tid) => ({ ph: "M", pid: 1, tid, name: "thread_name", args: { name } }))];
  for (const row of rows) {
    events.push({ ph: "X", pid: 1, tid: row.lane, ts: row.start, dur: row.us, name: row.name || row.kernel, cat: row.op, args: { kernel: row.kernel, flops: row.flops, bytes: row.bytes, roofline: row.share } });
    events.push({ ph: "C", pid: 1, ts: row.start, name: "arena", args: { bytes: entry.plan.live_bytes[row.i] ?? 0 } });
  }
  return JSON.stringify({ traceEvents: events, displayTimeUnit: "ms" });
}
