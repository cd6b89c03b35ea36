// Shows everything known about the selected item: attributes, types, cost, its kernel and why others declined, times,
// neighbors.
import { button, element, fill, shortened } from "../core/dom.js";
import { bytes, count, digits, duration, percent, quantity } from "../core/format.js";

const kMaxRows = 60;

export class Details {
  /** @param {{select(item: number): void, toggle(item: number): void, trace(item: number, reads: boolean): number}} on */
  constructor(on) {
    this.on = on;
    this.root = element("section", { class: "details", "aria-label": "Details", "aria-live": "polite" });
  }

  /** @param {import("./hierarchy").Hierarchy} hierarchy @param {import("./coloring").Coloring} coloring */
  use(hierarchy, coloring, facts) {
    Object.assign(this, { hierarchy, coloring, facts, graph: hierarchy.graph });
  }

  show(item, isOpen) {
    if (item < 0) fill(this.root, this.overview());
    else if (this.hierarchy.isGroup(item)) fill(this.root, this.group(item, isOpen));
    else if (this.hierarchy.isNode(item)) fill(this.root, this.node(item));
    else fill(this.root, this.end(item));
  }

  overview() {
    const { hierarchy } = this, { snapshot, entry } = this.facts;
    return [
      element("h2", {}, shortened(entry.name)),
      element("p", { class: "muted" }, snapshot.why ? `${snapshot.name}: ${snapshot.why}` : { author: "The author's graph.", bound: "With sizes for its symbols.", final: "The graph that runs." }[snapshot.kind] ?? snapshot.name),
      entry.problem && element("p", { class: "problem" }, entry.problem),
      table([["nodes", count(this.graph.size, "node")], ...entry.sizes.map((size) => [size.symbol, `${size.size}${size.assumed ? " (an example)" : ""}`]), entry.device && ["device", entry.device], ...this.sums(hierarchy.root)]),
      this.changes(), this.ops(hierarchy.root),
    ];
  }

  changes() {
    const { change } = this.facts.snapshot;
    if (!change) return null;
    const before = this.facts.graphBefore;
    return section(this.facts.snapshot.kind === "author" ? "Against the first file" : "Against the snapshot before",
      table([["added", count(change.added.length, "node")], ["gone", count(change.gone.length, "node")], ["changed", count(change.changed.length, "node")]]),
      this.list("Added", change.added.map((node) => this.link(node))),
      this.list("Changed", change.changed.map(({ after, what }) => element("span", {}, this.link(after), element("small", {}, ` ${what.map((line) => shortened(line)).join("; ")}`)))),
      this.list("Gone", change.gone.map((node) => element("span", {}, before ? shortened(before.nodeName(node)) : String(node)))));
  }

  group(item, isOpen) {
    const group = this.hierarchy.group(item);
    return [
      element("h2", {}, shortened(this.hierarchy.label(item))),
      group.path && element("p", { class: "muted name" }, shortened(group.path, 400)),
      button(isOpen ? "Close" : "Open", () => this.on.toggle(item)),
      table([["nodes", count(group.nodes, "node")], group.repeats && ["repeats", `${group.repeats} equal scopes`], ...this.sums(item)]),
      this.ops(item),
    ];
  }

  // Returns rows with the costs, times and weights of all nodes below an item.
  sums(item) {
    const { coloring } = this, known = coloring.modes().map(([mode]) => mode), nodes = this.hierarchy.nodesBelow(item), rows = [];
    if (known.includes("flops")) rows.push(["FLOPs", quantity(coloring.amount(item, "flops"), "FLOP")], ["bytes moved", bytes(coloring.amount(item, "bytes"))]);
    if (known.includes("time")) rows.push(["time", duration(coloring.amount(item, "time"))]);
    const states = new Set(nodes.flatMap((node) => [...this.graph.inputs(node)].filter((value) => this.graph.kind(value) === 1)));
    if (states.size > 0) rows.push(["states read", `${states.size}, ${bytes([...states].reduce((sum, value) => sum + this.graph.keptBytes(value), 0))}`]);
    return rows;
  }

  ops(item) {
    const counts = new Map();
    for (const node of this.hierarchy.nodesBelow(item)) counts.set(this.graph.op(node), (counts.get(this.graph.op(node)) ?? 0) + 1);
    const rows = [...counts].sort((a, b) => b[1] - a[1]), rest = rows.slice(kMaxRows);
    const shown = rows.slice(0, kMaxRows).map(([op, number]) => [shortened(op, 60), number.toLocaleString("en")]);
    if (rest.length > 0) shown.push([`${rest.length.toLocaleString("en")} more`, rest.reduce((sum, [, number]) => sum + number, 0).toLocaleString("en")]);
    return rows.length > 0 && section("Ops", table(shown));
  }

