// Makes data for tests: `node samples.mjs NAME OUT.json [SIZE]`.
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

import { DataBuilder, deltas } from "./data_builder.mjs";

const kKernel = { name: "gemm.blocked", declined: [{ name: "gemm.amx", reason: "this CPU has no AMX" }] };

// Adds a decoder's forward and backward nodes, named as the library names them.
function decoder(build, layers, { hidden = 896, tokens = 2048 } = {}) {
  const activation = build.type("f32", ["batch", "seq", hidden], tokens * hidden * 4), wide = build.type("f32", ["batch", "seq", 4 * hidden], tokens * hidden * 16);
  const weight = build.type("f32", [hidden, hidden]), scalar = build.type("f32", []), ids = build.type("i64", ["batch", "seq"], tokens * 8);
  const values = [{ kind: 0, name: "tokens", type: ids }, { kind: 0, name: "targets", type: ids }], nodes = [], states = [];
  const state = (name) => {
    states.push({ name, type: weight });
    values.push({ kind: 1, name, type: weight, index: states.length - 1 });
    return `@${name}`;
  };
  const add = (op, name, reads, type = activation, more = {}) => {
    nodes.push({ op, name, reads, type, bytes: tokens * hidden * 8, flops: op === "linear" || op === "matmul" ? 2 * tokens * hidden * hidden : 0, kernel: op === "linear" ? kKernel : undefined, ...more });
    return name;
  };
  const linear = (scope, reads, type) => add("linear", `${scope}.linear`, [...reads, state(`${scope}.weight`)], type, { attributes: [["has_addend", "false"]] });
  let x = add("embedding", "model.embed_tokens.embedding", ["@tokens", state("model.embed_tokens.weight")]);
  for (let i = 0; i < layers; ++i) {
    const at = `model.layers.${i}`, normed = add("rms_norm", `${at}.input_layernorm.rms_norm`, [x, state(`${at}.input_layernorm.weight`)]);
    const [q, k, v] = ["q_proj", "k_proj", "v_proj"].map((name) => linear(`${at}.self_attn.${name}`, [normed]));
    const [rq, rk] = [add("rope", `${at}.self_attn.rope`, [q]), add("rope", `${at}.self_attn.rope_1`, [k])];
    const mixed = linear(`${at}.self_attn.o_proj`, [add("attention", `${at}.self_attn.attention`, [rq, rk, v], activation, { attributes: [["causal", "true"]] })]);
    const added = add("add", `${at}.add`, [x, mixed]), second = add("rms_norm", `${at}.post_attention_layernorm.rms_norm`, [added, state(`${at}.post_attention_layernorm.weight`)]);
    const gate = linear(`${at}.mlp.gate_proj`, [second], wide), up = linear(`${at}.mlp.up_proj`, [second], wide);
    x = add("add", `${at}.add_1`, [added, linear(`${at}.mlp.down_proj`, [add("swiglu", `${at}.mlp.swiglu`, [gate, up], wide)])]);
  }
  const logits = linear("lm_head", [add("rms_norm", "model.norm.rms_norm", [x, state("model.norm.weight")])], wide);
  const loss = add("cross_entropy", "cross_entropy", [logits, "@targets"], scalar);
  return { values, nodes, states, loss, activation, weight, add };
}

// Adds a gradient node for every forward node, and an update for every state.
function withGradients(build, net) {
  const forward = net.nodes.slice(), readers = new Map();
  for (const node of forward) for (const read of node.reads) readers.set(read, [...(readers.get(read) ?? []), node.name]);
  for (const node of forward.reverse()) {
    const incoming = (readers.get(node.name) ?? []).map((name) => `${name}.grad.${net.nodes.find((other) => other.name === name).op}_grad`);
    net.add(`${node.op}_grad`, `${node.name}.grad.${node.op}_grad`, [node.name, ...incoming], net.activation, { author: node.name });
  }
  for (const { name } of net.states) net.add("adam_update", `optimizer.${name}.adam_update`, [`@${name}`, `${readers.get(`@${name}`)[0]}.grad.${net.nodes.find((other) => other.name === readers.get(`@${name}`)[0]).op}_grad`], net.weight);
}

