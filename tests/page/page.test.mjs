// Tests the parts of the page that need no browser: node --test.
import assert from "node:assert/strict";
import { test } from "node:test";

import { loadColumns } from "../../tools/viz/page/charts/load_map.js";
import { byteTicks, logTicks, roundTicks } from "../../tools/viz/page/charts/ticks.js";
import { isSchedule, smoothed } from "../../tools/viz/page/charts/smooth.js";
import { bytes, digits, duration, quantity } from "../../tools/viz/page/core/format.js";
import { Graph, Page, undelta } from "../../tools/viz/page/core/page_data.js";
import { depths, gridLayout } from "../../tools/viz/page/graph/grid_layout.js";
import { Hierarchy, numberedRuns } from "../../tools/viz/page/graph/hierarchy.js";
import { drawnEdges, eachEdge, kIn, kOut, visibleLevels } from "../../tools/viz/page/graph/levels.js";
import { timesByNode } from "../../tools/viz/page/graph/node_facts.js";
import { search } from "../../tools/viz/page/graph/search.js";
import { SpatialIndex } from "../../tools/viz/page/graph/spatial_index.js";
import { largest } from "../../tools/viz/page/memory/bars.js";
import { aliveAt, blockRows, layerOf, shortName } from "../../tools/viz/page/memory/memory_data.js";
import { chromeTrace, grouped, runRows, timeRows } from "../../tools/viz/page/time/time_data.js";
import { communicationRows, trackNames, trackRows, spanRows, union } from "../../tools/viz/page/time/timeline_data.js";
import { runsAsCsv } from "../../tools/viz/page/training/csv.js";
import { addRow, follow } from "../../tools/viz/page/training/live.js";
import { DataBuilder } from "./data_builder.mjs";
import { flat, hostile, kHostile, ranks, training } from "./samples.mjs";

function hierarchyOf(json, snapshot = 0) {
  return new Hierarchy(new Page(json).graph(0, 0, snapshot));
}

// Returns random numbers that are the same in every run (Park and Miller's generator).
function random(seed) {
  return () => (seed = (seed * 48271) % 2147483647) / 2147483647;
}

test("a graph's columns come back as they went in", () => {
  const build = new DataBuilder(), type = build.type("f32", ["batch", 4], null);
  const columns = build.graph([{ kind: 0, name: "x", type }, { kind: 1, name: "layer.weight", type }], [
    { op: "split", name: "layer.split", reads: ["@x", "@layer.weight"], type: [type, type] },
    { op: "add", name: "layer.add", author: "layer.split", reads: ["layer.split:1", "layer.split", "@x"], type }], [["y", "layer.add"]]);
  build.json.models.push({ entries: [{ name: "main", snapshots: [{ graph: columns }] }] });
  const graph = new Page(build.json).graph(0, 0, 0);
  assert.deepEqual([...graph.inputs(0)].map((value) => graph.valueText(value)), ["x", "layer.weight"]);
  assert.deepEqual([...graph.inputs(1)].map((value) => graph.valueText(value)), ["layer.split:1", "layer.split", "x"]);
  assert.deepEqual(graph.consumersOf(0), [0, 1]);
  assert.equal(graph.page.names.full(graph.authorPath(1)), "layer.split");
  assert.equal(graph.typeText(graph.outputs(1)[0]), "f32[batch,4]");
  assert.deepEqual([...undelta([3, -1, 5])], [3, 2, 7]);
});

test("every node stands once in the hierarchy", () => {
  for (const [json, snapshot] of [[training(5), 1], [hostile(), 0], [flat(300), 0]]) {
    const hierarchy = hierarchyOf(json, snapshot), nodes = hierarchy.nodesBelow(hierarchy.root).sort((a, b) => a - b);
    assert.deepEqual(nodes, Array.from({ length: hierarchy.graph.size }, (_, i) => i));
    for (const node of nodes) assert.ok(hierarchy.ancestors(node).includes(hierarchy.root));
    assert.equal(hierarchy.group(hierarchy.root).nodes, hierarchy.graph.size);
  }
});

