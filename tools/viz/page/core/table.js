// A table that can be sorted by any column and shows its first rows.
import { button, element, fill, shortened } from "./dom.js";

const kRows = 200;

/**
 * @template Row
 * @typedef {{title: string, value(row: Row): number|string|null, text?(row: Row): string|Node, number?: boolean, wide?: boolean}} Column
 *   `value`: the sort key, which is also shown if there is no `text`
 */
export class Table {
  /** @param {string} label @param {Column<any>[]} columns @param {{sortBy?: number, selectOn?: number, select?(row: any): void}} [options] */
  constructor(label, columns, options = {}) {
    Object.assign(this, { columns, options, sortBy: options.sortBy ?? -1, down: true, shown: kRows });
    this.head = element("tr");
    this.body = element("tbody");
    this.foot = element("div", { class: "muted table-foot" });
    this.root = element("div", { class: "table-box" }, element("table", { class: "table", "aria-label": label }, element("thead", {}, this.head), this.body), this.foot);
  }

  use(rows) {
    this.rows = rows;
    this.shown = kRows;
    return this.show();
  }

  show() {
    this.sort();
    fill(this.head, this.columns.map((column, i) => element("th", { scope: "col", class: column.number ? "number" : "", "aria-sort": i === this.sortBy ? (this.down ? "descending" : "ascending") : "none" },
      button(`${column.title}${i === this.sortBy ? (this.down ? " ▾" : " ▴") : ""}`, () => this.sortOn(i), { class: "link" }))));
    fill(this.body, this.sorted.slice(0, this.shown).map((row) => this.row(row)));
    const rest = this.sorted.length - this.shown;
    fill(this.foot, rest > 0 && button(`${rest.toLocaleString("en")} more`, () => {
      this.shown += 1000;
      this.show();
    }));
    return this;
  }

  row(row) {
    const { select, selectOn = 0 } = this.options;
    return element("tr", {}, this.columns.map((column, i) => {
      const value = column.text ? column.text(row) : shortened(String(column.value(row) ?? "–"), 200);
      const content = select && i === selectOn ? button(value, () => select(row), { class: "link" }) : value;
      return element("td", { class: column.number ? "number" : column.wide ? "wide" : "" }, content);
    }));
  }

  sortOn(i) {
    this.down = i === this.sortBy ? !this.down : this.columns[i].number === true;
    this.sortBy = i;
    this.show();
    this.head.children[i].querySelector("button").focus();
  }

  sort() {
    this.sorted = this.rows.slice();
    if (this.sortBy < 0) return;
    const { value } = this.columns[this.sortBy], sign = this.down ? -1 : 1;
    this.sorted.sort((a, b) => sign * compare(value(a), value(b)));
  }
}

// Compares two values. Unknown values sort last if the largest come first.
function compare(a, b) {
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : -1;
  if (b === null || b === undefined) return 1;
  return typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}
