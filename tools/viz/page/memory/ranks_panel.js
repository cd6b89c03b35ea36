// Shows the memory of each rank of a mesh, and the data that it sends.
import { element } from "../core/dom.js";
import { bytes, count } from "../core/format.js";
import { Table } from "../core/table.js";
import { blockColors } from "../core/theme.js";

const kHues = { arena: 215, parameter: 140, optimizer: 32, buffer: 275, cache: 190, random: null, step: null };

/** @param {import("../data").MeshPlan} mesh */
export function ranksPanel(mesh) {
  const rows = mesh.ranks.map((rank, i) => rankRow(rank, i)), roles = [...new Set(mesh.ranks.flatMap((rank) => rank.state_bytes.map(([role]) => role)))];
  const columns = [{ title: "Rank", value: (row) => row.rank, number: true }, ...["arena", ...roles].map((part) => ({ title: part, value: (row) => row.parts.get(part) ?? 0, text: (row) => bytes(row.parts.get(part) ?? 0), number: true })),
    { title: "together", value: (row) => row.total, text: (row) => bytes(row.total), number: true }];
  const most = Math.max(1, ...rows.map((row) => row.total));
  return element("section", { class: "ranks", "aria-label": "Memory of each rank" }, element("h3", {}, `Each of ${count(mesh.rank_count, "rank")} (${mesh.axes}${mesh.zero > 0 ? `, zero ${mesh.zero}` : ""})`),
    element("p", { class: "muted" }, mesh.traffic.map(({ axis, calls, bytes: sent }) => `In a run each sends ${bytes(sent)} along '${axis}', in ${count(calls, "exchange")}.`).join(" "), mesh.rank_count > rows.length ? ` The first ${rows.length} are shown.` : ""),
    element("div", { class: "legend inline" }, ["arena", ...roles].map((part) => element("span", {}, element("span", { class: "swatch", style: { background: color(part) } }), part))),
    element("div", { class: "rank-bars", "aria-hidden": "true" }, rows.map((row) => element("div", { class: "rank-bar" }, element("span", {}, `rank ${row.rank}`), element("div", {}, [...row.parts].map(([part, size]) => element("div", { title: `${part}: ${bytes(size)}`, style: { width: `${(100 * size) / most}%`, background: color(part) } })))))),
    new Table("Memory of each rank", columns).use(rows).root);
}

function rankRow({ arena_bytes, state_bytes }, rank) {
  const parts = new Map([["arena", arena_bytes], ...state_bytes]);
  return { rank, parts, total: [...parts.values()].reduce((sum, size) => sum + size, 0) };
}

function color(part) {
  const { fill, border } = blockColors(kHues[part] ?? null, true);
  return kHues[part] === undefined ? border : fill;
}
