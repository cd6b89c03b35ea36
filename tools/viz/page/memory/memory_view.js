// The view "Memory": the arena over the steps, its peak with the largest tensors, sums by kind and by layer, memory outside the
// arena, and recomputation under smaller budgets.
import { BlockChart } from "../charts/block_chart.js";
import { byteTicks, roundTicks } from "../charts/ticks.js";
import { button, element, fill, shortened } from "../core/dom.js";
import { bytes, count, percent, roundBytes } from "../core/format.js";
import { Table } from "../core/table.js";
import { blockColors } from "../core/theme.js";
import { bars, largest } from "./bars.js";
import { BudgetPanel } from "./budget_panel.js";
import { ranksPanel } from "./ranks_panel.js";
import { aliveAt, blockRows, shortName, sums } from "./memory_data.js";

const kHues = { activation: 215, gradient: 32, scratch: null, result: 140, other: 280 };

/** @param {{page: any, currentEntry: any, showNode(path: number): void}} app */
export function memoryView(app) {
  const root = element("div", { class: "memory view" });
  let entry = null;
  return {
    root,
    shown: () => {
      if (entry === app.currentEntry) return;
      entry = app.currentEntry;
      fill(root, entry.plan ? new Memory(app, entry).parts() : element("p", { class: "empty" }, entry.problem ?? "There is no plan for this entry point."));
    },
  };
}

class Memory {
  constructor(app, entry) {
    Object.assign(this, { app, entry, plan: entry.plan });
    this.rows = blockRows(app.page, entry.plan);
    this.table = new Table("Tensors alive at a step", [
      { title: "Tensor", value: (row) => row.name, text: (row) => shortened(row.name, 90), wide: true },
      { title: "Bytes", value: (row) => row.bytes, text: (row) => bytes(row.bytes), number: true },
      { title: "Kind", value: (row) => row.kind }, { title: "Type", value: (row) => row.type },
      { title: "Steps", value: (row) => row.first, text: (row) => `${row.first} – ${row.last}`, number: true }],
    { sortBy: 1, select: (row) => this.choose(row.i, true) });
    this.aliveTitle = element("h3");
    this.chosen = element("div", { class: "chosen", "aria-live": "polite" }, element("span", { class: "muted" }, "A click shows a tensor; the wheel zooms, a drag pans."));
    this.sums = element("div", { class: "columns" });
    this.moment = element("div", { class: "moment" });
  }

  parts() {
    this.chart = this.arena();
    this.showStep(this.plan.peak_step);
    return [this.summary(), element("div", { class: "legend inline" }, Object.entries(kHues).filter(([kind]) => this.rows.some((row) => row.kind === kind)).map(([kind, hue]) =>
      element("span", {}, element("span", { class: "swatch", style: { background: blockColors(hue, true).fill, "border-color": blockColors(hue).border } }), kind))),
    this.chart.root, this.chosen, this.stepSlider(), this.moment, this.sums, this.entry.mesh && ranksPanel(this.entry.mesh), this.entry.budgets.length > 0 && new BudgetPanel(this.app.page, this.entry).root,
    this.aliveTitle, this.table.root];
  }

  summary() {
    const { plan } = this, states = plan.state_bytes.map(([role, size]) => [`states: ${role}`, size]);
    const all = [["arena", plan.arena_bytes], ...states, ["constants", plan.constant_bytes], ["inputs", plan.input_bytes]].filter(([, size]) => size > 0);
    const total = all.reduce((sum, [, size]) => sum + size, 0);
    return element("div", {}, element("h2", {}, `${bytes(total)} altogether, ${bytes(plan.arena_bytes)} of it the arena`),
      element("p", { class: "muted" }, `At most ${bytes(plan.lower_bound_bytes)} are alive at once, at step ${plan.peak_step} of ${count(plan.live_bytes.length, "step")}; what the arena has beyond it, ${percent(1 - plan.lower_bound_bytes / (plan.arena_bytes || 1))}, is lost between blocks.`),
      bars(all.map(([name, size]) => ({ name, value: size, text: bytes(size) }))));
  }

