// A chart of lines over a common axis, as SVG: round ticks, log axes, a legend, and values of all lines under the pointer. A
// drag, or + and arrows, zoom into a part of the axis; a double click or 0 shows all of it again.
import { element, fill, shortened, svg } from "../core/dom.js";
import { digits } from "../core/format.js";
import { lineColor, onThemeChange } from "../core/theme.js";
import { logTicks, roundTicks } from "./ticks.js";

const kLeft = 68, kRight = 12, kTop = 10, kBottom = 34, kMaxPoints = 1200;

/**
 * @typedef {{name: string, x: number[], y: (number|null)[], faint?: boolean, color?: number, dots?: boolean}} Series `faint`: drawn thin, behind, without a legend
 * @typedef {{title: string, xTitle: string, xFormat?(x: number): string, yFormat?(y: number): string, yTicks?: typeof roundTicks, height?: number, xLog?: boolean, yLog?: boolean, zero?: boolean, zoomed?(window: [number, number]|null): void}} Options
 */
export class LineChart {
  /** @param {Options} options */
  constructor(options) {
    this.options = { xFormat: (x) => digits(x), yFormat: digits, yTicks: roundTicks, height: 220, ...options };
    this.series = [];
    this.window = null; // the visible part of the x axis; null: all
    this.svg = svg("svg", { class: "lines", role: "img", "aria-label": options.title, height: this.options.height, tabindex: "0" });
    this.tip = element("div", { class: "tip", hidden: true });
    this.legend = element("div", { class: "legend inline" });
    this.root = element("figure", { class: "line-chart" }, element("figcaption", {}, options.title), element("div", { class: "line-plot" }, this.svg, this.tip), this.legend);
    this.svg.addEventListener("pointermove", (event) => this.hover(event));
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    this.svg.addEventListener("pointerup", (event) => this.release(event));
    this.svg.addEventListener("dblclick", () => this.zoomTo(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.svg);
    onThemeChange(() => this.draw());
  }

  /** @param {Series[]} series */
  use(series) {
    this.series = series.map((one, i) => ({ ...one, color: one.color ?? i }));
    this.draw();
  }

  draw() {
    this.width = this.svg.clientWidth;
    if (this.width < 50) return;
    this.measure();
    const lines = this.series.slice().sort((a, b) => Number(b.faint ?? false) - Number(a.faint ?? false)).map((one) => this.line(one));
    this.cross = svg("line", { class: "cross", y1: kTop, y2: this.options.height - kBottom, visibility: "hidden" });
    this.chosen = svg("rect", { class: "chosen-range", y: kTop, height: this.options.height - kTop - kBottom, visibility: "hidden" });
    const clip = `plot-${LineChart.made = (LineChart.made ?? 0) + 1}`, plot = svg("clipPath", { id: clip }, svg("rect", { x: kLeft, y: 0, width: Math.max(0, this.width - kLeft - kRight), height: this.options.height - kBottom }));
    fill(this.svg, plot, this.axes(), svg("g", { "clip-path": `url(#${clip})` }, lines), this.cross, this.chosen);
    const named = this.series.filter((one) => !one.faint);
    fill(this.legend, named.length > 1 && named.map((one) => element("span", {}, element("span", { class: "swatch", style: { background: lineColor(one.color), "border-color": lineColor(one.color) } }), shortened(one.name, 60))));
  }

  // Computes the range of both axes from the values that can be drawn.
  measure() {
    const { xLog, yLog, zero } = this.options;
    const range = (values, log) => {
      let [low, high] = [Infinity, -Infinity];
      for (const value of values) if (value !== null && Number.isFinite(value) && (!log || value > 0)) [low, high] = [Math.min(low, value), Math.max(high, value)];
      if (low > high) return log ? [1, 10] : [0, 1];
      if (low === high) return log ? [low / 2, high * 2] : [low - Math.abs(low) * 0.1 - 1e-9, high + Math.abs(high) * 0.1 + 1e-9];
      return [low, high];
    };
    this.xRange = range(this.series.flatMap((one) => (one.x.length > 0 ? [one.x.find((x) => !xLog || x > 0) ?? null, one.x[one.x.length - 1]] : [])), xLog);
    this.fullRange = this.xRange;
    if (this.window) this.xRange = this.window;
    const [from, to] = this.xRange;
    this.yRange = range(function* (all) { for (const one of all) for (let i = 0; i < one.y.length; ++i) if (one.x[i] >= from && one.x[i] <= to) yield one.y[i]; }(this.series), yLog);
    if (zero) this.yRange[0] = Math.min(0, this.yRange[0]);
    if (!yLog) {
      const room = (this.yRange[1] - this.yRange[0]) * 0.04;
      this.yRange = [zero ? this.yRange[0] : this.yRange[0] - room, this.yRange[1] + room];
    }
  }

  scale(value, [low, high], log) {
    return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  }

  x(value) {
    return kLeft + this.scale(value, this.xRange, this.options.xLog) * (this.width - kLeft - kRight);
  }

  y(value) {
    return kTop + (1 - this.scale(value, this.yRange, this.options.yLog)) * (this.options.height - kTop - kBottom);
  }

  axes() {
    const { options } = this, bottom = options.height - kBottom, group = svg("g", { class: "axes" });
    const yTicks = options.yLog ? logTicks(...this.yRange) : options.yTicks(...this.yRange, 5);
    const xTicks = options.xLog ? logTicks(...this.xRange) : roundTicks(...this.xRange, this.width / 120);
    for (const tick of yTicks) group.append(svg("line", { x1: kLeft, x2: this.width - kRight, y1: this.y(tick), y2: this.y(tick) }), svg("text", { x: kLeft - 7, y: this.y(tick) + 4, "text-anchor": "end" }, options.yFormat(tick)));
    for (const tick of xTicks) group.append(svg("line", { x1: this.x(tick), x2: this.x(tick), y1: kTop, y2: bottom }), svg("text", { x: this.x(tick), y: bottom + 15, "text-anchor": "middle" }, options.xFormat(tick)));
    group.append(svg("text", { x: (kLeft + this.width) / 2, y: options.height - 4, "text-anchor": "middle" }, options.xTitle));
    return group;
  }

  line(one) {
    const path = svg("path", { d: this.path(one), class: one.faint ? "faint" : "line", stroke: lineColor(one.color) });
    if (!one.dots) return path;
    return [path, ...points(one).map(([x, y]) => svg("circle", { cx: this.x(x), cy: this.y(y), r: 3, fill: lineColor(one.color) }))];
  }

  // Returns the path of a line. If there are more points than pixels, each run of them is reduced to its lowest and highest
  // point.
  path(one) {
    const all = this.near(points(one)).filter(([x, y]) => (!this.options.xLog || x > 0) && (!this.options.yLog || y > 0)), step = Math.ceil(all.length / kMaxPoints);
    const kept = step < 3 ? all : all.flatMap((_, i) => (i % step === 0 ? extremes(all.slice(i, i + step)) : []));
    return kept.map(([x, y], i) => `${i === 0 ? "M" : "L"}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`).join("");
  }

  // Returns the points in the window and one more on either side, so that lines reach its edges.
  near(all) {
    if (!this.window) return all;
    const [from, to] = this.xRange, first = all.findIndex(([x]) => x >= from), last = all.findLastIndex(([x]) => x <= to);
    return first < 0 || last < 0 ? [] : all.slice(Math.max(0, first - 1), last + 2);
  }

  /** @param {[number, number]|null} window */
  zoomTo(window) {
    this.window = window;
    this.draw();
    this.options.zoomed?.(window);
  }

  share(event) {
    return (event.clientX - this.svg.getBoundingClientRect().left - kLeft) / (this.width - kLeft - kRight);
  }

  at(share) {
    const [low, high] = this.xRange;
    return this.options.xLog ? low * (high / low) ** share : low + share * (high - low);
  }

  press(event) {
    if (event.pointerType === "touch") return; // a finger scrolls the page
    this.drag = Math.max(0, Math.min(1, this.share(event)));
    this.svg.setPointerCapture(event.pointerId);
  }

  release(event) {
    if (this.drag === undefined) return;
    const end = Math.max(0, Math.min(1, this.share(event))), [from, to] = [Math.min(this.drag, end), Math.max(this.drag, end)];
    this.drag = undefined;
    this.chosen.setAttribute("visibility", "hidden");
    if ((to - from) * this.width > 6) this.zoomTo([this.at(from), this.at(to)]);
  }

  showDrag(share) {
    const [from, to] = [Math.min(this.drag, share), Math.max(this.drag, share)].map((one) => kLeft + Math.max(0, Math.min(1, one)) * (this.width - kLeft - kRight));
    for (const [name, value] of [["x", from], ["width", to - from], ["visibility", "visible"]]) this.chosen.setAttribute(name, String(value));
  }

  key(event) {
    const part = { "+": [0.2, 0.8], "=": [0.2, 0.8], "-": [-0.33, 1.33], ArrowLeft: [-0.15, 0.85], ArrowRight: [0.15, 1.15] }[event.key];
    if (event.key === "0") this.zoomTo(null);
    else if (part && (this.window || part[0] > 0)) this.zoomTo([Math.max(this.fullRange[0], this.at(part[0])), Math.min(this.fullRange[1], this.at(part[1]))]);
    else return;
    event.preventDefault();
  }

  hover(event) {
    const share = this.share(event);
    if (this.drag !== undefined) this.showDrag(share);
    if (share < 0 || share > 1 || this.series.length === 0) return this.leave();
    const x = this.at(share);
    const rows = this.series.filter((one) => !one.faint).map((one) => ({ one, point: nearest(one, x) })).filter(({ point }) => point);
    if (rows.length === 0) return this.leave();
    const at = this.x(rows[0].point[0]);
    for (const end of ["x1", "x2"]) this.cross.setAttribute(end, String(at));
    this.cross.setAttribute("visibility", "visible");
    fill(this.tip, element("div", { class: "muted" }, `${this.options.xTitle} ${this.options.xFormat(rows[0].point[0])}`), rows.map(({ one, point }) =>
      element("div", {}, element("span", { class: "swatch", style: { background: lineColor(one.color) } }), `${shortened(one.name, 50)}: ${this.options.yFormat(point[1])}`)));
    this.tip.hidden = false;
    this.tip.style.left = `${Math.min(at + 10, this.width - this.tip.offsetWidth - 4)}px`;
    this.tip.style.top = "14px";
  }

  leave() {
    this.tip.hidden = true;
    this.cross?.setAttribute("visibility", "hidden");
  }
}

function points(one) {
  return one.x.map((x, i) => [x, one.y[i]]).filter(([x, y]) => x !== null && y !== null && Number.isFinite(y));
}

function extremes(run) {
  let low = run[0], high = run[0];
  for (const point of run) {
    if (point[1] < low[1]) low = point;
    if (point[1] > high[1]) high = point;
  }
  return low[0] < high[0] ? [low, high] : low === high ? [low] : [high, low];
}

// Returns the point of a line whose x is closest.
function nearest(one, x) {
  let best = null;
  for (let i = 0; i < one.x.length; ++i)
    if (one.y[i] !== null && Number.isFinite(one.y[i]) && (best === null || Math.abs(one.x[i] - x) < Math.abs(best[0] - x))) best = [one.x[i], one.y[i]];
  return best;
}
