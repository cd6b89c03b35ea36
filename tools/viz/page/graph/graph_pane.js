// The view "Graph": canvas, tree of scopes, search and details for one snapshot of one entry point. Holds their common state:
// the open groups and the selected item.
import { button, choice, element, fill } from "../core/dom.js";
import { Coloring } from "./coloring.js";
import { Details } from "./details.js";
import { GraphView } from "./graph_view.js";
import { Hierarchy } from "./hierarchy.js";
import { Layouts, openAtFirst } from "./layouts.js";
import { Minimap } from "./minimap.js";
import { factsOfSnapshot } from "./node_facts.js";
import { Scene } from "./scene.js";
import { ScopeTree } from "./scope_tree.js";
import { SearchBox } from "./search_box.js";

export class GraphPane {
  /** @param {import("../core/page_data").Page} page @param {import("./layouts").LayoutWorker} worker */
  constructor(page, worker) {
    Object.assign(this, { page, worker, selected: -1, mode: "op" });
    this.view = new GraphView({ select: (item) => this.select(item), toggle: (item) => this.toggle(item), key: (event) => this.key(event), moved: () => this.minimap.draw() });
    this.minimap = new Minimap(this.view);
    this.tree = new ScopeTree({ select: (item) => this.go(item) });
    this.details = new Details({ select: (item) => this.go(item), toggle: (item) => this.toggle(item), trace: (item, reads) => this.trace(item, reads) });
    this.search = new SearchBox({ found: (items) => this.mark(items), go: (item) => this.go(item), left: () => this.view.canvas.focus() });
    this.colorChoice = element("span");
    this.legend = element("ul", { class: "legend", "aria-label": "Colors" });
    this.snapshots = element("div", { class: "snapshots", role: "tablist", "aria-label": "Snapshots of the entry point" });
    this.problem = element("p", { class: "problem", role: "alert", hidden: true });
    this.root = element("div", { class: "graph-pane" }, this.toolbar(), this.snapshots, this.body());
    this.hierarchies = new Map();
    this.turn = 0; // counts layouts
    this.selections = 0;
  }

  toolbar() {
    return element("div", { class: "toolbar" }, this.search.root, this.colorChoice,
      button("Fit", () => this.view.fit(), { title: "Show everything (0)" }),
      button("+", () => this.view.zoomAt(1.3), { "aria-label": "Zoom in" }), button("−", () => this.view.zoomAt(1 / 1.3), { "aria-label": "Zoom out" }),
      button("Close all", () => this.setOpen(new Set()), { title: "Close every scope" }),
      button("Open more", () => this.openMore(), { title: "Open one level more" }),
      button("PNG", () => this.view.savePicture(), { title: "Save the view as a picture" }));
  }

  body() {
    return element("div", { class: "graph-body" }, element("nav", { class: "side", "aria-label": "Scopes" }, this.tree.root),
      element("div", { class: "drawing" }, this.view.canvas, this.problem, this.legend, this.minimap.canvas), element("aside", { class: "side right" }, this.details.root));
  }

  /** Shows a snapshot of an entry point. Open groups and the selection are kept by name where possible. */
  async use(model, entry, snapshot) {
    const keep = this.remember();
    Object.assign(this, { model, entry, snapshot });
    const graph = this.page.graph(model, entry, snapshot);
    if (!this.hierarchies.has(graph)) {
      const hierarchy = new Hierarchy(graph);
      this.hierarchies.set(graph, { hierarchy, layouts: new Layouts(hierarchy, this.worker), open: openAtFirst(hierarchy) });
    }
    Object.assign(this, this.hierarchies.get(graph));
    this.facts = factsOfSnapshot(this.page, model, entry, snapshot);
    this.coloring = new Coloring(this.hierarchy, this.facts);
    this.details.use(this.hierarchy, this.coloring, this.facts);
    this.tree.use(this.hierarchy);
    this.scene = null;
    this.selected = keep === null ? -1 : this.find(keep);
    this.showSnapshots();
    await this.layout(true);
    this.search.use(this.hierarchy);
    this.select(this.selected);
  }