  arena() {
    const { plan, rows } = this;
    return new BlockChart({
      label: `The arena over ${plan.live_bytes.length} steps; the same tensors are in the table below.`,
      blocks: rows.map((row) => ({ left: row.first, right: row.last + 1, low: row.offset, high: row.offset + row.bytes })),
      colors: (i) => blockColors(kHues[rows[i].kind], true), words: (i) => shortName(rows[i].name), height: plan.arena_bytes || 1, down: false,
      tip: (i) => [shortened(rows[i].name, 160), `${rows[i].type} ${bytes(rows[i].bytes)}, ${rows[i].kind}`, `steps ${rows[i].first} to ${rows[i].last}, at ${bytes(rows[i].offset)}`],
      xFormat: (x) => x.toLocaleString("en"), xTitle: "step", xTicks: (low, high, most) => roundTicks(low, high, most).filter(Number.isInteger),
      yTicks: () => byteTicks(0, plan.arena_bytes || 1).map((at) => ({ at, text: roundBytes(at) })),
      marks: [{ at: plan.peak_step + 0.5, text: `peak ${bytes(plan.lower_bound_bytes)}` }], select: (i) => this.choose(i, false),
    });
  }

  stepSlider() {
    const last = this.plan.live_bytes.length - 1;
    this.slider = element("input", { type: "range", min: 0, max: last, value: this.plan.peak_step, "aria-label": "Step", oninput: () => this.showStep(Number(this.slider.value)) });
    this.stepText = element("output");
    this.showStep(this.plan.peak_step);
    return element("div", { class: "slider" }, element("label", {}, "Step ", this.slider), this.stepText, button("Peak", () => this.showStep(this.plan.peak_step)));
  }

  showStep(step) {
    const alive = aliveAt(this.rows, step);
    if (this.slider) {
      this.slider.value = String(step);
      this.stepText.textContent = `${step}: ${bytes(this.plan.live_bytes[step])} alive`;
      this.chart.options.marks = [this.chart.options.marks[0], { at: step + 0.5, text: "" }];
      this.chart.draw();
    }
    fill(this.moment, this.atStep(step, alive));
    this.aliveTitle.textContent = `${count(alive.length, "tensor")} alive at step ${step}${step === this.plan.peak_step ? ", the peak" : ""}`;
    const column = (title, key) => element("div", {}, element("h3", {}, title), bars(largest(sums(alive, key).map(([name, value]) => ({ name: shortened(name, 60), value, text: bytes(value) })), 14, bytes)));
    fill(this.sums, column("By kind", (row) => row.kind), column("By layer", (row) => row.layer));
    this.table.use(alive);
  }

  // Shows the arena at one step from its first byte to its last, and the blocks that begin or have just ended.
  atStep(step, alive) {
    const arena = this.plan.arena_bytes || 1, named = (rows) => rows.slice().sort((a, b) => b.bytes - a.bytes).slice(0, 5).map((row) => `${shortName(row.name)} ${bytes(row.bytes)}`).join(", ") + (rows.length > 5 ? ` and ${rows.length - 5} more` : "");
    const begins = alive.filter((row) => row.first === step), ends = this.rows.filter((row) => row.last === step - 1);
    return [element("div", { class: "arena-strip", role: "img", "aria-label": `The arena at step ${step}: ${count(alive.length, "tensor")} in ${bytes(arena)}` }, alive.map((row) =>
      element("div", { title: `${shortened(row.name, 160)}: ${bytes(row.bytes)} at ${bytes(row.offset)}`, style: { left: `${(100 * row.offset) / arena}%`, width: `${(100 * row.bytes) / arena}%`, background: blockColors(kHues[row.kind], true).fill } }))),
    element("p", { class: "muted" }, begins.length > 0 ? `Begins here: ${named(begins)}. ` : "Nothing begins here. ", ends.length > 0 ? `Given back before: ${named(ends)}.` : "")];
  }

  choose(i, scroll) {
    const row = this.rows[i];
    this.chart.selected = i;
    if (scroll) {
      const wide = Math.max(20, (row.last - row.first) * 3);
      this.chart.show((row.first + row.last) / 2 - wide, (row.first + row.last) / 2 + wide);
      this.chart.root.scrollIntoView({ block: "nearest" });
    }
    this.chart.draw();
    fill(this.chosen, element("b", { class: "name" }, shortened(row.name, 300)), ` ${row.type}, ${bytes(row.bytes)}, ${row.kind}, steps ${row.first} to ${row.last} `,
      button("Show in the graph", () => this.app.showNode(row.path)));
  }
}
