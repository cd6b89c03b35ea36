// The view "Training": every column of the runs' metrics.jsonl as curves, several runs over each other, smoothed by the
// slider's weight. Shows the values under the pointer, and exports everything as CSV.
import { LineChart } from "../charts/line_chart.js";
import { loadMap } from "../charts/load_map.js";
import { isSchedule, smoothed } from "../charts/smooth.js";
import { button, choice, download, element, fill, shortened } from "../core/dom.js";
import { digits, quantity } from "../core/format.js";
import { lenientMatcher } from "../core/matcher.js";
import { lineColor } from "../core/theme.js";
import { runsAsCsv } from "./csv.js";

const kFirst = ["loss", "evaluation_loss", "eval_loss", "lr", "learning_rate", "grad_norm", "items_per_second", "tokens_per_second"];
const kXColumns = ["step", "seconds", "elapsed_seconds", "tokens", "time"];
const kSparse = 60; // if there are fewer points, they are drawn as dots

export class TrainingView {
  constructor(app) {
    this.runs = app.page.json.runs;
    this.hidden = new Set();
    this.settings = { smoothing: 0.6, xLog: false, yLog: false, x: "step", filter: "" };
    this.window = null; // of the x axis of all charts
    this.wide = new Set(); // names of charts that span the whole width
    this.charts = new Map();
    this.grid = element("div", { class: "chart-grid" });
    this.runList = element("div", { class: "run-list" });
    this.status = element("p", { class: "muted", role: "status" });
    this.loads = element("div", { class: "load-maps" });
    this.root = element("div", { class: "training view" }, this.controls(), this.runList, this.status, this.grid, this.loads);
    this.update();
  }

  controls() {
    const { settings } = this, change = (name) => (event) => {
      settings[name] = event.target.type === "checkbox" ? event.target.checked : Number(event.target.value);
      this.smoothingText.textContent = settings.smoothing.toFixed(2);
      this.update();
    };
    this.smoothingText = element("output", {}, settings.smoothing.toFixed(2));
    const check = (text, name) => element("label", {}, element("input", { type: "checkbox", checked: settings[name], onchange: change(name) }), ` ${text}`);
    const xs = kXColumns.filter((name) => this.runs.some((run) => columnOf(run, name)));
    return element("div", { class: "toolbar" }, element("label", { class: "slider" }, "Smoothing ", element("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: settings.smoothing, "aria-label": "Smoothing", oninput: change("smoothing") })), this.smoothingText,
      check("log y", "yLog"), check("log x", "xLog"), xs.length > 1 && choice("Over", xs.map((name) => [name, name]), "step", (name) => { settings.x = name; this.zoom(null); this.update(); }),
      element("input", { type: "search", placeholder: "Numbers: name or /expression/", "aria-label": "Show numbers whose name has this", oninput: (event) => { settings.filter = event.target.value; this.update(); } }),
      button("All steps", () => this.zoom(null), { title: "A drag in a chart looks at a part; this, a double click or 0 shows all" }),
      button("CSV", () => download("metrics.csv", "text/csv", runsAsCsv(this.visible())), { title: "Everything that is shown, one row a step and run" }));
  }

  visible() {
    return this.runs.filter((_, i) => !this.hidden.has(i));
  }

  /** Redraws everything. A live page calls it after every new row. */
  update() {
    this.showRuns();
    const names = [...new Set(this.runs.flatMap((run) => run.columns.map((column) => column.name)))].filter((name) => !kXColumns.includes(name));
    names.sort((a, b) => rank(a) - rank(b));
    const shown = names.filter(lenientMatcher(this.settings.filter));
    for (const name of shown) this.show(name);
    fill(this.grid, shown.length > 0 ? shown.map((name) => this.charts.get(name).root) : element("p", { class: "empty" }, names.length > 0 ? "No number has such a name." : "These runs have no numbers yet."));
    this.showLoads();
  }

  // Shows the loads of experts of the runs that have some.
  showLoads() {
    fill(this.loads, this.visible().map((run) => run.expert_load && loadMap(shortened(run.name, 60), run.expert_load, columnOf(run, "step")?.values ?? [])).filter(Boolean));
  }

  /** Shows the same part of the x axis in all charts. */
  zoom(window) {
    this.window = window;
    for (const chart of this.charts.values()) {
      chart.window = window;
      chart.draw();
    }
  }

  make(name) {
    const chart = new LineChart({ title: shortened(name, 80), xTitle: "step", yFormat: name.includes("per_second") ? quantity : digits, zoomed: (window) => this.zoom(window) });
    chart.root.querySelector("figcaption").append(" ", button("⤢", () => this.widen(name), { class: "link", "aria-label": `${shortened(name, 60)}: over the whole width`, "aria-pressed": "false" }));
    chart.window = this.window;
    this.charts.set(name, chart);
    return chart;
  }

  widen(name) {
    const chart = this.charts.get(name), wide = !this.wide.delete(name);
    if (wide) this.wide.add(name);
    chart.root.classList.toggle("wide", wide);
    chart.root.querySelector("figcaption button").setAttribute("aria-pressed", String(wide));
    chart.options.height = wide ? 420 : 220;
    chart.svg.setAttribute("height", String(chart.options.height));
    chart.draw();
  }

  showRuns() {
    fill(this.runList, this.runs.map((run, i) => element("label", { title: run.file }, element("input", { type: "checkbox", checked: !this.hidden.has(i), onchange: () => {
      if (!this.hidden.delete(i)) this.hidden.add(i);
      this.update();
    } }), element("span", { class: "swatch", style: { background: lineColor(i), "border-color": lineColor(i) } }), ` ${shortened(run.name, 60)} `, element("small", {}, `${run.rows.toLocaleString("en")} rows${run.skipped_lines ? `, ${run.skipped_lines} lines skipped` : ""}`))));
  }

  show(name) {
    const chart = this.charts.get(name) ?? this.make(name), { settings } = this;
    Object.assign(chart.options, { xLog: settings.xLog, yLog: settings.yLog && !isSchedule(name), xTitle: settings.x });
    chart.use(this.runs.flatMap((run, i) => (this.hidden.has(i) ? [] : this.series(run, i, name))));
  }

  // Returns the smoothed curve, with the raw values drawn faintly behind it.
  series(run, color, name) {
    const column = columnOf(run, name);
    if (!column) return [];
    const x = columnOf(run, this.settings.x)?.values ?? column.values.map((_, i) => i), known = column.values.filter((value) => value !== null).length;
    const sparse = known <= kSparse || known < column.values.length / 2, weight = sparse || isSchedule(name) ? 0 : this.settings.smoothing;
    const line = { name: run.name, x, y: smoothed(column.values, weight), color, dots: sparse && known <= kSparse };
    return weight > 0 ? [{ ...line, y: column.values, faint: true }, line] : [line];
  }
}

function columnOf(run, name) {
  return run.columns.find((column) => column.name === name);
}

// Returns a rank for sorting: the most important columns first, then the rest in the order of the file.
function rank(name) {
  const at = kFirst.indexOf(name);
  return at < 0 ? kFirst.length : at;
}