test("equal layers are folded, unequal ones are not", () => {
  const hierarchy = hierarchyOf(training(6)), folds = hierarchy.groups.filter((group) => group.repeats > 0);
  assert.deepEqual(folds.map((fold) => [fold.label, fold.repeats]), [["layers.0 … layers.5", 6]]);
  assert.equal(folds[0].nodes, 6 * 15);
  assert.deepEqual(numberedRuns([1, 1, 2, 2, 2, -1, 2], (item) => item), [{ from: 0, count: 2 }, { from: 2, count: 3 }, { from: 6, count: 1 }]);
});

test("gradients stand in a tree of their own", () => {
  const hierarchy = hierarchyOf(training(4), 1), top = hierarchy.group(hierarchy.root).children.map((item) => hierarchy.label(item));
  assert.ok(top.includes("gradient") && top.includes("optimizer") && top.includes("model"), top.join());
});

test("no edge is lost, whatever is open", () => {
  const hierarchy = hierarchyOf(training(3), 1), next = random(7);
  for (let turn = 0; turn < 40; ++turn) {
    const open = new Set(hierarchy.groups.flatMap((_, i) => (next() < turn / 40 ? [hierarchy.firstGroup + i] : [])));
    const levels = visibleLevels(hierarchy, open), edges = new Map(levels.map((level) => [level.group, new Set(level.edges.map((edge) => `${edge.from},${edge.to}`))]));
    const shown = new Set(levels.flatMap((level) => level.items));
    eachEdge(hierarchy, (from, to) => {
      const chain = (item) => [...hierarchy.ancestors(item), item].filter((one) => one === hierarchy.root || shown.has(one));
      const a = chain(from), b = chain(to);
      if (a[a.length - 1] === b[b.length - 1]) return;
      let common = 0;
      while (a[common + 1] === b[common + 1]) ++common;
      assert.ok(edges.get(a[common]).has(`${a[common + 1]},${b[common + 1]}`));
      for (let i = common + 1; i + 1 < a.length; ++i) assert.ok(edges.get(a[i]).has(`${a[i + 1]},${kOut}`));
      for (let i = common + 1; i + 1 < b.length; ++i) assert.ok(edges.get(b[i]).has(`${kIn},${b[i + 1]}`));
    });
  }
});

test("a port with many edges keeps those at the ends", () => {
  const chain = [0, 1, 2, 3, 4, 5].map((to) => ({ from: kIn, to, values: 1 })), inner = [0, 1, 2, 3, 4].map((from) => ({ from, to: from + 1, values: 1 })), out = [{ from: 2, to: kOut, values: 1 }];
  assert.deepEqual(drawnEdges({ edges: [...chain, ...inner, ...out] }), [chain[0], ...inner, ...out]);
  assert.equal(drawnEdges({ edges: chain.slice(0, 4).concat(inner) }).length, 9);
});

test("the grid puts a node below what it reads and overlaps nothing", () => {
  const next = random(3), count = 500, edges = [];
  for (let i = 1; i < count; ++i) edges.push(Math.floor(next() * i), i);
  const depth = depths(count, edges);
  for (let i = 0; i < edges.length; i += 2) assert.ok(depth[edges[i]] < depth[edges[i + 1]]);
  const { x, y, width, height } = gridLayout(new Array(count).fill(60), new Array(count).fill(20), edges);
  for (let a = 0; a < count; ++a) {
    assert.ok(x[a] >= 0 && x[a] + 60 <= width && y[a] >= 0 && y[a] + 20 <= height);
    for (let b = 0; b < a; ++b) assert.ok(Math.abs(x[a] - x[b]) >= 60 || Math.abs(y[a] - y[b]) >= 20);
  }
  assert.deepEqual([...depths(3, [0, 1, 1, 2, 2, 1])].length, 3); // a cycle ends
});

