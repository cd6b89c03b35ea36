// The view "Numerics": where two runs first differ, or where a value first stopped being finite, with histograms.
import { LineChart } from "../charts/line_chart.js";
import { button, element, shortened, svg } from "../core/dom.js";
import { count, digits } from "../core/format.js";
import { Table } from "../core/table.js";
import { lineColour } from "../core/theme.js";

const kWidth = 640, kHeight = 200, kBottom = 24;

export class NumericsView {
  constructor(app) {
    this.app = app;
    this.names = app.page.names;
    this.page = app.page;
    this.numerics = app.page.json.numerics;
    this.root = element("div", { class: "numerics view" }, this.head(), this.first(), this.errors(), this.table());
  }

  head() {
    const { kind, entry, a, b, criterion, compared, first } = this.numerics;
    const what = kind === "compare" ? `${shortened(a)} against ${shortened(b)}` : `${shortened(a)}: values that are not finite`;
    return element("div", {}, element("h2", {}, `${shortened(entry, 80)}: ${what}`),
      element("p", { class: "muted" }, first ? `Values count as different ${criterion}.` : `${count(compared, "value")} compared, none differs ${criterion}.`));
  }

  first() {
    const { first, kind, a, b } = this.numerics;
    if (!first) return null;
    const rows = [["node", this.names.full(first.node)], ["the author's node", this.names.full(first.author)], ["op", first.op], ["element", first.element.toLocaleString("en")],
      ["value", kind === "compare" ? `${digits(first.a)} against ${digits(first.b)}` : digits(first.a)], kind === "compare" && ["error", `${digits(first.error)}, allowed ${digits(first.tolerance)}`]];
    return element("section", { class: "first" }, element("h3", {}, kind === "compare" ? "The first node that differs" : "The first node with a value that is not finite"), element("p", { class: "problem" }, shortened(first.message, 1000)),
      element("p", {}, button("Show in the graph", () => this.app.showNode(first.node))), element("table", { class: "facts" }, element("tbody", {}, rows.filter(Boolean).map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, shortened(value, 500)))))),
      kind === "nonfinite" ? this.neighbours() : histogram(first.histogram, a, b));
  }

  // Histograms of what the node gave and read, with the way to whoever made it.
  neighbours() {
    const { values = [] } = this.numerics.first;
    return element("div", { class: "neighbours" }, values.map(({ role, index, type, histogram: counts }) => {
      const { text, path } = this.neighbour(role, index);
      return element("section", {}, element("h4", {}, role === "output" ? "It gave " : "It read ", path === undefined ? shortened(text) : button(shortened(text), () => this.app.showNode(path), { class: "link" }), ` ${type}`), histogram(counts, role === "output" ? "result" : "input", ""));
    }), values.length === 0 && element("p", { class: "muted" }, "What the node read and gave is too large to be kept."));
  }

  // The graph that ran names what stands behind a number.
  neighbour(role, index) {
    const { stages } = this.app.currentEntry ?? { stages: [] }, fallback = { text: `${role} ${index}` };
    if (stages.length === 0) return fallback;
    const graph = this.page.graph(this.app.model, this.app.entry, stages.length - 1), node = graph.name.indexOf(this.numerics.first.node);
    if (node < 0) return fallback;
    if (role === "output") return { text: `${role} ${index}: ${graph.nodeName(node)}`, path: graph.name[node] };
    const value = graph.inputs(node)[index];
    if (value === undefined) return fallback;
    const producer = graph.producer[value];
    return { text: `${role} ${index}: ${graph.valueText(value)}`, path: producer >= 0 ? graph.name[producer] : undefined };
  }

  errors() {
    const { nodes } = this.numerics;
    if (nodes.name.length < 2 || nodes.error.every((error) => error === null)) return null;
    const x = nodes.name.map((_, i) => i), chart = new LineChart({ title: "Error by node, in the order they ran", xTitle: "node", yLog: true });
    chart.use([{ name: "error", x, y: nodes.error, colour: 1 }, { name: "allowed", x, y: nodes.tolerance, colour: 0 }]);
    return chart.root;
  }

  table() {
    const { nodes } = this.numerics;
    if (nodes.name.length === 0) return null;
    const rows = nodes.name.map((path, i) => ({ i, path, name: this.names.full(path), op: this.page.string(nodes.op[i]), error: nodes.error[i], tolerance: nodes.tolerance[i] }));
    return new Table("Compared values", [{ title: "#", value: (row) => row.i, number: true }, { title: "Node", value: (row) => row.name, text: (row) => shortened(row.name, 90), wide: true }, { title: "Op", value: (row) => row.op },
      { title: "Error", value: (row) => row.error, text: (row) => digits(row.error), number: true }, { title: "Allowed", value: (row) => row.tolerance, text: (row) => digits(row.tolerance), number: true },
      { title: "Error / allowed", value: (row) => ratio(row), text: (row) => digits(ratio(row)), number: true }], { selectOn: 1, select: (row) => this.app.showNode(row.path) }).use(rows).root;
  }
}

function ratio(row) {
  return row.error !== null && row.tolerance > 0 ? row.error / row.tolerance : null;
}

/** Both sides over the same edges; what is not finite is said in words. */
function histogram({ edges, a, b, a_special, b_special }, nameA, nameB) {
  if (edges.length === 0) return element("p", { class: "muted" }, `No finite value${special(a_special)}`);
  const most = Math.max(1, ...a, ...b), sides = [a, b].filter((side) => side.length > 0), left = edges[0], wide = edges[edges.length - 1] - left || 1;
  const x = (value) => ((value - left) / wide) * kWidth, bars = sides.flatMap((side, which) => side.map((number, i) => {
    const high = Math.log1p(number) / Math.log1p(most) * (kHeight - kBottom);
    return svg("rect", { x: x(edges[i]), y: kHeight - kBottom - high, width: Math.max(0.5, x(edges[i + 1]) - x(edges[i]) - 0.5), height: high, fill: lineColour(which), "fill-opacity": sides.length > 1 ? 0.5 : 0.85 },
      svg("title", {}, `${digits(edges[i])} to ${digits(edges[i + 1])}: ${number.toLocaleString("en")}`));
  }));
  const ends = [0, 0.25, 0.5, 0.75, 1].map((share) => svg("text", { x: share * kWidth, y: kHeight - 6, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, digits(left + share * wide)));
  const legend = sides.map((_, which) => element("span", {}, element("span", { class: "swatch", style: { background: lineColour(which) } }), `${shortened([nameA, nameB][which])}${special([a_special, b_special][which])}`));
  return element("figure", { class: "histogram" }, element("figcaption", {}, "How often each value occurs (heights are logarithmic)"), svg("svg", { viewBox: `0 0 ${kWidth} ${kHeight}`, class: "lines", role: "img", "aria-label": sides.length > 1 ? "Histogram of both sides" : "Histogram" }, svg("g", { class: "axes" }, ends), bars), element("div", { class: "legend inline" }, legend));
}

function special(counts) {
  const found = [["NaN", counts.nan], ["+∞", counts.positive_infinity], ["−∞", counts.negative_infinity]].filter(([, number]) => number > 0);
  return found.length > 0 ? ` (${found.map(([name, number]) => `${number.toLocaleString("en")} ${name}`).join(", ")})` : "";
}
