// Finds the visible part of a hierarchy, level by level: the items of every open group and the edges between them. An edge that
// leaves an open group runs through a port of its box: inside to `OUT`, outside from the box. The functions depend only on the
// set of open groups.

export const kIn = -1; // ports of the level's own box, used in place of an item
export const kOut = -2;
const kBase = 2 ** 26;

/** @typedef {{group: number, items: number[], edges: {from: number, to: number, values: number}[]}} Level */

/**
 * Returns the open groups, innermost first.
 * @param {import("./hierarchy").Hierarchy} hierarchy
 * @param {Set<number>} open
 * @returns {Level[]}
 */
export function visibleLevels(hierarchy, open) {
  const levels = [], waiting = [hierarchy.root];
  while (waiting.length > 0) {
    const group = waiting.pop();
    const items = hierarchy.group(group).children;
    levels.push({ group, items, edges: [] });
    for (const item of items) if (hierarchy.isGroup(item) && open.has(item)) waiting.push(item);
  }
  addEdges(hierarchy, levels);
  return levels.reverse();
}

const kMaxAtPort = 4;

/**
 * Returns the edges of a level that are drawn. A value that every layer reads would connect each layer to the port and pull the
 * picture apart, so a port with many edges keeps only those to the first items of the level, or from the last ones.
 * @param {Level} level
 */
export function drawnEdges({ edges }) {
  const inner = edges.filter((edge) => edge.from >= 0 && edge.to >= 0);
  const fed = new Set(inner.map((edge) => edge.to)), read = new Set(inner.map((edge) => edge.from));
  const many = [kIn, kOut].map((port) => edges.filter((edge) => edge.from === port || edge.to === port).length > kMaxAtPort);
  return edges.filter((edge) => !(many[0] && edge.from === kIn && fed.has(edge.to)) && !(many[1] && edge.to === kOut && read.has(edge.from)));
}

/** Returns the visible item of each node, input and output: itself, or the closed group around it. */
export function representatives(hierarchy, levels) {
  const found = new Int32Array(hierarchy.firstGroup).fill(-1);
  const open = new Set(levels.map((level) => level.group));
  for (const level of levels)
    for (const item of level.items) {
      if (!hierarchy.isGroup(item)) found[item] = item;
      else if (!open.has(item)) markBelow(hierarchy, item, found);
    }
  return found;
}

function markBelow(hierarchy, group, found) {
  const waiting = [group];
  while (waiting.length > 0)
    for (const item of hierarchy.group(waiting.pop()).children)
      if (hierarchy.isGroup(item)) waiting.push(item);
      else found[item] = group;
}

function addEdges(hierarchy, levels) {
  const collector = new Collector(hierarchy, levels);
  eachEdge(hierarchy, (from, to) => collector.add(from, to));
  for (const level of levels) level.edges = collector.edgesOf(level.group);
}

/** Calls `use` for every edge: between nodes, from inputs of the graph, and to its outputs. */
export function eachEdge(hierarchy, use) {
  const { graph } = hierarchy;
  const source = sources(hierarchy);
  for (let node = 0; node < graph.size; ++node)
    for (const value of graph.inputs(node)) if (source[value] >= 0) use(source[value], node);
  graph.columns.outputs.forEach(([, value], i) => {
    if (source[value] >= 0) use(source[value], hierarchy.firstOutput + i);
  });
}

/** Returns the item that produces each value; -1 for states and constants, which are not drawn. */
export function sources(hierarchy) {
  const source = Int32Array.from(hierarchy.graph.producer);
  hierarchy.inputItems.forEach((value, i) => (source[value] = hierarchy.firstInput + i));
  return source;
}

class Collector {
  constructor(hierarchy, levels) {
    this.hierarchy = hierarchy;
    this.representative = representatives(hierarchy, levels);
    this.counts = new Map(levels.map((level) => [level.group, new Map()]));
    this.depths = new Map();
  }

  depth(item) {
    let depth = this.depths.get(item);
    if (depth === undefined) this.depths.set(item, (depth = this.hierarchy.ancestors(item).length));
    return depth;
  }

  add(from, to) {
    const { parent } = this.hierarchy;
    let a = this.representative[from], b = this.representative[to];
    if (a === b) return;
    while (parent[a] !== parent[b]) {
      if (this.depth(a) >= this.depth(b)) {
        this.note(parent[a], a, kOut);
        a = parent[a];
      } else {
        this.note(parent[b], kIn, b);
        b = parent[b];
      }
    }
    this.note(parent[a], a, b);
  }

  note(group, from, to) {
    const counts = this.counts.get(group), key = (from + 2) * kBase + to + 2;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }

  edgesOf(group) {
    return [...this.counts.get(group)].map(([key, values]) => ({ from: Math.floor(key / kBase) - 2, to: (key % kBase) - 2, values }));
  }
}
