// Colors blocks by the user's choice: kind of op, dtype, bytes, FLOPs, measured time, share of the roofline, or the changes of
// a pass. A group has the sum over its nodes.
import { bytes, duration, percent, quantity } from "../core/format.js";
import { blockColors, hueOfName, kindNames, kindOf, opColors, scaleColors } from "../core/theme.js";

const kHues = { added: 140, changed: 40 };

/** Numbers by node; null if unknown. @typedef {{time: ArrayLike<number>|null, least: ArrayLike<number>|null, change: Map<number, string>}} NodeFacts */

export class Coloring {
  /**
   * @param {import("./hierarchy").Hierarchy} hierarchy
   * @param {NodeFacts} facts
   */
  constructor(hierarchy, facts) {
    this.hierarchy = hierarchy;
    this.facts = facts;
    this.mode = "op";
    this.known = new Map();
  }

  /** Returns the modes for which there is data. @returns {[mode: string, text: string][]} */
  modes() {
    const { graph } = this.hierarchy, costs = graph.columns.nodes.cost.some((cost) => cost >= 0);
    return [["op", "kind of op"], ["dtype", "dtype"], costs && ["bytes", "bytes moved"], costs && ["flops", "FLOPs"],
      this.facts.time && ["time", "measured time"], this.facts.least && ["roofline", "share of the roofline"],
      this.facts.change.size > 0 && ["change", "what changed"]].filter((mode) => mode);
  }

  use(mode, scene) {
    this.mode = mode;
    this.known.clear();
    this.most = 0;
    if (["bytes", "flops", "time"].includes(mode)) for (const block of scene.blocks) this.most = Math.max(this.most, this.amount(block.item));
  }

  of(item) {
    let colors = this.known.get(item);
    if (colors === undefined) this.known.set(item, (colors = this.colors(item)));
    return colors;
  }

  colors(item) {
    const { hierarchy } = this;
    if (!hierarchy.isNode(item) && !hierarchy.isGroup(item)) return blockColors(195);
    if (this.mode === "op") return hierarchy.isNode(item) ? opColors(hierarchy.graph.op(item)) : blockColors(null);
    if (this.mode === "dtype") return hierarchy.isNode(item) ? blockColors(hueOfName(hierarchy.graph.dtype(item))) : blockColors(null);
    if (this.mode === "change") return this.changeColors(item);
    if (this.mode === "roofline") return this.rooflineColors(item);
    return scaleColors(Math.sqrt(this.amount(item) / (this.most || 1)));
  }

  changeColors(item) {
    const kinds = new Set(this.hierarchy.nodesBelow(item).map((node) => this.facts.change.get(node)));
    return blockColors(kinds.has("added") ? kHues.added : kinds.has("changed") ? kHues.changed : null);
  }

  rooflineColors(item) {
    const share = this.sum(item, this.facts.least) / this.sum(item, this.facts.time);
    return Number.isFinite(share) && share > 0 ? scaleColors(1 - Math.min(1, share)) : blockColors(null);
  }

  /** Returns the amount of the mode (bytes, FLOPs or microseconds) over all nodes in an item. */
  amount(item, mode = this.mode) {
    const { graph } = this.hierarchy;
    if (mode === "time") return this.sum(item, this.facts.time);
    return this.hierarchy.nodesBelow(item).reduce((sum, node) => sum + (graph.cost(node)?.[mode] ?? 0), 0);
  }

  sum(item, values) {
    return values ? this.hierarchy.nodesBelow(item).reduce((sum, node) => sum + (values[node] || 0), 0) : 0;
  }

  /** Returns the legend of the colors. @returns {{text: string, fill: string, border: string}[]} */
  legend() {
    if (this.mode === "op") return kindNames.filter((name) => this.kinds().has(name)).map((name) => ({ ...opColors(this.kinds().get(name)), text: name }));
    if (this.mode === "dtype") return this.dtypes().map((name) => ({ ...blockColors(hueOfName(name)), text: name }));
    if (this.mode === "change") return Object.entries(kHues).map(([text, hue]) => ({ ...blockColors(hue), text }));
    const format = { bytes, time: duration, flops: (value) => quantity(value, "FLOP"), roofline: (value) => percent(value) }[this.mode];
    return [0, 0.25, 0.5, 0.75, 1].map((share) => ({
      ...scaleColors(share), text: format(this.mode === "roofline" ? 1 - share : share * share * this.most) }));
  }

  kinds() {
    const { graph } = this.hierarchy;
    this.opOfKind ??= new Map([...new Set(graph.columns.nodes.op)].map((op) => [kindOf(graph.page.string(op)).name, graph.page.string(op)]));
    return this.opOfKind;
  }

  dtypes() {
    const { graph } = this.hierarchy, found = new Set();
    for (let node = 0; node < graph.size; ++node) found.add(graph.dtype(node));
    return [...found].filter((name) => name);
  }
}