  node(node) {
    const { graph } = this, author = graph.authorPath(node);
    return [
      element("h2", {}, shortened(graph.op(node))),
      element("p", { class: "muted name" }, shortened(graph.nodeName(node), 2000)),
      author !== graph.name[node] && table([["stands for", shortened(graph.page.names.full(author), 400)]]),
      this.changeOf(node),
      section("Inputs", this.list("", [...graph.inputs(node)].map((value) => this.value(value)))),
      section("Outputs", this.list("", graph.outputs(node).map((value) => this.result(value)))),
      this.attributes(node), this.cost(node), this.kernel(node), this.traces(node),
    ];
  }

  // Shows buttons that mark everything in the picture that leads to a value, or depends on it, at any distance.
  traces(node) {
    const found = element("span", { class: "muted", role: "status" });
    const trace = (label, reads) => button(label, () => (found.textContent = ` ${count(this.on.trace(node, reads), "item")} marked`));
    return section("Follow", element("p", {}, trace("All that leads here", true), " ", trace("All that follows", false), found));
  }

  changeOf(node) {
    const change = this.facts.change.get(node), what = this.facts.snapshot.change?.changed.find((one) => one.after === node)?.what ?? [];
    return change && table([["here", change], ...what.map((line) => ["", shortened(line, 400)])]);
  }

  value(value) {
    const { graph } = this, kind = graph.kind(value), made = graph.producer[value];
    const input = this.hierarchy.inputItems.indexOf(value);
    const who = made >= 0 ? this.link(made, graph.valueText(value)) : input >= 0 ? this.link(this.hierarchy.firstInput + input, graph.valueText(value))
      : element("span", { class: "name" }, shortened(graph.valueText(value) || "(folded constant)", 300));
    return element("div", {}, who, element("div", { class: "muted" }, ["input ", "state ", "constant ", ""][kind], typeLine(graph, value)));
  }

  result(value) {
    const { graph } = this, readers = graph.consumersOf(value);
    const outputs = graph.columns.outputs.flatMap(([name, of], i) => (of === value ? [this.link(this.hierarchy.firstOutput + i, `output ${name}`)] : []));
    return element("div", {}, element("div", { class: "muted" }, typeLine(graph, value)), this.list(`read by ${count(readers.length, "node")}`, readers.map((node) => this.link(node)).concat(outputs)));
  }

  attributes(node) {
    const rows = this.graph.attributes(node);
    return rows.length > 0 && section("Attributes", table(rows.map(([name, value]) => [shortened(name, 60), shortened(value, 600)])));
  }

  cost(node) {
    const cost = this.graph.cost(node), time = this.facts.time?.[node], least = this.facts.least?.[node];
    if (!cost && !time) return null;
    return section("Cost", table([
      cost && ["FLOPs", `${cost.at_most ? "at most " : ""}${quantity(cost.flops, "FLOP")}`], cost && ["bytes moved", bytes(cost.bytes)],
      cost && cost.flops > 0 && cost.bytes > 0 && ["intensity", `${digits(cost.flops / cost.bytes)} FLOP/byte`],
      time > 0 && ["measured", duration(time)], time > 0 && least > 0 && ["of the roofline", percent(least / time)]]));
  }

  kernel(node) {
    const kernel = this.graph.kernel(node);
    return kernel && section("Kernel", element("p", {}, kernel.name ? element("code", {}, shortened(kernel.name)) : "none runs it"),
      kernel.declined.length > 0 && table(kernel.declined.map(({ name, reason }) => [shortened(name, 80), `declined: ${shortened(reason, 400)}`])));
  }

  end(item) {
    const { graph, hierarchy } = this, isInput = item < hierarchy.firstOutput;
    const value = isInput ? hierarchy.inputItems[item - hierarchy.firstInput] : graph.columns.outputs[item - hierarchy.firstOutput][1];
    return [element("h2", {}, isInput ? "input" : "output"), element("p", { class: "muted name" }, shortened(hierarchy.label(item), 2000)),
      section(isInput ? "Value" : "Made by", isInput ? this.result(value) : this.value(value))];
  }

  link(item, text = this.graph.nodeName(item)) {
    return button(shortened(text, 300), () => this.on.select(item), { class: "link name" });
  }

  list(title, rows) {
    if (rows.length === 0) return null;
    const list = element("ul", { class: "plain" }, rows.slice(0, kMaxRows).map((row) => element("li", {}, row)));
    if (rows.length > kMaxRows) list.append(element("li", { class: "muted" }, `and ${(rows.length - kMaxRows).toLocaleString("en")} more`));
    return title ? element("details", { open: rows.length <= 8 }, element("summary", {}, title), list) : list;
  }
}

function typeLine(graph, value) {
  const type = graph.typeOf(value);
  if (!type) return "";
  const sizes = type.sizes && type.sizes.join("×") !== type.shape.join("×") ? ` = ${type.sizes.join("×")}` : "";
  return `${graph.typeText(value)}${sizes}${type.bytes === null ? "" : `, ${bytes(type.bytes)}`}`;
}

function section(title, ...children) {
  return element("div", { class: "section" }, element("h3", {}, title), ...children);
}

function table(rows) {
  return element("table", { class: "facts" }, element("tbody", {}, rows.filter((row) => row).map(([name, value]) =>
    element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value)))));
}
