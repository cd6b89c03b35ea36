// A chart of blocks on a canvas with a zoomable x axis: the arena over steps, or kernels over time. Wheel and pinch zoom, a
// drag pans, and arrows and + - 0 do the same from the keyboard. A tooltip describes the block under the pointer.
import { element } from "../core/dom.js";
import { onThemeChange, themeColor } from "../core/theme.js";
import { rounded } from "../graph/painter.js";
import { roundTicks } from "./ticks.js";

const kLeft = 78, kWideLeft = 150, kBottom = 26, kTop = 8, kRight = 12;

/**
 * @typedef {{left: number, right: number, low: number, high: number}} Block in units of the axes
 * @typedef {{label: string, blocks: Block[], colors(i: number): {fill: string, border: string, text: string}, words(i: number): string, tip(i: number): string[],
 *   height: number, xFormat(x: number): string, xTicks?: typeof roundTicks, xTitle: string, yTicks(): {at: number, text: string}[], down: boolean, wideLabels?: boolean,
 *   marks?: {at: number, text: string}[], lines?: {at: number, text: string}[], select?(i: number): void, area?(from: number, to: number): void}} Options
 *   `down`: low values are at the top; `wideLabels`: the y axis has names instead of numbers; `marks`: vertical lines; `lines`: horizontal ones; `area`: called when a drag with the shift key has chosen a part of the x axis
 */
export class BlockChart {
  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    this.end = options.blocks.reduce((end, block) => Math.max(end, block.right), 0) || 1;
    this.from = 0;
    this.to = this.end;
    this.selected = -1;
    this.tip = element("div", { class: "tip", hidden: true });
    this.canvas = element("canvas", { class: "block-canvas", tabIndex: 0, role: "img", "aria-label": options.label });
    this.root = element("div", { class: "block-chart" }, this.canvas, this.tip);
    this.order = options.blocks.map((_, i) => i);
    this.listen();
    onThemeChange(() => this.draw());
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  // Names get less space on a phone.
  get left() {
    return this.options.wideLabels ? Math.min(kWideLeft, this.canvas.clientWidth * 0.3) : kLeft;
  }

  get plotWidth() {
    return this.canvas.clientWidth - this.left - kRight;
  }

  get plotHeight() {
    return this.canvas.clientHeight - kTop - kBottom;
  }

  x(value) {
    return this.left + ((value - this.from) / (this.to - this.from)) * this.plotWidth;
  }

  y(value) {
    const share = value / this.options.height;
    return kTop + (this.options.down ? share : 1 - share) * this.plotHeight;
  }

  atX(pixel) {
    return this.from + ((pixel - this.left) / this.plotWidth) * (this.to - this.from);
  }

  show(from, to) {
    const wide = Math.max(this.end * 1e-5, Math.min(this.end, to - from));
    this.from = Math.max(0, Math.min(this.end - wide, from));
    this.to = this.from + wide;
    this.draw();
  }

  zoom(factor, pixel = this.left + this.plotWidth / 2) {
    const center = this.atX(pixel);
    this.show(center - (center - this.from) / factor, center + (this.to - center) / factor);
  }

