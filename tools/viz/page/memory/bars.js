// Shows a short list of amounts as bars: name, bar, value as text.
import { element } from "../core/dom.js";

/**
 * Returns the first `most` amounts of a sorted list, and a row without a bar that has the number and the sum of the others.
 */
export function largest(rows, most, format) {
  const rest = rows.slice(most);
  if (rest.length < 2) return rows;
  const value = rest.reduce((sum, row) => sum + row.value, 0);
  return [...rows.slice(0, most), { name: `${rest.length.toLocaleString("en")} more`, value: 0, text: format(value) }];
}

/** @param {{name: string, value: number, text: string}[]} rows */
export function bars(rows) {
  const most = rows.reduce((largest, row) => Math.max(largest, row.value), 0) || 1;
  return element("table", { class: "bars" }, element("tbody", {}, rows.map(({ name, value, text }) => element("tr", {},
    element("th", { scope: "row" }, name),
    element("td", { class: "bar-cell", "aria-hidden": "true" }, element("div", { class: "bar", style: { width: `${(100 * value) / most}%` } })),
    element("td", { class: "number" }, text)))));
}
