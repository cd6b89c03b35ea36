// The data of a page: one JSON object, made by genesis-viz and genesis-run and read by the page. The page embeds it as JSON ->
// zlib's deflate -> base64, in <script id="data" type="application/octet-stream">. `genesis-viz FILE -o OUT.json` writes only
// the JSON.
//
// Large tables are stored as columns (one array per field), so that 100,000 nodes stay small and repeated layers compress well.
// A text that can repeat is stored once, in `strings`. Names from files are shown only as text; they may contain anything that
// JSON can hold.
//
// Numbers are JSON numbers. null means that a number is not finite or unknown.

export type Str = number; // index into PageData.strings
export type Path = number; // index into PageData.paths; -1: the root, no name
export type Column = number[]; // one number per item
export type Deltas = number[]; // one number per item: the difference to the item before; the first to 0

export interface PageData {
  version: 1;
  made_by: string; // "genesis-viz 0.1.0"
  title: string; // title of the window, usually the name of a file
  view?: "graph" | "memory" | "time" | "difference" | "training" | "numerics"; // view to open first; default: graph
  strings: string[];
  paths: Paths;
  types: Type[];
  attributes: AttributeSet[];
  costs: Cost[];
  kernels: Kernel[];
  models: Model[]; // one; two to compare (before, after); none for a page of training runs alone
  difference?: Difference; // between the two models
  runs: TrainingRun[];
  live?: Live; // `genesis-viz watch`
  numerics?: Numerics;
}

// All dotted names as a tree: "layers.3.mlp" is the segment "mlp" below "layers.3". A parent comes before its children, so one
// forward pass assembles all names. Scopes are the inner nodes of this tree.
export interface Paths {
  parent: Column; // distance back to the parent: parent = own index - this; 0: below the root
  segment: Column; // Str
}

export interface Type {
  dtype: string; // "f32", "bf16", "i64", "q4", ...
  shape: (number | string)[]; // dimensions as the author wrote them: 768, "batch", "2*seq + 1"
  sizes: number[] | null; // with the symbols' sizes in this entry; null: some are unknown
  bytes: number | null; // for `sizes`
}

export type AttributeSet = [name: string, value: string][]; // values as text: "-1", "true", "[2,3]", "\"gelu\""

export interface Cost {
  flops: number; // multiplications and additions of matrix products, a multiply-add counting as two; 0: none
  bytes: number; // read once and written once
  at_most: boolean; // the actual amount depends on the data
}

// The kernel that runs a node, and the better kernels with the reasons for which they declined, best first.
export interface Kernel {
  name: string; // "gemm.blocked"; "": none
  declined: { name: string; reason: string }[];
}

export interface Model {
  format: "genesis" | "onnx" | "safetensors" | "gguf";
  file: string; // as given on the command line
  file_bytes: number;
  metadata: [key: string, value: string][]; // sorted by key; a value may be long (JSON)
  files: [name: string, bytes: number][]; // files stored with the model, such as its tokenizer
  states: States;
  tensors: Tensors;
  entries: Entry[];
}

// Memory that outlives a run: parameters, optimizer states, caches.
export interface States {
  name: Deltas; // Path
  type: Column; // index into PageData.types
  bytes: Column; // bytes in the file; fewer than the type's if quantized
  role: Column; // Str: "parameter", "buffer", "optimizer", "cache", "random", "step"
  trainable: Column; // 0 or 1
  format: Column; // Str: "q8", "q4", "q4m", "halves"...; -1: stored as its type says
  values?: (ValueSummary | null)[]; // with --values; null: zeros that were never given values
}

// A summary of a tensor's values; null if no value is finite.
export interface ValueSummary {
  low: number | null;
  high: number | null;
  mean: number | null;
  deviation: number | null; // standard deviation
  zeros: number;
  not_finite: number;
  first: (number | null)[]; // up to 32 elements, row-major
  counts: number[]; // number of finite values in cells of equal width from low to high
}

// Constants of the model, or all tensors of a .safetensors or .gguf file.
export interface Tensors {
  name: Deltas; // Path
  type: Column;
  bytes: Column;
  values?: ValueSummary[];
}

