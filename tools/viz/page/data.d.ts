// What a page shows: one JSON object, made by genesis-viz and genesis-run, read by the page. It stands in the page as
// JSON -> zlib's deflate -> base64, in <script id="data" type="application/octet-stream">. `genesis-viz FILE -o OUT.json`
// writes the JSON alone.
//
// Large tables are columns (one array a field), so that 100,000 nodes stay small and repeated layers compress well.
// Every text that can repeat stands once, in `strings`. Names from files are shown as text and nothing else; they may
// hold anything that JSON can.
//
// Numbers are JSON numbers. null stands where a number is not finite or not known.

export type Str = number; // index into PageData.strings
export type Path = number; // index into PageData.paths; -1: the root, no name
export type Column = number[]; // one number an item
export type Deltas = number[]; // one number an item: what it adds to the item before; the first adds to 0

export interface PageData {
  version: 1;
  made_by: string; // "genesis-viz 0.1.0"
  title: string; // for the window: a file's name, usually
  view?: "graph" | "memory" | "time" | "difference" | "training" | "numerics"; // to open first; left out: graph
  strings: string[];
  paths: Paths;
  types: Type[];
  attributes: AttributeSet[];
  costs: Cost[];
  kernels: Kernel[];
  models: Model[]; // one; two to compare (before, after); none for a page of training runs alone
  difference?: Difference; // of the two models
  runs: TrainingRun[];
  live?: Live; // `genesis-viz watch`
  numerics?: Numerics;
}

// Every name with dots, as a tree: "layers.3.mlp" is the segment "mlp" below "layers.3". A parent stands before its
// children, so one walk forward joins all names. Scopes are the inner paths of this tree.
export interface Paths {
  parent: Column; // by how much the parent stands before: parent = own index - this; 0: below the root
  segment: Column; // Str
}

export interface Type {
  dtype: string; // "f32", "bf16", "i64", "q4", ...
  shape: (number | string)[]; // a dimension as the author has it: 768, "batch", "2*seq + 1"
  sizes: number[] | null; // with the entry's sizes for the symbols; null: not all are known
  bytes: number | null; // of `sizes`
}

export type AttributeSet = [name: string, value: string][]; // values as text: "-1", "true", "[2,3]", "\"gelu\""

export interface Cost {
  flops: number; // of products, a multiply-add counts two; 0: none
  bytes: number; // read once and written once
  at_most: boolean; // data say how much of it there is
}

// Which way runs a node, and why the better ones do not, best first.
export interface Kernel {
  name: string; // "gemm.blocked"; "": there is none
  declined: { name: string; reason: string }[];
}

export interface Model {
  format: "genesis" | "onnx" | "safetensors" | "gguf";
  file: string; // as given on the command line
  file_bytes: number;
  metadata: [key: string, value: string][]; // sorted by key; a value may be long (JSON)
  files: [name: string, bytes: number][]; // that travel with the model: its tokenizer
  states: States;
  tensors: Tensors;
  entries: Entry[];
}

// Memory that outlives a run: parameters, optimizer states, caches.
export interface States {
  name: Deltas; // Path
  type: Column; // index into PageData.types
  bytes: Column; // as the file keeps it (quantised: less than the type says)
  role: Column; // Str: "parameter", "buffer", "optimizer", "cache", "random", "step"
  trainable: Column; // 0 or 1
  format: Column; // Str: "q8", "q4", "halves"...; -1: as the type says
  values?: (ValueSummary | null)[]; // with --values; null: zeros that nobody has given values yet
}

// What the values of a tensor are like; nulls where none is finite.
export interface ValueSummary {
  low: number | null;
  high: number | null;
  mean: number | null;
  deviation: number | null; // standard
  zeros: number;
  not_finite: number;
  first: (number | null)[]; // up to 32, row-major
  counts: number[]; // of finite values, in cells of one width from low to high
}

// Constants of the model; of a .safetensors or .gguf file, all it has.
export interface Tensors {
  name: Deltas; // Path
  type: Column;
  bytes: Column;
  values?: ValueSummary[];
}