test("a hundred thousand items take the grid less than a second", () => {
  const edges = [];
  for (let i = 2; i < 100000; ++i) edges.push(i - 1, i, i - 2, i);
  const start = performance.now();
  gridLayout(new Array(100000).fill(80), new Array(100000).fill(36), edges);
  assert.ok(performance.now() - start < 3000); // takes one second on an idle machine
});

test("the spatial index finds what a look at every rectangle finds", () => {
  const next = random(11), bounds = [];
  for (let i = 0; i < 800; ++i) {
    const left = next() * 5000, top = next() * 3000, size = i % 50 === 0 ? 3000 : 60;
    bounds.push(left, top, left + next() * size, top + next() * size);
  }
  const index = new SpatialIndex(bounds);
  for (let turn = 0; turn < 100; ++turn) {
    const left = next() * 6000 - 500, top = next() * 4000 - 500, right = left + next() * 900, bottom = top + next() * 900, found = [], all = [];
    index.each(left, top, right, bottom, (i) => found.push(i));
    for (let i = 0; i < 800; ++i) if (bounds[4 * i] <= right && bounds[4 * i + 2] >= left && bounds[4 * i + 1] <= bottom && bounds[4 * i + 3] >= top) all.push(i);
    assert.deepEqual(found.sort((a, b) => a - b), all);
  }
  new SpatialIndex([]).each(0, 0, 1, 1, () => assert.fail());
});

test("search", () => {
  const hierarchy = hierarchyOf(training(4)), found = (query) => search(hierarchy, query).items.length;
  assert.equal(found("swiglu"), 4); // by name, op and type
  assert.equal(found("SWIGLU layers.2"), 1);
  assert.equal(found("/layers\\.[12]\\.mlp\\.swiglu/"), 2);
  assert.equal(found("targets"), 1);
  assert.equal(found("   "), 0);
  assert.match(search(hierarchy, "/[/").problem, /regular expression/i);
});

test("ticks are round and lie inside", () => {
  assert.deepEqual(roundTicks(0, 1, 5), [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1]);
  assert.deepEqual(byteTicks(0, 4096, 4), [0, 1024, 2048, 3072, 4096]);
  assert.deepEqual(logTicks(1, 1000), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]);
  assert.deepEqual(logTicks(1e-8, 1e8).length, 9);
  const next = random(5);
  for (let turn = 0; turn < 300; ++turn) {
    const low = (next() - 0.5) * 10 ** (next() * 12 - 6), high = low + 10 ** (next() * 12 - 6), ticks = roundTicks(low, high);
    assert.ok(ticks.length >= 1 && ticks.length <= 14 && ticks.every((tick) => tick >= low - 1e-9 * Math.abs(high) && tick <= high + 1e-9 * Math.abs(high)), `${low} ${high} ${ticks}`);
  }
});

test("smoothing starts without a bias and passes over gaps", () => {
  assert.deepEqual(smoothed([3, 3, null, 3], 0.9).map((value) => value && Number(value.toFixed(9))), [3, 3, null, 3]);
  assert.deepEqual(smoothed([1, 2], 0), [1, 2]);
  assert.ok(Math.abs(smoothed([1, 2], 0.5)[1] - (0.25 * 1 + 0.5 * 2) / 0.75) < 1e-12);
});

test("numbers as people read them", () => {
  assert.deepEqual([bytes(0), bytes(1023), bytes(1536), bytes(5 * 2 ** 30), bytes(null)], ["0 B", "1023 B", "1.50 KiB", "5.00 GiB", "unknown"]);
  assert.deepEqual([quantity(999), quantity(2.5e9, "FLOP"), duration(1500), duration(2.5e6)], ["999", "2.50 GFLOP", "1.5 ms", "2.5 s"]);
  assert.deepEqual([digits(0), digits(5e-4), digits(1.25e-5), digits(0.5), digits(NaN), digits(null)], ["0", "5e-4", "1.25e-5", "0.5", "NaN", "–"]);
});

