// Colors of the page's theme, of kinds of ops and of a scale. Text on any of them has a contrast of at least 4.5 to 1.

const kKinds = [
  { name: "communication", hue: 190, pattern: /^(all_reduce|all_gather|reduce_scatter|all_to_all|broadcast)$/ },
  { name: "product", hue: 215, pattern: /linear|matmul|gemm|conv|einsum|logits|^(lstm|gru|rnn)$/i },
  { name: "attention", hue: 275, pattern: /attention|rope|rotary/i },
  { name: "norm", hue: 165, pattern: /norm/i },
  { name: "loss and reduction", hue: 355, pattern: /softmax|entropy|loss|reduce|sum|mean|max|min|arg|topk|sort|pool/i },
  { name: "lookup", hue: 110, pattern: /embedding|gather|scatter|index|one_hot/i },
  { name: "update", hue: 325, pattern: /update|adam|sgd|lion|muon|clip_/i },
  { name: "movement", hue: null, pattern: /reshape|transpose|slice|concat|expand|broadcast|cast|pad|split|squeeze|flatten|permute|identity|copy|resize|tile|depthtospace|spacetodepth/i },
  { name: "constant", hue: 60, pattern: /^(full|arange|constant|random|dim_value|shape|uniform|normal|bernoulli|dropout_mask)/i },
  { name: "elementwise", hue: 32, pattern: /./ },
];

const kKnown = new Map();

/** Returns the kind of an op by its name. */
export function kindOf(op) {
  if (!kKnown.has(op)) kKnown.set(op, kKinds.find((kind) => kind.pattern.test(op)) ?? kKinds[kKinds.length - 1]);
  return kKnown.get(op);
}

export const kindNames = kKinds.map((kind) => kind.name);

const dark = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : { matches: false, addEventListener() {} };
let chosen = null;

export function isDark() {
  return chosen === null ? dark.matches : chosen === "dark";
}

/** Sets the theme: "light", "dark", or null for the system's setting. */
export function chooseTheme(name) {
  chosen = name;
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

const listeners = new Set();

/** Calls `use` whenever colors change. */
export function onThemeChange(use) {
  listeners.add(use);
}

dark.addEventListener("change", () => chosen === null && chooseTheme(null));

/** Returns fill, border and text colors of a block with this hue; null: gray. `strong`: for blocks that may be a pixel wide. */
export function blockColors(hue, strong = false) {
  const saturation = hue === null ? 0 : 1;
  if (isDark())
    return { fill: `hsl(${hue ?? 220} ${saturation * 34 + 6}% ${strong ? 36 : 24}%)`, border: `hsl(${hue ?? 220} ${saturation * 45 + 6}% 58%)`, text: "#f2f4f8" };
  return { fill: `hsl(${hue ?? 220} ${saturation * 72 + 8}% ${strong ? 78 : 92}%)`, border: `hsl(${hue ?? 220} ${saturation * 45 + 6}% 50%)`, text: "#16202e" };
}

export function opColors(op, strong = false) {
  return blockColors(kindOf(op).hue, strong);
}

/** Returns a hue for a name without a kind. Equal names get equal hues. */
export function hueOfName(name) {
  let hash = 7;
  for (const character of name.slice(0, 200)) hash = (hash * 31 + character.codePointAt(0)) % 100003;
  return (hash * 137) % 360;
}

// The scale from low to high: pale yellow over orange to dark violet, with steadily falling lightness (light theme).
const kScale = [[253, 246, 215], [252, 205, 130], [240, 138, 84], [196, 72, 96], [122, 30, 104], [60, 12, 80]];

/** Returns a color for a share of 0 to 1. */
export function scaleColors(share) {
  const at = Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0)) * (kScale.length - 1);
  const low = Math.min(kScale.length - 2, Math.floor(at)), part = at - low;
  const rgb = kScale[low].map((value, i) => Math.round(value + (kScale[low + 1][i] - value) * part));
  const light = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 130;
  return { fill: `rgb(${rgb.join(" ")})`, border: isDark() ? "#c6cbd6" : "#6b7280", text: light ? "#16202e" : "#ffffff" };
}

/** Returns a color of the page's theme by the name of its custom property. */
export function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Returns a color for a line in a chart. People with color vision deficiencies can tell them apart (Okabe and Ito, 2008). */
export function lineColor(i) {
  const light = ["#0072b2", "#d55e00", "#007f5f", "#a8347f", "#8a6d00", "#3b3b98", "#56717d"];
  const bright = ["#56b4e9", "#e69f00", "#2fbf95", "#e78ac3", "#f0e442", "#9ea8ff", "#b8c4cc"];
  const colors = isDark() ? bright : light;
  return colors[i % colors.length];
}
