// The picture of the visible levels: the positions of all items and edges in one plane. Items are boxes (open groups, drawn
// first) and blocks (everything else).
import { kIn, kOut } from "./levels.js";
import { SpatialIndex } from "./spatial_index.js";
import { textWidth } from "./text_width.js";

export const kBlockHeight = 36;

/** Returns the size of a closed item. @returns {[width: number, height: number]} */
export function blockSize(hierarchy, item) {
  const [title, name, below] = blockText(hierarchy, item);
  const bold = hierarchy.isGroup(item) ? 1.12 : 1, first = textWidth(name ? `${title} ${name}` : title) * bold + (bold > 1 ? 18 : 0);
  return [Math.max(72, Math.min(320, Math.max(first, textWidth(below) * 0.92) + 20)), hierarchy.isGroup(item) ? kBlockHeight + 8 : kBlockHeight];
}

/** Returns the texts of a block: title, text beside it, and the line below. */
export function blockText(hierarchy, item) {
  const { graph } = hierarchy;
  if (hierarchy.isGroup(item)) {
    const group = hierarchy.group(item);
    return [hierarchy.label(item), group.repeats ? `×${group.repeats}` : "", `${group.nodes.toLocaleString("en")} nodes`];
  }
  if (hierarchy.isNode(item)) return nodeText(hierarchy, item);
  const value = item < hierarchy.firstOutput ? hierarchy.inputItems[item - hierarchy.firstInput] : graph.columns.outputs[item - hierarchy.firstOutput][1];
  return [hierarchy.label(item), "", graph.typeText(value)];
}

/** Returns the name of a node without parts that only repeat its op; "" if nothing is left. */
export function ownName(label, op) {
  const dot = label.lastIndexOf(".");
  return label.slice(dot + 1).startsWith(op) ? label.slice(0, Math.max(0, dot)) : label;
}

// Returns the lines of a node's block. "linear  q_proj" is its title; a name that only repeats the op is left out.
function nodeText(hierarchy, node) {
  const { graph } = hierarchy, op = graph.op(node), label = hierarchy.label(node);
  const outputs = graph.outputs(node);
  return [op, ownName(label, op), outputs.length > 0 ? graph.typeText(outputs[0]) : ""];
}

export class Scene {
  /**
   * @param {import("./hierarchy").Hierarchy} hierarchy
   * @param {import("./levels").Level[]} levels the innermost first
   * @param {Map<number, any>} layouts by group, as layout_worker.js makes them
   */
  constructor(hierarchy, levels, layouts) {
    this.hierarchy = hierarchy;
    this.representative = null;
    this.levels = levels;
    /** @type {{item: number, x: number, y: number, width: number, height: number}[]} the outermost first */
    this.boxes = [];
    this.blocks = [];
    this.edges = [];
    this.place = new Map();
    const open = new Set(levels.map((level) => level.group));
    const origin = new Map([[hierarchy.root, [0, 0]]]);
    for (const level of levels.slice().reverse()) this.add(level, layouts, open, origin);
    this.index();
  }

  add(level, layouts, open, origin) {
    const layout = layouts.get(level.group), [left, top] = origin.get(level.group);
    level.items.forEach((item, i) => {
      const rectangle = { item, x: left + layout.x[i], y: top + layout.y[i], width: layout.widths[i], height: layout.heights[i] };
      this.place.set(item, rectangle);
      if (open.has(item)) {
        this.boxes.push(rectangle);
        origin.set(item, [rectangle.x, rectangle.y]);
      } else {
        this.blocks.push(rectangle);
      }
    });
    level.edges.forEach((edge, i) => this.addEdge(level, edge, layout, layout.paths?.[i], layouts, left, top));
  }

  addEdge(level, edge, layout, path, layouts, left, top) {
    if (!path && (edge.from < 0 || edge.to < 0)) return; // a grid layout has no ports
    const points = path ? path.map((at, i) => at + (i % 2 === 0 ? left : top)) : straight(this.place.get(edge.from), this.place.get(edge.to));
    const from = layouts.get(edge.from), to = layouts.get(edge.to);
    if (edge.from === kIn) points[1] = top;
    if (edge.to === kOut) points[points.length - 1] = top + layout.height;
    const fromPlace = this.place.get(edge.from), toPlace = this.place.get(edge.to);
    if (from && from.outX !== null && edge.from >= 0) moveEnd(points, 0, 2, fromPlace.x + from.outX, fromPlace.y + fromPlace.height);
    if (to && to.inX !== null && edge.to >= 0) moveEnd(points, points.length - 2, -2, toPlace.x + to.inX, toPlace.y);
    this.edges.push({ from: edge.from, to: edge.to, values: edge.values, points });
  }

  index() {
    this.blockIndex = new SpatialIndex(this.blocks.flatMap((block) => [block.x, block.y, block.x + block.width, block.y + block.height]));
    const bounds = new Float64Array(this.edges.length * 4);
    this.edges.forEach(({ points }, i) => bounds.set(boundsOf(points), 4 * i));
    this.edgeIndex = new SpatialIndex(bounds);
    const rootBox = this.blocks.concat(this.boxes);
    this.bounds = rootBox.length === 0 ? [0, 0, 1, 1] : [Infinity, Infinity, -Infinity, -Infinity];
    for (const box of rootBox) {
      this.bounds[0] = Math.min(this.bounds[0], box.x);
      this.bounds[1] = Math.min(this.bounds[1], box.y);
      this.bounds[2] = Math.max(this.bounds[2], box.x + box.width);
      this.bounds[3] = Math.max(this.bounds[3], box.y + box.height);
    }
  }

  /** Returns the innermost item at a point of the plane; -1 if there is none. */
  itemAt(x, y) {
    let found = -1;
    for (const box of this.boxes) if (holds(box, x, y)) found = box.item;
    this.blockIndex.each(x, y, x, y, (i) => (found = this.blocks[i].item));
    return found;
  }

  /** Returns the place of an item, or of the closed group that hides it. */
  shown(item) {
    for (let at = item; at >= 0; at = this.hierarchy.parent[at]) if (this.place.has(at)) return this.place.get(at);
    return null;
  }
}

function holds(box, x, y) {
  return x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;
}

// Moves an end of an edge to a port of its box. The point beside it moves half as far.
function moveEnd(points, end, inward, x, y) {
  if (points.length > 4) points[end + inward] = (x + (points[end + 2 * inward] ?? x)) / 2;
  [points[end], points[end + 1]] = [x, y];
}

function straight(from, to) {
  return [from.x + from.width / 2, from.y + from.height, to.x + to.width / 2, to.y];
}

function boundsOf(points) {
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 2) {
    bounds[0] = Math.min(bounds[0], points[i]);
    bounds[1] = Math.min(bounds[1], points[i + 1]);
    bounds[2] = Math.max(bounds[2], points[i]);
    bounds[3] = Math.max(bounds[3], points[i + 1]);
  }
  return bounds;
}