export interface Entry {
  name: string;
  // Sizes of its symbols on this page. `assumed`: the user gave none, so this is an example.
  sizes: { symbol: string; size: number; assumed: boolean }[];
  device: string; // device of the snapshots, kernels and plan: "cpu", "cuda:0"
  snapshots: Snapshot[]; // at least the author's graph
  plan?: Plan; // plan of the last snapshot; missing if there is a `problem`
  budgets: Budget[]; // largest arena first; empty: not computed
  measured?: Measured; // measurement of the plan
  mesh?: MeshPlan; // if present, `plan` is the plan of rank 0
  problem?: string; // the reason why there is only the author's graph, or no plan
}

export interface Snapshot {
  kind: "author" | "bound" | "pass" | "final";
  name: string; // "author", "bind", the pass's name, "final"
  why: string; // one line about why the pass has this position; "" for other kinds
  // The index of an earlier snapshot with the same graph; `graph` is missing then. The last snapshot often has it.
  same_as?: number;
  graph?: Graph;
  change?: Change; // changes since the previous snapshot; missing in the first
}

// Values are numbered: first the `values` of the table below (inputs, states, constants), then the results of the nodes in the
// order of the nodes. The first node's first result therefore has the number V = values.kind.length.
export interface Graph {
  values: {
    kind: Column; // 0 input, 1 state, 2 constant
    index: Column; // number of the input; index into States or Tensors (-1: a constant that a pass has folded)
    name: Deltas; // Path
    type: Column; // index into PageData.types; -1: unknown
  };
  nodes: {
    op: Column; // Str
    name: Deltas; // Path
    author: Column; // Path of the author's node that it came from, minus its own Path; 0: it is the author's
    attributes: Column; // index into PageData.attributes
    cost: Column; // index into PageData.costs; -1: sizes are unknown
    kernel: Column; // index into PageData.kernels; -1: not determined (sizes are unknown, or another snapshot's graph runs)
    inputs: Column; // number of inputs
    outputs: Column; // number of outputs
  };
  // The inputs of all nodes, one node after another. An entry `r` of node n, whose first result is value f, means value f - r
  // if r > 0, and value -1 - r of the table if r < 0.
  input: number[];
  // The types of all nodes' results, one node after another: index into PageData.types; -1: unknown.
  output_type: Column;
  outputs: [name: string, value: number][]; // outputs of the graph
  updates: [state: number, value: number][]; // index into States, or beyond it for a part that only the plan keeps; the new
                                             // value
}

// The difference between two graphs. Nodes are the same if they have the same name.
export interface Change {
  added: number[]; // nodes of this graph; with two models, of the second one's
  gone: number[]; // nodes of the previous graph
  changed: { before: number; after: number; what: string[] }[]; // "op: linear -> matmul", "attribute axis: 0 -> 1"
}

export interface Plan {
  arena_bytes: number;
  lower_bound_bytes: number; // largest number of bytes alive at once
  peak_step: number; // the first step with so many bytes alive
  // Steps in the order they run. Nodes that only view memory have no step.
  steps: {
    node: Deltas; // index in the last snapshot's graph; -1 would be none
    scratch_bytes: Column;
  };
  // The contents of the arena over time. No two blocks share both a step and a byte.
  blocks: {
    name: Column; // Path: the author's name
    offset: Column; // bytes
    bytes: Column;
    first: Column; // step
    last: Column; // step, inclusive
    kind: Column; // 0 activation, 1 gradient, 2 scratch, 3 result (an output of the entry point)
    type: Column; // index into PageData.types; -1: scratch
  };
  live_bytes: Column; // by step
  // Memory outside the arena.
  state_bytes: [role: string, bytes: number][];
  constant_bytes: number;
  input_bytes: number;
  written_states: number[]; // index into States
}

// The plan under `--memory-budget`, with the nodes that are recomputed.
export interface Budget {
  budget_bytes: number | null; // null: no budget
  arena_bytes: number;
  steps: number;
  recomputed: { node: Path; bytes: number; flops: number }[]; // author's names, one per recomputed node
  recomputed_flops: number;
  recomputed_bytes: number; // bytes read and written by recomputed nodes
  live_bytes: Column; // by step
}

