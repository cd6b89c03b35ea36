// Draws a histogram of one side, or of two sides over each other, as SVG.
import { element, shortened, svg } from "../core/dom.js";
import { digits } from "../core/format.js";
import { lineColor } from "../core/theme.js";

const kWidth = 640, kHeight = 200, kBottom = 24;

/** Draws both sides over the same edges. Values that are not finite are counted in a text. */
export function histogram({ edges, a, b, a_special, b_special }, nameA, nameB) {
  if (edges.length === 0) return element("p", { class: "muted" }, `No finite value${special(a_special)}`);
  const most = Math.max(1, ...a, ...b), sides = [a, b].filter((side) => side.length > 0), left = edges[0], wide = edges[edges.length - 1] - left || 1;
  const x = (value) => ((value - left) / wide) * kWidth, bars = sides.flatMap((side, which) => side.map((number, i) => {
    const high = Math.log1p(number) / Math.log1p(most) * (kHeight - kBottom);
    return svg("rect", { x: x(edges[i]), y: kHeight - kBottom - high, width: Math.max(0.5, x(edges[i + 1]) - x(edges[i]) - 0.5), height: high, fill: lineColor(which), "fill-opacity": sides.length > 1 ? 0.5 : 0.85 },
      svg("title", {}, `${digits(edges[i])} to ${digits(edges[i + 1])}: ${number.toLocaleString("en")}`));
  }));
  const ends = [0, 0.25, 0.5, 0.75, 1].map((share) => svg("text", { x: share * kWidth, y: kHeight - 6, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, digits(left + share * wide)));
  const legend = sides.map((_, which) => element("span", {}, element("span", { class: "swatch", style: { background: lineColor(which) } }), `${shortened([nameA, nameB][which])}${special([a_special, b_special][which])}`));
  return element("figure", { class: "histogram" }, element("figcaption", {}, "How often each value occurs (heights are logarithmic)"), svg("svg", { viewBox: `0 0 ${kWidth} ${kHeight}`, class: "lines", role: "img", "aria-label": sides.length > 1 ? "Histogram of both sides" : "Histogram" }, svg("g", { class: "axes" }, ends), bars), element("div", { class: "legend inline" }, legend));
}

function special(counts) {
  const found = [["NaN", counts.nan], ["+∞", counts.positive_infinity], ["−∞", counts.negative_infinity], ["0", counts.zero ?? 0]].filter(([, number]) => number > 0);
  return found.length > 0 ? ` (${found.map(([name, number]) => `${number.toLocaleString("en")} ${name}`).join(", ")})` : "";
}