function entry(build, name, net, snapshots, more = {}) {
  return { name, sizes: [{ symbol: "batch", size: 8, assumed: false }, { symbol: "seq", size: 256, assumed: true }], device: "cpu", snapshots, budgets: [], ...more };
}

function model(build, net, entries) {
  return { format: "genesis", file: build.json.title, file_bytes: 12345678, metadata: [["architecture", "qwen2"], ["config", "{\"hidden_size\":896}"]], files: [["tokenizer.json", 4096]],
    states: build.states(net.states), tensors: { name: [], type: [], bytes: [] }, entries };
}

// Makes a plan of a graph. A value lives from the node that makes it to its last reader, and values are placed one
// after another.
function planOf(build, graph, net) {
  const steps = net.nodes.length, first = graph.values.kind.length, last = net.nodes.map((_, i) => i);
  let at = 0;
  net.nodes.forEach((node, reader) => node.reads.forEach(() => {
    const value = graph.input[at] > 0 ? first + reader - graph.input[at] : -1;
    if (value >= first) last[value - first] = Math.max(last[value - first], reader);
    ++at;
  }));
  const blocks = { name: [], offset: [], bytes: [], first: [], last: [], kind: [], type: [] }, live = new Array(steps).fill(0), placed = [];
  net.nodes.forEach((node, i) => {
    const size = build.json.types[node.type].bytes || 4, lives = placed.filter((block) => block.last >= i).sort((a, b) => a.offset - b.offset);
    let offset = 0;
    for (const block of lives) {
      if (offset + size <= block.offset) break;
      offset = Math.max(offset, block.offset + block.size);
    }
    placed.push({ offset, size, last: last[i] });
    const kind = node.name.includes(".grad.") || node.name.startsWith("optimizer") ? 1 : node.name === "cross_entropy" ? 3 : 0;
    Object.entries({ name: build.path(node.name), offset, bytes: size, first: i, last: last[i], kind, type: node.type }).forEach(([key, value]) => blocks[key].push(value));
    for (let step = i; step <= last[i]; ++step) live[step] += size;
  });
  const arena = Math.max(...blocks.offset.map((offset, i) => offset + blocks.bytes[i])), most = Math.max(...live);
  return { arena_bytes: arena, lower_bound_bytes: most, peak_step: live.indexOf(most), steps: { node: deltas(net.nodes.map((_, i) => i)), scratch_bytes: net.nodes.map(() => 0) }, blocks, live_bytes: live,
    state_bytes: [["parameter", 4e7], ["optimizer", 8e7]], constant_bytes: 0, input_bytes: 32768, written_states: [] };
}

// Makes measurements of steps one after another, and of the same run shared by two threads, with long steps cut in
// two.
function measuredOf(build, net) {
  let now = 0;
  const steps = { start_us: [], end_us: [], median_us: [], track: [], kernel: [], least_us: [] }, medians = [], spans = { step: [], track: [], start_us: [], end_us: [] }, ends = [0, 0];
  const span = (step, track, start, time) => Object.entries({ step, track, start_us: start, end_us: (ends[track] = start + time) }).forEach(([key, value]) => spans[key].push(value));
  net.nodes.forEach((node, i) => {
    const time = node.flops > 0 ? 180 + (i % 7) * 10 : 25 + (i % 5) * 4, start = Math.max(...ends);
    Object.entries({ start_us: now, end_us: now + time, median_us: time + 1, track: 0, kernel: build.string(node.kernel?.name ?? `cpu.${node.op}`), least_us: time * 0.6 }).forEach(([key, value]) => steps[key].push(value));
    medians.push(time + 2);
    now += time;
    if (node.flops > 0) [0, 1].forEach((track) => span(i, track, start, time / 2));
    else span(i, i % 2, ends[i % 2], time);
  });
  return { device: "cpu", runs: 5, total_us: now, tracks: ["cpu, one step after the other"], steps, peaks: [{ name: "f32 products", value: 1.2e12, unit: "FLOP/s" }, { name: "memory", value: 4e10, unit: "B/s" }],
    timeline: { total_us: Math.max(...ends), tracks: [{ name: "thread 0", rank: 0 }, { name: "thread 1", rank: 0 }], spans, median_us: medians } };
}

