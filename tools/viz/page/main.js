// The page: unpacks its data and shows a tab for each view that has something to show.
import layoutScript from "built/layout_worker.txt";

import { DifferenceView } from "./compare/difference_view.js";
import { NumericsView } from "./compare/numerics_view.js";
import { about } from "./core/about.js";
import { button, choice, element, fill, shortened } from "./core/dom.js";
import { Page, unpack } from "./core/page_data.js";
import { chooseTheme, isDark } from "./core/theme.js";
import { GraphPane } from "./graph/graph_pane.js";
import { LayoutWorker } from "./graph/layouts.js";
import { memoryView } from "./memory/memory_view.js";
import { modelView } from "./model/model_view.js";
import { timeView } from "./time/time_view.js";
import { follow } from "./training/live.js";
import { TrainingView } from "./training/training_view.js";

/** Views in the order of their tabs. `has` tells if there is data for the view; `make` builds it when it is first shown. */
const kViews = [
  { name: "graph", title: "Graph", has: (json) => json.models.some((model) => model.entries.length > 0), make: graphView },
  { name: "memory", title: "Memory", has: (json) => anyEntry(json, (entry) => entry.plan), make: memoryView },
  { name: "time", title: "Time", has: (json) => anyEntry(json, (entry) => entry.measured && entry.plan), make: timeView },
  { name: "difference", title: "Difference", has: (json) => json.difference, make: (app) => new DifferenceView(app) },
  { name: "training", title: "Training", has: (json) => json.runs.length > 0, make: trainingView },
  { name: "numerics", title: "Numerics", has: (json) => json.numerics, make: (app) => new NumericsView(app) },
  { name: "model", title: "Weights", has: (json) => json.models.some((model) => model.states.name.length + model.tensors.name.length + model.metadata.length > 0), make: modelView },
];

const kMaxTabs = 8; // of entry points; more are shown as a list

function anyEntry(json, has) {
  return json.models.some((model) => model.entries.some((entry) => has(entry)));
}

class App {
  constructor(json) {
    this.page = new Page(json);
    this.views = kViews.filter((view) => view.has(json));
    this.panes = new Map();
    this.main = element("main", { id: "main" });
    this.tabs = element("div", { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: (event) => this.tabKey(event) });
    this.where = element("div", { class: "where" });
    this.model = 0;
    this.entry = firstEntry(json.models[0]?.entries ?? []);
    document.title = shortened(`${json.title} – Genesis`, 200);
    document.body.prepend(this.header(), this.main);
    document.addEventListener("keydown", (event) => this.key(event));
  }

  header() {
    const { json } = this.page;
    this.themeButton = button("◐", () => chooseTheme(isDark() ? "light" : "dark"), { "aria-label": "Light or dark" });
    return element("header", {}, element("h1", { title: json.title }, shortened(json.title, 60)), this.where, this.tabs, element("span", { class: "space" }),
      this.themeButton, button("About", () => about(json.made_by)));
  }

  start() {
    if (this.views.length === 0) return fill(this.main, element("p", { class: "empty" }, "This page has no data to show."));
    const wanted = this.views.find((view) => view.name === location.hash.slice(1)) ?? this.views.find((view) => view.name === this.page.json.view);
    return this.show((wanted ?? this.views[0]).name);
  }

  /** The current entry point of the current model, which most views show. */
  get currentEntry() {
    return this.page.json.models[this.model]?.entries[this.entry];
  }

  async show(name) {
    this.current = name;
    this.showTabs();
    this.showWhere();
    const view = this.views.find((one) => one.name === name);
    if (!this.panes.has(name)) this.panes.set(name, view.make(this));
    const pane = this.panes.get(name);
    fill(this.main, pane.root);
    await pane.shown?.();
    document.body.dataset.ready = name;
  }

  showTabs() {
    fill(this.tabs, this.views.map((view) => button(view.title, () => this.show(view.name), {
      role: "tab", id: `tab-${view.name}`, tabIndex: view.name === this.current ? 0 : -1, "aria-selected": String(view.name === this.current), "aria-controls": "main" })));
    document.getElementById(`tab-${this.current}`)?.scrollIntoView({ block: "nearest", inline: "nearest" }); // a phone shows some tabs
  }

