// Draws a part of a scene on a canvas, with fewer details at smaller scales. The caller chooses the colors of blocks.
import { blockText } from "./scene.js";
import { kFamily } from "./text_width.js";

const kFont = `12px ${kFamily}`, kSmallFont = `11px ${kFamily}`, kBoldFont = `600 12px ${kFamily}`;
const kTextScale = 0.42, kBorderScale = 0.12, kEdgeScale = 0.02;

/** @typedef {{fill: string, border: string, text: string}} Colors */

export class Painter {
  /**
   * @param {import("./scene").Scene} scene
   * @param {(item: number) => Colors} colors of a closed item
   * @param {{background: string, box: string, boxBorder: string, text: string, muted: string, edge: string}} theme
   */
  constructor(scene, colors, theme) {
    this.scene = scene;
    this.hierarchy = scene.hierarchy;
    this.colors = colors;
    this.theme = theme;
    this.fitted = new Map();
  }

  /** The context's transform maps the plane to pixels; `scale` is CSS pixels per unit. */
  draw(context, [left, top, right, bottom], scale) {
    context.fillStyle = this.theme.background;
    context.fillRect(left, top, right - left, bottom - top);
    for (const box of this.scene.boxes)
      if (box.x < right && box.x + box.width > left && box.y < bottom && box.y + box.height > top) this.drawBox(context, box, scale);
    if (scale > kEdgeScale || this.scene.edges.length < 5000) this.drawEdges(context, [left, top, right, bottom], scale);
    this.drawBlocks(context, [left, top, right, bottom], scale);
  }

  drawBox(context, box, scale) {
    context.fillStyle = this.theme.box;
    context.strokeStyle = this.theme.boxBorder;
    context.lineWidth = Math.min(1 / scale, 4);
    rounded(context, box, 8);
    context.fill();
    context.stroke();
    if (scale < kTextScale * 0.6) return;
    const [title, count] = blockText(this.hierarchy, box.item);
    context.fillStyle = this.theme.text;
    context.font = kBoldFont;
    context.textBaseline = "middle";
    context.fillText(this.fit(context, `▾ ${title} ${count}`, box.width - 20), box.x + 10, box.y + 15);
  }

  drawEdges(context, window, scale) {
    context.strokeStyle = this.theme.edge;
    context.lineWidth = scale < kBorderScale ? 0.7 / scale : 1.2;
    context.beginPath();
    const heads = [];
    this.scene.edgeIndex.each(...window, (i) => {
      const edge = this.scene.edges[i];
      tracePath(context, edge.points);
      if (scale > 0.25 && edge.to >= 0) heads.push(edge.points);
    });
    context.stroke();
    context.fillStyle = this.theme.edge;
    context.beginPath();
    for (const points of heads) traceHead(context, points);
    context.fill();
  }

  drawBlocks(context, window, scale) {
    const details = scale >= kBorderScale, byFill = new Map();
    this.scene.blockIndex.each(...window, (i) => {
      const block = this.scene.blocks[i], colors = this.colors(block.item);
      if (details) this.drawBlock(context, block, colors, scale);
      else if (byFill.has(colors.border)) byFill.get(colors.border).push(block);
      else byFill.set(colors.border, [block]);
    });
    for (const [fill, blocks] of byFill) {
      context.fillStyle = fill;
      for (const block of blocks) context.fillRect(block.x, block.y, block.width, block.height);
    }
  }

  drawBlock(context, block, colors, scale) {
    const group = this.hierarchy.isGroup(block.item), round = this.hierarchy.isNode(block.item) ? 5 : group ? 8 : block.height / 2;
    context.fillStyle = colors.fill;
    context.strokeStyle = colors.border;
    context.lineWidth = 1;
    if (group && this.hierarchy.group(block.item).repeats > 0) this.drawStack(context, block, round);
    rounded(context, block, round);
    context.fill();
    context.stroke();
    if (scale >= kTextScale) this.drawText(context, block, colors, group);
  }

  // Draws the cards behind a folded group.
  drawStack(context, block, round) {
    for (const shift of [6, 3]) {
      rounded(context, { x: block.x + shift, y: block.y + shift, width: block.width, height: block.height }, round);
      context.fill();
      context.stroke();
    }
  }

  drawText(context, block, colors, group) {
    const [title, name, below] = blockText(this.hierarchy, block.item), middle = block.x + block.width / 2;
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.fillStyle = colors.text;
    context.font = group ? kBoldFont : kFont;
    const first = group ? `▸ ${title} ${name}` : name ? `${title} ${name}` : title;
    context.fillText(this.fit(context, first, block.width - 12), middle, block.y + (below ? block.height * 0.33 : block.height / 2));
    if (below) {
      context.font = kSmallFont;
      context.globalAlpha = 0.82;
      context.fillText(this.fit(context, below, block.width - 12), middle, block.y + block.height * 0.71);
      context.globalAlpha = 1;
    }
    context.textAlign = "left";
  }

  // Shortens a text to a width with an ellipsis. The result is cached by text and width.
  fit(context, text, width) {
    const short = text.length > 200 ? text.slice(0, 200) : text, key = `${context.font}|${Math.round(width)}|${short}`;
    let fitted = this.fitted.get(key);
    if (fitted === undefined) {
      fitted = shorten(context, short, width);
      if (this.fitted.size > 20000) this.fitted.clear();
      this.fitted.set(key, fitted);
    }
    return fitted;
  }
}

function shorten(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle;
  }
  return text.slice(0, low) + "…";
}

export function rounded(context, { x, y, width, height }, radius) {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(radius, height / 2));
}

/** Adds a smooth line through the points of an edge to the path. */
export function tracePath(context, points) {
  context.moveTo(points[0], points[1]);
  const last = points.length - 2;
  if (last === 2) {
    const bend = Math.min(40, Math.abs(points[3] - points[1]) / 2);
    context.bezierCurveTo(points[0], points[1] + bend, points[2], points[3] - bend, points[2], points[3]);
    return;
  }
  for (let i = 2; i < last; i += 2) {
    const end = i + 2 === last, x = end ? points[last] : (points[i] + points[i + 2]) / 2, y = end ? points[last + 1] : (points[i + 1] + points[i + 3]) / 2;
    context.quadraticCurveTo(points[i], points[i + 1], x, y);
  }
}

function traceHead(context, points) {
  const last = points.length - 2, x = points[last], y = points[last + 1];
  const from = Math.atan2(y - points[last - 1], x - points[last - 2]) || Math.PI / 2;
  const angle = last === 2 ? Math.PI / 2 : from;
  context.moveTo(x, y);
  context.lineTo(x - 7 * Math.cos(angle - 0.4), y - 7 * Math.sin(angle - 0.4));
  context.lineTo(x - 7 * Math.cos(angle + 0.4), y - 7 * Math.sin(angle + 0.4));
}