function budgetsOf(build, plan, net) {
  return [1, 0.7, 0.5].map((share, i) => ({ budget_bytes: i === 0 ? null : Math.round(plan.arena_bytes * share), arena_bytes: Math.round(plan.arena_bytes * share), steps: plan.live_bytes.length + i * 12,
    recomputed: net.nodes.filter((node) => node.op === "rms_norm").slice(0, i * 6).map((node) => ({ node: build.path(node.name), bytes: 7340032, flops: 0 })), recomputed_flops: i * 1e9, recomputed_bytes: i * 5e7,
    live_bytes: plan.live_bytes.map((bytes) => Math.round(bytes * share)) }));
}

function runOf(name, rows, noise) {
  const step = Array.from({ length: rows }, (_, i) => i + 1), wave = (i) => Math.sin(i * 12.9898 + noise) * 43758.5453 % 1;
  return { name, file: `${name}/metrics.jsonl`, rows, skipped_lines: 0, columns: [{ name: "step", values: step }, { name: "loss", values: step.map((i) => 1.2 + 4 * Math.exp(-i / (rows / 4)) + 0.15 * wave(i)) },
    { name: "lr", values: step.map((i) => 2e-3 * Math.min(1, i / 20) * (0.5 + 0.5 * Math.cos((Math.PI * i) / rows))) }, { name: "grad_norm", values: step.map((i) => 1 + 3 * Math.exp(-i / 60) + 0.3 * Math.abs(wave(i + 5))) },
    { name: "items_per_second", values: step.map((i) => 18000 + 300 * wave(i + 9)) }, { name: "evaluation_loss", values: step.map((i) => (i % 25 === 0 ? 1.25 + 4 * Math.exp(-i / (rows / 4)) : null)) }] };
}

function numericsOf(build, net) {
  const nodes = net.nodes.slice(0, 60), edges = Array.from({ length: 41 }, (_, i) => -4 + i * 0.2), bell = (shift) => edges.slice(1).map((edge) => Math.round(9000 * Math.exp(-((edge - shift) ** 2) / 2)));
  return { kind: "compare", entry: "loss", a: "cpu, threads=1", b: "cpu, threads=2", criterion: "by more than rounding explains", compared: nodes.length,
    nodes: { name: nodes.map((node) => build.path(node.name)), op: nodes.map((node) => build.string(node.op)), error: nodes.map((_, i) => 1e-7 * 1.2 ** i), tolerance: nodes.map(() => 1e-5) },
    first: { node: build.path(nodes[40].name), author: build.path(nodes[40].name), op: nodes[40].op, element: 17, a: 0.5, b: 0.51, error: 0.01, tolerance: 1e-5, message: "element 17 differs", histogram: { edges, a: bell(0), b: bell(0.3), a_special: { nan: 0, positive_infinity: 0, negative_infinity: 0 }, b_special: { nan: 3, positive_infinity: 1, negative_infinity: 0 } } } };
}

/** A training step with everything a page can show of one file. */
export function training(layers = 24) {
  const build = new DataBuilder("train.genesis"), net = decoder(build, layers), author = build.graph(net.values, net.nodes, [["loss", net.loss]]), loss = { ...net, nodes: net.nodes.slice() };
  withGradients(build, net);
  const full = build.graph(net.values, net.nodes, [["loss", net.loss]]), plan = planOf(build, full, net);
  const added = net.nodes.map((_, i) => i).slice(loss.nodes.length);
  const snapshots = [{ kind: "author", name: "author", why: "", graph: author },
    { kind: "pass", name: "autodiff", why: "first, so that later passes also clean the gradient nodes", graph: full, change: { added, gone: [], changed: [{ before: 3, after: 3, what: ["attribute with_log_sum_exp: false -> true"] }] } },
    { kind: "final", name: "final", why: "", same_as: 1 }];
  const step = entry(build, "train_step", net, snapshots, { plan, budgets: budgetsOf(build, plan, net), measured: measuredOf(build, net) });
  build.json.models.push(model(build, net, [step, entry(build, "loss", loss, [snapshots[0]])]));
  build.json.runs.push(runOf("run-a", 400, 1), runOf("run-b", 300, 2));
  build.json.numerics = numericsOf(build, net);
  return build.json;
}

