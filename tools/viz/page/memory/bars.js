// A short list of amounts as bars: name, bar, value in words.
import { element } from "../core/dom.js";

/** @param {{name: string, value: number, text: string}[]} rows */
export function bars(rows) {
  const most = rows.reduce((largest, row) => Math.max(largest, row.value), 0) || 1;
  return element("table", { class: "bars" }, element("tbody", {}, rows.map(({ name, value, text }) => element("tr", {},
    element("th", { scope: "row" }, name),
    element("td", { class: "bar-cell", "aria-hidden": "true" }, element("div", { class: "bar", style: { width: `${(100 * value) / most}%` } })),
    element("td", { class: "number" }, text)))));
}
