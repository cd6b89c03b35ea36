// The view "Difference" of two models: nodes that were added, removed or changed, weights with other values and by how much,
// and memory and time side by side.
import { button, element, shortened } from "../core/dom.js";
import { bytes, count, digits, duration, percent } from "../core/format.js";
import { undelta } from "../core/page_data.js";
import { Table } from "../core/table.js";
import { bars } from "../memory/bars.js";

const kStatus = ["same values", "added", "gone", "other values", "other type"];

export class DifferenceView {
  constructor(app) {
    this.app = app;
    this.json = app.page.json;
    this.root = element("div", { class: "difference view" }, this.files(), this.json.difference.entries.map((entry) => this.entry(entry)), this.states());
  }

  files() {
    const [before, after] = this.json.models;
    return element("h2", {}, `${shortened(before.file, 80)} → ${shortened(after.file, 80)}`);
  }

  entry({ name, before, after, change }) {
    const title = element("h3", {}, `Entry point ${shortened(name, 80)}`);
    if (before < 0 || after < 0) return element("section", {}, title, element("p", {}, before < 0 ? "Only in the second file." : "Only in the first file."));
    const same = change.added.length + change.gone.length + change.changed.length === 0;
    return element("section", {}, title,
      element("p", {}, same ? "The same nodes. " : `${count(change.added.length, "node")} added, ${change.gone.length} gone, ${change.changed.length} changed. `, !same && button("Show in the graph", () => this.app.showChange(after))),
      this.sizes(this.json.models[0].entries[before], this.json.models[1].entries[after]), !same && this.nodes(before, after, change));
  }

  // Shows memory and time of both sides.
  sizes(before, after) {
    const pairs = [];
    if (before.plan && after.plan) pairs.push(["arena", before.plan.arena_bytes, after.plan.arena_bytes, bytes], ["states", total(before.plan.state_bytes), total(after.plan.state_bytes), bytes]);
    if (before.measured && after.measured) pairs.push(["time", runTime(before.measured), runTime(after.measured), duration]);
    return element("div", { class: "columns" }, pairs.map(([name, a, b, format]) => element("div", {}, element("h4", {}, `${name}: ${a === b ? "the same" : `${b > a ? "+" : "−"}${percent(Math.abs(b / a - 1))}`}`),
      bars([{ name: "before", value: a, text: format(a) }, { name: "after", value: b, text: format(b) }]))));
  }

  nodes(before, after, change) {
    const { page } = this.app, graphs = [page.graph(0, before, 0), page.graph(1, after, 0)];
    const row = (what, graph, node, words = "") => ({ what, name: graph.nodeName(node), op: graph.op(node), words, node: what === "gone" ? -1 : node });
    const rows = [...change.changed.map(({ after: node, what }) => row("changed", graphs[1], node, what.join("; "))), ...change.added.map((node) => row("added", graphs[1], node)), ...change.gone.map((node) => row("gone", graphs[0], node))];
    return new Table("Nodes that differ", [{ title: "Node", value: (one) => one.name, text: (one) => shortened(one.name, 90), wide: true }, { title: "What", value: (one) => one.what, text: (one) => mark(one.what) }, { title: "Op", value: (one) => one.op },
      { title: "How", value: (one) => one.words, text: (one) => shortened(one.words, 300), wide: true }], { select: (one) => one.node >= 0 && this.app.showChange(after, one.node) }).use(rows).root;
  }

  states() {
    const { states } = this.json.difference, { names } = this.app.page;
    const rows = [...undelta(states.name)].map((path, i) => ({ name: names.full(path), status: kStatus[states.status[i]] ?? "unknown", max: states.max_abs[i], cosine: states.cosine[i], before: states.bytes_before[i], after: states.bytes_after[i] }));
    if (rows.length === 0) return null;
    const counts = kStatus.map((status) => [status, rows.filter((row) => row.status === status).length]).filter(([, number]) => number > 0);
    const table = new Table("States of both models", [{ title: "State", value: (row) => row.name, text: (row) => shortened(row.name, 90), wide: true }, { title: "Values", value: (row) => row.status, text: (row) => mark(row.status) },
      { title: "Largest difference", value: (row) => row.max, text: (row) => digits(row.max), number: true }, { title: "Cosine", value: (row) => row.cosine, text: (row) => (row.cosine === null ? "–" : row.cosine.toFixed(6)), number: true },
      { title: "Before", value: (row) => row.before, text: (row) => bytes(row.before), number: true }, { title: "After", value: (row) => row.after, text: (row) => bytes(row.after), number: true }], { sortBy: 2 });
    return element("section", {}, element("h3", {}, "States"), element("p", {}, counts.map(([status, number]) => `${number.toLocaleString("en")} ${status}`).join(", ")), table.use(rows).root);
  }
}

function mark(what) {
  return element("span", { class: `mark mark-${what.split(" ")[0]}` }, what);
}

function total(pairs) {
  return pairs.reduce((sum, [, size]) => sum + size, 0);
}

// Returns the time of a normal run if it was measured, else the sum of the steps run one after another.
function runTime(measured) {
  return measured.timeline?.total_us ?? measured.total_us;
}
