// Draws the layer over the tiles in every frame: selected, hovered and found items, and the edges of the selection.
import { rounded, tracePath } from "./painter.js";
import { themeColor } from "../core/theme.js";

const kMaxMarks = 3000, kMaxEdges = 400;

export class Overlay {
  /** @param {import("./graph_view").GraphView} view */
  constructor(view) {
    this.view = view;
    this.hovered = -1;
    this.selected = -1;
    /** @type {number[]} items that a search found */
    this.found = [];
    /** @type {{from: number, to: number, reads: boolean}[]} edges of the selection: items at their ends */
    this.edges = [];
  }

  draw(context) {
    const { camera, scene } = this.view;
    context.save();
    context.translate(camera.x, camera.y);
    context.scale(camera.scale, camera.scale);
    this.drawEdges(context, scene, camera.scale);
    this.drawFound(context, scene, camera.scale);
    if (this.hovered >= 0 && this.hovered !== this.selected) this.ring(context, scene.place.get(this.hovered), themeColor("--accent"), 1.5, camera.scale);
    if (this.selected >= 0) this.ring(context, scene.shown(this.selected), themeColor("--accent"), 3, camera.scale);
    context.restore();
  }

  ring(context, place, color, width, scale) {
    if (!place) return;
    const gap = 2 / scale;
    context.strokeStyle = color;
    context.lineWidth = width / scale;
    rounded(context, { x: place.x - gap, y: place.y - gap, width: place.width + 2 * gap, height: place.height + 2 * gap }, 7);
    context.stroke();
  }

  drawFound(context, scene, scale) {
    const shown = new Set(this.found.slice(0, kMaxMarks).map((item) => scene.shown(item)));
    for (const place of shown) this.ring(context, place, themeColor("--found"), 2.5, scale);
  }

  // Values that the selection reads have one color, and its results have another. Lines follow the edges of the picture if it
  // has them.
  drawEdges(context, scene, scale) {
    const drawn = new Set();
    for (const { from, to, reads } of this.edges.slice(0, kMaxEdges)) {
      const a = scene.shown(from), b = scene.shown(to);
      if (!a || !b || a === b || drawn.has(`${a.item},${b.item}`)) continue;
      drawn.add(`${a.item},${b.item}`);
      context.strokeStyle = themeColor(reads ? "--reads" : "--feeds");
      context.lineWidth = 2.5 / scale;
      this.drawLine(context, scene, a, b, scale);
    }
  }

  // Draws along an edge of the picture, or as a straight dashed line if it has none.
  drawLine(context, scene, a, b, scale) {
    const line = this.line(scene, a, b);
    context.setLineDash(line ? [] : [5 / scale, 5 / scale]);
    context.globalAlpha = line ? 1 : 0.6;
    context.beginPath();
    tracePath(context, line ?? [a.x + a.width / 2, a.y + a.height, b.x + b.width / 2, b.y]);
    context.stroke();
    context.globalAlpha = 1;
    context.setLineDash([]);
  }

  line(scene, a, b) {
    this.edgeOf ??= new WeakMap();
    if (!this.edgeOf.has(scene)) this.edgeOf.set(scene, new Map(scene.edges.map((edge) => [`${edge.from},${edge.to}`, edge.points])));
    return this.edgeOf.get(scene).get(`${a.item},${b.item}`);
  }
}