/** A training step on two GPUs: streams of both ranks, gradients exchanged beside the computation, memory of each. */
export function ranks(layers = 4) {
  const build = new DataBuilder("train.genesis"), net = decoder(build, layers);
  withGradients(build, net);
  const gradients = net.nodes.filter((node) => node.op === "linear_grad");
  gradients.forEach((node, i) => net.nodes.push({ op: "all_reduce", name: `exchange.bucket${i}`, reads: [node.name], type: node.type, attributes: [["axis", "\"data\""]], bytes: 4096 }));
  const graph = build.graph(net.values, net.nodes, [["loss", net.loss]]), plan = planOf(build, graph, net), measured = measuredOf(build, net), spans = { step: [], track: [], start_us: [], end_us: [] };
  let main = 0, aside = 0;
  for (const rank of [0, 1]) {
    [main, aside] = [0, 0];
    net.nodes.forEach((node, i) => {
      const exchange = node.op === "all_reduce", start = exchange ? Math.max(aside, main / 2) : main, time = exchange ? 200 : 50;
      Object.entries({ step: i, track: 2 * rank + (exchange ? 1 : 0), start_us: start, end_us: start + time }).forEach(([key, value]) => spans[key].push(value));
      if (exchange) aside = start + time;
      else main += time;
    });
  }
  measured.timeline = { total_us: Math.max(main, aside), tracks: [0, 1].flatMap((rank) => [{ name: "main stream", rank }, { name: "stream of exchanges", rank }]), spans, median_us: net.nodes.map(() => 60) };
  const part = (arena) => ({ arena_bytes: arena, state_bytes: [["parameter", 4e7], ["optimizer", 4e7]] });
  const mesh = { axes: "data=2", zero: 1, rank_count: 2, ranks: [part(plan.arena_bytes), part(plan.arena_bytes)], traffic: [{ axis: "data", calls: gradients.length, bytes: 123456789 }] };
  build.json.models.push(model(build, net, [entry(build, "train_step", net, [{ kind: "author", name: "author", why: "", graph }], { plan, measured: { ...measured, device: "cuda:0" }, mesh })]));
  build.json.view = "time";
  return build.json;
}

/** Where a run first gave a value that is not finite. */
export function nonfinite() {
  const build = new DataBuilder("broken.genesis"), net = decoder(build, 2), graph = build.graph(net.values, net.nodes, [["loss", net.loss]]);
  build.json.models.push(model(build, net, [entry(build, "loss", net, [{ kind: "author", name: "author", why: "", graph }])]));
  const node = net.nodes.find((one) => one.name.endsWith("mlp.swiglu")), edges = [-2, -1, 0, 1, 2], none = { nan: 0, positive_infinity: 0, negative_infinity: 0 };
  const counts = (a, special = none) => ({ edges, a, b: [], a_special: special, b_special: none });
  const result = counts([1, 20, 30, 1], { nan: 7, positive_infinity: 2, negative_infinity: 0 });
  build.json.models[0].states.values = net.states.map((_, i) => (i === 0 ? null : { low: -2, high: 2, mean: 0.5, deviation: 1, zeros: 3, not_finite: i, first: [0.25, null, -1], counts: [1, 2, 3, 4] }));
  build.json.view = "numerics";
  build.json.numerics = { kind: "nonfinite", entry: "loss", a: "cpu", b: "", criterion: "that is not finite", compared: 0, nodes: { name: [], op: [], error: [], tolerance: [] },
    first: { node: build.path(node.name), author: build.path(node.name), op: node.op, element: 3, a: null, b: null, error: null, tolerance: null, message: "node is the first to produce NaN", histogram: result,
      values: [{ role: "output", index: 0, type: "f32[8]", histogram: result }, { role: "input", index: 0, type: "f32[8]", histogram: counts([5, 6, 7, 8]) }, { role: "input", index: 1, type: "f32[0]", histogram: { ...counts([]), edges: [] } }] } };
  return build.json;
}