test("memory: what is alive at the peak is what the plan says", () => {
  const page = new Page(training(4)), { plan } = page.json.models[0].entries[0], rows = blockRows(page, plan);
  for (const step of [0, 17, plan.peak_step, plan.live_bytes.length - 1]) assert.equal(aliveAt(rows, step).reduce((sum, row) => sum + row.bytes, 0), plan.live_bytes[step]);
  assert.deepEqual(["model.layers.3.mlp.swiglu", "lm_head.linear", "loss"].map(layerOf), ["model.layers.3", "lm_head", "(top)"]);
  assert.deepEqual(["model.layers.3.mlp.swiglu", "model.norm.rms_norm.grad.rms_norm_grad", "loss"].map(shortName), ["mlp.swiglu", "norm.rms_norm grad", "loss"]);
});

test("time: groups keep the sum, the trace keeps the steps", () => {
  const page = new Page(training(3)), entry = page.json.models[0].entries[0], rows = timeRows(page, 0, 0), total = rows.reduce((sum, row) => sum + row.us, 0);
  for (const key of ["op", "kernel", "layer"]) assert.ok(Math.abs(grouped(rows, key).reduce((sum, row) => sum + row.us, 0) - total) < 1e-6);
  assert.ok(Math.abs(timesByNode(entry.plan, entry.measured, page.graph(0, 0, 2).size).time.reduce((sum, us) => sum + us, 0) - total) < 1e-6);
  const spans = spanRows(entry.measured.timeline, rows);
  assert.equal(JSON.parse(chromeTrace(entry, rows, spans)).traceEvents.filter((event) => event.ph === "X").length, rows.length + spans.length);
  const tracks = trackRows(entry.measured.timeline, spans);
  assert.ok(Math.abs(tracks.reduce((sum, track) => sum + track.us, 0) - total) < 1e-6);
  assert.ok(tracks.every((track) => track.share > 0 && track.share <= 1));
  assert.deepEqual(communicationRows(entry.measured.timeline, spans), []);
});

test("communication: what computation covers is hidden", () => {
  assert.deepEqual(union([{ start: 5, end: 7 }, { start: 0, end: 2 }, { start: 1, end: 3 }, { start: 3, end: 4 }]), [{ start: 0, end: 4 }, { start: 5, end: 7 }]);
  const timeline = { total_us: 10, tracks: [{ name: "main stream", rank: 0 }, { name: "stream of exchanges", rank: 0 }] };
  const spans = [{ track: 0, op: "matmul", start: 0, end: 6 }, { track: 1, op: "all_reduce", start: 4, end: 8 }, { track: 1, op: "all_gather", start: 9, end: 10 }];
  assert.deepEqual(communicationRows(timeline, spans), [{ rank: 0, us: 5, hidden: 2 }]);
  assert.deepEqual(trackNames({ tracks: [{ name: "a", rank: 0 }, { name: "b", rank: 1 }] }), ["rank 0, a", "rank 1, b"]);
  const page = new Page(ranks(2)), entry = page.json.models[0].entries[0], found = communicationRows(entry.measured.timeline, spanRows(entry.measured.timeline, timeRows(page, 0, 0)));
  assert.deepEqual(found.map((row) => row.rank), [0, 1]);
  assert.ok(found.every((row) => row.hidden > 0 && row.hidden <= row.us));
});

test("CSV keeps every character and no formula", () => {
  const run = { name: '=cmd,"x"', rows: 2, columns: [{ name: "step", values: [1, 2] }, { name: "a,b", values: [null, -0.5] }] };
  assert.equal(runsAsCsv([run]), 'run,step,"a,b"\r\n"\'=cmd,""x""",1,\r\n"\'=cmd,""x""",2,-0.5\r\n');
});

