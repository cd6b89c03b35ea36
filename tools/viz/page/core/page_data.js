// Reads the page's data: unpacks the embedded block and gives access to its columns by index. This is the only reader of the
// format in data.d.ts.

/** @typedef {import("../data").PageData} Json */

/** Decodes base64, inflates it and parses the JSON. @returns {Promise<Json>} */
export async function unpack(base64) {
  const text = atob(base64.trim());
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** Converts differences between items to absolute numbers. */
export function undelta(deltas) {
  const values = new Int32Array(deltas.length);
  let sum = 0;
  for (let i = 0; i < deltas.length; ++i) values[i] = sum += deltas[i];
  return values;
}

/** All dotted names. A parent comes before its children. */
export class Names {
  /** @param {Json} data */
  constructor(data) {
    this.strings = data.strings;
    this.segments = data.paths.segment;
    this.parents = new Int32Array(this.segments.length);
    data.paths.parent.forEach((back, i) => (this.parents[i] = back === 0 ? -1 : i - back));
    this.known = new Map();
  }

  /** Returns the last part of a name. */
  segment(path) {
    return path < 0 ? "" : this.strings[this.segments[path]];
  }

  parent(path) {
    return path < 0 ? -1 : this.parents[path];
  }

  /** Returns the whole name. */
  full(path) {
    if (path < 0) return "";
    const seen = this.known.get(path);
    if (seen !== undefined) return seen;
    const parts = [];
    for (let at = path; at >= 0; at = this.parents[at]) parts.push(this.segment(at));
    const name = parts.reverse().join(".");
    this.known.set(path, name);
    return name;
  }
}

/** Returns a type as text: f32[batch,768]. */
export function typeText(type) {
  return type ? `${type.dtype}[${type.shape.join(",")}]` : "";
}

/** The page's data. Graphs are decoded when they are first requested. */
export class Page {
  /** @param {Json} json */
  constructor(json) {
    this.json = json;
    this.names = new Names(json);
    this.typeTexts = json.types.map(typeText);
    this.graphs = new Map();
  }

  string(index) {
    return index < 0 ? "" : this.json.strings[index];
  }

  /** Returns the decoded graph of a snapshot; snapshots that repeat an earlier graph share it. @returns {Graph} */
  graph(model, entry, snapshot) {
    const snapshots = this.json.models[model].entries[entry].snapshots;
    const own = snapshots[snapshot].same_as ?? snapshot;
    const key = `${model}/${entry}/${own}`;
    if (!this.graphs.has(key)) this.graphs.set(key, new Graph(this, this.json.models[model], snapshots[own].graph));
    return this.graphs.get(key);
  }
}

/**
 * A graph with values numbered as in data.d.ts: first those of the table, then the results of the nodes. The `producer` of a value
 * is a node, or -1 for a value of the table.
 */
export class Graph {
  /** @param {Page} page @param {import("../data").Model} model @param {import("../data").Graph} columns */
  constructor(page, model, columns) {
    this.page = page;
    this.model = model;
    this.columns = columns;
    const nodes = columns.nodes;
    this.size = nodes.op.length;
    this.tableSize = columns.values.kind.length;
    this.name = undelta(nodes.name);
    this.inputStart = starts(nodes.inputs);
    this.outputStart = starts(nodes.outputs);
    this.readTypes();
    this.readInputs();
  }

  readTypes() {
    const { values, output_type } = this.columns;
    this.valueName = undelta(values.name);
    this.type = Int32Array.from([...values.type, ...output_type]);
    this.producer = new Int32Array(this.type.length).fill(-1);
    for (let node = 0; node < this.size; ++node)
      for (let i = this.outputStart[node]; i < this.outputStart[node + 1]; ++i) this.producer[this.tableSize + i] = node;
  }

  readInputs() {
    const { input } = this.columns;
    this.input = new Int32Array(input.length);
    for (let node = 0; node < this.size; ++node)
      for (let i = this.inputStart[node]; i < this.inputStart[node + 1]; ++i)
        this.input[i] = input[i] > 0 ? this.firstResult(node) - input[i] : -1 - input[i];
  }

  firstResult(node) {
    return this.tableSize + this.outputStart[node];
  }

  op(node) {
    return this.page.string(this.columns.nodes.op[node]);
  }

  nodeName(node) {
    return this.page.names.full(this.name[node]);
  }

  /** Returns the author's name for a node that a pass made; its own name if the author wrote it. */
  authorPath(node) {
    return this.name[node] + this.columns.nodes.author[node];
  }

  inputs(node) {
    return this.input.subarray(this.inputStart[node], this.inputStart[node + 1]);
  }

  outputs(node) {
    const first = this.firstResult(node);
    return Array.from({ length: this.outputStart[node + 1] - this.outputStart[node] }, (_, i) => first + i);
  }

  attributes(node) {
    return this.page.json.attributes[this.columns.nodes.attributes[node]] ?? [];
  }

  cost(node) {
    return this.page.json.costs[this.columns.nodes.cost[node]] ?? null;
  }

  kernel(node) {
    return this.page.json.kernels[this.columns.nodes.kernel[node]] ?? null;
  }

  typeText(value) {
    return this.page.typeTexts[this.type[value]] ?? "";
  }

  typeOf(value) {
    return this.page.json.types[this.type[value]] ?? null;
  }

  /** Returns the stored bytes of a state: fewer than its type says if it is quantized. */
  keptBytes(value) {
    return this.model.states.bytes[this.columns.values.index[value]] ?? this.typeOf(value)?.bytes ?? 0;
  }

  /** Returns the dtype of a node's first result. */
  dtype(node) {
    const first = this.firstResult(node);
    return this.outputStart[node + 1] > this.outputStart[node] ? this.typeOf(first)?.dtype ?? "" : "";
  }

  /** Returns 0 for an input, 1 for a state, 2 for a constant, 3 for a node's result. */
  kind(value) {
    return value < this.tableSize ? this.columns.values.kind[value] : 3;
  }

  valueText(value) {
    if (value < this.tableSize) return this.page.names.full(this.valueName[value]);
    const node = this.producer[value];
    const which = value - this.firstResult(node);
    return this.nodeName(node) + (which > 0 ? `:${which}` : "");
  }

  /** Returns the nodes that read a value. */
  consumersOf(value) {
    this.consumers ??= consumersByValue(this);
    const { start, node } = this.consumers;
    return [...new Set(node.subarray(start[value], start[value + 1]))];
  }
}

function starts(counts) {
  const start = new Int32Array(counts.length + 1);
  for (let i = 0; i < counts.length; ++i) start[i + 1] = start[i] + counts[i];
  return start;
}

// Returns the readers of each value in compressed rows: node[start[v]] up to node[start[v + 1]] read value v.
function consumersByValue(graph) {
  const counts = new Int32Array(graph.type.length);
  for (const value of graph.input) ++counts[value];
  const start = starts(counts), next = start.slice(), node = new Int32Array(graph.input.length);
  for (let reader = 0; reader < graph.size; ++reader) for (const value of graph.inputs(reader)) node[next[value]++] = reader;
  return { start, node };
}