/** Two models: the second has a layer more, other weights, and one node changed. */
export function difference() {
  const build = new DataBuilder("before.genesis"), before = decoder(build, 4), after = decoder(build, 5);
  const graphs = [before, after].map((net) => build.graph(net.values, net.nodes, [["loss", net.loss]]));
  [before, after].forEach((net, i) => build.json.models.push({ ...model(build, net, [entry(build, "loss", net, [{ kind: "author", name: "author", why: "", graph: graphs[i] }], { plan: planOf(build, graphs[i], net), measured: measuredOf(build, net) })]), file: ["before.genesis", "after.genesis"][i] }));
  const added = after.nodes.flatMap((node, i) => (before.nodes.some((other) => other.name === node.name) ? [] : [i]));
  build.json.view = "difference";
  build.json.difference = { entries: [{ name: "loss", before: 0, after: 0, change: { added, gone: [2], changed: [{ before: 3, after: 3, what: ["op: linear -> matmul"] }] } }],
    states: { name: deltas(after.states.map((state) => build.path(state.name))), status: after.states.map((state, i) => (before.states.some((other) => other.name === state.name) ? (i % 3 === 0 ? 3 : 0) : 1)),
      max_abs: after.states.map((_, i) => (i % 3 === 0 ? 0.001 * (i + 1) : 0)), cosine: after.states.map((_, i) => (i % 3 === 0 ? 1 - 1e-4 * i : 1)), bytes_before: after.states.map(() => 3211264), bytes_after: after.states.map(() => 3211264) } };
  return build.json;
}

/** Names that would do something, were they markup, script or paths of objects. */
export const kHostile = ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "]]>", "\\\"'", "javascript:alert(1)", "\u202eevil\u202c", "__proto__", "constructor", "x".repeat(10000), "{{script}}", "\u0000\u0007", "<!--"];

export function hostile() {
  const build = new DataBuilder(kHostile[0]), type = build.type("f32", ["<b>batch</b>", 3], null), values = [{ kind: 0, name: kHostile[1], type }];
  const nodes = kHostile.map((name, i) => ({ op: i % 2 ? name : "add", name: `scope${i}.${name}.${name}_n`, reads: [`@${kHostile[1]}`], type, attributes: [[name, name]], bytes: 8, flops: 4, kernel: { name, declined: [{ name, reason: name }] } }));
  const graph = build.graph(values, nodes, [[kHostile[0], nodes[0].name]]), net = { states: [{ name: kHostile[2], type: build.type("f32", [4]) }], nodes };
  build.json.models.push({ ...model(build, net, [{ ...entry(build, kHostile[0], net, [{ kind: "author", name: kHostile[3], why: kHostile[0], graph }]), problem: kHostile[1], plan: { ...planOf(build, graph, { nodes: nodes.map((node) => ({ ...node, type })) }), state_bytes: kHostile.slice(0, 3).map((name) => [name, 5]) } }]), metadata: kHostile.map((name) => [name, name]) });
  build.json.runs.push({ ...runOf(kHostile[0], 20, 1), columns: [{ name: "step", values: [1, 2, 3] }, { name: kHostile[0], values: [3, null, 1] }] });
  return build.json;
}

/** Nodes without scopes, each reading two before it: the hardest case for a layout. */
export function flat(count = 100000) {
  const build = new DataBuilder("flat.genesis"), type = build.type("f32", [64]), nodes = [];
  for (let i = 0; i < count; ++i) nodes.push({ op: ["add", "matmul", "relu", "reshape"][i % 4], name: `n${i}`, reads: i === 0 ? ["@x"] : [`n${i - 1 - (i % 3 === 0 ? 0 : (i * 7919) % Math.min(i, 50))}`, i > 1 ? `n${i - 2}` : "@x"], type, bytes: 512 + (i % 100), flops: i % 1000 });
  const net = { states: [] };
  build.json.models.push(model(build, net, [entry(build, "main", net, [{ kind: "author", name: "author", why: "", graph: build.graph([{ kind: 0, name: "x", type }], nodes, [["y", `n${count - 1}`]]) }])]));
  return build.json;
}

/** As many layers as asked for, with gradients: names in scopes. */
export function deep(layers = 32) {
  return training(layers);
}

const kSamples = { training, difference, ranks, nonfinite, hostile, flat, deep };

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [, , name, out, size] = process.argv;
  writeFileSync(out, JSON.stringify(kSamples[name](size ? Number(size) : undefined)));
}
