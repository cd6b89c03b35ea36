// The view "Numerics": the first difference between two runs, or the first value that was not finite, with histograms.
import { histogram } from "../charts/histogram.js";
import { LineChart } from "../charts/line_chart.js";
import { button, element, shortened } from "../core/dom.js";
import { count, digits } from "../core/format.js";
import { Table } from "../core/table.js";

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
      kind === "nonfinite" ? this.neighbors() : histogram(first.histogram, a, b));
  }

  // Shows histograms of the node's outputs and inputs, with buttons that lead to the nodes that produced them.
  neighbors() {
    const { values = [] } = this.numerics.first;
    return element("div", { class: "neighbors" }, values.map(({ role, index, type, histogram: counts }) => {
      const { text, path } = this.neighbor(role, index);
      return element("section", {}, element("h4", {}, role === "output" ? "It gave " : "It read ", path === undefined ? shortened(text) : button(shortened(text), () => this.app.showNode(path), { class: "link" }), ` ${type}`), histogram(counts, role === "output" ? "result" : "input", ""));
    }), values.length === 0 && element("p", { class: "muted" }, "The inputs and outputs of the node are too large to be kept."));
  }

  // Returns the name of an input or output, looked up in the graph that ran.
  neighbor(role, index) {
    const { snapshots } = this.app.currentEntry ?? { snapshots: [] }, fallback = { text: `${role} ${index}` };
    if (snapshots.length === 0) return fallback;
    const graph = this.page.graph(this.app.model, this.app.entry, snapshots.length - 1), node = graph.name.indexOf(this.numerics.first.node);
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
    chart.use([{ name: "error", x, y: nodes.error, color: 1 }, { name: "allowed", x, y: nodes.tolerance, color: 0 }]);
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