test("live rows go behind the columns", async () => {
  const run = { name: "run", rows: 1, columns: [{ name: "step", values: [1] }] }, asked = [];
  addRow(run, { step: 2, loss: 3, text: "no number", __proto__: 4 });
  assert.deepEqual(run.columns, [{ name: "step", values: [1, 2] }, { name: "loss", values: [null, 3] }]);
  const view = { status: {}, update() { this.updated = true; } }, json = { runs: [run], live: { path: "/token", interval_ms: 1 } };
  await new Promise((resolve) => {
    const { setTimeout: real } = globalThis;
    globalThis.setTimeout = (turn) => { globalThis.setTimeout = (again) => { globalThis.setTimeout = real; resolve(again); }; turn(); };
    follow(json, view, async (url) => { asked.push(url); return { rows: [{ step: 3 }], next: 3, generation: 7 }; });
  });
  assert.deepEqual(asked, ["/token/rows?run=0&from=2&generation=0"]);
  assert.equal(run.generation, 7);
  assert.ok(view.updated && run.rows === 3);
});

test("a run that was started again begins anew", async () => {
  const run = { name: "run", rows: 2, columns: [{ name: "step", values: [1, 2] }] }, { setTimeout: real } = globalThis;
  await new Promise((resolve) => {
    globalThis.setTimeout = (turn) => { globalThis.setTimeout = () => {}; turn().then(resolve); };
    follow({ runs: [run], live: { path: "", interval_ms: 1e6 } }, { status: {}, update() {} }, async () => ({ rows: [{ loss: 5 }], next: 1, reset: true }));
  });
  globalThis.setTimeout = real;
  assert.deepEqual([run.rows, run.columns], [1, [{ name: "loss", values: [5] }]]);
});

test("the learning rate is not smoothed, whatever its name is", () => {
  for (const name of ["lr", "learning_rate", "train/learning_rate", "lr-AdamW", "optimizer.lr", "Learning Rate"]) assert.ok(isSchedule(name), name);
  for (const name of ["loss", "grad_norm", "items_per_second", "clr_loss", "blur"]) assert.ok(!isSchedule(name), name);
});

test("the table is of the run that the timeline shows, with medians of all runs", () => {
  const page = new Page(ranks()), { timeline } = page.json.models[0].entries[0].measured, alone = timeRows(page, 0, 0), rows = runRows(timeline, alone);
  assert.deepEqual(rows.map((row) => row.median), timeline.median_us);
  assert.deepEqual(alone.map((row) => row.median), page.json.models[0].entries[0].measured.steps.median_us);
  rows.forEach((row, i) => {
    const mine = spanRows(timeline, alone).filter((span) => span.step === i && timeline.tracks[span.track].rank === 0);
    assert.equal(row.start, Math.min(...mine.map((span) => span.start)));
    assert.equal(row.us, Math.max(...mine.map((span) => span.end)) - row.start);
  });
  assert.equal(grouped(rows, "op").reduce((sum, row) => sum + row.median, 0), timeline.median_us.reduce((sum, us) => sum + us, 0));
});

test("lists that are cut say how many more there are", () => {
  const rows = Array.from({ length: 20 }, (_, i) => ({ name: `n${i}`, value: 20 - i, text: `${20 - i}` }));
  assert.deepEqual(largest(rows, 18, (value) => `${value} B`).slice(17), [rows[17], { name: "2 more", value: 0, text: "3 B" }]);
  assert.equal(largest(rows, 19, String).length, 20);
  assert.equal(largest(rows, 40, String), rows);
});

test("hostile names are kept as they are", () => {
  const page = new Page(hostile()), graph = page.graph(0, 0, 0);
  kHostile.forEach((name, i) => assert.ok(graph.nodeName(i).includes(name)));
});

test("loads of experts are averaged over ranges of rows that have some", () => {
  const rows = [null, [[1, 0]], [[0, 1]], null, [[0.5, 0.5]], [[0.25, 0.75]]];
  assert.deepEqual(loadColumns(rows, 2), [{ from: 1, to: 2, loads: [[0.5, 0.5]] }, { from: 4, to: 5, loads: [[0.375, 0.625]] }]);
  assert.deepEqual(loadColumns([null]), []);
  const run = { columns: [], rows: 1 };
  addRow(run, { step: 2, expert_load: [[1, 0]] });
  addRow(run, { step: 3 });
  assert.deepEqual(run.expert_load, [null, [[1, 0]], null]);
});