  remember() {
    return this.selected >= 0 && this.hierarchy.isNode(this.selected) ? this.hierarchy.graph.nodeName(this.selected) : null;
  }

  find(name) {
    const { graph } = this.hierarchy;
    for (let node = 0; node < graph.size; ++node) if (graph.nodeName(node) === name) return node;
    return -1;
  }

  showSnapshots() {
    const { snapshots } = this.page.json.models[this.model].entries[this.entry];
    fill(this.snapshots, snapshots.length < 2 ? [] : snapshots.map((snapshot, i) => button(snapshotName(snapshot), () => this.use(this.model, this.entry, i), {
      role: "tab", "aria-selected": String(i === this.snapshot), title: snapshot.why, class: snapshot.same_as === undefined ? "" : "same" })));
  }

  /** Lays out the open groups and shows them. A later call cancels an earlier one. */
  async layout(fit = false) {
    const turn = ++this.turn, { hierarchy } = this;
    this.problem.hidden = true;
    try {
      const { levels, layouts } = await this.layouts.of(this.open);
      if (turn !== this.turn) return;
      this.show(new Scene(hierarchy, levels, layouts), fit);
    } catch (error) {
      this.problem.textContent = `This graph cannot be laid out: ${error.message}`;
      this.problem.hidden = false;
    }
  }

  show(scene, fit) {
    const before = this.anchor();
    this.scene = scene;
    this.color(this.mode);
    this.view.show(scene, (item) => this.coloring.of(item));
    if (fit) this.view.begin();
    else if (before) this.keepPlace(before);
    this.showColors();
  }

  // Returns the screen position of the toggled item, so that it can be kept there.
  anchor() {
    const place = this.scene?.place.get(this.anchored);
    return place ? this.view.camera.toScreen(place.x, place.y) : null;
  }

  keepPlace([x, y]) {
    const place = this.scene.place.get(this.anchored);
    if (!place) return;
    const [nowX, nowY] = this.view.camera.toScreen(place.x, place.y);
    this.view.camera.pan(x - nowX, y - nowY);
    this.view.draw();
  }

  color(mode) {
    this.mode = this.coloring.modes().some(([known]) => known === mode) ? mode : "op";
    this.coloring.use(this.mode, this.scene);
  }

  showColors() {
    fill(this.colorChoice, choice("Color", this.coloring.modes(), this.mode, (mode) => this.chooseColor(mode)));
    fill(this.legend, this.coloring.legend().map(({ text, fill: color, border }) =>
      element("li", {}, element("span", { class: "swatch", style: { background: color, "border-color": border } }), text)));
  }

  chooseColor(mode) {
    this.color(mode);
    this.view.restyle();
    this.showColors();
  }

  async setOpen(open) {
    this.open = open;
    this.hierarchies.get(this.hierarchy.graph).open = open;
    await this.layout(true);
  }

  openMore() {
    const open = new Set(this.open);
    for (const block of this.scene.blocks) if (this.hierarchy.isGroup(block.item)) open.add(block.item);
    return this.setOpen(open);
  }

  async toggle(item) {
    if (item < 0 || !this.hierarchy.isGroup(item)) return;
    if (!this.open.delete(item)) this.open.add(item);
    this.anchored = item;
    const turn = ++this.selections;
    await this.layout();
    if (turn === this.selections) this.select(item);
  }

  /** Opens the groups around an item, selects it and scrolls to it, unless something else is selected meanwhile. */
  async go(item) {
    const turn = ++this.selections;
    const closed = this.hierarchy.ancestors(item).slice(1).filter((above) => !this.open.has(above));
    for (const above of closed) this.open.add(above);
    if (closed.length > 0) await this.layout();
    if (turn !== this.selections) return;
    this.select(item);
    const place = this.scene.shown(item);
    if (place) this.view.reveal(place);
  }

  select(item) {
    ++this.selections;
    this.selected = item;
    this.view.overlay.selected = item;
    this.view.overlay.edges = item >= 0 ? this.edgesOf(item) : [];
    this.details.show(item, this.open.has(item));
    if (item >= 0) this.tree.reveal(item);
    this.search.hideList();
    this.view.draw();
  }

