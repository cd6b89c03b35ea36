// Shows the cost of a smaller arena: a slider over the planned budgets, with the nodes that each recomputes.
import { LineChart } from "../charts/line_chart.js";
import { byteTicks } from "../charts/ticks.js";
import { element, shortened } from "../core/dom.js";
import { bytes, count, quantity } from "../core/format.js";
import { Table } from "../core/table.js";

export class BudgetPanel {
  constructor(page, entry) {
    this.budgets = entry.budgets;
    this.page = page;
    this.text = element("output", { class: "budget-text" });
    this.slider = element("input", { type: "range", min: 0, max: this.budgets.length - 1, value: 0, "aria-label": "Memory budget", oninput: () => this.show(Number(this.slider.value)) });
    this.chart = new LineChart({ title: "Bytes alive by step", xTitle: "step", yFormat: bytes, yTicks: byteTicks, height: 170, zero: true });
    this.table = new Table("Computed again", [
      { title: "Computed again", value: (row) => row.name, text: (row) => shortened(row.name, 90), wide: true },
      { title: "Bytes", value: (row) => row.bytes, text: (row) => bytes(row.bytes), number: true },
      { title: "FLOPs", value: (row) => row.flops, text: (row) => quantity(row.flops, "FLOP"), number: true }], { sortBy: 1 });
    this.root = element("section", { class: "budgets", "aria-label": "Memory budgets" }, element("h3", {}, "With a memory budget"),
      element("div", { class: "slider" }, element("label", {}, "Budget ", this.slider), this.text), this.chart.root, this.table.root);
    this.show(0);
  }

  show(i) {
    const budget = this.budgets[i], none = budget.recomputed.length === 0;
    this.text.textContent = `${budget.budget_bytes === null ? "none" : bytes(budget.budget_bytes)}: an arena of ${bytes(budget.arena_bytes)}, ${count(budget.steps, "step")}; ` +
      (none ? "nothing is computed again" : `${count(budget.recomputed.length, "value")} computed again, ${quantity(budget.recomputed_flops, "FLOP")} and ${bytes(budget.recomputed_bytes)} more to move`);
    const series = (at, name) => ({ name, x: this.budgets[at].live_bytes.map((_, step) => step), y: this.budgets[at].live_bytes });
    this.chart.use(i === 0 ? [series(0, "no budget")] : [series(0, "no budget"), series(i, bytes(budget.budget_bytes))]);
    this.table.root.hidden = none;
    this.table.use(budget.recomputed.map((row) => ({ ...row, name: this.page.names.full(row.node) })));
  }
}