  draw() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      if (this.canvas.clientWidth > 0) this.paint();
    });
  }

  paint() {
    const ratio = Math.min(2, window.devicePixelRatio || 1), { canvas } = this;
    [canvas.width, canvas.height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    const context = canvas.getContext("2d", { alpha: false });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = themeColor("--canvas");
    context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    this.drawAxes(context);
    context.save();
    context.beginPath();
    context.rect(this.left, kTop, this.plotWidth, this.plotHeight);
    context.clip();
    for (const i of this.order) this.drawBlock(context, i);
    this.drawMarks(context);
    context.restore();
    canvas.dataset.drawn = "true";
  }

  drawAxes(context) {
    const { options } = this, line = themeColor("--line"), muted = themeColor("--muted"), bottom = kTop + this.plotHeight;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const { at, text } of options.yTicks()) {
      context.fillStyle = line;
      context.fillRect(this.left, Math.round(this.y(at)), this.plotWidth, 1);
      context.fillStyle = muted;
      context.fillText(text, this.left - 6, this.y(at));
    }
    context.textAlign = "center";
    for (const at of (options.xTicks ?? roundTicks)(this.from, this.to, this.plotWidth / 110)) {
      context.fillStyle = line;
      context.fillRect(Math.round(this.x(at)), kTop, 1, this.plotHeight);
      context.fillStyle = muted;
      context.fillText(options.xFormat(at), Math.min(this.x(at), this.left + this.plotWidth - 16), bottom + 12);
    }
    context.textAlign = "left";
    context.fillText(options.xTitle, 6, bottom + 12);
  }

  rectangle(i) {
    const block = this.options.blocks[i], a = this.y(block.low), b = this.y(block.high);
    const x = this.x(block.left), width = Math.max(0.6, this.x(block.right) - x);
    return { x, y: Math.min(a, b), width, height: Math.max(0.6, Math.abs(b - a)) };
  }

  drawBlock(context, i) {
    const block = this.options.blocks[i];
    if (block.right < this.from || block.left > this.to) return;
    const place = this.rectangle(i), colors = this.options.colors(i);
    context.fillStyle = colors.fill;
    context.fillRect(place.x, place.y, place.width, place.height);
    if (place.width > 3 && place.height > 3) {
      context.strokeStyle = i === this.selected ? themeColor("--accent") : colors.border;
      context.lineWidth = i === this.selected ? 2.5 : 0.7;
      rounded(context, { x: place.x + 0.5, y: place.y + 0.5, width: place.width - 1, height: place.height - 1 }, 2);
      context.stroke();
    }
    if (place.width > 46 && place.height > 13) this.drawWords(context, i, place, colors);
  }

  drawWords(context, i, place, colors) {
    const left = Math.max(place.x, this.left), room = place.x + place.width - left - 8, words = this.options.words(i), most = Math.floor(room / 6);
    if (most < 4) return;
    context.fillStyle = colors.text;
    context.fillText(words.length <= most ? words : words.slice(0, most - 1) + "…", left + 4, place.y + place.height / 2);
  }

  drawMarks(context) {
    if (this.area) {
      context.globalAlpha = 0.15;
      context.fillStyle = themeColor("--accent");
      context.fillRect(this.x(this.area[0]), kTop, this.x(this.area[1]) - this.x(this.area[0]), this.plotHeight);
      context.globalAlpha = 1;
    }
    context.fillStyle = themeColor("--found");
    for (const { at, text } of this.options.marks ?? []) {
      context.fillRect(Math.round(this.x(at)), kTop, 2, this.plotHeight);
      const right = this.x(at) > this.left + this.plotWidth * 0.7;
      if (text) this.drawMarkText(context, text, this.x(at) + (right ? -5 : 6), right);
    }
    context.textAlign = "left";
    for (const { at, text } of this.options.lines ?? []) {
      context.fillRect(this.left, Math.round(this.y(at)), this.plotWidth, 1);
      context.fillText(text, this.left + 6, this.y(at) + (this.y(at) < kTop + 20 ? 9 : -7));
    }
  }

  drawMarkText(context, text, x, right) {
    const wide = context.measureText(text).width + 8;
    context.fillStyle = themeColor("--background");
    context.fillRect(right ? x - wide + 4 : x - 4, kTop + 1, wide, 17);
    context.fillStyle = themeColor("--found");
    context.textAlign = right ? "right" : "left";
    context.fillText(text, x, kTop + 10);
  }

  blockAt(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    for (let at = this.order.length - 1; at >= 0; --at) {
      const place = this.rectangle(this.order[at]), slack = Math.max(0, (3 - place.width) / 2);
      if (x >= place.x - slack && x <= place.x + place.width + slack && y >= place.y && y <= place.y + place.height) return this.order[at];
    }
    return -1;
  }

  wheel(event) {
    event.preventDefault();
    if (event.deltaX !== 0) return this.show(this.from + (event.deltaX / this.plotWidth) * (this.to - this.from), this.to + (event.deltaX / this.plotWidth) * (this.to - this.from));
    this.zoom(Math.exp(-event.deltaY * 0.002), event.clientX - this.canvas.getBoundingClientRect().left);
  }

  press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { x: event.clientX, from: this.from, to: this.to, moved: false, area: event.shiftKey && this.options.area !== undefined };
  }

  move(event) {
    if (!this.drag) return this.hover(event);
    const by = ((this.drag.x - event.clientX) / this.plotWidth) * (this.drag.to - this.drag.from);
    this.drag.moved ||= Math.abs(this.drag.x - event.clientX) > 4;
    if (this.drag.area) return this.showArea(event);
    if (this.drag.moved) this.show(this.drag.from + by, this.drag.to + by);
  }

  release(event) {
    if (this.drag && !this.drag.moved) this.select(this.blockAt(event));
    if (this.drag?.area && this.drag.moved && this.area) this.options.area(...this.area);
    this.drag = null;
  }

  showArea(event) {
    const left = this.canvas.getBoundingClientRect().left, ends = [this.drag.x, event.clientX].map((x) => Math.max(0, Math.min(this.end, this.atX(x - left))));
    this.area = [Math.min(...ends), Math.max(...ends)];
    this.draw();
  }

  select(i) {
    this.selected = i;
    if (i >= 0) this.options.select?.(i);
    this.draw();
  }

  hover(event) {
    const i = this.blockAt(event), box = this.root.getBoundingClientRect();
    this.tip.hidden = i < 0;
    this.hovered = i;
    if (i < 0) return;
    this.tip.replaceChildren(...this.options.tip(i).map((line) => element("div", {}, line)));
    const x = event.clientX - box.left, y = event.clientY - box.top;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, box.width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${Math.min(y + 14, Math.max(0, box.height - this.tip.offsetHeight - 4))}px`;
  }

  key(event) {
    const wide = this.to - this.from, step = { ArrowLeft: -0.15, ArrowRight: 0.15 }[event.key];
    if (step) this.show(this.from + step * wide, this.to + step * wide);
    else if (event.key === "+" || event.key === "=") this.zoom(1.4);
    else if (event.key === "-") this.zoom(1 / 1.4);
    else if (event.key === "0") this.show(0, this.end);
    else return;
    event.preventDefault();
  }
}
