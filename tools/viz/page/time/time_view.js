// The view "Time": measured steps as a timeline with a track per thread or stream, and as a table by step, op, kernel or layer
// with the times that the device's limits would allow.
import { BlockChart } from "../charts/block_chart.js";
import { roundTicks } from "../charts/ticks.js";
import { button, choice, download, element, fill, shortened } from "../core/dom.js";
import { bytes, count, duration, percent, quantity } from "../core/format.js";
import { lenientMatcher } from "../core/matcher.js";
import { Table } from "../core/table.js";
import { blockColors, kindOf, opColors, scaleColors } from "../core/theme.js";
import { bars, largest } from "../memory/bars.js";
import { shortName } from "../memory/memory_data.js";
import { chromeTrace, grouped, runRows, timeRows } from "./time_data.js";
import { communicationRows, trackNames, trackRows, spanRows } from "./timeline_data.js";

const kBy = { step: "step", op: "op", kernel: "kernel", layer: "layer" };

export function timeView(app) {
  const root = element("div", { class: "time view" });
  let entry = null, time = null;
  return {
    root,
    pageKey: (event) => time?.pageKey(event) ?? false,
    shown: () => {
      if (entry === app.currentEntry) return;
      entry = app.currentEntry;
      time = entry.measured && entry.plan ? new Time(app, entry) : null;
      fill(root, time ? time.parts() : element("p", { class: "empty" }, "No run of this entry point was measured."));
    },
  };
}

class Time {
  constructor(app, entry) {
    Object.assign(this, { app, entry, by: "step", color: "op", timeline: entry.measured.timeline ?? null });
    this.alone = timeRows(app.page, app.model, app.entry);
    this.inRun = this.timeline ? runRows(this.timeline, this.alone) : [];
    this.spans = this.timeline ? spanRows(this.timeline, this.alone) : [];
    this.shown = this.timeline ? "run" : "alone";
    this.chosen = element("div", { class: "chosen", "aria-live": "polite" }, element("span", { class: "muted" }, "A click shows a step; the wheel zooms, a drag pans; a drag with Shift sums up. Keys: , and . step along a track, f looks closer, w a s d move, 0 shows all."));
    this.fits = () => true;
    [this.tableBox, this.chartBox, this.sumBox] = [element("div"), element("div"), element("div")];
  }

  /** Returns the steps of the run in the timeline, so that table and timeline show the same run. */
  get rows() {
    return this.shown === "run" ? this.inRun : this.alone;
  }

  get total() {
    return this.rows.reduce((sum, row) => sum + row.us, 0);
  }

  parts() {
    this.show(this.shown);
    return [this.head(), this.toolbar(), this.legend(), this.chartBox, this.chosen, this.sumBox, this.tableBox];
  }

  show(shown) {
    this.shown = shown;
    this.showChart();
    fill(this.sumBox, this.tracks(), this.kinds());
    this.showTable();
  }

  showChart() {
    this.chart = this.shown === "run" ? this.blocks(this.spans, trackNames(this.timeline)) : this.blocks(this.alone, this.entry.measured.tracks);
    fill(this.chartBox, this.chart.root);
  }

