// Computes the width of a text in the font of the graph's blocks as the sum of its characters' widths. That is fast enough for
// every node of a large graph, and equal texts have equal widths, so equal layers can share a layout.

export const kFamily = "system-ui, 'DejaVu Sans', sans-serif";
const kMean = 7; // used if nothing can be measured

const known = new Map();
let context = null;

/** Returns the width in pixels at a font size of 12 px. */
export function textWidth(text) {
  let width = 0;
  for (let i = 0; i < text.length && width < 1000; ++i) width += characterWidth(text[i]);
  return width;
}

function characterWidth(character) {
  let width = known.get(character);
  if (width === undefined) known.set(character, (width = measured(character)));
  return width;
}

function measured(character) {
  if (typeof document === "undefined") return kMean;
  if (context === null) {
    context = document.createElement("canvas").getContext("2d");
    context.font = `12px ${kFamily}`;
  }
  return context.measureText(character).width;
}