  // Shows the choice of model and entry point if there are several.
  showWhere() {
    const { models } = this.page.json, entries = models[this.model]?.entries ?? [];
    fill(this.where,
      models.length > 1 && choice("Model", models.map((model, i) => [String(i), shortened(model.file, 60)]), String(this.model), (i) => this.useEntry(Number(i), 0)),
      entries.length > kMaxTabs ? choice("Entry point", entries.map((entry, i) => [String(i), shortened(entry.name, 60)]), String(this.entry), (i) => this.useEntry(this.model, Number(i))) : entries.length > 0 && this.entryTabs(entries));
  }

  entryTabs(entries) {
    const go = (i) => this.useEntry(this.model, (i + entries.length) % entries.length).then(() => this.where.querySelector("[aria-selected=true]")?.focus());
    const keys = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) go(this.entry + by);
      if (by) event.preventDefault();
    };
    return element("div", { class: "entries", role: "tablist", "aria-label": "Entry points", onkeydown: keys }, entries.map((entry, i) => button(shortened(entry.name, 40), () => this.useEntry(this.model, i), {
      role: "tab", tabIndex: i === this.entry ? 0 : -1, "aria-selected": String(i === this.entry), "aria-controls": "main", title: shortened(entry.name, 400) })));
  }

  async useEntry(model, entry) {
    Object.assign(this, { model, entry });
    for (const pane of this.panes.values()) pane.entryChanged?.();
    await this.show(this.current);
  }

  /** Shows the graph of the current entry point, as it runs or as its author wrote it, with this node selected. */
  async showNode(path) {
    await this.show("graph");
    const { snapshots } = this.currentEntry, name = this.page.names.full(path);
    for (const snapshot of [this.graph.snapshot, snapshots.length - 1, 0]) {
      await this.graph.use(this.model, this.entry, snapshot);
      const node = this.graph.find(name);
      if (node >= 0) return this.graph.go(node);
    }
  }

  /** Shows the graph colored by an amount. */
  async showGraphBy(mode) {
    await this.show("graph");
    this.graph.chooseColor(mode);
  }

  /** Shows the second of two models colored by changes. */
  async showChange(entry, node = -1) {
    await this.useEntry(1, entry);
    await this.show("graph");
    await this.graph.use(1, entry, 0);
    this.graph.chooseColor("change");
    if (node >= 0) await this.graph.go(node);
  }

  tabKey(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const at = this.views.findIndex((view) => view.name === this.current), next = this.views[(at + by + this.views.length) % this.views.length];
    this.show(next.name);
    document.getElementById(`tab-${next.name}`).focus();
    event.preventDefault();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    if (this.panes.get(this.current)?.pageKey?.(event)) event.preventDefault();
  }
}

function graphView(app) {
  const pane = new GraphPane(app.page, app.worker ??= new LayoutWorker(layoutScript));
  let stale = true;
  app.graph = pane;
  return {
    root: pane.root,
    pageKey: (event) => pane.pageKey(event),
    entryChanged: () => (stale = true),
    shown: async () => {
      if (stale) {
        stale = false;
        pane.selected = -1;
        await pane.use(app.model, app.entry, firstSnapshot(app.currentEntry));
      }
      pane.view.draw();
    },
  };
}

function trainingView(app) {
  const view = new TrainingView(app);
  if (app.page.json.live) follow(app.page.json, view);
  return view;
}

// Returns the measured entry point; else a training step, whose graph includes the other entry points; else the first.
function firstEntry(entries) {
  const found = [(entry) => entry.measured, (entry) => entry.name === "train_step"].map((wanted) => entries.findIndex(wanted));
  return found.find((i) => i >= 0) ?? 0;
}

// Returns the last snapshot, which runs, if it was measured; else the author's graph.
function firstSnapshot(entry) {
  return entry.measured ? entry.snapshots.length - 1 : 0;
}

async function start() {
  chooseTheme(null);
  const app = new App(await unpack(document.getElementById("data").textContent));
  window.genesis = app; // for tests and for curious readers
  await app.start();
}

start().catch((error) => {
  document.body.append(element("p", { class: "problem", role: "alert" }, `This page cannot be shown: ${error.message}`));
  throw error;
});
