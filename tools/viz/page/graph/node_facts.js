// What is known about a phase's nodes beside the graph: what the pass changed, and times from a measured run of the plan.
// A run measures the last phase; nodes of other phases have the time of what they became, by the author's name.

/** @param {import("../core/page_data").Page} page @returns {import("./colouring").NodeFacts & {phase: any, entry: any, graphBefore: any}} */
export function factsOfPhase(page, model, entryIndex, phaseIndex) {
  const entry = page.json.models[model].entries[entryIndex], { phase, graphBefore } = phaseAndBefore(page, model, entryIndex, phaseIndex);
  return {
    entry, phase, change: changeKinds(phase.change), graphBefore,
    ...timesOf(page, model, entryIndex, phaseIndex),
  };
}

// What changed against the phase before; of the second of two models, against the author's graph of the first.
function phaseAndBefore(page, model, entryIndex, phaseIndex) {
  const phase = page.json.models[model].entries[entryIndex].phases[phaseIndex];
  const pair = model === 1 && phaseIndex === 0 && page.json.difference?.entries.find((one) => one.after === entryIndex && one.before >= 0);
  if (pair) return { phase: { ...phase, change: pair.change }, graphBefore: page.graph(0, pair.before, 0) };
  return { phase, graphBefore: phaseIndex > 0 ? page.graph(model, entryIndex, phaseIndex - 1) : null };
}

export function changeKinds(change) {
  const kinds = new Map();
  for (const node of change?.added ?? []) kinds.set(node, "added");
  for (const { after } of change?.changed ?? []) kinds.set(after, "changed");
  return kinds;
}

function timesOf(page, model, entryIndex, phaseIndex) {
  const entry = page.json.models[model].entries[entryIndex], { plan, measured } = entry;
  if (!plan || !measured) return { time: null, least: null };
  const last = page.graph(model, entryIndex, entry.phases.length - 1), graph = page.graph(model, entryIndex, phaseIndex);
  const { time, least } = timesByNode(plan, measured, last.size);
  if (graph === last) return { time, least };
  return { time: carried(last, graph, time), least: carried(last, graph, least) };
}

/** Microseconds of each node of the last phase. */
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

// By name where the node still exists, else by the author's name, shared out over the nodes that have it.
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
