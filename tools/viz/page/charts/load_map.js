// Draws how tokens are shared among the experts of each layer over the steps of a training: a map for each layer, with steps from left
// to right and experts from top to bottom. A color says how many times the mean load an expert has.
import { element, svg } from "../core/dom.js";
import { digits } from "../core/format.js";
import { scaleColors } from "../core/theme.js";

const kWidth = 640, kHeight = 96, kColumns = 120, kMax = 4; // loads above this many times the mean have the last color
const kCells = 60000, kFewColumns = 8; // a page with more cells is slow

/**
 * Returns the mean loads of at most `columns` ranges of rows: { from, to, loads } with rows `from` to `to`. Rows without loads have none.
 * @param {(number[][] | null)[]} rows
 */
export function loadColumns(rows, columns = kColumns) {
  const known = rows.map((loads, row) => ({ loads, row })).filter(({ loads }) => loads), count = Math.min(columns, known.length);
  return Array.from({ length: count }, (_, i) => {
    const part = known.slice(Math.floor(i * known.length / count), Math.floor((i + 1) * known.length / count));
    const loads = part[0].loads.map((layer, l) => layer.map((_, e) => part.reduce((sum, { loads: of }) => sum + (of[l]?.[e] ?? 0), 0) / part.length));
    return { from: part[0].row, to: part[part.length - 1].row, loads };
  });
}

/** Returns a figure with a map for each layer; null if no row has loads. `steps` are the steps of the rows. */
export function loadMap(name, rows, steps) {
  const cells = rows.find((loads) => loads)?.reduce((sum, layer) => sum + layer.length, 0) ?? 0;
  if (cells === 0) return null;
  const columns = loadColumns(rows, Math.max(kFewColumns, Math.min(kColumns, Math.floor(kCells / cells))));
  const layers = columns[0].loads.map((layer, l) => mapOf(columns, l, layer.length, steps));
  const scale = [0, 1, 2, 3, kMax].map((times) => element("span", {}, element("span", { class: "swatch", style: { background: scaleColors(times / kMax).fill, "border-color": scaleColors(times / kMax).border } }), ` ${times}${times === kMax ? " or more" : ""} `));
  return element("figure", { class: "load-map wide" }, element("figcaption", {}, `Load of experts: ${name}`), element("div", { class: "legend inline" }, "Times the mean:", scale), layers);
}

function mapOf(columns, layer, experts, steps) {
  const wide = kWidth / columns.length, high = kHeight / experts;
  const cells = columns.flatMap((column, i) => (column.loads[layer] ?? []).map((load, expert) => svg("rect", { x: i * wide, y: expert * high, width: wide + 0.3, height: high + 0.3, fill: scaleColors(load * experts / kMax).fill },
    svg("title", {}, `layer ${layer}, expert ${expert}, ${stepsText(column, steps)}: ${digits(load * experts)} times the mean`))));
  const most = Math.max(...(columns[columns.length - 1].loads[layer] ?? [0])) * experts;
  return element("div", { class: "load-layer" }, element("small", {}, `Layer ${layer}: at last the busiest of ${experts} experts has ${digits(most)} times the mean`),
    svg("svg", { viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: "none", width: "100%", height: kHeight, role: "img", "aria-label": `Load of the experts of layer ${layer} over steps` }, cells));
}

function stepsText({ from, to }, steps) {
  return from === to ? `step ${steps[from] ?? from}` : `steps ${steps[from] ?? from} to ${steps[to] ?? to}`;
}