export interface Measured {
  device: string; // "cpu", a GPU's name
  runs: number; // number of runs; `steps` and the timeline are each of the fastest one
  total_us: number;
  tracks: string[]; // tracks of `steps`: only one, since a profile runs one step after another
  steps: {
    // by step of the plan, in order
    start_us: Column;
    end_us: Column;
    median_us: Column; // median of all runs
    track: Column;
    kernel: Column; // Str
    least_us: Column; // least time that the device's limits allow; 0: unknown
  };
  peaks: { name: string; value: number; unit: string }[]; // limits of the device: f32 multiplications, memory
  timeline?: Timeline;
}

// A normal run with concurrent steps. The `steps` above ran one after another.
export interface Timeline {
  total_us: number;
  tracks: { name: string; rank: number }[]; // threads of a CPU, streams of a GPU; rank: 0 for a single rank
  // Ordered by track, then by time. A step that several threads share has several spans.
  spans: {
    step: Column;
    track: Column;
    start_us: Column; // since the run began; the same clock for all ranks
    end_us: Column;
  };
  median_us: Column; // by step of the plan, on the first rank: time from its first span to its last, median of all runs
}

// The effect of `--mesh` on an entry point.
export interface MeshPlan {
  axes: string; // "data=2"
  zero: number;
  ranks: { arena_bytes: number; state_bytes: [role: string, bytes: number][] }[]; // by rank, at most the first 16
  rank_count: number;
  traffic: { axis: string; calls: number; bytes: number }[]; // sent by each rank in a run
}

export interface Difference {
  entries: { name: string; before: number; after: number; change: Change }[]; // indices into Model.entries; -1: missing in this
                                                                              // model; `change` is of the author's graphs
  // States of both models, by name.
  states: {
    name: Deltas; // Path
    status: Column; // 0 same values, 1 added, 2 gone, 3 other values, 4 other type
    max_abs: (number | null)[]; // largest |a - b|; null: not compared, or not finite
    cosine: (number | null)[]; // of the two states as vectors; null: as above, or one is all zeros
    bytes_before: Column;
    bytes_after: Column;
  };
}

// A metrics.jsonl file: one row per line.
export interface TrainingRun {
  name: string; // the file's name, or its folder's
  file: string;
  // "step", "loss", "learning_rate", "grad_norm", "tokens_per_second", "eval_loss", ...: all numbers of the file; null: none
  columns: { name: string; values: (number | null)[] }[];
  expert_load?: (number[][] | null)[]; // by row, layer and expert: the expert's share of the tokens; absent: no row has one
  rows: number;
  skipped_lines: number; // lines that were not JSON objects
  generation: number; // grows when rows were replaced: the run was started again
}

// The page of `watch` asks for more rows: GET <path>/rows?run=N&from=ROW&generation=G returns { rows: {name: value}[], next:
// number, reset: boolean, generation: number }. `reset`: the run was started again, so these rows are its first.
export interface Live {
  path: string; // "/<token>"
  interval_ms: number;
}

export interface Numerics {
  kind: "compare" | "nonfinite";
  entry: string;
  a: string; // options of the run: "cpu, threads=1"
  b: string; // "" for nonfinite
  criterion: string; // "in any bit", "by more than rounding explains"
  compared: number; // number of values
  // In the order in which they ran.
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
    message: string; // a sentence
    histogram: Histogram; // histogram of both sides; for nonfinite: of the node's result
    // For nonfinite: inputs and outputs of the node, as far as they still existed.
    values?: { role: "input" | "output"; index: number; type: string; histogram: Histogram }[];
  };
}

// Numbers of elements between edges: a[i] and b[i] elements lie in [edges[i], edges[i + 1]); the last cell includes its end.
export interface Histogram {
  edges: number[];
  a: number[];
  b: number[]; // empty for nonfinite
  a_special: { nan: number; positive_infinity: number; negative_infinity: number; zero?: number };
  b_special: { nan: number; positive_infinity: number; negative_infinity: number; zero?: number };
}