  head() {
    const { measured } = this.entry, least = this.alone.reduce((sum, row) => sum + row.least, 0);
    return element("div", {}, element("h2", {}, `${duration(this.timeline?.total_us ?? measured.total_us)} on ${measured.device}`),
      element("p", { class: "muted" }, `${count(this.alone.length, "step")}, the fastest of ${count(measured.runs, "run")}; the table is of the run that the timeline shows, and its medians are of all runs${this.timeline ? `; one after the other they take ${duration(measured.total_us)}` : ""}${least > 0 ? `; the device's limits allow ${duration(least)} for the same, ${percent(least / (this.alone.reduce((sum, row) => sum + row.us, 0) || 1))} of the time in steps` : ""}.`),
      measured.peaks.length > 0 && element("details", {}, element("summary", {}, "Limits of this device"), bars(measured.peaks.map(({ name, value, unit }) => ({ name: shortened(name, 80), value: 0, text: quantity(value, unit) })))));
  }

  toolbar() {
    return element("div", { class: "toolbar" }, this.timeline && choice("Show", [["run", "the run, as it goes"], ["alone", "one step after the other"]], this.shown, (shown) => this.show(shown)),
      choice("Table by", Object.entries(kBy), this.by, (by) => { this.by = by; this.showTable(); }),
      choice("Color", [["op", "kind of op"], ["roofline", "share of the roofline"]], this.color, (color) => { this.color = color; this.chart.draw(); }),
      element("input", { type: "search", placeholder: "Filter by name, op or kernel", "aria-label": "Filter by name, op or kernel", oninput: (event) => this.useFilter(event.target.value) }),
      button("All", () => this.chart.show(0, this.chart.end), { title: "The whole run (0)" }),
      button("Export trace", () => download("trace.json", "application/json", chromeTrace(this.entry, this.alone, this.spans)), { title: "For Perfetto and chrome://tracing" }),
      button("Show in the graph", () => this.app.showGraphBy("time")));
  }

  blocks(rows, tracks) {
    const chart = new BlockChart({
      label: `Timeline of ${rows.length} pieces of work on ${count(tracks.length, "track")}; the steps are in the table below.`, down: true, height: tracks.length, wideLabels: true,
      blocks: rows.map((row) => ({ left: row.start, right: row.end, low: row.track + 0.06, high: row.track + 0.94 })),
      colors: (i) => (!this.fits(rows[i]) ? blockColors(null) : this.color === "op" ? opColors(rows[i].op, true) : scaleColors(rows[i].share === null ? 0 : 1 - rows[i].share)), words: (i) => shortName(rows[i].name) || rows[i].op,
      tip: (i) => [shortened(rows[i].name || rows[i].op, 160), `${rows[i].op}, ${rows[i].kernel}`, `${duration(rows[i].us)} from ${duration(rows[i].start)}`, tracks[rows[i].track], rows[i].share === null ? "" : `${percent(rows[i].share)} of the roofline`].filter(Boolean),
      xFormat: duration, xTitle: "time", xTicks: roundTicks, yTicks: () => tracks.map((name, i) => ({ at: i + 0.5, text: name.length > 23 ? `${name.slice(0, 22)}…` : name })), select: (i) => this.choose(rows[i]), area: (from, to) => this.sum(rows, from, to),
    });
    chart.canvas.style.height = `${Math.min(640, 60 + Math.max(1, tracks.length) * 46)}px`;
    return chart;
  }

  // Shows the color of each kind of op that ran.
  legend() {
    const kinds = [...new Map(this.rows.map((row) => [kindOf(row.op).name, row.op]))];
    return element("div", { class: "legend inline" }, kinds.map(([name, op]) => element("span", {}, element("span", { class: "swatch", style: { background: opColors(op, true).fill, "border-color": opColors(op, true).border } }), name)));
  }

  // Shows how busy each track was, and how much communication was overlapped by computation.
  tracks() {
    if (this.shown !== "run") return null;
    const rows = trackRows(this.timeline, this.spans), exchanged = communicationRows(this.timeline, this.spans);
    return element("div", { class: "columns" }, element("div", {}, element("h3", {}, "How busy each track was"), bars(rows.map((row) => ({ name: row.name, value: row.us, text: `${duration(row.us)}, ${percent(row.share)}` })))),
      exchanged.length > 0 && element("div", {}, element("h3", {}, "Communication, and how much of it computation hides"), bars(exchanged.map((row) => ({ name: `rank ${row.rank}`, value: row.us, text: `${duration(row.us)}, ${percent(row.hidden / row.us)} hidden` })))));
  }

  useFilter(text) {
    const fits = lenientMatcher(text);
    this.fits = (row) => fits(`${row.name} ${row.op} ${row.kernel}`);
    this.chart.draw();
    this.showTable();
  }

  // Shows the work between two times, by op.
  sum(rows, from, to) {
    const inside = rows.map((row) => ({ ...row, us: Math.min(row.end, to) - Math.max(row.start, from) })).filter((row) => row.us > 0), all = inside.reduce((sum, row) => sum + row.us, 0);
    const most = 8, found = grouped(inside, "op").sort((a, b) => b.us - a.us), ops = found.slice(0, most).map((row) => `${row.name} ${duration(row.us)} in ${row.count}`);
    if (found.length > most) ops.push(`and ${count(found.length - most, "more op")}`);
    fill(this.chosen, element("b", {}, `${duration(to - from)} from ${duration(from)}`), ` ${count(inside.length, "piece")} of work, ${duration(all)} together: ${ops.join(", ")}`);
  }

  get current() {
    return this.shown === "run" ? this.spans : this.alone;
  }

  /** Handles keys of the whole page while this view is shown. */
  pageKey(event) {
    const { chart } = this, wide = chart.to - chart.from, row = this.current[chart.selected];
    if (event.key === "w") chart.zoom(1.4);
    else if (event.key === "s") chart.zoom(1 / 1.4);
    else if (event.key === "a" || event.key === "d") chart.show(chart.from + (event.key === "a" ? -0.15 : 0.15) * wide, chart.to + (event.key === "a" ? -0.15 : 0.15) * wide);
    else if (event.key === "0") chart.show(0, chart.end);
    else if (event.key === "." || event.key === ",") this.step(row, event.key === "." ? 1 : -1);
    else if (event.key === "f" && row) chart.show(row.start - row.us * 0.5, row.end + row.us * 0.5);
    else if (event.key === "Escape") this.forget();
    else return false;
    return true;
  }

  // Selects the next span on the same track.
  step(row, by) {
    const track = this.current.filter((other) => other.track === (row?.track ?? 0)).sort((a, b) => a.start - b.start), at = track.indexOf(row), next = track[at < 0 ? 0 : at + by];
    if (!next) return;
    const { chart } = this, wide = chart.to - chart.from;
    if (next.start < chart.from || next.end > chart.to) chart.show((next.start + next.end - wide) / 2, (next.start + next.end + wide) / 2);
    this.choose(next);
  }

  forget() {
    this.chart.area = null;
    this.chart.selected = -1;
    this.chart.draw();
    fill(this.chosen);
  }

  choose(row) {
    this.chart.selected = row.i;
    this.chart.draw();
    fill(this.chosen, element("b", { class: "name" }, shortened(row.name || row.op, 300)), ` ${row.op}, ${row.kernel}: ${duration(row.us)}, ${quantity(row.flops, "FLOP")}, ${bytes(row.bytes)} `,
      row.path >= 0 && button("Show in the graph", () => this.app.showNode(row.path)));
  }

  kinds() {
    const byKind = new Map(), { total } = this;
    for (const row of this.rows) byKind.set(kindOf(row.op).name, (byKind.get(kindOf(row.op).name) ?? 0) + row.us);
    const text = (us) => `${duration(us)}, ${percent(us / total)}`;
    const list = (title, sums) => element("div", {}, element("h3", {}, title), bars(largest(sums.sort((a, b) => b[1] - a[1]).map(([name, us]) => ({ name: shortened(name, 50), value: us, text: text(us) })), 12, text)));
    return element("div", { class: "columns" }, list("By kind of op", [...byKind]), list("By layer", grouped(this.rows, "layer").map((row) => [row.name, row.us])));
  }

  showTable() {
    const steps = this.by === "step", { total } = this;
    const columns = [{ title: steps ? "Step" : this.by, value: (row) => row.name || row.op, text: (row) => shortened(row.name || row.op, 80), wide: true },
      !steps && { title: "Steps", value: (row) => row.count, number: true },
      { title: "Time", value: (row) => row.us, text: (row) => duration(row.us), number: true }, { title: "Median", value: (row) => row.median, text: (row) => duration(row.median), number: true }, { title: "Share", value: (row) => row.us, text: (row) => percent(row.us / total), number: true },
      { title: "Roofline", value: (row) => row.share, text: (row) => percent(row.share), number: true }, steps && { title: "Op", value: (row) => row.op }, steps && { title: "Kernel", value: (row) => row.kernel },
      { title: "FLOP/s", value: (row) => row.flopRate, text: (row) => (row.flopRate ? quantity(row.flopRate) : "–"), number: true },
      { title: "Bytes/s", value: (row) => row.byteRate, text: (row) => (row.byteRate ? `${bytes(row.byteRate)}/s` : "–"), number: true }].filter(Boolean);
    const table = new Table(`Time by ${this.by}`, columns, { sortBy: steps ? 1 : 2, select: steps ? (row) => this.reveal(row) : undefined });
    const kept = this.rows.filter((row) => this.fits(row));
    fill(this.tableBox, table.use(steps ? kept : grouped(kept, this.by)).root);
  }

  // Shows a step. In the timeline of a run that is the longest span of the step.
  reveal(step) {
    const row = this.shown === "run" ? this.spans.filter((span) => span.step === step.i).reduce((longest, span) => (span.us > longest.us ? span : longest), { ...step, us: -1 }) : step;
    const wide = Math.max(row.us * 4, this.chart.end / 200);
    this.chart.show((row.start + row.end) / 2 - wide, (row.start + row.end) / 2 + wide);
    this.choose(row);
    this.chart.root.scrollIntoView({ block: "nearest" });
  }
}
