// Converts the plan's blocks to rows, and sums them by kind, by layer and at a step.
export const kinds = ["activation", "gradient", "scratch", "result"];

/** @param {import("../core/page_data").Page} page @param {import("../data").Plan} plan */
export function blockRows(page, plan) {
  const { blocks } = plan;
  return blocks.name.map((name, i) => ({
    i, name: page.names.full(name), path: name, offset: blocks.offset[i], bytes: blocks.bytes[i], first: blocks.first[i], last: blocks.last[i],
    kind: kinds[blocks.kind[i]] ?? "other", type: page.typeTexts[blocks.type[i]] ?? "", layer: layerOf(page.names.full(name)) }));
}

/** Returns "model.layers.3" for "model.layers.3.mlp.swiglu": the name up to its first number, or else the outermost scope. */
export function layerOf(name) {
  const parts = name.split(".");
  const number = parts.findIndex((part) => /^\d+$/.test(part));
  return number > 0 ? parts.slice(0, number + 1).join(".") : parts.length > 1 ? parts[0] : "(top)";
}

export function aliveAt(rows, step) {
  return rows.filter((row) => row.first <= step && step <= row.last);
}

/** Returns sums of bytes by the key of a row, largest first. */
export function sums(rows, key) {
  const found = new Map();
  for (const row of rows) found.set(key(row), (found.get(key(row)) ?? 0) + row.bytes);
  return [...found].sort((a, b) => b[1] - a[1]);
}


/** Returns the end of a name, which says more than its beginning. */
export function shortName(name) {
  const [forward, gradient] = name.split(".grad.");
  return forward.split(".").slice(-2).join(".") + (gradient === undefined ? "" : " grad");
}
