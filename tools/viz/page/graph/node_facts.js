// Facts about a snapshot's nodes that are not in the graph: the changes made by the pass, and the times of a measured run. A
// run measures the nodes of the last snapshot. A node of another snapshot gets the time of the nodes made from it, matched by
// the author's name.

/** @param {import("../core/page_data").Page} page @returns {import("./coloring").NodeFacts & {snapshot: any, entry: any, graphBefore: any}} */
export function factsOfSnapshot(page, model, entryIndex, snapshotIndex) {
  const entry = page.json.models[model].entries[entryIndex], { snapshot, graphBefore } = snapshotAndBefore(page, model, entryIndex, snapshotIndex);
  return {
    entry, snapshot, change: changeKinds(snapshot.change), graphBefore,
    ...timesOf(page, model, entryIndex, snapshotIndex),
  };
}

// Returns the snapshot and the graph that its changes refer to: the previous snapshot's, or the first model's author graph if
// this is the second model's author graph.
function snapshotAndBefore(page, model, entryIndex, snapshotIndex) {
  const snapshot = page.json.models[model].entries[entryIndex].snapshots[snapshotIndex];
  const pair = model === 1 && snapshotIndex === 0 && page.json.difference?.entries.find((one) => one.after === entryIndex && one.before >= 0);
  if (pair) return { snapshot: { ...snapshot, change: pair.change }, graphBefore: page.graph(0, pair.before, 0) };
  return { snapshot, graphBefore: snapshotIndex > 0 ? page.graph(model, entryIndex, snapshotIndex - 1) : null };
}

export function changeKinds(change) {
  const kinds = new Map();
  for (const node of change?.added ?? []) kinds.set(node, "added");
  for (const { after } of change?.changed ?? []) kinds.set(after, "changed");
  return kinds;
}

function timesOf(page, model, entryIndex, snapshotIndex) {
  const entry = page.json.models[model].entries[entryIndex], { plan, measured } = entry;
  if (!plan || !measured) return { time: null, least: null };
  const last = page.graph(model, entryIndex, entry.snapshots.length - 1), graph = page.graph(model, entryIndex, snapshotIndex);
  const { time, least } = timesByNode(plan, measured, last.size);
  if (graph === last) return { time, least };
  return { time: carried(last, graph, time), least: carried(last, graph, least) };
}

/** Returns the microseconds of each node of the last snapshot. */
export function timesByNode(plan, measured, count) {
  const time = new Float64Array(count), least = new Float64Array(count);
  let node = 0;
  plan.steps.node.forEach((delta, step) => {
    node += delta;
    if (node < 0 || node >= count) return;
    time[node] += (measured.steps.end_us[step] ?? 0) - (measured.steps.start_us[step] ?? 0);
    least[node] += measured.steps.least_us[step] ?? 0;
  });
  return { time, least };
}

// Distributes measured values over the nodes of another graph, by the author's name. Nodes with the same author name share the
// sum equally.
function carried(last, graph, values) {
  const byPath = new Map();
  for (let node = 0; node < last.size; ++node) {
    const path = last.authorPath(node);
    byPath.set(path, (byPath.get(path) ?? 0) + values[node]);
  }
  const sharers = new Map();
  for (let node = 0; node < graph.size; ++node) sharers.set(graph.authorPath(node), (sharers.get(graph.authorPath(node)) ?? 0) + 1);
  return Float64Array.from({ length: graph.size }, (_, node) => (byPath.get(graph.authorPath(node)) ?? 0) / sharers.get(graph.authorPath(node)));
}
