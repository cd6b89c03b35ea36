// Finds nodes, inputs and outputs by name, op, type or regular expression.
import { matcher } from "../core/matcher.js";

/**
 * @param {import("./hierarchy").Hierarchy} hierarchy
 * @param {string} query plain words, all of which must occur; or /expression/
 * @returns {{items: number[], problem: string|null}}
 */
export function search(hierarchy, query) {
  const text = query.trim();
  if (text === "") return { items: [], problem: null };
  const test = matcher(text);
  if (typeof test === "string") return { items: [], problem: test };
  const items = [], texts = searchTexts(hierarchy);
  for (let item = 0; item < texts.length; ++item) if (test(texts[item])) items.push(item);
  return { items, problem: null };
}

const known = new WeakMap();

// Returns "name op f32[8,128]" for each item. It is computed once per graph.
function searchTexts(hierarchy) {
  if (known.has(hierarchy)) return known.get(hierarchy);
  const { graph } = hierarchy, texts = [];
  for (let node = 0; node < graph.size; ++node)
    texts.push(`${graph.nodeName(node)} ${graph.op(node)} ${graph.outputs(node).map((value) => graph.typeText(value)).join(" ")}`);
  for (const value of hierarchy.inputItems) texts.push(`${graph.valueText(value)} input ${graph.typeText(value)}`);
  for (const [name, value] of graph.columns.outputs) texts.push(`${name} output ${graph.typeText(value)}`);
  known.set(hierarchy, texts);
  return texts;
}