  // Returns the edges between an item and its neighbors.
  edgesOf(item) {
    return [...this.neighbors(item, true).map((from) => ({ from, to: item, reads: true })), ...this.neighbors(item, false).map((to) => ({ from: item, to, reads: false }))];
  }

  /** Returns the items that produce the inputs of `item`, or that read its outputs. For a group these are nodes outside it. */
  neighbors(item, reads) {
    const { hierarchy } = this, { graph } = hierarchy, nodes = hierarchy.isGroup(item) ? hierarchy.nodesBelow(item) : [item];
    const own = new Set(nodes), found = new Set();
    for (const node of nodes) for (const other of this.ends(node, reads)) if (!own.has(other)) found.add(other);
    return [...found];
  }

  ends(item, reads) {
    const { hierarchy } = this, { graph } = hierarchy, isInput = item >= hierarchy.firstInput && item < hierarchy.firstOutput;
    const maker = (value) => (graph.producer[value] >= 0 ? graph.producer[value] : hierarchy.firstInput + hierarchy.inputItems.indexOf(value));
    if (item >= hierarchy.firstOutput) return reads ? [maker(graph.columns.outputs[item - hierarchy.firstOutput][1])] : [];
    if (reads) return isInput ? [] : [...graph.inputs(item)].filter((value) => graph.producer[value] >= 0 || graph.kind(value) === 0).map(maker);
    const values = isInput ? [hierarchy.inputItems[item - hierarchy.firstInput]] : graph.outputs(item);
    return values.flatMap((value) => [...graph.consumersOf(value), ...graph.columns.outputs.flatMap(([, of], i) => (of === value ? [hierarchy.firstOutput + i] : []))]);
  }

  /** Marks everything that an item's value depends on, or everything that depends on it. */
  trace(item, reads) {
    const found = new Set([item]), next = [item];
    while (next.length > 0)
      for (const other of this.neighbors(next.pop(), reads))
        if (!found.has(other)) {
          found.add(other);
          next.push(other);
        }
    found.delete(item);
    this.mark([...found]);
    return found.size;
  }

  mark(items) {
    this.view.overlay.found = items;
    this.view.draw();
  }

  /** Handles keys of the canvas. @returns true if the key was handled */
  key(event) {
    if (event.key === "Escape") this.select(-1);
    else if (event.key === "Enter") this.toggle(this.selected);
    else if (this.selected < 0) return false;
    else if (event.key === "ArrowUp") this.follow(this.neighbors(this.selected, true)[0]);
    else if (event.key === "ArrowDown") this.follow(this.neighbors(this.selected, false)[0]);
    else if (event.key === "ArrowLeft") this.follow(this.beside(-1));
    else if (event.key === "ArrowRight") this.follow(this.beside(1));
    else return false;
    return true;
  }

  follow(item) {
    if (item !== undefined) this.go(item);
  }

  // Returns the closest sibling on the left or right.
  beside(side) {
    const here = this.scene.place.get(this.selected);
    if (!here) return undefined;
    const middle = here.y + here.height / 2;
    const others = this.hierarchy.group(this.hierarchy.parent[this.selected]).children.map((item) => this.scene.place.get(item))
      .filter((place) => place && (place.x - here.x) * side > 1 && place.y < middle + 40 && place.y + place.height > middle - 40);
    others.sort((a, b) => Math.abs(a.x - here.x) - Math.abs(b.x - here.x));
    return others[0]?.item;
  }

  /** Handles keys of the whole page while this view is shown. */
  pageKey(event) {
    if (event.key === "/") this.search.input.focus();
    else if (event.key === "n") this.search.step(1);
    else if (event.key === "N") this.search.step(-1);
    else if (event.key === "Escape") this.select(-1);
    else return false;
    return true;
  }
}

function snapshotName(snapshot) {
  return { author: "Author's graph", bound: "Sizes bound", final: "Final plan" }[snapshot.kind] ?? snapshot.name;
}
