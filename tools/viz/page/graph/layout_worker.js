// Lays out levels in a worker, so that the page never freezes. Messages are {id, levels} in and {id, results} out, both with
// the innermost level first. An item that is an open box gets its size from an earlier result.
import dagre from "dagre";

import { gridLayout } from "./grid_layout.js";

const kMaxItems = 260; // dagre takes a second for a few hundred items
const kMaxEdges = 700;
const kIn = -1, kOut = -2;
export const kPadding = 14, kHeader = 28;

/**
 * @param {{group: number, widths: number[], heights: number[], boxes: (number|null)[], edges: number[], least: number}} level
 *   `boxes`: by item, the group if it is open; `edges`: pairs of items' indices or ports; `least`: width of the title
 * @param {Map<number, {width: number, height: number}>} sizes of the open boxes, by group
 */
export function layoutLevel(level, sizes) {
  const { widths, heights } = withBoxes(level, sizes);
  const small = widths.length <= kMaxItems && level.edges.length / 2 <= kMaxEdges;
  const inner = small ? dagreLayout(widths, heights, level.edges) : gridWithoutPorts(widths, heights, level.edges);
  const width = Math.max(inner.width, level.least) + 2 * kPadding, shift = (width - inner.width) / 2;
  const moved = { x: inner.x.map((x) => x + shift), y: inner.y.map((y) => y + kHeader + kPadding) };
  return {
    group: level.group, ...moved, widths, heights, width,
    height: inner.height + kHeader + 2 * kPadding,
    paths: inner.paths?.map((path) => path.map((at, i) => at + (i % 2 === 0 ? shift : kHeader + kPadding))) ?? null,
    inX: inner.inX === null ? null : inner.inX + shift,
    outX: inner.outX === null ? null : inner.outX + shift,
  };
}

function withBoxes(level, sizes) {
  const widths = level.widths.slice(), heights = level.heights.slice();
  level.boxes.forEach((group, i) => {
    if (group !== null) ({ width: widths[i], height: heights[i] } = sizes.get(group));
  });
  return { widths, heights };
}

function gridWithoutPorts(widths, heights, edges) {
  const inside = [];
  for (let i = 0; i < edges.length; i += 2) if (edges[i] >= 0 && edges[i + 1] >= 0) inside.push(edges[i], edges[i + 1]);
  return { ...gridLayout(widths, heights, inside), paths: null, inX: null, outX: null };
}

function dagreLayout(widths, heights, edges) {
  const graph = new dagre.graphlib.Graph({ multigraph: false });
  graph.setGraph({ nodesep: 26, edgesep: 14, ranksep: 34, ranker: widths.length > 80 ? "longest-path" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  widths.forEach((width, i) => graph.setNode(String(i), { width, height: heights[i] }));
  for (let i = 0; i < edges.length; i += 2) {
    for (const end of [edges[i], edges[i + 1]]) if (end < 0 && !graph.hasNode(String(end))) graph.setNode(String(end), { width: 2, height: 2 });
    graph.setEdge(String(edges[i]), String(edges[i + 1]), { weight: edges[i] === kIn || edges[i + 1] === kOut ? 1 : 3 });
  }
  dagre.layout(graph);
  return readLayout(graph, widths, heights, edges);
}

function readLayout(graph, widths, heights, edges) {
  const node = (i) => graph.node(String(i));
  const paths = [];
  for (let i = 0; i < edges.length; i += 2)
    paths.push(graph.edge(String(edges[i]), String(edges[i + 1])).points.flatMap((point) => [point.x, point.y]));
  const { width, height } = graph.graph();
  return {
    x: widths.map((wide, i) => node(i).x - wide / 2), y: heights.map((high, i) => node(i).y - high / 2),
    width: Number.isFinite(width) ? width : 0, height: Number.isFinite(height) ? height : 0, paths,
    inX: node(kIn)?.x ?? null, outX: node(kOut)?.x ?? null,
  };
}

// Layers of a model look the same, so a layout is made once per distinct picture instead of once per layer.
const pictures = new Map();

function layoutOnce(level, sizes) {
  const { widths, heights } = withBoxes(level, sizes), picture = JSON.stringify([widths, heights, level.edges, level.least]);
  if (!pictures.has(picture)) pictures.set(picture, layoutLevel(level, sizes));
  return { ...pictures.get(picture), group: level.group };
}

export function layoutLevels(levels) {
  const sizes = new Map();
  return levels.map((level) => {
    const result = level.known ?? layoutOnce(level, sizes);
    sizes.set(level.group, { width: result.width, height: result.height });
    return level.known ? { group: level.group, same: true } : result;
  });
}

if (typeof WorkerGlobalScope !== "undefined")
  self.onmessage = ({ data }) => {
    try {
      self.postMessage({ id: data.id, results: layoutLevels(data.levels) });
    } catch (error) {
      self.postMessage({ id: data.id, problem: String(error) });
    }
  };