export interface Entry {
  name: string;
  // Sizes of its symbols here. `assumed`: nobody gave one, so this is an example.
  sizes: { symbol: string; size: number; assumed: boolean }[];
  device: string; // "cpu", "cuda:0"; that snapshots, kernels and the plan are for
  snapshots: Snapshot[]; // at least the author's graph
  plan?: Plan; // of the last snapshot; left out: see `problem`
  budgets: Budget[]; // largest arena first; empty: none to show
  measured?: Measured; // of the plan
  mesh?: MeshPlan; // `plan` is then that of rank 0
  problem?: string; // why there are no snapshots behind the author's, or no plan
}

export interface Snapshot {
  kind: "author" | "bound" | "pass" | "final";
  name: string; // "author", "bind", the pass's name, "final"
  why: string; // one line: why the pass stands where it stands; "" of the others
  // The index of an earlier snapshot with the same graph: then there is no graph here. The last snapshot often has one.
  same_as?: number;
  graph?: Graph;
  change?: Change; // against the snapshot before; left out of the first
}

// Values are numbered: first the `values` of the table below (inputs, states, constants), then the results of the nodes
// in the order of the nodes. V = values.kind.length is so the number of the first node's first result.
export interface Graph {
  values: {
    kind: Column; // 0 input, 1 state, 2 constant
    index: Column; // number of the input; index into States or Tensors (-1: a constant that a pass has folded)
    name: Deltas; // Path
    type: Column; // index into PageData.types; -1: not known
  };
  nodes: {
    op: Column; // Str
    name: Deltas; // Path
    author: Column; // Path of the author's node that it came from, minus its own; 0: it is the author's
    attributes: Column; // index into PageData.attributes
    cost: Column; // index into PageData.costs; -1: sizes are not known
    kernel: Column; // index into PageData.kernels; -1: not asked (sizes are not known, or another snapshot's graph runs)
    inputs: Column; // how many
    outputs: Column; // how many
  };
  // All nodes' inputs, one node behind the other. `r` of node n, whose first result is value f: value f - r for r > 0,
  // value -1 - r of the table for r < 0.
  input: number[];
  // Types of all nodes' results, one node behind the other: index into PageData.types; -1: not known.
  output_type: Column;
  outputs: [name: string, value: number][]; // of the graph
  updates: [state: number, value: number][]; // index into States (beyond them: a part that the plan keeps), the new value
}

// Nodes are the same where they have the same name.
export interface Change {
  added: number[]; // nodes of this graph (of two models: of the second one's)
  gone: number[]; // nodes of the graph before
  changed: { before: number; after: number; what: string[] }[]; // "op: linear -> matmul", "attribute axis: 0 -> 1"
}

export interface Plan {
  arena_bytes: number;
  lower_bound_bytes: number; // most bytes alive at once
  peak_step: number; // the first step with that many
  // Steps in the order they run; nodes that only view memory have none.
  steps: {
    node: Deltas; // of the last snapshot's graph; -1 would be none
    scratch_bytes: Column;
  };
  // What stands in the arena when. No two share both a step and a byte.
  blocks: {
    name: Column; // Path: the author's name
    offset: Column; // bytes
    bytes: Column;
    first: Column; // step
    last: Column; // step, included
    kind: Column; // 0 activation, 1 gradient, 2 scratch, 3 result (an output of the entry point)
    type: Column; // index into PageData.types; -1: scratch
  };
  live_bytes: Column; // by step
  // Beside the arena.
  state_bytes: [role: string, bytes: number][];
  constant_bytes: number;
  input_bytes: number;
  written_states: number[]; // index into States
}

// The plan under `--memory-budget`: what would be computed a second time.
export interface Budget {
  budget_bytes: number | null; // null: no budget
  arena_bytes: number;
  steps: number;
  recomputed: { node: Path; bytes: number; flops: number }[]; // the author's names, one for each node that runs again
  recomputed_flops: number;
  recomputed_bytes: number; // moved by what runs again
  live_bytes: Column; // by step
}

export interface Measured {
  device: string; // "cpu", a GPU's name
  runs: number; // `steps` are the fastest of them, and so is the timeline of its own
  total_us: number;
  tracks: string[]; // of `steps`: one, as a profile runs them one after the other
  steps: {
    // by step of the plan, in its order
    start_us: Column;
    end_us: Column;
    median_us: Column; // how long it takes in the middle one of all runs
    track: Column;
    kernel: Column; // Str
    least_us: Column; // that the device's limits allow; 0: not known
  };
  peaks: { name: string; value: number; unit: string }[]; // limits of the device: f32 products, memory
  timeline?: Timeline;
}

// A run as it goes when nobody looks, steps beside each other; `steps` above ran one after the other.
export interface Timeline {
  total_us: number;
  tracks: { name: string; rank: number }[]; // threads of a CPU, streams of a GPU; rank: 0 where there is one
  // By track, then in the order of time. A step has several where threads share it.
  spans: {
    step: Column;
    track: Column;
    start_us: Column; // since the run began, on all ranks together
    end_us: Column;
  };
  median_us: Column; // by step of the plan, of the first rank: from its first span to its last, in the middle one of all runs
}

// What `--mesh` makes of an entry point.
export interface MeshPlan {
  axes: string; // "data=2"
  zero: number;
  ranks: { arena_bytes: number; state_bytes: [role: string, bytes: number][] }[]; // by rank, the first 16
  rank_count: number;
  traffic: { axis: string; calls: number; bytes: number }[]; // that each rank sends in a run
}

export interface Difference {
  entries: { name: string; before: number; after: number; change: Change }[]; // indices of Model.entries; -1: only in the other; author's graphs
  // States of both models, by name.
  states: {
    name: Deltas; // Path
    status: Column; // 0 same values, 1 added, 2 gone, 3 other values, 4 other type
    max_abs: (number | null)[]; // largest |a - b|; null: not compared, or not finite
    cosine: (number | null)[]; // of the two as vectors; null: as above, or one is all zeros
    bytes_before: Column;
    bytes_after: Column;
  };
}

// A metrics.jsonl: one row a line.
export interface TrainingRun {
  name: string; // the file's name, or its folder's
  file: string;
  // "step", "loss", "learning_rate", "grad_norm", "tokens_per_second", "eval_loss", ...: all numbers of the file; null: none
  columns: { name: string; values: (number | null)[] }[];
  rows: number;
  skipped_lines: number; // that were no JSON objects
  generation: number; // grows when rows gave way to others: the run was started again
}

// The page of `watch` asks for more rows: GET <path>/rows?run=N&from=ROW&generation=G gives { rows: {name: value}[],
// next: number, reset: boolean, generation: number }. `reset`: the run was started again, so these rows are its first.
export interface Live {
  path: string; // "/<token>"
  interval_ms: number;
}

export interface Numerics {
  kind: "compare" | "nonfinite";
  entry: string;
  a: string; // what ran: "cpu, threads=1"
  b: string; // "" of nonfinite
  criterion: string; // "in any bit", "by more than rounding explains"
  compared: number; // values
  // In the order they ran.
  nodes: {
    name: Column; // Path
    op: Column; // Str
    error: (number | null)[];
    tolerance: (number | null)[];
  };
  first?: {
    node: Path;
    author: Path;
    op: string;
    element: number;
    a: number | null;
    b: number | null;
    error: number | null;
    tolerance: number | null;
    message: string; // in words
    histogram: Histogram; // of both sides; of nonfinite: of the node's result
    // Of nonfinite: what the node read and wrote, as far as it was still there.
    values?: { role: "input" | "output"; index: number; type: string; histogram: Histogram }[];
  };
}

// Counts between edges: a[i] and b[i] elements lie in [edges[i], edges[i + 1]); the last one includes its end.
export interface Histogram {
  edges: number[];
  a: number[];
  b: number[]; // of nonfinite: empty
  a_special: { nan: number; positive_infinity: number; negative_infinity: number; zero?: number };
  b_special: { nan: number; positive_infinity: number; negative_infinity: number; zero?: number };
}
